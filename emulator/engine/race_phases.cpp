// The obligations of mbarriers: each event is counted in its phase, and each wait is for its phase, in every
// schedule (docs/certificate.md). "Known" means ordered by happens-before, not by this schedule.
#include <algorithm>

#include "enumerations/mbarrier.hpp"
#include "machine.hpp"
#include "race.hpp"
#include "schedule.hpp"
#include "slots/mbarrier.hpp"

namespace tileproof {

namespace {
constexpr const char* kWaitMissing =
    "a wait for the end of the phase before, by the same thread or by a thread that it is ordered after";

// Whether each of the lanes announces more than 0 bytes.
bool announces(const Exec& x, uint32_t lanes) {
  const uint32_t* bytes = x.src<uint32_t>(x.instr->o[slot::mbarrier_arrive::value]);
  for (; lanes; lanes &= lanes - 1)
    if (!bytes[__builtin_ctz(lanes)]) return false;
  return true;
}
}  // namespace

bool Races::reaches(const Knowledge& know, uint32_t agent, Tick tick, uint32_t lanes) const {
  return know.of[kHappens].covers(agent, tick, kSeveralLanes, lanes) ||
         know.of[kRuns].covers(agent, tick, kSeveralLanes, lanes);
}

// Instructions that the lanes of a warp execute together (elect.sync, tcgen05.ld) order execution alone.
void Races::lanes_meet(const Warp& w, uint32_t lanes) {
  Thread& t = thread(w);
  if ((lanes & t.all) != t.all) return;
  if (t.groups.size() > 1) merge_alike(t);
  if (t.counted <= t.together) return;
  if (t.groups.size() > 1) {
    Clock runs;
    for (const Group& g : t.groups) runs.join(g.know->of[kRuns]);
    change(t, ~0u, [&](Knowledge& know) { know.of[kRuns].join(runs); });
  }
  t.together = t.now++;
}

// Whether the event is over before what the actor does next.
bool Races::follows(const Actor& who, const PhaseEvent& e) const {
  if (!e.agent) return false;
  if (e.agent == who.agent && (e.tick <= who.together || e.lanes == who.lanes)) return e.tick <= who.now;
  return reaches(*who.know, e.agent, e.tick, e.lanes);
}

// Whether the actor knows that the first `phases` phases are complete: from a wait, or since it comes after
// everything that was counted in the last of them. Else `e` is an event that it may come before.
bool Races::knows_phases(const Barrier& b, uint32_t phases, const Actor& who, const PhaseEvent*& e) const {
  if (!phases || reaches(*who.know, b.agent, phases, ~0u)) return true;
  const size_t back = b.phases - phases;
  if (back > 1) return false;
  const auto& counted = b.events.counted[1 + back];
  const auto open =
      std::find_if(counted.begin(), counted.end(), [&](const PhaseEvent& one) { return !follows(who, one); });
  if (open != counted.end()) e = &*open;
  return !counted.empty() && open == counted.end();
}

Actor Races::actor(const View& v) { return {v.know.get(), v.agent, v.lanes, v.now, v.together}; }

// `first` and `second` are not ordered, and must be.
void Races::open_phase(Severity severity, const char* code, const Cta& cta, uint32_t offset,
                       const PhaseEvent& first, const PhaseEvent& second, const std::string& message,
                       const char* missing) {
  const auto which = std::make_tuple(code, second.at.instr, first.at.instr, second.at.rank);
  if (const auto told = reported_.find(which); told != reported_.end()) {
    e_.sink.findings[told->second].count++;
    return;
  }
  Finding* f = e_.sink.add(severity, code,
                           message + " (the mbarrier at shared offset " + hex(offset) + " of CTA rank " +
                               std::to_string(cta.rank) + "); missing: " + missing,
                           second.at, offset, first.at.instr);
  if (!f || f->has_race) return;
  reported_.emplace(which, static_cast<size_t>(f - e_.sink.findings.data()));
  f->has_race = true;
  Race& r = f->race;
  r.first = first.at;
  r.first_lanes = first.lanes;
  r.missing = missing;
  r.actor = first.hold.actor;
  r.step = first.hold.step;
  r.space = "mbarrier";
  r.space_rank = cta.rank;
}

std::string Races::named(const PhaseEvent& e) const {
  return mnemonic(e.at.instr) + " of CTA rank " + std::to_string(e.at.rank) + " warp " +
         std::to_string(e.at.warp);
}

// What is counted in the phase under way, by an instruction of a thread or as an operation completes.
void Races::counts(Barrier& b, const Cta& cta, uint32_t offset, const Actor& who, const PhaseEvent& event,
                   bool arrives) {
  ++e_.obligations.arrivals;
  const PhaseEvent* open = nullptr;
  if (!knows_phases(b, b.phases, who, open)) {
    const auto& before = b.events.counted[1];
    if (!open && !before.empty()) open = &before.back();
    const PhaseEvent& other = open ? *open : event;
    const std::string phase = std::to_string(b.phases - 1);
    const std::string text = named(event) + " is counted in phase " + std::to_string(b.phases) +
                             ", and nothing orders it after the end of phase " + phase + ", in which " +
                             named(other) + " is counted: under another schedule it is counted in phase " +
                             phase;
    if (!b.asked) {
      doubt("order-decides", event.at, other.at, text, other.hold);
      if (b.unasked.empty()) b.unasked.push_back({other, event, text});
    } else {
      open_phase(Severity::Error, "phase-overrun", cta, offset, other, event, text, kWaitMissing);
    }
  }
  if (arrives) std::erase_if(b.events.announced, [&](const PhaseEvent& e) { return follows(who, e); });
  if (event.kind == PhaseEvent::Delivery)
    for (PhaseEvent& e : b.events.announced) e.held_open &= follows(who, e);
  // Of operations that are over for none but those who wait for the phase, one of a kind stands for all.
  auto& counted = b.events.counted[0];
  if (event.agent || counted.empty() || counted.back().agent || counted.back().kind != event.kind)
    counted.push_back(event);
}

void Races::arrival_counts(const Exec& x, Thread& t, Barrier& b, const Cta& cta, uint32_t offset,
                           uint32_t lanes) {
  const auto signal = static_cast<Signal>(x.instr->m[slot::mbarrier_arrive::kind]);
  const bool arrives = signal == Signal::Arrive || signal == Signal::ArriveExpectTx;
  t.counted = t.now;
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    const Actor who{g.know.get(), t.agent, g.lanes & lanes, t.now, t.together};
    PhaseEvent event{t.agent, t.now, who.lanes, x.origin(__builtin_ctz(who.lanes))};
    event.hold = e_.scheduler->running(x.w, *x.s);
    if (signal == Signal::ArriveExpectTx && announces(x, who.lanes)) event.kind = PhaseEvent::ArriveExpectTx;
    if (signal == Signal::CompleteTx) event.kind = PhaseEvent::Delivery;
    const auto& counted = b.events.counted[0];
    event.held_open = signal == Signal::ExpectTx &&
                      std::none_of(counted.begin(), counted.end(),
                                   [](const PhaseEvent& e) { return e.kind == PhaseEvent::Delivery; }) &&
                      std::any_of(counted.begin(), counted.end(), [&](const PhaseEvent& e) {
                        return e.kind == PhaseEvent::ArriveExpectTx && follows(who, e);
                      });
    counts(b, cta, offset, who, event, arrives);
    if (signal != Signal::ExpectTx) continue;
    ++e_.obligations.announcements;
    b.events.announced.push_back(event);
  }
}

