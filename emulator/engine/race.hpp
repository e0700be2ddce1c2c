// Happens-before race checking over bytes of shared and global memory and cells of tensor memory.
//
// race_threads.cpp, race_barriers.cpp and race_async.cpp keep who knows what (vector clocks), race_access.cpp
// keeps who touched what (shadow memory), race_rules.cpp decides whether two accesses are ordered as the PTX
// ISA asks, and reports.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "findings.hpp"
#include "growing.hpp"
#include "listener.hpp"
#include "race_state.hpp"

namespace tileproof {

class Dependences;
class FirstColumns;
class Engine;

class Races : public Listener, private RaceState {
 public:
  explicit Races(Engine& engine);
  ~Races() override;

  // Dependencies, where the interpreter tells them of every instruction; null elsewhere.
  Dependences* follows() const { return follows_.get(); }
  // What is handed the instructions that are marked; null where nothing allocates tensor memory.
  FirstColumns* columns() const { return columns_.get(); }

  void start_cluster(Cluster& cluster) override;
  void finish_cluster(Cluster& cluster) override;

  void exit(const Warp& w, uint32_t lanes, const Instr* at) override;
  void warp_sync(const Warp& w, uint32_t lanes) override;
  void lanes_part(const Warp& w, uint32_t taken) override { split(thread(w), taken); }
  void lanes_meet(const Warp& w, uint32_t lanes) override;
  void fence(const Exec& x, Fence kind, int32_t spaces) override;
  void map_release(const Exec& x) override;
  void map_acquire(const Exec& x, uint32_t lanes, uint64_t address) override;
  void map_read(const GlobalBuffer& b, uint64_t address) override;
  void map_prefetch(const Exec& x, int lane, const GlobalBuffer& b, uint64_t address) override;

  void mbarrier_init(const Exec& x, Cta& cta, uint32_t offset, int lane) override;
  void mbarrier_inval(const Exec& x, Cta& cta, uint32_t offset, int lane) override;
  void mbarrier_arrive(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes,
                       MbarrierScope reach) override;
  void mbarrier_commit(Cta& cta, uint32_t offset) override;
  void mbarrier_deliver(Cta& cta, const Mbarrier& b, int64_t bytes, const Origin& at) override;
  void mbarrier_done(Cta& cta, const Mbarrier& b, const Origin& at) override;
  void mbarrier_pass(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, MbarrierScope reach) override;
  void mbarrier_tried(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, bool success) override;

  void named_arrive(const Exec& x, uint32_t id) override;
  void named_done(const Cta& cta, uint32_t id) override;
  void named_pass(const Warp& w, uint32_t id) override;
  void cluster_arrive(const Exec& x, bool releases) override;
  void cluster_done(const Cluster& cluster) override;
  void cluster_pass(const Warp& w, uint32_t lanes) override;

  void issue(AsyncOp& op) override;
  void completing(const AsyncOp& op) override;
  void completed(const AsyncOp& op) override;
  void bulk_open(const Warp&, int) override { grouped_ = true; }
  void bulk_commit(const Warp& w, int lane) override;
  void bulk_pass(const Warp& w, int lane, int64_t allowed, bool reads_only) override;
  void copy_open(const Exec& x) override;
  void copy_lane(int lane) override;
  void copy_commit(const Warp& w, uint32_t lanes) override;
  void copy_pass(const Warp& w, uint32_t lanes, int64_t allowed) override;
  void copy_track(const Exec& x, CopyArrival& arrival) override;
  void copy_arrive(Cta& cta, uint32_t offset, const CopyArrival& arrival, int lane) override;
  void tmem_load(const Exec& x, PendingTmemLoad& load, int column) override;
  void tmem_load_used(const Warp& w, const PendingTmemLoad& load) override;
  void tmem_loads_done(const Warp& w) override;
  void tmem_stores_done(const Warp& w) override;
  void warpgroup_issue(const Exec& x, WarpgroupMma& op) override;
  void warpgroup_part(const WarpgroupMma& op, uint32_t warps) override;
  void warpgroup_pass(const Warp& w, uint64_t serial) override;
  void grid_launch_dependents(const Exec& x) override;
  void tmem_alloc(const Exec& x) override;
  void tmem_relinquish(const Exec& x) override;
  void accesses_untold(const Exec& x, int lane, const char* why) override;
  void mbarrier_expected(const Cta& cta, const Mbarrier& bar, int64_t bytes, const Origin& at) override;
  void collector(const Exec& x, int lane, int buffer, bool held) override;
  void tmem_base(const Exec& x, uint32_t offset, int base, int columns, int serial, bool fixed) override;
  void tmem_dealloc(const Exec& x, int column, int columns) override;
  void pair_alloc(const Exec& x, Cta& twin, int column, int columns) override;
  void pair_dealloc(const Exec& x, Cta& twin, int column, int columns) override;
  void pair_relinquish(const Exec& x, Cta& twin) override;

