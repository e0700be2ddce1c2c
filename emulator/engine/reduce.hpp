// The read-modify-write of one element: atom, red, red.async, cp.reduce.async.bulk and its tensor form (PTX
// ISA 9.7.13.5, 9.7.13.6, 9.7.9.25.4.2, 9.7.9.27.1.3).
#pragma once

#include <cstring>
#include <type_traits>

#include "half.hpp"
#include "enumerations/atomics.hpp"

namespace tileproof {

inline uint32_t bytes_of(AtomicType e) {
  static constexpr uint32_t kBytes[] = {4, 4, 8, 8, 4, 8, 2, 2, 4, 4, 2, 4, 8, 16};
  return kBytes[static_cast<int32_t>(e)];
}

namespace reduction {

template <class T>
T integer(Reduction op, T a, T b) {
  switch (op) {
    case Reduction::Add:
      return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    case Reduction::Min:
      return a < b ? a : b;
    case Reduction::Max:
      return a < b ? b : a;
    case Reduction::And:
      return static_cast<T>(a & b);
    case Reduction::Or:
      return static_cast<T>(a | b);
    case Reduction::Xor:
      return static_cast<T>(a ^ b);
    case Reduction::Inc:
      return a >= b ? T(0) : static_cast<T>(a + 1);
    case Reduction::Dec:
      return a == 0 || a > b ? b : static_cast<T>(a - 1);
    default:
      return b;
  }
}

// The sum of two f16 or bf16 rounded to f32 and then again is the sum rounded once: f32 has more than twice
// their bits, and two. min and max give the operand that is a number, and -0 before +0 (PTX ISA 9.7.4.5).
template <float From(uint16_t), uint16_t To(float)>
uint16_t halves(Reduction op, uint16_t a, uint16_t b) {
  const float x = From(a), y = From(b);
  if (op == Reduction::Add) return To(x + y);
  if (x != x || y != y) return x == x ? a : y == y ? b : 0x7fff;
  if (x == y) return op == Reduction::Min ? (a & 0x8000 ? a : b) : (a & 0x8000 ? b : a);
  return (x < y) == (op == Reduction::Min) ? a : b;
}

template <class T, class F>
void apply(uint8_t* cell, const uint8_t* value, F&& f) {
  T a, b;
  std::memcpy(&a, cell, sizeof(T));
  std::memcpy(&b, value, sizeof(T));
  a = f(a, b);
  std::memcpy(cell, &a, sizeof(T));
}

// The NaN of an operation without a NaN among its operands; processors differ in its sign.
inline double invalid_f64() { return bits_as<double>(uint64_t{0xfff8000000000000}); }

// The NaN of a fused product, quiet and with its sign: that of b, else of c, else of a. PTX leaves it open;
// seen on an H100, for mma.sync step by step in the order of k on an H200 (docs/evidence).
inline double fma_nan_f64(double a, double b, double c) {
  const double nan = b != b ? b : c != c ? c : a;
  return nan == nan ? invalid_f64() : bits_as<double>(bits_as<uint64_t>(nan) | uint64_t{1} << 51);
}

// A NaN is that of b, else of a (seen on an H100, docs/evidence).
inline double add_f64(double a, double b, bool keeps) {
  if (a == a && b == b) return a + b == a + b ? a + b : invalid_f64();
  const uint64_t nan = bits_as<uint64_t>(b != b ? b : a);
  return bits_as<double>(keeps ? nan : nan | uint64_t{1} << 51);
}

}  // namespace reduction

// cell = cell op value. `flushes`: f32 additions flush subnormals, f64 additions keep a signalling NaN.
inline void reduce(Reduction op, AtomicType type, uint8_t* cell, const uint8_t* value, bool flushes) {
  using namespace reduction;
  auto whole = [&](auto tag) {
    apply<decltype(tag)>(cell, value, [&](auto a, auto b) { return integer(op, a, b); });
  };
  auto f16 = [&](int k) {
    apply<uint16_t>(cell + k, value + k,
                    [&](uint16_t a, uint16_t b) { return halves<half::from_f16, half::to_f16>(op, a, b); });
  };
  auto bf16 = [&](int k) {
    apply<uint16_t>(cell + k, value + k,
                    [&](uint16_t a, uint16_t b) { return halves<half::from_bf16, half::to_bf16>(op, a, b); });
  };
  switch (type) {
    case AtomicType::U32:
    case AtomicType::B32:
      return whole(uint32_t{});
    case AtomicType::S32:
      return whole(int32_t{});
    case AtomicType::U64:
    case AtomicType::B64:
      return whole(uint64_t{});
    case AtomicType::S64:
      return whole(int64_t{});
    case AtomicType::F32:
      return apply<float>(cell, value, [&](float a, float b) { return add_f32(a, b, flushes); });
    case AtomicType::F64:
      return apply<double>(cell, value, [&](double a, double b) { return add_f64(a, b, flushes); });
    case AtomicType::F16x2:
      f16(2);
      [[fallthrough]];
    case AtomicType::F16:
      return f16(0);
    case AtomicType::Bf16x2:
      bf16(2);
      [[fallthrough]];
    case AtomicType::Bf16:
      return bf16(0);
    case AtomicType::B16:
    case AtomicType::B128:  // exch only
      std::memcpy(cell, value, bytes_of(type));
  }
}

namespace reduction {

// add_f32 of whole vectors; returns how many bytes are done.
inline uint32_t add_vectors(bool flushes, uint8_t* cells, const uint8_t* values, uint32_t bytes) {
  typedef float Floats __attribute__((vector_size(16)));
  typedef uint32_t Words __attribute__((vector_size(16)));
  constexpr uint32_t kSign = 0x80000000u, kNormal = 0x00800000u;
  const auto flushed = [](Floats x) {
    const Words bits = reinterpret_cast<Words>(x);
    return reinterpret_cast<Floats>(bits & (reinterpret_cast<Words>((bits & ~kSign) >= kNormal) | kSign));
  };
  uint32_t k = 0;
  for (; k + 16 <= bytes; k += 16) {
    Floats a, b;
    std::memcpy(&a, cells + k, 16);
    std::memcpy(&b, values + k, 16);
    const Floats sum = flushes ? flushed(flushed(a) + flushed(b)) : a + b;
    const Words nan = reinterpret_cast<Words>(sum != sum);
    const Words bits = (reinterpret_cast<Words>(sum) & ~nan) | (nan & 0x7fffffffu);
    std::memcpy(cells + k, &bits, 16);
  }
  return k;
}

}  // namespace reduction

// The same for a row of elements.
inline void reduce_row(Reduction op, AtomicType type, bool flushes, uint8_t* cells, const uint8_t* values,
                       uint32_t bytes) {
  if (op == Reduction::Add && type == AtomicType::F32) {  // what gradients are accumulated with
    for (uint32_t k = reduction::add_vectors(flushes, cells, values, bytes); k < bytes; k += 4)
      reduction::apply<float>(cells + k, values + k,
                              [&](float a, float b) { return add_f32(a, b, flushes); });
    return;
  }
  const uint32_t width = bytes_of(type);
  for (uint32_t k = 0; k < bytes; k += width) reduce(op, type, cells + k, values + k, flushes);
}

}  // namespace tileproof
