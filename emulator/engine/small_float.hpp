// The floats narrower than f32: their values, and rounding any number into them exactly once.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "enumerations/convert.hpp"

namespace tileproof {

// What stands beyond the finite values: IEEE infinities and NaNs; one NaN (e4m3); nothing (e2m3, e3m2, e2m1).
enum class Beyond : uint8_t { Ieee, OneNan, Nothing };

struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  Beyond beyond;
  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int emin() const { return 1 - bias; }
  // The largest finite value.
  constexpr uint32_t largest() const {
    const uint32_t all = (1u << (exponent_bits + mantissa_bits)) - 1;
    return beyond == Beyond::Ieee ? all - (1u << mantissa_bits) : beyond == Beyond::OneNan ? all - 1 : all;
  }
  constexpr uint32_t infinity() const { return largest() + 1; }
};

constexpr SmallFloat kF32{8, 23, 127, Beyond::Ieee};
constexpr SmallFloat kF16{5, 10, 15, Beyond::Ieee};
constexpr SmallFloat kBf16{8, 7, 127, Beyond::Ieee};
constexpr SmallFloat kTf32{8, 10, 127, Beyond::Ieee};
constexpr SmallFloat kE4m3{4, 3, 7, Beyond::OneNan};
constexpr SmallFloat kE5m2{5, 2, 15, Beyond::Ieee};
constexpr SmallFloat kE2m3{2, 3, 1, Beyond::Nothing};
constexpr SmallFloat kE3m2{3, 2, 3, Beyond::Nothing};
constexpr SmallFloat kE2m1{2, 1, 1, Beyond::Nothing};

// The value of a pattern: exact in a double.
inline double small_value(const SmallFloat& f, uint32_t v) {
  const uint32_t mantissa = v & ((1u << f.mantissa_bits) - 1);
  const int field = static_cast<int>(v >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  const bool negative = v >> (f.bits() - 1) & 1;
  const uint32_t magnitude = v & ((1u << (f.bits() - 1)) - 1);
  double r;
  if (f.beyond != Beyond::Nothing && magnitude > f.largest())
    r = f.beyond == Beyond::Ieee && magnitude == f.infinity() ? INFINITY : NAN;
  else
    r = std::ldexp(static_cast<double>(field ? mantissa | 1u << f.mantissa_bits : mantissa),
                   (field ? field : 1) - f.bias - f.mantissa_bits);
  return negative ? -r : r;
}

// Nearest even, toward zero, down, up; nearest with ties away from zero.

// A magnitude significand * 2^exponent, and whether it is really a little more than that.
struct Magnitude {
  uint64_t significand;
  int exponent;
  bool sticky;
};

// The pattern (without sign) nearest to a finite magnitude in the direction of `round`; overflow gives
// largest() + 1, which the caller reads as infinity or clamps. `random`, if not null, is added below the last
// kept bit and the rest is cut off (stochastic rounding), left-aligned in 32 bits.
inline uint32_t round_magnitude(const SmallFloat& f, Magnitude m, bool negative, Round round,
                                const uint32_t* random = nullptr) {
  if (!m.significand) {
    if (!m.sticky) return 0;
    m.significand = 1, m.exponent = -4000;
  }
  const int length = 64 - __builtin_clzll(m.significand);
  // Exponent of the last kept bit.
  const int top = m.exponent + length - 1;
  const int unit = (top < f.emin() ? f.emin() : top) - f.mantissa_bits;
  uint64_t kept;
  bool half = false, rest = m.sticky;
  uint64_t fraction = 0;  // what is cut off, left-aligned in 64 bits
  if (unit <= m.exponent) {
    kept = m.significand << (m.exponent - unit);
  } else {
    const int drop = unit - m.exponent;
    if (drop > 64) {
      kept = 0, rest = true;
      fraction = drop - 64 < 64 ? m.significand >> (drop - 64) : 0;
    } else {
      kept = drop == 64 ? 0 : m.significand >> drop;
      fraction = m.significand << (64 - drop);
      half = fraction >> 63;
      rest |= (fraction << 1) != 0;
    }
  }
  bool up = false;
  if (random) {
    up = (fraction >> 32) + *random > 0xffffffffu;
  } else {
    switch (round) {
      case Round::Rn:
        up = half && (rest || (kept & 1));
        break;
      case Round::Rna:
        up = half;
        break;
      case Round::Rz:
        break;
      case Round::Rm:
        up = negative && (half || rest);
        break;
      case Round::Rp:
        up = !negative && (half || rest);
        break;
      default:  // to integers: not of a float's bits
        break;
    }
  }
  kept += up;
  // kept * 2^unit with the mantissa's width: the pattern's exponent field follows from unit; a carry moves
  // into it by itself.
  const int field = unit + f.mantissa_bits + f.bias;  // of kept with its leading bit at mantissa_bits
  const uint64_t hidden = 1ull << f.mantissa_bits;
  uint64_t pattern;
  if (kept < hidden)
    pattern = kept;  // subnormal
  else
    pattern = kept - hidden + (static_cast<uint64_t>(field) << f.mantissa_bits);
  return pattern > f.largest() ? f.largest() + 1 : static_cast<uint32_t>(pattern);
}

inline Magnitude magnitude_of(double x) {
  uint64_t u;
  std::memcpy(&u, &x, 8);
  const int field = static_cast<int>(u >> 52 & 2047);
  const uint64_t mantissa = u & ((1ull << 52) - 1);
  return {field ? mantissa | 1ull << 52 : mantissa, (field ? field : 1) - 1075, false};
}

// x rounded into f, sign included. A NaN is the format's canonical one (PTX ISA 9.7.9.21: 0x7fff for 16
// bits); without NaNs the largest positive value. `finite` clamps to the largest value (.satfinite); a
// directed rounding that may not grow stays at the largest value by itself.
inline uint32_t round_to(const SmallFloat& f, double x, Round round, bool finite = false, bool relu = false,
                         const uint32_t* random = nullptr) {
  const uint32_t all = (1u << (f.bits() - 1)) - 1;
  if (x != x) return f.beyond == Beyond::Nothing ? f.largest() : all;
  bool negative = std::signbit(x);
  if (relu && negative) return 0;
  uint32_t r;
  if (std::isinf(x)) {
    r = f.largest() + 1;
  } else {
    r = round_magnitude(f, magnitude_of(x), negative, round, random);
    const bool stays = !random && (round == Round::Rz || (round == Round::Rm && !negative) ||
                                   (round == Round::Rp && negative));
    if (r > f.largest() && stays) r = f.largest();
  }
  if (r > f.largest() && (finite || f.beyond == Beyond::Nothing)) r = f.largest();
  return r | (negative ? 1u << (f.bits() - 1) : 0);
}

}  // namespace tileproof
