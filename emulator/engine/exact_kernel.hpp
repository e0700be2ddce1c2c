// The exact mode's loops on f32 vectors, for a level of the processor: part of products_kernel.hpp.
//
// An addend is cut off to a multiple of 2^(top - fraction) as f32 * 2^(fraction - top), converted to int32. A
// product of two operands of at most 11 bits is exact in f32. The exponents of products are added as int16,
// which neither overflow nor underflow. What this arithmetic does not cover (a largest exponent outside
// [kLowest, kHighest], a term that is not finite, a sum near 2^31) is left to the caller.
#include "products.hpp"
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace tileproof::LEVEL {
namespace {

// With a top of kLowest or more, a product that underflows is below the last place kept; with kHighest or
// less, 32 products and the accumulator stay below 2^128.
constexpr int kLowest = -100, kHighest = 120, kNothing = -1000;
static_assert(kLowest - kFraction >= -126 && kFraction - kLowest <= 127 && kHighest + 2 + 5 < 128);
// Sums of exponents: of up to two operands and two scale factors.
static_assert(4 * kSpecialExponent < 32767 && kSpecialExponent + kZeroExponent - 254 > kHighest &&
              kZeroExponent + 3 * 128 < kNothing && 2 * kZeroExponent - 254 > -32768);

template <int Bytes>
struct Vector {
  typedef float F __attribute__((vector_size(Bytes), aligned(4), may_alias));
  typedef int32_t I __attribute__((vector_size(Bytes), may_alias));
  typedef uint32_t U __attribute__((vector_size(Bytes), may_alias));  // wraps in lanes that are left
  typedef int16_t S __attribute__((vector_size(Bytes), aligned(2), may_alias));
  typedef int16_t Half __attribute__((vector_size(Bytes / 2), aligned(2), may_alias));  // as many as of F
};

template <class Ints>
inline bool any(Ints v) {
#ifdef __SSE4_1__
  if constexpr (sizeof v == 16) {
    const __m128i x = reinterpret_cast<__m128i>(v);
    return !_mm_testz_si128(x, x);
  }
#endif
#ifdef __AVX__
  if constexpr (sizeof v == 32) {
    const __m256i x = reinterpret_cast<__m256i>(v);
    return !_mm256_testz_si256(x, x);
  }
#endif
#ifdef __AVX512F__
  if constexpr (sizeof v == 64) {
    const __m512i x = reinterpret_cast<__m512i>(v);
    return _mm512_test_epi32_mask(x, x) != 0;
  }
#endif
  int32_t all = 0;
  for (size_t i = 0; i < sizeof v / 4; ++i) all |= v[i];
  return all != 0;
}

// `tops`: the largest exponent of the products of each row and column.
template <int Bytes, int Rows>
inline void exact_half(ExactRow* rows, const ExactColumns& b, const int16_t* tops, int stride, int n0) {
  using F = typename Vector<Bytes>::F;
  using I = typename Vector<Bytes>::I;
  using U = typename Vector<Bytes>::U;
  using Half = typename Vector<Bytes>::Half;
  constexpr int kLanes = Bytes / 4;
  F scale[Rows];
  U even[Rows], odd[Rows];
  I top[Rows], wrong[Rows], some{};
  for (int r = 0; r < Rows; ++r) {
    const F c = *reinterpret_cast<const F*>(rows[r].c + n0);
    const I bits = reinterpret_cast<I>(c);
    I own = (bits >> 23 & 255) - 127;
    own = own > b.emin ? own : I{} + b.emin;
    own = (bits & 0x7fffffff) == 0 ? I{} + kZeroExponent : own;
    I of = __builtin_convertvector(*reinterpret_cast<const Half*>(tops + r * stride), I), by = of;
    if (b.scales) {
      by = __builtin_convertvector(*reinterpret_cast<const Half*>(b.scales + n0), I) + rows[r].scale;
      of += by;
    }
    of = of > own ? of : own;
    wrong[r] = (of > kHighest) | ((of < kLowest) & (of > kNothing));
    some |= wrong[r];
    top[r] = of > b.lowest ? of : I{} + b.lowest;
    const I unit = b.fraction - top[r];
    scale[r] = reinterpret_cast<F>(reinterpret_cast<U>(unit + 127) << 23);
    even[r] = reinterpret_cast<U>(__builtin_convertvector(c * scale[r], I));
    odd[r] = U{};
    if (b.scales) {
      by += unit;
      by = by > -126 ? by : I{} - 126;  // any product is cut off to 0
      by = by < 127 ? by : I{} + 127;   // only without a product
      scale[r] = reinterpret_cast<F>(reinterpret_cast<U>(by + 127) << 23);
    }
  }
  for (int k = 0; k < b.k; k += 2) {
    const F b0 = *reinterpret_cast<const F*>(b.b + k * b.ld + n0);
    const F b1 = *reinterpret_cast<const F*>(b.b + (k + 1) * b.ld + n0);
    for (int r = 0; r < Rows; ++r) {
      even[r] += reinterpret_cast<U>(__builtin_convertvector(rows[r].a[k] * b0 * scale[r], I));
      odd[r] += reinterpret_cast<U>(__builtin_convertvector(rows[r].a[k + 1] * b1 * scale[r], I));
    }
  }
  F result[Rows];
  for (int r = 0; r < Rows; ++r) {
    // Both terms below 2^30, and so the sum below 2^31.
    wrong[r] |= reinterpret_cast<I>((even[r] + (1u << 30)) | (odd[r] + (1u << 30))) < 0;
    some |= wrong[r];
    const U sum = even[r] + odd[r];
    const F near = __builtin_convertvector(reinterpret_cast<I>(sum), F);
    const U past = reinterpret_cast<U>(__builtin_convertvector(near, I)) - sum;
    const U sign = reinterpret_cast<U>(reinterpret_cast<I>(sum) >> 31);
    // -1 where it went away from zero.
    const U back = reinterpret_cast<U>(reinterpret_cast<I>((past ^ sign) - sign) > 0);
    U bits = reinterpret_cast<U>(near) + back;
    if (b.odd) bits |= reinterpret_cast<U>(past != 0) & 1;
    result[r] =
        reinterpret_cast<F>(bits) * reinterpret_cast<F>(reinterpret_cast<U>(top[r] - b.fraction + 127) << 23);
  }
  const bool check = any(some);
  for (int r = 0; r < Rows; ++r) {
    if (check && any(wrong[r]))
      rows[r].left |= ((1ull << kLanes / kExactColumns) - 1) << n0 / kExactColumns;
    else
      *reinterpret_cast<F*>(rows[r].c + n0) = result[r];
  }
}

template <int Bytes, int Rows>
inline void exact_group(ExactRow* rows, const ExactColumns& b, int n0) {
  using S = typename Vector<Bytes>::S;
  using I = typename Vector<Bytes>::I;
  constexpr int kHalf = Bytes / 4;
  S top[Rows];
  for (int r = 0; r < Rows; ++r) top[r] = S{} + static_cast<int16_t>(2 * kZeroExponent);
  for (int k = 0; k < b.k; ++k) {
    const S e = *reinterpret_cast<const S*>(b.exponents + k * b.ld + n0);
    for (int r = 0; r < Rows; ++r) {
      const S sum = e + reinterpret_cast<S>(I{} + rows[r].exponents[k]);
      top[r] = sum > top[r] ? sum : top[r];
    }
  }
  int16_t tops[Rows][2 * kHalf];
  __builtin_memcpy(tops, top, sizeof tops);
  for (int half = 0; half < 2; ++half)
    exact_half<Bytes, Rows>(rows, b, tops[0] + half * kHalf, 2 * kHalf, n0 + half * kHalf);
}

template <int Rows>
inline void exact_rows(ExactRow* rows, const ExactColumns& b) {
  int n0 = 0;
  for (int r = 0; r < Rows; ++r) rows[r].left = 0;
  for (; n0 + BYTES / 2 <= b.n; n0 += BYTES / 2) exact_group<BYTES, Rows>(rows, b, n0);
#if BYTES == 64
  for (; n0 + 16 <= b.n; n0 += 16) exact_group<32, Rows>(rows, b, n0);
#endif
#if BYTES >= 32
  for (; n0 + 8 <= b.n; n0 += 8) exact_group<16, Rows>(rows, b, n0);
#endif
  for (; n0 < b.n; n0 += kExactColumns)
    for (int r = 0; r < Rows; ++r) rows[r].left |= 1ull << n0 / kExactColumns;
}

void exact(ExactRow* rows, int count, const ExactColumns& b) {
  constexpr int kTogether = BYTES == 64 ? 4 : 2;  // 32 registers, or 16
  int r = 0;
  for (; r + kTogether <= count; r += kTogether) exact_rows<kTogether>(rows + r, b);
  for (; r < count; ++r) exact_rows<1>(rows + r, b);
}

void exponents(const float* x, int count, int32_t emin, int16_t* exponent) {
  for (int i = 0; i < count; ++i) {
    uint32_t u;
    __builtin_memcpy(&u, x + i, 4);
    const int32_t field = static_cast<int32_t>(u >> 23 & 255);
    const int32_t e = field - 127 < emin ? emin : field - 127;
    exponent[i] = static_cast<int16_t>(field == 255 ? kSpecialExponent : u << 1 ? e : kZeroExponent);
  }
}

}  // namespace
}  // namespace tileproof::LEVEL
