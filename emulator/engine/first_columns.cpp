// What moves with the first column of an allocation of tensor memory, and what else depends on it.
#include "first_columns.hpp"

#include <algorithm>
#include <cstring>

#include "flow.hpp"
#include "machine.hpp"
#include "slots/memory.hpp"
#include "slots/sync.hpp"
#include "slots/tcgen05.hpp"
#include "slots/tcgen05_mma.hpp"

namespace tileproof {

namespace {
constexpr int kUnit = 32;  // columns: an allocation begins at a multiple

Handler handler(const char* name) { return handler_table()[static_cast<size_t>(handler_ids().at(name))]; }

// The operands that are addresses of tensor memory, a bit each.
uint32_t addresses_of(const Instr& i) {
  static const Handler ld = handler("tcgen05.ld"), st = handler("tcgen05.st"),
                       dealloc = handler("tcgen05.dealloc"), cp = handler("tcgen05.cp"),
                       mma = handler("tcgen05.mma");
  namespace m = slot::tcgen05_mma;
  if (i.fn == ld) return 1u << slot::tcgen05_ld::address;
  if (i.fn == st) return 1u << slot::tcgen05_st::address;
  if (i.fn == dealloc) return 1u << slot::tcgen05_dealloc::address;
  if (i.fn == cp) return 1u << slot::tcgen05_cp::address;
  if (i.fn != mma) return 0;
  return 1u << m::d | (i.m[m::a_in_tmem] ? 1u << m::a : 0) | 1u << m::scale_a | 1u << m::scale_b;
}

bool pure(Flow f) {
  return f == Flow::Move || f == Flow::MoveOne || f == Flow::Compute || f == Flow::Pieces ||
         f == Flow::Compare;
}

uint64_t value_at(const uint8_t* at, size_t width) {
  uint64_t v = 0;
  std::memcpy(&v, at, width);
  return v;
}
}  // namespace

bool FirstColumns::wanted(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(),
                     [](const Instr& i) { return addresses_of(i) != 0; });
}

FirstColumns::FirstColumns(Engine& engine, Doubt doubt) : e_(engine), doubt_(std::move(doubt)) {
  for (size_t k = 0; k < e_.program.code.size(); ++k)
    if (addresses_of(e_.program.code[k])) e_.executed[k] |= kFollowed;
}

void FirstColumns::start(const Cta& cta) {
  for (const Warp& w : cta.warps) registers_.erase(&w);
  words_.erase(&cta);
  given_.erase(&cta);
}

void FirstColumns::open(const Exec& x, const char* how) {
  doubt_(x.origin(x.lane()), e_.program.names[static_cast<size_t>(x.instr->name)] + " " + how +
                                 ": the first column that tcgen05.alloc gives decides more than addresses "
                                 "of tensor memory");
}

void FirstColumns::allocated(const Exec& x, uint32_t offset, int base, int columns, int serial, bool fixed) {
  allocations_.push_back({&x.cta, base, columns, serial, fixed});
  const Id id = static_cast<Id>(allocations_.size());
  given_[&x.cta].resize(static_cast<size_t>(serial));
  given_[&x.cta].back() = id;
  if (!fixed) keep(x.cta, offset, id);
}

// ---- where it is

FirstColumns::Lanes* FirstColumns::lanes(const Warp& w, int32_t offset) {
  if (offset < 0 || marked_.empty() || !marked_[static_cast<size_t>(offset) / 64]) return nullptr;
  const auto of = registers_.find(&w);
  if (of == registers_.end()) return nullptr;
  const auto found = of->second.find(offset);
  return found == of->second.end() ? nullptr : &found->second;
}

void FirstColumns::set(const Warp& w, int32_t offset, int lane, Id id) {
  if (offset < 0) return;
  if (id) mark(offset);
  if (Lanes* known = lanes(w, offset))
    (*known)[static_cast<size_t>(lane)] = id;
  else if (id)
    registers_[&w][offset][static_cast<size_t>(lane)] = id;
}

