// The machine while it runs one cluster: warps, CTAs, asynchronous operations, and the engine that drives
// them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "certificate.hpp"
#include "config.hpp"
#include "findings.hpp"
#include "listener.hpp"
#include "memory.hpp"
#include "poison.hpp"
#include "enumerations/atomics.hpp"
#include "enumerations/hang.hpp"
#include "register_record.hpp"
#include "resident.hpp"
#include "tensormap.hpp"
#include "unordered.hpp"
#include "watch.hpp"

namespace tileproof {

struct Apart;
class Engine;
class Grids;
struct GridRecord;
class Races;
class Scheduler;
enum class Use : uint8_t;
struct Change;

// An asynchronous operation between issue and completion. Operations with the same queue complete in order
// (the tcgen05 pipeline of one thread); queue 0 is unordered.
// What an access reads that it should not see: nothing, poison that is followed, or bytes whose read is an
// error.
enum class Unseen : uint8_t { No, Followed, Error };

struct AsyncOp {
  uint64_t seq = 0;
  uint64_t actor = 0;  // its name in a schedule (schedule.hpp)
  uint64_t step = 0;   // place in its pipeline; of an unordered operation, 1 for the second half of a store
  uint64_t queue = 0;
  const char* engine = "";
  int64_t amount = 0;     // of work: bytes of a copy, mma_amount of an MMA; 0: not told
  bool by_phase = false;  // its completion lets no group go on but by completing a phase of an mbarrier
  Origin origin;
  Cluster* cluster = nullptr;
  int32_t source_rank = 0;
  std::function<void()> complete;
  std::vector<TmemWrite> writes;  // cells of tensor memory that it marked
  std::shared_ptr<View> view;     // the race checker's
};

// How strong a memory access is (PTX ISA 8.5, 8.7).
// kCollective: one access that stands for all lanes of the warp. kForCopy: made at issue in place of a copy
// that reads the bytes itself, by its own proxy.
enum : uint8_t {
  kStrong = 1,
  kAcquires = 2,
  kReleases = 4,
  kAtomic = 8,
  kCollective = 16,
  kForCopy = 32,
  kFails = 64
};
// From kScopeBit on the scope of a strong one, as of a fence.
constexpr int kScopeBit = 8;
enum Scope : uint8_t { kNoScope, kScopeCta, kScopeCluster, kScopeGpu, kScopeSys };

// What a launch did with an instruction: some lane executed it; of a branch also which ways lanes went.
enum : uint8_t { kRan = 1, kTaken = 2, kFellThrough = 4 };
// While the launch runs, in the same place: the instruction is handed to FirstColumns.
constexpr uint8_t kFollowed = 8;
constexpr uint8_t kRecorded = 16;   // its results are kept by RegisterRecord
constexpr uint8_t kFragments = 32;  // it accesses registers that wgmma has as D or A
constexpr uint8_t kSlowly = kFollowed | kRecorded | kFragments;

// One executing instruction: the handler's view of the machine.
struct Exec {
  Engine& e;
  Cta& cta;
  Warp& w;
  Split* s;
  uint8_t* regs;
  const uint8_t* consts;
  uint32_t mask;
  const Instr* instr;
  uint16_t order = 0;  // of the access that the handler makes: kStrong and so on
  // What a load finds unwritten, from a handler that follows it; null: it is an error there and then.
  Unwritten* unwritten = nullptr;
  bool storing = false;  // local memory is looked up for a store
  bool adding = false;   // the access is of a reduction without a result

  template <class T>
  const T* src(int32_t off) const {
    return reinterpret_cast<const T*>(off >= 0 ? regs + off : consts + ~off);
  }
  template <class T>
  T* dst(int32_t off) const {
    return reinterpret_cast<T*>(regs + off);
  }
  int lane() const { return __builtin_ctz(mask); }
  // Lanes whose guard predicate lets the instruction execute.
  uint32_t guard() const {
    if (instr->pred < 0) return ~0u;
    const uint32_t p = *reinterpret_cast<const uint32_t*>(regs + instr->pred);
    return instr->pred_neg ? ~p : p;
  }
  // .aligned: every live thread of the warp executes it together. False: wait for the others, or a fault.
  // `all`: none of them may have exited either.
  bool whole_warp(bool all = true);
  void tell_skippable();
  inline Origin origin(int l) const;

