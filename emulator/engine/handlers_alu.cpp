// Arithmetic, logic, comparison, conversion and moves. One handler a spelling class; types are template arguments.
// Rounding: every f32 operation is one IEEE operation in round-to-nearest-even; .ftz flushes subnormal inputs and
// results to signed zero (PTX ISA 9.7.3). The extension is compiled with -ffp-contract=off.
#include <cmath>
#include <limits>
#include <type_traits>

#include "machine.hpp"

namespace tileproof {
namespace {

template <class T>
T bits_as(uint32_t v) {
  T t;
  std::memcpy(&t, &v, sizeof t);
  return t;
}

inline float ftz(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

// Runs f(lane) for every active lane, with a plain loop for the full mask so that it vectorises.
template <class F>
inline void lanes(uint32_t mask, F&& f) {
  if (mask == ~0u) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) f(l);
  } else {
    for (uint32_t m = mask; m; m &= m - 1) f(__builtin_ctz(m));
  }
}

template <class D, class A, class F>
Step unary(Exec& x, const Instr& i) {
  const A* a = x.src<A>(i.o[1]);
  D* d = x.dst<D>(i.o[0]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l]); });
  return Step::Next;
}
template <class D, class A, class B, class F>
Step binary(Exec& x, const Instr& i) {
  const A* a = x.src<A>(i.o[1]);
  const B* b = x.src<B>(i.o[2]);
  D* d = x.dst<D>(i.o[0]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l], b[l]); });
  return Step::Next;
}
template <class D, class A, class C, class F>
Step ternary(Exec& x, const Instr& i) {
  const A* a = x.src<A>(i.o[1]);
  const A* b = x.src<A>(i.o[2]);
  const C* c = x.src<C>(i.o[3]);
  D* d = x.dst<D>(i.o[0]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l], b[l], c[l]); });
  return Step::Next;
}

// ---- integer
template <class T>
using U = std::make_unsigned_t<T>;

