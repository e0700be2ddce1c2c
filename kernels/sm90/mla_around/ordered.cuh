// A deterministic dKV: each slot of `indices` gets a row of its own before the backward (expand), which then
// adds to that row alone; after it a row of dKV is the sum of its slots' rows, in the order of the slots
// (collect). The same bits under every schedule.
#pragma once

#include <cstdint>

namespace tileproof {

constexpr int kExpandThreads = 96;
constexpr int kCollectThreads = 256;
constexpr int kCollectColumns = 3;  // of a thread: d_qk up to 768

struct ExpandParams {
  const uint16_t* kv;      // bf16 [s_kv, d_qk], aligned to 16 bytes, d_qk a multiple of 8
  const int* indices;      // [s_q, topk]
  const int* topk_length;  // [s_q], or null: topk everywhere
  int* slots;              // [s_q, topk]: the slot's own number where it is a key, else -1
  uint16_t* rows;          // bf16 [s_q * topk, d_qk]: the key of each slot, zeros where it is none
  int s_kv;
  int topk;
  int d_qk;
  int unused;
};

struct CollectParams {
  const float* wide;   // [s_q * topk, d_qk]: dKV of each slot
  const int* indices;  // [s_q, topk]
  const int* slots;    // of expand
  float* dKV;          // [s_kv, d_qk]
  int s_q;
  int topk;
  int d_qk;
  int unused;
};

// One CTA per slot.
__device__ __forceinline__ void expand(const ExpandParams& params) {
  const int slot = blockIdx.x, token = slot / params.topk;
  const int index = params.indices[slot];
  const int length = params.topk_length ? params.topk_length[token] : params.topk;
  const bool key = index >= 0 && index < params.s_kv && slot - token * params.topk < length;
  if (threadIdx.x == 0) params.slots[slot] = key ? slot : -1;
  const int vectors = params.d_qk / 8;
  const uint4* from = reinterpret_cast<const uint4*>(params.kv) + int64_t(key ? index : 0) * vectors;
  uint4* to = reinterpret_cast<uint4*>(params.rows) + int64_t(slot) * vectors;
  for (int i = threadIdx.x; i < vectors; i += kExpandThreads) to[i] = key ? from[i] : make_uint4(0, 0, 0, 0);
}

// One CTA per row of dKV. It reads all indices, kCollectThreads at a time, and keeps their order.
__device__ __forceinline__ void collect(const CollectParams& params) {
  __shared__ int found[kCollectThreads];
  __shared__ int in_warp[kCollectThreads / 32];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int count = params.s_q * params.topk;
  float sum[kCollectColumns] = {};
  for (int first = 0; first < count; first += kCollectThreads) {
    const int slot = first + thread;
    const bool mine = slot < count && params.indices[slot] == int(blockIdx.x) && params.slots[slot] >= 0;
    const unsigned ballot = __ballot_sync(0xffffffff, mine);
    if (lane == 0) in_warp[warp] = __popc(ballot);
    __syncthreads();
    int before = 0, all = 0;
#pragma unroll
    for (int other = 0; other < kCollectThreads / 32; ++other) {
      before += other < warp ? in_warp[other] : 0;
      all += in_warp[other];
    }
    if (mine) found[before + __popc(ballot & ((1u << lane) - 1))] = slot;
    __syncthreads();
    for (int i = 0; i < all; ++i) {
      const float* row = params.wide + int64_t(found[i]) * params.d_qk;
#pragma unroll
      for (int v = 0; v < kCollectColumns; ++v) {
        const int column = thread + v * kCollectThreads;
        if (column < params.d_qk) sum[v] += row[column];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int v = 0; v < kCollectColumns; ++v) {
    const int column = thread + v * kCollectThreads;
    if (column < params.d_qk) params.dKV[int64_t(blockIdx.x) * params.d_qk + column] = sum[v];
  }
}

}  // namespace tileproof
