// The policies: each chooses one of the candidates at a scheduling point.
#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "schedule.hpp"

namespace tileproof {
namespace {

// What shares a priority, or is held back together, among operations.
enum class Grain : uint8_t { Operation, Instruction, Engine };

// The name under which an operation has its priority: a pipeline, the operation itself, its instruction in
// that CTA, or all that its warp issues to that kind of engine.
uint64_t engine_of(const AsyncOp& op, Grain grain, const Program& program) {
  switch (op.queue ? Grain::Engine : grain) {
    case Grain::Operation:
      return op.actor;
    case Grain::Instruction:
      return mix(static_cast<uint64_t>(op.origin.instr - program.code.data()) << 8 |
                     static_cast<uint64_t>(op.origin.rank),
                 2);
    case Grain::Engine:
      break;
  }
  const uint64_t pipeline = op.queue ? op.queue << 8 : engine_number(op.engine);
  return mix(pipeline, static_cast<uint64_t>(op.origin.rank) << 8 | static_cast<uint64_t>(op.origin.warp));
}

// Groups in turn, each until it must wait; "early" (completions happen at issue) and the "late" ones.
class InTurn : public Scheduler {
 public:
  InTurn(Engine& engine, Preference order) : Scheduler(engine), order_(order) {}
  void start_machine() override {
    Scheduler::start_machine();
    turn_ = {};
  }

 protected:
  size_t pick(const Candidates& c) override {
    return pick_in_order(
        c, order_, turn_, [](const Candidate&) { return true; },
        [&] { return pick_operation(c, order_.newest_first); });
  }
  void moved(const Candidate& c) override { turn_.moved(c, resumable_); }
  bool sticky(const Candidate&) const override { return !order_.completions_first; }

  Preference order_;
  Turn turn_;
};

// Completions only when no group can move, by a priority drawn for each engine, instruction or operation; a
// wait for one that comes last of all may give up meanwhile.
class LateRandom : public InTurn {
 public:
  explicit LateRandom(Engine& engine)
      : InTurn(engine, {}), seed_(engine.rng()), grain_(static_cast<Grain>(engine.rng() % 3)) {}

 protected:
  size_t pick(const Candidates& c) override {
    if (!c.groups.empty()) return InTurn::pick(c);
    return c.best(ranked_, [&](const AsyncOp& op) { return mix(engine_of(op, grain_, e.program), seed_); });
  }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  uint64_t seed_;
  Grain grain_;
  Ranked<AsyncOp> ranked_;
};

// Groups for short stretches, and completions, at random; in half of the schedules completions by a priority
// drawn for each issuing instruction, and seldom.
class Random : public Scheduler {
 public:
  explicit Random(Engine& engine) : Scheduler(engine) {
    if (e.rng() % 2) salt_ = e.rng() | 1;
    longest_ = 1u << e.rng() % 6;
  }

 protected:
  size_t pick(const Candidates& c) override {
    const size_t groups = c.groups.size(), ops = c.operations();
    if (resumable_ && ran_ < left_)
      for (size_t i = 0; i < groups; ++i)
        if (c.groups[i].position == last_->position) {
          left_ -= ran_;
          return i;
        }
    if (ops && (!groups || e.rng() % (salt_ ? 64 : 4) == 0)) {
      if (!salt_) return groups + e.rng() % ops;
      return c.best(ranked_, [&](const AsyncOp& op) {
        return mix(static_cast<uint64_t>(op.origin.instr - e.program.code.data()), salt_);
      });
    }
    left_ = static_cast<uint32_t>(1 + e.rng() % longest_);
    return e.rng() % groups;
  }
  uint32_t limit(const Candidate&) override { return left_; }
  bool sticky(const Candidate&) const override { return true; }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  Ranked<AsyncOp> ranked_;
  uint64_t salt_ = 0;     // 0 for a uniform choice
  uint32_t longest_ = 1;  // stretch of this schedule, in visible operations
  uint32_t left_ = 0;     // of the present stretch
};

// One warp, all warps of one CTA, one engine, or one cluster with its engines moves only when nothing else
// can; the others in turn, with completions first, oldest first or newest first.
class Starve : public InTurn {
 public:
  explicit Starve(Engine& engine) : InTurn(engine, {}), seed_(e.rng()) {
    const uint64_t kind = e.rng() % 16;
    victim_ = kind < 8 ? Victim::Warp : kind < 15 ? Victim::Engine : Victim::Cta;
    if (victim_ == Victim::Cta && e.config.cluster.volume() == 1) victim_ = Victim::Warp;
    const uint64_t clusters = e.config.grid.volume() / e.config.cluster.volume();
    const uint64_t together = std::min<uint64_t>({e.config.together, e.config.resident, clusters});
    if (together > 1) {
      victim_ = Victim::Cluster;
      chosen_ = mix(seed_, 5) % together;
    }
    grain_ = e.rng() % 2 ? Grain::Engine : Grain::Instruction;
    const uint64_t order = e.rng() % 3;
    order_ = {.completions_first = order == 0, .newest_first = order == 2};
  }

