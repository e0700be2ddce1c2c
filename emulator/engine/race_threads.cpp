// What each thread knows to have happened: lanes that know alike, releases and acquires, fences, flags.
#include "first_columns.hpp"
#include "machine.hpp"
#include "race.hpp"
#include "race_dependence.hpp"
#include "slots/atomics.hpp"
#include "slots/mbarrier.hpp"
#include "slots/sync.hpp"

namespace tileproof {

Races::Races(Engine& engine) : e_(engine) {
  accesses_.push_back({});
  if (Dependences::wanted(engine.program)) follows_ = std::make_unique<Dependences>(engine.program);
  if (FirstColumns::wanted(engine.program))
    columns_ = std::make_unique<FirstColumns>(engine, [this](const Origin& at, const std::string& text) {
      doubt("order-decides", at, at, text).first_column = true;
    });
}
Races::~Races() = default;

void Races::start_cluster(Cluster& cluster) {
  state_of_ = nullptr;
  if (e_.live.size() == 1) pipes_.clear();  // of clusters that are over
  forget_view();
  view_warp_ = nullptr;
  memo_for_ = 0;
  stores_know_.reset();
  scoped_ = tells_scopes_apart(cluster);
  look_for_sc();
  if (clusters_.size() <= cluster.slot) clusters_.resize(cluster.slot + 1);
  if (!clusters_[cluster.slot]) clusters_[cluster.slot] = std::make_unique<ClusterState>();
  ClusterState& c = *clusters_[cluster.slot];
  c.meeting = Meeting{};
  c.serial = static_cast<uint32_t>(cluster.serial);
  c.base = next_base_;
  c.agents = 0;
  next_base_ += kAgentsOfCluster;
  if (!next_base_)
    e_.fault("unsupported", "race checking of more than 65,535 clusters that release memory to each other",
             Origin{});
  c.ctas.resize(cluster.ctas.size());
  for (size_t r = 0; r < c.ctas.size(); ++r) {
    Cta& cta = *cluster.ctas[r];
    CtaState& s = c.ctas[r];
    if (follows_) follows_->start(cta);
    if (columns_) columns_->start(cta);
    s.barriers.clear();
    s.named.fill(Meeting{});
    s.shared.resize(cta.shared.data.size() / 16 + 1);
    s.tmem.resize(static_cast<size_t>(kTmemColumns) * (kTmemLanes / 16));
    s.at_exit.clear();
    s.pair = PairState{};
    s.allocated = s.given = PhaseEvent{};
    s.triggered = false;
    s.columns.fill(0);
    for (auto& products : s.collectors) products.clear();
    s.remote.clear();
    s.warps.assign(cta.warps.size(), Thread{});
    for (Thread& t : s.warps) {
      const Warp& w = cta.warps[static_cast<size_t>(&t - s.warps.data())];
      t.agent = new_agent(c);
      t.home = &c;
      t.all = w.live;
      Group g;
      g.lanes = w.live;
      g.know = std::make_shared<Knowledge>();
      g.know->started = 1u << r;
      t.groups.push_back(std::move(g));
    }
  }
}

Races::Thread& Races::thread(const Warp& w) { return state(*w.cta).warps[static_cast<size_t>(w.index)]; }
Races::Thread& Races::thread_at(const Origin& at) const {
  CtaState& cta = clusters_[e_.cluster_at(at.cta).slot]->ctas[static_cast<size_t>(at.rank)];
  return cta.warps[static_cast<size_t>(at.warp)];
}
Races::ClusterState& Races::cluster(const Cta& cta) { return *clusters_[cta.cluster->slot]; }
Races::CtaState& Races::state(const Cta& cta) {
  if (&cta != state_of_) {
    state_of_ = &cta;
    state_ = &cluster(cta).ctas[static_cast<size_t>(cta.rank)];
  }
  return *state_;
}
uint32_t Races::new_agent(ClusterState& c) {
  if (++c.agents >= kAgentsOfCluster && !e_.stopped)
    e_.fault("memory-limit",
             "the race checker tells " + std::to_string(kAgentsOfCluster) +
                 " warps, mbarriers and their inits of a cluster apart",
             Origin{});
  return c.base | (c.agents & (kAgentsOfCluster - 1));
}

Knowledge& Races::mutable_knowledge(Group& g) {
  forget_view();
  if (g.know.use_count() > 1) g.know = std::make_shared<Knowledge>(*g.know);
  return *g.know;
}

// Makes `lanes` a union of groups.
void Races::split(Thread& t, uint32_t lanes) {
  forget_view();
  for (size_t k = 0, n = t.groups.size(); k < n; ++k) {
    const uint32_t in = t.groups[k].lanes & lanes, out = t.groups[k].lanes & ~lanes;
    if (!in || !out) continue;
    Group other = t.groups[k];
    other.keep(out);
    t.groups[k].keep(in);
    t.groups.push_back(std::move(other));
  }
}

// Groups that parted and have learned nothing apart are one again.
void Races::merge_alike(Thread& t) {
  forget_view();
  for (size_t k = 0; k + 1 < t.groups.size(); ++k)
    for (size_t n = t.groups.size() - 1; n > k; --n)
      if (t.groups[k].alike(t.groups[n])) {
        t.groups[k].take(t.groups[n]);
        t.groups.erase(t.groups.begin() + static_cast<std::ptrdiff_t>(n));
      }
}

Races::Group& Races::group_of(Thread& t, int lane) {
  for (Group& g : t.groups)
    if (g.lanes >> lane & 1) return g;
  return t.groups[0];
}

// What the lanes know, and what they did, joins `to`.
void Races::publish(const Thread& t, const Group& g, uint32_t lanes, Knowledge& to) {
  publish(t, {*g.know, g.own, t.now, t.together, g.maps_released, t.copies.get()}, lanes & g.lanes, to);
}

void Races::publish(const Thread& t, const Deeds& d, uint32_t lanes, Knowledge& to) {
  const uint32_t present = t.absent_too(lanes);
  to.join(d.know);
  raise_own(to, t.agent, present, d.now, d.own);
  if (d.together) to.of[kRuns].raise(t.agent, ~0u, d.together);
  if (d.maps_released) to.mutable_maps().released.raise(t.agent, present, d.maps_released);
  if (d.copies) publish_copies(t, *d.copies, lanes, to);
}

std::shared_ptr<const Races::Moment> Races::moment(const Thread& t, const Group& g) {
  auto m = std::make_shared<Moment>(Moment{g.know, g.own, t.now, t.together, g.maps_released, nullptr});
  if (t.copies)
    m->copies =
        std::make_unique<OwnCopies>(OwnCopies{t.copies->agent, {}, t.copies->waited, t.copies->fenced});
  return m;
}

// The lanes' own accesses up to `now`, and those that have passed their own fences.
void Races::raise_own(Knowledge& to, uint32_t agent, uint32_t lanes, Tick now,
                      const std::array<Tick, kOrders>& own) {
  for (int k = 0; k < kPublished; ++k)
    if (const Tick tick = k == kHappens ? now : own[static_cast<size_t>(k)])
      to.of[k].raise(agent, lanes, tick);
  if (scoped_) to.of[kScoped].raise(agent, lanes, now);
  to.of[kRuns].raise(agent, lanes, now);
}

void Races::happened(Knowledge& to, uint32_t agent, uint32_t lanes, Tick tick) {
  to.of[kHappens].raise(agent, lanes, tick);
  if (scoped_) to.of[kScoped].raise(agent, lanes, tick);
  to.of[kRuns].raise(agent, lanes, tick);
}

// Whether the kernel has mbarrier instructions whose scope may not include another CTA of the cluster.
bool Races::tells_scopes_apart(const Cluster& cluster) const {
  if (cluster.ctas.size() < 2) return false;
  const Handler arrives = handler_table()[static_cast<size_t>(handler_ids().at("mbarrier.arrive"))];
  const Handler waits = handler_table()[static_cast<size_t>(handler_ids().at("mbarrier.wait"))];
  return std::any_of(e_.program.code.begin(), e_.program.code.end(), [&](const Instr& i) {
    const auto reach = static_cast<MbarrierScope>(i.fn == waits ? i.m[slot::mbarrier_wait::reach]
                                                                : i.m[slot::mbarrier_arrive::reach]);
    if (i.fn == waits) return reach == MbarrierScope::Default || reach == MbarrierScope::Cta;
    return i.fn == arrives && reach == MbarrierScope::Default;
  });
}

// What a .relaxed arrival gives: that its lanes have run so far.
void Races::runs_before(Thread& t, uint32_t lanes, Knowledge& to) const {
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    to.started |= g.know->started;
    to.of[kRuns].join(g.know->of[kRuns]);
    to.of[kRuns].raise(t.agent, t.absent_too(g.lanes & lanes), t.now);
    if (t.together) to.of[kRuns].raise(t.agent, ~0u, t.together);
  }
  t.now++;
}

