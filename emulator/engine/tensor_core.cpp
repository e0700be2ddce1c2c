#include "tensor_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "small_float.hpp"

// Products of 16-bit floats are exact in f32, so contraction changes no result short of under- and overflow.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

namespace tileproof {
namespace {

typedef float Lanes __attribute__((vector_size(64), aligned(4), may_alias));

// Rows x (16 * Groups) columns held in registers over the 16 steps of k.
template <int Rows, int Groups>
inline void block(float* const* c, const float* const* a, const float* b, int ldb, int n0) {
  Lanes acc[Rows][Groups];
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < Groups; ++g) acc[r][g] = *reinterpret_cast<const Lanes*>(c[r] + n0 + 16 * g);
  for (int k = 0; k < kBlockK; ++k) {
    Lanes bk[Groups];
    for (int g = 0; g < Groups; ++g) bk[g] = *reinterpret_cast<const Lanes*>(b + k * ldb + n0 + 16 * g);
    for (int r = 0; r < Rows; ++r) {
      const Lanes ak = a[r][k] - Lanes{};
      for (int g = 0; g < Groups; ++g) acc[r][g] += ak * bk[g];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < Groups; ++g) *reinterpret_cast<Lanes*>(c[r] + n0 + 16 * g) = acc[r][g];
}

template <int Rows>
inline void rows_of(float* const* c, const float* const* a, const float* b, int ldb, int n) {
  int n0 = 0;
  for (; n0 + 64 <= n; n0 += 64) block<Rows, 4>(c, a, b, ldb, n0);
  for (; n0 + 32 <= n; n0 += 32) block<Rows, 2>(c, a, b, ldb, n0);
  for (; n0 + 16 <= n; n0 += 16) block<Rows, 1>(c, a, b, ldb, n0);
  for (; n0 < n; ++n0)
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < kBlockK; ++k) c[r][n0] += a[r][k] * b[k * ldb + n0];
}

}  // namespace

void product_fast(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) rows_of<4>(c + r, a + r, b, ldb, n);
  for (; r < rows; ++r) rows_of<1>(c + r, a + r, b, ldb, n);
}

}  // namespace tileproof

#pragma GCC pop_options

namespace tileproof {
namespace {

constexpr int kFraction = 25;  // 23 bits of f32 and 2 extra alignment bits
constexpr int32_t kMinAlignment = -133, kMinAlignmentHalf = -21;

inline int32_t align(int32_t significand, int32_t shift) {
  const int32_t magnitude = significand < 0 ? -significand : significand;
  const int32_t left = magnitude << (shift < 0 ? 0 : shift > 5 ? 5 : shift);
  const int32_t moved = left >> (shift < 0 ? (shift < -31 ? 31 : -shift) : 0);
  return significand < 0 ? -moved : moved;
}

}  // namespace

void split_operand(const float* x, int count, int32_t emin, int32_t* significand, int32_t* exponent) {
  for (int i = 0; i < count; ++i) {
    uint32_t u;
    std::memcpy(&u, x + i, 4);
    const int32_t field = static_cast<int32_t>(u >> 23 & 255);
    const uint32_t mantissa = (u & 0x7fffff) | (field ? 1u << 23 : 0);
    if (!mantissa) {
      significand[i] = 0;
      exponent[i] = kDropped;
      continue;
    }
    // |x| = mantissa * 2^(e - 23); bf16 and f16 leave the low bits of the mantissa zero at their own
    // exponent.
    int32_t e = field ? field - 127 : -126;
    int32_t s = static_cast<int32_t>(mantissa >> 13);
    if (e < emin) {  // a subnormal f16
      s >>= emin - e;
      e = emin;
    }
    significand[i] = u >> 31 ? -s : s;
    exponent[i] = e;
  }
}

void product_exact(float* c, const int32_t* sa, const int32_t* ea, const int32_t* sb, const int32_t* eb,
                   int ldb, int n) {
  constexpr int kLanes = 16;
  for (int n0 = 0; n0 < n; n0 += kLanes) {
    const int count = n - n0 < kLanes ? n - n0 : kLanes;
    int32_t sc[kLanes] = {}, ec[kLanes] = {}, top[kLanes] = {};
    int64_t total[kLanes] = {};
    for (int j = 0; j < count; ++j) {
      uint32_t u;
      std::memcpy(&u, c + n0 + j, 4);
      const int32_t field = static_cast<int32_t>(u >> 23 & 255);
      const int32_t mantissa = static_cast<int32_t>((u & 0x7fffff) | (field ? 1u << 23 : 0));
      sc[j] = u >> 31 ? -mantissa : mantissa;
      ec[j] = mantissa ? (field ? field - 127 : -126) : kDropped;
      top[j] = ec[j] > kMinAlignment ? ec[j] : kMinAlignment;
    }
    for (int k = 0; k < kBlockK; ++k) {
      const int32_t* e = eb + k * ldb + n0;
      for (int j = 0; j < count; ++j) top[j] = ea[k] + e[j] > top[j] ? ea[k] + e[j] : top[j];
    }
    for (int j = 0; j < count; ++j) total[j] = align(sc[j], 2 - (top[j] - ec[j]));
    for (int k = 0; k < kBlockK; ++k) {
      const int32_t *e = eb + k * ldb + n0, *s = sb + k * ldb + n0;
      const int32_t a = sa[k], x = ea[k];
      for (int j = 0; j < count; ++j) total[j] += align(a * s[j], kFraction - 20 - (top[j] - (x + e[j])));
    }
    for (int j = 0; j < count; ++j) {
      const int64_t magnitude = total[j] < 0 ? -total[j] : total[j];
      const int32_t unit = top[j] - kFraction;
      int32_t drop = magnitude ? 64 - __builtin_clzll(static_cast<uint64_t>(magnitude)) - 24 : 0;
      if (drop < -149 - unit) drop = -149 - unit;
      if (drop < 0) drop = 0;
      const int64_t kept = drop > 62 ? 0 : magnitude >> drop;
      const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(unit + drop + 1023)) << 52;
      double scale;
      std::memcpy(&scale, &bits, 8);
      const double v = static_cast<double>(kept) * scale;
      c[n0 + j] = static_cast<float>(total[j] < 0 && kept ? -v : v);
    }
  }
}

