// Asynchronous operations: what their thread knew at issue, and when their accesses count as complete.
#include "machine.hpp"
#include "pool.hpp"
#include "race.hpp"

namespace tileproof {

View Races::view_of(Thread& t, const Group& g, uint32_t lanes) {
  View v;
  v.know = g.know;
  v.agent = t.agent;
  v.lanes = lanes;
  v.now = t.now;
  v.met = g.met;
  v.together = t.together;
  v.own = g.own;
  v.maps_released = g.maps_released;
  if (t.copies && lanes) look_at_copies(t, __builtin_ctz(lanes), v);
  return v;
}

std::shared_ptr<const Knowledge> Races::joined(Thread& t) {
  if (t.groups.size() == 1) return t.groups[0].know;
  auto all = std::make_shared<Knowledge>(*t.groups[0].know);
  for (const Group& g : t.groups) {
    all->started |= g.know->started;
    for (int k = 0; k < kOrders; ++k) all->of[k].join(g.know->of[k]);
  }
  return all;
}

void Races::issue(AsyncOp& op) { op.view = issued(op.origin, op.engine, op.queue); }

void Races::completing(const AsyncOp& op) {
  if (!questions_.empty()) answer();
  outer_.push_back(std::move(op_));
  op_ = op.view;
}
void Races::completed(const AsyncOp&) {
  if (!questions_.empty()) answer();
  op_ = std::move(outer_.back());
  outer_.pop_back();
}

std::shared_ptr<View> Races::issued(const Origin& at, const char* engine, uint64_t queue) {
  if (op_) return op_;  // the second half of the operation that completes now
  Thread& t = thread_at(at);
  const std::string_view name = engine;
  auto v = std::allocate_shared<View>(Pooled<View>{}, view_of(t, group_of(t, at.lane), 1u << at.lane));
  v->at = at;
  if (name == "cp.async") {
    issue_copies(t, *v);
    forget_view();
    return v;
  }
  t.now++;  // what the warp does from here on is not before the operation
  forget_view();
  if (name == "MMA" || name == "commit" || name == "tcgen05.cp" || name == "wgmma") {
    Pipe& p = pipes_[queue];
    if (!p.agent) p.agent = new_agent(*t.home);
    v->path = name == "wgmma" ? Path::Warpgroup : Path::Tensor;
    v->pipe = p.agent;
    v->pipe_tick = ++p.tick;
    v->reads = v->writes = record(t, at, v->lanes, v->path);
    finish(v->reads, p.agent, p.tick, 0);
  } else if (name == "TMEM store") {
    v->path = Path::Warp;
    v->know = joined(t);
    v->lanes = t.all;
    v->reads = v->writes = record(t, at, t.all, v->path);
    accesses_[v->writes].agent = t.agent;
    t.stores.push_back(v);
  } else if (name == "release store") {
    Pipe& p = t.release_stores;
    if (!p.agent) p.agent = new_agent(*t.home);
    v->path = Path::Store;
    v->pipe = p.agent;
    v->pipe_tick = ++p.tick;
    v->writes = record(t, at, v->lanes, v->path);
    finish(v->writes, p.agent, p.tick, 0);
  } else {
    v->path = name == "remote store" ? Path::Store : Path::Copy;
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

// What the thread of an asynchronous operation knew and had done at its issue, and the operation itself.
void Races::give(const View& v, Knowledge& to) {
  const uint32_t lanes = v.lanes | ~thread_at(v.at).all;
  to.join(*v.know);
  raise_own(to, v.agent, lanes, v.now, v.own);
  if (v.together) to.of[kRuns].raise(v.agent, ~0u, v.together);
  if (v.maps_released) to.mutable_maps().released.raise(v.agent, lanes, v.maps_released);
  if (v.copies_waited) happened(to, v.copies, lanes, v.copies_waited);
  happened(to, v.pipe, ~0u, v.pipe_tick);
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

void Races::tmem_load(const Exec& x, PendingTmemLoad& load, int) {
  Thread& t = thread(x.w);
  auto v = std::make_shared<View>(view_of(t, t.groups[0], t.all));
  v->know = joined(t);
  v->path = Path::Warp;
  v->at = x.origin(x.lane());
  v->reads = record(t, v->at, t.all, v->path);
  accesses_[v->reads].agent = t.agent;
  t.loads.push_back(v->reads);
  t.now++;
  forget_view();
  load.view = std::move(v);
}

void Races::tmem_load_used(const Warp& w, const PendingTmemLoad& load) {
  Thread& t = thread(w);
  Access& a = accesses_[load.view->reads];
  if (a.tick != kUnfinished || a.used) return;
  a.used = t.now++;
  forget_view();
  if (w.parted())
    doubt("unsupported", a.at, a.at,
          mnemonic(a.at.instr) + ", of which lanes that have parted use a register before tcgen05.wait::ld");
}

void Races::tmem_loads_done(const Warp& w) {
  Thread& t = thread(w);
  for (uint32_t id : t.loads) finish(id, t.agent, t.now, t.all);
  t.loads.clear();
}

void Races::tmem_stores_done(const Warp& w) {
  Thread& t = thread(w);
  for (auto& v : t.stores) finish(v->writes, t.agent, t.now, t.all);
  t.stores.clear();
}

}  // namespace tileproof