void Races::release(const Exec& x, uint32_t lanes, Knowledge& to) {
  Thread& t = thread(x.w);
  for (const Group& g : t.groups)
    if (g.lanes & lanes) publish(t, g, lanes, to);
  forget_view();
  for (uint32_t id : t.loads)
    if (Access& a = accesses_[id]; a.used && !a.released) a.released = x.instr;
  t.now++;
}

void Races::acquire(const Warp& w, uint32_t lanes, const Knowledge& from, bool scoped) {
  Thread& t = thread(w);
  split(t, lanes);
  change(t, lanes, [&](Knowledge& know) { know.join(from, scoped); });
}

void Races::warp_sync(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  if (t.groups.size() == 1 && (t.groups[0].lanes & ~lanes) == 0) {
    if (const Tick tick = t.groups[0].maps_released)
      mutable_knowledge(t.groups[0]).mutable_maps().released.raise(t.agent, ~0u, tick);
    raise_own(mutable_knowledge(t.groups[0]), t.agent, ~0u, t.now, t.groups[0].own);
    if (t.copies) publish_copies(t, *t.copies, t.all, mutable_knowledge(t.groups[0]));
    t.now++;
    return;
  }
  split(t, lanes);
  Group merged;
  merged.know = std::make_shared<Knowledge>();
  merged.own.fill(kUnfinished);
  merged.maps_released = kUnfinished;
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    publish(t, g, g.lanes, *merged.know);
    for (int k = kPublished; k < kOrders; ++k) merged.know->of[k].join(g.know->of[k]);
    for (size_t k = 0; k < kOrders; ++k) merged.own[k] = std::min(merged.own[k], g.own[k]);
    merged.maps_released = std::min(merged.maps_released, g.maps_released);
    merged.met = std::max(merged.met, g.met);
    merged.take(g);
  }
  if (!merged.lanes) return;
  std::erase_if(t.groups, [&](const Group& g) { return (g.lanes & lanes) != 0; });
  t.groups.push_back(std::move(merged));
  t.now++;
}

