// What each instruction does with values that nobody wrote (flow.cpp): it moves them, computes with them (the
// result is such a value too), stores them in shared or local memory (which then holds nothing), or it
// depends on them: addresses, branches, what other threads and engines see. An instruction that is not named
// there depends on its operands, so that no use is lost where a rule is missing.
#include <algorithm>
#include <cstring>

#include "address.hpp"
#include "enumerations/sync.hpp"
#include "first_columns.hpp"
#include "flow.hpp"
#include "machine.hpp"
#include "poison_memory.hpp"
#include "race.hpp"
#include "race_dependence.hpp"
#include "mma_sync_shape.hpp"
#include "slots/alu.hpp"
#include "slots/arithmetic.hpp"
#include "slots/bits.hpp"
#include "slots/declared.hpp"
#include "slots/memory.hpp"
#include "slots/mma_sync.hpp"
#include "slots/sync.hpp"
#include "wgmma.hpp"

namespace tileproof {

namespace {

bool any_bit(const uint8_t* bits, int n) {
  return std::any_of(bits, bits + n, [](uint8_t b) { return b != 0; });
}

}  // namespace

// ---- reports

void Engine::poison_used(PoisonId set, const Instr* by, const char* how) {
  for (uint32_t read : poisons.reads_of(set)) {
    const PoisonRead& r = poisons[read];
    poisons.used(read);
    std::string message = r.message;
    if (by && by != r.at.instr)
      message += ", and " + program.names[static_cast<size_t>(by->name)] + " at line " +
                 std::to_string(by->line) + " uses the value" + how;
    error(r.code, message, r.at, r.address);
  }
}

void Engine::use_poison(Warp& w, const Instr& i, int32_t offset, uint32_t lanes, const char* how) {
  const PoisonRegister* p = w.poison.at(offset);
  if (!p || !(p->lanes & lanes)) return;
  for (uint32_t m = p->lanes & lanes; m; m &= m - 1)
    poison_used(p->set[static_cast<size_t>(__builtin_ctz(m))], &i, how);
  w.poison.drop(offset, ~0u);
}

void Engine::mark_poison(Warp& w, int32_t offset, int lane, const uint8_t* bits, PoisonId set) {
  if (offset < 0) return;
  w.poison.mark(w.registers.size(), offset, program.register_widths[static_cast<size_t>(offset) / 64], lane,
                bits, set);
  w.slow = true;
}

void Engine::note_dropped_poison() {
  for (const PoisonRead* r : poisons.dropped())
    note("uninitialised-unused", r->message + "; nothing depends on the value", r->at);
}

// ---- memory

PoisonId Engine::poison_in(const Cta& cta, uint32_t offset, uint32_t size, bool& fresh) {
  PoisonId set = 0;
  for (uint32_t k = offset; k < offset + size; ++k) {
    if (cta.shared.state[k] & (kPendingMask | kMbarrier | kValid)) continue;
    const PoisonId one = cta.shared.poisoned.empty() ? 0 : cta.shared.poisoned[k];
    fresh |= !one;
    set = poisons.both(set, one);
  }
  return set;
}

void Engine::store_poison(Cta& cta, uint32_t offset, const uint8_t* bits, uint32_t size, PoisonId set) {
  SharedMemory& m = cta.shared;
  if (m.poisoned.empty()) m.poisoned.assign(m.data.size(), 0);
  for (uint32_t k = 0; k < size; ++k)
    if (bits[k]) {
      m.state[offset + k] = static_cast<uint8_t>(m.state[offset + k] & ~kValid);
      m.poisoned[offset + k] = set;
    }
}

PoisonId poison_in_cell(Engine& e, const Cta& cta, int lane, int column, const std::string& message,
                        const Origin& at, bool quiet) {
  if (!cta.tmem.poisoned.empty())
    if (const PoisonId set = cta.tmem.poisoned[static_cast<size_t>(lane * kTmemColumns + column)]) return set;
  return e.poisons.read("tmem-uninitialised", message, at,
                        static_cast<uint64_t>(lane) << 16 | static_cast<uint64_t>(column), quiet);
}

void store_poison(Cta& cta, int lane, int column, PoisonId set) {
  TensorMemory& m = cta.tmem;
  if (m.poisoned.empty()) m.poisoned.assign(kTmemLanes * kTmemColumns, 0);
  uint8_t& state = *m.change_state(lane, column);
  state = static_cast<uint8_t>(state & ~kValid);
  m.poisoned[static_cast<size_t>(lane * kTmemColumns + column)] = set;
}

bool follow_shared(Engine& e, Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                   const char* who, PoisonId& poison) {
  return e.shared_range(cta, offset, size, at, who) &&
         follow_bytes(e, cta, offset, size, out, at, who, poison);
}

bool follow_bytes(Engine& e, Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                  const char* who, PoisonId& poison) {
  const uint8_t* state = &cta.shared.state[offset];
  if (std::any_of(state, state + size, [](uint8_t s) { return s & (kPendingMask | kMbarrier); }))
    return e.read_shared(cta, offset, size, out, at, who);
  bool fresh = false;
  const PoisonId stored = e.poison_in(cta, offset, size, fresh);
  poison = e.poisons.both(poison, stored);
  if (fresh)
    poison = e.poisons.both(
        poison, e.poisons.read("shared-uninitialised",
                               std::string(who) + " reads shared bytes at " + hex(offset) + " of CTA rank " +
                                   std::to_string(cta.rank) + " that were never written",
                               at, offset, false));
  e.unseen = fresh || stored ? Unseen::Followed : Unseen::No;
  e.tell(&Listener::async_shared, cta, offset, size, false);
  e.unseen = Unseen::No;
  for (uint32_t k = 0; k < size; ++k) out[k] = state[k] == kValid ? cta.shared.data[offset + k] : kPoisonByte;
  return true;
}

namespace {

// The poison that a lane of st stores, in bytes of its access.
PoisonId stored(Engine& e, Warp& w, const Instr& i, int lane, uint8_t* bits) {
  const uint32_t element = static_cast<uint32_t>(i.m[slot::st::bytes]);
  PoisonId set = 0;
  for (int32_t k = 0; k < i.m[slot::st::elements]; ++k) {
    const PoisonRegister* p = w.poison.at(e.program.vec[static_cast<size_t>(i.vec + k)]);
    if (!p || !(p->lanes >> lane & 1)) continue;
    uint8_t* to = bits + static_cast<uint32_t>(k) * element;
    std::memcpy(to, p->lane(lane), element);
    if (any_bit(to, static_cast<int>(element))) set = e.poisons.both(set, p->set[static_cast<size_t>(lane)]);
  }
  return set;
}

void store_values(Exec& x, const Instr& i) {
  Engine& e = x.e;
  const uint32_t size =
      static_cast<uint32_t>(i.m[slot::st::bytes]) * static_cast<uint32_t>(i.m[slot::st::elements]);
  uint32_t seen = 0;  // lanes that store poison where it can be seen
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint8_t bits[64] = {};
    const PoisonId set = stored(e, x.w, i, l, bits);
    if (!set) continue;
    e.poisons.computed(set);
    uint64_t address = address_of(x, i.o[slot::st::base], i.imm, i.m[slot::st::width], l);
    Space space = static_cast<Space>(i.m[slot::st::space]);
    if (space == Space::Generic) {
      if (address - kSharedWindow < kWindowSize) {
        space = Space::SharedCluster;
        address -= kSharedWindow;
      } else if (address - kLocalWindow < kWindowSize) {
        space = Space::Local;
        address -= kLocalWindow;
      }
    }
    if (space == Space::SharedCta || space == Space::SharedCluster) {
      if (Cta* owner = x.shared_owner(address, l, space == Space::SharedCluster))
        e.store_poison(*owner, static_cast<uint32_t>(address) & kOffsetMask, bits, size, set);
    } else if (space == Space::Local) {
      for (uint32_t k = 0; k < size; ++k)
        if (bits[k]) x.w.local_poison[x.local_place(l, address) + k] = set;
    } else {
      seen |= 1u << l;
    }
  }
  if (seen)
    for (int32_t k = 0; k < i.m[slot::st::elements]; ++k)
      e.use_poison(x.w, i, e.program.vec[static_cast<size_t>(i.vec + k)], seen, " as what it stores");
}

// ---- registers

struct Source {
  int operand;
  PoisonRegister poison;  // as it was before the instruction
};

// An instruction that computes registers from registers.
class Pure {
 public:
  Pure(Exec& exec, const Instr& instr, Rule r) : x(exec), i(instr), rule(r) {}