void FirstColumns::mark(int32_t offset) {
  const Program& p = e_.program;
  if (touches_.empty()) {
    const size_t units = static_cast<size_t>(p.register_bytes) / 64 + 1;
    touches_.resize(units);
    marked_.resize(units);
    for (size_t k = 0; k < p.code.size(); ++k) {
      const auto note = [&](int32_t off) {
        touches_[static_cast<size_t>(off) / 64].push_back(static_cast<uint32_t>(k));
      };
      each_source(p, p.code[k], [&](int32_t off, int) { note(off); });
      each_result(p, p.code[k], note);
    }
  }
  const size_t unit = static_cast<size_t>(offset) / 64;
  if (marked_[unit]) return;
  marked_[unit] = true;
  for (uint32_t k : touches_[unit]) e_.executed[k] |= kFollowed;
}

void FirstColumns::keep(const Cta& cta, uint32_t offset, Id id) {
  words_[&cta].push_back({offset, id});
  begin_ = std::min(begin_, offset);
  end_ = std::max(end_, offset + 4);
}

// What is written over words; whether it leaves a part of some word.
bool FirstColumns::forget(const Cta& cta, uint32_t offset, uint32_t size) {
  const auto known = words_.find(&cta);
  if (known == words_.end()) return false;
  bool parts = false;
  std::erase_if(known->second, [&](const Word& w) {
    const bool meets = w.offset < offset + size && offset < w.offset + 4;
    parts |= meets && (w.offset < offset || w.offset + 4 > offset + size);
    return meets;
  });
  return parts;
}

void FirstColumns::clear_results(const Exec& x) {
  each_result(e_.program, *x.instr, [&](int32_t off) {
    if (Lanes* known = lanes(x.w, off))
      for (uint32_t m = x.mask; m; m &= m - 1) (*known)[static_cast<size_t>(__builtin_ctz(m))] = 0;
  });
}

// ---- shared memory

void FirstColumns::touch(const Exec& x, const Cta& cta, uint32_t offset, uint32_t size, int lane,
                         bool write) {
  static const Handler ld = handler("ld");
  const Instr& i = *x.instr;
  const bool own = &cta == &x.cta;
  if (write) {
    if (forget(cta, offset, size)) open(x, "overwrites a part of it");
    if (!storing_ || !own || i.m[slot::st::bytes] != 4) return;
    for (uint32_t k = 0; k < static_cast<uint32_t>(i.nvec); ++k)
      if (const Lanes* known = lanes(x.w, e_.program.vec[static_cast<size_t>(i.vec) + k]))
        if (const Id id = (*known)[static_cast<size_t>(lane)]) keep(cta, offset + 4 * k, id);
    stored_ |= 1u << lane;
    return;
  }
  const auto known = words_.find(&cta);
  if (known == words_.end()) return;
  for (const Word& w : known->second) {
    if (w.offset >= offset + size || offset >= w.offset + 4) continue;
    const uint32_t width = i.fn == ld ? static_cast<uint32_t>(i.m[slot::ld::bytes]) : 0;
    if (!own || w.offset < offset || width < 4 || (w.offset - offset) % width) {
      open(x, own ? "reads it in another way than by a load of the word" : "reads it from another CTA");
      continue;
    }
    uint32_t element = 0;
    each_result(e_.program, i, [&](int32_t off) {
      if (element++ == (w.offset - offset) / width) set(x.w, off, lane, w.id);
    });
  }
}

void FirstColumns::touch_copied(const Cta& cta, uint32_t offset, uint32_t size, bool write,
                                const Origin& at) {
  if (write) {
    if (forget(cta, offset, size))
      doubt_(at, "an asynchronous operation overwrites a part of the first column of an allocation");
    return;
  }
  const auto known = words_.find(&cta);
  if (known == words_.end()) return;
  for (const Word& w : known->second)
    if (w.offset < offset + size && offset < w.offset + 4)
      doubt_(at, "an asynchronous operation reads the first column of an allocation from shared memory");
}

// ---- instructions

size_t FirstColumns::bytes(int32_t offset) const {
  return e_.program.register_widths[static_cast<size_t>(offset) / 64];
}

bool FirstColumns::Operand::moves_in(uint32_t lanes) const {
  for (uint32_t m = lanes; m; m &= m - 1)
    if (moves[static_cast<size_t>(__builtin_ctz(m))]) return true;
  return false;
}

