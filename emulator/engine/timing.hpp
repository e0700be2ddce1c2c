// The discrete-event model of time (conformance/beside/timing/simulate.py, units.py) on the engine: the same
// events, the same sums in the same order, so that every figure is the same bit by bit. Warps, CTAs, phases,
// operations and steps are numbers here; conformance/beside/timing/tables.py numbers them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timing_random.hpp"

namespace tileproof::timing {

// clang-format off: it does not settle on a form of this list.
#define TILEPROOF_TIMING_FIGURES(X) \
  X(branch) X(shuffle) X(vote) X(shared_load) X(global_load) X(constant_load) X(special_register) \
  X(uniform) X(transcendental) X(other) X(read_operands) X(addition_operands) X(addition_rate) \
  X(addition_rate_all) X(addition_line) X(addition_single) X(addition_queue) X(read_rate) \
  X(read_rate_all) X(l2_overlap) X(shared_rate) X(quarter_pass) X(shared_beside_mma) \
  X(transcendental_rate) X(barrier) X(barrier_per_warp) X(barrier_look) X(fence) X(memory_barrier) \
  X(memory_barrier_global) X(tmem_alloc) X(register_change) X(cluster_barrier) X(arrive) \
  X(arrive_remote) X(wake) X(wake_lane) X(copy_latency) X(copy_rate) X(copy_issue) \
  X(remote_store_latency) X(remote_store_rate) X(remote_store_scattered) X(store_rate) \
  X(store_rate_all) X(store_read) X(store_done) X(mma_latency) X(mma_issue) X(commit) \
  X(tmem_load_latency) X(tmem_rate) X(tmem_store_latency) X(l2_bytes) X(memory_rate)
// clang-format on

enum Figure : int {
#define X(name) name,
  TILEPROOF_TIMING_FIGURES(X)
#undef X
      FIGURES
};

// What serves requests; the first is none.
enum class Unit : int {
  None,
  TensorCore,
  Copies,
  RemoteStores,
  BulkStores,
  L2,
  L2Additions,
  L2Reads,
  L2Stores,
  Port,
  Memory,
  SharedMemory,
  Tmem,
  Transcendental,
  NamedBarriers,
  LoadStore,
  Other,
  Units
};
constexpr int kUnits = static_cast<int>(Unit::Units), kParts = 4;
constexpr const char* kUnitNames[kUnits] = {"",
                                            "tensor core",
                                            "copies",
                                            "remote stores",
                                            "bulk stores",
                                            "L2",
                                            "L2 additions",
                                            "L2 reads",
                                            "L2 stores",
                                            "port to L2",
                                            "memory",
                                            "shared memory",
                                            "TMEM",
                                            "ex2 and the like",
                                            "named barriers",
                                            "load and store",
                                            "other"};

enum class Does : int { Load, Store, Addition, Exchange, Copy, Mma, Commit, RemoteStore, Other };
enum class Kind : int { Other, Mbarrier, Named, Cluster };  // of a phase
enum class What : int {                                     // of an instruction that a unit serves
  Other,
  Addition,
  TmemLoad,
  TmemStore,
  Transcendental,
  SharedLoad,
  SharedStore,
  CopyGroup,
  GlobalLoad,
  GlobalStore
};

enum Flag : int64_t {
  kStraight = 1,
  kPlain = 2,
  kServed = 4,
  kStepped = 8,
  kLoops = 16,
  kEnds = 32,
  kGuard = 64,
  kOneLane = 128,
  kClusterWait = 256,
  kFence = 512,
  kFenceOfCta = 1024
};

struct Code {
  int64_t line, stall, boards, flags, figure, what, writes, reads, opcode, root, line_number, bytes;
};
struct Block {
  int64_t first, end, loops;
};
struct Passage {
  int64_t block, lanes, line, before, begin, end, next;
};
struct WarpOf {
  int64_t cta, scheduler, slot, passages, count;
};
struct Step {
  int64_t at, waits, after_copies, roots, arrives, arrive_count, issues, issue_count;
};
struct Group {  // steps, passes or touched lines of a warp at a line
  int64_t warp, line_number, first, count, line;
};
struct Operation {
  int64_t does, amount, cta, line, pair, feeds, feed_count, reads, read_count, places, place_count;
};
struct Rates {  // of an operation: an MMA's clocks and those of its operands; how scattered a store is
  double clocks, operands, scattered;
};
struct Touched {
  double lines, single, sectors;
};

// A program and the work of a run, as every simulation of it reads them.
struct Program {
  std::vector<Code> code;
  std::vector<Block> blocks;
  std::vector<WarpOf> warps;
  std::vector<Passage> passages;
  std::vector<Step> steps;
  std::vector<Group> step_groups, pass_groups, touched_groups;
  std::vector<std::array<int64_t, 2>> arrives;  // phase, whether it is another CTA's
  std::vector<int64_t> issues, feeds, reads, places;
  std::vector<std::array<int64_t, 2>> phases;  // kind, contributions
  std::vector<Operation> operations;
  std::vector<Rates> rates;
  std::vector<double> passes;
  std::vector<Touched> touched;
  std::vector<int64_t> twins;
  std::vector<uint8_t> does;  // by the root of an opcode and roots of a step, whether it does the step
  int64_t root_sets = 0, ctas = 0, slots = 0, lines = 0;
  std::unordered_map<int64_t, int32_t> steps_at, passes_at, touched_at;  // groups by warp and line