template <class T> struct Add { static T f(T a, T b) { return static_cast<T>(U<T>(a) + U<T>(b)); } };
template <class T> struct Sub { static T f(T a, T b) { return static_cast<T>(U<T>(a) - U<T>(b)); } };
template <class T> struct MulLo {
  static T f(T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
template <class T, class W> struct MulHi {
  static T f(T a, T b) { return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T))); }
};
template <class W, class T> struct MulWide { static W f(T a, T b) { return static_cast<W>(a) * static_cast<W>(b); } };
template <class T> struct MadLo {
  static T f(T a, T b, T c) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
  }
};
template <class W, class T> struct MadWide {
  static W f(T a, T b, W c) {
    return static_cast<W>(static_cast<uint64_t>(static_cast<W>(a)) * static_cast<uint64_t>(static_cast<W>(b)) +
                          static_cast<uint64_t>(c));
  }
};
// Division by zero is unspecified in PTX; hardware yields all ones.
template <class T> struct Div {
  static T f(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(-U<T>(a));
    return static_cast<T>(a / b);
  }
};
template <class T> struct Rem {
  static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
template <class T> struct Min { static T f(T a, T b) { return a < b ? a : b; } };
template <class T> struct Max { static T f(T a, T b) { return a < b ? b : a; } };
template <class T> struct Neg { static T f(T a) { return static_cast<T>(-U<T>(a)); } };
template <class T> struct Abs { static T f(T a) { return a < 0 ? static_cast<T>(-U<T>(a)) : a; } };
template <class T> struct And { static T f(T a, T b) { return a & b; } };
template <class T> struct Or { static T f(T a, T b) { return a | b; } };
template <class T> struct Xor { static T f(T a, T b) { return a ^ b; } };
template <class T> struct Not { static T f(T a) { return static_cast<T>(~a); } };
// Shift amounts are 32-bit and clamp at the width (PTX ISA 9.7.8).
template <class T> struct Shl {
  static T f(T a, uint32_t b) { return b >= 8 * sizeof(T) ? T(0) : static_cast<T>(U<T>(a) << b); }
};
template <class T> struct Shr {
  static T f(T a, uint32_t b) {
    if (b >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> b);
  }
};
struct Popc32 { static uint32_t f(uint32_t a) { return static_cast<uint32_t>(__builtin_popcount(a)); } };
struct Clz32 { static uint32_t f(uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32; } };
struct Brev32 {
  static uint32_t f(uint32_t a) {
    uint32_t r = 0;
    for (int k = 0; k < 32; ++k) r |= ((a >> k) & 1u) << (31 - k);
    return r;
  }
};

// ---- floating point
template <bool Z> struct FAdd { static float f(float a, float b) { return Z ? ftz(ftz(a) + ftz(b)) : a + b; } };
template <bool Z> struct FSub { static float f(float a, float b) { return Z ? ftz(ftz(a) - ftz(b)) : a - b; } };
template <bool Z> struct FMul { static float f(float a, float b) { return Z ? ftz(ftz(a) * ftz(b)) : a * b; } };
template <bool Z> struct FFma {
  static float f(float a, float b, float c) { return Z ? ftz(std::fma(ftz(a), ftz(b), ftz(c))) : std::fma(a, b, c); }
};
template <bool Z> struct FDiv { static float f(float a, float b) { return Z ? ftz(ftz(a) / ftz(b)) : a / b; } };
template <bool Z> struct FNeg { static float f(float a) { return Z ? -ftz(a) : -a; } };
template <bool Z> struct FAbs { static float f(float a) { return Z ? std::fabs(ftz(a)) : std::fabs(a); } };
template <bool Z, bool NaN, bool IsMax> struct FMinMax {
  static float f(float a, float b) {
    if (Z) a = ftz(a), b = ftz(b);
    if (a != a || b != b) return NaN ? bits_as<float>(0x7fffffff) : (a != a ? (b != b ? bits_as<float>(0x7fffffff) : b) : a);
    if (a == b) return std::signbit(a) == IsMax ? b : a;
    return (a < b) == IsMax ? b : a;
  }
};
// Approximations are computed in float64 and rounded once: inside the documented error (ex2: 2 ulp, PTX ISA 9.7.3.21).
template <bool Z> struct Ex2 {
  static float f(float a) {
    const float r = static_cast<float>(std::exp2(static_cast<double>(Z ? ftz(a) : a)));
    return Z ? ftz(r) : r;
  }
};
template <bool Z> struct Lg2 {
  static float f(float a) { return static_cast<float>(std::log2(static_cast<double>(Z ? ftz(a) : a))); }
};
template <bool Z> struct Rsqrt {
  static float f(float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(Z ? ftz(a) : a))); }
};
template <bool Z> struct Sqrt { static float f(float a) { return Z ? ftz(std::sqrt(ftz(a))) : std::sqrt(a); } };
template <bool Z> struct Rcp { static float f(float a) { return Z ? ftz(1.0f / ftz(a)) : 1.0f / a; } };

// Packed pairs in a 64-bit register: two independent f32 operations (.f32x2).
template <class F> struct Pair2 {
  static uint64_t f(uint64_t a, uint64_t b) {
    const float lo = F::f(bits_as<float>(static_cast<uint32_t>(a)), bits_as<float>(static_cast<uint32_t>(b)));
    const float hi = F::f(bits_as<float>(static_cast<uint32_t>(a >> 32)), bits_as<float>(static_cast<uint32_t>(b >> 32)));
    uint32_t l, h;
    std::memcpy(&l, &lo, 4);
    std::memcpy(&h, &hi, 4);
    return l | static_cast<uint64_t>(h) << 32;
  }
};
template <bool Z> struct Pair2Fma {
  static uint64_t f(uint64_t a, uint64_t b, uint64_t c) {
    const float lo = FFma<Z>::f(bits_as<float>(static_cast<uint32_t>(a)), bits_as<float>(static_cast<uint32_t>(b)),
                                bits_as<float>(static_cast<uint32_t>(c)));
    const float hi = FFma<Z>::f(bits_as<float>(static_cast<uint32_t>(a >> 32)), bits_as<float>(static_cast<uint32_t>(b >> 32)),
                                bits_as<float>(static_cast<uint32_t>(c >> 32)));
    uint32_t l, h;
    std::memcpy(&l, &lo, 4);
    std::memcpy(&h, &hi, 4);
    return l | static_cast<uint64_t>(h) << 32;
  }
};

