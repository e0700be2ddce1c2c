// mma.sync: one warp multiplies the fragments that its lanes hold (PTX ISA 9.7.14.5;
// spec/machine/warp_mma.py).
#include <algorithm>
#include <cfenv>

#include "alu.hpp"
#include "mma_sync_shape.hpp"
#include "reduce.hpp"
#include "small_float.hpp"

namespace tileproof {
namespace {

namespace mma_slot = slot::mma_sync;

using Operand = MmaOperand;
using Result = MmaResult;

constexpr int kMostRows = 16, kColumns = 8, kMostK = 64;

double value_of(Operand t, uint32_t v) {
  switch (t) {
    case Operand::F16:
      return small_value(kF16, v);
    case Operand::Bf16:
      return small_value(kBf16, v);
    case Operand::Tf32:  // the low 13 bits of the register do not count
      return bits_as<float>(v & ~0x1fffu);
    case Operand::E4m3:
      return small_value(kE4m3, v);
    case Operand::E5m2:
      return small_value(kE5m2, v);
    case Operand::S8:
      return static_cast<int8_t>(v);
    case Operand::S4:
      return static_cast<int32_t>(v << 28) >> 28;
    default:
      return v;
  }
}

// ---- the aligned sum of one block

struct Term {
  int64_t significand;
  int exponent;  // of the significand's leading place, 2^-23 below which lies its unit
};

Term split(float x, int emin) {
  if (x == 0) return {0, 0};
  int e;
  std::frexp(x, &e);
  e = std::max(e - 1, emin);
  return {static_cast<int64_t>(std::ldexp(static_cast<double>(x), 23 - e)), e};
}

int64_t shifted(int64_t v, int by) {
  const uint64_t magnitude = static_cast<uint64_t>(v < 0 ? -v : v);
  const uint64_t moved = by >= 0 ? magnitude << by : by > -64 ? magnitude >> -by : 0;
  return v < 0 ? -static_cast<int64_t>(moved) : static_cast<int64_t>(moved);
}

// c and `count` products, truncated to multiples of 2^(top - 25), summed exactly; the sum cut off to f32, or
// with `half` rounded once to f16.
float block(float c, const float* a, const float* b, int count, int emin, bool half) {
  constexpr int kFraction = 25;
  bool special = !std::isfinite(c);
  for (int i = 0; i < count; ++i) special |= !std::isfinite(a[i]) || !std::isfinite(b[i]);
  if (special) {
    bool nan = c != c, plus = c == INFINITY, minus = c == -INFINITY;
    for (int i = 0; i < count; ++i) {
      const double p = static_cast<double>(a[i]) * b[i];
      nan |= p != p;
      plus |= p == INFINITY;
      minus |= p == -INFINITY;
    }
    return nan || (plus && minus) ? canonical(NAN) : plus ? INFINITY : -INFINITY;
  }
  Term terms[32];
  int used = 0, top = half ? -21 : -133;
  for (int i = 0; i < count; ++i) {
    const Term x = split(a[i], emin), y = split(b[i], emin);
    if (!x.significand || !y.significand) continue;
    terms[used++] = {x.significand * y.significand, x.exponent + y.exponent};
    top = std::max(top, x.exponent + y.exponent);
  }
  const Term s = split(c, half ? kF16.emin() : kF32.emin());
  if (s.significand) top = std::max(top, s.exponent);
  int64_t total = s.significand ? shifted(s.significand, kFraction - 23 - (top - s.exponent)) : 0;
  for (int i = 0; i < used; ++i)
    total += shifted(terms[i].significand, kFraction - 46 - (top - terms[i].exponent));
  if (!total) return 0;
  const bool negative = total < 0;
  const Magnitude m{static_cast<uint64_t>(negative ? -total : total), top - kFraction, false};
  const SmallFloat& to = half ? kF16 : kF32;
  const uint32_t r = round_magnitude(to, m, negative, half ? Round::Rn : Round::Rz);
  const double v = small_value(to, r);
  return static_cast<float>(negative && v > 0 ? -v : v);  // a zero sum is +0
}

float to_f16(float x) { return static_cast<float>(small_value(kF16, round_to(kF16, x, Round::Rn))); }

float exact(float c, const float* a, const float* b, int k, Operand t, bool half) {
  if (t == Operand::E4m3 || t == Operand::E5m2) {  // widened to f16, from zero; c is added last
    float v = 0, x[16], y[16];
    for (int part = 0; part < 2; ++part) {
      for (int i = 0; i < k / 2; ++i) {
        const int at = i / 2 * 4 + part * 2 + i % 2;
        x[i] = a[at], y[i] = b[at];
      }
      v = block(v, x, y, k / 2, kF16.emin(), half);
    }
    return half ? to_f16(v + c) : v + c;
  }
  const int step = t == Operand::Tf32 ? 8 : 16;
  for (int i = 0; i < k; i += step)
    c = block(c, a + i, b + i, std::min(step, k - i), t == Operand::F16 ? kF16.emin() : kF32.emin(), half);
  return c;
}

// ---- fragments

struct Fragments {
  const Exec& x;
  const int32_t *d, *a, *b, *c;
};

template <class T, class F>
void gather_a(const Fragments& f, int m, int k, int bits, T (*out)[kMostK], F&& value) {
  const int per = std::max(1, 32 / bits), halves = m / 8;
  for (int r = 0; r < m * k / (32 * per); ++r) {
    for (int l = 0; l < 32; ++l)
      for (int j = 0; j < per; ++j)
        out[l / 4 + 8 * (r % halves)][4 * per * (r / halves) + per * (l % 4) + j] = value(f.a[r], l, j);
  }
}
template <class T, class F>
void gather_b(const Fragments& f, int k, int bits, T (*out)[kMostK], F&& value) {
  const int per = std::max(1, 32 / bits);
  for (int r = 0; r < 8 * k / (32 * per); ++r)
    for (int l = 0; l < 32; ++l)
      for (int j = 0; j < per; ++j) out[l / 4][4 * per * r + per * (l % 4) + j] = value(f.b[r], l, j);
}

struct Rounding {
  explicit Rounding(int32_t mode) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[mode]);
  }
  ~Rounding() { std::fesetround(FE_TONEAREST); }
};