  // One thread's access, checked: bounds, alignment, initialisation, pending asynchronous writes.
  // Null after a fault that stops the launch.
  const uint8_t* load(Space space, uint64_t address, uint32_t size, int lane);
  uint8_t* store(Space space, uint64_t address, uint32_t size, int lane);
  uint8_t* global(uint64_t address, uint32_t size, int lane, bool write, bool read);
  uint8_t* shared(uint64_t address, uint32_t size, int lane, bool write, bool cluster_window);
  // Bytes of the parameters that the caller never set are told; null unless the handler follows them.
  const uint8_t* check_params(uint64_t address, uint32_t size, int lane);
  // A load of some bytes that nobody wrote (`written` is false): told to the handler, and poison.
  template <class F>
  const uint8_t* partly(const uint8_t* data, uint32_t size, F&& written, PoisonId set);
  size_t local_place(int lane, uint64_t address) const;
  const uint8_t* poison_in_local(size_t at, uint32_t size);
  // The CTA that a shared address names; null (with a finding) when there is none.
  Cta* shared_owner(uint64_t address, int lane, bool cluster_window);
};

class Engine {
 public:
  Engine(const Program& program, GlobalMemory& memory, Config config);
  ~Engine();

  void run();
  // Takes a cluster that has not started off the grid, where the launch grants such claims.
  std::optional<Dim3> claim_cluster();

  const Program& program;
  GlobalMemory& memory;
  Config config;
  FindingSink sink;
  Counters counters;
  std::vector<uint8_t> executed;  // of each instruction of the program: kRan and so on
  PoisonLedger poisons;
  std::string printf_text;
  std::map<std::string, uint64_t> cut;  // what was left out of the output, and how much
  std::vector<Capture> tap_records;
  std::unique_ptr<RegisterRecord> recorded;                 // where results are asked for
  std::set<std::tuple<int32_t, uint32_t, uint32_t>> inits;  // CTA rank, offset, count of each mbarrier.init
  std::set<std::tuple<int32_t, uint32_t, int64_t>> announced;  // and the bytes of each phase's expect_tx
  Obligations obligations;                                     // of the race checker's certificate
  std::vector<Doubt> doubts;
  bool sums = false;  // floats were added in memory in an order that nothing fixes
  Additions additions;
  TensorMapCache maps;
  std::mt19937_64 rng;
  std::vector<std::unique_ptr<Cluster>> live;  // the resident clusters, by their slots
  std::unique_ptr<Trace> trace;                // null: not asked for
  bool stopped = false;
  bool mixed_groups = false;      // the kernel has tcgen05 instructions of both values of .cta_group
  Unseen unseen = Unseen::No;     // of what the access that listeners get reads
  bool interrupted = false;       // by a signal: Python raises its exception
  uint32_t threads_used = 1;      // that ran clusters
  uint64_t progress = 0;          // counts effects that another thread could see
  const Cluster* hung = nullptr;  // is as it was when a hang or a livelock was found
  std::unique_ptr<Scheduler> scheduler;

  void error(const std::string& code, const std::string& message, const Origin& at, uint64_t address = 0) {
    sink.report(Severity::Error, code, message, at, address);
  }
  // An error after which real hardware would not go on: the launch stops.
  void fault(const std::string& code, const std::string& message, const Origin& at, uint64_t address = 0) {
    error(code, message, at, address);
    stopped = true;
  }
  // Whether two CTAs of the launch fit onto one processor.
  bool fits_twice(const Cta& cta) const;
  // Whether a CTA fits beside it that has so much shared memory, its reserved bytes included, and warps.
  bool fits_with(const Cta& cta, size_t shared, size_t warps) const;
  void note(const std::string& code, const std::string& message, const Origin& at) {
    sink.report(Severity::Note, code, message, at);
  }
  void warn(const std::string& code, const std::string& message, const Origin& at, uint64_t address = 0) {
    sink.report(Severity::Warning, code, message, at, address);
  }

  // ---- values that nobody wrote (poison_flow.cpp)
  // An error for each read in the set: its value matters, as what `by` uses it for.
  void poison_used(PoisonId set, const Instr* by, const char* how);
  // The same for lanes of a register, which is then as if it were written.
  void use_poison(Warp& w, const Instr& i, int32_t offset, uint32_t lanes, const char* how);
  // A lane of a register holds poison, in these bits (null: all).
  void mark_poison(Warp& w, int32_t offset, int lane, const uint8_t* bits, PoisonId set);
  // Reads behind the bytes of shared memory that hold stored poison; `fresh`: others were never written.
  PoisonId poison_in(const Cta& cta, uint32_t offset, uint32_t size, bool& fresh);
  // Poison was stored in these bytes: they are as if nobody had written them.
  void store_poison(Cta& cta, uint32_t offset, const uint8_t* bits, uint32_t size, PoisonId set);

  // Work of a handler beside its instruction, in branches: so the clock is looked at in time.
  void spend(uint64_t work, const Origin& at) {
    looks_ += work;
    if (looks_ >= next_look_) [[unlikely]]
      look_at_the_clock(at);
  }
  // Memory of the host that grows while the launch runs; `release` gives it back.
  void hold(uint64_t bytes, const Origin& at);
  void release(uint64_t bytes) { held_ -= bytes; }
  // Bytes between the two halves of a store.
  std::shared_ptr<std::vector<uint8_t>> held_bytes(size_t n, const Origin& at);

