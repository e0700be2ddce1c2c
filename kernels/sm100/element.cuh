// The form of a plan's operands (q, kv, o, dO, S, dS, dQ): bf16 or f16, and conversions of pairs of them.
#pragma once

#include <cstdint>

#include "sm100/cute.cuh"
#include "sm100/ptx.cuh"

namespace tileproof {

template <bool F16>
struct ElementOf {
  using Type = cutlass::bfloat16_t;
};

template <>
struct ElementOf<true> {
  using Type = cutlass::half_t;
};

template <class Plan>
using Element = typename ElementOf<Plan::f16 != 0>::Type;

// Two elements in 32 bits, the first in the lower half; `of` rounds to nearest even.
template <class T>
struct Pair;

template <>
struct Pair<cutlass::bfloat16_t> {
  // A bf16 is the upper half of the f32 of the same value.
  __device__ __forceinline__ static float low(uint32_t pair) { return __uint_as_float(pair << 16); }
  __device__ __forceinline__ static float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
  __device__ __forceinline__ static uint32_t of(float low, float high) { return ptx::pack_bf16(low, high); }
};

template <>
struct Pair<cutlass::half_t> {
  __device__ __forceinline__ static float low(uint32_t pair) { return ptx::f32_of_f16(uint16_t(pair)); }
  __device__ __forceinline__ static float high(uint32_t pair) {
    return ptx::f32_of_f16(uint16_t(pair >> 16));
  }
  __device__ __forceinline__ static uint32_t of(float low, float high) { return ptx::pack_f16(low, high); }
};

// Eight values as one 16-byte chunk of an operand.
template <class T>
__device__ __forceinline__ uint4 pack(const float* v) {
  return {Pair<T>::of(v[0], v[1]), Pair<T>::of(v[2], v[3]), Pair<T>::of(v[4], v[5]), Pair<T>::of(v[6], v[7])};
}

}  // namespace tileproof