  Step run() {
    each_source(x.e.program, i, [&](int32_t off, int operand) {
      const PoisonRegister* p = x.w.poison.at(off);
      if (p && (across_lanes(rule.flow) || (p->lanes & x.mask))) sources.push_back({operand, *p});
    });
    if (rule.flow == Flow::Carry && i.m[slot::carry::reads])
      if (const PoisonRegister* p = x.w.poison.at(i.o[slot::carry::carry])) sources.push_back({-1, *p});
    each_result(x.e.program, i, [&](int32_t off) { results.push_back(off); });
    if (rule.flow == Flow::Carry && i.m[slot::carry::writes]) results.push_back(i.o[slot::carry::carry]);
    if (const PoisonRegister* p = x.w.poison.at(i.pred)) guard = *p;
    const bool moves = !sources.empty() && exact();
    if (moves) save(before);
    const Step step = i.fn(x, i);
    if (step != Step::Next) return step;
    if (rule.flow != Flow::Move)
      for (const Source& s : sources)
        for (uint32_t m = s.poison.lanes & x.mask; m; m &= m - 1)
          x.e.poisons.computed(s.poison.set[static_cast<size_t>(__builtin_ctz(m))]);
    if (moves) {
      replay();
    } else {
      for (int32_t off : results) x.w.poison.drop(off, x.mask);
      if (!sources.empty()) compute();
    }
    if (guard.offset >= 0)
      for (uint32_t m = guard.lanes & x.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        for (int32_t off : results) x.e.mark_poison(x.w, off, l, nullptr, guard.set[static_cast<size_t>(l)]);
      }
    return step;
  }

