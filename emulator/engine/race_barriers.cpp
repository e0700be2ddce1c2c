// What barriers of all kinds pass on, and what their misuse breaks.
#include <algorithm>
#include <utility>

#include "machine.hpp"
#include "race.hpp"
#include "schedule.hpp"

namespace tileproof {

// ---- named and cluster barriers

void Races::named_arrive(const Exec& x, uint32_t id) {
  Thread& t = thread(x.w);
  Meeting& m = state(x.cta).named[id];
  const auto know = joined(t);
  bool again = false, known = true;
  for (auto [agent, tick] : m.last) {
    again |= agent == t.agent;
    known &= agent == t.agent || know->of[kHappens].covers(agent, tick, kWholeWarp, ~0u);
  }
  m.came.push_back({t.agent, t.now});
  t.rounds[id] = m.rounds + 1;
  ++e_.obligations.arrivals;
  PhaseEvent event{t.agent, t.now, t.all, x.origin(x.lane())};
  event.hold = e_.scheduler->running(x.w, *x.s);
  const Actor who{know.get(), t.agent, t.all, t.now, t.together};
  const auto open = std::find_if(m.arrived_last.begin(), m.arrived_last.end(),
                                 [&](const PhaseEvent& e) { return !follows(who, e); });
  m.arrived.push_back(event);
  release(x, ~0u, m.gather);
  if (again && !known)
    e_.error("barrier-arrived-twice",
             "warp " + std::to_string(x.w.index) + " arrives at named barrier " + std::to_string(id) +
                 " again, and no barrier orders it after the previous phase: under another schedule "
                 "both arrivals can be in the same phase",
             x.origin(x.lane()));
  else if (open != m.arrived_last.end())
    open_round(x, id, *open, event);
}
void Races::named_done(const Cta& cta, uint32_t id) {
  Meeting& m = state(cta).named[id];
  const auto done = std::make_shared<const Knowledge>(std::move(m.gather));
  m.gather = Knowledge{};
  for (Thread& t : state(cta).warps)
    if (t.rounds[id] == m.rounds + 1) t.given[id] = done;
  m.last = std::move(m.came);
  m.came.clear();
  m.arrived_last = std::move(m.arrived);
  m.arrived.clear();
  m.rounds++;
}
void Races::named_pass(const Warp& w, uint32_t id) {
  warp_sync(w, ~0u);
  if (const auto done = std::move(thread(w).given[id])) acquire(w, ~0u, *done);
}

void Races::cluster_arrive(const Exec& x, bool releases) {
  Meeting& m = cluster(x.cta).meeting;
  thread(x.w).meets = m.rounds + 1;
  if (releases) {
    release(x, x.mask, m.gather);
    return;
  }
  // A relaxed arrival carries what a fence.mbarrier_init has released, and nothing else.
  Thread& t = thread(x.w);
  Knowledge known;
  for (const Group& g : t.groups)
    if (g.lanes & x.mask) {
      publish(t, g, x.mask, known);
      m.settled.open.join(g.know->of[kHappens]);
      m.preceded.open.join(g.know->of[kHappens]);
      m.preceded.open.raise(t.agent, t.absent_too(g.lanes & x.mask), t.now);
    }
  m.gather.of[kInitFence].join(known.of[kInitFence]);
  runs_before(t, x.mask, m.gather);
  forget_view();
}
void Races::cluster_done(const Cluster& c) {
  Meeting& m = clusters_[c.slot]->meeting;
  m.rounds++;
  for (Rounds* kept : {&m.settled, &m.preceded}) {
    auto all = std::make_shared<Clock>(std::move(kept->open));
    if (!kept->complete.empty()) all->join(*kept->complete.back());
    kept->complete.push_back(std::move(all));
    kept->open.clear();
  }
  m.done = std::make_shared<Knowledge>(std::move(m.gather));
  m.gather = Knowledge{};
}
// Whether the access is among what is kept of the .relaxed arrivals at the cluster barrier that the other
// access's thread has waited for.
bool Races::passed(const View& v, const Access& a, int8_t lane, Rounds Meeting::* kept) const {
  const Rounds& rounds = thread_at(v.at).home->meeting.*kept;
  return v.met && rounds.complete[v.met - 1]->covers(a.agent, a.tick, lane, a.lanes);
}
void Races::cluster_pass(const Warp& w, uint32_t lanes) {
  const Meeting& m = cluster(*w.cta).meeting;
  Thread& t = thread(w);
  split(t, lanes);
  for (Group& g : t.groups)
    if (g.lanes & lanes) g.met = m.rounds;
  if (m.done) acquire(w, lanes, *m.done);
}

void Races::exit(const Warp& w, uint32_t lanes, const Instr*) {
  Thread& t = thread(w);
  CtaState& s = state(*w.cta);
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    s.at_exit.join(g.know->of[kHappens]);
    s.at_exit.raise(t.agent, t.absent_too(lanes & g.lanes), t.now);
  }
  if (!w.cta->exited()) return;
  Origin at{w.exits.empty() ? nullptr : w.exits.back().second, w.cta->id, w.cta->rank, w.index, -1};
  const auto commit = [&](const Access& a) { return mnemonic(a.at.instr).starts_with("tcgen05.commit"); };
  std::map<std::pair<int, int>, uint64_t> arrived;  // when the last one that did was issued, by rank and warp
  for (auto [id, lane] : s.remote)
    if (const Access& a = accesses_[id]; s.at_exit.covers(a.agent, a.tick, lane, a.lanes) && commit(a)) {
      uint64_t& last = arrived[{a.at.rank, a.at.warp}];
      last = std::max<uint64_t>(last, a.at.time);
    }
  for (auto [id, lane] : s.remote) {
    const Access& a = accesses_[id];
    if (s.at_exit.covers(a.agent, a.tick, lane, a.lanes)) continue;
    const uint32_t here = record(t, at, lanes, Path::Generic);
    const auto later = arrived.find({a.at.rank, a.at.warp});
    if (later != arrived.end() && a.at.time < later->second && commit(a)) {
      report(Severity::Warning, "race-commit-exit", id, true, here, true, Place::Shared, w.cta->rank, 0,
             "a wait of this CTA for the mbarrier phase that the commit arrives in");
      continue;
    }
    report(Severity::Error, "race-exit", id, true, here, true, Place::Shared, w.cta->rank, 0,
           "a cluster barrier, or a wait of this CTA for that access, before it exits");
  }
  // Its own bulk operations must have read their sources.
  for (Thread& own : s.warps)
    for (auto& [lane, bulk] : own.bulk)
      for (auto& [group, op] : bulk.pending) {
        if (!op->reads) continue;
        const uint32_t here = record(t, at, lanes, Path::Generic);
        report(Severity::Warning, "race-store-exit", op->reads, false, here, true, Place::Shared, w.cta->rank,
               0, "cp.async.bulk.wait_group or wait_group.read by the thread that issued it");
      }
  // Its own commits must have arrived; of an earlier one the arrival of a later one says nothing.
  std::map<uint32_t, uint32_t> unseen;  // last commits, in an order of their own
  for (const auto& [offset, b] : s.barriers) {
    if (b.last_commit && b.waited < b.needed) unseen[offset] = b.last_commit;
    delivers_after(s.at_exit, b);
  }
  for (const auto& [offset, id] : unseen) {
    const uint32_t here = record(t, at, lanes, Path::Generic);
    report(Severity::Warning, "race-commit-exit", id, true, here, true, Place::Shared, w.cta->rank, offset,
           "a wait for the mbarrier phase that the commit arrives in");
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
  if (b.agent) begins_again(x, b, cta, offset, lane);
  b.agent = new_agent(cluster(cta));
  b.init = record(t, x.origin(lane), 1u << lane, Path::Generic);
  finish(b.init, t.agent, t.now, 1u << lane);
  b.init_lane = static_cast<int8_t>(lane);
  b.init_round = std::max(t.meets, cluster(cta).meeting.rounds) + 1;
  b.checked.clear();
  b.phases = b.last_commit = b.needed = b.waited = 0;
  b.asked = false;
}

// What is given by a thread, a copy or a commit of another CTA is kept apart as far as the waits may tell.
Knowledge& Races::given(Barrier& b, Far by, bool far) {
  if (!far || (by == kCompletions && !scoped_)) return b.gather;
  if (!b.far[by]) b.far[by] = std::make_shared<Knowledge>();
  return *b.far[by];
}

void Races::mbarrier_arrive(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, MbarrierScope reach) {
  Barrier* b = barrier(cta, offset);
  Thread& t = thread(x.w);
  if (!b) return;
  arrival_counts(x, t, *b, cta, offset, lanes);
  const bool far = &cta != &x.cta;
  const uint32_t id = after_init(x, cta, offset, lanes, *b, far);
  if (far) remote(cta, id, (lanes & (lanes - 1)) ? kSeveralLanes : static_cast<int8_t>(__builtin_ctz(lanes)));
  if (reach != MbarrierScope::Relaxed && (reach != MbarrierScope::Cta || !far)) {
    release(x, lanes, given(*b, reach == MbarrierScope::Default ? kDefaultArrivals : kArrivals, far));
  } else {
    runs_before(t, lanes, b->gather);
    forget_view();
  }
}

// An operation at an mbarrier comes after its init. Its record; 0 where the warp is known to.
uint32_t Races::after_init(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, Barrier& b, bool far) {
  Thread& t = thread(x.w);
  if (!far && b.checked.count(t.agent)) return 0;
  const uint32_t id = record(t, x.origin(__builtin_ctz(lanes)), lanes, Path::Generic);
  finish(id, t.agent, t.now, lanes);
  for (const Group& g : t.groups)
    if (const uint32_t mine = g.lanes & lanes) knows_init(view_of(t, g, mine), id, cta, offset, far);
  if (!far && t.groups.size() == 1) b.checked.insert(t.agent);
  return id;
}

// Under another schedule it gives up, and its thread goes on in the same way: it tells nothing.
void Races::mbarrier_tried(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, bool success) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  b->asked |= success;
  after_init(x, cta, offset, lanes, *b);
  Thread& t = thread(x.w);
  std::erase_if(t.tried, [&](const Tried& one) { return one.at == x.instr && one.offset == offset; });
  Tried one{x.instr, offset, t.now, !success, {}};
  if (success) {
    if (b->done) one.told.push_back(b->done);
    for (const auto& far : b->far_done)
      if (far) one.told.push_back(far);
  }
  t.tried.push_back(std::move(one));
}

