// The two product modes of tcgen05.mma: plain f32, and the published block arithmetic bit for bit.
#pragma once

#include <cstdint>

#include "products.hpp"

namespace tileproof {

constexpr int kMaxN = 256, kMaxK = 64, kMaxScales = 4;

// Fast mode. rows x n accumulators: row r is c[r][0..n) += sum over k of a[r][k] * b[k * ldb + 0..n), one
// fused multiply-add an element in order of k, f32. `largest`: largest_bits of b, or of a part of it with a
// magnitude that is not `small`.
void product_fast(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n,
                  uint32_t largest, const Products& level = products());
// The bits of the largest magnitude of a matrix [rows][ld]; NaN is larger than infinity.
uint32_t largest_bits(const float* x, int rows, int ld, int columns);
constexpr uint32_t kSmallBits = (127 - 20) << 23;
// The same of as many rows as it takes to meet a magnitude that is not small.
uint32_t largest_if_small(const float* x, int rows, int ld, int columns);

// The same where an operand is not finite: a NaN, inf times zero, or infs of both signs give 0x7fffffff, else
// inf wins. Returns false when every term is finite.
bool product_special(float* c, const float* a, const float* b, int ldb, int k);

// One element of the exact mode for any number of products, scaled or not: the same aligned sum. An f16
// result is aligned down to 2^-21 and rounded once, to nearest even (spec/machine/tensor_core.py).
class WideSum {
 public:
  // fraction: places below the largest exponent that an addend keeps.
  explicit WideSum(bool half, int32_t fraction = kFraction) : half_(half), fraction_(fraction) {}
  // Split operands, and the scale factors of their blocks (1: none).
  void add(int32_t sa, int32_t ea, int32_t sb, int32_t eb, float scale_a, float scale_b);
  // c plus the products; everything is finite.
  float result(float c) const;

 private:
  struct Term {
    int64_t significand;
    int32_t exponent, fraction;  // the value is significand * 2^(exponent - fraction)
  };
  bool half_;
  int32_t fraction_;
  int count_ = 0;
  Term terms_[64];
};

// One element of the kinds mxf4 and mxf4nvf4: sums of 16 products, scaled and aligned with 35 bits below the
// largest exponent of their scale factors or of the accumulator (spec/machine/tensor_core.py: scaled_e2m1).
class ScaledSum {
 public:
  // scale_emin: the exponent of the smallest normal scale factor.
  explicit ScaledSum(int32_t scale_emin) : scale_emin_(scale_emin) {}
  // 16 products of e2m1, b[k * ldb], and the scale factors of their blocks.
  void add(const float* a, const float* b, int ldb, float scale_a, float scale_b);
  // Their sum, of which a product is not 0, and factors that are not 0.
  void add(float sum, float scale_a, float scale_b);
  // c plus the sums; everything is finite.
  float result(float c) const;

 private:
  struct Term {
    int64_t significand;
    int32_t exponent;  // the value is significand * 2^(exponent - 8)
  };
  int32_t scale_emin_;
  int count_ = 0;
  Term terms_[4];
};

}  // namespace tileproof