  void finish();
  int64_t key(int64_t warp, int64_t line_number) const { return warp * lines + line_number; }
};

struct Origin {
  int32_t warp = 0;
  Unit unit = Unit::None;
  int64_t line = 0;
  double issued = 0, began = 0, done = 0;
};
struct Busy {
  int32_t cta;
  Unit unit;
  double clocks;
};
struct UnitSpan {
  int64_t unit, cta, line;
  double begin, end;
};
struct WaitSpan {
  int64_t warp, phase, opcode, line;  // one of phase and opcode, the other is -1
  double begin, end;
};
struct Completed {
  int64_t phase;
  double time;
  Origin by;
};

// What a simulation shows: `simulate.Timed`.
struct Result {
  double clocks = 0;
  std::vector<std::pair<int64_t, double>> ends;
  std::vector<std::vector<double>> log_times;
  std::vector<std::vector<int64_t>> log_lines;
  std::vector<WaitSpan> waits;
  std::vector<Completed> completed;
  std::vector<Busy> busy;
  std::vector<UnitSpan> spans;
  std::vector<std::pair<int64_t, int64_t>> remaining;  // line, steps without machine code
  std::array<bool, FIGURES> used{};
};

struct Figures {
  std::array<double, FIGURES> values;
  std::array<bool, FIGURES>* used;
  double operator[](int64_t figure) const {
    (*used)[static_cast<size_t>(figure)] = true;
    return values[static_cast<size_t>(figure)];
  }
};

struct Later;

// The clock of a simulation: what happens, in order.
class Host {
 public:
  virtual void later(double time, const Later& what) = 0;
  virtual void contribute(double time, int64_t phase, const Origin& origin) = 0;

 protected:
  ~Host() = default;
};

// What an operation does at a later clock: its bytes pass L2, or arrive in shared memory.
struct Later {
  enum Type : int { Contribute, Read, Land } type;
  int64_t operation = 0, phase = 0, warp = 0;
  Origin origin{};
  double issued = 0, latency = 0, busy = 0;
};

class Units {
 public:
  Units(const Program& program, const Figures& figures, bool alone, double working_set, Result& out,
        Host& host);
  double serve(int64_t cta, Unit unit, double time, double clocks, int64_t line, int64_t part = 0,
               int64_t parts = 1);
  double ahead(int64_t cta, double time);
  double port_clocks(const Touched& what);
  std::pair<double, double> add(int64_t cta, const Touched& what, double time, int64_t line);
  double shared(int64_t cta, int64_t scheduler, double passes, double time, int64_t line);
  void start(int64_t operation, int64_t warp, double time);
  void run(const Later& what, double time);
  double copies_done(int64_t warp) const { return copies_[static_cast<size_t>(warp)]; }

 private:
  struct Operands {
    std::vector<double> begins, ends, shares;
  };
  double& free(int64_t cta, Unit unit, int64_t part = 0) {
    return free_[static_cast<size_t>((cta * kUnits + static_cast<int>(unit)) * kParts + part)];
  }
  void busy(int64_t cta, Unit unit, double clocks);
  std::pair<double, double> of_port(const Touched& what);
  std::pair<double, double> read(int64_t cta, double bytes, double time, int64_t line);
  std::pair<double, double> l2(int64_t cta, bool additions, double sent, double done, double missed,
                               double time, int64_t line);
  double through(int64_t cta, double passes, double time, int64_t line);
  double beside(const Operands& operands, double time, double clocks);
  void finish(const Operation& op, const Origin& origin, double done);
  void mma(const Operation& op, const Rates& rates, double time);
  void copy(int64_t number, int64_t warp, double time);
  void read_of(int64_t number, int64_t warp, double issued, double time, double latency, Unit unit,
               double busy);
  void land(int64_t number, const Origin& origin, double time, double latency);
  void store(const Operation& op, int64_t warp, double time);
  double remote_clocks(int64_t number);
  void remote(int64_t number, int64_t warp, double time);

  const Program& program_;
  const Figures& f_;
  bool alone_;
  double missing_ = 0;  // the share of accesses that L2 does not hold
  Result& out_;
  Host& host_;
  std::vector<double> free_, tensor_done_, copies_;
  std::vector<Operands> operands_;
  std::vector<int32_t> busy_at_;
};

// One simulation. `order`: the seed of the order of what happens at the same clock; below 0: issue order.
Result simulate(const Program& program, const std::array<double, FIGURES>& figures, bool alone, int64_t order,
                double working_set);

}  // namespace tileproof::timing