  void generic_shared(const Exec& x, Cta& cta, uint32_t offset, uint32_t size, int lane, bool write) override;
  void generic_global(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size, int lane,
                      bool write) override;
  bool takes_row(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size) override;
  void atomic_row(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size) override;
  void async_shared(Cta& cta, uint32_t offset, uint32_t size, bool write) override;
  void async_chunks(Cta& cta, std::span<const uint32_t> offsets) override;
  void async_global(const GlobalBuffer& b, uint64_t address, uint32_t size, bool write,
                    const Change* by) override;
  void async_atomic() override;
  void async_release(uint64_t address, uint8_t scope) override;
  void mma_shape(uint32_t shape) override { accesses_[op_->writes].shape = shape; }
  void tmem(Cta& cta, int sixteenth, uint16_t units, int column, int columns, bool write,
            const PendingTmemLoad* load) override;

 private:
  // Two generic writes that nothing orders, or a read of what such a pair wrote and the second of them: an
  // error, unless the second leaves the bytes as they were. Its handler writes them after it has told of the
  // access.
  struct Question {
    const char* code;
    uint32_t first, second;
    Place place;
    int rank;
    uint64_t address;
    const char* missing;
    const uint8_t* memory;  // of the granule
    uint16_t units;
    std::array<uint8_t, 16> before;
    bool first_writes = true;
    bool one_store = false;  // of lanes of one instruction: the same bytes are no remark
  };
  // ---- the certificate (race_phases.cpp, race_order.cpp)
  bool reaches(const Knowledge& know, uint32_t agent, Tick tick, uint32_t lanes) const;
  bool follows(const Actor& who, const PhaseEvent& e) const;
  bool knows_phases(const Barrier& b, uint32_t phases, const Actor& who, const PhaseEvent*& e) const;
  static Actor actor(const View& v);
  std::string named(const PhaseEvent& e) const;
  void delivers_after(const Clock& exit, const Barrier& b);
  void open_phase(Severity severity, const char* code, const Cta& cta, uint32_t offset,
                  const PhaseEvent& first, const PhaseEvent& second, const std::string& message,
                  const char* missing);
  void counts(Barrier& b, const Cta& cta, uint32_t offset, const Actor& who, const PhaseEvent& event,
              bool arrives);
  void arrival_counts(const Exec& x, Thread& t, Barrier& b, const Cta& cta, uint32_t offset, uint32_t lanes);
  void completion_counts(const View& v, Barrier& b, const Cta& cta, uint32_t offset, bool arrives);
  void begins_after(const View& v, uint32_t lanes, Barrier& b);
  void wait_counts(const Exec& x, Thread& t, Barrier& b, const Cta& cta, uint32_t offset, uint32_t lanes);
  void phase_ends(Barrier& b, const Cta& cta, uint32_t offset, const Origin& at);
  void open_round(const Exec& x, uint32_t id, const PhaseEvent& first, const PhaseEvent& second);
  void never_ends(Cta& cta, uint32_t offset, const Barrier& b);
  void begins_again(const Exec& x, Barrier& b, const Cta& cta, uint32_t offset, int lane);
  Doubt& doubt(const char* reason, const Origin& at, const Origin& other, const std::string& text,
               Decision hold = {0, kNoStep});
  bool settled(const Exec& x, const PhaseEvent& last);
  void allocates(const Exec& x);
  void after_alloc(const View& v, uint32_t id, bool write, Cta& cta, int column, int columns);
  uint8_t adds_of(const Instr* i, const Change* by = nullptr);
  void strong_pair(const Access& a, const Access& b, int8_t lane, const View& v, Place place, int rank,
                   uint64_t address);
  void sum_read(const Slot& first, uint32_t second, Place place, int rank, uint64_t address);