void multiply_f64(const Fragments& f, int m, int k, int32_t rounding) {
  double a[kMostRows][kMostK], b[kColumns][kMostK];
  auto word = [&](int32_t at, int l, int) { return f.x.src<double>(at)[l]; };
  gather_a(f, m, k, 64, a, word);
  gather_b(f, k, 64, b, word);
  double out[4][32];
  {
    const Rounding guard(rounding);
    for (int r = 0; r < m / 4; ++r)
      for (int l = 0; l < 32; ++l) {
        double v = f.x.src<double>(f.c[r])[l];
        const int row = l / 4 + 8 * (r / 2), column = 2 * (l % 4) + r % 2;
        for (int i = 0; i < k; ++i) {
          const double sum = std::fma(a[row][i], b[column][i], v);
          v = sum == sum ? sum : reduction::fma_nan_f64(a[row][i], b[column][i], v);
        }
        out[r][l] = v;
      }
  }
  for (int r = 0; r < m / 4; ++r) std::memcpy(f.x.dst<double>(f.d[r]), out[r], sizeof out[r]);
}

void multiply_integers(const Fragments& f, int m, int k, Operand ta, Operand tb, bool saturates) {
  const int bits = bits_of(ta);
  int32_t a[kMostRows][kMostK], b[kColumns][kMostK];
  auto element = [&](Operand t) {
    return [&f, t, bits](int32_t at, int l, int j) {
      const uint32_t word = f.x.src<uint32_t>(at)[l] >> (j * bits);
      return static_cast<int32_t>(value_of(t, word & ((1u << bits) - 1)));
    };
  };
  gather_a(f, m, k, bits, a, element(ta));
  gather_b(f, k, bits, b, element(tb));
  int32_t out[4][32];
  for (int r = 0; r < m / 4; ++r)
    for (int l = 0; l < 32; ++l) {
      int64_t v = f.x.src<int32_t>(f.c[r])[l];
      const int row = l / 4 + 8 * (r / 2), column = 2 * (l % 4) + r % 2;
      for (int i = 0; i < k; ++i) v += static_cast<int64_t>(a[row][i]) * b[column][i];
      if (saturates) v = std::clamp<int64_t>(v, INT32_MIN, INT32_MAX);
      out[r][l] = static_cast<int32_t>(v);
    }
  for (int r = 0; r < m / 4; ++r) std::memcpy(f.x.dst<int32_t>(f.d[r]), out[r], sizeof out[r]);
}

