// wgmma carried out: operands out of shared memory and registers, products, D (PTX ISA 9.7.15.5).
#include "wgmma.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "enumerations/wgmma.hpp"
#include "half.hpp"
#include "mma_operands.hpp"
#include "poison_memory.hpp"
#include "slots/wgmma.hpp"
#include "small_float.hpp"

namespace tileproof {
namespace {

namespace wgmma_slot = slot::wgmma_mma_async;

constexpr int kRows = 64, kRowsOfWarp = 16, kBytesOfK = 32;
constexpr int32_t kFractionFp8 = 13;  // of sums of e4m3 and e5m2, and of their f32 results

// The matrix descriptor of sm_90a (PTX ISA 9.7.15.5.1.2.2): swizzle codes of two bits.
MatrixDescriptor decode(uint64_t v) {
  constexpr int kSwizzle[4] = {0, 3, 2, 1};
  MatrixDescriptor d;
  d.start = static_cast<uint32_t>(v & 0x3fff) << 4;
  d.lbo = static_cast<uint32_t>(v >> 16 & 0x3fff) << 4;
  d.sbo = static_cast<uint32_t>(v >> 32 & 0x3fff) << 4;
  d.base_offset = static_cast<int>(v >> 49 & 7);
  d.swizzle = kSwizzle[v >> 62];
  return d;
}

int bits_of(WgmmaType t) {
  switch (t) {
    case WgmmaType::Tf32:
      return 32;
    case WgmmaType::F16:
    case WgmmaType::Bf16:
      return 16;
    case WgmmaType::B1:
      return 1;
    default:
      return 8;
  }
}

Element element_of(WgmmaType t) {
  constexpr Element kElements[] = {Element::F16,  Element::Bf16, Element::Tf32, Element::E4m3,
                                   Element::E5m2, Element::S8,   Element::U8};
  return kElements[static_cast<size_t>(t)];
}

// D of an mma_async in the registers of its warps.
struct Fragment {
  Cta& cta;
  int first_warp;
  int n;
  WgmmaResult result;
  const int32_t* d;  // registers

  Fragment(const Program& p, Cta& c, int first, const Instr& i)
      : cta(c),
        first_warp(first),
        n(i.m[wgmma_slot::n]),
        result(static_cast<WgmmaResult>(i.m[wgmma_slot::d_type])),
        d(&p.vec[static_cast<size_t>(i.vec)]) {}
  Warp& warp(int w) const { return cta.warps[static_cast<size_t>(first_warp + w)]; }
  uint32_t* lanes(int w, int32_t off) const { return reinterpret_cast<uint32_t*>(warp(w).regs() + off); }
  bool half() const { return result == WgmmaResult::F16; }
  int registers_of_d() const { return half() ? n / 4 : n / 2; }
  bool has(int32_t off) const { return std::find(d, d + registers_of_d(), off) != d + registers_of_d(); }
  bool same(const Fragment& o) const {
    return n == o.n && result == o.result && std::equal(d, d + registers_of_d(), o.d);
  }
  // The cell of D that a register holds: row inside the warp's 16, first column.
  int row_of_d(int l, int r) const { return l / 4 + 8 * (half() ? r % 2 : r / 2 % 2); }
  int column_of_d(int l, int r) const { return 2 * (l % 4) + (half() ? 8 * (r / 2) : r % 2 + 8 * (r / 4)); }
};

struct Job : Fragment {
  Engine& e;
  const WarpgroupMma& op;
  const Instr& i;
  int k;      // elements of a row of A in memory; of a sparse A half of the columns
  int depth;  // of B
  WgmmaType a_type, b_type;
  const int32_t* a;  // registers; null where A is in shared memory

