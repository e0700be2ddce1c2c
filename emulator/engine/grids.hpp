// Grids that may be in flight together (programmatic dependent launch, streams that nothing orders): what a
// grid, or a copy of the host, wrote and read in global memory, and the check of another one against it.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine.hpp"

namespace tileproof {

struct GridPlace {  // an instruction of one warp that accessed global memory
  Origin at;
  std::string instruction, source;
  int32_t line = 0;
  bool atomic = false;
  uint32_t adds = 0;  // of a reduction without a result, its kind (reduction_kind); 0: order matters
};

// A grid's accesses, by byte, and what it did about its neighbours in the stream. It outlives the launch.
struct GridRecord {
  struct Free {
    void operator()(uint32_t* p) const { std::free(p); }
  };
  // Places of one byte each, 0 for none; pages that nobody touches are not held.
  using Ids = std::unique_ptr<uint32_t[], Free>;
  struct Bytes {
    uint64_t size = 0;
    Ids wrote, read;
  };
  GridRecord() = default;
  GridRecord(const GridRecord&) = delete;
  uint64_t number = 1;  // of the launch in its stream
  std::string kernel;
  std::string where;        // which launch it is, where launches of several streams are judged
  bool dependents = false;  // griddepcontrol.launch_dependents was executed
  bool early = false;       // by a thread that knew of no griddepcontrol.wait
  bool waited = false;      // griddepcontrol.wait was executed
  // Of a CTA that allocates tensor memory: its size, and whether an allocation does not come before the
  // launch_dependents of its CTA, so that it may have to wait for columns of the next grid's CTAs.
  bool allocates_late = false;
  uint64_t shared_bytes = 0, warps = 0;
  bool certified = false, part = false;  // set by the stream: its certificate
  std::vector<GridPlace> places{1};
  std::map<std::pair<uint64_t, const uint8_t*>, Bytes> buffers;  // by address and host address

  const Bytes* find(const GlobalBuffer& b) const {
    auto it = buffers.find({b.address, b.data});
    return it != buffers.end() && it->second.size == b.size ? &it->second : nullptr;
  }
  // The host reads or writes bytes [first, first + count) of a buffer: `what` names it.
  void touch(const GlobalBuffer& b, uint64_t first, uint64_t count, bool write, const std::string& what);
  // The first of those bytes that conflicts with what was recorded: -1 for none, and its place.
  int64_t meets(const GlobalBuffer& b, uint64_t first, uint64_t count, bool write, bool atomic,
                const GridPlace** place, bool* wrote) const;
  // The first of those bytes that another kind of atomic operation than `adds` has written.
  int64_t exchanged(const GlobalBuffer& b, uint64_t first, uint64_t count, uint32_t adds,
                    const GridPlace** place) const;
};

class Grids : public Listener {
 public:
  explicit Grids(Engine& e) : e_(e) { e.config.grid_record->kernel = e.program.kernel; }

  void start_cluster(Cluster&) override;
  void grid_wait(const Exec&) override;
  void grid_launch_dependents(const Exec&) override;
  void tmem_alloc(const Exec&) override;
  // What tells other threads that the wait is over.
  void warp_sync(const Warp&, uint32_t lanes) override;
  void named_arrive(const Exec&, uint32_t id) override;
  void named_done(const Cta&, uint32_t id) override;
  void named_pass(const Warp&, uint32_t id) override;
  void cluster_arrive(const Exec&, bool releases) override;
  void cluster_done(const Cluster&) override;
  void cluster_pass(const Warp&, uint32_t lanes) override;
  void mbarrier_init(const Exec&, Cta&, uint32_t offset, int lane) override;
  void mbarrier_arrive(const Exec&, Cta&, uint32_t offset, uint32_t lanes, MbarrierScope reach) override;
  void mbarrier_commit(Cta&, uint32_t offset) override;
  void mbarrier_done(Cta&, const Mbarrier&, const Origin&) override;
  void mbarrier_pass(const Exec&, Cta&, uint32_t offset, uint32_t lanes, MbarrierScope reach) override;
  // An asynchronous operation knows what its thread knew at the issue.
  void issue(AsyncOp&) override;
  void completing(const AsyncOp&) override;
  void completed(const AsyncOp&) override;
  void copy_lane(int lane) override;
  void generic_global(const Exec&, const GlobalBuffer&, uint64_t address, uint32_t size, int lane,
                      bool write) override;
  void async_global(const GlobalBuffer&, uint64_t address, uint32_t size, bool write,
                    const Change* by) override;

 private:
  struct Told {  // one barrier: the round under way has been told, and who passes a later one
    bool now = false, before = false;
  };
  struct NamedTold {
    bool knows = false;
    uint32_t warps = 0, inherit = 0;
  };
  struct Block {
    std::vector<uint32_t> lanes;  // by warp: those ordered after a griddepcontrol.wait
    std::array<NamedTold, 16> named{};
    std::unordered_map<uint32_t, Told> mbarriers;
  };
  struct Running {
    Origin at;
    uint32_t lanes = 0;
  };
  uint32_t& lanes(const Warp& w) { return blocks_[w.cta].lanes[static_cast<size_t>(w.index)]; }
  void access(const GlobalBuffer&, uint64_t address, uint32_t size, bool write, bool atomic, bool knows,
              const Origin& at, const Change* by = nullptr);
  bool check(const InFlightGrid& earlier, const GlobalBuffer&, uint64_t address, uint32_t size, bool write,
             bool atomic, const Origin& at);
  uint32_t place(const Origin& at, bool atomic, uint32_t adds);
  void doubt_exchange(const InFlightGrid& earlier, const GlobalBuffer&, uint64_t address, uint32_t size,
                      uint32_t adds, const Origin& at);
  void doubt(const char* reason, const std::string& text, const Origin& at);
  uint32_t adds_of(const Instr*, const Change* by);

  Engine& e_;
  std::unordered_map<const Cta*, Block> blocks_;
  std::unordered_map<const Cluster*, Told> clusters_;
  std::unordered_map<uint64_t, Running> issued_;  // by AsyncOp::seq
  std::vector<Running> running_;                  // completions nest
  std::map<std::tuple<const Instr*, uint32_t, uint32_t, uint32_t, int32_t, bool, uint32_t>, uint32_t> places_;
  std::map<std::pair<const Instr*, int>, uint32_t>
      adds_;  // by the type of an asynchronous reduction; -1: none
  std::map<std::tuple<const Instr*, std::string>, size_t> doubted_;  // places of e_.doubts
};

}  // namespace tileproof
