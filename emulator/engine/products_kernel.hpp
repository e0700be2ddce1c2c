// The loops of the tensor core, in a namespace of its own for each level of the processor: included by
// products_*.cpp, which define LEVEL and BYTES and are compiled for that level. Nothing here may be an inline
// function of another header: the linker would keep one copy, perhaps that of the widest level, for all.
#include "exact_kernel.hpp"

namespace tileproof::LEVEL {
namespace {

constexpr int kWidth = BYTES / 4;
typedef float Lanes __attribute__((vector_size(BYTES), aligned(4), may_alias));

#ifdef __FMA__
// Contracted to one fused multiply-add: these files are compiled with -ffp-contract=fast.
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return a * b + c; }
#else
typedef double Wide __attribute__((vector_size(2 * BYTES)));
typedef int64_t Bits __attribute__((vector_size(2 * BYTES)));

// The same value without the instruction: the product is exact in double, the sum is rounded to odd there,
// and so its rounding to f32 is that of the exact sum (Boldo and Melquiond, 2008).
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
  const Wide p = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
  const Wide q = __builtin_convertvector(c, Wide);
  const Wide sum = p + q, part = sum - p;
  const Wide rest = (p - (sum - part)) + (q - part);  // what the sum lost; NaN where it is not finite
  const Bits bits = reinterpret_cast<Bits>(sum);
  const Bits lost = (rest != Wide{}) & (rest == rest) & ((bits & 1) == 0);
  const Bits away = (reinterpret_cast<Bits>(rest) ^ bits) >= 0;  // -1 where both have one sign
  return __builtin_convertvector(reinterpret_cast<Wide>(bits + (((away & 2) - 1) & lost)), Lanes);
}
#endif

// Rows x (kWidth * Groups) columns held in registers over the 16 steps of k.
template <int Rows, int Groups>
inline void block(float* const* c, const float* const* a, const float* b, int ldb, int n0) {
  Lanes acc[Rows][Groups];
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < Groups; ++g) acc[r][g] = *reinterpret_cast<const Lanes*>(c[r] + n0 + kWidth * g);
  for (int k = 0; k < kBlockK; ++k) {
    Lanes bk[Groups];
    for (int g = 0; g < Groups; ++g) bk[g] = *reinterpret_cast<const Lanes*>(b + k * ldb + n0 + kWidth * g);
    for (int r = 0; r < Rows; ++r) {
      const Lanes ak = a[r][k] - Lanes{};
      for (int g = 0; g < Groups; ++g) acc[r][g] = fused(ak, bk[g], acc[r][g]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int g = 0; g < Groups; ++g) *reinterpret_cast<Lanes*>(c[r] + n0 + kWidth * g) = acc[r][g];
}

template <int Rows>
inline void rows_of(float* const* c, const float* const* a, const float* b, int ldb, int n) {
  int n0 = 0;
#if BYTES == 64  // 32 registers hold 4 rows of 4 groups
  for (; n0 + 4 * kWidth <= n; n0 += 4 * kWidth) block<Rows, 4>(c, a, b, ldb, n0);
#endif
  for (; n0 + 2 * kWidth <= n; n0 += 2 * kWidth) block<Rows, 2>(c, a, b, ldb, n0);
  for (; n0 + kWidth <= n; n0 += kWidth) block<Rows, 1>(c, a, b, ldb, n0);
  for (; n0 < n; ++n0)
    for (int r = 0; r < Rows; ++r)
      for (int k = 0; k < kBlockK; ++k) c[r][n0] = __builtin_fmaf(a[r][k], b[k * ldb + n0], c[r][n0]);
}

void fast(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) rows_of<4>(c + r, a + r, b, ldb, n);
  for (; r < rows; ++r) rows_of<1>(c + r, a + r, b, ldb, n);
}

inline int32_t align(int32_t significand, int32_t shift) {
  const int32_t magnitude = significand < 0 ? -significand : significand;
  const int32_t left = magnitude << (shift < 0 ? 0 : shift > 5 ? 5 : shift);
  const int32_t moved = left >> (shift < 0 ? (shift < -31 ? 31 : -shift) : 0);
  return significand < 0 ? -moved : moved;
}

void split(const float* x, int count, int32_t emin, int32_t* significand, int32_t* exponent) {
  for (int i = 0; i < count; ++i) {
    uint32_t u;
    __builtin_memcpy(&u, x + i, 4);
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

void careful(float* c, const int32_t* sa, const int32_t* ea, const int32_t* sb, const int32_t* eb, int ldb,
             int n) {
  constexpr int kLanes = 16;
  for (int n0 = 0; n0 < n; n0 += kLanes) {
    const int count = n - n0 < kLanes ? n - n0 : kLanes;
    int32_t sc[kLanes] = {}, ec[kLanes] = {}, top[kLanes] = {};
    int64_t total[kLanes] = {};
    for (int j = 0; j < count; ++j) {
      uint32_t u;
      __builtin_memcpy(&u, c + n0 + j, 4);
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
      __builtin_memcpy(&scale, &bits, 8);
      const double v = static_cast<double>(kept) * scale;
      c[n0 + j] = static_cast<float>(total[j] < 0 && kept ? -v : v);
    }
  }
}

}  // namespace

extern const Products kProducts{fast, exponents, exact, split, careful};

}  // namespace tileproof::LEVEL
