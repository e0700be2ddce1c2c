// What each thread knows to have happened: releases and acquires, fences, barriers, completions.
#include "machine.hpp"
#include "race.hpp"

namespace tileproof {

Races::Races(Engine& engine) : e_(engine) { accesses_.resize(1); }

void Races::start_cluster() {
  ++clusters_;
  agents_ = 0;
  pipes_.clear();
  flags_.clear();
  earlier_.clear();
  cluster_ = Meeting{};
  forget_view();
  view_warp_ = nullptr;
  memo_for_ = 0;
  ctas_.resize(e_.cluster->ctas.size());
  for (size_t r = 0; r < ctas_.size(); ++r) {
    Cta& cta = *e_.cluster->ctas[r];
    CtaState& s = ctas_[r];
    s.barriers.clear();
    s.named.fill(Meeting{});
    s.shared.resize(cta.shared.data.size() / 16 + 1);
    s.tmem.resize(static_cast<size_t>(kTmemColumns) * (kTmemLanes / 16));
    s.at_exit.clear();
    s.remote.clear();
    s.warps.assign(cta.warps.size(), Thread{});
    for (Thread& t : s.warps) {
      const Warp& w = cta.warps[static_cast<size_t>(&t - s.warps.data())];
      t.agent = ++agents_;
      t.all = w.live;
      Group g;
      g.lanes = w.live;
      g.know = std::make_shared<Knowledge>();
      t.groups.push_back(std::move(g));
    }
  }
}

Races::Thread& Races::thread(const Warp& w) {
  return ctas_[static_cast<size_t>(w.cta->rank)].warps[static_cast<size_t>(w.index)];
}
Races::CtaState& Races::state(const Cta& cta) { return ctas_[static_cast<size_t>(cta.rank)]; }

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
    other.lanes = out;
    t.groups[k].lanes = in;
    t.groups.push_back(std::move(other));
  }
}

Races::Group& Races::group_of(Thread& t, int lane) {
  for (Group& g : t.groups)
    if (g.lanes >> lane & 1) return g;
  return t.groups[0];
}

// What the lanes know, and what they did, joins `to`.
void Races::publish(Thread& t, const Group& g, uint32_t lanes, Knowledge& to) {
  lanes &= g.lanes;
  to.join(*g.know);
  const uint32_t as = (lanes & t.all) == t.all ? ~0u : lanes;
  for (int k = 0; k < kPublished; ++k) {
    const Tick tick = k == kHappens ? t.now : g.own[static_cast<size_t>(k)];
    if (tick) to.of[k].raise(t.agent, as, tick);
  }
}

void Races::release(const Warp& w, uint32_t lanes, Knowledge& to) {
  Thread& t = thread(w);
  for (const Group& g : t.groups)
    if (g.lanes & lanes) publish(t, g, lanes, to);
  forget_view();
  t.now++;
}

void Races::acquire(const Warp& w, uint32_t lanes, const Knowledge& from) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups)
    if (g.lanes & lanes) mutable_knowledge(g).join(from);
}

void Races::warp_sync(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  if (t.groups.size() == 1 && (t.groups[0].lanes & ~lanes) == 0) {
    Group& g = t.groups[0];
    Knowledge& know = mutable_knowledge(g);
    for (int k = 0; k < kPublished; ++k) {
      const Tick tick = k == kHappens ? t.now : g.own[static_cast<size_t>(k)];
      if (tick) know.of[k].raise(t.agent, ~0u, tick);
    }
    t.now++;
    return;
  }
  split(t, lanes);
  Group merged;
  merged.know = std::make_shared<Knowledge>();
  merged.own.fill(kUnfinished);
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    merged.lanes |= g.lanes;
    publish(t, g, g.lanes, *merged.know);
    for (int k = kPublished; k < kOrders; ++k) merged.know->of[k].join(g.know->of[k]);
    for (size_t k = 0; k < kOrders; ++k) merged.own[k] = std::min(merged.own[k], g.own[k]);
    merged.seen.insert(merged.seen.end(), g.seen.begin(), g.seen.end());
    if (!merged.fenced) merged.fenced = g.fenced;
  }
  if (!merged.lanes) return;
  std::erase_if(t.groups, [&](const Group& g) { return (g.lanes & lanes) != 0; });
  t.groups.push_back(std::move(merged));
  t.now++;
}

// ---- fences

