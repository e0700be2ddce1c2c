// mbarriers and fences.
#include <algorithm>

#include "schedule.hpp"
#include "enumerations/mbarrier.hpp"
#include "slots/fences.hpp"
#include "slots/mbarrier.hpp"

namespace tileproof {
namespace {

// ---- mbarrier. The address is base + imm; `space` 0 .shared::cta, 1 .shared::cluster, 2 generic, `width`
// bytes of the address register. All handlers have these slots in the same places.
static_assert(+slot::mbarrier_init::base == +slot::mbarrier_arrive::base &&
              +slot::mbarrier_inval::base == +slot::mbarrier_arrive::base &&
              +slot::mbarrier_wait::base == +slot::mbarrier_arrive::base);
static_assert(+slot::mbarrier_init::space == +slot::mbarrier_arrive::space &&
              +slot::mbarrier_inval::space == +slot::mbarrier_arrive::space &&
              +slot::mbarrier_wait::space == +slot::mbarrier_arrive::space);
static_assert(+slot::mbarrier_init::width == +slot::mbarrier_arrive::width &&
              +slot::mbarrier_inval::width == +slot::mbarrier_arrive::width &&
              +slot::mbarrier_wait::width == +slot::mbarrier_arrive::width);

// The CTA and the offset of an mbarrier operand; null after a fault. Only arrivals and byte counts may go to
// a peer.
Cta* bar_at(Exec& x, const Instr& i, int lane, bool remote, uint32_t& offset) {
  uint64_t a = static_cast<uint64_t>(i.imm);
  if (i.o[slot::mbarrier_arrive::base] != INT32_MIN)
    a += i.m[slot::mbarrier_arrive::width] == 4 ? x.src<uint32_t>(i.o[slot::mbarrier_arrive::base])[lane]
                                                : x.src<uint64_t>(i.o[slot::mbarrier_arrive::base])[lane];
  const bool window = i.m[slot::mbarrier_arrive::space] == 2 && a - kSharedWindow < kWindowSize;
  if (window) a -= kSharedWindow;
  offset = static_cast<uint32_t>(a) & kOffsetMask;
  Cta* owner = x.shared_owner(a, lane, i.m[slot::mbarrier_arrive::space] == 1 || window);
  if (owner && owner != &x.cta && !remote) {
    x.e.fault("shared-wrong-window",
              "this mbarrier instruction reaches the own CTA only, and the address is of CTA rank " +
                  std::to_string(owner->rank),
              x.origin(lane), a);
    return nullptr;
  }
  return owner;
}

Step mbarrier_init(Exec& x, const Instr& i) {
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint32_t offset;
    Cta* owner = bar_at(x, i, l, false, offset);
    if (!owner) return Step::Stop;
    const uint32_t count = x.src<uint32_t>(i.o[slot::mbarrier_init::value])[l];
    if (offset % 8 || !x.e.shared_range(*owner, offset, 8, x.origin(l), "mbarrier.init")) {
      if (offset % 8)
        x.e.fault("misaligned", "an mbarrier object at " + hex(offset) + " is not 8-byte aligned",
                  x.origin(l), offset);
      return Step::Stop;
    }
    if (count == 0 || count > (1u << 20) - 1) {
      x.e.fault("mbarrier-count",
                "mbarrier.init with " + std::to_string(count) + " arrivals; 1 to 2^20-1 are legal",
                x.origin(l), offset);
      return Step::Stop;
    }
    SharedMemory& sh = owner->shared;
    int16_t& index = sh.bar_index[offset / 8];
    if (index >= 0 && sh.bars[static_cast<size_t>(index)].live)
      x.e.error("mbarrier-reinit", "mbarrier.init on a live mbarrier; mbarrier.inval must come first",
                x.origin(l), offset);
    if (index < 0) {
      index = static_cast<int16_t>(sh.bars.size());
      sh.bars.emplace_back();
    }
    Mbarrier& b = sh.bars[static_cast<size_t>(index)];
    b = Mbarrier{};
    b.offset = offset;
    b.expected = b.pending = static_cast<int32_t>(count);
    b.live = true;
    if (x.e.inits.size() < kMostListed)
      x.e.inits.emplace(owner->rank, offset, count);
    else if (!x.e.inits.contains({owner->rank, offset, count}))
      ++x.e.cut["mbarrier.init counts"];
    b.history.init = &i;
    b.history.init_warp = static_cast<int16_t>(x.w.index);
    // A store by this thread: copies that were to fill these bytes must be over.
    if (std::any_of(&sh.state[offset], &sh.state[offset] + 8, [](uint8_t k) { return k & kPendingMask; }))
      x.e.error("shared-write-under-copy",
                "mbarrier.init writes shared bytes at " + hex(offset) +
                    " that an asynchronous copy is still going to write",
                x.origin(l), offset);
    x.e.tell(&Listener::generic_shared, x, *owner, offset, 8, l, true);
    for (uint32_t k = 0; k < 8; ++k) sh.state[offset + k] = kMbarrier | kValid;
    x.e.tell(&Listener::mbarrier_init, x, *owner, offset, l);
    ++x.e.progress;
  }
  return Step::Next;
}

// What speaks against mbarrier.inval now: bytes that are to come, or that came and that no thread has waited
// for. Empty: nothing.
std::string still_needed(const Mbarrier& b) {
  const std::string of = "phase " + std::to_string(b.phase);
  if (b.tx || b.announced) return of + " is complete only when bytes have arrived that it still expects";
  const int64_t last = static_cast<int64_t>(b.phase) - 1;
  const auto& passed = b.history.passed;
  const bool waited = std::any_of(passed.begin(), passed.end(),
                                  [&](const PassedWait& p) { return p.instr && p.phase >= last; });
  if (last < 0 || b.delivered != last || waited) return "";
  return "no thread has waited for the bytes of phase " + std::to_string(last);
}

Step mbarrier_inval(Exec& x, const Instr& i) {
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint32_t offset;
    if (!bar_at(x, i, l, false, offset)) return Step::Stop;
    Mbarrier* b = x.e.barrier_at(x.cta, offset, x.origin(l));
    if (!b) return Step::Stop;
    if (const std::string why = still_needed(*b); !why.empty())
      x.e.error("mbarrier-inval-unwaited",
                "mbarrier.inval of the mbarrier at shared offset " + hex(offset) + ": " + why +
                    "; a copy that arrives later finds no mbarrier",
                x.origin(l), offset);
    x.e.tell(&Listener::generic_shared, x, x.cta, offset, 8, l, true);
    x.e.tell(&Listener::mbarrier_inval, x, x.cta, offset, l);
    b->live = false;
    for (uint32_t k = 0; k < 8; ++k) x.cta.shared.state[offset + k] = 0;
    ++x.e.progress;
  }
  return Step::Next;
}

