// The scheduling loop: who can move, what a move is, and when nothing can.
#include "schedule.hpp"

#include "queues.hpp"

#include <algorithm>
#include <string_view>

#include "slots/memory.hpp"
#include "slots/declared.hpp"
#include "wgmma.hpp"

namespace tileproof {

uint64_t mix(uint64_t a, uint64_t b) {  // the finaliser of splitmix64
  uint64_t h = (a + 0x9e3779b97f4a7c15ull) ^ (b * 0xff51afd7ed558ccdull);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

bool visible(const Instr& i) {
  static const std::unordered_map<Handler, bool> known = [] {
    std::unordered_map<Handler, bool> m;
    for (const auto& [name, id] : handler_ids()) {
      const std::string_view n = name;
      bool seen = n == "ld" || n == "st" || n == "atom" || n == "bar" || n == "ret" || n == "bulk.copy" ||
                  n == "bulk.wait" || n == "call.vprintf";
      for (const char* family : {"barrier.cluster.", "mbarrier.", "tma.", "tcgen05."})
        seen |= n.starts_with(family);
      for (const slot::Declared& declared : slot::kDeclared)
        if (n == declared.handler) seen = declared.visible;
      m[handler_table()[static_cast<size_t>(id)]] = seen;
    }
    return m;
  }();
  static const Handler ld = handler_table()[static_cast<size_t>(handler_ids().at("ld"))];
  static const Handler st = handler_table()[static_cast<size_t>(handler_ids().at("st"))];
  static_assert(+slot::ld::space == +slot::st::space);
  if (i.fn == ld || i.fn == st) {  // a thread's own memory
    const Space space = static_cast<Space>(i.m[slot::ld::space]);
    return space != Space::Local && space != Space::Param;
  }
  return known.at(i.fn);
}

// ---------------------------------------------------------------------------------------------------------
// The base

size_t pick_operation(const Candidates& c, bool newest_first) {
  size_t at = c.size();
  uint64_t seq = 0;
  if (!c.unordered.empty()) {
    const size_t place = newest_first ? c.unordered.size() - 1 : 0;
    at = c.groups.size() + place;
    seq = c.unordered[place].seq;
  }
  for (size_t k = 0; k < c.heads.size(); ++k)
    if (at == c.size() || (c.heads[k].op->seq < seq) != newest_first) {
      at = c.head(k);
      seq = c.heads[k].op->seq;
    }
  return at;
}

void Base::start_cluster(const Cluster& cluster) {
  const size_t first = static_cast<size_t>(cluster.slot) << 14, end = first + (1 << 14);
  if (groups_.size() < end) groups_.resize(end, 0);
  std::fill(groups_.begin() + static_cast<std::ptrdiff_t>(first),
            groups_.begin() + static_cast<std::ptrdiff_t>(end), 0);
}

uint32_t Base::held(const AsyncOp& op) const {
  if (ops_.empty()) return 0;
  const auto it = ops_.find(op.actor);
  return it == ops_.end() ? 0 : it->second;
}

// What is not held back comes before what is, in the wanted order; then the longest held.
uint64_t Base::priority(const AsyncOp& op) const {
  if (const uint32_t since = held(op)) return ~since;
  return 1ull << 63 | by_age(op, order_.newest_first);
}

size_t Base::pick(const Candidates& c) {
  const auto best = [&] { return c.best(ranked_, [&](const AsyncOp& op) { return priority(op); }); };
  const auto free = [&](const Candidate& x) { return !held(x); };
  const size_t n = pick_in_order(c, order_, turn_, free, [&] {
    const size_t op = best();
    return op != c.size() && free(c[op]) ? op : c.size();
  });
  if (n != c.size()) return n;
  size_t longest = best();
  uint32_t since = longest != c.size() ? held(c[longest]) : ~0u;
  for (size_t i = c.groups.size(); i-- > 0;)
    if (held(c.groups[i]) <= since) {
      longest = i;
      since = held(c.groups[i]);
    }
  return longest;
}

void Base::hold(const Candidate& c) {
  ++holds_;
  if (!c.group()) {
    ops_[c.actor] = holds_;
    return;
  }
  for (uint32_t m = c.lanes; m; m &= m - 1)
    groups_[(c.position & ~31u) | static_cast<uint32_t>(__builtin_ctz(m))] = holds_;
}

// ---------------------------------------------------------------------------------------------------------
// Actors

Scheduler::Scheduler(Engine& engine) : e(engine), candidates_(engine.unordered_) {
  if (e.config.record) recorder_ = std::make_unique<Base>(Preference::of(e.config.record_base));
}

void Scheduler::start_cluster(const Cluster& cluster) {
  if (recorder_) recorder_->start_cluster(cluster);
}

void Scheduler::start_machine() {
  if (recorder_) recorder_->start_machine();
  serials_.clear();
  heads_known_ = groups_known_ = false;
  last_ = nullptr;
  resumable_ = false;
  run_length_ = ran_ = 0;
  idle_rounds_ = expirations_ = 0;
  idle_progress_ = ~0ull;
}

namespace {
uint64_t cta_number(const Engine& e, Dim3 id) {
  const Dim3 g = e.config.grid;
  return id.x + static_cast<uint64_t>(g.x) * (id.y + static_cast<uint64_t>(g.y) * id.z);
}
}  // namespace

void Scheduler::name(AsyncOp& op) {
  if (completing_ && op.queue == 0) {  // the second half of a store, issued by the completion of the first
    op.actor = completing_->actor;
    op.step = completing_->step + 1;
    return;
  }
  const uint64_t cta = cta_number(e, op.origin.cta);
  const int warp = op.origin.warp, lane = std::max(op.origin.lane, 0);
  const ActorKind kind = op.queue == 0 ? ActorKind::Copy : op.queue % 2 ? ActorKind::Pipe : ActorKind::Stores;
  const bool second = kind == ActorKind::Pipe && (op.queue / 2 & kOfGroup2);
  const uint64_t issuer = actor_key(cta, kind, warp, kind == ActorKind::Stores ? 0 : lane, second);
  const uint32_t serial = serials_[issuer]++;
  op.actor = kind == ActorKind::Copy ? issuer | (serial & 0xfffffff) : issuer;
  op.step = kind == ActorKind::Copy ? 0 : serial;
}

// ---------------------------------------------------------------------------------------------------------
// Who can move

bool Scheduler::ready(Warp& w, Split& s) {
  Cta& cta = *w.cta;
  switch (s.wait) {
    case Wait::None:
      return true;
    case Wait::MbarrierParity: {
      if (s.timed_out) return true;
      Mbarrier* b = cta.shared.barrier(s.bar_offset);
      return !b || (b->phase & 1) != s.parity;
    }
    case Wait::NamedBarrier: {
      const NamedBarrier& b = cta.named[s.bar_offset];
      const uint32_t there = b.parts[static_cast<size_t>(w.index)].lanes;
      if (there & s.mask) return (there & w.live) == w.live;
      return s.only_arrives || b.generation != s.token;
    }
    case Wait::ClusterBarrier:
      return cta.cluster->barrier_generation != s.token;
    case Wait::BulkGroup: {
      for (uint32_t m = s.lanes_wanted; m; m &= m - 1)
        if (!w.bulk[__builtin_ctz(m)].waited(s.bulk_allowed, s.bulk_read_only)) return false;
      return true;
    }
    case Wait::CopyGroup:
      for (uint32_t m = s.lanes_wanted; m; m &= m - 1)
        if (w.copies->waits(__builtin_ctz(m), s.bulk_allowed)) return false;
      return true;
    case Wait::WarpgroupMmas:
      return warpgroup_of(w).complete >= s.token;
    case Wait::TmemAlloc:
      return s.frees_seen != cta.tmem.frees;
    case Wait::WarpLanes:
      return s.gathered || (s.lanes_wanted & w.live & ~s.mask) == 0;
    case Wait::Join:
      return false;
    case Wait::Registers:
      return cta.register_pool >= static_cast<int32_t>(s.token);
  }
  return false;
}

Candidate Candidates::of(const AsyncOp& op) {
  Candidate c;
  c.op = &op;
  c.actor = op.actor;
  c.step = op.step;
  return c;
}

Candidate Candidates::operator[](size_t n) const {
  if (n < groups.size()) return groups[n];
  n -= groups.size();
  return n < unordered.size() ? of(unordered[n]) : heads[n - unordered.size()];
}

void Scheduler::collect_heads(const Cluster* of) {
  candidates_.heads.clear();
  heads_known_ = !of;
  for (auto& [number, queue] : e.queues_) {
    if (of && queue.front().cluster != of) continue;
    candidates_.heads.push_back(Candidates::of(queue.front()));
    candidates_.heads.back().queue = &queue;
  }
}

Candidate Scheduler::group(Warp& w, size_t index) const {
  Candidate c;
  c.warp = &w;
  c.split = static_cast<uint32_t>(index);
  c.lanes = w.splits[index].mask;
  c.position = w.cta->cluster->slot << 14 |
               static_cast<uint32_t>(w.cta->rank << 10 | w.index << 5 | __builtin_ctz(c.lanes));
  return c;
}

void Scheduler::name(Candidate& c) const {
  const int lane = static_cast<int>(c.position & 31);
  c.actor = actor_key(cta_number(e, c.warp->cta->id), ActorKind::Warp, c.warp->index, lane, 0);
  c.step = static_cast<uint64_t>(c.warp->steps[static_cast<size_t>(lane)]) << 8 |
           std::min<uint32_t>(c.warp->splits[c.split].tries, 255);
}

Decision Scheduler::running(const Warp& w, const Split& s) const {
  const int lane = __builtin_ctz(s.mask);
  return {actor_key(cta_number(e, w.cta->id), ActorKind::Warp, w.index, lane, 0),
          static_cast<uint64_t>(w.steps[static_cast<size_t>(lane)]) << 8};
}

void Scheduler::decide(Decision made) {
  static_assert(kMostDecisions == 1 << 20);
  decisions.push_back(made);
  if (decisions.size() > kMostDecisions && !e.stopped)
    e.fault("memory-limit", "the record of the schedule has more than 2^20 decisions", Origin{});
}

bool Scheduler::gives_up(Warp& w, const Split& s) {
  Candidate c = group(w, static_cast<size_t>(&s - w.splits.data()));
  name(c);
  if (!expires(c)) return false;
  if (recorder_) decide({c.actor, c.step | kGivesUp});
  return true;
}

bool Scheduler::drawn_expiry(const Candidate& c) const {
  const uint64_t draw = mix(e.config.seed, 5) % 8;
  if (draw < 2) return false;
  if (draw < 5) return mix(mix(c.actor, c.step), e.config.seed) % (1u << (draw - 1)) == 0;
  const Split& s = c.warp->splits[c.split];
  return !s.polled && mix(static_cast<uint64_t>(s.pc), e.config.seed) % (1u << (draw - 5)) == 0;
}

// Groups that only spin, and one that used up its quantum, can move only when nobody else can.
void Scheduler::collect() {
  if (!heads_known_) collect_heads();
  if (std::exchange(groups_known_, false)) return;
  if (e.overdue()) [[unlikely]]
    e.start_another();
  std::vector<Candidate>& groups = candidates_.groups;
  groups.clear();
  uint32_t least_idle = ~0u;
  bool spinning = false, tired = false;
  for (auto& cluster : e.live)
    for (auto& cta : cluster->ctas)
      for (Warp& w : cta->warps)
        for (size_t i = 0; i < w.splits.size(); ++i) {
          Split& s = w.splits[i];
          if (s.dead || !ready(w, s)) continue;
          const Candidate c = group(w, i);
          const bool own = last_ && last_->group() && last_->position == c.position;
          if (s.seen_progress == e.progress && s.idle >= kSpin) {
            spinning = true;
            least_idle = std::min(least_idle, s.idle);
          } else if (own && run_length_ >= kQuantum) {
            tired = true;
          }
          groups.push_back(c);
        }
  some_rest_ = spinning || tired;
  if (some_rest_) {
    auto spins = [&](const Candidate& c) {
      const Split& s = c.warp->splits[c.split];
      return s.seen_progress == e.progress && s.idle >= kSpin;
    };
    auto rests = [&](const Candidate& c) { return tired && last_->position == c.position; };
    const bool others =
        candidates_.operations() ||
        !std::all_of(groups.begin(), groups.end(), [&](const Candidate& c) { return spins(c) || rests(c); });
    if (!others && spinning && e.start_another()) return collect();
    if (others)
      std::erase_if(groups, [&](const Candidate& c) { return spins(c) || rests(c); });
    else if (spinning && !tired)
      std::erase_if(groups,
                    [&](const Candidate& c) { return c.warp->splits[c.split].idle >= least_idle + kSpin; });
  }
  for (Candidate& c : groups) name(c);
}

// ---------------------------------------------------------------------------------------------------------
// Moves

void Scheduler::move(const Candidate& c) {
  if (!c.group()) {
    ++e.counters.schedule_points;
    moved_ = c;
    moved_.op = nullptr;
    last_ = &moved_;
    resumable_ = false;
    ran_ = 0;
    const bool by_phase = c.op->by_phase;
    const uint64_t phases = e.counters.barrier_phases;
    e.complete(c.queue ? e.take_first(*c.queue) : e.unordered_.take(e.unordered_.place_of(c.op->seq)));
    groups_known_ = by_phase && !some_rest_ && phases == e.counters.barrier_phases;
    return;
  }
  const bool again = last_ && last_->group() && last_->position == c.position;
  if (!again || run_length_ >= kQuantum) run_length_ = 0;
  moved_ = c;
  const uint32_t most = std::min(limit(c), kQuantum - run_length_);
  const bool consult = recorder_ || !sticky(c);
  last_ = &moved_;
  const auto [ran, resumable] = e.run_split(*c.warp, c.split, most, consult);
  ran_ = ran;
  resumable_ = resumable;
  run_length_ += ran;
  if (const Split& s = c.warp->splits[c.split]; !s.dead && s.mask)
    moved_.position = (c.position & ~31u) | static_cast<uint32_t>(__builtin_ctz(s.mask));
}

void Scheduler::choose_and_move() {
  const size_t n = pick(candidates_);
  const Candidate chosen = candidates_[n];
  if (recorder_) {
    for (size_t base = recorder_->pick(candidates_); base != n; base = recorder_->pick(candidates_)) {
      decide({candidates_[base].actor, candidates_[base].step});
      recorder_->hold(candidates_[base]);
    }
  }
  move(chosen);
  moved(moved_);
  if (recorder_) recorder_->moved(moved_, resumable_);
}

void Scheduler::run() {
  while (!e.stopped && !e.live.empty()) {
    e.spend(1, Origin{});
    collect();
    if (candidates_.size())
      choose_and_move();
    else if (!unstick())
      e.report_hang();
    if (e.ended_) e.retire();
  }
}

void Scheduler::drain(const Cluster& cluster) {
  const auto others = e.unordered_.set_aside([&](const AsyncOp& op) { return op.cluster != &cluster; });
  candidates_.groups.clear();
  while (!e.stopped) {
    collect_heads(&cluster);
    if (!candidates_.operations()) break;
    choose_and_move();
  }
  e.unordered_.put_back(others);
  heads_known_ = groups_known_ = false;
}

// Nothing can move. Lanes parked at a post-dominator may have been needed by their own warp's other lanes. A
// suspended try_wait returns false after a time limit. Three rounds without any effect are a hang, and so are
// many in which waiters only count or print their failed tries.
bool Scheduler::unstick() {
  if (e.release_joins()) return true;
  if (idle_progress_ != e.progress) idle_rounds_ = 0;
  idle_progress_ = e.progress;
  if (phases_ != e.counters.barrier_phases) expirations_ = 0;
  phases_ = e.counters.barrier_phases;
  return idle_rounds_++ < 3 && expirations_++ < 10000 && expire_try_waits();
}

bool Scheduler::expire_try_waits() {
  bool any = false;
  for (auto& cluster : e.live)
    for (auto& cta : cluster->ctas)
      for (Warp& w : cta->warps)
        for (Split& s : w.splits)
          if (!s.dead && s.wait == Wait::MbarrierParity) s.timed_out = any = true;
  return any;
}

}  // namespace tileproof
