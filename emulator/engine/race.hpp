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
#include "race_clock.hpp"
#include "race_phases.hpp"
#include "race_shadow.hpp"

namespace tileproof {

class Dependences;
class FirstColumns;
class Engine;

// Through what an access goes (PTX ISA 8.6, 9.7.16.6.5).
enum class Path : uint8_t {
  Generic,     // ld, st, atom, red
  Copy,        // TMA and bulk copies: the async proxy
  Tensor,      // tcgen05.mma and cp: the async proxy in shared memory, the tcgen05 pipeline in TMEM
  Warpgroup,   // wgmma: the async proxy
  Warp,        // tcgen05.ld, st, alloc and dealloc
  ThreadCopy,  // cp.async: the generic proxy, not in program order
  Store,       // st.async, red.async: likewise (PTX ISA 9.7.9.12)
  Map          // a copy's read of its tensor map: the tensormap proxy
};

enum class Place : uint8_t { Shared, Global, Tmem };

// The lane of a slot that stands for reductions by many threads.
constexpr int8_t kCrowd = 125;

// Of a kind of reduction: the result depends on the order.
constexpr uint8_t kSum = 128;

// One executed instruction, or asynchronous operation, that touched memory.
struct alignas(64) Access {
  // What two accesses are compared by, in one line of the cache.
  uint32_t agent = 0;
  Tick tick = kUnfinished;
  uint32_t lanes = 0;
  uint32_t cluster = 0;
  uint32_t shape = 0;  // of an MMA: what two pipelined ones must share
  uint32_t read = 0;   // of a load whose value is followed: its number
  Path path = Path::Generic;
  bool strong = false;     // atomic, relaxed, volatile or stronger
  bool unwritten = false;  // of a copy: of bytes that nobody wrote
  uint8_t scope = 0;       // of a strong access
  uint8_t adds = 0;        // of a reduction without a result, what it may be exchanged with: commutes_
  Tick issued = 0;         // of its warp; it may complete later
  uint32_t nth = 0;        // execution of this instruction by this warp, from 1
  Tick used = 0;           // of a tcgen05.ld not waited for: when its registers were first used
  const Instr* released = nullptr;  // the warp's first release after that
  int32_t barrier = -1, phase = 0;  // the last mbarrier wait of its warp
  Origin at;
  Decision hold{0, kNoStep};  // of a strong access: holds it back in a replay