 protected:
  size_t pick(const Candidates& c) override {
    if (victim_ == Victim::Engine) choose_engine(c);
    const size_t n = pick_in_order(
        c, order_, turn_, [&](const Candidate& x) { return !held(x); },
        [&] {
          const size_t op = c.best(ranked_, [&](const AsyncOp& x) { return priority(x); });
          return op != c.size() && !held(c[op]) ? op : c.size();
        });
    return n != c.size() ? n : InTurn::pick(c);
  }
  bool sticky(const Candidate& c) const override { return !order_.completions_first && !held(c); }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  enum class Victim { Warp, Engine, Cta, Cluster };
  // The one with the least hash of those that have issued so far.
  void choose_engine(const Candidates& c) {
    const uint64_t before = chosen_;
    const auto look = [&](const AsyncOp& op) {
      chosen_ = std::min(chosen_, mix(engine_of(op, grain_, e.program), seed_));
    };
    for (const Candidate& x : c.heads) look(*x.op);
    if (std::exchange(rearranged_, c.unordered.rearranged()) != c.unordered.rearranged()) seen_ = 0;
    for (size_t k = c.unordered.size(); k > 0 && c.unordered[k - 1].seq > seen_; --k)
      look(c.unordered[k - 1]);
    if (!c.unordered.empty()) seen_ = std::max(seen_, c.unordered[c.unordered.size() - 1].seq);
    if (chosen_ != before) ranked_.forget();
  }
  // Of operations: those not held back come first, in the wanted order.
  uint64_t priority(const AsyncOp& op) const {
    return (held(op) ? 0 : 1ull << 63) | by_age(op, order_.newest_first);
  }
  bool held(const AsyncOp& op) const {
    if (victim_ == Victim::Cluster) return op.cluster->slot == chosen_;
    return victim_ == Victim::Engine && mix(engine_of(op, grain_, e.program), seed_) == chosen_;
  }
  bool held(const Candidate& c) const {
    if (!c.group()) return held(*c.op);
    const Dim3 block = e.config.block;
    const uint64_t ctas = e.config.cluster.volume(), warps = (block.volume() + 31) / 32;
    switch (victim_) {
      case Victim::Warp:
        return (c.position >> 10 & 15) * warps + (c.position >> 5 & 31) == seed_ % (ctas * warps);
      case Victim::Cta:
        return (c.position >> 10 & 15) == seed_ % ctas;
      case Victim::Cluster:
        return c.position >> 14 == chosen_;
      case Victim::Engine:
        return false;
    }
    return false;
  }
  uint64_t seed_;
  Victim victim_ = Victim::Warp;
  Grain grain_ = Grain::Engine;
  uint64_t chosen_ = ~0ull;  // hash of the engine, or slot of the cluster
  Ranked<AsyncOp> ranked_;
  uint64_t seen_ = 0, rearranged_ = 0;  // of the unordered operations
};

// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs, ASPLOS 2010): random priorities, and depth - 1 points at which
// the priority of who would move becomes lower than any first one. A bug of depth d among n actors and k
// points is met with probability at least 1 / (n k^(d-1)).
class Pct : public Scheduler {
 public:
  explicit Pct(Engine& engine)
      : Scheduler(engine), seed_(e.rng()), grain_(static_cast<Grain>(e.rng() % 2 * 2)) {
    const uint64_t points = std::max<uint64_t>(e.config.points, 1);
    for (uint32_t level = 1; level < e.config.depth; ++level)
      changes_.push_back({1 + e.rng() % points, level});
    std::sort(changes_.begin(), changes_.end());
  }