  void acquire(const Warp& w, uint32_t lanes, const Knowledge& from, bool scoped = true);
  void release(const Exec& x, uint32_t lanes, Knowledge& to);
  void proxy_fence(const Warp& w, uint32_t lanes, bool shared, bool global);
  void own_fence(const Warp& w, uint32_t lanes, Order order);
  void thread_fence(const Warp& w, uint32_t lanes, uint8_t scope, bool sc = false);
  void fence_sc(const Warp& w, Group& g, uint8_t scope);
  void publish_sc(const Warp& w, Group& g, uint8_t scope, const Knowledge& fenced);
  void flag_sc(const Exec& x, uint64_t key, int lane, bool reads, bool write);
  void after_thread_sync(const Warp& w, uint32_t lanes);
  void flag(const Exec& x, uint64_t key, int lane, bool write);   // of a strong access
  static uint8_t distance(const Releaser& a, const Releaser& b);  // the narrowest scope that has both
  static Knowledge& released_at(Flag& f, const Releaser& by, uint8_t scope);
  Flag& changing(uint64_t key);  // a flag as no read has seen it
  void acquire_flag(const Warp& w, uint32_t lanes, const Flag& f, uint8_t scope);
  void read_map(View v, const GlobalBuffer& b, uint64_t address);
  bool passed(const View& v, const Access& a, int8_t lane, Rounds Meeting::* kept) const;
  static bool together(const Access& a, const Access& b);  // the scope of each includes the other
  void touch_tmem(const View& v, Cta& cta, int sixteenth, uint16_t units, int column, int columns,
                  bool write);
  std::shared_ptr<View> issued(const Origin& at, const char* engine, uint64_t queue);
  View pair_part(const Exec& x, Cta& twin);
  void pair_touch(Cta& cta, uint32_t id, bool write, int column, int columns);
  void pair_uses(const View& v, Cta& own, Cta& twin, int unit);
  template <class F>
  void tmem_slots(Cta& cta, int unit, F&& f);

  Thread& thread(const Warp& w);
  Thread& thread_at(const Origin& at) const;
  ClusterState& cluster(const Cta& cta);
  uint32_t new_agent(ClusterState& c);
  CtaState& state(const Cta& cta);
  Knowledge& mutable_knowledge(Group& g);
  void split(Thread& t, uint32_t lanes);
  void merge_alike(Thread& t);
  template <class F>
  void change(Thread& t, uint32_t lanes, F&& f);
  Group& group_of(Thread& t, int lane);
  void publish(const Thread& t, const Group& g, uint32_t lanes, Knowledge& to);
  void publish(const Thread& t, const Deeds& d, uint32_t lanes, Knowledge& to);
  static std::shared_ptr<const Moment> moment(const Thread& t, const Group& g);
  void raise_own(Knowledge& to, uint32_t agent, uint32_t lanes, Tick now,
                 const std::array<Tick, kOrders>& own);
  void happened(Knowledge& to, uint32_t agent, uint32_t lanes, Tick tick);
  bool tells_scopes_apart(const Cluster& cluster) const;
  void look_for_sc();
  void runs_before(Thread& t, uint32_t lanes, Knowledge& to) const;
  bool ran(const View& v, const Access& a, int8_t lane) const {
    return covered(v, kHappens, a, lane) || covered(v, kRuns, a, lane);
  }
  Knowledge& given(Barrier& b, Far by, bool far);
  void give(const View& v, Knowledge& to);
  View view_of(Thread& t, const Group& g, uint32_t lanes);
  OwnCopies& own_copies(Thread& t);
  std::shared_ptr<const CopyParts> parts_of(Thread& t, uint32_t lanes);
  void issue_copies(Thread& t, View& v);
  void publish_copies(const Thread& t, const OwnCopies& own, uint32_t lanes, Knowledge& to);
  static void fence_copies(Thread& t, uint32_t lanes);
  static void look_at_copies(const Thread& t, int lane, View& v);
  bool copy_covered(const View& v, Order order, const Access& a, uint32_t lanes) const;
  bool copy_waited(const Access& a, int8_t lane) const;
  std::shared_ptr<const Knowledge> joined(Thread& t);
  Barrier* barrier(Cta& cta, uint32_t offset);
  uint32_t after_init(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, Barrier& b, bool far = false);
  // `at_exit`: the first is a commit at the mbarrier at `offset`, whose phase nobody has waited for.
  std::string unheeded(const Access& a, const Access& b, std::string_view missing, bool at_exit,
                       uint64_t offset) const;
  uint32_t record(Thread& t, const Origin& at, uint32_t lanes, Path path);
  const View& running(const Exec& x, int lane);
  void finish(uint32_t id, uint32_t agent, Tick tick, uint32_t lanes);
  void remote(Cta& cta, uint32_t id, int8_t lane);
  void follow(const Exec& x, uint32_t id, int lane, bool write);
  void settle_reads();
  void forget_view() {
    view_stamp_ = ~0ull;
    view_.know.reset();
  }
  void knows_init(const View& v, uint32_t id, Cta& cta, uint32_t offset, bool from_afar);