 private:
  using Saved = std::vector<std::pair<int32_t, std::vector<uint8_t>>>;

  int width(int32_t off) const { return x.e.program.register_widths[static_cast<size_t>(off) / 64]; }
  size_t bytes(int32_t off) const { return width(off) ? static_cast<size_t>(32 * width(off)) : 4; }

  // Whether running the instruction with all poison bits 0, then 1, shows which bits of the result are
  // poison.
  bool exact() const {
    for (const Source& s : sources)
      if (s.operand >= 0 && (rule.controls >> s.operand & 1)) return false;
    switch (rule.flow) {
      case Flow::Move:
        return true;
      case Flow::WarpMove:
        return i.fn != vote() || i.m[slot::vote::mode] != static_cast<int>(Vote::Uni);
      case Flow::MoveOne:
        return std::all_of(sources.begin(), sources.end(),
                           [&](const Source& s) { return s.poison.offset == sources[0].poison.offset; });
      case Flow::Compare:  // only the predicate that is combined
        return sources.size() == 1 && sources[0].operand == slot::setp::other;
      default:
        return false;
    }
  }
  static Handler vote() {
    static const Handler fn = handler_table()[static_cast<size_t>(handler_ids().at("vote"))];
    return fn;
  }

  void save(Saved& to) const {
    to.clear();
    auto keep = [&](int32_t off) {
      to.emplace_back(off, std::vector<uint8_t>(x.regs + off, x.regs + off + bytes(off)));
    };
    for (const Source& s : sources) keep(s.poison.offset);
    for (int32_t off : results) keep(off);
  }
  void restore(const Saved& from) const {
    for (const auto& [off, data] : from) std::copy(data.begin(), data.end(), x.regs + off);
  }
  // The poison bits of the sources all 0 or all 1.
  void fill(bool ones) const {
    for (const Source& s : sources) {
      uint8_t* r = x.regs + s.poison.offset;
      if (!s.poison.width) {
        uint32_t p;
        std::memcpy(&p, r, 4);
        p = ones ? p | s.poison.lanes : p & ~s.poison.lanes;
        std::memcpy(r, &p, 4);
        continue;
      }
      for (uint32_t m = s.poison.lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint8_t* bits = s.poison.lane(l);
        for (int k = 0; k < s.poison.width; ++k) {
          uint8_t& b = r[l * s.poison.width + k];
          b = static_cast<uint8_t>(ones ? b | bits[k] : b & ~bits[k]);
        }
      }
    }
  }

  void replay() {
    Saved after, low, high;
    save(after);
    x.e.sink.muted = true;
    for (const bool ones : {false, true}) {
      restore(before);
      fill(ones);
      i.fn(x, i);
      save(ones ? high : low);
    }
    x.e.sink.muted = false;
    restore(before);
    restore(after);
    for (int32_t off : results) x.w.poison.drop(off, x.mask);
    for (size_t n = 0; n < results.size(); ++n) {
      const std::vector<uint8_t>&a = low[sources.size() + n].second, &b = high[sources.size() + n].second;
      const int w = width(results[n]);
      if (!w) {
        uint32_t p, q;
        std::memcpy(&p, a.data(), 4);
        std::memcpy(&q, b.data(), 4);
        for (uint32_t m = (p ^ q) & x.mask; m; m &= m - 1) result(results[n], __builtin_ctz(m), nullptr);
        continue;
      }
      for (uint32_t m = x.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        uint8_t bits[16];
        for (int k = 0; k < w; ++k)
          bits[k] = a[static_cast<size_t>(l * w + k)] ^ b[static_cast<size_t>(l * w + k)];
        if (any_bit(bits, w)) result(results[n], l, bits);
      }
    }
  }