 protected:
  size_t pick(const Candidates& c) override {
    for (;;) {
      size_t best = c.best(ranked_, [&](const AsyncOp& op) { return priority(op); });
      uint64_t most = best != c.size() ? priority(*c[best].op) : 0;
      for (size_t i = c.groups.size(); i-- > 0;)
        if (const uint64_t p = priority(c.groups[i]); p >= most) {
          best = i;
          most = p;
        }
      if (next_ >= changes_.size() || e.counters.schedule_points + 1 < changes_[next_].first) return best;
      lower(c[best], changes_[next_].second);
      ++next_;
    }
  }
  uint32_t limit(const Candidate&) override {
    if (next_ >= changes_.size()) return kQuantum;
    const uint64_t left = changes_[next_].first - e.counters.schedule_points - 1;
    return static_cast<uint32_t>(std::clamp<uint64_t>(left, 1, kQuantum));
  }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  // Two groups of one warp share a priority: the first in the list moves.
  uint64_t priority(const Candidate& c) const { return named(c.position >> 5, mix(c.position, 1)); }
  uint64_t priority(const AsyncOp& op) const {
    const uint64_t name = engine_of(op, grain_, e.program);
    return named(name, name);
  }
  uint64_t named(uint64_t name, uint64_t when_lowered) const {
    if (!lowered_.empty())
      if (const auto it = lowered_.find(when_lowered); it != lowered_.end()) return it->second;
    return mix(name, seed_) | 1ull << 63;
  }
  void lower(const Candidate& c, uint32_t level) {
    if (!c.group()) {
      lowered_[engine_of(*c.op, grain_, e.program)] = level;
      ranked_.forget();
      return;
    }
    for (uint32_t m = c.lanes; m; m &= m - 1)
      lowered_[mix((c.position & ~31u) | static_cast<uint32_t>(__builtin_ctz(m)), 1)] = level;
  }
  uint64_t seed_;
  Grain grain_;
  std::vector<std::pair<uint64_t, uint32_t>> changes_;  // (scheduling point, the lower the later to move)
  size_t next_ = 0;
  std::unordered_map<uint64_t, uint32_t> lowered_;
  Ranked<AsyncOp> ranked_;
};

// The base, with the decisions of the launch: who is held back from which step on.
class Replay : public Scheduler {
 public:
  explicit Replay(Engine& engine) : Scheduler(engine), base_(Preference::of(engine.config.base)) {
    for (const Decision& d : e.config.decisions) left_[d.actor].insert(d.step);
  }
  void start_machine() override {
    Scheduler::start_machine();
    base_.start_machine();
  }
  void start_cluster(const Cluster& cluster) override {
    Scheduler::start_cluster(cluster);
    base_.start_cluster(cluster);
  }

 protected:
  size_t pick(const Candidates& c) override {
    for (;;) {
      const size_t n = base_.pick(c);
      if (!take(c[n])) {
        if (!open_.empty()) note_move(c[n]);
        return n;
      }
      base_.hold(c[n]);
      note_hold(c[n]);
    }
  }
  void moved(const Candidate& c) override { base_.moved(c, resumable_); }
  uint32_t limit(const Candidate& c) override {
    const auto it = left_.find(c.actor);
    if (it == left_.end()) return kQuantum;
    const auto next = it->second.upper_bound(c.step | 255);
    return next == it->second.end()
               ? kQuantum
               : static_cast<uint32_t>(std::min<uint64_t>((*next >> 8) - (c.step >> 8), kQuantum));
  }
  bool expires(const Candidate& c) override {
    Candidate at = c;
    at.step |= kGivesUp;
    if (!take(at)) return false;
    note_hold(at);
    return true;
  }
  bool sticky(const Candidate&) const override {
    return left_.empty() && holds.empty() && e.config.base != CompletionOrder::FirstOldest;
  }

 private:
  bool take(const Candidate& c) {
    const auto it = left_.find(c.actor);
    if (it == left_.end()) return false;
    const auto step = it->second.find(c.step);
    if (step == it->second.end()) return false;
    it->second.erase(step);
    if (it->second.empty()) left_.erase(it);
    return true;
  }
  void note_hold(const Candidate& c) {
    Held h;
    h.decision = {c.actor, c.step};
    h.gave_up = c.step & kGivesUp;
    h.from = e.counters.schedule_points;
    if (c.group()) {
      const Split& s = c.warp->splits[c.split];
      h.instr = &e.program.code[static_cast<size_t>(s.pc)];
      h.wait = h.gave_up ? Wait::MbarrierParity : s.wait;
      if (h.wait == Wait::MbarrierParity || h.wait == Wait::NamedBarrier)
        h.barrier = static_cast<int32_t>(s.bar_offset);
      if (h.wait == Wait::MbarrierParity)
        if (const Mbarrier* b = c.warp->cta->shared.barrier(s.bar_offset)) h.phase = b->phase;
    } else {
      h.instr = c.op->origin.instr;
      h.engine = c.op->engine;
    }
    if (h.gave_up)
      h.to = h.from + 1;
    else
      open_[c.actor].push_back(holds.size());
    holds.push_back(h);
  }
  void note_move(const Candidate& c) {
    const auto it = open_.find(c.actor);
    if (it == open_.end()) return;
    for (size_t n : it->second) holds[n].to = e.counters.schedule_points + 1;
    open_.erase(it);
  }
  Base base_;
  std::unordered_map<uint64_t, std::multiset<uint64_t>> left_;
  std::unordered_map<uint64_t, std::vector<size_t>> open_;  // held back and not moved since, by actor
};

}  // namespace

std::unique_ptr<Scheduler> Scheduler::make(Engine& engine) {
  switch (engine.config.policy) {
    case Policy::Early:
    case Policy::Late:
      break;
    case Policy::LateNewest:
      return std::make_unique<InTurn>(engine, Preference{.newest_first = true});
    case Policy::LateRandom:
      return std::make_unique<LateRandom>(engine);
    case Policy::Random:
      return std::make_unique<Random>(engine);
    case Policy::Starve:
      return std::make_unique<Starve>(engine);
    case Policy::Pct:
      return std::make_unique<Pct>(engine);
    case Policy::Replay:
      return std::make_unique<Replay>(engine);
  }
  return std::make_unique<InTurn>(engine, Preference{});
}

}  // namespace tileproof
