// What every role of a kernel knows: the query token, the CTA's rank in the token's cluster, and its keys.
#pragma once

#include <cstdint>

#include "sm100/barrier.cuh"
#include "sm100/cute.cuh"
#include "sm100/ptx.cuh"

namespace tileproof {

// `Cfg_` holds `kHeads`, the heads of a CTA, and SharedStorage; `Params` what the host passes.
template <class Plan_, class Cfg_, class Params>
struct Context {
  using Plan = Plan_;
  using Cfg = Cfg_;
  using Storage = typename Cfg::SharedStorage;

  static constexpr uint16_t kEveryRank = (1u << Plan::cluster) - 1;  // mask of the token's CTAs

  const Params& params;
  Storage& smem;
  int token;
  int rank;
  int warp;
  int lane;
  int length;          // slots that may hold keys: topk_length clamped to [0, topk]
  int k_blocks;        // ceil(length / 64), possibly 0
  const int* indices;  // [topk] of the token

  __device__ __forceinline__ Context(const Params& params_, Storage& smem_) : params(params_), smem(smem_) {
    token = blockIdx.x / Plan::cluster;
    rank = int(cute::block_rank_in_cluster());
    warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // warp-uniform, so role branches are too
    lane = threadIdx.x % 32;
    length = params.topk_length == nullptr ? params.topk : __ldg(params.topk_length + token);
    length = max(0, min(length, params.topk));
    k_blocks = (length + Plan::b_topk - 1) / Plan::b_topk;
    indices = params.indices + int64_t(token) * params.topk;
  }

  template <class Role>
  __device__ __forceinline__ bool has_role() const {
    return warp >= Role::first_warp && warp < Role::first_warp + Role::warps;
  }

  // The row of kv at `index` of slot `slot`, or -1 where the slot is no key.
  __device__ __forceinline__ int key_row(int index, int slot) const {
    const bool is_key = slot < length && index >= 0 && index < params.s_kv;
    return is_key ? index : -1;
  }

  // Rows of kv for slots [slot, slot + 4); -1, which the gather fills with zeros, where a slot is no key.
  __device__ __forceinline__ int4 key_rows(int slot) const {
    const int4 index = __ldg(reinterpret_cast<const int4*>(indices + slot));
    return {key_row(index.x, slot), key_row(index.y, slot + 1), key_row(index.z, slot + 2),
            key_row(index.w, slot + 3)};
  }

  // The CTA's first head among all rows of [s_q * h_q, ...].
  __device__ __forceinline__ int first_head() const { return token * Plan::h_q + rank * Cfg::kHeads; }

  // This thread's TMEM row: its warp reaches the 32 lanes from 32 (warp % 4) on.
  __device__ __forceinline__ uint32_t tmem(int column) const {
    return smem.tmem_base + (uint32_t(32 * (warp % 4)) << 16) + uint32_t(column);
  }
};

}  // namespace tileproof
