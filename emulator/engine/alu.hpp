// Lane loops and instruction skeletons that the arithmetic handlers share.
//
// Rounding: every f32 operation is one IEEE operation in round-to-nearest-even; .ftz flushes subnormal inputs
// and results to signed zero (PTX ISA 9.7.3). The extension is compiled with -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "machine.hpp"
#include "slots/alu.hpp"

namespace tileproof {

template <class T, class B>
inline T bits_as(B v) {
  static_assert(sizeof(T) == sizeof(B));
  T t;
  std::memcpy(&t, &v, sizeof t);
  return t;
}

inline float ftz(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

// A NaN result is canonical: 0x7fffffff, whatever the inputs' payloads (seen on silicon, docs/evidence).
inline float canonical(float r) { return r != r ? bits_as<float>(0x7fffffffu) : r; }

// The f32 add of atomics and of the copy engine's reductions; `flushes` says whether subnormals become signed
// zero.
inline float add_f32(float a, float b, bool flushes) {
  return canonical(flushes ? ftz(ftz(a) + ftz(b)) : a + b);
}

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
  const A* a = x.src<A>(i.o[slot::alu::a]);
  D* d = x.dst<D>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l]); });
  return Step::Next;
}
template <class D, class A, class B, class F>
Step binary(Exec& x, const Instr& i) {
  const A* a = x.src<A>(i.o[slot::alu::a]);
  const B* b = x.src<B>(i.o[slot::alu::b]);
  D* d = x.dst<D>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l], b[l]); });
  return Step::Next;
}
template <class D, class A, class C, class F>
Step ternary(Exec& x, const Instr& i) {
  const A* a = x.src<A>(i.o[slot::alu::a]);
  const A* b = x.src<A>(i.o[slot::alu::b]);
  const C* c = x.src<C>(i.o[slot::alu::c]);
  D* d = x.dst<D>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) { d[l] = F::f(a[l], b[l], c[l]); });
  return Step::Next;
}

}  // namespace tileproof
