// tcgen05.mma carried out: the products of each kind.
#include "mma.hpp"

#include <algorithm>
#include <cmath>

#include "mma_operands.hpp"
#include "poison_memory.hpp"
#include "small_float.hpp"

namespace tileproof {

namespace {

// What two MMAs of a pipeline must share: kind, shape and form, whatever their element types (PTX ISA
// 9.7.16.6.2).
uint32_t shape_of(const MmaRequest& r, const InstructionDescriptor& d) {
  return 1 + static_cast<uint32_t>(r.format) + 8 * static_cast<uint32_t>(r.cta_group * 2 + r.ws) +
         64 * static_cast<uint32_t>(d.d_type) + 256 * static_cast<uint32_t>(d.n / 8) +
         (static_cast<uint32_t>(d.m / 16) << 16);
}

// The TMEM cells of an MMA: D and what else lies there, by sixteenths of the lanes.
void tell_tmem(Engine& e, const MmaRequest& r, const InstructionDescriptor& d,
               const std::vector<Segment>& segments) {
  e.tell(&Listener::mma_shape, shape_of(r, d));
  const bool scaled = r.format >= Format::Mxf8f6f4;
  const auto [a_columns, b_columns] = scale_columns(segments);
  int member = -1;
  for (Cta* cta : r.members()) {
    ++member;
    if (!cta) continue;
    struct Block {
      uint16_t units = 0;
      int column = 0, columns = 0;
    };
    std::array<Block, kTmemLanes / 16> blocks;
    for (const Segment& s : segments) {
      if (r.masked(member, s.lane)) continue;
      Block& b = blocks[static_cast<size_t>(s.lane / 16)];
      b.units = static_cast<uint16_t>(b.units | 1u << s.lane % 16);
      b.column = s.column;
      b.columns = s.columns;
    }
    for (int k = 0; k < kTmemLanes / 16; ++k) {
      const Block& b = blocks[static_cast<size_t>(k)];
      if (!b.units) continue;
      if (r.a_in_tmem)
        e.tell(&Listener::tmem, *cta, k, b.units, static_cast<int>(r.a & 0xffff), 8, false, nullptr);
      if (scaled) {
        const int wide = std::min(32, b.columns) - 16 * (k % 2);
        e.tell(&Listener::tmem, *cta, k, uint16_t{0xffff}, static_cast<int>(r.scale_a & 0xffff), a_columns,
               false, nullptr);
        if (wide > 0)
          e.tell(&Listener::tmem, *cta, k, static_cast<uint16_t>((1u << std::min(wide, 16)) - 1),
                 static_cast<int>(r.scale_b & 0xffff), b_columns, false, nullptr);
      }
      e.tell(&Listener::tmem, *cta, k, b.units, b.column, b.columns, true, nullptr);
    }
  }
}

// Cells of the old D that nobody wrote, by column of the segment, in `d_poison`; false when there are none.
bool accumulates_poison(Engine& e, const MmaRequest& r, Cta& cta, const Segment& s, Workspace& w) {
  const uint8_t* state = cta.tmem.state_at(s.lane, s.column);
  constexpr uint64_t kEach = 0x0101010101010101ull * kValid;
  uint64_t all = kEach;
  int known = 0;
  for (; known + 8 <= s.columns; known += 8) {
    uint64_t v;
    std::memcpy(&v, state + known, 8);
    all &= v;
  }
  bool found = false;
  for (int j = all == kEach ? known : 0; j < s.columns; ++j) {
    if (state[j] & kValid) continue;
    if (!found) w.d_poison.fill(0);
    found = true;
    w.d_poison[static_cast<size_t>(j)] =
        poison_in_cell(e, cta, s.lane, s.column + j,
                       "tcgen05.mma accumulates onto TMEM lane " + std::to_string(s.lane) + " column " +
                           std::to_string(s.column + j) + " of CTA rank " + std::to_string(cta.rank) +
                           ", which was never written",
                       r.origin, false);
  }
  return found;
}

// D where a row of A, a column of B or the old D is poison.
void spread_poison(Engine& e, Cta& cta, const Segment& s, PoisonId row, bool old, const Workspace& w) {
  for (int j = 0; j < s.columns; ++j) {
    PoisonId set = e.poisons.both(row, w.b_poison[static_cast<size_t>(s.n0 + j)]);
    if (old) set = e.poisons.both(set, w.d_poison[static_cast<size_t>(j)]);
    if (set) store_poison(cta, s.lane, s.column + j, set);
  }
}

// How the products reach D.
enum class Into { F32, F16, Scaled, S32 };

Into into(const MmaRequest& r, const InstructionDescriptor& d) {
  if (r.format >= Format::Mxf8f6f4) return Into::Scaled;
  return d.d_type == 0 ? Into::F16 : d.d_type == 2 ? Into::S32 : Into::F32;
}

// D before the products, as f32: zero, or the old D, scaled.
void load_d(const MmaRequest& r, const uint32_t* cells, int columns, bool half, float* c) {
  if (!r.accumulate) {
    std::memset(c, 0, static_cast<size_t>(columns) * 4);
    return;
  }
  if (half) {
    for (int j = 0; j < columns; ++j) {
      _Float16 h;
      std::memcpy(&h, cells + j, 2);
      c[j] = static_cast<float>(h);
    }
  } else if (static_cast<const void*>(c) != cells) {
    std::memcpy(c, cells, static_cast<size_t>(columns) * 4);
  }
  if (r.scale_d)
    for (int j = 0; j < columns; ++j) c[j] = std::ldexp(c[j], -r.scale_d);
}

// An f16 fills the lower half of its cell; the ISA does not define the upper half, which stays poison.
void store_half(uint32_t* cells, int columns, const float* c) {
  for (int j = 0; j < columns; ++j) {
    const _Float16 h = static_cast<_Float16>(c[j]);
    uint16_t bits;
    std::memcpy(&bits, &h, 2);
    cells[j] = 0xffff0000u | bits;
  }
}

void add_integers(const MmaRequest& r, bool saturate, uint32_t* cells, int columns, const float* sum) {
  for (int j = 0; j < columns; ++j) {
    const int64_t d = (r.accumulate ? static_cast<int32_t>(cells[j]) : 0) + static_cast<int64_t>(sum[j]);
    const int64_t kept = saturate ? std::clamp<int64_t>(d, INT32_MIN, INT32_MAX) : d;
    cells[j] = static_cast<uint32_t>(kept);
  }
}

// Rows with the same columns of B, multiplied together so that B stays in registers.
struct Batch {
  static constexpr int kMost = 4;
  int count = 0;
  const Segment* segment[kMost];
  const float* a[kMost];
  uint32_t* cells[kMost];
};

void products(float* const* c, const float* const* a, int count, const Workspace& w, int k0, int k1, int n0,
              int columns) {
  const float* slab[Batch::kMost];
  for (int k = k0; k < k1; k += kBlockK) {
    for (int i = 0; i < count; ++i) slab[i] = a[i] + k;
    product_fast(c, slab, count, w.b + k * kMaxN + n0, kMaxN, columns);
  }
}

void multiply_fast(Workspace& w, const MmaRequest& r, const InstructionDescriptor& d, Into mode, Batch& b) {
  if (!b.count) return;
  const Segment& first = *b.segment[0];
  const int k = padded_k(r.format), columns = first.columns;
  float* c[Batch::kMost];
  if (mode == Into::F32) {
    for (int i = 0; i < b.count; ++i) c[i] = reinterpret_cast<float*>(b.cells[i]);
    products(c, b.a, b.count, w, 0, k, first.n0, columns);
    b.count = 0;
    return;
  }
  alignas(64) static thread_local float sums[Batch::kMost][kMaxN];
  for (int i = 0; i < b.count; ++i) c[i] = sums[i];
  auto clear = [&] {
    for (int i = 0; i < b.count; ++i) std::memset(c[i], 0, static_cast<size_t>(columns) * 4);
  };
  if (mode == Into::Scaled) {
    const int scales = mma_rules().formats[static_cast<size_t>(r.format)].scales;
    for (int block = 0; block < scales; ++block) {
      clear();
      products(c, b.a, b.count, w, block * k / scales, (block + 1) * k / scales, first.n0, columns);
      for (int i = 0; i < b.count; ++i) {
        const Segment& s = *b.segment[i];
        const double scale = w.scale_a[s.lane][block];
        const float* by = w.scale_b[s.lane / 32][block];
        float* out = reinterpret_cast<float*>(b.cells[i]);
        for (int j = 0; j < columns; ++j)
          out[j] = static_cast<float>(out[j] + c[i][j] * (scale * static_cast<double>(by[j])));
      }
    }
  } else {
    if (mode == Into::F16)
      for (int i = 0; i < b.count; ++i) load_d(r, b.cells[i], columns, true, c[i]);
    else
      clear();
    products(c, b.a, b.count, w, 0, k, first.n0, columns);
    for (int i = 0; i < b.count; ++i) {
      if (mode == Into::F16)
        store_half(b.cells[i], columns, c[i]);
      else
        add_integers(r, d.saturate, b.cells[i], columns, c[i]);
    }
  }
  b.count = 0;
}

int32_t emin_of(Format f, int code) {
  switch (f) {
    case Format::F16:
      return code ? kBf16.emin() : kF16.emin();
    case Format::Tf32:
      return kTf32.emin();
    case Format::F8F6F4:
    case Format::Mxf8f6f4:
      return code == 0   ? kE4m3.emin()
             : code == 1 ? kE5m2.emin()
             : code == 3 ? kE2m3.emin()
             : code == 4 ? kE3m2.emin()
                         : kE2m1.emin();
    default:
      return kE2m1.emin();
  }
}

void split_b(Workspace& w, const MmaRequest& r, const InstructionDescriptor& d) {
  for (int k = 0; k < padded_k(r.format); ++k) {
    split_operand(w.b + k * kMaxN, d.n, emin_of(r.format, d.b_type), w.b_split.significand + k * kMaxN,
                  w.b_split.exponent + k * kMaxN);
    for (int n = 0; n < d.n; ++n)
      w.b_special[n] = (k && w.b_special[n]) || !std::isfinite(w.b[k * kMaxN + n]);
  }
}

// kind::f16 with an f32 accumulator.
void exact_segment(Workspace& w, const float* a, float* c, const Segment& s, int32_t emin) {
  alignas(64) float old[kMaxN];
  int32_t sa[kBlockK], ea[kBlockK];
  bool a_special = false, c_special = false;
  for (int k = 0; k < kBlockK; ++k) a_special |= !std::isfinite(a[k]);
  for (int j = 0; j < s.columns; ++j) c_special |= !std::isfinite(c[j]) || w.b_special[s.n0 + j];
  if (a_special || c_special) std::memcpy(old, c, static_cast<size_t>(s.columns) * 4);
  split_operand(a, kBlockK, emin, sa, ea);
  product_exact(c, sa, ea, w.b_split.significand + s.n0, w.b_split.exponent + s.n0, kMaxN, s.columns);
  if (a_special || c_special)
    for (int j = 0; j < s.columns; ++j)
      if (product_special(&old[j], a, w.b + s.n0 + j, kMaxN, kBlockK)) c[j] = old[j];
}

// Every other kind of floats: one aligned sum of all products of the instruction and the accumulator, or of
// sums of 16 products.
void exact_wide(Workspace& w, const MmaRequest& r, const InstructionDescriptor& d, const float* a,
                uint32_t* cells, const Segment& s) {
  const int k = padded_k(r.format);
  const int scales = mma_rules().formats[static_cast<size_t>(r.format)].scales;
  const bool half = d.d_type == 0, grouped = scales && k == 64;  // mxf4 and mxf4nvf4
  float c[kMaxN];
  int32_t sa[kMaxK], ea[kMaxK];
  load_d(r, cells, s.columns, half, c);
  split_operand(a, k, emin_of(r.format, d.a_type), sa, ea);
  for (int j = 0; j < s.columns; ++j) {
    const int n = s.n0 + j;
    WideSum sum(half);
    ScaledSum scaled(d.ue8m0 ? -127 : kE4m3.emin());
    float special_a[kMaxK], special_b[kMaxK];
    for (int i = 0; i < k; ++i) {
      const int at = i * kMaxN + n;
      float by_a = 1, by_b = 1;
      if (scales) by_a = w.scale_a[s.lane][i * scales / k], by_b = w.scale_b[s.lane / 32][i * scales / k][j];
      if (!grouped)
        sum.add(sa[i], ea[i], w.b_split.significand[at], w.b_split.exponent[at], by_a, by_b);
      else if (i % 16 == 0)
        scaled.add(a + i, w.b + at, kMaxN, by_a, by_b);
      // Finite factors change neither a NaN nor an infinity.
      special_a[i] = std::isfinite(by_a) ? a[i] : NAN;
      special_b[i] = std::isfinite(by_b) ? w.b[at] : NAN;
    }
    float out = c[j];
    if (!product_special(&out, special_a, special_b, 1, k))
      out = grouped ? scaled.result(c[j]) : sum.result(c[j]);
    c[j] = out;
  }
  if (half)
    store_half(cells, s.columns, c);
  else
    std::memcpy(cells, c, static_cast<size_t>(s.columns) * 4);
}

// B of both CTAs, [k][n]: even CTA rows [0, N/2), odd CTA rows [N/2, N); a zero-column mask moves and clears
// columns.
void fetch_b(Engine& e, const MmaRequest& r, const InstructionDescriptor& d, Workspace& w) {
  const int n_part = d.n / r.cta_group, k = padded_k(r.format), shift = column_shift(r.zero_mask);
  w.b_poison.fill(0);
  int part = 0;
  if (shift) {
    const int rows = d.n + (shift + 15) / 16 * 16;
    std::vector<float> wide(static_cast<size_t>(rows * k));
    std::vector<PoisonId> poison(static_cast<size_t>(rows));
    fetch_operand(e, *r.even, r.b, r, true, rows, wide.data(), k, 1, poison.data());
    std::copy_n(poison.begin() + shift, d.n, w.b_poison.begin());
    for (int i = 0; i < k; ++i)
      for (int n = 0; n < d.n; ++n) w.b[i * kMaxN + n] = wide[static_cast<size_t>((n + shift) * k + i)];
  } else {
    for (Cta* cta : r.members())
      if (cta) {
        fetch_operand(e, *cta, r.b, r, true, n_part, w.b + n_part * part, 1, kMaxN,
                      w.b_poison.data() + n_part * part);
        ++part;
      }
  }
  if (!r.zero_mask) return;
  const std::vector<bool> zero = zero_columns(r.zero_mask, d.m, d.n);
  for (int n = 0; n < d.n; ++n)
    if (zero[static_cast<size_t>(n)]) {
      w.b_poison[static_cast<size_t>(n)] = 0;
      for (int i = 0; i < k; ++i) w.b[i * kMaxN + n] = 0;
    }
}

}  // namespace

void execute_mma(Engine& e, const MmaRequest& r) {
  static thread_local Workspace w;
  const InstructionDescriptor d = r.descriptor();
  const Into mode = into(r, d);
  const bool exact = e.config.mma == MmaMode::Exact && mode != Into::S32;
  const int rows = d.m / r.cta_group, k = padded_k(r.format);
  segments(r, d, w.segments);
  e.counters.mma_instructions++;
  e.counters.mma_macs += static_cast<uint64_t>(d.m) * static_cast<uint64_t>(d.n) *
                         static_cast<uint64_t>(mma_rules().formats[static_cast<size_t>(r.format)].k);
  for (Cta* cta : r.members()) {
    if (!cta) continue;
    if (cta->exited()) {
      e.fault("access-after-exit",
              "tcgen05.mma uses CTA rank " + std::to_string(cta->rank) + " after it exited", r.origin);
      return;
    }
    if (!d_allocated(e, r, *cta, d) || !operands_allocated(e, r, *cta, w.segments)) return;
  }
  if (e.heard()) [[unlikely]]
    tell_tmem(e, r, d, w.segments);
  fetch_b(e, r, d, w);
  if (exact) split_b(w, r, d);
  const bool b_poison = std::any_of(w.b_poison.begin(), w.b_poison.end(), [](PoisonId p) { return p != 0; });
  LaterWrites later(e, r.queue);
  int member = -1;
  for (Cta* cta : r.members()) {
    ++member;
    if (!cta) continue;
    w.a_poison.fill(0);
    if (!r.a_in_tmem) fetch_operand(e, *cta, r.a, r, false, rows, w.a, k, 1, w.a_poison.data());
    if (mode == Into::Scaled) fetch_scales(e, *cta, r, d, later, w);
    Batch batch;
    for (const Segment& s : w.segments) {
      uint8_t* state = cta->tmem.state_at(s.lane, s.column);
      if (r.masked(member, s.lane)) {
        for (int j = 0; j < s.columns; ++j)  // a masked lane keeps its D
          if (state[j] & kPendingMask) state[j] = static_cast<uint8_t>(state[j] - kPendingOne);
        continue;
      }
      float* a = w.a + s.row * k;
      if (r.a_in_tmem) {
        a = w.a + s.lane * k;
        fetch_tmem_row(e, *cta, r, d, s.lane, later, a, w.a_poison[static_cast<size_t>(s.lane)]);
      }
      const PoisonId row = w.a_poison[static_cast<size_t>(r.a_in_tmem ? s.lane : s.row)];
      const bool old = r.accumulate && accumulates_poison(e, r, *cta, s, w);
      uint32_t* cells = cta->tmem.at(s.lane, s.column);
      const bool wide = exact && (r.format != Format::F16 || mode == Into::F16);
      if ((mode == Into::F32 || mode == Into::Scaled) && !wide)
        load_d(r, cells, s.columns, false, reinterpret_cast<float*>(cells));
      if (wide) {
        exact_wide(w, r, d, a, cells, s);
      } else if (exact) {
        exact_segment(w, a, reinterpret_cast<float*>(cells), s, emin_of(r.format, d.a_type));
      } else {
        if (batch.count && (batch.count == Batch::kMost || batch.segment[0]->n0 != s.n0))
          multiply_fast(w, r, d, mode, batch);
        batch.segment[batch.count] = &s;
        batch.cells[batch.count] = cells;
        batch.a[batch.count++] = a;
      }
      complete_pending(state, static_cast<size_t>(s.columns));
      if (row || old || b_poison) [[unlikely]]
        spread_poison(e, *cta, s, row, old, w);
    }
    multiply_fast(w, r, d, mode, batch);
  }
}

float tensor_core_block(float c, const float* a, const float* b, bool f16) {
  if (product_special(&c, a, b, 1, kBlockK)) return c;
  const int32_t emin = f16 ? kF16.emin() : kBf16.emin();
  int32_t sa[kBlockK], ea[kBlockK], sb[kBlockK], eb[kBlockK];
  split_operand(a, kBlockK, emin, sa, ea);
  split_operand(b, kBlockK, emin, sb, eb);
  product_exact(&c, sa, ea, sb, eb, 1, 1);
  return c;
}

void tensor_core_products(float* c, const float* a, const float* b, int m, int k, int n, bool exact,
                          bool f16) {
  const int32_t emin = f16 ? kF16.emin() : kBf16.emin();
  const size_t slab = static_cast<size_t>(kBlockK) * static_cast<size_t>(n);
  std::vector<float*> out(static_cast<size_t>(m));
  std::vector<const float*> left(static_cast<size_t>(m));
  std::vector<int32_t> sb(exact ? slab : 0), eb(exact ? slab : 0);
  std::vector<float> old(static_cast<size_t>(n));
  for (int k0 = 0; k0 < k; k0 += kBlockK) {
    const float* right = b + static_cast<size_t>(k0) * static_cast<size_t>(n);
    for (int r = 0; r < m; ++r) {
      const size_t row = static_cast<size_t>(r);
      out[row] = c + row * static_cast<size_t>(n);
      left[row] = a + row * static_cast<size_t>(k) + k0;
    }
    if (!exact) {
      product_fast(out.data(), left.data(), m, right, n, n);
      continue;
    }
    split_operand(right, static_cast<int>(slab), emin, sb.data(), eb.data());
    for (size_t row = 0; row < out.size(); ++row) {
      int32_t sa[kBlockK], ea[kBlockK];
      std::copy_n(out[row], n, old.data());
      split_operand(left[row], kBlockK, emin, sa, ea);
      product_exact(out[row], sa, ea, sb.data(), eb.data(), n, n);
      for (int j = 0; j < n; ++j)
        if (product_special(&old[static_cast<size_t>(j)], left[row], right + j, n, kBlockK))
          out[row][j] = old[static_cast<size_t>(j)];
    }
  }
}

}  // namespace tileproof