void Races::completion_counts(const View& v, Barrier& b, const Cta& cta, uint32_t offset, bool arrives) {
  const auto kind = arrives ? PhaseEvent::Other : PhaseEvent::Delivery;
  PhaseEvent event{0, 0, v.lanes, v.at, kind};
  if (const AsyncOp* op = e_.scheduler->completing()) event.hold = {op->actor, op->step};
  counts(b, cta, offset, actor(v), event, arrives);
  if (!arrives || v.copies) {
    b.delivered = event;
    b.delivered.tick = b.phases + 1;
  }
  if (!arrives) begins_after(v, v.lanes, b);
}

// Bytes are delivered, and copies arrive, after what their thread had done at the issue, which neither makes
// visible.
void Races::begins_after(const View& v, uint32_t lanes, Barrier& b) {
  if (std::find(b.issued.begin(), b.issued.end(), v.know) == b.issued.end()) {
    b.gather.of[kRuns].join(v.know->of[kRuns]);
    b.issued[b.next_issued++ % b.issued.size()] = v.know;
  }
  b.gather.of[kRuns].raise(v.agent, lanes | ~thread_at(v.at).all, v.now);
  if (v.together) b.gather.of[kRuns].raise(v.agent, ~0u, v.together);
}

// A wait is over. By parity a wait passes as well when two phases fewer are complete.
void Races::wait_counts(const Exec& x, Thread& t, Barrier& b, const Cta& cta, uint32_t offset,
                        uint32_t lanes) {
  ++e_.obligations.waits;
  t.counted = t.now;
  for (const Overrun& o : b.unasked)
    open_phase(Severity::Error, "phase-overrun", cta, offset, o.before, o.event, o.text, kWaitMissing);
  b.unasked.clear();
  PhaseEvent event{t.agent, t.now, lanes, x.origin(__builtin_ctz(lanes))};
  event.hold = e_.scheduler->running(x.w, *x.s);
  for (const Group& g : t.groups) {
    if (!(g.lanes & lanes) || b.phases < 2) continue;
    const PhaseEvent* open = nullptr;
    const Actor who{g.know.get(), t.agent, g.lanes & lanes, t.now, t.together};
    if (knows_phases(b, b.phases - 1, who, open)) continue;
    const auto& before = b.events.counted[2];
    if (!open && !before.empty()) open = &before.back();
    const PhaseEvent& other = open ? *open : event;
    open_phase(Severity::Error, "phase-lapped", cta, offset, other, event,
               named(event) + " waits for phase " + std::to_string(b.phases - 1) +
                   ", and may start before the end of phase " + std::to_string(b.phases - 2) + ", in which " +
                   named(other) + " is counted: it then passes by the phase before that, of the same parity",
               kWaitMissing);
    break;
  }
  auto& waits = b.events.waits;
  const auto mine = std::find_if(waits.begin(), waits.end(),
                                 [&](const PhaseEvent& e) { return e.agent == t.agent && e.lanes == lanes; });
  if (mine == waits.end())
    waits.push_back(event);
  else
    *mine = event;  // the later wait stands for both
}