// What is missing between two accesses that nothing orders, and what the kernel has in that place: a wait
// that was tried once and not asked, which was over and would have told of the first, or one that gave up.
std::string Races::unheeded(const Access& a, const Access& b, std::string_view missing, bool at_exit,
                            uint64_t offset) const {
  const auto named = [&](const Tried& one) {
    const Instr& i = *one.at;
    std::string text = mnemonic(&i) + " at PTX line " + std::to_string(i.line);
    if (i.source >= 0) text += " (" + e_.program.sources[static_cast<size_t>(i.source)] + ")";
    return text;
  };
  const auto tells = [&](const Tried& one) {
    if (at_exit && one.offset == offset) return !one.gave_up;
    return std::any_of(one.told.begin(), one.told.end(), [&](const auto& known) {
      return known->of[kHappens].covers(a.agent, a.tick, kWholeWarp, a.lanes);
    });
  };
  const Tried* over = nullptr;
  const Tried* gave_up = nullptr;
  for (const Access* by : {&a, &b}) {
    if (by->cluster != b.cluster) continue;
    for (const Tried& one : thread_at(by->at).tried)
      if (one.gave_up && one.now <= by->issued) gave_up = &one;
  }
  for (const CtaState& cta : thread_at(b.at).home->ctas)
    for (const Thread& t : cta.warps)
      for (const Tried& one : t.tried)
        if (tells(one) && (!over || t.agent == b.agent)) over = &one;
  if (over)
    return "a loop around " + named(*over) +
           ", until it is true: here it was, but nothing asks for its result, and it may give up (PTX ISA "
           "9.7.13.15.16)";
  std::string text(missing);
  if (gave_up)
    text += "; before it " + named(*gave_up) +
            " gave up, and nothing asks for its result: a loop around it, until it is true";
  return text;
}

