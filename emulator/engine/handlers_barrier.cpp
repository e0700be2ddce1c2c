// Named barriers: bar and barrier, .sync, .arrive and .red (PTX ISA 9.7.13.1); when a round of one, or of the
// cluster barrier, is complete.
#include <algorithm>

#include "machine.hpp"
#include "enumerations/sync.hpp"
#include "slots/sync.hpp"

namespace tileproof {
namespace {

namespace s_ = slot::bar;

BarrierMode mode_of(const Instr& i) { return static_cast<BarrierMode>(i.m[s_::mode]); }
bool votes_in(BarrierMode m) { return m >= BarrierMode::Popc; }

uint32_t threads_of(Exec& x, const Instr& i) {
  return i.o[s_::threads] == INT32_MIN ? ~0u : x.src<uint32_t>(i.o[s_::threads])[x.lane()];
}

// Whether an operand has several values.
bool differ(const Exec& x, int32_t off) {
  const uint32_t* values = x.src<uint32_t>(off);
  return std::any_of(values, values + 32, [&, l = 0](uint32_t value) mutable {
    return (x.mask >> l++ & 1) && value != values[x.lane()];
  });
}

// All lanes of the warp that have not exited are there: the warp counts, with its votes. False after a fault.
bool come(Exec& x, const Instr& i, uint32_t id) {
  NamedBarrier& b = x.cta.named[id];
  const uint32_t count = threads_of(x, i), bit = 1u << x.w.index;
  if (b.arrived && b.expected != count) {
    x.e.fault("barrier-count-mismatch",
              "named barrier " + std::to_string(id) + " is used with " + std::to_string(count) +
                  " threads while warps wait on it with " + std::to_string(b.expected),
              x.origin(x.lane()));
    return false;
  }
  const bool reduces = votes_in(mode_of(i));
  // Two arrivals that do not wait would stand for a warp that has not come. A wait behind its own arrival is
  // a token that the warp gave itself, or a place among the waiting warps: the ISA has only a count of
  // threads.
  if (b.warps & bit && mode_of(i) == BarrierMode::Arrive)
    x.e.error(
        "barrier-arrived-twice",
        "warp " + std::to_string(x.w.index) + " arrives at named barrier " + std::to_string(id) +
            " again before the phase of its previous arrival is complete: " + std::to_string(b.arrived) +
            (count == ~0u ? std::string(" threads") : " of " + std::to_string(count) + " threads") +
            " have come",
        x.origin(x.lane()));
  if (b.arrived && b.reduces != reduces)
    x.e.error("barrier-mixed",
              "named barrier " + std::to_string(id) + " is used with and without .red in the same phase",
              x.origin(x.lane()));
  b.reduces = reduces;
  b.expected = count;
  b.arrived += 32;
  b.warps |= bit;
  b.told &= ~bit;
  x.w.meet(x.w.live);  // each thread waits for those of its warp (PTX ISA 9.7.13.1)
  NamedBarrier::Part& part = b.parts[static_cast<size_t>(x.w.index)];
  b.yes += part.yes;
  b.voters += static_cast<uint32_t>(__builtin_popcount(x.w.live));
  part = {};
  ++x.e.progress;
  x.e.tell(&Listener::named_arrive, x, id);
  for (Split& s : x.w.splits)
    if (!s.dead && s.arrived && s.bar_offset == id) s.token = b.generation;
  x.e.named_barrier_check(x.cta, static_cast<int>(id));
  return true;
}

// A thread that has arrived: whether it goes on.
Step go_on(Exec& x, const Instr& i) {
  Split& s = *x.s;
  const uint32_t id = s.bar_offset;
  NamedBarrier& b = x.cta.named[id];
  const BarrierMode mode = mode_of(i);
  if (const uint32_t there = b.parts[static_cast<size_t>(x.w.index)].lanes; there & s.mask) {
    if ((there & x.w.live) != x.w.live) {  // other lanes of its warp are still to come
      s.wait = Wait::NamedBarrier;
      return Step::Block;
    }
    if (!come(x, i, id)) return Step::Stop;
  }
  if (mode != BarrierMode::Arrive) {
    if (b.generation == s.token) {
      s.wait = Wait::NamedBarrier;
      return Step::Block;
    }
    if (!(b.told >> x.w.index & 1)) {  // of several groups of its lanes the first tells
      b.told |= 1u << x.w.index;
      x.e.tell(&Listener::named_pass, x.w, id);
    }
    x.w.pass(&i, x.e.counters.warp_instructions);
  }
  s.arrived = s.only_arrives = false;
  if (mode == BarrierMode::Popc) {
    for (uint32_t m = x.mask; m; m &= m - 1) x.dst<uint32_t>(i.o[s_::dst])[__builtin_ctz(m)] = s.yes;
  } else if (votes_in(mode)) {
    uint32_t& p = *x.dst<uint32_t>(i.o[s_::dst]);
    p = (p & ~x.mask) | ((mode == BarrierMode::And ? s.yes == s.voters : s.yes != 0) ? x.mask : 0);
  }
  return Step::Next;
}

// `threads` may be none; `vote` is the predicate of .red. Of an .aligned one the lanes of the warp come
// together; of another each where it stands, and the warp counts with the last.
Step bar(Exec& x, const Instr& i) {
  if (x.s->arrived) return go_on(x, i);
  if (i.m[s_::aligned] && !x.whole_warp(false)) return Step::Block;
  const int l = x.lane();
  const uint32_t id = x.src<uint32_t>(i.o[s_::id])[l], count = threads_of(x, i);
  if (differ(x, i.o[s_::id]) || (i.o[s_::threads] != INT32_MIN && differ(x, i.o[s_::threads]))) {
    x.e.fault("barrier-operands", "lanes of a warp come to a named barrier with different operands",
              x.origin(l));
    return Step::Stop;
  }
  if (id > 15 || (count != ~0u && (count % 32 || !count))) {
    x.e.fault("barrier-operands",
              "named barrier " + std::to_string(id) + " with " + std::to_string(count) +
                  " threads; ids are 0..15, counts multiples of 32",
              x.origin(l));
    return Step::Stop;
  }
  NamedBarrier& b = x.cta.named[id];
  Split& s = *x.s;
  s.arrived = true;
  s.only_arrives = mode_of(i) == BarrierMode::Arrive;
  s.bar_offset = id;
  s.token = b.generation;
  NamedBarrier::Part& part = b.parts[static_cast<size_t>(x.w.index)];
  if (!i.m[s_::aligned] && (x.mask != x.w.live || x.w.parted() || !x.w.exits.empty()))
    x.e.tell(&Listener::accesses_untold, x, l, "by lanes that come to a named barrier apart from their warp");
  part.lanes |= x.mask;
  if (votes_in(mode_of(i))) {
    const uint32_t votes = *x.src<uint32_t>(i.o[s_::vote]);
    part.yes += static_cast<uint32_t>(__builtin_popcount((i.m[s_::negated] ? ~votes : votes) & x.mask));
  }
  return go_on(x, i);
}

const Registrar barriers({{"bar", bar}});

}  // namespace
void Engine::cluster_barrier_check(Cluster& cluster) {
  if (cluster.barrier_arrived && cluster.barrier_arrived >= cluster.live_threads) {
    cluster.barrier_arrived = 0;
    cluster.barrier_generation++;
    tell(&Listener::cluster_done, cluster);
    counters.barrier_phases++;
    ++progress;
    for (auto& cta : cluster.ctas)
      for (Warp& w : cta->warps) w.cluster_arrived = 0;
  }
}

void Engine::named_barrier_check(Cta& cta, int id) {
  NamedBarrier& b = cta.named[static_cast<size_t>(id)];
  if (!b.arrived) return;
  uint32_t expected = b.expected;
  if (expected == ~0u) {  // the whole CTA: exited warps are no longer expected
    expected = 0;
    for (Warp& w : cta.warps) expected += w.live ? 32 : 0;
  }
  if (b.arrived >= expected) {
    b.arrived = 0;
    b.expected = 0;
    b.before = b.warps;
    b.warps = 0;
    if (b.reduces)
      for (Warp& w : cta.warps)
        for (Split& s : w.splits)
          if (!s.dead && s.arrived && s.bar_offset == static_cast<uint32_t>(id) && s.token == b.generation)
            s.yes = b.yes, s.voters = b.voters;
    b.reduces = false;
    b.yes = b.voters = 0;
    b.generation++;
    tell(&Listener::named_done, cta, static_cast<uint32_t>(id));
    counters.barrier_phases++;
    ++progress;
  }
}

}  // namespace tileproof
