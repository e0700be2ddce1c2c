// d_sink = -sum over tokens of the sink's share of the softmax times delta: a CTA has 8 heads, a sector of a
// row, each thread every 128th token of a head; then the sums of a head in order. The same bits in every run.
#pragma once

#include <cstdint>

namespace tileproof {

constexpr int kSinkHeads = 8;
constexpr int kSinkTokens = 128;
constexpr float kLog2E = 1.44269504088896340736f;

struct SinkParams {
  const float* lse;    // [s_q, h_q], base 2, with the sink in it
  const float* delta;  // [s_q, h_q]
  const float* sink;   // [h_q], natural units
  float* d_sink;       // [h_q]
  int tokens;
  int heads;
};

// 2^min(x - lse, 0), the sink's share; of a sink past the f32 range 0 or 1. A NaN stays.
__device__ __forceinline__ float share_of(float x, float lse) {
  if (isinf(x)) return x > 0.0f ? 1.0f : 0.0f;
  const float difference = x - lse;
  float share;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(difference > 0.0f ? 0.0f : difference));
  return share;
}

__device__ __forceinline__ void sink_gradient(const SinkParams& params) {
  __shared__ float sums[kSinkTokens][kSinkHeads];
  const int lane = threadIdx.x % kSinkHeads, part = threadIdx.x / kSinkHeads;
  const int head = blockIdx.x * kSinkHeads + lane;
  float sum = 0.0f;
  if (head < params.heads) {
    const float x = params.sink[head] * kLog2E;
#pragma unroll 4
    for (int token = part; token < params.tokens; token += kSinkTokens) {
      const int64_t at = int64_t(token) * params.heads + head;
      sum = fmaf(share_of(x, params.lse[at]), params.delta[at], sum);
    }
  }
  sums[part][lane] = sum;
  __syncthreads();
  if (part != 0 || head >= params.heads) return;
#pragma unroll 8
  for (int other = 1; other < kSinkTokens; ++other) sum += sums[other][lane];
  params.d_sink[head] = -sum;
}

}  // namespace tileproof
