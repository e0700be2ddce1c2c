// Before and after the sparse MLA backward: clear the f32 dKV, and round it to bf16 or f16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tileproof {

constexpr int kDkvThreads = 256;
constexpr int kDkvVector = 4;  // f32 in a 16-byte access

// values[0 .. count) = 0. `values` is aligned to 16 bytes; any grid.
__device__ __forceinline__ void clear(float* values, int64_t count) {
  const int64_t step = int64_t(gridDim.x) * kDkvThreads;
  const int64_t thread = int64_t(blockIdx.x) * kDkvThreads + threadIdx.x;
  const int64_t vectors = count / kDkvVector;
  for (int64_t i = thread; i < vectors; i += step) {
    reinterpret_cast<float4*>(values)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  const int64_t rest = vectors * kDkvVector + thread;
  if (rest < count) values[rest] = 0.0f;
}

template <class Half>
struct Narrow;

template <>
struct Narrow<__nv_bfloat16> {
  static __device__ __forceinline__ uint32_t two(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
};

template <>
struct Narrow<__half> {
  static __device__ __forceinline__ uint32_t two(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
};

// narrow[i] = wide[i] to the nearest, ties to even. `wide` is aligned to 16 bytes, `narrow` to 8; any grid.
template <class Half>
__device__ __forceinline__ void convert(const float* wide, uint16_t* narrow, int64_t count) {
  const int64_t step = int64_t(gridDim.x) * kDkvThreads;
  const int64_t thread = int64_t(blockIdx.x) * kDkvThreads + threadIdx.x;
  const int64_t vectors = count / kDkvVector;
  for (int64_t i = thread; i < vectors; i += step) {
    const float4 x = reinterpret_cast<const float4*>(wide)[i];
    reinterpret_cast<uint2*>(narrow)[i] =
        make_uint2(Narrow<Half>::two(x.x, x.y), Narrow<Half>::two(x.z, x.w));
  }
  const int64_t rest = vectors * kDkvVector + thread;
  if (rest < count) narrow[rest] = uint16_t(Narrow<Half>::two(wide[rest], 0.0f));
}

}  // namespace tileproof