// ---- conversions
inline float bf16_to_f32(uint16_t v) { return bits_as<float>(static_cast<uint32_t>(v) << 16); }
inline uint16_t f32_to_bf16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if (f != f) return 0x7fff;  // canonical NaN (PTX ISA 9.7.9.21)
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline float f16_to_f32(uint16_t v) {
  _Float16 h;
  std::memcpy(&h, &v, 2);
  return static_cast<float>(h);
}
inline uint16_t f32_to_f16(float f) {
  if (f != f) return 0x7fff;
  const _Float16 h = static_cast<_Float16>(f);
  uint16_t v;
  std::memcpy(&v, &h, 2);
  return v;
}
struct CvtF32Bf16 { static float f(uint16_t a) { return bf16_to_f32(a); } };
struct CvtF32F16 { static float f(uint16_t a) { return f16_to_f32(a); } };
struct CvtBf16F32 { static uint16_t f(float a) { return f32_to_bf16(a); } };
struct CvtF16F32 { static uint16_t f(float a) { return f32_to_f16(a); } };
// cvt.rn.bf16x2.f32 d, a, b: a goes to the upper half (PTX ISA 9.7.9.21).
struct CvtBf16x2 {
  static uint32_t f(float a, float b) { return static_cast<uint32_t>(f32_to_bf16(a)) << 16 | f32_to_bf16(b); }
};
struct CvtF16x2 {
  static uint32_t f(float a, float b) { return static_cast<uint32_t>(f32_to_f16(a)) << 16 | f32_to_f16(b); }
};
template <class D, class S> struct Cast { static D f(S a) { return static_cast<D>(a); } };
template <class S> struct ToF32 { static float f(S a) { return static_cast<float>(a); } };
struct F64FromF32Ftz { static double f(float a) { return static_cast<double>(ftz(a)); } };
struct F64FromF32 { static double f(float a) { return static_cast<double>(a); } };
struct F16FromS32 { static uint16_t f(int32_t a) { return f32_to_f16(static_cast<float>(a)); } };
// Float to integer: truncation or nearest even, clamped to the range; NaN gives 0 (PTX ISA 9.7.9.21).
template <class D, bool Nearest> struct FloatToInt {
  static D f(float a) {
    if (a != a) return 0;
    const double r = Nearest ? std::nearbyint(static_cast<double>(a)) : std::trunc(static_cast<double>(a));
    if (r < static_cast<double>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (r > static_cast<double>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return static_cast<D>(r);
  }
};

// cvt between integer types; the source type narrows the register first. m[0] = destination register bytes.
template <class To, class From>
Step cvt_int(Exec& x, const Instr& i) {
  const uint8_t* a = x.src<uint8_t>(i.o[1]);
  uint8_t* d = x.dst<uint8_t>(i.o[0]);
  const int32_t sb = i.m[1], db = i.m[0];
  lanes(x.mask, [&](int l) {
    From v;
    std::memcpy(&v, a + l * sb, sizeof v);
    const To t = static_cast<To>(v);
    // A register wider than the type receives the sign- or zero-extended value.
    const uint64_t w = std::is_signed_v<To> ? static_cast<uint64_t>(static_cast<int64_t>(t)) : static_cast<uint64_t>(t);
    std::memcpy(d + l * db, &w, static_cast<size_t>(db));
  });
  return Step::Next;
}

// ---- comparison and selection
template <class T> struct Eq { static bool f(T a, T b) { return a == b; } };
template <class T> struct Ne { static bool f(T a, T b) { return a != b && a == a && b == b; } };
template <class T> struct Neu { static bool f(T a, T b) { return !(a == b); } };
template <class T> struct Lt { static bool f(T a, T b) { return a < b; } };
template <class T> struct Le { static bool f(T a, T b) { return a <= b; } };
template <class T> struct Gt { static bool f(T a, T b) { return a > b; } };
template <class T> struct Ge { static bool f(T a, T b) { return a >= b; } };
template <class T> struct Equ { static bool f(T a, T b) { return !(a < b || a > b); } };
template <class T> struct Ltu { static bool f(T a, T b) { return !(a >= b); } };
template <class T> struct Leu { static bool f(T a, T b) { return !(a > b); } };
template <class T> struct Gtu { static bool f(T a, T b) { return !(a <= b); } };
template <class T> struct Geu { static bool f(T a, T b) { return !(a < b); } };
template <class T> struct Num { static bool f(T a, T b) { return a == a && b == b; } };
template <class T> struct Nan { static bool f(T a, T b) { return a != a || b != b; } };

// setp: o[0] p, o[3] second destination (complement) or none, o[4] predicate combined by m[0] (1 and, 2 or, 3 xor).
template <class T, class F, bool Z>
Step setp(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[1]);
  const T* b = x.src<T>(i.o[2]);
  uint32_t r = 0;
  auto test = [&](int l) -> uint32_t {
    if constexpr (Z)
      return F::f(ftz(a[l]), ftz(b[l]));
    else
      return F::f(a[l], b[l]);
  };
  if (x.mask == ~0u) {
    for (int l = 0; l < 32; ++l) r |= test(l) << l;
  } else {
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      r |= test(l) << l;
    }
  }
  uint32_t second = ~r;
  if (i.m[0]) {
    uint32_t c = *x.src<uint32_t>(i.o[4]);
    if (i.m[1]) c = ~c;
    r = i.m[0] == 1 ? r & c : i.m[0] == 2 ? r | c : r ^ c;
    second = i.m[0] == 1 ? second & c : i.m[0] == 2 ? second | c : second ^ c;
  }
  uint32_t& p = *x.dst<uint32_t>(i.o[0]);
  p = (p & ~x.mask) | (r & x.mask);
  if (i.o[3] != INT32_MIN) {
    uint32_t& q = *x.dst<uint32_t>(i.o[3]);
    q = (q & ~x.mask) | (second & x.mask);
  }
  return Step::Next;
}