  // The one door for asynchronous operations: the schedule policy decides when `complete` runs.
  void issue(const char* engine, uint64_t queue, const Origin& origin, std::function<void()> complete,
             std::vector<TmemWrite> writes = {}, int64_t amount = 0, bool by_phase = false);
  bool early() const { return config.policy == Policy::Early; }
  void complete_queue(uint64_t queue);
  // The cells that the operations of a queue are still going to write.
  void each_write_to_come(uint64_t queue, const std::function<void(const TmemWrite&)>& f) const;
  // Completes the TMEM stores that are going to write a cell; false when there are none, and under strict.
  bool finish_stores_to(const Cta& cta, int lane, int column);

  // mbarrier state machine (PTX ISA 9.7.13.15).
  void barrier_arrive(Cta& cta, uint32_t offset, uint32_t count, const Origin& at);
  // mbarrier.arrive_drop: the phases to come expect that many fewer.
  void barrier_drop(Cta& cta, uint32_t offset, uint32_t count, const Origin& at);
  void barrier_expect(Cta& cta, uint32_t offset, int64_t bytes, const Origin& at);
  void barrier_complete_tx(Cta& cta, uint32_t offset, int64_t bytes, const Origin& at);
  Mbarrier* barrier_at(Cta& cta, uint32_t offset, const Origin& at);

  // Checked accesses of the asynchronous engines.
  const uint8_t* async_read_global(uint64_t address, uint32_t size, const Origin& at);
  // False after a fault.
  bool async_store_global(uint64_t address, const uint8_t* data, uint32_t size, const Change& change,
                          const Origin& at);
  // A reduction without a result, of checked bytes at `cells`. Apart, it is kept until the cluster's turn.
  void reduce_global(Reduction op, AtomicType type, bool flushes, uint64_t address, uint8_t* cells,
                     const uint8_t* operands, uint32_t bytes);
  // Whether this cluster runs beside others (clusters_apart.hpp).
  bool apart() const { return apart_ != nullptr; }
  // Apart, before an access: false, and the launch stops here, if it depends on another cluster.
  bool meets_nobody(const GlobalBuffer& b, uint64_t address, uint64_t size, Use use);
  bool async_read_shared(Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                         const char* who);
  bool shared_range(Cta& cta, uint32_t offset, uint32_t size, const Origin& at, const char* who);
  // Before a bulk store reads its source: its CTA may have exited, which is told and, but under strict, not
  // the end: the bytes are still there for read_shared. False: the launch stops.
  bool store_may_read(Cta& cta, uint32_t offset, const Origin& at, const char* who);
  // Bytes inside a CTA's shared memory, checked but for the CTA's exit.
  bool read_shared(Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at, const char* who);
  void async_write_shared(Cta& cta, uint32_t offset, const uint8_t* data, uint32_t size, bool was_pending,
                          const Origin& at);

  // The resident cluster that has this CTA.
  Cluster& cluster_at(Dim3 cta) const;

  // Tells an event to all who listen.
  template <class... P, class... A>
  [[gnu::always_inline]] void tell(void (Listener::*event)(P...), A&&... args) {
    if (listeners_.empty()) [[likely]]
      return;
    for (Listener* l : listeners_) (l->*event)(args...);
  }
  // Whether anybody listens: to be asked only where making the arguments takes work.
  bool heard() const { return !listeners_.empty(); }
  // Tells of an atomic operation as a row, if all who listen take it so.
  bool tell_row(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size);
  void exit_lanes(Warp& w, uint32_t lanes, const Instr* at);
  // Lanes `wanted` must execute this instruction together: true when split s has them all (others waiting at
  // the same pc are merged into it), else s is parked.
  bool gather_lanes(Warp& w, Split& s, uint32_t wanted);
  void cluster_barrier_check(Cluster& cluster);
  void named_barrier_check(Cta& cta, int id);
  // Reads TMEM for a tcgen05.ld whose registers are now needed.
  void finish_tmem_load(Warp& w, PendingTmemLoad& load);
  void finish_tmem_loads(Warp& w);
  void release_tmem_load(Warp& w, PendingTmemLoad& load);