// A scope that is left out is .cta by the letter (PTX ISA 9.7.13.15.13, .16), and what it takes from other
// CTAs is in kHappens only (race-scope-default). An explicit .cta takes no arrival of theirs. Of a copy or a
// commit the ISA gives the scope, .cluster, but not whose it is: only the explicit .cta is held against it.
void Races::mbarrier_pass(const Exec& x, Cta& cta, uint32_t offset, uint32_t lanes, MbarrierScope reach) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  b->waited = b->phases;
  b->asked = true;
  after_init(x, cta, offset, lanes, *b);
  Thread& t = thread(x.w);
  wait_counts(x, t, *b, cta, offset, lanes);
  if (b->done && reach != MbarrierScope::Relaxed) {
    const bool narrow = reach == MbarrierScope::Cta;
    acquire(x.w, lanes, *b->done);
    if (const auto& k = b->far_done[kArrivals]; k && !narrow)
      acquire(x.w, lanes, *k, reach == MbarrierScope::Cluster);
    if (const auto& k = b->far_done[kDefaultArrivals]; k && !narrow) acquire(x.w, lanes, *k, false);
    if (const auto& k = b->far_done[kCompletions]) acquire(x.w, lanes, *k, !narrow);
    if (b->has_commits) change(t, lanes, [&](Knowledge& know) { know.of[kCommitted].join(b->committed); });
  } else if (b->done) {
    // A relaxed wait orders tcgen05 operations only, from the next after_thread_sync on.
    split(t, lanes);
    const auto join = [](Knowledge& know, const Knowledge& done) {
      know.of[kBeforeSync].join(done.of[kBeforeSync]);
      know.of[kRuns].join(done.of[kRuns]);
      know.started |= done.started;
    };
    change(t, lanes, [&](Knowledge& know) {
      join(know, *b->done);
      for (const auto& far : b->far_done)
        if (far) join(know, *far);
    });
  }
  t.barrier = static_cast<int32_t>(offset);
  t.phase = static_cast<int32_t>(b->phases) - 1;
}

