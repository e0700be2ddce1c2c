// Recording of producers and events.
#include "trace.hpp"

#include <cstring>

#include "machine.hpp"

namespace tileproof {

namespace {
const size_t kMostProducers = 512;  // an unrolled loop has one a step
}

void BarrierHistory::record(Deed deed, const Origin& at, int64_t amount, uint32_t phase, uint64_t now) {
  auto is = [&](const Producer& p) {
    return p.instr == at.instr && p.warp == at.warp && p.rank == at.rank && p.deed == deed;
  };
  if (hint_ >= producers.size() || !is(producers[hint_])) {
    hint_ = 0;
    while (hint_ < producers.size() && !is(producers[hint_])) ++hint_;
    if (hint_ == producers.size()) {
      if (hint_ == kMostProducers) return;
      Producer p;
      p.instr = at.instr;
      p.rank = static_cast<int16_t>(at.rank);
      p.warp = static_cast<int16_t>(at.warp);
      p.deed = deed;
      p.phase = phase;
      producers.push_back(p);
    }
  }
  Producer& p = producers[hint_];
  if (p.phase != phase) {
    const bool next = p.phase + 1 == phase;
    p.lanes[1] = next ? p.lanes[0] : 0;
    p.amount[1] = next ? p.amount[0] : 0;
    p.lanes[0] = 0;
    p.amount[0] = 0;
    p.phase = phase;
  }
  if (at.lane >= 0) p.lanes[0] |= 1u << at.lane;
  p.amount[0] += amount;
  p.deeds++;
  p.last = at.time ? at.time : now;
}

uint8_t engine_number(const char* name) {
  static const char* const kNames[] = {"TMA load", "TMA store",  "bulk copy", "MMA",
                                       "commit",   "TMEM store", "tcgen05.cp"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (!std::strcmp(name, kNames[k])) return static_cast<uint8_t>(k + 1);
  return 0;
}

void Engine::trace_event(Event kind, Object object, const Origin& at, uint32_t lanes, int64_t barrier,
                         int32_t to_rank, int64_t phase, int64_t value, uint64_t op, const char* engine) {
  if (events.size() >= config.trace_limit) {
    ++events_dropped;
    return;
  }
  TraceEvent e{};
  e.time = counters.warp_instructions;
  e.op = op;
  e.value = value;
  e.pc = at.instr ? static_cast<int32_t>(at.instr - program.code.data()) : -1;
  e.cta[0] = at.cta.x;
  e.cta[1] = at.cta.y;
  e.cta[2] = at.cta.z;
  e.barrier = static_cast<int32_t>(barrier);
  e.phase = static_cast<int32_t>(phase);
  e.lanes = lanes;
  e.rank = static_cast<int16_t>(at.rank);
  e.warp = static_cast<int16_t>(at.warp);
  e.lane = static_cast<int16_t>(at.lane);
  e.to_rank = static_cast<int16_t>(to_rank);
  e.kind = static_cast<uint8_t>(kind);
  e.object = static_cast<uint8_t>(object);
  e.engine = engine ? engine_number(engine) : 0;
  events.push_back(e);
}

// A split starts or ends to wait: recorded once each, however often it is polled.
void Engine::trace_wait(const Warp& w, Split& s, const Instr* instr, bool begins) {
  if (begins == s.wait_traced) return;
  if (begins) {
    s.traced = {};
    switch (s.wait) {
      case Wait::MbarrierParity: {
        const Mbarrier* b = w.cta->shared.barrier(s.bar_offset);
        s.traced = {Object::Mbarrier, static_cast<int32_t>(s.bar_offset),
                    b ? static_cast<int32_t>(b->phase) : -1, static_cast<int32_t>(s.parity)};
        break;
      }
      case Wait::NamedBarrier:
        s.traced = {Object::Named, static_cast<int32_t>(s.bar_offset), static_cast<int32_t>(s.token), 0};
        break;
      case Wait::ClusterBarrier:
        s.traced = {Object::ClusterBarrier, -1, static_cast<int32_t>(s.token), 0};
        break;
      case Wait::BulkGroup:
        s.traced = {Object::Bulk, -1, -1, 0};
        break;
      case Wait::TmemAlloc:
        s.traced = {Object::TmemAlloc, -1, -1, 0};
        break;
      case Wait::TmemPair:
        s.traced = {Object::TmemPair, -1, static_cast<int32_t>(s.token), 0};
        break;
      default:
        return;
    }
  }
  s.wait_traced = begins;
  const Origin at{instr, w.cta->id, w.cta->rank, w.index, static_cast<int32_t>(__builtin_ctz(s.mask))};
  trace_event(begins ? Event::Wait : Event::Pass, s.traced.object, at, s.mask, s.traced.barrier, w.cta->rank,
              s.traced.phase, s.traced.parity, 0, nullptr);
}

}  // namespace tileproof