void Races::proxy_fence(const Warp& w, uint32_t lanes, bool shared, bool global) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    Knowledge& know = mutable_knowledge(g);
    if (shared) {
      know.of[kProxyShared].join(know.of[kHappens]);
      g.own[kProxyShared] = g.own[kProxySharedOwn] = t.now;
    }
    if (global) {
      know.of[kProxyGlobal].join(know.of[kHappens]);
      g.own[kProxyGlobal] = t.now;
    }
  }
  t.now++;
}

void Races::init_fence(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups)
    if (g.lanes & lanes) g.own[kInitFence] = t.now;
  t.now++;
}

void Races::before_thread_sync(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    g.own[kBeforeSync] = t.now;
  }
  t.now++;
}

void Races::after_thread_sync(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    Knowledge& know = mutable_knowledge(g);
    know.of[kHappens].join(know.of[kBeforeSync]);
    know.of[kAfterHappens].join(know.of[kHappens]);
    know.of[kAfterSync].join(know.of[kBeforeSync]);
  }
}

// fence.acq_rel, fence.sc, membar: what strong accesses before it read is acquired, what strong writes after
// it store is released (PTX ISA 8.10.2).
void Races::thread_fence(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    std::vector<uint64_t> keys;
    keys.swap(g.seen);
    for (uint64_t key : keys) {
      if (auto f = flags_.find(key); f != flags_.end()) mutable_knowledge(g).join(f->second);
      if (auto c = flag_clusters_.find(key); c != flag_clusters_.end())
        earlier_.insert(c->second.begin(), c->second.end());
    }
    g.fenced = std::make_shared<Knowledge>();
    publish(t, g, g.lanes, *g.fenced);
  }
  t.now++;
}

// A red does not read for its thread: it acquires nothing (PTX ISA 8.11.1).
void Races::flag(const Exec& x, uint64_t key, int lane, bool write) {
  Thread& t = thread(x.w);
  auto clusters = flag_clusters_.find(key);
  const bool reads = !write || ((x.order & kAtomic) && x.instr->o[0] != INT32_MIN);
  if (reads && clusters != flag_clusters_.end()) {
    if (x.order & kAcquires) {
      earlier_.insert(clusters->second.begin(), clusters->second.end());
      if (auto f = flags_.find(key); f != flags_.end()) acquire(x.w, 1u << lane, f->second);
    } else {
      auto& seen = group_of(t, lane).seen;
      if (seen.empty() || seen.back() != key) seen.push_back(key);
    }
  }
  if (!write) return;
  if (x.order & kReleases) {
    release(x.w, 1u << lane, flags_[key]);
    flag_clusters_[key].insert(clusters_);
  } else if (const Group& g = group_of(t, lane); g.fenced) {
    flags_[key].join(*g.fenced);
    flag_clusters_[key].insert(clusters_);
  }
}

// ---- named and cluster barriers

void Races::named_arrive(const Warp& w, uint32_t id) { release(w, ~0u, state(*w.cta).named[id].gather); }
void Races::named_done(const Cta& cta, uint32_t id) {
  Meeting& m = state(cta).named[id];
  m.done = std::make_shared<Knowledge>(std::move(m.gather));
  m.gather = Knowledge{};
}
void Races::named_pass(const Warp& w, uint32_t id) {
  warp_sync(w, ~0u);
  if (auto& done = state(*w.cta).named[id].done) acquire(w, ~0u, *done);
}

void Races::cluster_arrive(const Warp& w, uint32_t lanes, bool releases) {
  if (releases) {
    release(w, lanes, cluster_.gather);
    return;
  }
  // A relaxed arrival carries what a fence.mbarrier_init has released, and nothing else.
  Thread& t = thread(w);
  Knowledge known;
  for (const Group& g : t.groups)
    if (g.lanes & lanes) publish(t, g, lanes, known);
  cluster_.gather.of[kInitFence].join(known.of[kInitFence]);
}
void Races::cluster_done() {
  cluster_.done = std::make_shared<Knowledge>(std::move(cluster_.gather));
  cluster_.gather = Knowledge{};
}
void Races::cluster_pass(const Warp& w, uint32_t lanes) {
  if (cluster_.done) acquire(w, lanes, *cluster_.done);
}

