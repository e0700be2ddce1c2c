// Directed roundings of f32 and f64 arithmetic: the processor's own, set for one instruction.
#pragma once

#include <cfenv>

#include "small_float.hpp"

namespace tileproof {

// Operands are read from and results written to memory between construction and destruction, which the
// compiler cannot move past the calls.
class RoundingMode {
 public:
  explicit RoundingMode(Round mode) : changed_(mode != Round::Rn) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    if (changed_) std::fesetround(kModes[static_cast<int>(mode)]);
    asm volatile("" ::: "memory");
  }
  ~RoundingMode() {
    asm volatile("" ::: "memory");
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;

 private:
  bool changed_;
};

// a + b as a double that rounds to any narrower format as the exact sum does: inexact sums are rounded to odd
// (53 bits hold two more than any format here). A zero sum of unlike signs is -0 when rounding down.
inline double sum_to_odd(double a, double b, Round round) {
  const double s = a + b;
  if (s == 0) return round == Round::Rm && (std::signbit(a) || std::signbit(b)) ? -0.0 : s;
  if (!std::isfinite(s)) return s;
  const double bb = s - a, error = (a - (s - bb)) + (b - bb);
  uint64_t u;
  std::memcpy(&u, &s, 8);
  if (error == 0 || (u & 1)) return s;
  u += (error > 0) == (s > 0) ? 1 : -1;
  double r;
  std::memcpy(&r, &u, 8);
  return r;
}

}  // namespace tileproof