// ---- fences

void Races::fence(const Exec& x, Fence kind, int32_t spaces) {
  switch (kind) {
    case Fence::None:
      break;
    case Fence::Thread:
      if (const uint32_t by = spaces & 8 ? x.w.executed_by(x.instr, x.mask) : 0; by & (by - 1)) {
        const Origin at = x.origin(x.lane());
        doubt("not-tracked", at, at, mnemonic(x.instr) + " by several lanes, which are not told apart");
      }
      thread_fence(x.w, x.mask, static_cast<uint8_t>(spaces & 7), spaces & 8);
      break;
    case Fence::ProxyAsync:
      proxy_fence(x.w, x.mask, spaces & 1, spaces & 2);
      break;
    case Fence::MbarrierInit:
      own_fence(x.w, x.mask, kInitFence);
      break;
    case Fence::BeforeThreadSync:
      own_fence(x.w, x.mask, kBeforeSync);
      break;
    case Fence::AfterThreadSync:
      after_thread_sync(x.w, x.mask);
      break;
  }
}

void Races::proxy_fence(const Warp& w, uint32_t lanes, bool shared, bool global) {
  Thread& t = thread(w);
  split(t, lanes);
  change(t, lanes, [&](Knowledge& know) {
    if (shared) know.of[kProxyShared].join(know.of[kHappens]);
    if (global) know.of[kProxyGlobal].join(know.of[kHappens]);
  });
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    if (shared) g.own[kProxyShared] = g.own[kProxySharedOwn] = t.now;
    if (global) g.own[kProxyGlobal] = t.now;
  }
  if (shared && t.copies) fence_copies(t, lanes);
  t.now++;
}

// A fence.mbarrier_init or a before_thread_sync: it is about the thread's own accesses only.
void Races::own_fence(const Warp& w, uint32_t lanes, Order order) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups)
    if (g.lanes & lanes) g.own[order] = t.now;
  t.now++;
}

void Races::after_thread_sync(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  split(t, lanes);
  change(t, lanes, [&](Knowledge& know) {
    know.of[kHappens].join(know.of[kBeforeSync]);
    if (scoped_) know.of[kScoped].join(know.of[kBeforeSync]);
    know.of[kRuns].join(know.of[kBeforeSync]);
    know.of[kAfterHappens].join(know.of[kHappens]);
    know.of[kAfterSync].join(know.of[kBeforeSync]);
  });
}

// ---- strong accesses: who reads what, with scopes that include each other (PTX ISA 8.7, 8.10)

uint8_t Races::distance(const Releaser& a, const Releaser& b) {
  return a.cluster != b.cluster ? kScopeGpu : a.rank != b.rank ? kScopeCluster : kScopeCta;
}

bool Races::together(const Access& a, const Access& b) {
  const uint8_t far = distance({a.cluster, a.at.rank}, {b.cluster, b.at.rank});
  return a.scope >= far && b.scope >= far;
}

// Where a release of this scope is kept.
Knowledge& Races::released_at(Flag& f, const Releaser& by, uint8_t scope) {
  if (scope >= kScopeGpu) {
    f.reach = f.reach ? std::max(f.reach, distance(f.by, by)) : static_cast<uint8_t>(kScopeCta);
    f.by = by;
    return f.wide;
  }
  for (Flag::Narrow& n : f.narrow)
    if (n.scope == scope && distance(n.by, by) == kScopeCta) return n.know;
  f.narrow.push_back({by, scope, {}});
  return f.narrow.back().know;
}

