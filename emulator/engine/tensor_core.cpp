#include "tensor_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "small_float.hpp"

namespace tileproof {
namespace {

constexpr int32_t kMinAlignmentHalf = -21;

}  // namespace

uint32_t largest_bits(const float* x, int rows, int ld, int columns) {
  uint32_t most = 0;
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j) {
      uint32_t u;
      std::memcpy(&u, x + r * ld + j, 4);
      u &= 0x7fffffff;
      most = most < u ? u : most;
    }
  return most;
}

uint32_t largest_if_small(const float* x, int rows, int ld, int columns) {
  uint32_t most = 0;
  for (int r = 0; r < rows && most < kSmallBits; ++r)
    most = std::max(most, largest_bits(x + r * ld, 1, 0, columns));
  return most;
}

void product_fast(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n,
                  uint32_t largest, const Products& level) {
  constexpr uint32_t kOperand = (127 + 50) << 23;
  if (largest < kSmallBits) [[unlikely]] {
    uint32_t most = 0;
    for (int r = 0; r < rows; ++r) most = std::max(most, largest_bits(a[r], 1, 0, kBlockK));
    float x, y;
    std::memcpy(&x, &most, 4);
    std::memcpy(&y, &largest, 4);
    const double product = static_cast<double>(x) * static_cast<double>(y) * 0x1p149;  // in places of 2^-149
    if (most < kOperand && product > 0 && product < 0x1p18) {
      level.tiny(c, a, rows, b, ldb, n, (1 << 22) - 16 * (static_cast<int32_t>(product) + 2));
      return;
    }
  }
  level.fast(c, a, rows, b, ldb, n);
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
void split_scale(float scale, int32_t emin, int64_t& significand, int32_t& exponent) {
  int32_t s, e;
  products().split(&scale, 1, emin, &s, &e);
  significand = s >> 7;
  exponent = e;
}

// The accumulator as 24 bits of significand, 23 of them fraction.
void split_accumulator(float c, int32_t& significand, int32_t& exponent) {
  uint32_t u;
  std::memcpy(&u, &c, 4);
  const int32_t field = static_cast<int32_t>(u >> 23 & 255);
  significand = static_cast<int32_t>((u & 0x7fffff) | (field ? 1u << 23 : 0));
  exponent = field ? field - 127 : -126;
  if (u >> 31) significand = -significand;
}

float rounded(int64_t total, int32_t unit, bool half) {
  const Magnitude sum{static_cast<uint64_t>(total < 0 ? -total : total), unit, false};
  if (!sum.significand) return 0;
  const SmallFloat& to = half ? kF16 : kF32;
  const uint32_t bits = round_magnitude(to, sum, total < 0, half ? Round::Rn : Round::Rz);
  const double value = small_value(to, bits);
  return static_cast<float>(total < 0 ? -value : value);
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
    split_scale(scale, -150, s, e);
    t.significand *= s;
    t.exponent += e;
    t.fraction += 3;
  }
  terms_[count_++] = t;
}

float WideSum::result(float c) const {
  int32_t sc = 0, ec = kDropped;
  if (c != 0) {
    split_accumulator(c, sc, ec);
    if (half_ && ec < kF16.emin()) sc /= 1 << (kF16.emin() - ec), ec = kF16.emin();
  }
  int32_t top = std::max(ec, half_ ? kMinAlignmentHalf : kMinAlignment);
  for (int i = 0; i < count_; ++i) top = std::max(top, terms_[i].exponent);
  int64_t total = sc ? align_wide(sc, fraction_ - 23 - (top - ec)) : 0;
  for (int i = 0; i < count_; ++i)
    total += align_wide(terms_[i].significand, fraction_ - terms_[i].fraction - (top - terms_[i].exponent));
  return rounded(total, top - fraction_, half_);
}

void ScaledSum::add(const float* a, const float* b, int ldb, float scale_a, float scale_b) {
  float sum = 0;  // exact: multiples of 1/4 up to 576
  bool any = false;
  for (int k = 0; k < 16; ++k) {
    const float product = a[k] * b[k * ldb];
    sum += product;
    any |= product != 0;
  }
  // What nobody wrote is NaN; the caller gives the result of what is not finite.
  if (!any || !std::isfinite(sum) || scale_a == 0 || scale_b == 0) return;
  add(sum, scale_a, scale_b);
}

void ScaledSum::add(float sum, float scale_a, float scale_b) {
  int64_t sa, sb;
  int32_t ea, eb;
  split_scale(scale_a, scale_emin_, sa, ea);
  split_scale(scale_b, scale_emin_, sb, eb);
  terms_[count_++] = {static_cast<int64_t>(sum * 4) * sa * sb, ea + eb};
}

float ScaledSum::result(float c) const {
  constexpr int32_t kBits = 35;
  int32_t sc = 0, ec = kDropped;
  if (c != 0) split_accumulator(c, sc, ec);
  int32_t top = ec;
  for (int i = 0; i < count_; ++i) top = std::max(top, terms_[i].exponent);
  int64_t total = sc ? align_wide(sc, kBits - 23 - (top - ec)) : 0;
  for (int i = 0; i < count_; ++i)
    total += align_wide(terms_[i].significand, kBits - 8 - (top - terms_[i].exponent));
  return rounded(total, top - kBits, false);
}

}  // namespace tileproof
