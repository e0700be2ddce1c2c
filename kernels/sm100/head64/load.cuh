// The load role: one thread of each of four warps.
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head64/config.cuh"

namespace tileproof::head64 {

template <class Plan>
struct Load : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::params, Base::smem, Base::warp;
  using typename Base::Cfg;

  static constexpr uint64_t kOnce = uint64_t(TMA::CacheHintSm100::EVICT_FIRST);
  static constexpr uint64_t kKeep = uint64_t(TMA::CacheHintSm100::EVICT_LAST);  // rows are shared by tokens

  static constexpr int kGather = 4;                                          // rows of one gather
  static constexpr int kRowsPerWarp = Cfg::kKeys / Plan::role::load::warps;  // 16
  static constexpr int kGathers = kRowsPerWarp / kGather;                    // 4 per column tile
  static_assert(Cfg::kKeys == kGathers * kGather * Plan::role::load::warps);

  __device__ __forceinline__ explicit Load(const Base& base) : Base(base) {}

  __device__ __forceinline__ void run() {
    const bool first = warp == Plan::role::load::first_warp;
    if (first) load_q_and_do();

    const int row = kRowsPerWarp * (warp - Plan::role::load::first_warp);
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const Keys keys = keys_from(k * Plan::b_topk + row);
      // The MMAs have read the previous keys.
      smem.kv_lo_free.wait_own((k & 1) ^ 1);
      if (first) smem.kv_lo_ready.arrive_own_and_expect_tx(Plan::barrier::kv_lo_ready::tx_bytes);
      gather<0, Cfg::kLoTiles>(smem.kv_lo_ready, row, keys);
      gather<Cfg::kVTiles, Cfg::kQkTiles>(smem.kv_lo_ready, row, keys);  // RoPE
      smem.kv_hi_free.wait_own((k & 1) ^ 1);
      CUTE_UNROLL
      for (int part = 0; first && part < Cfg::kHiParts; ++part) {
        smem.kv_hi_ready[part].arrive_own_and_expect_tx(Plan::barrier::kv_hi_ready::tx_bytes);
      }
      gather<Cfg::hi_tile(0), Cfg::hi_tile(1)>(smem.kv_hi_ready[0], row, keys);
      gather<Cfg::hi_tile(1), Cfg::hi_tile(2)>(smem.kv_hi_ready[1], row, keys);
    }

    // The last commits must have arrived before this CTA may exit.
    if (k_blocks > 0) {
      smem.kv_lo_free.wait_own((k_blocks - 1) & 1);
      smem.kv_hi_free.wait_own((k_blocks - 1) & 1);
    }
  }

 private:
  // The rows of kv for this warp's slots.
  struct Keys {
    int4 of[kGathers];
  };

  __device__ __forceinline__ Keys keys_from(int slot) const {
    Keys keys;
    CUTE_UNROLL
    for (int g = 0; g < kGathers; ++g) keys.of[g] = this->key_rows(slot + kGather * g);
    return keys;
  }

  __device__ __forceinline__ void load_q_and_do() {
    const int row = this->first_head();
    smem.q_ready.arrive_own_and_expect_tx(Plan::barrier::q_ready::tx_bytes);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kQkTiles; ++c) {
      ptx::tma_load_2d_own(cast_smem_ptr_to_uint(smem.q) + c * Cfg::kColTileBytes, &params.q_map,
                           smem.q_ready.address(), c * kColTile, row, kOnce);
    }
    smem.do_ready.arrive_own_and_expect_tx(Plan::barrier::do_ready::tx_bytes);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kVTiles; ++c) {
      ptx::tma_load_2d_own(cast_smem_ptr_to_uint(smem.dO) + c * Cfg::kColTileBytes, &params.dO_map,
                           smem.do_ready.address(), c * kColTile, row, kOnce);
    }
  }

  // Column tiles [First, End) of the keys into the rows from `row` on of the tile.
  template <int First, int End>
  __device__ __forceinline__ void gather(const Barrier& ready, int row, const Keys& keys) {
    const uint32_t to = cast_smem_ptr_to_uint(smem.kv) + row * kRowBytes;
    CUTE_UNROLL
    for (int c = First; c < End; ++c) {
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) {
        ptx::tma_gather4_own(to + c * Cfg::kColTileBytes + kGather * g * kRowBytes, &params.kv_map,
                             ready.address(), c * kColTile, keys.of[g], kKeep);
      }
    }
  }
};

}  // namespace tileproof::head64
