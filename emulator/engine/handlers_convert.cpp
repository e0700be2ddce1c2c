// cvt in its general form: any number to any number, rounded once (PTX ISA 9.7.9.21).
#include <algorithm>

#include "alu.hpp"
#include "enumerations/convert.hpp"
#include "rounding.hpp"
#include "slots/convert.hpp"

namespace tileproof {
namespace {

using Kind = NumberFormat;

bool is_integer(Kind k) { return k <= Kind::U64; }
bool is_signed(Kind k) { return k <= Kind::S64; }
int bits_of(Kind k) { return 8 << (static_cast<int>(k) & 3); }  // of an integer

const SmallFloat& format_of(Kind k) {
  switch (k) {
    case Kind::F16:
      return kF16;
    case Kind::Bf16:
      return kBf16;
    case Kind::Tf32:
      return kTf32;
    case Kind::E4m3:
      return kE4m3;
    case Kind::E5m2:
      return kE5m2;
    case Kind::E2m3:
      return kE2m3;
    case Kind::E3m2:
      return kE3m2;
    case Kind::E2m1:
      return kE2m1;
    default:
      return kF32;
  }
}

double float_value(Kind k, uint64_t v) {
  if (k == Kind::F64) return bits_as<double>(v);
  if (k == Kind::F32) return static_cast<double>(bits_as<float>(static_cast<uint32_t>(v)));
  if (k == Kind::Ue8m0) return v == 255 ? NAN : std::ldexp(1.0, static_cast<int>(v) - 127);
  return small_value(format_of(k), static_cast<uint32_t>(v));
}

// A power of two without sign. Cut or rounded up in magnitude; what is beyond becomes the NaN, 255, unless
// finite.
uint64_t power_bits(double x, Round round, bool finite) {
  if (x != x) return 255;
  if (x == 0) return 0;
  const uint64_t most = finite ? 254 : 255;
  if (std::isinf(x)) return most;
  int exponent;
  const double half = std::frexp(std::fabs(x), &exponent);  // in [1/2, 1)
  const int code = exponent - 1 + (round == Round::Rp && half > 0.5) + 127;
  return code < 0 ? 0 : std::min<uint64_t>(static_cast<uint64_t>(code), most);
}

// The pattern of a float; tf32 lies in the upper bits of its register.
uint64_t float_bits(Kind k, double x, Round round, int32_t limit) {
  if (k == Kind::F64) return bits_as<uint64_t>(x);
  const bool finite = limit & 2, relu = limit & 4;
  if (k == Kind::Ue8m0) return power_bits(x, round, finite);
  if (relu && x == 0) x = 0;
  const uint32_t r = round_to(format_of(k), x, round, finite, relu);
  return k == Kind::Tf32 ? r << 13 : r;
}

double integral(double x, Round round) {
  switch (round) {
    case Round::Rz:
      return std::trunc(x);
    case Round::Rm:
      return std::floor(x);
    case Round::Rp:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

uint64_t to_integer(double x, Kind from, Kind to, Round round) {
  const int bits = bits_of(to);
  // A NaN is 0, or the top bit where either side is wide (9.7.9.21), extended to a wider register.
  if (x != x) {
    const uint64_t top = uint64_t{1} << (bits - 1);
    return from != Kind::F64 && bits != 64 ? 0 : is_signed(to) ? uint64_t(0) - top : top;
  }
  const double r = integral(x, round);
  const double top = std::ldexp(1.0, is_signed(to) ? bits - 1 : bits);
  if (r >= top) return is_signed(to) ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0} >> (64 - bits);
  if (is_signed(to))
    return r <= -top ? uint64_t(0) - (uint64_t{1} << (bits - 1))
                     : static_cast<uint64_t>(static_cast<int64_t>(r));
  return r <= 0 ? 0 : static_cast<uint64_t>(r);
}

uint64_t from_integer(uint64_t v, Kind from, Kind to, Round round) {
  const bool negative = is_signed(from) && static_cast<int64_t>(v) < 0;
  if (to == Kind::F64) {
    double d;
    const RoundingMode mode(round);
    if (is_signed(from)) {
      const volatile int64_t s = static_cast<int64_t>(v);
      d = static_cast<double>(s);
    } else {
      const volatile uint64_t u = v;
      d = static_cast<double>(u);
    }
    return bits_as<uint64_t>(d);
  }
  const SmallFloat& f = format_of(to);
  uint32_t r = round_magnitude(f, {negative ? 0 - v : v, 0, false}, negative, round);
  const bool stays =
      round == Round::Rz || (round == Round::Rm && !negative) || (round == Round::Rp && negative);
  if (r > f.largest() && stays) r = f.largest();
  return r | (negative ? 1u << (f.bits() - 1) : 0);
}

uint64_t clamp_integer(uint64_t v, Kind from, Kind to) {
  using W = __int128;
  const W x = is_signed(from) ? W{static_cast<int64_t>(v)} : W{v};
  const int bits = bits_of(to);
  const W low = is_signed(to) ? -(W{1} << (bits - 1)) : W{0};
  const W high = (W{1} << (is_signed(to) ? bits - 1 : bits)) - 1;
  return static_cast<uint64_t>(std::clamp(x, low, high));
}

uint64_t sized(uint64_t v, Kind k) {  // an integer's own bits, extended to 64
  const int left = 64 - bits_of(k);
  return is_signed(k) ? static_cast<uint64_t>(static_cast<int64_t>(v << left) >> left) : v << left >> left;
}

float flush(float x) { return ftz(x); }

// Whether a NaN keeps sign and payload: f64 to and from a narrower float (seen on an H100, docs/evidence).
bool keeps_nan(Kind from, Kind to, int32_t limit) {
  const auto narrow = [](Kind k) { return k == Kind::F32 || k == Kind::F16 || k == Kind::Bf16; };
  return limit == 0 && ((from == Kind::F64 && narrow(to)) || (to == Kind::F64 && narrow(from)));
}

// The quiet NaN of `to` with the sign and the upper bits of the payload.
uint64_t kept_nan(uint64_t v, Kind from, Kind to) {
  const auto mantissa = [](Kind k) { return k == Kind::F64 ? 52 : format_of(k).mantissa_bits; };
  const auto bits = [](Kind k) { return k == Kind::F64 ? 64 : format_of(k).bits(); };
  const int left = bits(to) - 1, own = mantissa(from), kept = mantissa(to);
  const uint64_t payload = v & ((uint64_t{1} << own) - 1);
  const uint64_t moved = kept < own ? payload >> (own - kept) : payload << (kept - own);
  const uint64_t exponent = ((uint64_t{1} << left) - 1) >> (kept - 1) << (kept - 1);  // with the quiet bit
  return (v >> (bits(from) - 1) & 1) << left | exponent | moved;
}

// f32 to tf32 to nearest, ties away: code of ptxas that cuts a NaN, also to an infinity, and of .satfinite
// subtracts a unit from what is then not finite. The others have an instruction, whose NaN is the positive
// canonical value.
uint32_t nan_to_tf32(uint32_t v, Round round, int32_t limit) {
  if (round != Round::Rna) return 0x7fffe000;
  return (v & 0xffffe000) - (limit & 2 ? 0x2000 : 0);
}

// One number. `limit`: 1 .sat, 2 .satfinite, 4 .relu.
uint64_t convert(uint64_t v, Kind from, Kind to, Round round, bool whole, bool flushes, int32_t limit) {
  if (is_integer(from)) {
    v = sized(v, from);
    if (is_integer(to)) return limit & 1 ? clamp_integer(v, from, to) : sized(v, to);
    v = from_integer(v, from, to, round);
    if (!(limit & 1)) return v;
    from = to, round = Round::Rn, flushes = false;
  }
  double x = float_value(from, v);
  if (flushes && from == Kind::F32) x = flush(static_cast<float>(x));
  if (is_integer(to)) return to_integer(x, from, to, round);
  if (x != x && keeps_nan(from, to, limit)) return kept_nan(v, from, to);
  if (x != x && to == Kind::Tf32) return nan_to_tf32(static_cast<uint32_t>(v), round, limit);
  if (whole) x = integral(x, round);
  uint64_t r = float_bits(to, x, round, limit);
  if (flushes && to == Kind::F32) r = bits_as<uint32_t>(flush(bits_as<float>(static_cast<uint32_t>(r))));
  if (limit & 1) {  // [0, 1], NaN gives +0
    const double y = float_value(to, r);
    r = y > 0 ? float_bits(to, std::min(y, 1.0), Round::Rn, 0) : 0;
  }
  return r;
}

Step scalar(Exec& x, const Instr& i) {
  namespace s = slot::convert;
  const uint8_t* a = x.src<uint8_t>(i.o[s::a]);
  uint8_t* d = x.dst<uint8_t>(i.o[s::dst]);
  const Kind to = static_cast<Kind>(i.m[s::to]), from = static_cast<Kind>(i.m[s::source_kind]);
  const int32_t db = i.m[s::to_bytes], sb = i.m[s::from_bytes];
  const int32_t mode = i.m[s::rounding];
  constexpr int32_t kWhole = static_cast<int32_t>(Round::Rni);  // from here on to integers
  const bool whole = mode >= kWhole;
  const Round round = static_cast<Round>(whole ? mode - kWhole : mode);
  lanes(x.mask, [&](int l) {
    uint64_t v = 0;
    std::memcpy(&v, a + l * sb, static_cast<size_t>(sb));
    const uint64_t r = convert(v, from, to, round, whole, i.m[s::ftz] != 0, i.m[s::limit]);
    std::memcpy(d + l * db, &r, static_cast<size_t>(db));
  });
  return Step::Next;
}

// Two numbers into one register, the first source in the upper half, or the halves of one register.
Step pair(Exec& x, const Instr& i) {
  namespace s = slot::convert_pair;
  const Kind to = static_cast<Kind>(i.m[s::to]), from = static_cast<Kind>(i.m[s::source_kind]);
  const int to_bits = i.m[s::to_bits], from_bits = i.m[s::from_bits];
  const bool two = i.o[s::b] != INT32_MIN;
  const int32_t source = two ? 4 : from_bits / 4, result = to_bits / 4;  // bytes of the registers
  const uint8_t* a = x.src<uint8_t>(i.o[s::a]);
  const uint8_t* b = two ? x.src<uint8_t>(i.o[s::b]) : a;
  uint8_t* d = x.dst<uint8_t>(i.o[s::dst]);
  const Round round = static_cast<Round>(i.m[s::rounding]);
  lanes(x.mask, [&](int l) {
    uint64_t high = 0, low = 0;
    std::memcpy(&high, a + l * source, static_cast<size_t>(source));
    std::memcpy(&low, b + l * source, static_cast<size_t>(source));
    if (!two) {
      high >>= from_bits;
      low &= (uint64_t{1} << from_bits) - 1;
    }
    const uint64_t r = convert(high, from, to, round, false, false, i.m[s::limit]) << to_bits |
                       convert(low, from, to, round, false, false, i.m[s::limit]);
    std::memcpy(d + l * result, &r, static_cast<size_t>(result));
  });
  return Step::Next;
}

uint32_t reversed16(uint32_t v) {
  uint32_t r = 0;
  for (int k = 0; k < 16; ++k) r |= (v >> k & 1) << (15 - k);
  return r;
}

// The random bits of source `k`, left-aligned in 32 (PTX ISA 9.7.9.21). Of f16x2 13 of a half of the
// register, of bf16x2 a half. Of the four-packs each two sources share 16 bits: a half, for e2m1x4 one byte
// of each half; of the two the first reads them reversed (a published measurement on a B200; the text does
// not say how they share).
uint32_t random_of(Kind to, uint32_t bits, int k) {
  if (to == Kind::F16) return (k ? bits : bits >> 16) << 19;
  if (to == Kind::Bf16) return (k ? bits : bits >> 16) << 16;
  const bool low = k >= 2;
  uint32_t field = low ? bits & 0xffff : bits >> 16;
  if (to == Kind::E2m1)
    field = low ? (bits & 0xff) | (bits >> 16 & 0xff) << 8 : (bits >> 8 & 0xff) | bits >> 24 << 8;
  return (k & 1 ? field : reversed16(field)) << 16;
}

// cvt.rs: sources of f32, the first into the uppermost place.
Step stochastic(Exec& x, const Instr& i) {
  namespace s = slot::convert_random;
  const Kind to = static_cast<Kind>(i.m[s::to]);
  const int bits = i.m[s::to_bits], count = static_cast<int>(i.nvec), bytes = count * bits / 8;
  const bool finite = i.m[s::limit] & 2, relu = i.m[s::limit] & 4;
  const uint32_t* random = x.src<uint32_t>(i.o[s::random]);
  uint8_t* d = x.dst<uint8_t>(i.o[s::dst]);
  lanes(x.mask, [&](int l) {
    uint32_t r = 0;
    for (int k = 0; k < count; ++k) {
      const double v = static_cast<double>(x.src<float>(x.e.program.vec[static_cast<size_t>(i.vec + k)])[l]);
      const uint32_t drawn = random_of(to, random[l], k);
      r = r << bits | round_to(format_of(to), relu && v == 0 ? 0 : v, Round::Rz, finite, relu, &drawn);
    }
    std::memcpy(d + l * bytes, &r, static_cast<size_t>(bytes));
  });
  return Step::Next;
}

// cvt.pack: two s32, clamped, a above b, below the low bits of c (9.7.9.22).
Step packed(Exec& x, const Instr& i) {
  namespace s = slot::cvt_pack;
  const int32_t *a = x.src<int32_t>(i.o[s::a]), *b = x.src<int32_t>(i.o[s::b]);
  const uint32_t* c = x.src<uint32_t>(i.o[s::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  const int bits = i.m[s::bits];
  const int32_t high = i.m[s::extended] ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  const int32_t low = i.m[s::extended] ? -high - 1 : 0;
  const uint32_t mask = (1u << bits) - 1;
  lanes(x.mask, [&](int l) {
    const uint32_t two = (static_cast<uint32_t>(std::clamp(a[l], low, high)) & mask) << bits |
                         (static_cast<uint32_t>(std::clamp(b[l], low, high)) & mask);
    d[l] = bits == 16 ? two : c[l] << (2 * bits) | two;
  });
  return Step::Next;
}

const Registrar general(
    {{"convert", scalar}, {"convert.pair", pair}, {"convert.random", stochastic}, {"cvt.pack", packed}});

}  // namespace
}  // namespace tileproof