  template <class S>
  void visit(S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane, bool write, const View& v,
             Place place, int rank, uint64_t address);
  // What visits of one operation have found of slots as they were: of a write that it comes after in order,
  // and of a read likewise, or that its own read stands for.
  struct Alike {
    uint64_t write = 0, read = 0;
    // A write and a read that come before it, with all lanes, by what its thread knew at the issue.
    uint32_t ordered_write = 0, ordered_read = 0;
    Readers before, after;  // of a read beside others
    // A granule without further slots, and what the access left there.
    bool repeats = false;
    uint16_t units;
    uint64_t write_before, read_before;
    Slot write_after, read_after;
    void keep(const Slot& write, const Slot& read, uint16_t of, const Cell& cell) {
      repeats = !cell.list;
      units = of;
      write_before = write.bits();
      read_before = read.bits();
      write_after = cell.write;
      read_after = cell.read;
    }
    bool again(Cell& cell, uint16_t of) const {
      if (!repeats || cell.write.bits() != write_before || cell.read.bits() != read_before || units != of)
        return false;
      cell.write = write_after;
      cell.read = read_after;
      return true;
    }
  };
  // The same for the next granule that the operation touches, where often nothing is new.
  template <class S>
  void visit_next(Alike& alike, S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane, bool write,
                  const View& v, Place place, int rank, uint64_t address);
  template <class S>
  void visit_other(Alike& alike, S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane, bool write,
                   const View& v, Place place, int rank, uint64_t address);
  bool quiet(const Slot& s, uint64_t alike, uint32_t ordered, uint16_t units, uint32_t id) const {
    return s.bits() == alike || s.record == id || !(s.units & units) || seen(s.record) ||
           (ordered && accesses_[s.record].ordered_as(accesses_[ordered]));
  }
  void remember_for(uint32_t id) {
    if (memo_for_ == id) return;
    memo_for_ = id;
    memo_.fill(0);
    stands_for_.fill(0);
  }
  template <class S>
  void read_beside(const Cell& cell, S& shadow, uint16_t units, uint32_t id, const View& v);
  template <class S>
  void put_write(S& shadow, Cell& cell, const Slot& fresh, bool both_stay);
  template <class S>
  void add_read(S& shadow, Cell& cell, Slot fresh, const View& v, Place place);
  template <class S>
  bool reads_alike(S& shadow, const Cell& cell, const Slot& first, uint32_t second, const View& v,
                   Place place, int rank, uint64_t address);
  bool adds_apart(const Slot& first, uint32_t id, const View& v);
  void crowd(std::vector<Slot>& list);
  void forget_slot(std::vector<Slot>& list);
  bool replaces(const Slot& old, Slot& fresh, const View& v, Place place) const;
  void check(const Slot& first, bool first_writes, uint32_t second, bool second_writes, const View& v,
             Place place, int rank, uint64_t address);
  void compare(const Slot& first, int8_t lane, bool first_writes, uint32_t second, bool second_writes,
               const View& v, Place place, int rank, uint64_t address);
  // Of a pair of generic writes the finding waits for the value; true then.
  void same_store(const Slot& both, Place place, int rank, uint64_t address);
  bool ask(const char* code, const Slot& first, uint32_t second, Place place, int rank, uint64_t address,
           const char* missing);
  static bool rounded(const Question& q);
  static bool unchanged(const Question& q);
  void answer();
  void unwaited(uint32_t first, bool first_writes, uint32_t second, bool second_writes, Place place, int rank,
                uint64_t address);
  bool covered(const View& v, Order order, const Access& a, int8_t lane) const;
  bool map_released(const View& v, const Access& a, int8_t lane) const;
  bool map_acquired(const View& v, const Access& a, int8_t lane) const;
  // Whose knowledge an access of that view needs: of a wgmma, that of each warp that reads.
  std::span<const View* const> readers(const View* const& v) const {
    return v->path == Path::Warpgroup ? std::span(parts_) : std::span(&v, 1);
  }
  bool seen(uint32_t id) const { return memo_[id & 7] == id; }
  void report(Severity severity, const char* code, uint32_t first, bool first_writes, uint32_t second,
              bool second_writes, Place place, int rank, uint64_t address, std::string_view missing);
  std::string mnemonic(const Instr* i) const;
  std::string wait_ld_missing(const Access& a) const;
  std::string describe(Place place, int rank, uint64_t address) const;