// The bytes of a copy are visible to threads that observe their phase; other accesses of its thread are not
// (PTX ISA 8.9.1.1).
void Races::mbarrier_deliver(Cta& cta, const Mbarrier& bar, int64_t, const Origin&) {
  Barrier* b = barrier(cta, bar.offset);
  if (!b || !op_) return;
  completion_counts(*op_, *b, cta, bar.offset, false);
  knows_init(*op_, op_->reads, cta, bar.offset, true);
  const bool far = scoped_ && cta.rank != op_->at.rank;
  if (far && !b->far_agent) b->far_agent = new_agent(cluster(cta));
  for (uint32_t id : {op_->source, op_->reads, op_->writes})
    if (id && accesses_[id].tick == kUnfinished) finish(id, far ? b->far_agent : b->agent, bar.phase + 1, 0);
  b->gather.started |= 1u << op_->at.rank;
  if (cta.rank != op_->at.rank && op_->writes) remote(cta, op_->writes, kWholeWarp);
  // What a cta_group::2 copy writes may be in the other CTA of the pair.
  if (Cta* written = op_->wrote < 0 || op_->wrote == cta.rank ? nullptr : cta.cluster->cta(op_->wrote);
      written && op_->writes)
    remote(*written, op_->writes, kWholeWarp);
  // The CTA whose shared memory is the source must not exit before the copy.
  if (op_->reads && mnemonic(op_->at.instr).find(".shared::cluster.shared::cta") != std::string::npos)
    if (Cta* source = cta.cluster->cta(op_->at.rank))
      remote(*source, op_->source ? op_->source : op_->reads, kWholeWarp);
  op_->writes = 0;  // the next destination completes on a barrier of its own
}

// A commit arrives when the operations before it are complete; they began after what their thread did before.
void Races::mbarrier_commit(Cta& cta, uint32_t offset) {
  Barrier* b = barrier(cta, offset);
  if (!b || !op_) return;
  knows_init(*op_, op_->reads, cta, offset, true);
  completion_counts(*op_, *b, cta, offset, true);
  const View& v = *op_;
  Knowledge& to = given(*b, kCompletions, cta.rank != v.at.rank);
  give(v, to);
  b->commits.raise(v.pipe, v.pipe_tick);
  b->has_commits = true;
  to.of[kBeforeSync].raise(v.pipe, v.pipe_tick);  // implied by the commit (PTX ISA 9.7.16.12)
  if (cta.rank == v.at.rank) {
    b->last_commit = v.reads;
    b->needed = b->phases + 1;
    return;
  }
  // The arrival itself is over for threads that observe its phase; a later commit does not imply it.
  accesses_.push_back(accesses_[v.reads]);
  const uint32_t arrival = static_cast<uint32_t>(accesses_.size() - 1);
  finish(arrival, b->agent, b->phases + 1, 0);
  remote(cta, arrival, kWholeWarp);
}

void Races::mbarrier_done(Cta& cta, const Mbarrier& bar, const Origin& at) {
  Barrier* b = barrier(cta, bar.offset);
  if (!b) return;
  b->phases = bar.phase;
  happened(b->gather, b->agent, ~0u, bar.phase);
  if (b->far_agent) happened(given(*b, kCompletions, true), b->far_agent, ~0u, bar.phase);
  b->done = std::make_shared<Knowledge>(b->gather);
  for (size_t k = 0; k < kFar; ++k)
    if (b->far[k]) b->far_done[k] = std::make_shared<Knowledge>(*b->far[k]);
  if (b->has_commits) b->committed = b->commits;
  phase_ends(*b, cta, bar.offset, at);
}

}  // namespace tileproof