// A phase is complete: the waits for the phase before must be over in every schedule, and nothing of this one
// may still be to be announced.
void Races::phase_ends(Barrier& b, const Cta& cta, uint32_t offset, const Origin& at) {
  Phases& p = b.events;
  const PhaseEvent last{0, 0, at.lane >= 0 ? 1u << at.lane : 0, at};
  const uint32_t phase = b.phases - 1;
  e_.obligations.held += p.waits.size();
  for (const PhaseEvent& wait : p.waits) {
    if (reaches(b.gather, wait.agent, wait.tick, wait.lanes)) continue;
    Knowledge all = b.gather;
    for (const auto& far : b.far)
      if (far) all.join(*far);
    if (reaches(all, wait.agent, wait.tick, wait.lanes)) continue;
    const Clock& ran = all.of[kRuns];
    const bool others = ran.covers_other_lanes(wait.agent, wait.tick);
    open_phase(others ? Severity::Warning : Severity::Error, others ? "phase-lapped-lanes" : "phase-lapped",
               cta, offset, wait, last,
               named(last) + " ends phase " + std::to_string(phase) + ", and nothing orders it after " +
                   named(wait) + ", a wait for the phase before: under another schedule phase " +
                   std::to_string(phase) +
                   " ends first, and the wait goes on to the next phase of its parity",
               others ? "bar.warp.sync after the wait, ahead of the lane that goes on"
                      : "a barrier from the wait to an arrival of the phase that ends");
  }
  for (const PhaseEvent& e : p.announced) {
    if (e.held_open) continue;
    open_phase(Severity::Error, "phase-overrun", cta, offset, e, last,
               named(e) + " announces bytes in phase " + std::to_string(phase) +
                   ", and no arrival of that phase is ordered after it: under another schedule the phase is "
                   "complete before the bytes are announced",
               "an arrival of the phase after the announcement (mbarrier.arrive.expect_tx does both)");
  }
  p.announced.clear();
  p.waits.clear();
  std::swap(p.counted[2], p.counted[1]);
  std::swap(p.counted[1], p.counted[0]);
  p.counted[0].clear();
}

// The phase under way never ends. What holds it open may be bytes that were announced apart from an arrival,
// and that no arrival follows, or bytes that nobody announced: under another schedule it is complete before
// they are counted.
void Races::never_ends(Cta& cta, uint32_t offset, const Barrier& b) {
  const std::string missing = " in a phase that does not end; under another schedule it ends before";
  for (const PhaseEvent& e : b.events.announced)
    if (!e.held_open)
      doubt("order-decides", e.at, e.at,
            named(e) + " announces bytes, and no arrival of its phase is ordered after it," + missing,
            e.hold);
  const Mbarrier* bar = cta.shared.barrier(offset);
  if (!bar || bar->tx >= 0) return;
  for (const PhaseEvent& e : b.events.counted[0])
    if (e.kind == PhaseEvent::Delivery)
      doubt("order-decides", e.at, e.at, named(e) + " delivers bytes that nobody announces," + missing);
}