  Engine& e_;
  std::unique_ptr<Dependences> follows_;
  std::unique_ptr<FirstColumns> columns_;
  const Exec* writer_ = nullptr;  // the store that runs, and its lane, where dependencies are followed
  int writer_lane_ = 0;
  std::vector<LateRead> late_;
  std::vector<std::unique_ptr<ClusterState>> clusters_;  // by slot
  const Cta* state_of_ = nullptr;                        // last asked for
  CtaState* state_ = nullptr;
  Growing<Access> accesses_;
  std::unordered_map<uint64_t, Pipe> pipes_;
  std::unordered_map<uint64_t, std::shared_ptr<Flag>> flags_;
  std::set<uint32_t> released_;  // clusters that have released something in global memory
  PagedShadow global_;
  bool scoped_ = false;                  // kScoped is kept: an mbarrier of a cluster is used at .cta scope
  bool sc_ = false, narrow_sc_ = false;  // the kernel has a fence.sc; of less than .gpu scope
  uint32_t next_base_ = 0;               // of the agents of the next cluster
  size_t retired_ = 1;                   // accesses below belong to clusters that are over
  std::shared_ptr<View> op_;             // of the operation that completes now
  std::vector<std::shared_ptr<View>> outer_;  // those whose completion issued it
  View view_;
  uint64_t view_stamp_ = ~0ull;
  const Warp* view_warp_ = nullptr;
  const Group* view_group_ = nullptr;
  bool grouped_ = false;
  uint32_t copy_lanes_ = 0;         // of the cp.async issued next
  std::vector<const View*> parts_;  // of the wgmma that completes now: the warps that read
  std::vector<Question> questions_;
  // Pairs of unordered writes, the smaller record first, that left the same bytes wherever they met: true;
  // false where some bytes differ.
  std::map<std::pair<uint32_t, uint32_t>, bool> alike_;
  uint16_t nobodys_ = 0;  // bytes of the granule that nobody wrote
  uint16_t unknown_ = 0;  // bytes of the granule whose value is unknown to a copy or an MMA that reads it
  bool uniform_ = false;  // both accesses touch the same bytes of the granule
  bool asks_of_reads_ = false;  // what is written was written by another that nothing orders, perhaps alike
  // Of races that were reported: where their finding is. By the address of the code's text, which may stand
  // several times in the program: what is not here may be found all the same.
  std::map<std::tuple<const char*, const Instr*, const Instr*, int32_t>, size_t> reported_;
  std::map<std::tuple<const char*, const Instr*, const Instr*>, size_t> doubted_;
  // adds_of by instruction, 255 before it is asked for; of asynchronous reductions by instruction and type.
  std::vector<uint8_t> adds_;
  std::map<std::pair<const Instr*, int>, uint8_t> async_adds_;
  std::map<std::string, uint8_t> kinds_;  // of reductions that may be exchanged, from 1; kSum of inexact sums
  std::vector<Cell*> row_;                // of the atomic operation that runs: its granules
  // Accesses already found ordered before the current one.
  // The sum that was read last: by which record, where.
  struct Summed {
    Slot first;
    uint32_t second = 0;
    uint64_t address = 0;
  } summed_;
  // Of the last asynchronous stores whose threads knew this.
  Alike stores_;
  std::shared_ptr<const Knowledge> stores_know_;
  uint64_t told_ = 0;  // findings, doubts and questions of pairs of accesses
  uint32_t memo_for_ = 0;
  std::array<uint32_t, 8> memo_{};
  // Reads by whole warps that the current one was found to stand for as well.
  std::array<uint32_t, 8> stands_for_{};
  mutable bool for_all_lanes_ = false;  // what covered() said holds for all lanes of the warp
};

// Changes what the lanes know; groups that share their knowledge go on to share it.
template <class F>
void Races::change(Thread& t, uint32_t lanes, F&& f) {
  forget_view();
  std::shared_ptr<Knowledge> before, after;
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    if (before && g.know == before) {
      g.know = after;
      continue;
    }
    before = g.know.use_count() > 1 ? g.know : nullptr;
    f(mutable_knowledge(g));
    after = g.know;
  }
}

}  // namespace tileproof
