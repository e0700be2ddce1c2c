// The scheduler: which runnable group of lanes, or which pending completion, moves next.
//
// A scheduling point lies before each visible operation (memory, barrier, asynchronous issue, exit): what a
// warp does between two of them no other thread can tell.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "machine.hpp"

namespace tileproof {

// What moves. The name is the same in every schedule of a launch, as far as the thread that issues an
// operation takes the same way.

// CTA of the grid : 24, kind : 2, warp : 5, lane : 5, serial : 28. `lane` is the lowest of a group of lanes,
// or the issuing one; `serial` counts the unordered operations of one thread.
constexpr uint64_t actor_key(uint64_t cta, ActorKind kind, int warp, int lane, uint64_t serial) {
  return cta << 40 | static_cast<uint64_t>(kind) << 38 | static_cast<uint64_t>(warp & 31) << 33 |
         static_cast<uint64_t>(lane & 31) << 28 | (serial & 0xfffffff);
}

// One that can move now: a group of lanes, or the oldest operation of a pipeline, or any unordered operation.
struct Candidate {
  uint64_t actor = 0;
  uint64_t step = 0;  // of a group: visible operations done << 8 | tries of the next one; see AsyncOp::step
  Warp* warp = nullptr;   // null: an operation
  uint32_t split = 0;     // index in warp->splits
  uint32_t position = 0;  // of a group: slot << 14 | rank << 10 | warp << 5 | lowest lane
  uint32_t lanes = 0;
  const AsyncOp* op = nullptr;
  std::deque<AsyncOp>* queue = nullptr;  // whose oldest the operation is; null: it is an unordered one
  bool group() const { return warp != nullptr; }
};

// All that can move, as one list: groups, unordered operations in order of issue, queues. Unordered
// operations are many: policies request the best one, and iterate over `groups` and `heads` only.
class Candidates {
 public:
  explicit Candidates(const Unordered<AsyncOp>& ops) : unordered(ops) {}
  std::vector<Candidate> groups;
  std::vector<Candidate> heads;  // the oldest operation of each queue
  const Unordered<AsyncOp>& unordered;

  size_t size() const { return groups.size() + operations(); }
  size_t operations() const { return unordered.size() + heads.size(); }
  Candidate operator[](size_t n) const;
  static Candidate of(const AsyncOp& op);
  size_t place(const AsyncOp& op) const { return groups.size() + unordered.place_of(op.seq); }  // unordered
  size_t head(size_t n) const { return groups.size() + unordered.size() + n; }

  // The operation of the highest priority, of equal ones the first in the list; size() where there is none.
  template <class Priority>
  size_t best(Ranked<AsyncOp>& ranked, Priority priority) const {
    const AsyncOp* op = ranked.best(unordered, priority);
    size_t at = op ? place(*op) : size();
    uint64_t most = op ? priority(*op) : 0;
    for (size_t k = 0; k < heads.size(); ++k)
      if (const uint64_t p = priority(*heads[k].op); at == size() || p > most) {
        at = head(k);
        most = p;
      }
    return at;
  }
};

// In the step of a decision: not held back, but its try_wait returns false where it would be suspended (its
// time limit passes at once, PTX ISA 9.7.13.15.16).
constexpr uint64_t kGivesUp = 1ull << 63;

// A decision that was followed: who was held back, where, and for how long.
struct Held {
  Decision decision;
  bool gave_up = false;          // kGivesUp, not held back
  const Instr* instr = nullptr;  // the operation that waits, or that issued the completion
  const char* engine = nullptr;
  Wait wait = Wait::None;  // what the group had waited for, where its wait was over
  int32_t barrier = -1;    // byte offset of an mbarrier or id of a named one
  int64_t phase = -1;      // of that mbarrier
  uint64_t from = 0;       // scheduling points
  uint64_t to = 0;         // 0: it never moved again
};

// How an order of candidates is chosen where nothing is held back: the running group goes on until it must
// wait, then the next in turn; completions before any group or only when no group can move.
struct Preference {
  bool completions_first = false;
  bool newest_first = false;
  static Preference of(CompletionOrder o) {
    return {o == CompletionOrder::FirstOldest, o == CompletionOrder::LastNewest};
  }
};

// The group that ran last. It goes on while it can; once it had to wait, or its lanes met others, it is the
// last in turn.
struct Turn {
  uint32_t position = 0;
  bool over = false;
  // Groups in the order of their positions, from this one or from the one after it; wraps around.
  uint32_t distance(uint32_t to) const { return to - position - (over ? 1 : 0); }
  void moved(const Candidate& c, bool resumable) {
    if (!c.group()) return;
    position = c.position;
    over = !resumable;
  }
};

// The free group next in turn; size() where there is none.
template <class Free>
size_t next_group(const Candidates& c, Turn turn, Free free) {
  size_t group = c.size();
  uint32_t nearest = ~0u;
  for (size_t i = 0; i < c.groups.size(); ++i) {
    if (!free(c.groups[i])) continue;
    const uint32_t distance = turn.distance(c.groups[i].position);
    if (group != c.size() && distance >= nearest) continue;
    nearest = distance;
    group = i;
  }
  return group;
}

// As next_group; `operation` gives the completion that would be the next one. In the wanted order, the first.
template <class Free, class Operation>
size_t pick_in_order(const Candidates& c, Preference order, Turn turn, Free free, Operation operation) {
  size_t n = order.completions_first ? operation() : next_group(c, turn, free);
  if (n == c.size()) n = order.completions_first ? next_group(c, turn, free) : operation();
  return n;
}

// A priority by age alone: the oldest first, or the newest. The highest bit stays clear.
inline uint64_t by_age(const AsyncOp& op, bool newest_first) {
  return (newest_first ? op.seq : ~op.seq) & ~(1ull << 63);
}

// The oldest operation, or the newest; size() where there is none.
size_t pick_operation(const Candidates& c, bool newest_first);

// The deterministic base of replays: candidates in that order; those held back come last, the longest held
// first, and stay so.
class Base {
 public:
  explicit Base(Preference order) : order_(order) {}
  void start_machine() {
    groups_.clear();
    ops_.clear();
    ranked_.forget();
    turn_ = {};
  }
  void start_cluster(const Cluster& cluster);
  size_t pick(const Candidates& c);
  void hold(const Candidate& c);
  void moved(const Candidate& c, bool resumable) { turn_.moved(c, resumable); }