 private:
  friend class Scheduler;
  // What a group of lanes ran: visible operations, and whether it could go on at once.
  struct Ran {
    uint32_t steps = 0;
    bool resumable = false;
  };
  void start_cluster(Dim3 first);
  void start_next() {
    const Dim3 first = clusters_.front();
    clusters_.pop_front();
    start_cluster(first);
  }
  // One more cluster becomes resident, when there is one and it fits.
  bool start_another();
  // Time for it although those that are resident go on: they may wait for it by what counts as progress.
  bool overdue() const {
    return (!clusters_.empty() || accompanied_) && counters.warp_instructions - last_start_ > kPatience;
  }
  void retire();  // clusters whose last thread has exited
  void start_warp(Cta& cta, Warp& w, int index);
  void tell_left_over(const Cluster& cluster);
  void finish_cluster(Cluster& cluster);
  bool can_run_apart() const;
  void run_apart();  // what has not started, on several threads; or nothing is done
  void take_over(Engine& e);
  void check_outputs();
  void check_groups();
  // Runs a group until it must wait, spins, or would begin its visible operation number `most` + 1; with
  // `consult` also before the first visible operation after one that others may notice, or by other lanes.
  Ran run_split(Warp& w, size_t index, uint32_t most, bool consult);
  // Takes the oldest operation of a queue out of it.
  AsyncOp take_first(std::deque<AsyncOp>& queue);
  // Completes an operation that was taken from its queue or from the unordered operations.
  void complete(AsyncOp op);
  void enter_join(Warp& w, size_t index);
  void leave_join(Warp& w, int32_t join);
  void diverge(Warp& w, size_t index, const Instr& i, uint32_t taken);
  bool release_joins();
  void report_hang();
  std::vector<Waiter> waiters(const Cluster& cluster);
  void report_livelock(const Origin& at);
  void finish(AsyncOp& op);
  void phase_complete(Cta& cta, Mbarrier& b);
  void try_complete(Cta& cta, Mbarrier& b, const Origin& at);
  void check_pair_exit(Cta& cta, const Origin& at);
  void check_tmem_load_use(Warp& w, const Instr& i, const Origin& at);
  void poison_guard(Warp& w, const Split& s, const Instr& i, uint32_t mask);
  Step run_poisoned(Exec& x, const Instr& i);
  // An instruction of a warp with open loads or poison, or one that is followed.
  Step run_slowly(Exec& x, const Instr& i);
  Step run_followed(Exec& x, const Instr& i);
  void note_dropped_poison();
  // Ends the launch when its time is over, or for a signal.
  void look_at_the_clock(const Origin& at);

  // Work from which threads are worth their start, in warp instructions.
  static constexpr uint64_t kWorthThreads = 200'000;
  static constexpr uint64_t kPatience = 4'000'000;  // warp instructions
  std::deque<Dim3> clusters_;                       // not started: their first CTAs
  std::vector<std::unique_ptr<Cluster>> spare_;     // over, to be used again
  uint64_t started_ = 0;
  uint64_t last_start_ = 0;  // warp instructions then
  bool ended_ = false;       // a cluster's last thread has exited
  Apart* apart_ = nullptr;
  bool accompanied_ = false;  // apart: a single thread could start another cluster beside this cluster
  std::unique_ptr<Races> races_;
  std::unique_ptr<Grids> grids_;
  std::vector<uint8_t> unseen_bytes_;
  uint64_t held_ = 0;
  size_t queued_ = 0;  // operations in queues_
  std::vector<Listener*> listeners_;
  Unordered<AsyncOp> unordered_;
  std::map<uint64_t, std::deque<AsyncOp>> queues_;
  uint64_t seq_ = 0;
  uint64_t completing_queue_ = 0;  // of the operation that completes now
  Watch watch_;
  uint64_t looks_ = 0;        // work since the launch began, in branches
  uint64_t next_look_ = 0;    // at the clock
  uint64_t last_effect_ = 0;  // warp instruction count at the last progress
  uint64_t last_progress_ = 0;
};

// Visible operations, all without progress, after which a group of lanes counts as spinning.
constexpr uint32_t kSpin = 256;

// Gathers the lanes of the member mask of a .sync instruction (register or immediate in slot `off`); false
// while it has to wait for them, or after a fault.
bool sync_members(Exec& x, int32_t off);

inline size_t Exec::local_place(int lane, uint64_t address) const {
  return static_cast<size_t>(lane) * static_cast<size_t>(e.program.local_bytes) + address;
}

inline Origin Exec::origin(int l) const {
  return Origin{instr, cta.id, cta.rank, w.index, l, e.counters.warp_instructions};
}

// name -> handler, filled by the handlers_*.cpp files.
const std::unordered_map<std::string, int32_t>& handler_ids();
const std::vector<Handler>& handler_table();
int32_t branch_handler();
// The operand slots that a handler writes, by the declarations in emulator/isa/: bit k of o[k].
uint8_t written_operands(Handler handler);
struct Registrar {
  Registrar(std::initializer_list<std::pair<const char*, Handler>> entries);
};
// As Registrar, for families whose names are made by a loop.
struct GeneratedRegistrar {
  explicit GeneratedRegistrar(const std::vector<std::pair<std::string, Handler>>& entries);
};

std::string hex(uint64_t v);

}  // namespace tileproof