// An arrival at a named barrier that may be counted in the round before.
void Races::open_round(const Exec& x, uint32_t id, const PhaseEvent& first, const PhaseEvent& second) {
  const std::string at = "named barrier " + std::to_string(id);
  Finding* f =
      e_.sink.add(Severity::Error, "phase-overrun",
                  named(second) + " arrives at " + at + ", and nothing orders it after " + named(first) +
                      ", an arrival of the round before: under another schedule it is " +
                      "counted in that round; missing: a barrier between the two rounds",
                  second.at, 0, first.at.instr);
  if (!f || f->has_race) return;
  f->has_race = true;
  f->race.first = first.at;
  f->race.first_lanes = first.lanes;
  f->race.missing = "a barrier between two rounds of " + at;
  f->race.actor = first.hold.actor;
  f->race.step = first.hold.step;
  f->race.space = "barrier";
  f->race.space_rank = x.cta.rank;
}

// The CTA exits: what is delivered to its mbarriers must be over. By a commit: race-commit-exit.
void Races::delivers_after(const Clock& exit, const Barrier& b) {
  const PhaseEvent& e = b.delivered;
  if (!e.tick || exit.covers(b.agent, e.tick)) return;
  doubt("open", e.at, e.at,
        named(e) + " may reach its mbarrier after the CTA has exited: no thread waits for the phase");
}

// mbarrier.init where another mbarrier was.
void Races::begins_again(const Exec& x, Barrier& b, const Cta& cta, uint32_t offset, int lane) {
  Thread& t = thread(x.w);
  const PhaseEvent event{t.agent, t.now, 1u << lane, x.origin(lane)}, inval = b.events.inval;
  if (inval.agent && !follows({group_of(t, lane).know.get(), t.agent, 1u << lane, t.now, t.together}, inval))
    open_phase(Severity::Error, "phase-overrun", cta, offset, inval, event,
               named(event) + " begins the mbarrier, and nothing orders it after " + named(inval) +
                   ", the end of the mbarrier before",
               "a barrier from mbarrier.inval to mbarrier.init");
  b.far_agent = 0;
  b.gather = Knowledge{};
  b.done.reset();
  for (auto& far : b.far) far.reset();
  for (auto& far : b.far_done) far.reset();
  b.has_commits = false;
  b.commits.clear();
  b.issued.fill(nullptr);
  b.events = Phases{};
  b.unasked.clear();
}

// What depends on the schedule although nothing races.
Doubt& Races::doubt(const char* reason, const Origin& at, const Origin& other, const std::string& text,
                    Decision hold) {
  ++told_;
  const auto [found, fresh] =
      doubted_.try_emplace(std::make_tuple(reason, at.instr, other.instr), e_.doubts.size());
  if (fresh) {
    e_.doubts.push_back({reason, text, at, other, hold});
    return e_.doubts.back();
  }
  Doubt& known = e_.doubts[found->second];
  known.count++;
  if (known.hold.step == kNoStep) known.hold = hold;
  return known;
}

// The counter of a phase holds less than 2^20 bytes; how many are counted at once depends on the schedule.
void Races::mbarrier_expected(const Cta&, const Mbarrier& bar, int64_t bytes, const Origin& at) {
  if (bar.announced + std::abs(bytes) >= 1 << 20)
    doubt("order-decides", at, at, mnemonic(at.instr) + ": a phase announces 2^20 bytes or more");
}

// mbarrier.inval ends the barrier: everything at it must be over before.
void Races::mbarrier_inval(const Exec& x, Cta& cta, uint32_t offset, int lane) {
  Barrier* b = barrier(cta, offset);
  if (!b) return;
  after_init(x, cta, offset, 1u << lane, *b);
  Thread& t = thread(x.w);
  const Actor who{group_of(t, lane).know.get(), t.agent, 1u << lane, t.now, t.together};
  const PhaseEvent event{t.agent, t.now, 1u << lane, x.origin(lane)};
  const PhaseEvent* open = nullptr;
  bool known = knows_phases(*b, b->phases, who, open);
  if (!known && !open && !b->events.counted[1].empty()) open = &b->events.counted[1].back();
  for (const auto* events : {&b->events.counted[0], &b->events.waits})
    for (const PhaseEvent& e : *events)
      if (!follows(who, e)) known = false, open = &e;
  if (!known) {
    const PhaseEvent& other = open ? *open : event;
    const std::string text =
        named(event) + " ends the mbarrier, and nothing orders it after " + named(other) + ", which uses it";
    // Triton's kernels leave their last commits behind: their arrival is nowhere waited for.
    if (other.agent)
      open_phase(Severity::Error, "phase-overrun", cta, offset, other, event, text,
                 "a barrier from the last use to mbarrier.inval");
    else
      doubt("order-decides", event.at, other.at, text, other.hold);
  }
  never_ends(cta, offset, *b);
  b->events.inval = event;
  t.now++;
  forget_view();
}

}  // namespace tileproof
