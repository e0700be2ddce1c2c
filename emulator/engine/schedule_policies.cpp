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
uint64_t engine_of(const Candidate& c, Grain grain, const Program& program) {
  const AsyncOp& op = *c.op;
  switch (op.queue ? Grain::Engine : grain) {
    case Grain::Operation:
      return c.actor;
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
    return pick_in_order(c, order_, turn_, [](const Candidate&) { return true; });
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
    if (c[0].group()) return InTurn::pick(c);  // groups come first in the list
    size_t best = 0;
    for (size_t i = 1; i < c.size(); ++i)
      if (priority(c[i]) > priority(c[best])) best = i;
    return best;
  }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  uint64_t priority(const Candidate& c) const { return mix(engine_of(c, grain_, e.program), seed_); }
  uint64_t seed_;
  Grain grain_;
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
    if (resumable_ && ran_ < left_)
      for (size_t i = 0; i < c.size() && c[i].group(); ++i)
        if (c[i].position == last_->position) {
          left_ -= ran_;
          return i;
        }
    size_t groups = 0;
    while (groups < c.size() && c[groups].group()) ++groups;
    const size_t ops = c.size() - groups;
    if (ops && (!groups || e.rng() % (salt_ ? 64 : 4) == 0)) {
      if (!salt_) return groups + e.rng() % ops;
      size_t best = groups;
      for (size_t i = groups + 1; i < c.size(); ++i)
        if (priority(c[i]) > priority(c[best])) best = i;
      return best;
    }
    left_ = static_cast<uint32_t>(1 + e.rng() % longest_);
    return e.rng() % groups;
  }
  uint32_t limit(const Candidate&) override { return left_; }
  bool sticky(const Candidate&) const override { return true; }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  uint64_t priority(const Candidate& c) const {
    return mix(static_cast<uint64_t>(c.op->origin.instr - e.program.code.data()), salt_);
  }
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
    if (victim_ == Victim::Engine)
      for (const Candidate& x : c)
        if (!x.group()) chosen_ = std::min(chosen_, mix(engine_of(x, grain_, e.program), seed_));
    const size_t n = pick_in_order(c, order_, turn_, [&](const Candidate& x) { return !held(x); });
    return n != c.size() ? n : InTurn::pick(c);
  }
  bool sticky(const Candidate& c) const override { return !order_.completions_first && !held(c); }
  bool expires(const Candidate& c) override { return drawn_expiry(c); }

 private:
  enum class Victim { Warp, Engine, Cta, Cluster };
  bool held(const Candidate& c) const {
    const Dim3 block = e.config.block;
    const uint64_t ctas = e.config.cluster.volume(), warps = (block.volume() + 31) / 32;
    switch (victim_) {
      case Victim::Warp:
        return c.group() &&
               (c.position >> 10 & 15) * warps + (c.position >> 5 & 31) == seed_ % (ctas * warps);
      case Victim::Cta:
        return c.group() && (c.position >> 10 & 15) == seed_ % ctas;
      case Victim::Cluster:
        return (c.group() ? c.position >> 14 : c.op->cluster->slot) == chosen_;
      case Victim::Engine:
        // The one with the least hash of those that have issued so far.
        return !c.group() && mix(engine_of(c, grain_, e.program), seed_) == chosen_;
    }
    return false;
  }
  uint64_t seed_;
  Victim victim_ = Victim::Warp;
  Grain grain_ = Grain::Engine;
  uint64_t chosen_ = ~0ull;  // hash of the engine, or slot of the cluster
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
      size_t best = 0;
      uint64_t most = priority(c[0]);
      for (size_t i = 1; i < c.size(); ++i)
        if (const uint64_t p = priority(c[i]); p > most) {
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
  uint64_t key(const Candidate& c) const {
    return c.group() ? c.position >> 5 : engine_of(c, grain_, e.program);
  }
  uint64_t priority(const Candidate& c) const {
    if (!lowered_.empty()) {
      const auto it = lowered_.find(c.group() ? mix(c.position, 1) : key(c));
      if (it != lowered_.end()) return it->second;
    }
    return mix(key(c), seed_) | 1ull << 63;
  }
  void lower(const Candidate& c, uint32_t level) {
    if (!c.group()) {
      lowered_[key(c)] = level;
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