  Job(Engine& engine, Cta& c, int first, const WarpgroupMma& o)
      : Fragment(engine.program, c, first, *o.instr), e(engine), op(o), i(*o.instr) {
    a_type = static_cast<WgmmaType>(i.m[wgmma_slot::a_type]);
    b_type = static_cast<WgmmaType>(i.m[wgmma_slot::b_type]);
    k = 8 * kBytesOfK / bits_of(a_type);
    depth = sparse() ? 2 * k : k;
    a = i.o[wgmma_slot::a] == INT32_MIN ? d + i.vec_end : nullptr;
  }
  const uint32_t* source(int w, int32_t off) const {
    if (off >= 0) return lanes(w, off);
    return reinterpret_cast<const uint32_t*>(e.program.constants.data() + ~off);
  }
  bool sparse() const { return i.imm != 0; }
  float sign(int operand) const { return i.m[wgmma_slot::negated] >> operand & 1 ? -1.0f : 1.0f; }
  bool transposed(int operand) const { return i.m[wgmma_slot::transposed] >> operand & 1; }
};

// ---- A in registers: register r of lane l holds, of row l / 4 + 8 * (r % 2), the 32 bits l % 4 + 4 * (r /
// 2).

int row_of_a(int l, int r) { return l / 4 + 8 * (r % 2); }
int word_of_a(int l, int r) { return l % 4 + 4 * (r / 2); }

void words_of_a(const Job& j, uint32_t (*words)[8], PoisonId* poison) {
  for (int w = 0; w < kWarpgroup; ++w)
    for (int r = 0; r < 4; ++r) {
      const uint32_t* from = j.source(w, j.a[r]);
      const PoisonRegister* unknown = j.warp(w).poison.at(j.a[r]);
      for (int l = 0; l < kWarpSize; ++l) {
        const int row = kRowsOfWarp * w + row_of_a(l, r);
        words[row][word_of_a(l, r)] = from[l];
        if (unknown && (unknown->lanes >> l & 1))
          poison[row] = j.e.poisons.both(poison[row], unknown->set[static_cast<size_t>(l)]);
      }
    }
}

void tell_part(const Job& j, uint32_t warps) { j.e.tell(&Listener::warpgroup_part, j.op, warps); }

struct Storage : Workspace {
  alignas(64) float chosen[kMaxK * kMaxN];  // rows of B that a row of a sparse A meets
};

// Four bits of metadata stand for four columns, of tf32 for two. Two threads of a quad have those of two
// rows: four times four of row l / 4 in the lower half, four of row l / 4 + 8 in the upper half. With 8-bit
// elements all four threads have eight times four of a row (PTX ISA 9.7.15.6.1, as an H200 has it).
uint32_t nibble_of(const Job& j, int row, int x) {
  const int number = j.a_type == WgmmaType::Tf32 ? x : x / 2, in_row = row % kRowsOfWarp, upper = in_row / 8;
  const bool all = bits_of(j.a_type) == 8;
  const int in_quad = all ? 2 * (number / 8) + upper : 2 * static_cast<int>(j.i.imm - 1) + number / 4;
  const int thread = kWarpSize * (row / kRowsOfWarp) + 4 * (in_row % 8) + in_quad;
  const int place = all ? number % 8 : 4 * upper + number % 4;
  return (*j.op.metadata)[static_cast<size_t>(thread)] >> (4 * place) & 15;
}
// The column of element x of a row of a sparse A.
int column_of(const Job& j, int row, int x) {
  const uint32_t nibble = nibble_of(j, row, x);
  if (j.a_type == WgmmaType::Tf32) return 2 * x + (nibble == 0xe);
  return 4 * (x / 2) + static_cast<int>(nibble >> 2 * (x % 2) & 3);
}
void choose(const Job& j, Storage& s, int row) {
  for (int x = 0; x < j.k; ++x) std::copy_n(s.b + column_of(j, row, x) * kMaxN, j.n, s.chosen + x * kMaxN);
  for (int x = j.k; x < kBlockK; ++x) std::fill_n(s.chosen + x * kMaxN, j.n, 0.0f);
}

void fetch(const Job& j, Storage& s) {
  const int stride = std::max(j.k, kBlockK);
  const char* who = "wgmma.mma_async";
  s.a_poison.fill(0);
  s.b_poison.fill(0);
  for (int row = 0; row < kRows; ++row) std::fill(s.a + row * stride + j.k, s.a + (row + 1) * stride, 0.0f);
  for (int k = j.depth; k < kBlockK; ++k) std::fill_n(s.b + k * kMaxN, j.n, 0.0f);
  if (j.a) {
    uint32_t words[kRows][8];
    words_of_a(j, words, s.a_poison.data());
    for (int row = 0; row < kRows; ++row)
      unpack(element_of(j.a_type), reinterpret_cast<const uint8_t*>(words[row]), j.k, j.sign(0),
             s.a + row * stride);
  } else {
    for (int w = 0; w < kWarpgroup; ++w) {
      tell_part(j, 1u << w);
      fetch_rows(j.e, j.cta, decode(j.op.a), element_of(j.a_type), j.transposed(0), kRowsOfWarp * w,
                 kRowsOfWarp, j.k, j.sign(0), j.op.at[static_cast<size_t>(w)], who,
                 s.a + kRowsOfWarp * w * stride, stride, 1, s.a_poison.data() + kRowsOfWarp * w);
    }
  }
  tell_part(j, (1u << kWarpgroup) - 1);
  fetch_rows(j.e, j.cta, decode(j.op.b), element_of(j.b_type), j.transposed(1), 0, j.n, j.depth, j.sign(1),
             j.op.at[0], who, s.b, 1, kMaxN, s.b_poison.data());
}

// ---- D: 32-bit cells by rows, [row][kMaxN], those of f16 as f32

int first_cell(const Fragment& f, int w, int r) {
  return (kRowsOfWarp * w + f.row_of_d(0, r)) * kMaxN + f.column_of_d(0, r);
}

// Registers r and r + 1 of a quad of lanes are eight neighbours in a row of D.
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
Four& four(float* at) { return *reinterpret_cast<Four*>(at); }

template <class F>
void each_quad(const Fragment& f, float* c, F&& move) {
  for (int w = 0; w < kWarpgroup; ++w)
    for (int r = 0; r < f.registers_of_d(); r += 2) {
      float *even = reinterpret_cast<float*>(f.lanes(w, f.d[r])),
            *odd = reinterpret_cast<float*>(f.lanes(w, f.d[r + 1])), *cells = c + first_cell(f, w, r);
      for (int q = 0; q < kWarpSize / 4; ++q)
        move(four(even + 4 * q), four(odd + 4 * q), four(cells + q * kMaxN), four(cells + q * kMaxN + 4));
    }
}

// Calls f with each register of f16 pairs and its two cells.
template <class F>
void each_pair(const Fragment& f, float* c, F&& move) {
  for (int w = 0; w < kWarpgroup; ++w)
    for (int r = 0; r < f.registers_of_d(); ++r) {
      uint32_t* words = f.lanes(w, f.d[r]);
      float* cells = c + first_cell(f, w, r);
      for (int l = 0; l < kWarpSize; ++l) move(words[l], cells + l / 4 * kMaxN + 2 * (l % 4));
    }
}

void load_d(const Fragment& f, float* c) {
  if (f.half())
    return each_pair(f, c, [](uint32_t word, float* cells) {
      cells[0] = half::from_f16(static_cast<uint16_t>(word));
      cells[1] = half::from_f16(static_cast<uint16_t>(word >> 16));
    });
  each_quad(f, c, [](Four& even, Four& odd, Four& low, Four& high) {
    low = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
    high = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
  });
}

void store_d(const Fragment& f, float* c) {
  if (f.half())
    return each_pair(f, c, [](uint32_t& word, const float* cells) {
      word = half::to_f16(cells[0]) | static_cast<uint32_t>(half::to_f16(cells[1])) << 16;
    });
  each_quad(f, c, [](Four& even, Four& odd, Four& low, Four& high) {
    even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    odd = __builtin_shufflevector(low, high, 1, 3, 5, 7);
  });
}

// ---- products

// To f16; a sum that rounds to zero is +0.
void round_to_half(float* row, int columns) {
  for (int n = 0; n < columns; ++n) row[n] = half::from_f16(half::to_f16(row[n])) + 0.0f;
}

// Sums of 8-bit floats keep fewer places, and so does an f32 result (spec/machine/wgmma.py).
void cut(float* row, int columns) {
  for (int n = 0; n < columns; ++n) {
    const uint32_t bits = bits_as<uint32_t>(row[n]);
    const bool finite = (bits & 0x7f800000) != 0x7f800000;
    row[n] = bits_as<float>(finite ? bits & ~0u << (23 - kFractionFp8) : bits);
  }
}

// Sums of 8-bit integers are exact as f32 sums of at most 32 products.
void multiply(const Job& j, Storage& s, float* c) {
  const int stride = std::max(j.k, kBlockK), batch = j.sparse() ? 1 : kMostRows;
  const bool integers = j.result == WgmmaResult::S32, narrow = bits_of(j.a_type) == 8,
             exact = j.e.config.mma == MmaMode::Exact && !integers;
  auto begin = [&](const float* b) {
    if (exact)
      s.exact.begin({.k = j.k,
                     .a_emin = emin_of(element_of(j.a_type)),
                     .b_emin = emin_of(element_of(j.b_type)),
                     .half = j.half(),
                     .fraction = narrow ? kFractionFp8 : kFraction},
                    b, j.n);
    else
      s.largest = largest_bits(b, stride, kMaxN, j.n);
  };
  if (!j.sparse()) begin(s.b);
  for (int first = 0; first < kRows; first += batch) {
    ExactOperand rows[kMostRows];
    for (int x = 0; x < batch; ++x) {
      rows[x] = {integers ? s.sums[x] : c + (first + x) * kMaxN, s.a + (first + x) * stride, nullptr};
      if (integers) std::fill_n(s.sums[x], j.n, 0.0f);
    }
    if (j.sparse()) {
      choose(j, s, first);
      begin(s.chosen);
    }
    if (exact)
      s.exact.add(rows, batch, 0, j.n, nullptr);
    else
      add_fast(rows, batch, j.sparse() ? s.chosen : s.b, 0, stride, j.n, s.largest);
    for (int x = 0; x < batch; ++x) {
      float* row = c + (first + x) * kMaxN;
      if (integers)
        add_integers(reinterpret_cast<uint32_t*>(row), s.sums[x], j.n, j.i.m[wgmma_slot::saturates]);
      else if (j.half())
        round_to_half(row, j.n);
      else if (exact && narrow)
        cut(row, j.n);
    }
  }
}

// Rows of single bits, 256 each; `poison`: reads behind each row.
void fetch_bits(const Job& j, uint64_t desc, int first, int rows, const Origin& at, uint32_t (*words)[8],
                PoisonId* poison) {
  const MatrixDescriptor d = decode(desc);
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < 2; ++c)
      follow_shared(j.e, j.cta, k_chunk(d, first + row, c), 16,
                    reinterpret_cast<uint8_t*>(words[row] + 4 * c), at, "wgmma.mma_async", poison[row]);
}

void single_bits(const Job& j, Storage& s, float* c) {
  uint32_t a[kRows][8] = {}, b[kMaxN][8] = {};
  s.a_poison.fill(0);
  s.b_poison.fill(0);
  if (j.a) {
    words_of_a(j, a, s.a_poison.data());
  } else {
    for (int w = 0; w < kWarpgroup; ++w) {
      tell_part(j, 1u << w);
      fetch_bits(j, j.op.a, kRowsOfWarp * w, kRowsOfWarp, j.op.at[static_cast<size_t>(w)],
                 a + kRowsOfWarp * w, s.a_poison.data() + kRowsOfWarp * w);
    }
  }
  tell_part(j, (1u << kWarpgroup) - 1);
  fetch_bits(j, j.op.b, 0, j.n, j.op.at[0], b, s.b_poison.data());
  for (int row = 0; row < kRows; ++row) {
    uint32_t* cells = reinterpret_cast<uint32_t*>(c + row * kMaxN);
    for (int n = 0; n < j.n; ++n)
      for (int at = 0; at < 8; ++at) cells[n] += static_cast<uint32_t>(std::popcount(a[row][at] & b[n][at]));
  }
}

// The cells of D; `fresh`: they have not its values.
float* accumulator(const Job& j, bool& fresh) {
  Warpgroup& group = warpgroup_of(j.warp(0));
  auto touches = [&](const HeldAccumulator& held, const int32_t* registers, int count) {
    const Fragment other(j.e.program, j.cta, j.first_warp, *held.of);
    return std::any_of(registers, registers + count, [&](int32_t off) { return other.has(off); });
  };
  float* found = nullptr;
  bool shared = false;
  for (const HeldAccumulator& held : group.held) {
    if (j.same(Fragment(j.e.program, j.cta, j.first_warp, *held.of))) found = held.cells.get();
    shared = shared || (j.a && touches(held, j.a, 4));
  }
  fresh = !found || shared;
  if (!fresh) return found;
  for (const HeldAccumulator& held : group.held) shared = shared || touches(held, j.d, j.registers_of_d());
  if (shared || group.held.size() == kMostAccumulators) write_back(j.e.program, j.cta, j.first_warp);
  if (group.spare.empty()) group.spare.push_back(std::make_unique_for_overwrite<float[]>(kRows * kMaxN));
  group.held.push_back({&j.i, std::move(group.spare.back())});
  group.spare.pop_back();
  return group.held.back().cells.get();
}

// D where a row of A, a column of B or the old D is poison.
void spread_poison(const Job& j, const Storage& s) {
  const bool any =
      std::any_of(s.a_poison.begin(), s.a_poison.begin() + kRows, [](PoisonId p) { return p; }) ||
      std::any_of(s.b_poison.begin(), s.b_poison.begin() + j.n, [](PoisonId p) { return p; });
  for (int w = 0; w < kWarpgroup; ++w) {
    PoisonRegisters& registers = j.warp(w).poison;
    if (!any && !registers.any()) continue;
    for (int r = 0; r < j.registers_of_d(); ++r) {
      const PoisonRegister* p = registers.at(j.d[r]);
      const PoisonRegister old = p ? *p : PoisonRegister{};
      if (!j.op.accumulate) registers.drop(j.d[r], ~0u);
      for (int l = 0; l < kWarpSize; ++l) {
        PoisonId set = s.a_poison[static_cast<size_t>(kRowsOfWarp * w + j.row_of_d(l, r))];
        for (int part = 0; part < (j.half() ? 2 : 1); ++part)
          set = j.e.poisons.both(set, s.b_poison[static_cast<size_t>(j.column_of_d(l, r) + part)]);
        if (j.op.accumulate && (old.lanes >> l & 1))
          set = j.e.poisons.both(set, old.set[static_cast<size_t>(l)]);
        if (set) j.e.mark_poison(j.warp(w), j.d[r], l, nullptr, set);
      }
    }
  }
}

}  // namespace