Signal signal_of(const Instr& i) { return static_cast<Signal>(i.m[slot::mbarrier_arrive::kind]); }
bool arrives(const Instr& i) {
  return signal_of(i) == Signal::Arrive || signal_of(i) == Signal::ArriveExpectTx;
}

// A byte count alone releases nothing.
MbarrierScope reach_of(const Instr& i) {
  return arrives(i) ? static_cast<MbarrierScope>(i.m[slot::mbarrier_arrive::reach]) : MbarrierScope::Relaxed;
}

// Listeners get the arrivals of an instruction at a barrier as a single release. Returns the lanes that they
// get singly, as each takes effect: arrivals after the phase is complete, and bytes, which may complete it.
uint32_t tell_arrivals(Exec& x, const Instr& i) {
  uint32_t left = x.mask, late = 0;
  if (!arrives(i)) return left;
  while (left) {
    Cta* owner = nullptr;
    uint32_t lanes = 0, offset = 0;
    for (uint32_t m = left; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      uint32_t at;
      Cta* cta = bar_at(x, i, l, true, at);
      if (!cta) return 0;
      if (!lanes) {
        owner = cta;
        offset = at;
      }
      if (cta == owner && at == offset) lanes |= 1u << l;
    }
    left &= ~lanes;
    if (const Mbarrier* b = owner->shared.barrier(offset)) {
      int64_t room = b->pending;
      for (uint32_t m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (room <= 0) late |= 1u << l;
        room -= signal_of(i) != Signal::Arrive || i.o[slot::mbarrier_arrive::value] == INT32_MIN
                    ? 1
                    : x.src<uint32_t>(i.o[slot::mbarrier_arrive::value])[l];
      }
      lanes &= ~late;
      if (!lanes) continue;
    }
    x.e.tell(&Listener::mbarrier_arrive, x, *owner, offset, lanes, reach_of(i));
  }
  return late;
}

