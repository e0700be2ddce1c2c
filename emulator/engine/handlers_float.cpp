// f32 arithmetic, packed pairs, conversions.
#include "half.hpp"
#include "slots/convert.hpp"

namespace tileproof {
namespace {

template <bool Z>
struct FAdd {
  static float f(float a, float b) { return canonical(Z ? ftz(ftz(a) + ftz(b)) : a + b); }
};
template <bool Z>
struct FSub {
  static float f(float a, float b) { return canonical(Z ? ftz(ftz(a) - ftz(b)) : a - b); }
};
template <bool Z>
struct FMul {
  static float f(float a, float b) { return canonical(Z ? ftz(ftz(a) * ftz(b)) : a * b); }
};
template <bool Z>
struct FFma {
  static float f(float a, float b, float c) {
    return canonical(Z ? ftz(std::fma(ftz(a), ftz(b), ftz(c))) : std::fma(a, b, c));
  }
};
template <bool Z>
struct FDiv {
  static float f(float a, float b) { return canonical(Z ? ftz(ftz(a) / ftz(b)) : a / b); }
};
template <bool Z>
struct FNeg {
  static float f(float a) { return canonical(Z ? -ftz(a) : -a); }
};
template <bool Z>
struct FAbs {
  static float f(float a) { return canonical(Z ? std::fabs(ftz(a)) : std::fabs(a)); }
};
template <bool Z, bool NaN, bool IsMax>
struct FMinMax {
  static float f(float a, float b) {
    if (Z) a = ftz(a), b = ftz(b);
    if (a != a || b != b)
      return NaN ? bits_as<float>(0x7fffffffu) : (a != a ? (b != b ? bits_as<float>(0x7fffffffu) : b) : a);
    if (a == b) return std::signbit(a) == IsMax ? b : a;
    return (a < b) == IsMax ? b : a;
  }
};
// .xorsign.abs: the extreme of the magnitudes, with the product of the signs (PTX ISA 9.7.3.11).
template <bool Z, bool NaN, bool IsMax>
struct FMinMaxXorsign {
  static float f(float a, float b) {
    const float r = FMinMax<Z, NaN, IsMax>::f(std::fabs(a), std::fabs(b));
    return r != r ? r : std::copysign(r, std::signbit(a) != std::signbit(b) ? -1.0f : 1.0f);
  }
};
// Approximations are computed in float64 and rounded once: inside the documented error (ex2: 2 ulp, PTX
// ISA 9.7.3.21).
template <bool Z>
struct Ex2 {
  static float f(float a) {
    const float r = static_cast<float>(std::exp2(static_cast<double>(Z ? ftz(a) : a)));
    return canonical(Z ? ftz(r) : r);
  }
};
template <bool Z>
struct Lg2 {
  static float f(float a) {
    return canonical(static_cast<float>(std::log2(static_cast<double>(Z ? ftz(a) : a))));
  }
};
template <bool Z>
struct Rsqrt {
  static float f(float a) {
    return canonical(static_cast<float>(1.0 / std::sqrt(static_cast<double>(Z ? ftz(a) : a))));
  }
};
template <bool Z>
struct Sqrt {
  static float f(float a) { return canonical(Z ? ftz(std::sqrt(ftz(a))) : std::sqrt(a)); }
};
template <bool Z>
struct Rcp {
  static float f(float a) { return canonical(Z ? ftz(1.0f / ftz(a)) : 1.0f / a); }
};

// Packed pairs in a 64-bit register: two independent f32 operations (.f32x2).
template <class F>
struct Pair2 {
  static uint64_t f(uint64_t a, uint64_t b) {
    const float lo = F::f(bits_as<float>(static_cast<uint32_t>(a)), bits_as<float>(static_cast<uint32_t>(b)));
    const float hi =
        F::f(bits_as<float>(static_cast<uint32_t>(a >> 32)), bits_as<float>(static_cast<uint32_t>(b >> 32)));
    uint32_t l, h;
    std::memcpy(&l, &lo, 4);
    std::memcpy(&h, &hi, 4);
    return l | static_cast<uint64_t>(h) << 32;
  }
};
template <bool Z>
struct Pair2Fma {
  static uint64_t f(uint64_t a, uint64_t b, uint64_t c) {
    const float lo =
        FFma<Z>::f(bits_as<float>(static_cast<uint32_t>(a)), bits_as<float>(static_cast<uint32_t>(b)),
                   bits_as<float>(static_cast<uint32_t>(c)));
    const float hi = FFma<Z>::f(bits_as<float>(static_cast<uint32_t>(a >> 32)),
                                bits_as<float>(static_cast<uint32_t>(b >> 32)),
                                bits_as<float>(static_cast<uint32_t>(c >> 32)));
    uint32_t l, h;
    std::memcpy(&l, &lo, 4);
    std::memcpy(&h, &hi, 4);
    return l | static_cast<uint64_t>(h) << 32;
  }
};

// ---- conversions
struct CvtF32Bf16 {
  static float f(uint16_t a) { return half::from_bf16(a); }
};
struct CvtF32F16 {
  static float f(uint16_t a) { return canonical(half::from_f16(a)); }
};
struct CvtBf16F32 {
  static uint16_t f(float a) { return half::to_bf16(a); }
};
struct CvtF16F32 {
  static uint16_t f(float a) { return half::to_f16(a); }
};
// cvt.rn.bf16x2.f32 d, a, b: a goes to the upper half (PTX ISA 9.7.9.21).
struct CvtBf16x2 {
  static uint32_t f(float a, float b) {
    return static_cast<uint32_t>(half::to_bf16(a)) << 16 | half::to_bf16(b);
  }
};
struct CvtF16x2 {
  static uint32_t f(float a, float b) {
    return static_cast<uint32_t>(half::to_f16(a)) << 16 | half::to_f16(b);
  }
};
template <class D, class S>
struct Cast {
  static D f(S a) { return static_cast<D>(a); }
};
template <class S>
struct ToF32 {
  static float f(S a) { return static_cast<float>(a); }
};
// With .ftz a NaN becomes the canonical f32 NaN, widened; without, it keeps its payload (seen on silicon).
inline double widen(float a) {
  return a != a ? bits_as<double>(uint64_t{0x7fffffffe0000000}) : static_cast<double>(a);
}
struct F64FromF32Ftz {
  static double f(float a) { return widen(ftz(a)); }
};
struct F64FromF32 {
  static double f(float a) { return static_cast<double>(a); }
};
struct F16FromS32 {
  static uint16_t f(int32_t a) { return half::to_f16(static_cast<float>(a)); }
};
// Float to integer: truncation or nearest even, clamped to the range; NaN gives 0 (PTX ISA 9.7.9.21).
template <class D, bool Nearest>
struct FloatToInt {
  static D f(float a) {
    if (a != a) return 0;
    const double r = Nearest ? std::nearbyint(static_cast<double>(a)) : std::trunc(static_cast<double>(a));
    if (r < static_cast<double>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (r > static_cast<double>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return static_cast<D>(r);
  }
};

// cvt between integer types; the source type narrows the register first.
template <class To, class From>
Step cvt_int(Exec& x, const Instr& i) {
  const uint8_t* a = x.src<uint8_t>(i.o[slot::cvt::a]);
  uint8_t* d = x.dst<uint8_t>(i.o[slot::cvt::dst]);
  const int32_t sb = i.m[slot::cvt::from_bytes], db = i.m[slot::cvt::to_bytes];
  lanes(x.mask, [&](int l) {
    From v;
    std::memcpy(&v, a + l * sb, sizeof v);
    const To t = static_cast<To>(v);
    // A register wider than the type receives the sign- or zero-extended value.
    const uint64_t w =
        std::is_signed_v<To> ? static_cast<uint64_t>(static_cast<int64_t>(t)) : static_cast<uint64_t>(t);
    std::memcpy(d + l * db, &w, static_cast<size_t>(db));
  });
  return Step::Next;
}

#define TP_F32(NAME, OP)                                   \
  {NAME ".f32", binary<float, float, float, OP<false>>}, { \
    NAME ".ftz.f32", binary<float, float, float, OP<true>> \
  }

#define TP_F32_1(NAME, OP) \
  {NAME ".f32", unary<float, float, OP<false>>}, { NAME ".ftz.f32", unary<float, float, OP<true>> }

#define TP_CVT_FROM(S, ST)                                                        \
  {"cvt.s8." S, cvt_int<int8_t, ST>}, {"cvt.s16." S, cvt_int<int16_t, ST>},       \
      {"cvt.s32." S, cvt_int<int32_t, ST>}, {"cvt.s64." S, cvt_int<int64_t, ST>}, \
      {"cvt.u8." S, cvt_int<uint8_t, ST>}, {"cvt.u16." S, cvt_int<uint16_t, ST>}, \
      {"cvt.u32." S, cvt_int<uint32_t, ST>}, {                                    \
    "cvt.u64." S, cvt_int<uint64_t, ST>                                           \
  }

const Registrar floating({
    TP_F32("add", FAdd),
    TP_F32("sub", FSub),
    TP_F32("mul", FMul),
    TP_F32("div", FDiv),
    TP_F32_1("neg", FNeg),
    TP_F32_1("abs", FAbs),
    TP_F32_1("ex2", Ex2),
    TP_F32_1("lg2", Lg2),
    TP_F32_1("rsqrt", Rsqrt),
    TP_F32_1("sqrt", Sqrt),
    TP_F32_1("rcp", Rcp),
    {"fma.f32", ternary<float, float, float, FFma<false>>},
    {"fma.ftz.f32", ternary<float, float, float, FFma<true>>},
    {"max.f32", binary<float, float, float, FMinMax<false, false, true>>},
    {"max.ftz.f32", binary<float, float, float, FMinMax<true, false, true>>},
    {"max.NaN.f32", binary<float, float, float, FMinMax<false, true, true>>},
    {"max.ftz.NaN.f32", binary<float, float, float, FMinMax<true, true, true>>},
    {"min.f32", binary<float, float, float, FMinMax<false, false, false>>},
    {"min.ftz.f32", binary<float, float, float, FMinMax<true, false, false>>},
    {"min.NaN.f32", binary<float, float, float, FMinMax<false, true, false>>},
    {"min.ftz.NaN.f32", binary<float, float, float, FMinMax<true, true, false>>},
    {"max.xorsign.f32", binary<float, float, float, FMinMaxXorsign<false, false, true>>},
    {"max.NaN.xorsign.f32", binary<float, float, float, FMinMaxXorsign<false, true, true>>},
    {"max.ftz.xorsign.f32", binary<float, float, float, FMinMaxXorsign<true, false, true>>},
    {"max.ftz.NaN.xorsign.f32", binary<float, float, float, FMinMaxXorsign<true, true, true>>},
    {"min.xorsign.f32", binary<float, float, float, FMinMaxXorsign<false, false, false>>},
    {"min.NaN.xorsign.f32", binary<float, float, float, FMinMaxXorsign<false, true, false>>},
    {"min.ftz.xorsign.f32", binary<float, float, float, FMinMaxXorsign<true, false, false>>},
    {"min.ftz.NaN.xorsign.f32", binary<float, float, float, FMinMaxXorsign<true, true, false>>},
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
    TP_CVT_FROM("s8", int8_t),
    TP_CVT_FROM("s16", int16_t),
    TP_CVT_FROM("s32", int32_t),
    TP_CVT_FROM("s64", int64_t),
    TP_CVT_FROM("u8", uint8_t),
    TP_CVT_FROM("u16", uint16_t),
    TP_CVT_FROM("u32", uint32_t),
    TP_CVT_FROM("u64", uint64_t),
    {"cvt.f32.bf16", unary<float, uint16_t, CvtF32Bf16>},
    {"cvt.f32.f16", unary<float, uint16_t, CvtF32F16>},
    {"cvt.rn.bf16.f32", unary<uint16_t, float, CvtBf16F32>},
    {"cvt.rn.f16.f32", unary<uint16_t, float, CvtF16F32>},
    {"cvt.rn.bf16x2.f32", binary<uint32_t, float, float, CvtBf16x2>},
    {"cvt.rn.f16x2.f32", binary<uint32_t, float, float, CvtF16x2>},
    {"cvt.rn.f32.s32", unary<float, int32_t, ToF32<int32_t>>},
    {"cvt.rn.f32.u32", unary<float, uint32_t, ToF32<uint32_t>>},
    {"cvt.rn.f32.s64", unary<float, int64_t, ToF32<int64_t>>},
    {"cvt.rn.f32.u64", unary<float, uint64_t, ToF32<uint64_t>>},
    {"cvt.rn.f32.u16", unary<float, uint16_t, ToF32<uint16_t>>},
    {"cvt.rn.f32.s16", unary<float, int16_t, ToF32<int16_t>>},
    {"cvt.f64.f32", unary<double, float, F64FromF32>},
    {"cvt.ftz.f64.f32", unary<double, float, F64FromF32Ftz>},
    {"cvt.rn.f16.s32", unary<uint16_t, int32_t, F16FromS32>},
    {"cvt.rzi.s32.f32", unary<int32_t, float, FloatToInt<int32_t, false>>},
    {"cvt.rzi.u32.f32", unary<uint32_t, float, FloatToInt<uint32_t, false>>},
    {"cvt.rni.s32.f32", unary<int32_t, float, FloatToInt<int32_t, true>>},
});

}  // namespace
}  // namespace tileproof