  // The reads behind the sources of a lane.
  PoisonId behind(int lane) const {
    PoisonId set = 0;
    for (const Source& s : sources)
      for (uint32_t m = s.poison.lanes & (across_lanes(rule.flow) ? ~0u : 1u << lane); m; m &= m - 1)
        set = x.e.poisons.both(set, s.poison.set[static_cast<size_t>(__builtin_ctz(m))]);
    return set;
  }
  void result(int32_t off, int lane, const uint8_t* bits) {
    x.e.mark_poison(x.w, off, lane, bits, behind(lane));
  }

  void compute() {
    if (rule.flow == Flow::Products) return products();
    uint32_t lanes = 0;
    for (const Source& s : sources) lanes |= s.poison.lanes;
    if (across_lanes(rule.flow)) lanes = lanes & x.mask ? ~0u : 0;
    lanes &= x.mask;
    if (rule.flow == Flow::Compare) lanes &= ~decided();
    const int piece = rule.flow != Flow::Pieces ? 0
                      : rule.piece              ? rule.piece
                      : i.m[slot::half::packed] ? 2
                                                : 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      for (int32_t off : results) {
        const int w = width(off);
        uint8_t bits[16] = {};
        if (!piece || !w) {
          result(off, l, nullptr);
          continue;
        }
        for (const Source& s : sources)
          for (int k = 0; k < w && s.poison.width == w && (s.poison.lanes >> l & 1); k += piece)
            if (any_bit(s.poison.lane(l) + k, piece)) std::memset(bits + k, 0xff, static_cast<size_t>(piece));
        if (std::all_of(sources.begin(), sources.end(),
                        [&](const Source& s) { return s.poison.width == w; })) {
          if (any_bit(bits, w)) result(off, l, bits);
        } else {
          result(off, l, nullptr);
        }
      }
    }
  }

  // Lanes where the predicate that setp combines its comparison with decides alone.
  uint32_t decided() const {
    const int32_t how = i.m[slot::setp::combine];
    if (how != 1 && how != 2) return 0;
    uint32_t c = *x.src<uint32_t>(i.o[slot::setp::other]);
    if (i.o[slot::setp::other] >= 0 && std::count(results.begin(), results.end(), i.o[slot::setp::other]))
      return 0;  // overwritten
    if (i.m[slot::setp::negated]) c = ~c;
    uint32_t known = ~0u;
    for (const Source& s : sources)
      if (s.operand == slot::setp::other) known = ~s.poison.lanes;
    return known & (how == 1 ? ~c : c);
  }

  // mma.sync: a row of A that holds poison makes that row of D poison, a column of B that column.
  void products() {
    const MmaSyncShape shape(i);
    const int32_t* v = &x.e.program.vec[static_cast<size_t>(i.vec)];
    auto in = [&](int32_t off, int l) -> const PoisonRegister* {
      for (const Source& s : sources)
        if (s.poison.offset == off && (s.poison.lanes >> l & 1)) return &s.poison;
      return nullptr;
    };
    PoisonId rows[16] = {}, columns[8] = {};
    PoisonLedger& ledger = x.e.poisons;
    for (int l = 0; l < 32; ++l) {
      const size_t lane = static_cast<size_t>(l);
      for (int r = 0; r < shape.na; ++r)
        if (const PoisonRegister* p = in(v[shape.nd + r], l)) {
          PoisonId& row = rows[shape.row_of_a(l, r)];
          row = ledger.both(row, p->set[lane]);
        }
      for (int r = 0; r < shape.nb; ++r)
        if (const PoisonRegister* p = in(v[shape.nd + shape.na + r], l))
          columns[l / 4] = ledger.both(columns[l / 4], p->set[lane]);
    }
    for (int r = 0; r < shape.nd; ++r)
      for (int l = 0; l < 32; ++l) {
        uint8_t bits[8] = {};
        PoisonId set = 0;
        const PoisonRegister* c = in(v[shape.nd + shape.na + shape.nb + r], l);
        for (int part = 0; part < shape.cells; ++part) {
          const int at = part * shape.cell_bytes;
          PoisonId one = ledger.both(rows[shape.row_of_d(l, r)], columns[shape.column_of_d(l, r, part)]);
          if (c && any_bit(c->lane(l) + at, shape.cell_bytes))
            one = ledger.both(one, c->set[static_cast<size_t>(l)]);
          if (one) std::memset(bits + at, 0xff, static_cast<size_t>(shape.cell_bytes));
          set = ledger.both(set, one);
        }
        if (set) x.e.mark_poison(x.w, v[r], l, bits, set);
      }
  }