// The state that an arrival returns: the phase, the pending count before it, and whether that may be asked
// for.
constexpr uint64_t kCounted = uint64_t{1} << 63;
uint64_t state_of(const Mbarrier& b, bool counted) {
  return b.phase | static_cast<uint64_t>(b.pending) << 32 | (counted ? kCounted : 0);
}

// .noComplete must not complete the phase (PTX ISA 9.7.13.15.13).
void stays(Exec& x, Cta& owner, uint32_t offset, uint32_t arrivals, const Origin& at) {
  const Mbarrier* b = x.e.barrier_at(owner, offset, at);
  if (b && b->pending == static_cast<int64_t>(arrivals) && !b->tx)
    x.e.error("mbarrier-no-complete",
              "an arrival with .noComplete completes phase " + std::to_string(b->phase) +
                  " of the mbarrier at shared offset " + hex(offset),
              at, offset);
}

// mbarrier.pending_count: of a state that a .noComplete arrival gave (9.7.13.15.17).
Step pending_count(Exec& x, const Instr& i) {
  namespace s = slot::mbarrier_pending_count;
  const uint64_t* state = x.src<uint64_t>(i.o[s::state]);
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (!(state[l] & kCounted))
      x.e.error("mbarrier-state", "mbarrier.pending_count of a state that is of no arrival with .noComplete",
                x.origin(l));
    d[l] = static_cast<uint32_t>(state[l] >> 32) & 0x7fffffffu;
  }
  return Step::Next;
}

// `reach` a MbarrierScope; `kind` a Signal; `value`
// count or bytes (INT32_MIN: 1); `dst` the state nobody may interpret, or none; `drops` for arrive_drop,
// `stays` for .noComplete.
Step mbarrier_arrive(Exec& x, const Instr& i) {
  const uint32_t late = x.e.heard() ? tell_arrivals(x, i) : 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint32_t offset;
    Cta* owner = bar_at(x, i, l, true, offset);
    if (!owner) return Step::Stop;
    const uint32_t value = i.o[slot::mbarrier_arrive::value] == INT32_MIN
                               ? 1
                               : x.src<uint32_t>(i.o[slot::mbarrier_arrive::value])[l];
    const Origin at = x.origin(l);
    if (late >> l & 1) [[unlikely]]
      x.e.tell(&Listener::mbarrier_arrive, x, *owner, offset, 1u << l, reach_of(i));
    if (i.o[slot::mbarrier_arrive::dst] != INT32_MIN) {
      const Mbarrier* b = x.e.barrier_at(*owner, offset, at);
      x.dst<uint64_t>(i.o[slot::mbarrier_arrive::dst])[l] =
          b ? state_of(*b, i.m[slot::mbarrier_arrive::stays] != 0) : 0;
    }
    const uint32_t arrivals = signal_of(i) == Signal::Arrive ? value : 1;
    switch (signal_of(i)) {
      case Signal::ArriveExpectTx:
        x.e.barrier_expect(*owner, offset, value, at);
        if (x.e.stopped) break;
        [[fallthrough]];
      case Signal::Arrive:
        if (i.m[slot::mbarrier_arrive::stays]) stays(x, *owner, offset, arrivals, at);
        if (i.m[slot::mbarrier_arrive::drops])
          x.e.barrier_drop(*owner, offset, arrivals, at);
        else
          x.e.barrier_arrive(*owner, offset, arrivals, at);
        break;
      case Signal::ExpectTx:
        x.e.barrier_expect(*owner, offset, value, at);
        break;
      case Signal::CompleteTx:
        x.e.barrier_complete_tx(*owner, offset, value, at);
        break;
    }
    if (x.e.stopped) return Step::Stop;
  }
  return Step::Next;
}

void tell_parity(Exec& x, uint32_t parity, int lane) {
  x.e.warn("mbarrier-parity",
           "a wait for a phase of parity " + std::to_string(parity) +
               "; 0 and 1 are valid (PTX ISA 9.7.13.15.16), and the lowest bit is taken",
           x.origin(lane));
}

void tell_pass(Exec& x, const Instr& i, uint32_t offset, uint32_t lanes) {
  if (i.m[slot::mbarrier_wait::unused])
    x.e.tell(&Listener::mbarrier_tried, x, x.cta, offset, lanes, true);
  else
    x.e.tell(&Listener::mbarrier_pass, x, x.cta, offset, lanes,
             static_cast<MbarrierScope>(i.m[slot::mbarrier_wait::reach]));
}