  // Whether another access that is no reduction, and of which all lanes are in order, is in the same order.
  bool ordered_as(const Access& a) const {
    return agent == a.agent && tick == a.tick && path == a.path && cluster == a.cluster && shape == a.shape &&
           read == a.read && unwritten == a.unwritten && !strong && !a.strong && !adds && !a.adds;
  }
};

struct CopyParts;

// What the thread behind an access knows: of a running instruction, or kept from the issue of an
// asynchronous operation.
struct View {
  std::shared_ptr<const Knowledge> know;
  uint32_t agent = 0;  // its warp
  uint32_t lanes = 0;
  Tick now = 0;
  std::array<Tick, kOrders> own{};  // own accesses of each lane up to here have passed such a fence
  uint32_t pipe = 0;                // the tensor pipeline that an MMA, cp or commit goes through
  Tick pipe_tick = 0;
  Path path = Path::Generic;
  uint32_t reads = 0, writes = 0;  // records
  Origin at;
  // cp.async: the agent of the warp's copies; up to where this lane has waited for its own, and has fenced
  // since.
  uint32_t copies = 0;
  Tick copies_waited = 0, copies_fenced = 0;
  uint32_t met = 0;        // rounds of the cluster barrier that its thread has passed
  Tick together = 0;       // up to here all lanes of its warp have run
  uint64_t map = 0;        // of a read through Path::Map, its address
  Tick maps_released = 0;  // own accesses up to here have passed a fence.proxy.tensormap::generic.release
  std::shared_ptr<const CopyParts> parts;  // of a cp.async of several lanes
  int32_t wrote = -1;                      // rank of the CTA that a copy has written last
  uint32_t source = 0;                     // of a reduction: the record of its read of the source
};

// What the lanes of one cp.async knew at its issue.
struct CopyParts {
  std::vector<View> views;  // a group of lanes that know alike
  std::array<Tick, 32> waited{}, fenced{};
};

class Races : public Listener {
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
  struct Flag;
  struct OwnCopies {  // cp.async of one warp, in its ticks
    uint32_t agent = 0;
    std::array<std::vector<Tick>, 32> commits;
    std::array<Tick, 32> waited{}, fenced{};
  };
  struct Deeds {  // what a thread hands on: what it knows and has done
    const Knowledge& know;
    const std::array<Tick, kOrders>& own;
    Tick now, together, maps_released;
    const OwnCopies* copies;
  };
  struct Moment {  // the same, kept
    std::shared_ptr<const Knowledge> know;
    std::array<Tick, kOrders> own;
    Tick now, together, maps_released;
    std::unique_ptr<OwnCopies> copies;
    Deeds deeds() const { return {*know, own, now, together, maps_released, copies.get()}; }
  };
  struct Fenced {  // lanes, and their warp at their fence
    uint32_t lanes;
    std::shared_ptr<const Moment> at;
  };
  struct SeenFlag {  // as lanes have read it, with the scope of the read
    uint32_t lanes;
    std::shared_ptr<const Flag> flag;
    uint8_t scope;
  };
  struct Group {  // lanes of a warp that know the same
    uint32_t lanes = 0;
    std::shared_ptr<Knowledge> know;
    std::array<Tick, kOrders> own{};
    Tick maps_released = 0;
    uint32_t met = 0;  // rounds of the cluster barrier that they have passed, or come after lanes that have
    // The last thread fences of .cta, .cluster, .gpu or wider: what strong writes after them release.
    std::array<std::vector<Fenced>, 3> fenced;
    std::vector<SeenFlag> seen;                       // flags read since: what the next thread fence acquires
    std::shared_ptr<const FencedKnowledge> observed;  // of the last flag that a strong access of them read
    void keep(uint32_t some) {
      lanes = some;
      const auto others = [&](auto& of) { return !(of.lanes &= some); };
      std::erase_if(seen, others);
      for (auto& fences : fenced) std::erase_if(fences, others);
    }
  };
  struct BulkThread {
    int64_t committed = 0;
    std::vector<std::pair<int64_t, std::shared_ptr<View>>> pending;  // group, operation
  };
  struct Releaser {  // a CTA
    uint32_t cluster = 0;
    int32_t rank = 0;
  };
  // What strong writes of one location have released.
  struct Flag {
    Knowledge wide;     // to the whole GPU
    Releaser by;        // the last that did
    uint8_t reach = 0;  // the narrowest scope that has all who did; 0: nobody yet
    struct Narrow {
      Releaser by;
      uint8_t scope;
      Knowledge know;
    };
    std::vector<Narrow> narrow;
    std::vector<uint64_t> releasers;            // threads: agent, lane
    std::shared_ptr<const FencedKnowledge> sc;  // fences before what was written here
  };
  struct Parts {  // of a wgmma: the warps that issued it, and when
    uint64_t serial = 0;
    std::array<std::pair<uint32_t, Tick>, 4> issued{};
  };
  struct Pipe {
    uint32_t agent = 0;
    Tick tick = 0;
    std::deque<Parts> parts;  // that some warp has not waited for
    std::array<uint64_t, 4> passed{};
  };
  struct ClusterState;
  struct Overrun {  // an event that may be counted in the phase before
    PhaseEvent before, event;
    std::string text;
  };
  struct LateRead {  // a read that a later write is not ordered after: an error if its value is used
    uint32_t first, second, lanes;
    int rank;
    uint64_t address;
  };
  struct Tried {  // a wait whose result nothing asks for
    const Instr* at;
    uint32_t offset;
    Tick now;
    bool gave_up;
    std::vector<std::shared_ptr<Knowledge>> told;  // what it would have told
  };
  struct Thread {  // one warp
    uint32_t agent = 0;
    ClusterState* home = nullptr;
    Pipe release_stores;  // st.async.release: each is one tick
    uint32_t all = ~0u;
    Tick now = 1;
    std::vector<Group> groups;
    std::vector<std::shared_ptr<View>> stores;               // tcgen05.st not waited for
    std::vector<uint32_t> loads;                             // tcgen05.ld not waited for
    std::map<int, BulkThread> bulk;                          // by lane
    std::shared_ptr<OwnCopies> copies;                       // null before the first
    std::vector<uint32_t> nth;                               // by instruction
    int32_t barrier = -1, phase = 0;                         // its last successful mbarrier wait
    std::vector<Tried> tried;                                // the latest of each instruction and mbarrier
    Tick together = 0;                                       // up to here all its lanes have run
    Tick counted = 0;                                        // its last event at an mbarrier
    std::array<uint32_t, 16> rounds{};                       // of named barriers: the last that it arrived in
    std::array<std::shared_ptr<const Knowledge>, 16> given;  // by named barriers: when that was complete
    uint32_t meets = 0;  // rounds of the cluster barrier that it has arrived at
  };
  // What other CTAs give to an mbarrier: arrivals of .cluster scope, arrivals without a scope, completions of
  // copies and commits (those only where scopes are told apart).
  enum Far : size_t { kArrivals, kDefaultArrivals, kCompletions, kFar };
  struct Barrier {
    uint32_t agent = 0;
    uint32_t far_agent = 0;  // of the copies of other CTAs
    uint32_t init = 0;       // access
    int8_t init_lane = 0;
    uint32_t init_round = 0;  // of the cluster barrier: the first that follows the init in execution
    uint32_t phases = 0;      // complete
    Knowledge gather;
    bool has_commits = false;
    Clock commits, committed;  // arrived so far, and in complete phases
    uint32_t last_commit = 0;  // access of its own CTA's last commit that arrived
    PhaseEvent delivered;      // the last delivery or arrival of copies; tick: phases complete after it
    uint32_t needed = 0;       // phases that are complete when that has been counted
    uint32_t waited = 0;       // phases that a thread has waited for
    std::shared_ptr<Knowledge> done;
    std::array<std::shared_ptr<Knowledge>, kFar> far, far_done;  // null before the first
    std::set<uint32_t> checked;                                  // warps that know of the init
    Phases events;
    bool asked = false;            // a thread has waited
    std::vector<Overrun> unasked;  // the first, while nobody has waited: it matters to who waits later
    // Of the last copies whose bytes came, in turn: `gather` has their kRuns.
    std::array<std::shared_ptr<const Knowledge>, 8> issued;
    uint32_t next_issued = 0;
  };
  struct Rounds {  // what a cluster barrier's rounds add up: in the open round, and up to each complete round
    Clock open;
    std::vector<std::shared_ptr<const Clock>> complete;
  };
  struct Meeting {  // a named or cluster barrier
    Knowledge gather;
    std::vector<std::pair<uint32_t, Tick>> came, last;  // agents, of a named one: this round, the last one
    std::shared_ptr<Knowledge> done;                    // by the last round of a cluster barrier
    std::vector<PhaseEvent> arrived, arrived_last;      // at a named barrier, as `came` and `last`
    uint32_t rounds = 0;                                // complete
    // Of a cluster barrier, by .relaxed arrivals: what was ordered before a thread that arrives by barriers
    // of its CTA, and that with its own accesses.
    Rounds settled, preceded;
  };
  // cta_group::2 instructions of a CTA; units are of 32 columns.
  struct PairState {
    std::vector<uint32_t> parts;            // its parts so far
    std::array<uint32_t, 16> allocated{};   // by unit: its alloc, from then on
    std::array<uint32_t, 16> twin_freed{};  // its twin's dealloc, until its own
    // What its threads have done to columns that only it has freed, not yet its twin: (slot, writes), by
    // unit.
    std::array<std::vector<std::pair<Slot, bool>>, 16> left;
  };
  struct CtaState {
    std::vector<Thread> warps;
    std::unordered_map<uint32_t, Barrier> barriers;
    std::array<Meeting, 16> named;
    Shadow shared, tmem;
    Clock at_exit;
    std::vector<std::pair<uint32_t, int8_t>> remote;  // accesses of other CTAs, with their lanes
    PairState pair;
    PhaseEvent allocated;                // the last alloc or dealloc of tensor memory
    PhaseEvent given;                    // the last alloc
    std::array<uint32_t, 16> columns{};  // by unit of tensor memory: its alloc, from then on
    // By collector buffer: the products that no later one is ordered after, and whether they fill or read it.
    std::array<std::vector<std::pair<PhaseEvent, bool>>, 5> collectors;
    bool triggered = false;  // griddepcontrol.launch_dependents was executed
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

  struct ClusterState {
    std::vector<CtaState> ctas;
    Meeting meeting;
    uint32_t serial = 0;
    uint32_t base = 0, agents = 0;
  };

  Thread& thread(const Warp& w);
  Thread& thread_at(const Origin& at) const;
  ClusterState& cluster(const Cta& cta);
  uint32_t new_agent(ClusterState& c);
  CtaState& state(const Cta& cta);
  Knowledge& mutable_knowledge(Group& g);
  void split(Thread& t, uint32_t lanes);
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
  bool unknown_ = false;        // of what a copy or an MMA reads nobody wrote a part
  bool uniform_ = false;        // both accesses touch the same bytes of the granule
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

}  // namespace tileproof