Races::Flag& Races::changing(uint64_t key) {
  auto& f = flags_[key];
  if (!f)
    f = std::make_shared<Flag>();
  else if (f.use_count() > 1)
    f = std::make_shared<Flag>(*f);
  return *f;
}

void Races::acquire_flag(const Warp& w, uint32_t lanes, const Flag& f, uint8_t scope) {
  const Releaser me{thread(w).home->serial, w.cta->rank};
  if (f.reach && scope >= std::max(f.reach, distance(f.by, me))) acquire(w, lanes, f.wide);
  for (const Flag::Narrow& n : f.narrow)
    if (const uint8_t far = distance(n.by, me); n.scope >= far && scope >= far) acquire(w, lanes, n.know);
}

// fence.acq_rel, fence.sc, membar: what strong accesses before it read is acquired, what strong writes after
// it store is released (PTX ISA 8.10.2), as far as the scopes of both reach.
void Races::thread_fence(const Warp& w, uint32_t lanes, uint8_t scope, bool sc) {
  Thread& t = thread(w);
  split(t, lanes);
  for (size_t k = 0; k < t.groups.size(); ++k) {
    if (!(t.groups[k].lanes & lanes)) continue;
    std::vector<SeenFlag> seen;
    seen.swap(t.groups[k].seen);
    for (const SeenFlag& read : seen) acquire_flag(w, read.lanes, *read.flag, std::min(read.scope, scope));
    if (sc) fence_sc(w, t.groups[k], scope);
    Group& g = t.groups[k];
    if (sc) {
      Knowledge fenced;
      publish(t, g, g.lanes, fenced);
      publish_sc(w, g, scope, fenced);
    }
    const Fenced here{g.lanes, moment(t, g)};
    for (size_t reach = 0; reach < std::min<size_t>(scope, 3); ++reach) g.fenced[reach].assign(1, here);
  }
  t.now++;
}

// A red does not read for its thread: it acquires nothing (PTX ISA 8.11.1).
void Races::flag(const Exec& x, uint64_t key, int lane, bool write) {
  Thread& t = thread(x.w);
  const uint8_t scope = static_cast<uint8_t>(x.order >> kScopeBit);
  const auto known = flags_.find(key);
  const bool reads = !write || ((x.order & kAtomic) && x.instr->o[slot::atom::dst] != INT32_MIN);
  if (x.order & kFails) write = false;
  if (sc_) [[unlikely]]
    flag_sc(x, key, lane, reads, write);
  if (reads && known != flags_.end()) {
    if (x.order & kAcquires) {
      acquire_flag(x.w, 1u << lane, *known->second, scope);
    } else {
      auto& seen = group_of(t, lane).seen;
      if (!seen.empty() && seen.back().flag == known->second && seen.back().scope == scope)
        seen.back().lanes |= 1u << lane;
      else
        seen.push_back({1u << lane, known->second, scope});
    }
  }
  if (!write) return;
  const Releaser me{t.home->serial, x.cta.rank};
  const uint64_t who = static_cast<uint64_t>(t.agent) << 5 | static_cast<uint64_t>(lane);
  // Who reads a plain write observes no earlier one of another thread; an atomic goes on with it (PTX ISA
  // 8.9.2), and a thread's own release covers its later writes (8.8).
  if (known != flags_.end() && !(x.order & kAtomic)) {
    if (std::find(known->second->releasers.begin(), known->second->releasers.end(), who) ==
        known->second->releasers.end()) {
      Flag& f = changing(key);
      f.wide.clear();
      f.reach = 0;
      f.narrow.clear();
      f.releasers.clear();
    }
  }
  auto give = [&](uint8_t reach, auto&& fill) {
    Flag& f = changing(key);
    if (std::find(f.releasers.begin(), f.releasers.end(), who) == f.releasers.end())
      f.releasers.push_back(who);
    Knowledge& to = released_at(f, me, reach);
    fill(to);
    to.started = 0;  // ranks are of one cluster
    if (reach >= kScopeGpu) released_.insert(t.home->serial);
  };
  if (x.order & kReleases) {
    give(scope, [&](Knowledge& to) { release(x, 1u << lane, to); });
    return;
  }
  const size_t widest = std::min<size_t>(scope, 3);
  std::shared_ptr<const Moment> wider;
  for (size_t reach = widest; reach >= 1; --reach) {
    std::shared_ptr<const Moment> at;
    for (const Fenced& f : group_of(t, lane).fenced[reach - 1])
      if (f.lanes >> lane & 1) at = f.at;
    if (at && at != wider)
      give(static_cast<uint8_t>(reach), [&](Knowledge& to) { publish(t, at->deeds(), 1u << lane, to); });
    wider = at;
  }
}

}  // namespace tileproof
