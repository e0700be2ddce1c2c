// cp.async: each warp's copies are an agent of their own, in the ticks of the warp. A thread knows of its
// copies what it has waited for, others what it releases to them or what an mbarrier tracks (PTX
// ISA 9.7.9.25.3).
#include "machine.hpp"
#include "race.hpp"

namespace tileproof {

Races::OwnCopies& Races::own_copies(Thread& t) {
  if (!t.copies) {
    t.copies = std::make_shared<OwnCopies>();
    t.copies->agent = new_agent(*t.home);
  }
  return *t.copies;
}

void Races::copy_open(const Exec& x) { copy_lanes_ = x.mask; }

std::shared_ptr<const CopyParts> Races::parts_of(Thread& t, uint32_t lanes) {
  auto parts = std::make_shared<CopyParts>();
  for (const Group& g : t.groups)
    if (g.lanes & lanes) parts->views.push_back(view_of(t, g, g.lanes & lanes));
  parts->waited = t.copies->waited;
  parts->fenced = t.copies->fenced;
  return parts;
}

void Races::issue_copies(Thread& t, View& v) {
  OwnCopies& own = own_copies(t);
  v.path = Path::ThreadCopy;
  v.copies = own.agent;
  v.parts = parts_of(t, copy_lanes_);
  v.reads = record(t, v.at, copy_lanes_, v.path);
  v.writes = record(t, v.at, copy_lanes_, v.path);
  finish(v.reads, own.agent, t.now, 0);
  finish(v.writes, own.agent, t.now, 0);
  t.now++;
}

void Races::copy_lane(int lane) {
  if (!op_ || !op_->parts) return;
  View& v = *op_;
  for (const View& part : v.parts->views) {
    if (!(part.lanes >> lane & 1)) continue;
    if (v.know != part.know) memo_for_ = 0;
    v.know = part.know;
    v.own = part.own;
  }
  v.lanes = 1u << lane;
  v.at.lane = lane;
  v.copies_waited = v.parts->waited[static_cast<size_t>(lane)];
  v.copies_fenced = v.parts->fenced[static_cast<size_t>(lane)];
}

void Races::copy_commit(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  OwnCopies& own = own_copies(t);
  for (uint32_t m = lanes; m; m &= m - 1) own.commits[static_cast<size_t>(__builtin_ctz(m))].push_back(t.now);
  forget_view();
  t.now++;
}

void Races::copy_pass(const Warp& w, uint32_t lanes, int64_t allowed) {
  OwnCopies& own = own_copies(thread(w));
  forget_view();
  for (uint32_t m = lanes; m; m &= m - 1) {
    const size_t l = static_cast<size_t>(__builtin_ctz(m));
    const int64_t done = static_cast<int64_t>(own.commits[l].size()) - allowed;
    if (done <= 0) continue;
    own.waited[l] = std::max(own.waited[l], own.commits[l][static_cast<size_t>(done - 1)]);
    own.commits[l].erase(own.commits[l].begin(), own.commits[l].begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void Races::copy_track(const Exec& x, CopyArrival& arrival) {
  Thread& t = thread(x.w);
  OwnCopies& own = own_copies(t);
  const int lane = __builtin_ctz(x.mask);
  auto v = std::make_shared<View>(view_of(t, group_of(t, lane), 1u << lane));
  v->at = x.origin(lane);
  v->pipe = own.agent;
  v->pipe_tick = t.now;
  v->reads = record(t, v->at, x.mask, Path::Generic);
  finish(v->reads, t.agent, t.now, x.mask);
  v->parts = parts_of(t, x.mask);
  arrival.view = std::move(v);
  forget_view();
  t.now++;
}

void Races::copy_arrive(Cta& cta, uint32_t offset, const CopyArrival& arrival, int lane) {
  Barrier* b = barrier(cta, offset);
  if (!b || !arrival.view) return;
  View v = *arrival.view;
  for (const View& part : v.parts->views)
    if (part.lanes >> lane & 1) v.know = part.know, v.own = part.own, v.met = part.met;
  v.lanes = 1u << lane;
  knows_init(v, v.reads, cta, offset, false);
  completion_counts(v, *b, cta, offset, true);
  begins_after(v, 1u << lane, *b);
  const uint32_t absent = ~thread_at(v.at).all;
  happened(b->gather, v.pipe, 1u << lane | absent, v.pipe_tick);
}

// What the lanes have waited for travels with their releases.
void Races::publish_copies(const Thread& t, const OwnCopies& own, uint32_t lanes, Knowledge& to) {
  for (uint32_t left = lanes & t.all; left;) {
    const size_t first = static_cast<size_t>(__builtin_ctz(left));
    uint32_t alike = 0;
    for (uint32_t m = left; m; m &= m - 1) {
      const size_t l = static_cast<size_t>(__builtin_ctz(m));
      if (own.waited[l] == own.waited[first] && own.fenced[l] == own.fenced[first]) alike |= 1u << l;
    }
    left &= ~alike;
    const uint32_t present = t.absent_too(alike);
    if (own.waited[first]) happened(to, own.agent, present, own.waited[first]);
    if (!own.fenced[first]) continue;
    to.of[kProxyShared].raise(own.agent, present, own.fenced[first]);
    to.of[kProxySharedOwn].raise(own.agent, present, own.fenced[first]);
  }
}

void Races::fence_copies(Thread& t, uint32_t lanes) {
  for (uint32_t m = lanes & t.all; m; m &= m - 1) {
    const size_t l = static_cast<size_t>(__builtin_ctz(m));
    t.copies->fenced[l] = t.copies->waited[l];
  }
}

void Races::look_at_copies(const Thread& t, int lane, View& v) {
  v.copies = t.copies->agent;
  v.copies_waited = t.copies->waited[static_cast<size_t>(lane)];
  v.copies_fenced = t.copies->fenced[static_cast<size_t>(lane)];
}

// A thread's own copies, which it has waited for.
bool Races::copy_covered(const View& v, Order order, const Access& a, uint32_t lanes) const {
  if (a.path != Path::ThreadCopy || a.agent != v.copies || (lanes & ~v.lanes)) return false;
  const bool fenced = order == kProxyShared || order == kProxySharedOwn;
  return (order == kHappens || order == kScoped || order == kRuns || fenced) &&
         a.tick <= (fenced ? v.copies_fenced : v.copies_waited);
}

// Whether the copying thread has waited, so that only a barrier is missing.
bool Races::copy_waited(const Access& a, int8_t lane) const {
  const Thread& t = thread_at(a.at);
  return t.copies && lane < 32 && a.tick <= t.copies->waited[static_cast<size_t>(lane)];
}

}  // namespace tileproof
