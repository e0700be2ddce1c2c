// A deterministic dKV: each slot of `indices` gets a row of its own before the backward (expand), which then
// adds to that row alone; after it a row of dKV is the sum of its slots' rows, in the order of the slots
// (collect). The same bits under every schedule.
#pragma once

#include <cstdint>

namespace tileproof {

constexpr int kExpandThreads = 96;
constexpr int kCollectRows = 16;  // of dKV, one for each warp of a CTA
constexpr int kCollectThreads = 32 * kCollectRows;
constexpr int kCollectColumns = 24;                 // of a lane: d_qk up to 768
constexpr int kCollectChunk = 4 * kCollectThreads;  // indices that a CTA reads at a time
constexpr int kCollectWaiting = 2 * kCollectChunk;  // slots of its rows that wait to be added

struct ExpandParams {
  const uint16_t* kv;      // 16 bits [s_kv, d_qk], aligned to 16 bytes, d_qk a multiple of 8
  const int* indices;      // [s_q, topk]
  const int* topk_length;  // [s_q], or null: topk everywhere
  int* slots;              // [s_q, topk]: the slot's own number where it is a key, else -1
  uint16_t* rows;          // as kv [s_q * topk, d_qk]: the key of each slot, zeros where it is none
  int s_kv;
  int topk;
  int d_qk;
  int unused;
};

struct CollectParams {
  const float* wide;   // [s_q * topk, d_qk]: dKV of each slot
  const int* indices;  // [s_q, topk], aligned to 16 bytes
  const int* slots;    // of expand
  float* dKV;          // [s_kv, d_qk]
  int s_q;
  int topk;
  int d_qk;
  int s_kv;
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

// The slots of a CTA's rows that are found and not yet added, in their order.
struct Waiting {
  int slot[kCollectWaiting];
  uint8_t row[kCollectWaiting];
  int in_warp[kCollectRows];
};

// Adds the waiting slots of the warp's row to its sums.
__device__ __forceinline__ void add_waiting(const CollectParams& params, const Waiting& waiting, int count,
                                            float (&sum)[kCollectColumns]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int first = 0; first < count; first += 32) {
    const int at = first + lane;
    unsigned own = __ballot_sync(0xffffffff, at < count && waiting.row[at] == warp);
    for (; own; own &= own - 1) {
      const float* row = params.wide + int64_t(waiting.slot[first + __ffs(own) - 1]) * params.d_qk;
      // A lane without a column reads the last one, so that no load waits for a branch.
#pragma unroll
      for (int v = 0; v < kCollectColumns; ++v) sum[v] += row[min(lane + 32 * v, params.d_qk - 1)];
    }
  }
}

// One CTA per kCollectRows rows of dKV. It reads all indices and keeps the order of the slots; each warp adds
// those of its row.
__device__ __forceinline__ void collect(const CollectParams& params) {
  __shared__ Waiting waiting;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int count = params.s_q * params.topk, first_row = blockIdx.x * kCollectRows;
  float sum[kCollectColumns] = {};
  int filled = 0;  // the same in all threads
  for (int first = 0; first < count; first += kCollectChunk) {
    const int slot = first + 4 * thread;
    int index[4] = {-1, -1, -1, -1};
    if (slot + 4 <= count) {
      *reinterpret_cast<int4*>(index) = *reinterpret_cast<const int4*>(params.indices + slot);
    } else {
      for (int i = 0; slot + i < count && i < 4; ++i) index[i] = params.indices[slot + i];
    }
    bool mine[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[i] = unsigned(index[i] - first_row) < unsigned(kCollectRows) && params.slots[slot + i] >= 0;
    }
    if (!__syncthreads_or(mine[0] || mine[1] || mine[2] || mine[3])) continue;
    int before = 0, all = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned ballot = __ballot_sync(0xffffffff, mine[i]);
      before += __popc(ballot & ((1u << lane) - 1));
      all += __popc(ballot);
    }
    if (lane == 0) waiting.in_warp[warp] = all;
    __syncthreads();
    before += filled;
#pragma unroll
    for (int other = 0; other < kCollectRows; ++other) {
      before += other < warp ? waiting.in_warp[other] : 0;
      filled += waiting.in_warp[other];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!mine[i]) continue;
      waiting.slot[before] = slot + i;
      waiting.row[before++] = uint8_t(index[i] - first_row);
    }
    if (filled <= kCollectWaiting - kCollectChunk) continue;
    __syncthreads();
    add_waiting(params, waiting, filled, sum);
    filled = 0;
  }
  __syncthreads();
  add_waiting(params, waiting, filled, sum);
  if (first_row + warp >= params.s_kv) return;
  float* row = params.dKV + int64_t(first_row + warp) * params.d_qk;
#pragma unroll
  for (int v = 0; v < kCollectColumns; ++v) {
    if (lane + 32 * v < params.d_qk) row[lane + 32 * v] = sum[v];
  }
}

}  // namespace tileproof