// Those that move, in any lane.
FirstColumns::Operands FirstColumns::operands(const Exec& x) {
  Operands in;
  each_source(e_.program, *x.instr, [&](int32_t off, int number) {
    const Lanes* known = lanes(x.w, off);
    if (!known) return;
    Operand operand{off, number, *known, Bytes(x.regs + off, x.regs + off + 32 * bytes(off))};
    if (operand.moves_in(~0u)) in.push_back(std::move(operand));
  });
  return in;
}

// What is wrong with an address of tensor memory; null: it moves with the allocation that it names.
const char* FirstColumns::wrong_address(const Exec& x, int32_t operand) {
  const int32_t off = x.instr->o[operand];
  if (off == INT32_MIN) return nullptr;
  const Lanes* known = lanes(x.w, off);
  const auto given = given_.find(&x.cta);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const size_t l = static_cast<size_t>(__builtin_ctz(m));
    const uint32_t unit = (x.src<uint32_t>(off)[l] & 0xffff) / kUnit;
    const int serial = unit < x.cta.tmem.owner.size() ? x.cta.tmem.owner[unit] : 0;
    if (!serial || given == given_.end()) return "names columns that are not allocated";
    const Id named = given->second[static_cast<size_t>(serial) - 1], from = known ? (*known)[l] : 0;
    if (!from && !allocations_[named - 1].fixed)
      return "has an address that does not follow the first column";
    if (from && from != named) return "reaches another allocation than that of its address";
  }
  return nullptr;
}

// Whether an access since the last question began in an allocation and ended in the next.
bool FirstColumns::crossed(const Exec& x) const {
  bool any = false;
  for (const auto& cta : x.cta.cluster->ctas) {
    any |= cta->tmem.crossed;
    cta->tmem.crossed = false;
  }
  return any;
}

Step FirstColumns::run(Exec& x, const std::function<Step()>& execute) {
  static const Handler shfl = handler("shfl");
  const Instr& i = *x.instr;
  const Flow flow = rule_of(i.fn).flow;
  const Operands in = operands(x);
  const uint32_t addresses = addresses_of(i);
  const char* wrong = nullptr;
  for (uint32_t a = addresses; a; a &= a - 1)
    if (!wrong) wrong = wrong_address(x, __builtin_ctz(a));
  std::array<uint32_t, 32> from{};
  if (i.fn == shfl && !in.empty()) from = shuffle_sources(x, i);
  overwritten_.clear();
  if (pure(flow) && !in.empty())
    each_result(e_.program, i, [&](int32_t off) {
      const size_t n = bytes(off) ? 32 * bytes(off) : 4;
      overwritten_.push_back({off, Bytes(x.regs + off, x.regs + off + n)});
    });
  if (flow == Flow::Load) clear_results(x);
  storing_ = flow == Flow::Store && !in.empty();
  stored_ = 0;
  const Step step = execute();
  storing_ = false;
  if (step == Step::Stop) return step;
  if (wrong) open(x, wrong);  // of these lanes also where they wait for others of their warp
  if (step == Step::Block) return step;
  if (addresses) {
    if (crossed(x)) open(x, "begins in an allocation and ends in another");
  }
  if (i.fn == shfl || pure(flow)) {
    compute(x, in, from);
    return step;
  }
  for (const Operand& operand : in) {
    if (operand.number >= 0 && (addresses >> operand.number & 1)) continue;
    const bool stored = flow == Flow::Store && operand.number < 0;
    if (operand.moves_in(across_lanes(flow) ? ~0u : stored ? x.mask & ~stored_ : x.mask))
      open(x, stored ? "stores it elsewhere than in a word of the CTA's shared memory"
                     : "takes it as an operand");
  }
  if (flow != Flow::Load) clear_results(x);
  return step;
}