void multiply_floats(const Fragments& f, int k, Operand ta, Operand tb, bool half, bool is_exact) {
  const int bits = bits_of(ta);
  float a[kMostRows][kMostK], b[kColumns][kMostK];
  auto element = [&](Operand t) {
    return [&f, t, bits](int32_t at, int l, int j) {
      const uint32_t word = f.x.src<uint32_t>(at)[l];
      return static_cast<float>(value_of(t, bits == 32 ? word : word >> (j * bits) & ((1u << bits) - 1)));
    };
  };
  gather_a(f, 16, k, bits, a, element(ta));
  gather_b(f, k, bits, b, element(tb));
  // A register of f16 holds two columns of one row, one of f32 a single cell.
  uint32_t out[4][32];
  for (int r = 0; r < 4; ++r)
    for (int l = 0; l < 32; ++l) {
      const int row = l / 4 + 8 * (r / 2), column = 2 * (l % 4) + r % 2;
      float c;
      if (half)
        c = static_cast<float>(
            small_value(kF16, f.x.src<uint32_t>(f.c[r / 2])[l] >> (16 * (r % 2)) & 0xffff));
      else
        c = f.x.src<float>(f.c[r])[l];
      float v = c;
      if (is_exact)
        v = exact(c, a[row], b[column], k, ta, half);
      else
        for (int i = 0; i < k; ++i) v = std::fma(a[row][i], b[column][i], v);
      out[r][l] = half ? round_to(kF16, v, Round::Rn) : bits_as<uint32_t>(canonical(v));
    }
  if (half) {
    for (int r = 0; r < 2; ++r)
      for (int l = 0; l < 32; ++l) f.x.dst<uint32_t>(f.d[r])[l] = out[2 * r][l] | out[2 * r + 1][l] << 16;
  } else {
    for (int r = 0; r < 4; ++r) std::memcpy(f.x.dst<uint32_t>(f.d[r]), out[r], sizeof out[r]);
  }
}

Step mma_sync(Exec& x, const Instr& i) {
  if (!x.whole_warp()) return Step::Block;
  if (x.w.live != ~0u) {
    x.e.fault("aligned-partial",
              "mma.sync in a warp whose lanes " + hex(~x.w.live) +
                  " have exited or do not exist: the fragments of all 32 are needed",
              x.origin(x.lane()));
    return Step::Stop;
  }
  const MmaSyncShape shape(i);
  const int m = shape.m, k = shape.k;
  const Operand ta = static_cast<Operand>(i.m[mma_slot::a_type]),
                tb = static_cast<Operand>(i.m[mma_slot::b_type]);
  const Result result = static_cast<Result>(i.m[mma_slot::d_type]);
  const int32_t* v = &x.e.program.vec[static_cast<size_t>(i.vec)];
  const int32_t *a = v + shape.nd, *b = a + shape.na;
  const Fragments f{x, v, a, b, b + shape.nb};
  if (result == Result::F64)
    multiply_f64(f, m, k, i.m[mma_slot::rounding]);
  else if (result == Result::S32)
    multiply_integers(f, m, k, ta, tb, i.m[mma_slot::saturates] != 0);
  else
    multiply_floats(f, k, ta, tb, result == Result::F16, x.e.config.mma == MmaMode::Exact);
  x.e.counters.mma_instructions++;
  x.e.counters.mma_macs += static_cast<uint64_t>(m * 8 * k);
  return Step::Next;
}

const Registrar mma_sync_handlers({{"mma.sync", mma_sync}});

}  // namespace
}  // namespace tileproof
