// f16 and bf16 arithmetic, single and packed in pairs (PTX ISA 9.7.4, 9.7.3.21, 9.7.3.22).
#include "alu.hpp"
#include "enumerations/arithmetic.hpp"
#include "half.hpp"
#include "rounding.hpp"
#include "slots/arithmetic.hpp"

namespace tileproof {
namespace {

namespace half_slot = slot::half;

using Op = HalfOperation;

struct Flags {
  bool ftz, sat, relu, nan, xorsign;
};

template <bool B>
struct Half {
  static constexpr const SmallFloat& kFormat = B ? kBf16 : kF16;
  static constexpr uint16_t kNan = 0x7fff, kSign = 0x8000;
  static double value(uint16_t v) {
    if constexpr (B) return bits_as<float>(static_cast<uint32_t>(v) << 16);
    return half::from_f16(v);
  }
  static bool is_nan(uint16_t v) { return (v & 0x7fff) > kFormat.infinity(); }
  static uint16_t flushed(uint16_t v) {
    return (v & 0x7fff) < (1u << kFormat.mantissa_bits) ? static_cast<uint16_t>(v & kSign) : v;
  }
};

template <bool B>
uint16_t compute(Op op, uint16_t a, uint16_t b, uint16_t c, const Flags& f) {
  using H = Half<B>;
  if (f.ftz) a = H::flushed(a), b = H::flushed(b), c = H::flushed(c);
  double r = 0;
  switch (op) {
    case Op::Neg:
      if (H::is_nan(a)) return H::kNan;  // measured on an H200
      return static_cast<uint16_t>(a ^ H::kSign);
    case Op::Abs:
      if (H::is_nan(a)) return H::kNan;
      return static_cast<uint16_t>(a & ~H::kSign);
    case Op::Min:
    case Op::Max: {
      const uint16_t sign = static_cast<uint16_t>((a ^ b) & H::kSign);
      if (f.xorsign) a &= 0x7fff, b &= 0x7fff;
      uint16_t d;
      if (H::is_nan(a) || H::is_nan(b)) {
        if (f.nan || (H::is_nan(a) && H::is_nan(b))) return H::kNan;
        d = H::is_nan(a) ? b : a;
      } else {
        // -0 is below +0
        const double x = H::value(a), y = H::value(b);
        const bool less = x < y || (x == y && (a & H::kSign) && !(b & H::kSign));
        d = less == (op == Op::Min) ? a : b;
      }
      return f.xorsign ? static_cast<uint16_t>((d & 0x7fff) | sign) : d;
    }
    case Op::Add:
      r = sum_to_odd(H::value(a), H::value(b), Round::Rn);
      break;
    case Op::Sub:
      r = sum_to_odd(H::value(a), -H::value(b), Round::Rn);
      break;
    case Op::Mul:
      r = H::value(a) * H::value(b);
      break;
    case Op::Fma:
      r = sum_to_odd(H::value(a) * H::value(b), H::value(c), Round::Rn);
      break;
    case Op::Ex2:  // computed in float64 and rounded once, inside the documented error
      r = std::exp2(H::value(a));
      break;
    case Op::Tanh:
      r = std::tanh(H::value(a));
      break;
  }
  uint16_t d = static_cast<uint16_t>(round_to(H::kFormat, r, Round::Rn));
  if (f.ftz) d = H::flushed(d);
  if (f.sat) {  // [0, 1]; NaN gives +0
    const uint16_t one = static_cast<uint16_t>(H::kFormat.bias << H::kFormat.mantissa_bits);
    return H::is_nan(d) || (d & H::kSign) ? uint16_t{0} : d > one ? one : d;
  }
  if (f.relu && (d & H::kSign) && !H::is_nan(d)) return 0;
  return d;
}

template <bool B>
Step run(Exec& x, const Instr& i) {
  const int per = i.m[half_slot::packed] ? 2 : 1;
  const uint16_t* a = x.src<uint16_t>(i.o[half_slot::a]);
  const uint16_t* b = i.o[half_slot::b] == INT32_MIN ? a : x.src<uint16_t>(i.o[half_slot::b]);
  const uint16_t* c = i.o[half_slot::c] == INT32_MIN ? a : x.src<uint16_t>(i.o[half_slot::c]);
  uint16_t* d = x.dst<uint16_t>(i.o[half_slot::dst]);
  const Op op = static_cast<Op>(i.m[half_slot::operation]);
  const int32_t limit = i.m[half_slot::limit], nan = i.m[half_slot::nan];
  const Flags f{i.m[half_slot::ftz] != 0, limit == 1, limit == 2, (nan & 1) != 0, (nan & 2) != 0};
  lanes(x.mask, [&](int l) {
    for (int h = per * l; h < per * l + per; ++h) d[h] = compute<B>(op, a[h], b[h], c[h], f);
  });
  return Step::Next;
}

Step half(Exec& x, const Instr& i) { return i.m[half_slot::brain] ? run<true>(x, i) : run<false>(x, i); }

struct Flush {
  static uint16_t f(uint16_t a) { return Half<false>::flushed(a); }
};

const Registrar halves({{"half", half}, {"half.flush", unary<uint16_t, uint16_t, Flush>}});

}  // namespace
}  // namespace tileproof
