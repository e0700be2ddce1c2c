// The load role: one thread of each of two warps.
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head128_columns/config.cuh"

namespace tileproof::head128_columns {

template <class Plan>
struct Load : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::params, Base::smem, Base::warp;
  using typename Base::Base::Cfg;

  static constexpr uint64_t kOnce = uint64_t(TMA::CacheHintSm100::EVICT_FIRST);
  static constexpr uint64_t kKeep = uint64_t(TMA::CacheHintSm100::EVICT_LAST);  // rows are shared by tokens

  static constexpr int kGather = 4;                                          // rows of one gather
  static constexpr int kRowsPerWarp = Cfg::kKeys / Plan::role::load::warps;  // 32
  static constexpr int kGathers = kRowsPerWarp / kGather;                    // 8 per column tile

  __device__ __forceinline__ explicit Load(const Base& base) : Base(base) {}

  // By the thread that has initialised q_ready.
  __device__ __forceinline__ void load_q() {
    load(smem.q_ready, Plan::barrier::q_ready::tx_bytes, cast_smem_ptr_to_uint(smem.q), &params.q_map);
    if constexpr (Cfg::kRope != 0) {
      ptx::tma_load_2d_own(cast_smem_ptr_to_uint(smem.q_rope), &params.q_rope_map, smem.q_ready.address(),
                           this->first_rope_column(), this->token_row(), kOnce);
    }
  }

  __device__ __forceinline__ void run() {
    const bool first = warp == Plan::role::load::first_warp;
    if (first && k_blocks == 0) load_do();

    const int row = kRowsPerWarp * (warp - Plan::role::load::first_warp);
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int stage = k % Cfg::kKvStages;
      int4 rows[kGathers];
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) rows[g] = this->key_rows(k * Plan::b_topk + row + kGather * g);

      const uint32_t kv = cast_smem_ptr_to_uint(smem.kv[stage]);
      smem.kv_lo_free[stage].wait_own((k / Cfg::kKvStages & 1) ^ 1);
      if (first) smem.kv_lo_ready[stage].arrive_own_and_expect_tx(Plan::barrier::kv_lo_ready::tx_bytes);
      gather(kv, smem.kv_lo_ready[stage].address(), row, this->first_column(), rows);
      gather_rope(stage, row, rows);

      if constexpr (Cfg::kRoomy) {
        smem.kv_hi_free[stage].wait_own((k / Cfg::kKvStages & 1) ^ 1);
      } else {
        smem.kv_hi_free[0].wait_own((k & 1) ^ 1);  // where the shares of the k-block before this one arrived
      }
      CUTE_UNROLL
      for (int part = 0; part < Cfg::kHiParts; ++part) {
        constexpr int kTiles = Cfg::kHalfTiles / Cfg::kHiParts;
        Barrier& ready = smem.kv_hi_ready[stage * Cfg::kHiParts + part];
        if (first) ready.arrive_own_and_expect_tx(Plan::barrier::kv_hi_ready::tx_bytes);
        gather<kTiles>(kv + Cfg::kKvHalfBytes + part * kTiles * Cfg::kKeyTileBytes, ready.address(), row,
                       this->first_column() + Cfg::kHalfCols + part * kTiles * kColTile, rows);
      }
      if (first && k == 0) load_do();  // P comes before dP, and so do its operands
    }

    // The last commits must have arrived before this CTA may exit.
    CUTE_NO_UNROLL
    for (int k = max(0, k_blocks - Cfg::kKvStages); k < k_blocks; ++k) {
      smem.kv_lo_free[k % Cfg::kKvStages].wait_own(k / Cfg::kKvStages & 1);
      if constexpr (Cfg::kRoomy) smem.kv_hi_free[k % Cfg::kKvStages].wait_own(k / Cfg::kKvStages & 1);
    }
  }

 private:
  __device__ __forceinline__ void load_do() {
    load(smem.do_ready, Plan::barrier::do_ready::tx_bytes, cast_smem_ptr_to_uint(smem.dO), &params.dO_map);
  }

  // All heads of the CTA's columns.
  __device__ __forceinline__ void load(Barrier& ready, uint32_t bytes, uint32_t to, const void* map) {
    ready.arrive_own_and_expect_tx(bytes);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kColTiles; ++c) {
      ptx::tma_load_2d_own(to + c * Cfg::kHeadTileBytes, map, ready.address(),
                           this->first_column() + c * kColTile, this->token_row(), kOnce);
    }
  }

  // Column tiles from `col` on of this warp's keys, into rows from `row` on.
  template <int Tiles = Cfg::kHalfTiles>
  __device__ __forceinline__ void gather(uint32_t tile, uint32_t ready, int row, int col,
                                         const int4 (&rows)[kGathers]) {
    const uint32_t to = tile + row * kRowBytes;
    CUTE_UNROLL
    for (int c = 0; c < Tiles; ++c) {
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) {
        ptx::tma_gather4_own(to + c * Cfg::kKeyTileBytes + kGather * g * kRowBytes, &params.kv_map, ready,
                             col + c * kColTile, rows[g], kKeep);
      }
    }
  }

  __device__ __forceinline__ void gather_rope(int stage, int row, const int4 (&rows)[kGathers]) {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t to =
          cast_smem_ptr_to_uint(smem.kv_rope) + stage * Cfg::kNarrowKeyBytes + row * kNarrowRowBytes;
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) {
        ptx::tma_gather4_own(to + kGather * g * kNarrowRowBytes, &params.kv_rope_map,
                             smem.kv_lo_ready[stage].address(), this->first_rope_column(), rows[g], kKeep);
      }
    }
  }
};

}  // namespace tileproof::head128_columns
