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
  for (size_t k = 1; k < std::size(kTraceEngineWords); ++k)
    if (!std::strcmp(name, kTraceEngineWords[k])) return static_cast<uint8_t>(k);
  return 0;
}

TraceEvent* Trace::event(uint8_t kind, const Origin& at) {
  if (events.size() >= e_.config.trace_limit) {
    ++dropped;
    return nullptr;
  }
  TraceEvent e{};
  e.time = e_.counters.warp_instructions;
  e.pc = at.instr ? static_cast<int32_t>(at.instr - e_.program.code.data()) : -1;
  e.cta[0] = at.cta.x;
  e.cta[1] = at.cta.y;
  e.cta[2] = at.cta.z;
  e.barrier = e.phase = -1;
  e.rank = e.to_rank = static_cast<int16_t>(at.rank);
  e.warp = static_cast<int16_t>(at.warp);
  e.lane = static_cast<int16_t>(at.lane);
  e.kind = kind;
  events.push_back(e);
  return &events.back();
}

TraceEvent* Trace::event(Event kind, Object object, const Origin& at) {
  TraceEvent* e = event(static_cast<uint8_t>(kind), at);
  if (e) e->object = static_cast<uint8_t>(object);
  return e;
}

void Trace::exit(const Warp& w, uint32_t lanes, const Instr* at) {
  const Origin here{at, w.cta->id, w.cta->rank, w.index, lanes ? __builtin_ctz(lanes) : -1};
  if (TraceEvent* e = event(Event::Exit, Object::None, here)) e->lanes = lanes;
}

void Trace::branch(const Warp& w, uint32_t lanes, const Instr* at, uint32_t taken) {
  const Origin here{at, w.cta->id, w.cta->rank, w.index, static_cast<int32_t>(__builtin_ctz(lanes))};
  if (TraceEvent* e = event(Event::Branch, Object::None, here)) {
    e->lanes = lanes;
    e->value = taken;
  }
}

// A group of lanes begins or ends to wait: recorded once each, however often it is polled.
void Trace::wait_begins(const Warp& w, Split& s, const Instr* instr) {
  if (s.wait_traced) return;
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
    default:
      return;
  }
  s.wait_traced = true;
  on_wait(Event::Wait, w, s, instr);
}

void Trace::wait_ends(const Warp& w, Split& s, const Instr* instr) {
  if (!s.wait_traced) return;
  s.wait_traced = false;
  on_wait(Event::Pass, w, s, instr);
}

void Trace::on_wait(Event kind, const Warp& w, const Split& s, const Instr* instr) {
  const Origin at{instr, w.cta->id, w.cta->rank, w.index, static_cast<int32_t>(__builtin_ctz(s.mask))};
  if (TraceEvent* e = event(kind, s.traced.object, at)) {
    e->lanes = s.mask;
    e->barrier = s.traced.barrier;
    e->phase = s.traced.phase;
    e->value = s.traced.parity;
  }
}

void Trace::on_barrier(Event kind, const Cta& cta, const Mbarrier& b, int64_t phase, int64_t value,
                       const Origin& at) {
  if (TraceEvent* e = event(kind, Object::Mbarrier, at)) {
    e->barrier = static_cast<int32_t>(b.offset);
    e->to_rank = static_cast<int16_t>(cta.rank);
    e->phase = static_cast<int32_t>(phase);
    e->value = value;
  }
}
void Trace::mbarrier_arrived(const Cta& cta, const Mbarrier& b, uint32_t count, const Origin& at) {
  on_barrier(Event::Arrive, cta, b, b.phase, count, at);
}
void Trace::mbarrier_expected(const Cta& cta, const Mbarrier& b, int64_t bytes, const Origin& at) {
  on_barrier(Event::Expect, cta, b, b.phase, bytes, at);
}
void Trace::mbarrier_deliver(Cta& cta, const Mbarrier& b, int64_t bytes, const Origin& at) {
  on_barrier(Event::Deliver, cta, b, b.phase, bytes, at);
}
void Trace::mbarrier_done(Cta& cta, const Mbarrier& b, const Origin& at) {
  on_barrier(Event::Phase, cta, b, static_cast<int64_t>(b.phase) - 1, 0, at);
}
void Trace::mbarrier_passed(const Exec& x, uint32_t offset, uint32_t parity) {
  if (x.s->wait_traced) return wait_ends(x.w, *x.s, x.instr);
  if (TraceEvent* e = event(Event::Pass, Object::Mbarrier, x.origin(x.lane()))) {
    e->lanes = x.mask;
    e->barrier = static_cast<int32_t>(offset);
    e->phase = static_cast<int32_t>(x.cta.shared.barrier(offset)->phase) - 1;
    e->value = parity;
  }
}

void Trace::named_arrive(const Exec& x, uint32_t id) {
  if (TraceEvent* e = event(Event::Arrive, Object::Named, x.origin(x.lane()))) {
    e->lanes = x.s->mask;
    e->barrier = static_cast<int32_t>(id);
    e->phase = static_cast<int32_t>(x.cta.named[id].generation);
    e->value = 32;
  }
}
void Trace::cluster_arrive(const Exec& x, bool) {
  if (TraceEvent* e = event(Event::Arrive, Object::ClusterBarrier, x.origin(x.lane()))) {
    e->lanes = x.mask;
    e->phase = static_cast<int32_t>(x.w.cluster_tokens[static_cast<size_t>(x.lane())]);
    e->value = __builtin_popcount(x.mask);
  }
}

void Trace::issue(AsyncOp& op) {
  if (TraceEvent* e = event(Event::Issue, Object::None, op.origin)) {
    e->op = op.seq;
    e->engine = engine_number(op.engine);
    e->value = op.amount;
  }
}
void Trace::completed(const AsyncOp& op) {
  if (TraceEvent* e = event(Event::Complete, Object::None, op.origin)) {
    e->op = op.seq;
    e->engine = engine_number(op.engine);
  }
}
void Trace::tmem_load(const Exec& x, PendingTmemLoad&, int column) {
  if (TraceEvent* e = event(Event::TmemLoad, Object::None, x.origin(x.lane()))) {
    e->lanes = x.mask;
    e->value = column;
  }
}

}  // namespace tileproof
