// The tensor core's loops, compiled for several levels of the processor; one is chosen when the engine is
// loaded.
#pragma once

#include <cstdint>
#include <string_view>

namespace tileproof {

constexpr int kBlockK = 16;
constexpr int kFraction = 25;  // 23 bits of f32 and 2 extra alignment bits
constexpr int32_t kMinAlignment = -133;

// Operand elements split for the exact mode: x = significand * 2^(exponent - 10). Subnormals are not
// normalised: their exponent is that of the format's smallest normal. A zero has exponent kDropped.
constexpr int32_t kDropped = -(1 << 20);

// Exponents of operands for the exact loops, subnormals as above.
constexpr int kZeroExponent = -3000, kSpecialExponent = 6000;  // of zero; of infinity and NaN
constexpr int kExactColumns = 4;                               // computed or left together

// A row of the exact mode: c += sum over k of a[k] * b[k].
struct ExactRow {
  float* c;
  const float* a;
  const int32_t* exponents;  // of a[k], as both halves of a word
  int32_t scale;             // exponent of A's scale factor, a power of two
  uint64_t left;             // set: columns not computed, kExactColumns of them to a bit
};

// What the rows are multiplied by, [k][ld], and how the sum is taken.
struct ExactColumns {
  const float* b;
  const int16_t* exponents;
  const int16_t* scales;  // exponents of B's scale factors, powers of two; null: no factors, of A neither
  int ld, n, k;           // k even; with more than 16, operands of at most 4 bits
  int fraction;           // places below the largest exponent that an addend keeps, at most 25
  int lowest;             // the largest exponent counts as this at least
  int emin;               // and the accumulator's as this
  bool odd;  // the sum's last place is set where places were cut off, so that rounding it further
             // to a narrower format rounds once
};

// What tensor_core.hpp says. `tiny` gives the bits of `fast` where every product is below 2^-131 (and
// operands below 2^50), fast where |c| is below `limit`, in places of 2^-149: sums of `limit` and all
// products are below 2^-127. `exact` gives the bits of product_careful (or of WideSum) or leaves a column as
// it was. The same bits at every level.
struct Products {
  void (*fast)(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n);
  void (*tiny)(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n,
               int32_t limit);
  void (*exponents)(const float* x, int count, int32_t emin, int16_t* exponent);
  void (*exact)(ExactRow* rows, int count, const ExactColumns& b);
  void (*split)(const float* x, int count, int32_t emin, int32_t* significand, int32_t* exponent);
  void (*careful)(float* c, const int32_t* a_significand, const int32_t* a_exponent,
                  const int32_t* b_significand, const int32_t* b_exponent, int ldb, int n);
};

// The widest that the processor has; the environment's TILEPROOF_LEVEL (v2, v3, v4) lowers the choice.
const Products& products();

// Those of one level, null where the processor lacks it: for tests.
const Products* products_of(std::string_view level);

}  // namespace tileproof