std::string check_warpgroup_descriptor(uint64_t v, const char* name) {
  constexpr uint64_t kReserved = 0x3ull << 14 | 0x3ull << 30 | 0x7ull << 46 | 0x3ffull << 52;
  if (!(v & kReserved)) return "";
  return std::string("the descriptor of ") + name + ", " + hex(v) +
         ": bits 14-15, 30-31, 46-48 and 52-61 must be 0 (PTX ISA 9.7.15.5.1.2.2)" +
         ((v >> 46 & 7) == 1 ? "; this is a descriptor of sm_100a" : "");
}

// Of each four columns two different columns; of tf32's pairs the first or the second.
std::string check_metadata(const Exec& x, const Instr& i) {
  if (!i.imm) return "";
  const bool pairs = static_cast<WgmmaType>(i.m[wgmma_slot::a_type]) == WgmmaType::Tf32,
             all = bits_of(static_cast<WgmmaType>(i.m[wgmma_slot::a_type])) == 8;
  const uint32_t* words = x.src<uint32_t>(i.o[wgmma_slot::metadata]);
  for (int l = 0; l < kWarpSize; ++l) {
    if (!all && l % 4 / 2 != i.imm - 1) continue;
    for (int at = 0; at < 32; at += 4) {
      const uint32_t nibble = words[l] >> at & 15;
      if (pairs ? nibble == 4 || nibble == 14 : (nibble & 3) != nibble >> 2) continue;
      return "the metadata of lane " + std::to_string(l) + ", " + hex(words[l]) + ", has " + hex(nibble) +
             (pairs ? ": 0x4 or 0xe is needed" : ": two distinct columns are needed");
    }
  }
  return "";
}

