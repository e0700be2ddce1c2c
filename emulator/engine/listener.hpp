// Who wants to know what the engine does: the race checker and the trace. The engine and its handlers tell
// every event through Engine::tell, and never ask who listens.
#pragma once

#include <cstdint>
#include <span>

#include "enumerations/fences.hpp"
#include "enumerations/mbarrier.hpp"

namespace tileproof {

struct AsyncOp;
struct Change;
struct Cluster;
struct CopyArrival;
struct Cta;
struct Exec;
struct GlobalBuffer;
struct Instr;
struct Mbarrier;
struct Origin;
struct PendingTmemLoad;
struct Split;
struct View;
struct Warp;
struct WarpgroupMma;

// One virtual an event. Where the tense matters, "arrive" comes before the barrier counts the arrival, "done"
// when a round or phase is complete, "pass" when a thread's wait for it has succeeded.
class Listener {
 public:
  virtual ~Listener() = default;

  // ---- clusters
  virtual void start_cluster(Cluster&) {}
  virtual void finish_cluster(Cluster&) {}

  // ---- threads
  virtual void exit(const Warp&, uint32_t /*lanes*/, const Instr*) {}
  virtual void warp_sync(const Warp&, uint32_t /*lanes*/) {}
  // Lanes execute a .sync or .aligned instruction together, which orders their execution, not their accesses.
  virtual void lanes_part(const Warp&, uint32_t /*taken*/) {}  // at a branch
  virtual void lanes_meet(const Warp&, uint32_t /*lanes*/) {}
  // Lanes of a group come to a branch, those of `taken` go to its target; only where the path is asked for.
  virtual void branch(const Warp&, uint32_t /*lanes*/, const Instr*, uint32_t /*taken*/) {}
  // griddepcontrol.
  virtual void grid_wait(const Exec&) {}
  virtual void grid_launch_dependents(const Exec&) {}
  // `spaces` of fence.proxy.async: 1 shared, 2 global memory; of a thread fence its scope.
  virtual void fence(const Exec&, Fence, int32_t /*spaces*/) {}
  // fence.proxy.tensormap::generic, with the map's address of an .acquire; a copy that completes now has read
  // its map.
  virtual void map_release(const Exec&) {}
  virtual void map_acquire(const Exec&, uint32_t /*lanes*/, uint64_t /*address*/) {}
  virtual void map_read(const GlobalBuffer&, uint64_t /*address*/) {}
  virtual void map_prefetch(const Exec&, int /*lane*/, const GlobalBuffer&, uint64_t /*address*/) {}
  // A group of lanes begins to wait, at the instruction that it will run again; and its wait is over.
  virtual void wait_begins(const Warp&, Split&, const Instr*) {}
  virtual void wait_ends(const Warp&, Split&, const Instr*) {}

  // ---- mbarriers
  virtual void mbarrier_init(const Exec&, Cta&, uint32_t /*offset*/, int /*lane*/) {}
  virtual void mbarrier_inval(const Exec&, Cta&, uint32_t /*offset*/, int /*lane*/) {}
  // Lanes of the running instruction are about to arrive at one mbarrier, or to expect bytes there.
  virtual void mbarrier_arrive(const Exec&, Cta&, uint32_t /*offset*/, uint32_t /*lanes*/, MbarrierScope) {}
  // A tcgen05.commit is about to arrive.
  virtual void mbarrier_commit(Cta&, uint32_t /*offset*/) {}
  // Counted: arrivals, expected bytes, and bytes that an asynchronous operation delivers, of the phase under
  // way.
  virtual void mbarrier_arrived(const Cta&, const Mbarrier&, uint32_t /*count*/, const Origin&) {}
  virtual void mbarrier_expected(const Cta&, const Mbarrier&, int64_t /*bytes*/, const Origin&) {}
  virtual void mbarrier_deliver(Cta&, const Mbarrier&, int64_t /*bytes*/, const Origin&) {}
  virtual void mbarrier_done(Cta&, const Mbarrier&, const Origin&) {}
  // Lanes waited for one mbarrier with success, and go another way without.
  virtual void mbarrier_pass(const Exec&, Cta&, uint32_t /*offset*/, uint32_t /*lanes*/, MbarrierScope) {}
  // Lanes tried a wait of which nothing asks whether it had success: they go the same way without.
  virtual void mbarrier_tried(const Exec&, Cta&, uint32_t /*offset*/, uint32_t /*lanes*/, bool /*success*/) {}
  // All lanes of the group waited with success.
  virtual void mbarrier_passed(const Exec&, uint32_t /*offset*/, uint32_t /*parity*/) {}

  // ---- named and cluster barriers
  virtual void named_arrive(const Exec&, uint32_t /*id*/) {}
  virtual void named_done(const Cta&, uint32_t /*id*/) {}
  virtual void named_pass(const Warp&, uint32_t /*id*/) {}
  virtual void cluster_arrive(const Exec&, bool /*releases*/) {}
  virtual void cluster_done(const Cluster&) {}
  virtual void cluster_pass(const Warp&, uint32_t /*lanes*/) {}