  Exec& x;
  const Instr& i;
  const Rule rule;
  std::vector<Source> sources;
  std::vector<int32_t> results;
  PoisonRegister guard;
  Saved before;
};

}  // namespace

// ---- the two places where the interpreter asks

void Engine::poison_guard(Warp& w, const Split& s, const Instr& i, uint32_t mask) {
  const PoisonRegister* p = w.poison.at(i.pred);
  const uint32_t unknown = p ? p->lanes & s.mask : 0;
  if (!unknown) return;
  if (depends(rule_of(i.fn).flow)) {
    use_poison(w, i, i.pred, unknown, " as a predicate");
    return;
  }
  // Lanes that do not execute might have: what they hold is as unknown as the result.
  const std::array<PoisonId, 32> sets = p->set;
  for (uint32_t m = unknown & ~mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    each_result(program, i,
                [&](int32_t off) { mark_poison(w, off, l, nullptr, sets[static_cast<size_t>(l)]); });
  }
}

Step Engine::run_poisoned(Exec& x, const Instr& i) {
  Warp& w = x.w;
  const Rule rule = rule_of(i.fn);
  Step step;
  switch (rule.flow) {
    case Flow::Depends:
    case Flow::Load: {
      each_source(program, i, [&](int32_t off, int) {
        use_poison(w, i, off, x.mask, rule.flow == Flow::Load ? " as an address" : "");
      });
      PoisonRegister guard;
      if (const PoisonRegister* p = w.poison.at(i.pred)) guard = *p;
      each_result(program, i, [&](int32_t off) { w.poison.drop(off, x.mask); });
      step = i.fn(x, i);
      if (guard.offset >= 0)
        for (uint32_t m = guard.lanes & x.mask; m; m &= m - 1) {
          const int l = __builtin_ctz(m);
          each_result(program, i, [&](int32_t off) {
            mark_poison(w, off, l, nullptr, guard.set[static_cast<size_t>(l)]);
          });
        }
      break;
    }
    case Flow::Store:
      use_poison(w, i, i.o[slot::st::base], x.mask, " as an address");
      step = i.fn(x, i);
      if (step == Step::Next && w.poison.any()) store_values(x, i);
      break;
    case Flow::Matrix:
      use_poison(w, i, i.o[0], x.mask, " as an address");
      step = i.fn(x, i);
      break;
    default:
      step = Pure(x, i, rule).run();
  }
  w.slow = (races_ && races_->follows()) || w.open_loads > 0 || w.poison.any();
  return step;
}

Step Engine::run_slowly(Exec& x, const Instr& i) {
  const uint8_t marks = executed[static_cast<size_t>(&i - program.code.data())];
  if (marks & kFragments) check_fragment_access(x, i);
  const Step step =
      marks & kFollowed ? races_->columns()->run(x, [&] { return run_followed(x, i); }) : run_followed(x, i);
  if ((marks & kRecorded) && (step == Step::Next || step == Step::Yield)) {
    if (!x.cta.warpgroups.empty()) write_back(program, x.cta, x.w.index / kWarpgroup * kWarpgroup);
    recorded->add(x, i);
  }
  return step;
}

// What nobody wrote, and what reads depend on.
Step Engine::run_followed(Exec& x, const Instr& i) {
  if (x.w.open_loads)
    check_tmem_load_use(x.w, i, Origin{&i, x.cta.id, x.cta.rank, x.w.index, __builtin_ctz(x.mask)});
  if (!races_ || !races_->follows()) return x.w.poison.any() ? run_poisoned(x, i) : i.fn(x, i);
  races_->follows()->before(x);
  const Step step = x.w.poison.any() ? run_poisoned(x, i) : i.fn(x, i);
  if (step == Step::Next || step == Step::Yield) races_->follows()->after(x);
  return step;
}

}  // namespace tileproof