 private:
  uint32_t held(const Candidate& c) const { return c.group() ? groups_[c.position] : held(*c.op); }
  uint32_t held(const AsyncOp& op) const;
  uint64_t priority(const AsyncOp& op) const;
  Preference order_;
  Turn turn_;
  uint32_t holds_ = 0;            // so far
  std::vector<uint32_t> groups_;  // by position: when held back, 0 when not
  std::unordered_map<uint64_t, uint32_t> ops_;
  Ranked<AsyncOp> ranked_;
};

class Scheduler {
 public:
  explicit Scheduler(Engine& engine);
  virtual ~Scheduler() = default;
  static std::unique_ptr<Scheduler> make(Engine& engine);

  virtual void start_machine();  // no cluster is resident
  virtual void start_cluster(const Cluster& cluster);
  void run();                          // until no cluster is resident or the launch stops
  void drain(const Cluster& cluster);  // completes what is pending
  void name(AsyncOp& op);              // gives an operation that is being issued its actor and step
  void queues_changed() { heads_known_ = false; }
  // The operation that completes from here on; returns the one before.
  const AsyncOp* completing(const AsyncOp* op) { return std::exchange(completing_, op); }
  const AsyncOp* completing() const { return completing_; }
  // The visible operation that a group executes now.
  Decision running(const Warp& w, const Split& s) const;

  // A try_wait whose phase is not complete: does it return false rather than suspend the group?
  bool gives_up(Warp& w, const Split& s);

  std::vector<Decision> decisions;  // recorded
  void decide(Decision made);
  std::vector<Held> holds;  // followed

 protected:
  virtual size_t pick(const Candidates& c) = 0;
  // After a move; a group that diverged may lead with another lane than before.
  virtual void moved(const Candidate&) {}
  // Visible operations that the candidate may run before the next choice.
  virtual uint32_t limit(const Candidate&) { return kQuantum; }
  // A time limit that passes at once, of the group's next visible operation.
  virtual bool expires(const Candidate&) { return false; }
  // Drawn from the launch's seed, for policies that are: in a quarter of the schedules never; else one try
  // in 2, 4 or 8; else the first try of every wait, or of half or a quarter of the instructions, for all
  // warps alike. A function of the group and its step, not of what was drawn before.
  bool drawn_expiry(const Candidate& c) const;
  // The candidate runs on whatever its operations do to others.
  virtual bool sticky(const Candidate&) const { return false; }

  static constexpr uint32_t kQuantum = 4096;  // visible operations without a wait, then others come first
  Engine& e;
  const Candidate* last_ = nullptr;  // moved last
  bool resumable_ = false;           // it could go on at once
  uint32_t ran_ = 0;                 // visible operations that it ran

 private:
  Candidate group(Warp& w, size_t index) const;
  void name(Candidate& c) const;
  void collect();
  // The oldest operation of each queue, or of each of one cluster.
  void collect_heads(const Cluster* of = nullptr);
  void move(const Candidate& c);
  void choose_and_move();
  bool ready(Warp& w, Split& s);
  bool expire_try_waits();
  bool unstick();

  Candidates candidates_;
  bool heads_known_ = false;
  bool groups_known_ = false;  // those of the last collection can still move, and no others
  bool some_rest_ = false;     // of the last collection: groups that spin, or that used up their quantum
  Candidate moved_;
  uint32_t run_length_ = 0;  // visible operations of the last group in a row
  std::unique_ptr<Base> recorder_;
  const AsyncOp* completing_ = nullptr;
  std::unordered_map<uint64_t, uint32_t> serials_;  // issued so far, by thread or pipeline
  int idle_rounds_ = 0, expirations_ = 0;
  uint64_t idle_progress_ = ~0ull, phases_ = 0;
};

// Handlers whose effect or result depends on, or is seen by, other threads or asynchronous engines.
bool visible(const Instr& i);

uint64_t mix(uint64_t a, uint64_t b);  // a hash

}  // namespace tileproof
