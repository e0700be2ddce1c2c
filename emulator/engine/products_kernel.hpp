// The loops of the tensor core, in a namespace of its own for each level of the processor: included by
// products_*.cpp, which define LEVEL and BYTES and are compiled for that level. Nothing here may be an inline
// function of another header: the linker would keep one copy, perhaps that of the widest level, for all.
#include "exact_kernel.hpp"

namespace tileproof::LEVEL {
namespace {

constexpr int kWidth = BYTES / 4;
typedef float Lanes __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Loaded __attribute__((vector_size(BYTES), aligned(4), may_alias));

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
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

// Where every product is below 2^-131, and so c too where it is below `limit`, all sums are subnormal: for
// each of them the processor takes some hundred clocks. Here they are whole numbers of 2^-149, to which a sum
// beside 1.5 * 2^23 is rounded as that of the subnormals; a zero has the sign of the sum before it was
// rounded. A c from 2^-100 on keeps its value. False, with nothing done, where a c is none of these.
template <int Rows>
inline bool tiny_block(float* const* c, const float (*a)[kBlockK], const float* b, int ldb, int n0,
                       int32_t limit) {
  using I = Vector<BYTES>::I;
  constexpr int32_t kSign = INT32_MIN, kInfinity = 0x7f800000, kKept = (127 - 100) << 23;
  const Lanes beside = Lanes{} + 0x1.8p23f;
  Lanes u[Rows];
  I old[Rows], kept[Rows], other{};
  for (int r = 0; r < Rows; ++r) {
    old[r] = *reinterpret_cast<const Loaded*>(c[r] + n0);
    const I size = old[r] & ~kSign;
    kept[r] = (size >= kKept) & (size < kInfinity);
    other |= ~(kept[r] | (size < limit));
    u[r] =
        reinterpret_cast<Lanes>(reinterpret_cast<I>(__builtin_convertvector(size, Lanes)) | (old[r] & kSign));
  }
  if (any(other)) return false;
  for (int k = 0; k < kBlockK; ++k) {
    const Lanes bk = *reinterpret_cast<const Lanes*>(b + k * ldb + n0) * 0x1p74f;
    for (int r = 0; r < Rows; ++r) {
      const Lanes ak = a[r][k] - Lanes{};
      const I sum = reinterpret_cast<I>(ak * bk + u[r]);
      const I whole = reinterpret_cast<I>(fused(ak, bk, u[r] + beside) - beside);
      u[r] = reinterpret_cast<Lanes>((whole & ~kSign) | (sum & kSign));
    }
  }
  for (int r = 0; r < Rows; ++r) {
    const I bits = reinterpret_cast<I>(u[r]);
    const I size = __builtin_convertvector(reinterpret_cast<Lanes>(bits & ~kSign), I);
    *reinterpret_cast<Loaded*>(c[r] + n0) = kept[r] ? old[r] : size | (bits & kSign);
  }
  return true;
}

// x * 2^75, without arithmetic on a subnormal.
inline float raised(float x) {
  int32_t u;
  __builtin_memcpy(&u, &x, 4);
  if (u & 0x7f800000) return x * 0x1p75f;
  const float size = static_cast<float>(u & 0x7fffff) * 0x1p-74f;
  return u < 0 ? -size : size;
}

template <int Rows>
inline void tiny_rows(float* const* c, const float* const* a, const float* b, int ldb, int n, int32_t limit) {
  float high[Rows][kBlockK];
  for (int r = 0; r < Rows; ++r)
    for (int k = 0; k < kBlockK; ++k) high[r][k] = raised(a[r][k]);
  int n0 = 0;
  for (; n0 + kWidth <= n; n0 += kWidth)
    if (!tiny_block<Rows>(c, high, b, ldb, n0, limit)) block<Rows, 1>(c, a, b, ldb, n0);
  float* rest[Rows];
  for (int r = 0; r < Rows; ++r) rest[r] = c[r] + n0;
  rows_of<Rows>(rest, a, b + n0, ldb, n - n0);
}

void tiny(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n, int32_t limit) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) tiny_rows<4>(c + r, a + r, b, ldb, n, limit);
  for (; r < rows; ++r) tiny_rows<1>(c + r, a + r, b, ldb, n, limit);
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

extern const Products kProducts{fast, tiny, exponents, exact, split, careful};

}  // namespace tileproof::LEVEL
