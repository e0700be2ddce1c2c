// cp.async, its groups and its mbarrier arrivals (PTX ISA 9.7.9.25.3, 9.7.13.15.15).
#include "machine.hpp"
#include "slots/cp_async.hpp"

namespace tileproof {
namespace {

CopyState& state_of(Warp& w) {
  if (!w.copies) w.copies = std::make_unique<CopyState>();
  return *w.copies;
}

// One thread's part of a cp.async instruction.
struct Part {
  Origin at;
  uint64_t src = 0;
  uint32_t offset = 0;  // in the own CTA's shared memory
  uint32_t from = 0;    // bytes read; the rest is zero
};

void land(Engine& e, Cta& cta, const Part& p, uint32_t bytes, bool pending) {
  uint8_t image[16] = {};
  e.tell(&Listener::copy_lane, p.at.lane);
  if (p.from) {
    const uint8_t* in = e.async_read_global(p.src, p.from, p.at);
    if (!in) return;
    std::memcpy(image, in, p.from);
  }
  e.async_write_shared(cta, p.offset, image, bytes, pending, p.at);
  e.counters.cp_async_bytes += bytes;
}

Step copy(Exec& x, const Instr& i) {
  namespace s = slot::cp_async;
  const uint32_t bytes = static_cast<uint32_t>(i.m[s::bytes]);
  uint32_t ignore = i.o[s::ignore] == INT32_MIN ? 0 : *x.src<uint32_t>(i.o[s::ignore]);
  if (i.m[s::ignore_negated]) ignore = ~ignore;
  auto parts = std::make_shared<std::vector<Part>>();
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    Part p{x.origin(l), x.src<uint64_t>(i.o[s::src])[l], 0, bytes};
    const uint32_t dst = x.src<uint32_t>(i.o[s::dst])[l];
    if (i.o[s::size] != INT32_MIN) p.from = x.src<uint32_t>(i.o[s::size])[l];
    if (p.from > bytes) {
      x.e.fault("copy-size",
                "cp.async of " + std::to_string(bytes) + " bytes with a src-size of " +
                    std::to_string(p.from) + "; it is at most the cp-size (PTX ISA 9.7.9.25.3.1)",
                p.at, dst);
      return Step::Stop;
    }
    if (ignore >> l & 1) p.from = 0;
    if (dst % bytes || p.src % bytes) {
      x.e.fault("misaligned",
                "cp.async of " + std::to_string(bytes) + " bytes from " + hex(p.src) + " to " + hex(dst) +
                    "; both addresses must be multiples of that",
                p.at, dst);
      return Step::Stop;
    }
    if (!x.shared_owner(dst, l, false)) return Step::Stop;
    p.offset = dst & kOffsetMask;
    if (!x.e.shared_range(x.cta, p.offset, bytes, p.at, "cp.async")) return Step::Stop;
    parts->push_back(p);
  }
  Cta* cta = &x.cta;
  Warp* w = &x.w;
  Engine* e = &x.e;
  const bool pending = !e->early();
  if (pending)
    for (const Part& p : *parts) add_pending(&cta->shared.state[p.offset], bytes);
  CopyState& state = state_of(*w);
  auto flight = std::make_shared<CopyFlight>();
  flight->serial = ++state.serial;
  flight->lanes = x.mask;
  for (uint32_t m = x.mask; m; m &= m - 1)
    state.issued[static_cast<size_t>(__builtin_ctz(m))] = flight->serial;
  state.flights.push_back(flight);
  e->tell(&Listener::copy_open, x);
  e->issue(
      "cp.async", 0, x.origin(x.lane()),
      [=] {
        for (const Part& p : *parts) {
          land(*e, *cta, p, bytes, pending);
          if (e->stopped) return;
        }
        std::erase(w->copies->flights, flight);
        for (auto& [arrival, arrive] : flight->arrivals)
          if (--arrival->copies_left == 0) arrive();
      },
      {}, static_cast<int64_t>(bytes * parts->size()));
  return Step::Next;
}

void close_group(Exec& x) {
  CopyState& state = state_of(x.w);
  for (uint32_t m = x.mask; m; m &= m - 1)
    state.groups[static_cast<size_t>(__builtin_ctz(m))].push_back(state.serial);
  x.e.hold(kGroupBytes * static_cast<uint64_t>(__builtin_popcount(x.mask)), x.origin(x.lane()));
  ++x.e.progress;
  x.e.tell(&Listener::copy_commit, x.w, x.mask);
}

Step commit(Exec& x, const Instr&) {
  close_group(x);
  return Step::Next;
}

// cp.async.wait_all is a commit and a wait for all groups.
Step wait(Exec& x, const Instr& i) {
  CopyState& state = state_of(x.w);
  const bool all = i.m[slot::cp_async_wait::all];
  if (all && !x.s->arrived) close_group(x);
  const int64_t allowed = all ? 0 : i.imm;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    if (!state.waits(__builtin_ctz(m), allowed)) continue;
    x.s->arrived = all;
    x.s->wait = Wait::CopyGroup;
    x.s->lanes_wanted = x.mask;
    x.s->bulk_allowed = static_cast<int32_t>(std::min<int64_t>(allowed, INT32_MAX));
    return Step::Block;
  }
  x.s->arrived = false;
  for (uint32_t m = x.mask; m; m &= m - 1) x.e.release(kGroupBytes * state.passed(__builtin_ctz(m), allowed));
  x.e.tell(&Listener::copy_pass, x.w, x.mask, allowed);
  return Step::Next;
}

// The arrivals of all lanes of the instruction come together, when the last copy of any of them is complete.
Step arrive(Exec& x, const Instr& i) {
  namespace s = slot::cp_async_arrive;
  Engine* e = &x.e;
  Cta* cta = &x.cta;
  struct One {
    Origin at;
    uint32_t offset;
  };
  auto all = std::make_shared<std::vector<One>>();
  CopyState& state = state_of(x.w);
  auto arrival = std::make_shared<CopyArrival>();
  arrival->lanes = x.mask;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint32_t address = x.src<uint32_t>(i.o[s::barrier])[l];
    if (!x.shared_owner(address, l, false)) return Step::Stop;
    const One one{x.origin(l), address & kOffsetMask};
    Mbarrier* b = e->barrier_at(*cta, one.offset, one.at);
    if (!b) return Step::Stop;
    if (!i.m[s::noinc] && ++b->pending >= 1 << 20) {  // net zero: the arrival takes it back
      e->fault("mbarrier-count", "cp.async.mbarrier.arrive makes more than 2^20-1 arrivals pending", one.at,
               one.offset);
      return Step::Stop;
    }
    state.tracked[static_cast<size_t>(l)] = state.issued[static_cast<size_t>(l)];
    all->push_back(one);
  }
  e->tell(&Listener::copy_track, x, *arrival);
  ++e->progress;
  auto perform = [=] {
    for (const One& one : *all) {
      e->tell(&Listener::copy_arrive, *cta, one.offset, *arrival, one.at.lane);
      e->barrier_arrive(*cta, one.offset, 1, one.at);
      if (e->stopped) return;
    }
  };
  for (const auto& flight : state.flights)
    if (flight->lanes & x.mask) {
      flight->arrivals.push_back({arrival, perform});
      ++arrival->copies_left;
    }
  if (!arrival->copies_left) e->issue("cp.async arrival", 0, x.origin(x.lane()), perform);
  return Step::Next;
}

const Registrar cp_async({
    {"cp.async", copy},
    {"cp.async.commit", commit},
    {"cp.async.wait", wait},
    {"cp.async.arrive", arrive},
});

}  // namespace
}  // namespace tileproof