void Races::exit(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  CtaState& s = state(*w.cta);
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    s.at_exit.join(g.know->of[kHappens]);
    s.at_exit.raise(t.agent, (lanes & t.all) == t.all ? ~0u : lanes & g.lanes, t.now);
  }
  if (!w.cta->exited()) return;
  Origin at{w.exits.empty() ? nullptr : w.exits.back().second, w.cta->id, w.cta->rank, w.index, -1};
  for (auto [id, lane] : s.remote) {
    const Access& a = accesses_[id];
    if (s.at_exit.covers(a.agent, a.tick, lane, a.lanes)) continue;
    const uint32_t here = record(t, at, lanes, Path::Generic);
    report(Severity::Error, "race-exit", id, true, here, true, Place::Shared, w.cta->rank, 0,
           "a cluster barrier, or a wait of this CTA for that access, before it exits");
  }
}

// ---- mbarriers

Races::Barrier* Races::barrier(Cta& cta, uint32_t offset) {
  auto& all = state(cta).barriers;
  auto it = all.find(offset);
  return it == all.end() ? nullptr : &it->second;
}

void Races::mbarrier_init(const Exec& x, Cta& cta, uint32_t offset, int lane) {
  Thread& t = thread(x.w);
  Barrier& b = state(cta).barriers[offset];
  if (!b.agent) b.agent = ++agents_;
  b.init = record(t, x.origin(lane), 1u << lane, Path::Generic);
  finish(b.init, t.agent, t.now, 1u << lane);
  b.init_lane = static_cast<int8_t>(lane);
  b.checked.clear();
  b.phases = 0;
}

void Races::mbarrier_arrive(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, bool releases) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  Thread& t = thread(x.w);
  const bool far = &cta != &x.cta;
  if (far || !b->checked.count(t.agent)) {
    const int lane = __builtin_ctz(lanes);
    const Origin at = x.origin(lane);
    View v = view_of(t, group_of(t, lane), 1u << lane);
    const uint32_t id = record(t, at, lanes, Path::Generic);
    finish(id, t.agent, t.now, lanes);
    knows_init(v, id, cta, offset, far);
    if (far)
      remote(cta, id, (lanes & (lanes - 1)) ? kSeveralLanes : static_cast<int8_t>(lane));
    else if (t.groups.size() == 1)
      b->checked.insert(t.agent);
  }
  if (releases) release(x.w, lanes, b->gather);
}

void Races::mbarrier_pass(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, bool relaxed) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  Thread& t = thread(x.w);
  if (!b->checked.count(t.agent)) {
    const int lane = __builtin_ctz(lanes);
    const uint32_t id = record(t, x.origin(lane), lanes, Path::Generic);
    finish(id, t.agent, t.now, lanes);
    knows_init(view_of(t, group_of(t, lane), 1u << lane), id, cta, offset, false);
    if (t.groups.size() == 1) b->checked.insert(t.agent);
  }
  if (b->done && !relaxed) {
    acquire(x.w, lanes, *b->done);
  } else if (b->done) {
    // A relaxed wait orders tcgen05 operations only, from the next after_thread_sync on.
    split(t, lanes);
    for (Group& g : t.groups)
      if (g.lanes & lanes) mutable_knowledge(g).of[kBeforeSync].join(b->done->of[kBeforeSync]);
  }
  t.barrier = static_cast<int32_t>(offset);
  t.phase = static_cast<int32_t>(b->phases) - 1;
}

// The bytes of a copy are visible to whoever sees the phase that they count in; nothing else that its thread
// did is (PTX ISA 8.9.1.1).
void Races::mbarrier_deliver(Cta& cta, uint32_t offset, uint32_t phase) {
  Barrier* b = barrier(cta, offset);
  if (!b || !op_) return;
  knows_init(*op_, op_->reads, cta, offset, true);
  for (uint32_t id : {op_->reads, op_->writes})
    if (id && accesses_[id].tick == kUnfinished) finish(id, b->agent, phase + 1, 0);
  if (cta.rank != op_->at.rank && op_->writes) remote(cta, op_->writes, kWholeWarp);
  op_->writes = 0;  // the next destination completes on a barrier of its own
}

// A commit arrives when the operations before it are complete; they began after what their thread did before.
void Races::mbarrier_commit(Cta& cta, uint32_t offset) {
  Barrier* b = barrier(cta, offset);
  if (!b || !op_) return;
  knows_init(*op_, op_->reads, cta, offset, true);
  const View& v = *op_;
  b->gather.join(*v.know);
  for (int k = 0; k < kPublished; ++k) {
    const Tick tick = k == kHappens ? v.now : v.own[static_cast<size_t>(k)];
    if (tick) b->gather.of[k].raise(v.agent, v.lanes, tick);
  }
  b->gather.of[kHappens].raise(v.pipe, v.pipe_tick);
  b->gather.of[kBeforeSync].raise(v.pipe, v.pipe_tick);  // implied by the commit (PTX ISA 9.7.16.12)
  if (cta.rank != v.at.rank) remote(cta, v.reads, kWholeWarp);
}

