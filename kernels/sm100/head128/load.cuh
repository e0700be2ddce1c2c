// The load role: one thread of each of four warps.
#pragma once

#include <cute/arch/copy_sm100_tma.hpp>

#include "sm100/head128/context.cuh"

namespace tileproof::head128 {

template <class Plan>
struct Load : Context<Plan> {
  using Base = Context<Plan>;
  using Base::indices, Base::k_blocks, Base::params, Base::rank, Base::smem, Base::warp;
  using typename Base::Cfg;

  static constexpr uint64_t kOnce = uint64_t(TMA::CacheHintSm100::EVICT_FIRST);
  static constexpr uint64_t kKeep = uint64_t(TMA::CacheHintSm100::EVICT_LAST);  // rows are shared by tokens

  static constexpr int kGather = 4;                               // rows of one gather
  static constexpr int kRowsPerCta = Cfg::kHalf / Plan::cluster;  // 16 of each half
  static_assert(kRowsPerCta == kGather * Plan::role::load::warps, "one gather a warp and half");

  __device__ __forceinline__ explicit Load(const Base& base) : Base(base) {}

  __device__ __forceinline__ void run() {
    const bool first = warp == Plan::role::load::first_warp;
    if (first) load_q_and_do();

    const int row_in_half = kRowsPerCta * rank + kGather * (warp - Plan::role::load::first_warp);
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int4 lo = key_rows(k * Plan::b_topk + row_in_half);
      const int4 hi = key_rows(k * Plan::b_topk + Cfg::kHalf + row_in_half);
      // Both CTAs' MMAs have read the previous keys, in this CTA and in the peer, which gets them too.
      smem.kv_lo_free.wait((k & 1) ^ 1);
      if (first) smem.kv_ready.arrive_and_expect_tx(Plan::barrier::kv_ready::tx_bytes);
      gather(row_in_half, lo);
      smem.kv_hi_free.wait((k & 1) ^ 1);
      gather(Cfg::kHalf + row_in_half, hi);
    }

    // The last commits, the peer's too, must have arrived before this CTA may exit.
    if (k_blocks > 0) {
      smem.kv_lo_free.wait((k_blocks - 1) & 1);
      smem.kv_hi_free.wait((k_blocks - 1) & 1);
    }
  }

 private:
  __device__ __forceinline__ void load_q_and_do() {
    const int row = this->first_head();
    smem.q_ready.arrive_and_expect_tx(Plan::barrier::q_ready::tx_bytes);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kQkTiles; ++c) {
      ptx::tma_load_2d_own(cast_smem_ptr_to_uint(smem.q) + c * Cfg::kColTileBytes, &params.q_map,
                           smem.q_ready.address(), c * kColTile, row, kOnce);
    }
    smem.do_ready.arrive_and_expect_tx(Plan::barrier::do_ready::tx_bytes);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kVTiles; ++c) {
      ptx::tma_load_2d_own(cast_smem_ptr_to_uint(smem.dO) + c * Cfg::kColTileBytes, &params.dO_map,
                           smem.do_ready.address(), c * kColTile, row, kOnce);
    }
  }

  // Four keys into rows [row, row + 4) of the tile of both CTAs.
  __device__ __forceinline__ void gather(int row, int4 keys) {
    const uint32_t to = cast_smem_ptr_to_uint(smem.kv) + row * kRowBytes;
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kQkTiles; ++c) {
      ptx::tma_gather4_multicast(to + c * Cfg::kColTileBytes, &params.kv_map, smem.kv_ready.address(),
                                 c * kColTile, keys, kBothRanks, kKeep);
    }
  }

  // Rows of kv for slots [slot, slot + 4); -1, which the gather fills with zeros, where a slot is no key.
  __device__ __forceinline__ int4 key_rows(int slot) const {
    const int4 index = __ldg(reinterpret_cast<const int4*>(indices + slot));
    return {this->key_row(index.x, slot), this->key_row(index.y, slot + 1), this->key_row(index.z, slot + 2),
            this->key_row(index.w, slot + 3)};
  }
};

}  // namespace tileproof::head128