bool product_special(float* c, const float* a, const float* b, int ldb, int count) {
  bool special = !std::isfinite(*c);
  bool nan = std::isnan(*c), plus = *c == std::numeric_limits<float>::infinity(),
       minus = *c == -std::numeric_limits<float>::infinity();
  for (int k = 0; k < count; ++k) {
    const float x = a[k], y = b[k * ldb];
    if (std::isfinite(x) && std::isfinite(y)) continue;
    special = true;
    const float p = x * y;  // NaN for inf times zero
    nan |= std::isnan(p);
    plus |= p == std::numeric_limits<float>::infinity();
    minus |= p == -std::numeric_limits<float>::infinity();
  }
  if (!special) return false;
  if (nan || (plus && minus)) {
    const uint32_t quiet = 0x7fffffff;
    std::memcpy(c, &quiet, 4);
  } else {
    *c = plus ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  }
  return true;
}

namespace {

int64_t align_wide(int64_t significand, int32_t shift) {
  const uint64_t magnitude = static_cast<uint64_t>(significand < 0 ? -significand : significand);
  const uint64_t moved = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
  return significand < 0 ? -static_cast<int64_t>(moved) : static_cast<int64_t>(moved);
}

// A scale factor as 4 bits, 3 of them fraction, and an exponent (e4m3 has 4 bits, a power of two 1).
void split_scale(float scale, int64_t& significand, int32_t& exponent) {
  int32_t s, e;
  split_operand(&scale, 1, -150, &s, &e);
  significand = s >> 7;
  exponent = e;
}

}  // namespace

void WideSum::add(int32_t sa, int32_t ea, int32_t sb, int32_t eb, float scale_a, float scale_b) {
  if (!sa || !sb) return;
  Term t{static_cast<int64_t>(sa) * sb, ea + eb, 20};
  for (float scale : {scale_a, scale_b}) {
    if (scale == 1) continue;
    if (scale == 0) return;
    int64_t s;
    int32_t e;
    split_scale(scale, s, e);
    t.significand *= s;
    t.exponent += e;
    t.fraction += 3;
  }
  terms_[count_++] = t;
}

float WideSum::result(float c) const {
  int32_t sc = 0, ec = kDropped;
  uint32_t u;
  std::memcpy(&u, &c, 4);
  if (c != 0) {
    const int32_t field = static_cast<int32_t>(u >> 23 & 255);
    sc = static_cast<int32_t>((u & 0x7fffff) | (field ? 1u << 23 : 0));
    ec = field ? field - 127 : -126;
    if (half_ && ec < kF16.emin()) sc >>= kF16.emin() - ec, ec = kF16.emin();
    if (u >> 31) sc = -sc;
  }
  int32_t top = std::max(ec, half_ ? kMinAlignmentHalf : kMinAlignment);
  for (int i = 0; i < count_; ++i) top = std::max(top, terms_[i].exponent);
  int64_t total = sc ? align_wide(sc, kFraction - 23 - (top - ec)) : 0;
  for (int i = 0; i < count_; ++i)
    total += align_wide(terms_[i].significand, kFraction - terms_[i].fraction - (top - terms_[i].exponent));
  const Magnitude sum{static_cast<uint64_t>(total < 0 ? -total : total), top - kFraction, false};
  if (!sum.significand) return 0;
  const SmallFloat& to = half_ ? kF16 : kF32;
  const uint32_t bits = round_magnitude(to, sum, total < 0, half_ ? Round::Rn : Round::Rz);
  const double value = small_value(to, bits);
  return static_cast<float>(total < 0 ? -value : value);
}

}  // namespace tileproof