void write_back(const Program& program, Cta& cta, int first_warp) {
  Warpgroup& group = warpgroup_of(cta.warps[static_cast<size_t>(first_warp)]);
  for (HeldAccumulator& held : group.held) {
    store_d(Fragment(program, cta, first_warp, *held.of), held.cells.get());
    group.spare.push_back(std::move(held.cells));
  }
  group.held.clear();
}

void execute_wgmma(Engine& e, Cta& cta, int first_warp, const WarpgroupMma& op) {
  // Behind a pointer: else each access would ask where this thread's copy is.
  static thread_local const auto storage = std::make_unique<Storage>();
  Storage& s = *storage;
  const Job j(e, cta, first_warp, op);
  if (cta.exited()) {
    e.fault("access-after-exit",
            "wgmma.mma_async uses CTA rank " + std::to_string(cta.rank) + " after it exited", op.at[0]);
    return;
  }
  e.counters.mma_instructions++;
  e.counters.mma_macs += static_cast<uint64_t>(kRows * j.n * j.k);
  bool fresh;
  float* c = accumulator(j, fresh);
  if (!op.accumulate)
    for (int row = 0; row < kRows; ++row) std::fill_n(c + row * kMaxN, j.n, 0.0f);
  else if (fresh)
    load_d(j, c);
  if (j.a_type == WgmmaType::B1) {
    single_bits(j, s, c);
  } else {
    fetch(j, s);
    multiply(j, s, c);
  }
  spread_poison(j, s);
}

}  // namespace tileproof
