// delta = rowsum(o * dO): one CTA per token, one head at a time over the 32 lanes of a warp. The order of the
// sum is that of sm100/delta.cuh: the same bits.
#pragma once

#include <cstdint>

namespace tileproof {

constexpr int kDeltaThreads = 128;
constexpr int kDeltaColumns = 512;

struct DeltaParams {
  const uint16_t* o;   // bf16 [s_q, h_q, 512], aligned to 16 bytes
  const uint16_t* dO;  // likewise
  float* delta;        // [s_q, h_q]
  int heads;
  int unused;
};

// sum + eight products of bf16 pairs, by f32 FMA. A bf16 is the upper half of the f32 of the same value.
__device__ __forceinline__ float dot8(uint4 a, uint4 b, float sum) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w};
  const uint32_t y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), sum);
    sum = fmaf(__uint_as_float(x[i] & 0xffff0000u), __uint_as_float(y[i] & 0xffff0000u), sum);
  }
  return sum;
}

__device__ __forceinline__ void delta_of_token(const DeltaParams& params) {
  constexpr int kVector = 8;  // bf16 in a 16-byte access
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int head = warp; head < params.heads; head += kDeltaThreads / 32) {
    const int64_t row = int64_t(blockIdx.x) * params.heads + head;
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kDeltaColumns / (32 * kVector); ++v) {
      const int64_t at = row * kDeltaColumns + kVector * (32 * v + lane);
      sum = dot8(__ldg(reinterpret_cast<const uint4*>(params.o + at)),
                 __ldg(reinterpret_cast<const uint4*>(params.dO + at)), sum);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (lane == 0) params.delta[row] = sum;
  }
}

}  // namespace tileproof