template <class T>
Step selp(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[1]);
  const T* b = x.src<T>(i.o[2]);
  const uint32_t p = *x.src<uint32_t>(i.o[3]);
  T* d = x.dst<T>(i.o[0]);
  lanes(x.mask, [&](int l) { d[l] = (p >> l) & 1 ? a[l] : b[l]; });
  return Step::Next;
}

template <class F>
Step pred_binary(Exec& x, const Instr& i) {
  const uint32_t r = F::f(*x.src<uint32_t>(i.o[1]), *x.src<uint32_t>(i.o[2]));
  uint32_t& p = *x.dst<uint32_t>(i.o[0]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}
Step pred_not(Exec& x, const Instr& i) {
  const uint32_t r = ~*x.src<uint32_t>(i.o[1]);
  uint32_t& p = *x.dst<uint32_t>(i.o[0]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}
Step pred_mov(Exec& x, const Instr& i) {
  const uint32_t r = *x.src<uint32_t>(i.o[1]);
  uint32_t& p = *x.dst<uint32_t>(i.o[0]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}

// ---- moves
template <class T> struct Same { static T f(T a) { return a; } };
struct Wide128 { uint64_t lo, hi; };

// mov d, {a, b, ...}: m[0] part bytes, m[1] whole bytes; parts in vec.
Step mov_pack(Exec& x, const Instr& i) {
  const int32_t part = i.m[0], whole = i.m[1];
  uint8_t* d = x.dst<uint8_t>(i.o[0]);
  for (int32_t k = 0; k < i.nvec; ++k) {
    const uint8_t* a = x.src<uint8_t>(x.e.program.vec[static_cast<size_t>(i.vec + k)]);
    lanes(x.mask, [&](int l) { std::memcpy(d + l * whole + k * part, a + l * part, static_cast<size_t>(part)); });
  }
  return Step::Next;
}
// mov {a, b, ...}, s: INT32_MIN marks the sink `_`.
Step mov_unpack(Exec& x, const Instr& i) {
  const int32_t part = i.m[0], whole = i.m[1];
  const uint8_t* a = x.src<uint8_t>(i.o[1]);
  uint8_t copy[512];
  std::memcpy(copy, a, static_cast<size_t>(whole) * 32);
  for (int32_t k = 0; k < i.nvec; ++k) {
    const int32_t off = x.e.program.vec[static_cast<size_t>(i.vec + k)];
    if (off == INT32_MIN) continue;
    uint8_t* d = x.dst<uint8_t>(off);
    lanes(x.mask, [&](int l) { std::memcpy(d + l * part, copy + l * whole + k * part, static_cast<size_t>(part)); });
  }
  return Step::Next;
}

// prmt.b32 d, a, b, c in its default mode (PTX ISA 9.7.9.7).
Step prmt(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[1]), *b = x.src<uint32_t>(i.o[2]), *c = x.src<uint32_t>(i.o[3]);
  uint32_t* d = x.dst<uint32_t>(i.o[0]);
  lanes(x.mask, [&](int l) {
    const uint64_t v = a[l] | static_cast<uint64_t>(b[l]) << 32;
    uint32_t r = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t sel = c[l] >> (4 * k) & 15;
      uint32_t byte = static_cast<uint32_t>(v >> (8 * (sel & 7)) & 255);
      if (sel & 8) byte = byte & 128 ? 255 : 0;
      r |= byte << (8 * k);
    }
    d[l] = r;
  });
  return Step::Next;
}
// lop3.b32 d, a, b, c, immLut (PTX ISA 9.7.8.6); the table is in imm.
Step lop3(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[1]), *b = x.src<uint32_t>(i.o[2]), *c = x.src<uint32_t>(i.o[3]);
  uint32_t* d = x.dst<uint32_t>(i.o[0]);
  lanes(x.mask, [&](int l) {
    uint32_t r = 0;
    for (int k = 0; k < 8; ++k)
      if (i.imm >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
    d[l] = r;
  });
  return Step::Next;
}


#define TP_INT_ALL(NAME, OP)                                                                      \
  {NAME ".16", binary<uint16_t, uint16_t, uint16_t, OP<uint16_t>>},                               \
      {NAME ".32", binary<uint32_t, uint32_t, uint32_t, OP<uint32_t>>}, {                         \
    NAME ".64", binary<uint64_t, uint64_t, uint64_t, OP<uint64_t>>                                \
  }
#define TP_INT_TYPED(NAME, OP)                                                                    \
  {NAME ".s16", binary<int16_t, int16_t, int16_t, OP<int16_t>>},                                  \
      {NAME ".s32", binary<int32_t, int32_t, int32_t, OP<int32_t>>},                              \
      {NAME ".s64", binary<int64_t, int64_t, int64_t, OP<int64_t>>},                              \
      {NAME ".u16", binary<uint16_t, uint16_t, uint16_t, OP<uint16_t>>},                          \
      {NAME ".u32", binary<uint32_t, uint32_t, uint32_t, OP<uint32_t>>}, {                        \
    NAME ".u64", binary<uint64_t, uint64_t, uint64_t, OP<uint64_t>>                               \
  }
#define TP_SETP_INT(CMP, OP)                                                                      \
  {"setp." CMP ".s16", setp<int16_t, OP<int16_t>, false>},                                        \
      {"setp." CMP ".s32", setp<int32_t, OP<int32_t>, false>},                                    \
      {"setp." CMP ".s64", setp<int64_t, OP<int64_t>, false>},                                    \
      {"setp." CMP ".u16", setp<uint16_t, OP<uint16_t>, false>},                                  \
      {"setp." CMP ".u32", setp<uint32_t, OP<uint32_t>, false>}, {                                \
    "setp." CMP ".u64", setp<uint64_t, OP<uint64_t>, false>                                       \
  }
#define TP_SETP_F32(CMP, OP)                                                                      \
  {"setp." CMP ".f32", setp<float, OP<float>, false>}, { "setp." CMP ".ftz.f32", setp<float, OP<float>, true> }
#define TP_F32(NAME, OP)                                                                          \
  {NAME ".f32", binary<float, float, float, OP<false>>}, { NAME ".ftz.f32", binary<float, float, float, OP<true>> }
#define TP_F32_1(NAME, OP)                                                                        \
  {NAME ".f32", unary<float, float, OP<false>>}, { NAME ".ftz.f32", unary<float, float, OP<true>> }
#define TP_CVT_FROM(S, ST)                                                                        \
  {"cvt.s8." S, cvt_int<int8_t, ST>}, {"cvt.s16." S, cvt_int<int16_t, ST>}, {"cvt.s32." S, cvt_int<int32_t, ST>}, \
      {"cvt.s64." S, cvt_int<int64_t, ST>}, {"cvt.u8." S, cvt_int<uint8_t, ST>}, {"cvt.u16." S, cvt_int<uint16_t, ST>}, \
      {"cvt.u32." S, cvt_int<uint32_t, ST>}, { "cvt.u64." S, cvt_int<uint64_t, ST> }

const Registrar integer({
    TP_INT_ALL("add", Add), TP_INT_ALL("sub", Sub), TP_INT_ALL("mul.lo", MulLo), TP_INT_ALL("and", And),
    TP_INT_ALL("or", Or), TP_INT_ALL("xor", Xor), TP_INT_TYPED("div", Div), TP_INT_TYPED("rem", Rem),
    TP_INT_TYPED("min", Min), TP_INT_TYPED("max", Max),
    {"mul.hi.s16", binary<int16_t, int16_t, int16_t, MulHi<int16_t, int32_t>>},
    {"mul.hi.s32", binary<int32_t, int32_t, int32_t, MulHi<int32_t, int64_t>>},
    {"mul.hi.u16", binary<uint16_t, uint16_t, uint16_t, MulHi<uint16_t, uint32_t>>},
    {"mul.hi.u32", binary<uint32_t, uint32_t, uint32_t, MulHi<uint32_t, uint64_t>>},
    {"mul.hi.u64", binary<uint64_t, uint64_t, uint64_t, MulHi<uint64_t, unsigned __int128>>},
    {"mul.hi.s64", binary<int64_t, int64_t, int64_t, MulHi<int64_t, __int128>>},
    {"mul.wide.s16", binary<int32_t, int16_t, int16_t, MulWide<int32_t, int16_t>>},
    {"mul.wide.u16", binary<uint32_t, uint16_t, uint16_t, MulWide<uint32_t, uint16_t>>},
    {"mul.wide.s32", binary<int64_t, int32_t, int32_t, MulWide<int64_t, int32_t>>},
    {"mul.wide.u32", binary<uint64_t, uint32_t, uint32_t, MulWide<uint64_t, uint32_t>>},
    {"mad.lo.16", ternary<uint16_t, uint16_t, uint16_t, MadLo<uint16_t>>},
    {"mad.lo.32", ternary<uint32_t, uint32_t, uint32_t, MadLo<uint32_t>>},
    {"mad.lo.64", ternary<uint64_t, uint64_t, uint64_t, MadLo<uint64_t>>},
    {"mad.wide.u32", ternary<uint64_t, uint32_t, uint64_t, MadWide<uint64_t, uint32_t>>},
    {"mad.wide.s32", ternary<int64_t, int32_t, int64_t, MadWide<int64_t, int32_t>>},
    {"mad.wide.u16", ternary<uint32_t, uint16_t, uint32_t, MadWide<uint32_t, uint16_t>>},
    {"mad.wide.s16", ternary<int32_t, int16_t, int32_t, MadWide<int32_t, int16_t>>},
    {"neg.16", unary<int16_t, int16_t, Neg<int16_t>>}, {"neg.32", unary<int32_t, int32_t, Neg<int32_t>>},
    {"neg.64", unary<int64_t, int64_t, Neg<int64_t>>}, {"abs.s32", unary<int32_t, int32_t, Abs<int32_t>>},
    {"abs.s64", unary<int64_t, int64_t, Abs<int64_t>>}, {"abs.s16", unary<int16_t, int16_t, Abs<int16_t>>},
    {"not.16", unary<uint16_t, uint16_t, Not<uint16_t>>}, {"not.32", unary<uint32_t, uint32_t, Not<uint32_t>>},
    {"not.64", unary<uint64_t, uint64_t, Not<uint64_t>>},
    {"shl.16", binary<uint16_t, uint16_t, uint32_t, Shl<uint16_t>>},
    {"shl.32", binary<uint32_t, uint32_t, uint32_t, Shl<uint32_t>>},
    {"shl.64", binary<uint64_t, uint64_t, uint32_t, Shl<uint64_t>>},
    {"shr.s16", binary<int16_t, int16_t, uint32_t, Shr<int16_t>>}, {"shr.s32", binary<int32_t, int32_t, uint32_t, Shr<int32_t>>},
    {"shr.s64", binary<int64_t, int64_t, uint32_t, Shr<int64_t>>}, {"shr.u16", binary<uint16_t, uint16_t, uint32_t, Shr<uint16_t>>},
    {"shr.u32", binary<uint32_t, uint32_t, uint32_t, Shr<uint32_t>>}, {"shr.u64", binary<uint64_t, uint64_t, uint32_t, Shr<uint64_t>>},
    {"popc.b32", unary<uint32_t, uint32_t, Popc32>}, {"clz.b32", unary<uint32_t, uint32_t, Clz32>},
    {"brev.b32", unary<uint32_t, uint32_t, Brev32>}, {"prmt.b32", prmt}, {"lop3.b32", lop3},
    {"and.pred", pred_binary<And<uint32_t>>}, {"or.pred", pred_binary<Or<uint32_t>>}, {"xor.pred", pred_binary<Xor<uint32_t>>},
    {"not.pred", pred_not}, {"mov.pred", pred_mov},
});

const Registrar floating({
    TP_F32("add", FAdd), TP_F32("sub", FSub), TP_F32("mul", FMul), TP_F32("div", FDiv), TP_F32_1("neg", FNeg),
    TP_F32_1("abs", FAbs), TP_F32_1("ex2", Ex2), TP_F32_1("lg2", Lg2), TP_F32_1("rsqrt", Rsqrt), TP_F32_1("sqrt", Sqrt),
    TP_F32_1("rcp", Rcp),
    {"fma.f32", ternary<float, float, float, FFma<false>>}, {"fma.ftz.f32", ternary<float, float, float, FFma<true>>},
    {"max.f32", binary<float, float, float, FMinMax<false, false, true>>},
    {"max.ftz.f32", binary<float, float, float, FMinMax<true, false, true>>},
    {"max.NaN.f32", binary<float, float, float, FMinMax<false, true, true>>},
    {"max.ftz.NaN.f32", binary<float, float, float, FMinMax<true, true, true>>},
    {"min.f32", binary<float, float, float, FMinMax<false, false, false>>},
    {"min.ftz.f32", binary<float, float, float, FMinMax<true, false, false>>},
    {"min.NaN.f32", binary<float, float, float, FMinMax<false, true, false>>},
    {"min.ftz.NaN.f32", binary<float, float, float, FMinMax<true, true, false>>},
    {"add.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FAdd<false>>>},
    {"add.ftz.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FAdd<true>>>},
    {"sub.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FSub<false>>>},
    {"sub.ftz.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FSub<true>>>},
    {"mul.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FMul<false>>>},
    {"mul.ftz.f32x2", binary<uint64_t, uint64_t, uint64_t, Pair2<FMul<true>>>},
    {"fma.f32x2", ternary<uint64_t, uint64_t, uint64_t, Pair2Fma<false>>},
    {"fma.ftz.f32x2", ternary<uint64_t, uint64_t, uint64_t, Pair2Fma<true>>},
});

const Registrar conversions({
    TP_CVT_FROM("s8", int8_t), TP_CVT_FROM("s16", int16_t), TP_CVT_FROM("s32", int32_t), TP_CVT_FROM("s64", int64_t),
    TP_CVT_FROM("u8", uint8_t), TP_CVT_FROM("u16", uint16_t), TP_CVT_FROM("u32", uint32_t), TP_CVT_FROM("u64", uint64_t),
    {"cvt.f32.bf16", unary<float, uint16_t, CvtF32Bf16>}, {"cvt.f32.f16", unary<float, uint16_t, CvtF32F16>},
    {"cvt.rn.bf16.f32", unary<uint16_t, float, CvtBf16F32>}, {"cvt.rn.f16.f32", unary<uint16_t, float, CvtF16F32>},
    {"cvt.rn.bf16x2.f32", binary<uint32_t, float, float, CvtBf16x2>}, {"cvt.rn.f16x2.f32", binary<uint32_t, float, float, CvtF16x2>},
    {"cvt.rn.f32.s32", unary<float, int32_t, ToF32<int32_t>>}, {"cvt.rn.f32.u32", unary<float, uint32_t, ToF32<uint32_t>>},
    {"cvt.rn.f32.s64", unary<float, int64_t, ToF32<int64_t>>}, {"cvt.rn.f32.u64", unary<float, uint64_t, ToF32<uint64_t>>},
    {"cvt.rn.f32.u16", unary<float, uint16_t, ToF32<uint16_t>>}, {"cvt.rn.f32.s16", unary<float, int16_t, ToF32<int16_t>>},
    {"cvt.f64.f32", unary<double, float, F64FromF32>}, {"cvt.ftz.f64.f32", unary<double, float, F64FromF32Ftz>},
    {"cvt.rn.f16.s32", unary<uint16_t, int32_t, F16FromS32>},
    {"cvt.rzi.s32.f32", unary<int32_t, float, FloatToInt<int32_t, false>>},
    {"cvt.rzi.u32.f32", unary<uint32_t, float, FloatToInt<uint32_t, false>>},
    {"cvt.rni.s32.f32", unary<int32_t, float, FloatToInt<int32_t, true>>},
});

const Registrar comparisons({
    TP_SETP_INT("eq", Eq), TP_SETP_INT("ne", Ne), TP_SETP_INT("lt", Lt), TP_SETP_INT("le", Le), TP_SETP_INT("gt", Gt),
    TP_SETP_INT("ge", Ge), TP_SETP_F32("eq", Eq), TP_SETP_F32("ne", Ne), TP_SETP_F32("lt", Lt), TP_SETP_F32("le", Le),
    TP_SETP_F32("gt", Gt), TP_SETP_F32("ge", Ge), TP_SETP_F32("neu", Neu), TP_SETP_F32("equ", Equ), TP_SETP_F32("ltu", Ltu),
    TP_SETP_F32("leu", Leu), TP_SETP_F32("gtu", Gtu), TP_SETP_F32("geu", Geu), TP_SETP_F32("num", Num), TP_SETP_F32("nan", Nan),
    {"selp.16", selp<uint16_t>}, {"selp.32", selp<uint32_t>}, {"selp.64", selp<uint64_t>},
    {"mov.16", unary<uint16_t, uint16_t, Same<uint16_t>>}, {"mov.32", unary<uint32_t, uint32_t, Same<uint32_t>>},
    {"mov.64", unary<uint64_t, uint64_t, Same<uint64_t>>}, {"mov.128", unary<Wide128, Wide128, Same<Wide128>>},
    {"mov.pack", mov_pack}, {"mov.unpack", mov_unpack},
});

}  // namespace
}  // namespace tileproof
