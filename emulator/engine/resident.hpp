// What is resident: warps with their groups of lanes, CTAs, clusters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bulk_groups.hpp"
#include "cp_async.hpp"
#include "enumerations/hang.hpp"
#include "enumerations/trace.hpp"
#include "poison.hpp"
#include "program.hpp"
#include "shared.hpp"
#include "tmem_writes.hpp"

namespace tileproof {

// Lanes of a diverged warp that must meet again at rpc (the branch's immediate post-dominator).
struct Join {
  int32_t rpc = -1;
  uint32_t expected = 0;
  uint32_t arrived = 0;
  int32_t parent = -1;
};

// A group of lanes of one warp that share a pc. Each is scheduled on its own, as with independent thread
// scheduling.
struct Split {
  int32_t pc = 0;
  int32_t rpc = -1;  // of its join, -1 when there is none
  int32_t join = -1;
  uint32_t mask = 0;
  Wait wait = Wait::None;
  bool dead = false;
  bool timed_out = false;  // the suspended try_wait may return false now
  bool gathered = false;   // a .sync instruction has all its lanes
  // what it waits for
  int32_t bar_rank = -1;
  uint32_t bar_offset = 0;
  uint32_t parity = 0;
  uint32_t token = 0;       // generation of a named or cluster barrier at arrival
  uint32_t frees_seen = 0;  // TensorMemory::frees when an alloc found no room
  bool arrived = false;
  bool only_arrives = false;     // bar.arrive: waits for the other lanes of its warp only
  uint32_t yes = 0, voters = 0;  // what bar.red found
  uint32_t lanes_wanted = 0;
  int32_t bulk_allowed = 0;
  bool bulk_read_only = false;
  bool polled = false;  // its last test of an mbarrier failed: bar_offset and parity say which
  // for the scheduler
  uint32_t tries = 0;          // of the visible operation at pc that ended in a wait
  uint32_t idle = 0;           // visible operations since anybody's progress
  uint64_t seen_progress = 0;  // Engine::progress at the last of them
  // the wait that the trace shows as begun
  bool wait_traced = false;
  struct {
    Object object;
    int32_t barrier, phase, parity;
  } traced{Object::None, -1, -1, 0};
};

struct PendingTmemLoad {
  const Instr* instr = nullptr;
  uint32_t mask = 0;
  uint32_t taddr = 0;
  std::shared_ptr<View> view = nullptr;  // the race checker's
  bool done = false;                     // the registers hold the values
  bool released = false;                 // no longer waited for
};

struct alignas(64) RegisterBlock {
  uint8_t bytes[64];
};

struct Warp {
  Cta* cta = nullptr;
  int32_t index = 0;
  uint32_t live = 0;
  std::vector<RegisterBlock> registers;
  std::vector<Split> splits;
  std::vector<Join> joins;
  std::vector<uint32_t> parts;  // lanes that no branch has parted since they were last together; empty: all
  std::map<int, BulkThread> bulk;           // by lane
  std::unique_ptr<CopyState> copies;        // cp.async; null before the first
  std::vector<PendingTmemLoad> tmem_loads;  // not waited for
  // By offset / 64: index + 1 into tmem_loads; empty before the first load.
  std::vector<uint16_t> load_of_register;
  int open_loads = 0;                         // of tmem_loads, those not released
  PoisonRegisters poison;                     // values that nobody wrote
  bool slow = false;                          // open_loads > 0, or some register is poison
  int32_t maxnreg = 0;                        // registers of a thread, 0 when the launch fixes none
  uint32_t cluster_arrived = 0;               // lanes that arrived in this cluster-barrier round
  uint32_t cluster_owes = 0;                  // lanes that have not waited since they arrived, in any round
  std::array<uint32_t, 32> cluster_tokens{};  // the round that a lane arrived in
  std::array<uint32_t, 32> steps{};           // visible operations done, by the group's lowest lane
  std::vector<uint8_t> local;                 // [lane][local_bytes]
  std::unordered_map<size_t, PoisonId> local_poison;      // by place in local
  std::vector<std::pair<uint32_t, const Instr*>> exits;   // lanes that exited, and where
  std::vector<std::pair<const Instr*, uint64_t>> passes;  // barrier waits passed, and when last
  std::vector<std::pair<const Instr*, uint32_t>> apart;   // which lanes executed this, while some had parted
  void pass(const Instr* at, uint64_t now) {
    for (auto& p : passes)
      if (p.first == at) {
        p.second = now;
        return;
      }
    passes.push_back({at, now});
  }
  void part(uint32_t taken);
  void meet(uint32_t lanes);
  bool parted() const;
  uint32_t executed_by(const Instr* at, uint32_t lanes);
  uint8_t* regs() { return registers.empty() ? nullptr : registers[0].bytes; }
};

struct Warpgroup;

// A collector buffer of the tensor core, as the program may rely on it.
struct Collector {
  bool filled = false;
  uint64_t matrix = 0;  // descriptor or address
  uint32_t shape = 0;
};

// Columns that cta_group::2 has allocated in both CTAs of a pair; bits of `allocated` and `freed`: 1 the even
// one has done its part, 2 the odd one.
struct PairAllocation {
  int base, columns;
  uint8_t allocated, freed;
};

struct Cta {
  Cluster* cluster = nullptr;
  Dim3 id{0, 0, 0};
  int32_t rank = 0;
  std::vector<Warp> warps;
  SharedMemory shared;
  TensorMemory tmem;
  std::array<NamedBarrier, 16> named{};
  std::array<Collector, 5> collectors{};               // a, b0 .. b3
  std::vector<std::shared_ptr<Warpgroup>> warpgroups;  // that have executed wgmma; null others
  uint32_t live_threads = 0;
  int32_t register_pool = 0;   // given back by setmaxnreg.dec
  bool claim_refused = false;  // it has seen a clusterlaunchcontrol request refused
  bool exited() const { return live_threads == 0; }
  // cta_group::2 alloc / dealloc / relinquish reached so far, in order: the n-th of both CTAs of a pair
  // belong together
  std::vector<const Instr*> pair_ops;
  std::vector<PairAllocation> pair_allocations;  // of the pair, in its even CTA
};

// Whether an instruction of CTA `rank` may access the columns of `cta`: they are allocated, or the part of
// the other CTA of a pair has allocated them for both, and CTA `cta` has not done its own part
// (Races::after_alloc).
bool may_access(const Cta& cta, int rank, int column, int columns, bool strict);

struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;
  Dim3 first{0, 0, 0};
  uint32_t slot = 0;    // among those that are resident
  uint64_t serial = 0;  // in the launch, from 0
  uint32_t barrier_generation = 0;
  uint32_t barrier_arrived = 0;  // threads
  uint32_t live_threads = 0;
  // Null when the cluster has no such rank.
  Cta* cta(int32_t rank) {
    return rank >= 0 && static_cast<size_t>(rank) < ctas.size() ? ctas[static_cast<size_t>(rank)].get()
                                                                : nullptr;
  }
};

}  // namespace tileproof