  // ---- asynchronous operations
  virtual void issue(AsyncOp&) {}
  virtual void completing(const AsyncOp&) {}  // they nest: a completion may issue what completes at once
  virtual void completed(const AsyncOp&) {}
  // Bulk groups of one thread: the next operation issued joins the open group; commit; a wait is over.
  virtual void bulk_open(const Warp&, int /*lane*/) {}
  virtual void bulk_commit(const Warp&, int /*lane*/) {}
  virtual void bulk_pass(const Warp&, int /*lane*/, int64_t /*allowed*/, bool /*reads_only*/) {}
  // cp.async: the next operation issued is the copies of the running instruction; the lane whose part
  // completes now; groups; an arrival that tracks the copies so far, and that comes now.
  virtual void copy_open(const Exec&) {}
  virtual void copy_lane(int /*lane*/) {}
  virtual void copy_commit(const Warp&, uint32_t /*lanes*/) {}
  virtual void copy_pass(const Warp&, uint32_t /*lanes*/, int64_t /*allowed*/) {}
  virtual void copy_track(const Exec&, CopyArrival&) {}
  virtual void copy_arrive(Cta&, uint32_t /*offset*/, const CopyArrival&, int /*lane*/) {}
  // tcgen05.ld at its issue and when a register of it is first used; tcgen05.wait::ld, ::st.
  virtual void tmem_load(const Exec&, PendingTmemLoad&, int /*column*/) {}
  virtual void tmem_load_used(const Warp&, const PendingTmemLoad&) {}
  virtual void tmem_loads_done(const Warp&) {}
  virtual void tmem_stores_done(const Warp&) {}
  // wgmma: a warp issues its part of an operation; warps whose part reads now; a warp's wait for the
  // operations up to a serial is over.
  virtual void warpgroup_issue(const Exec&, WarpgroupMma&) {}
  virtual void warpgroup_part(const WarpgroupMma&, uint32_t /*warps*/) {}
  virtual void warpgroup_pass(const Warp&, uint64_t /*serial*/) {}
  virtual void tmem_alloc(const Exec&) {}
  virtual void tmem_relinquish(const Exec&) {}
  // An instruction of a lane whose accesses are not all told.
  virtual void accesses_untold(const Exec&, int /*lane*/, const char* /*why*/) {}
  // tcgen05.mma of a lane; `held`: it fills or reads the collector buffer.
  virtual void collector(const Exec&, int /*lane*/, int /*buffer*/, bool /*held*/) {}
  // The first column is in shared memory at `offset`; the allocation is the CTA's `serial`-th. `fixed`: no
  // other column is possible.
  virtual void tmem_base(const Exec&, uint32_t /*offset*/, int /*base*/, int /*columns*/, int /*serial*/,
                         bool /*fixed*/) {}
  virtual void tmem_dealloc(const Exec&, int /*column*/, int /*columns*/) {}
  // This CTA's part of a cta_group::2 instruction, before it takes effect; the other CTA of the pair.
  virtual void pair_alloc(const Exec&, Cta& /*twin*/, int /*column*/, int /*columns*/) {}
  virtual void pair_dealloc(const Exec&, Cta& /*twin*/, int /*column*/, int /*columns*/) {}
  virtual void pair_relinquish(const Exec&, Cta& /*twin*/) {}

  // ---- accesses: of a thread, and of the asynchronous operation that completes now
  virtual void generic_shared(const Exec&, Cta&, uint32_t /*offset*/, uint32_t /*size*/, int /*lane*/,
                              bool /*write*/) {}
  virtual void generic_global(const Exec&, const GlobalBuffer&, uint64_t /*address*/, uint32_t /*size*/,
                              int /*lane*/, bool /*write*/) {}
  // Of an atomic operation whose lanes, from its first on, each write `size` bytes behind those of the lane
  // before: whether `atomic_row` may be told once in place of every lane's accesses, which depends on who
  // else was there. A listener to generic_global that does not say so hears each lane.
  virtual bool takes_row(const Exec&, const GlobalBuffer&, uint64_t /*address*/, uint32_t /*size*/) {
    return false;
  }
  virtual void atomic_row(const Exec&, const GlobalBuffer&, uint64_t /*address*/, uint32_t /*size*/) {}
  virtual void async_shared(Cta&, uint32_t /*offset*/, uint32_t /*size*/, bool /*write*/) {}
  // Reads of 16 bytes at each offset, all of them written: in place of `async_shared` for each.
  virtual void async_chunks(Cta&, std::span<const uint32_t> /*offsets*/) {}
  // `by`: the reduction; null: none.
  virtual void async_global(const GlobalBuffer&, uint64_t /*address*/, uint32_t /*size*/, bool /*write*/,
                            const Change* /*by*/) {}
  // The operation that completes now changes its bytes atomically; before its accesses.
  virtual void async_atomic() {}
  // It is about to store to global memory with .release semantics at this Scope.
  virtual void async_release(uint64_t /*address*/, uint8_t /*scope*/) {}
  // What two MMAs of one pipeline must share to follow each other in order; before its accesses.
  virtual void mma_shape(uint32_t) {}
  // TMEM lanes `units` from 16 * sixteenth on, in each of the columns; by a tcgen05.ld when `load` is not
  // null.
  virtual void tmem(Cta&, int /*sixteenth*/, uint16_t /*units*/, int /*column*/, int /*columns*/,
                    bool /*write*/, const PendingTmemLoad* /*load*/) {}
};

}  // namespace tileproof