void FirstColumns::compute(Exec& x, const Operands& in, const std::array<uint32_t, 32>& from) {
  static const std::array<Handler, 2> moves{handler("mov.32"), handler("mov.64")};
  static const std::array<Handler, 2> adds{handler("add.32"), handler("add.64")};
  static const Handler shfl = handler("shfl");
  const Instr& i = *x.instr;
  const auto is_of = [&](const auto& some) {
    return std::find(some.begin(), some.end(), i.fn) != some.end();
  };
  clear_results(x);
  if (std::none_of(in.begin(), in.end(),
                   [&](const Operand& operand) { return operand.moves_in(i.fn == shfl ? ~0u : x.mask); }))
    return;
  if (i.fn == shfl) {
    for (const Operand& operand : in)
      if (operand.number == slot::shfl::a)
        for (uint32_t m = x.mask; m; m &= m - 1) {
          const int l = __builtin_ctz(m);
          set(x.w, i.o[slot::shfl::dst], l, operand.moves[from[static_cast<size_t>(l)] & 31]);
        }
      else
        open(x, "chooses lanes by it");
    return;
  }
  if ((is_of(moves) || is_of(adds)) && in.size() == 1) {
    each_result(e_.program, i, [&](int32_t off) {
      for (uint32_t m = x.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        set(x.w, off, l, in[0].moves[static_cast<size_t>(l)]);
      }
    });
    return;
  }
  replay(x, in);
}

// Runs the instruction for each other first column: a result that stays the same does not depend on it, a
// result that is shifted as the column is moves with it.
void FirstColumns::replay(Exec& x, const Operands& in) {
  const Instr& i = *x.instr;
  Id id = 0;
  for (const Operand& operand : in)
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const Id here = operand.moves[static_cast<size_t>(__builtin_ctz(m))];
      if (here && id && here != id) {
        open(x, "computes with the columns of two allocations");
        return;
      }
      id = here ? here : id;
    }
  const Allocation a = allocations_[id - 1];
  struct Result {
    int32_t offset;
    size_t width;
    Bytes after;
    uint32_t differs = 0, strays = 0;  // lanes
  };
  std::vector<Result> results;
  each_result(e_.program, i, [&](int32_t off) {
    const size_t n = bytes(off) ? 32 * bytes(off) : 4;
    results.push_back({off, bytes(off), Bytes(x.regs + off, x.regs + off + n)});
  });
  x.e.sink.muted = true;
  for (int base = 0; base <= kTmemColumns - a.columns; base += kUnit) {
    if (base == a.base) continue;
    const uint64_t shift = static_cast<uint64_t>(static_cast<int64_t>(base - a.base));
    for (const auto& [off, held] : overwritten_) std::copy(held.begin(), held.end(), x.regs + off);
    for (const Operand& operand : in) {
      std::copy(operand.before.begin(), operand.before.end(), x.regs + operand.offset);
      const size_t width = bytes(operand.offset);
      for (uint32_t m = x.mask; m; m &= m - 1) {
        const size_t l = static_cast<size_t>(__builtin_ctz(m));
        if (!operand.moves[l]) continue;
        const uint64_t moved = value_at(operand.before.data() + l * width, width) + shift;
        std::memcpy(x.regs + operand.offset + static_cast<int64_t>(l * width), &moved, width);
      }
    }
    i.fn(x, i);
    for (Result& r : results)
      for (uint32_t m = x.mask; m; m &= m - 1) {
        const size_t l = static_cast<size_t>(__builtin_ctz(m));
        if (!r.width) {
          if ((x.regs[r.offset + static_cast<int64_t>(l / 8)] ^ r.after[l / 8]) >> l % 8 & 1)
            r.differs |= 1u << l, r.strays |= 1u << l;
          continue;
        }
        if (r.width > 8) {  // in 16 bytes nothing moves as a whole
          if (std::memcmp(x.regs + r.offset + static_cast<int64_t>(l * r.width), &r.after[l * r.width],
                          r.width))
            r.differs |= 1u << l, r.strays |= 1u << l;
          continue;
        }
        const uint64_t now = value_at(x.regs + r.offset + static_cast<int64_t>(l * r.width), r.width);
        uint64_t moved = value_at(&r.after[l * r.width], r.width);
        if (now != moved) r.differs |= 1u << l;
        moved += shift;
        if (r.width < 4 || std::memcmp(&now, &moved, r.width)) r.strays |= 1u << l;
      }
  }
  x.e.sink.muted = false;
  for (const Operand& operand : in)
    std::copy(operand.before.begin(), operand.before.end(), x.regs + operand.offset);
  bool strays = false;
  for (const Result& r : results) {
    std::copy(r.after.begin(), r.after.end(), x.regs + r.offset);
    for (uint32_t m = r.differs; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      if (r.strays >> l & 1)
        strays = true;
      else
        set(x.w, r.offset, l, id);
    }
  }
  if (strays) open(x, "computes something else than an address from it");
}

}  // namespace tileproof
