// f32 and f64 arithmetic with a rounding of its own or .sat, f64 arithmetic, and the less common f32
// functions. Names: OP[.rz|.rm|.rp][.ftz][.sat].TYPE; f32 to nearest even without .sat is in
// handlers_float.cpp.
#include "alu.hpp"
#include "reduce.hpp"
#include "rounding.hpp"

namespace tileproof {
namespace {

using Entries = std::vector<std::pair<std::string, Handler>>;

struct Add {
  static constexpr int kSources = 2;
  template <class T>
  static T f(T a, T b, T) {
    return a + b;
  }
};
struct Sub {
  static constexpr int kSources = 2;
  template <class T>
  static T f(T a, T b, T) {
    return a - b;
  }
};
struct Mul {
  static constexpr int kSources = 2;
  template <class T>
  static T f(T a, T b, T) {
    return a * b;
  }
};
struct Div {
  static constexpr int kSources = 2;
  template <class T>
  static T f(T a, T b, T) {
    return a / b;
  }
};
struct Fma {
  static constexpr int kSources = 3;
  template <class T>
  static T f(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Rcp {
  static constexpr int kSources = 1;
  template <class T>
  static T f(T a, T, T) {
    return T(1) / a;
  }
};
struct Sqrt {
  static constexpr int kSources = 1;
  template <class T>
  static T f(T a, T, T) {
    return std::sqrt(a);
  }
};

// One operation: .ftz on both sides, .sat to [0, 1] with NaN to +0 (PTX ISA 9.7.3.3).
template <class Op, bool Z, bool S>
float one(float a, float b, float c) {
  const float r = Z ? ftz(Op::f(ftz(a), ftz(b), ftz(c))) : Op::f(a, b, c);
  if (S) return r > 0 ? (r < 1 ? r : 1.0f) : 0.0f;
  return canonical(r);
}

template <class Op, Round R, bool Z, bool S>
Step single(Exec& x, const Instr& i) {
  const float* a = x.src<float>(i.o[slot::alu::a]);
  const float* b = Op::kSources > 1 ? x.src<float>(i.o[slot::alu::b]) : a;
  const float* c = Op::kSources > 2 ? x.src<float>(i.o[slot::alu::c]) : a;
  float* d = x.dst<float>(i.o[slot::alu::dst]);
  const RoundingMode mode(R);
  lanes(x.mask, [&](int l) { d[l] = one<Op, Z, S>(a[l], b[l], c[l]); });
  return Step::Next;
}

template <class Op, Round R, bool Z>
Step packed(Exec& x, const Instr& i) {
  const float* a = x.src<float>(i.o[slot::alu::a]);
  const float* b = x.src<float>(i.o[slot::alu::b]);
  const float* c = Op::kSources > 2 ? x.src<float>(i.o[slot::alu::c]) : a;
  float* d = x.dst<float>(i.o[slot::alu::dst]);
  const RoundingMode mode(R);
  lanes(x.mask, [&](int l) {
    for (int h = 2 * l; h < 2 * l + 2; ++h) d[h] = one<Op, Z, false>(a[h], b[h], c[h]);
  });
  return Step::Next;
}

constexpr uint64_t kQuiet64 = uint64_t{1} << 51;
inline bool is_nan64(uint64_t v) { return (v & ~(uint64_t{1} << 63)) > 0x7ff0000000000000; }
inline double quiet(double nan) { return bits_as<double>(bits_as<uint64_t>(nan) | kQuiet64); }

// As of a fused product; of a quotient a, else b.
template <class Op>
double nan_of(double a, double b, double c) {
  if (std::is_same_v<Op, Div>) std::swap(a, b), c = b;
  return reduction::fma_nan_f64(a, b, c);
}

template <class Op, Round R>
Step wide(Exec& x, const Instr& i) {
  const double* a = x.src<double>(i.o[slot::alu::a]);
  const double* b = Op::kSources > 1 ? x.src<double>(i.o[slot::alu::b]) : a;
  const double* c = Op::kSources > 2 ? x.src<double>(i.o[slot::alu::c]) : a;
  double* d = x.dst<double>(i.o[slot::alu::dst]);
  const RoundingMode mode(R);
  lanes(x.mask, [&](int l) {
    const double r = Op::f(a[l], b[l], c[l]);
    d[l] = r != r ? nan_of<Op>(a[l], b[l], c[l]) : r;
  });
  return Step::Next;
}

constexpr const char* kRoundings[] = {"", ".rz", ".rm", ".rp"};

template <class Op, int K>
void add_single(Entries& out, const std::string& name) {
  constexpr Round r = static_cast<Round>(K & 3);
  constexpr bool z = K & 4, s = K & 8;
  if constexpr (r != Round::Rn || s)
    out.push_back(
        {name + kRoundings[K & 3] + (z ? ".ftz" : "") + (s ? ".sat" : "") + ".f32", single<Op, r, z, s>});
}
template <class Op, int K>
void add_packed(Entries& out, const std::string& name) {
  constexpr Round r = static_cast<Round>(K & 3);
  constexpr bool z = K & 4;
  if constexpr (r != Round::Rn)
    out.push_back({name + kRoundings[K & 3] + (z ? ".ftz" : "") + ".f32x2", packed<Op, r, z>});
}
template <class Op, int... K>
void add_all(Entries& out, const std::string& name, std::integer_sequence<int, K...>) {
  (add_single<Op, K>(out, name), ...);
}
template <class Op, int... K>
void add_pairs(Entries& out, const std::string& name, std::integer_sequence<int, K...>) {
  (add_packed<Op, K>(out, name), ...);
}
template <class Op>
void add_wide(Entries& out, const std::string& name) {
  out.push_back({name + ".f64", wide<Op, Round::Rn>});
  out.push_back({name + ".rz.f64", wide<Op, Round::Rz>});
  out.push_back({name + ".rm.f64", wide<Op, Round::Rm>});
  out.push_back({name + ".rp.f64", wide<Op, Round::Rp>});
}

Entries rounded() {
  Entries out;
  const std::make_integer_sequence<int, 16> saturating{};
  const std::make_integer_sequence<int, 8> directed{};
  add_all<Add>(out, "add", saturating);
  add_all<Sub>(out, "sub", saturating);
  add_all<Mul>(out, "mul", saturating);
  add_all<Fma>(out, "fma", saturating);
  add_all<Div>(out, "div", directed);
  add_all<Rcp>(out, "rcp", directed);
  add_all<Sqrt>(out, "sqrt", directed);
  add_pairs<Add>(out, "add", directed);
  add_pairs<Sub>(out, "sub", directed);
  add_pairs<Mul>(out, "mul", directed);
  add_pairs<Fma>(out, "fma", directed);
  add_wide<Add>(out, "add");
  add_wide<Sub>(out, "sub");
  add_wide<Mul>(out, "mul");
  add_wide<Fma>(out, "fma");
  add_wide<Div>(out, "div");
  add_wide<Rcp>(out, "rcp");
  add_wide<Sqrt>(out, "sqrt");
  return out;
}
const GeneratedRegistrar rounded_handlers(rounded());

// ---- without rounding

// A NaN keeps its sign and becomes quiet (seen on an H100, docs/evidence).
struct NegF64 {
  static uint64_t f(uint64_t a) { return is_nan64(a) ? a | kQuiet64 : a ^ uint64_t{1} << 63; }
};
struct AbsF64 {
  static uint64_t f(uint64_t a) { return is_nan64(a) ? a | kQuiet64 : a & ~(uint64_t{1} << 63); }
};
template <bool IsMax>
struct MinMaxF64 {
  static double f(double a, double b) {
    if (a != a) return b != b ? quiet(b) : b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) == IsMax ? b : a;
    return (a < b) == IsMax ? b : a;
  }
};
// d = the value of b with the sign of a (PTX ISA 9.7.3.2).
struct CopySign32 {
  static uint32_t f(uint32_t a, uint32_t b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
};
struct CopySign64 {
  static uint64_t f(uint64_t a, uint64_t b) { return (a & uint64_t{1} << 63) | (b & ~(uint64_t{1} << 63)); }
};

// testp: one class of numbers (PTX ISA 9.7.3.1).
template <class T, class F>
Step testp(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[slot::alu::a]);
  uint32_t r = 0;
  lanes(x.mask, [&](int l) { r |= static_cast<uint32_t>(F::f(a[l])) << l; });
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::alu::dst]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}
struct Finite {
  template <class T>
  static bool f(T a) {
    return std::isfinite(a);
  }
};
struct Infinite {
  template <class T>
  static bool f(T a) {
    return std::isinf(a);
  }
};
struct Number {
  template <class T>
  static bool f(T a) {
    return a == a;
  }
};
struct NotANumber {
  template <class T>
  static bool f(T a) {
    return a != a;
  }
};
struct Normal {
  template <class T>
  static bool f(T a) {
    return std::isnormal(a) || a == 0;  // zeros are normal numbers (PTX ISA 9.7.3.1)
  }
};
struct Subnormal {
  template <class T>
  static bool f(T a) {
    return a != 0 && std::fabs(a) < std::numeric_limits<T>::min();
  }
};

// Approximations, computed in float64 and rounded once (documented errors: PTX ISA 9.7.3.17 to 9.7.3.22).
template <bool Z, double (*F)(double)>
struct Approximate {
  static float f(float a) {
    const float r = static_cast<float>(F(static_cast<double>(Z ? ftz(a) : a)));
    return canonical(Z ? ftz(r) : r);
  }
};
// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 see the upper 32 bits only and give no others (9.7.3.13.1).
inline double upper(double a) { return bits_as<double>(bits_as<uint64_t>(a) & ~uint64_t{0xffffffff}); }
inline double ftz64(double a) {
  return std::fabs(a) < std::numeric_limits<double>::min() ? std::copysign(0.0, a) : a;
}
struct RcpGross {
  static double f(double a) { return upper(ftz64(1.0 / ftz64(upper(a)))); }
};
struct RsqrtGross {
  static double f(double a) {
    const double x = ftz64(upper(a));
    return x < 0 ? reduction::invalid_f64() : upper(ftz64(1.0 / std::sqrt(x)));
  }
};
// One step of Newton's on double words: long double has another width on each processor.
struct RsqrtF64 {
  static double f(double a) {
    if (a < 0) return reduction::invalid_f64();
    const double y = 1.0 / std::sqrt(a);
    if (!std::isfinite(y) || y == 0) return y;
    const double root = a * y, rest = std::fma(a, y, -root);
    return std::fma(0.5 * y, std::fma(-root, y, 1.0) - rest * y, y);
  }
};

template <class F>
Handler u1() {
  return unary<uint64_t, uint64_t, F>;
}
template <class F>
Handler f1() {
  return unary<float, float, F>;
}
template <class F>
Handler d1() {
  return unary<double, double, F>;
}

const Registrar others({
    {"neg.f64", u1<NegF64>()},
    {"abs.f64", u1<AbsF64>()},
    {"min.f64", binary<double, double, double, MinMaxF64<false>>},
    {"max.f64", binary<double, double, double, MinMaxF64<true>>},
    {"copysign.f32", binary<uint32_t, uint32_t, uint32_t, CopySign32>},
    {"copysign.f64", binary<uint64_t, uint64_t, uint64_t, CopySign64>},
    {"testp.finite.f32", testp<float, Finite>},
    {"testp.infinite.f32", testp<float, Infinite>},
    {"testp.number.f32", testp<float, Number>},
    {"testp.notanumber.f32", testp<float, NotANumber>},
    {"testp.normal.f32", testp<float, Normal>},
    {"testp.subnormal.f32", testp<float, Subnormal>},
    {"testp.finite.f64", testp<double, Finite>},
    {"testp.infinite.f64", testp<double, Infinite>},
    {"testp.number.f64", testp<double, Number>},
    {"testp.notanumber.f64", testp<double, NotANumber>},
    {"testp.normal.f64", testp<double, Normal>},
    {"testp.subnormal.f64", testp<double, Subnormal>},
    {"tanh.f32", f1<Approximate<false, std::tanh>>()},
    {"sin.f32", f1<Approximate<false, std::sin>>()},
    {"sin.ftz.f32", f1<Approximate<true, std::sin>>()},
    {"cos.f32", f1<Approximate<false, std::cos>>()},
    {"cos.ftz.f32", f1<Approximate<true, std::cos>>()},
    {"rcp.gross.f64", d1<RcpGross>()},
    {"rsqrt.gross.f64", d1<RsqrtGross>()},
    {"rsqrt.f64", d1<RsqrtF64>()},
});

}  // namespace
}  // namespace tileproof
