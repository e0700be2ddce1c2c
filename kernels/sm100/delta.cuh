// delta = rowsum(o * dO) of a CTA's heads, or its sum over the CTA's columns, by the warps of one role: each
// takes as many heads as the others, one head at a time over its 32 lanes.
#pragma once

#include <cstdint>

#include "sm100/barrier.cuh"
#include "sm100/cute.cuh"
#include "sm100/element.cuh"
#include "sm100/operand.cuh"
#include "sm100/ptx.cuh"

namespace tileproof {

template <class Plan, class Role, int Heads, int Columns = Plan::d_v>
struct Delta {
  using Elements = Pair<Element<Plan>>;

  static constexpr int kHeadsPerWarp = Heads / Role::warps;  // 16
  static constexpr int kVector = 8;                          // elements in a 16-byte access
  static constexpr int kVectors = Columns / (32 * kVector);  // 2 or 1 per lane and head
  static constexpr int kBatch = 4;                           // heads whose o is in flight
  static_assert(kHeadsPerWarp % kBatch == 0 && kHeadsPerWarp <= 32);

  // The warp's first head of the CTA's.
  __device__ __forceinline__ static int first_head(int warp) {
    return kHeadsPerWarp * (warp - Role::first_warp);
  }

  // Lane h gets delta of the warp's head h. `o` points at the CTA's first column in the row of the
  // warp's first head `warp_head`; `dO` is the shared-memory tile of all the CTA's heads, whose bytes
  // `do_ready` counts.
  __device__ __forceinline__ static float of_warp(const uint16_t* o, uint32_t dO, const Barrier& do_ready,
                                                  int warp_head, int lane) {
    constexpr int kColTileBytes = Heads * kRowBytes;
    float delta = 0.0f;
    CUTE_NO_UNROLL
    for (int batch = 0; batch < kHeadsPerWarp; batch += kBatch) {
      uint4 o_bits[kBatch][kVectors];
      CUTE_UNROLL
      for (int h = 0; h < kBatch; ++h) {
        CUTE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const int col = kVector * (32 * v + lane);
          o_bits[h][v] = __ldg(reinterpret_cast<const uint4*>(o + (batch + h) * Plan::d_v + col));
        }
      }
      do_ready.wait_own(0);
      CUTE_UNROLL
      for (int h = 0; h < kBatch; ++h) {
        const int head = warp_head + batch + h;
        float sum = 0.0f;
        CUTE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const int col = kVector * (32 * v + lane);
          const uint32_t tile = dO + col / kColTile * kColTileBytes;
          sum = dot(o_bits[h][v], ptx::load_shared_16(tile + swizzled_chunk(head, col % kColTile / kVector)),
                    sum);
        }
        CUTE_UNROLL
        for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
        if (lane == batch + h) delta = sum;
      }
    }
    return delta;
  }

 private:
  // sum + eight products, by f32 FMA.
  __device__ __forceinline__ static float dot(uint4 a, uint4 b, float sum) {
    const uint32_t x[4] = {a.x, a.y, a.z, a.w};
    const uint32_t y[4] = {b.x, b.y, b.z, b.w};
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      sum = fmaf(Elements::low(x[i]), Elements::low(y[i]), sum);
      sum = fmaf(Elements::high(x[i]), Elements::high(y[i]), sum);
    }
    return sum;
  }
};

}  // namespace tileproof
