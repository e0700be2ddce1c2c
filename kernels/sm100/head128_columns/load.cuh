// The load role: one thread of each of two warps.
#pragma once

#include <cute/arch/copy_sm100_tma.hpp>

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

  __device__ __forceinline__ void run() {
    const bool first = warp == Plan::role::load::first_warp;
    if (first) load_q_and_do();

    const int row = kRowsPerWarp * (warp - Plan::role::load::first_warp);
    uint32_t stage = 0, parity = 0;  // of the ring
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      int4 rows[kGathers];
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) rows[g] = this->key_rows(k * Plan::b_topk + row + kGather * g);
      CUTE_NO_UNROLL
      for (int half = 0; half < Cfg::kKvHalves; ++half) {
        smem.kv_free[stage].wait_own(parity ^ 1);
        if (first) smem.kv_ready[stage].arrive_own_and_expect_tx(Plan::barrier::kv_ready::tx_bytes);
        gather(stage, row, this->first_column() + half * Cfg::kKvCols, rows);
        advance(stage, parity);
      }
    }

    // The last commits must have arrived before this CTA may exit.
    const int uses = k_blocks * Cfg::kKvHalves;
    CUTE_NO_UNROLL
    for (int use = max(0, uses - Cfg::kKvStages); use < uses; ++use) {
      smem.kv_free[use % Cfg::kKvStages].wait_own(use / Cfg::kKvStages & 1);
    }
  }

  // The next use of the ring.
  __device__ __forceinline__ static void advance(uint32_t& stage, uint32_t& parity) {
    if (++stage == Cfg::kKvStages) {
      stage = 0;
      parity ^= 1;
    }
  }

 private:
  __device__ __forceinline__ void load_q_and_do() {
    load(smem.q_ready, Plan::barrier::q_ready::tx_bytes, cast_smem_ptr_to_uint(smem.q), &params.q_map);
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

  // Columns from `col` on of this warp's keys, into rows from `row` on of a stage of the ring.
  __device__ __forceinline__ void gather(uint32_t stage, int row, int col, const int4 (&rows)[kGathers]) {
    const uint32_t to = cast_smem_ptr_to_uint(smem.kv[0]) + stage * Cfg::kKvBytes + row * kRowBytes;
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kKvTiles; ++c) {
      CUTE_UNROLL
      for (int g = 0; g < kGathers; ++g) {
        ptx::tma_gather4_own(to + c * Cfg::kKeyTileBytes + kGather * g * kRowBytes, &params.kv_map,
                             smem.kv_ready[stage].address(), col + c * kColTile, rows[g], kKeep);
      }
    }
  }
};

}  // namespace tileproof::head128_columns