// mbarrier.try_wait / test_wait: `value` is a parity or a state, `suspends` 1 for try_wait, `unused` 1
// where nothing asks for the result (emulator/unused_waits.py). A failed try_wait suspends the thread until
// the phase completes or a time limit passes (PTX ISA 9.7.13.15.16).
Step mbarrier_wait(Exec& x, const Instr& i) {
  uint32_t done = 0;
  uint32_t first_offset = 0, first_parity = 0;
  bool uniform = true;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint32_t offset;
    Cta* owner = bar_at(x, i, l, false, offset);
    if (!owner) return Step::Stop;
    Mbarrier* b = x.e.barrier_at(*owner, offset, x.origin(l));
    if (!b) return Step::Stop;
    uint32_t parity;
    if (i.m[slot::mbarrier_wait::parity]) {
      parity = x.src<uint32_t>(i.o[slot::mbarrier_wait::value])[l];
      if (parity > 1) [[unlikely]]
        tell_parity(x, parity, l);
      parity &= 1;
    } else {
      parity = static_cast<uint32_t>(x.src<uint64_t>(i.o[slot::mbarrier_wait::value])[l]) & 1;
    }
    if ((b->phase & 1) != parity) {
      done |= 1u << l;
      b->history.pass(x.w.index, &i, static_cast<int64_t>(b->phase) - 1, x.e.counters.warp_instructions);
    }
    if (m == x.mask) {
      first_offset = offset;
      first_parity = parity;
    } else {
      uniform &= offset == first_offset && parity == first_parity;
    }
  }
  if (!uniform && x.e.config.strict)  // cluster-barrier-parted asks whether they went on together
    x.e.tell(&Listener::accesses_untold, x, x.lane(), "by lanes that wait for several phases");
  const auto tell = [&](uint32_t lanes, auto&& of) {
    if (lanes && uniform) of(first_offset, lanes);
    for (uint32_t m = uniform ? 0 : lanes; m; m &= m - 1) {
      uint32_t offset;
      if (bar_at(x, i, __builtin_ctz(m), false, offset)) of(offset, m & (0u - m));
    }
  };
  tell(done, [&](uint32_t offset, uint32_t lanes) { tell_pass(x, i, offset, lanes); });
  if (!done && uniform && i.m[slot::mbarrier_wait::suspends] && !x.s->timed_out) {
    x.s->bar_offset = first_offset;
    x.s->parity = first_parity;
    if (!x.e.scheduler->gives_up(x.w, *x.s)) {
      x.s->wait = Wait::MbarrierParity;
      return Step::Block;
    }
  }
  if (i.m[slot::mbarrier_wait::unused] && x.s->timed_out) ++x.e.progress;  // its thread goes on
  if (i.m[slot::mbarrier_wait::unused])
    tell(x.mask & ~done, [&](uint32_t offset, uint32_t lanes) {
      x.e.tell(&Listener::mbarrier_tried, x, x.cta, offset, lanes, false);
    });
  x.s->timed_out = false;
  x.s->polled = done != x.mask;
  if (x.s->polled) {
    x.s->bar_offset = first_offset;
    x.s->parity = first_parity;
  } else {
    x.e.tell(&Listener::mbarrier_passed, x, first_offset, first_parity);
  }
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::mbarrier_wait::dst]);
  p = (p & ~x.mask) | done;
  return Step::Next;
}

// Generic accesses take effect at once in program order here, so that fences change no value: only what a
// listener knows. `kind` is a Fence, `spaces` the state spaces of a proxy.async one: 1 shared, 2 global, 3
// both.
Step fence(Exec& x, const Instr& i) {
  x.e.tell(&Listener::fence, x, static_cast<Fence>(i.m[slot::fence::kind]), i.m[slot::fence::spaces]);
  return Step::Next;
}

const Registrar mbarriers({
    {"mbarrier.init", mbarrier_init},
    {"mbarrier.inval", mbarrier_inval},
    {"mbarrier.arrive", mbarrier_arrive},
    {"mbarrier.pending_count", pending_count},
    {"mbarrier.wait", mbarrier_wait},
    {"fence", fence},
});

}  // namespace
}  // namespace tileproof