void Races::mbarrier_phase(Cta& cta, uint32_t offset, uint32_t phases_done) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  b->phases = phases_done;
  b->gather.of[kHappens].raise(b->agent, phases_done);
  b->done = std::make_shared<Knowledge>(b->gather);
}

// ---- asynchronous operations

View Races::view_of(Thread& t, const Group& g, uint32_t lanes) {
  View v;
  v.know = g.know;
  v.agent = t.agent;
  v.lanes = lanes;
  v.now = t.now;
  v.own = g.own;
  return v;
}

std::shared_ptr<const Knowledge> Races::joined(Thread& t) {
  if (t.groups.size() == 1) return t.groups[0].know;
  auto all = std::make_shared<Knowledge>(*t.groups[0].know);
  for (const Group& g : t.groups)
    for (int k = 0; k < kOrders; ++k) all->of[k].join(g.know->of[k]);
  return all;
}

std::shared_ptr<View> Races::issue(const Origin& at, const char* engine, uint64_t queue) {
  if (op_) return op_;  // the second half of the operation that completes now
  Thread& t = ctas_[static_cast<size_t>(at.rank)].warps[static_cast<size_t>(at.warp)];
  const std::string name = engine;
  auto v = std::make_shared<View>(view_of(t, group_of(t, at.lane), 1u << at.lane));
  v->at = at;
  t.now++;  // what the warp does from here on is not before the operation
  forget_view();
  if (name == "MMA" || name == "commit" || name == "tcgen05.cp") {
    Pipe& p = pipes_[queue];
    if (!p.agent) p.agent = ++agents_;
    v->path = Path::Tensor;
    v->pipe = p.agent;
    v->pipe_tick = ++p.tick;
    v->reads = v->writes = record(t, at, v->lanes, v->path);
    finish(v->reads, p.agent, p.tick, 0);
  } else if (name == "TMEM store") {
    v->path = Path::Warp;
    v->know = joined(t);
    v->lanes = t.all;
    v->reads = v->writes = record(t, at, t.all, v->path);
    t.stores.push_back(v);
  } else {
    v->path = Path::Copy;
    v->reads = record(t, at, v->lanes, v->path);
    v->writes = grouped_ ? record(t, at, v->lanes, v->path) : 0;
    if (grouped_) {
      BulkThread& b = t.bulk[at.lane];
      b.pending.push_back({b.committed, v});
      grouped_ = false;
    }
  }
  return v;
}

void Races::bulk_commit(const Warp& w, int lane) { thread(w).bulk[lane].committed++; }

void Races::bulk_pass(const Warp& w, int lane, int64_t allowed, bool reads_only) {
  Thread& t = thread(w);
  BulkThread& b = t.bulk[lane];
  forget_view();
  for (auto& [group, op] : b.pending) {
    if (group >= b.committed - allowed) continue;
    if (op->reads) finish(op->reads, t.agent, t.now, 1u << lane);
    op->reads = 0;
    if (!reads_only && op->writes) finish(op->writes, t.agent, t.now, 1u << lane);
  }
  if (!reads_only) std::erase_if(b.pending, [&](const auto& p) { return p.first < b.committed - allowed; });
}

std::shared_ptr<View> Races::tmem_load(const Exec& x) {
  Thread& t = thread(x.w);
  auto v = std::make_shared<View>(view_of(t, t.groups[0], t.all));
  v->know = joined(t);
  v->path = Path::Warp;
  v->at = x.origin(x.lane());
  v->reads = record(t, v->at, t.all, v->path);
  t.now++;
  forget_view();
  return v;
}

void Races::tmem_load_done(const Warp& w, const View& load) {
  Thread& t = thread(w);
  finish(load.reads, t.agent, t.now, t.all);
}

void Races::tmem_stores_done(const Warp& w) {
  Thread& t = thread(w);
  for (auto& v : t.stores) finish(v->writes, t.agent, t.now, t.all);
  t.stores.clear();
}

}  // namespace tileproof
