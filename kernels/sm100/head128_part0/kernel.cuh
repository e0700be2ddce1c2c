// head128-part0: the first part of the sparse MLA attention backward for 128 heads.
//
//   P     = q k^T            per k-block of 64 gathered keys, f32 in TMEM
//   delta = rowsum(o * dO)   f32, to global memory
//
// A cluster of two CTAs works on one query token. Rank r owns heads [64 r, 64 r + 64) and gathers slots
// [32 r, 32 r + 32) of every k-block; the 2-CTA MMA multiplies each rank's heads with all 64 keys.
//
// | warps | role       | rank 0                                    | rank 1                        |
// |-------|------------|-------------------------------------------|-------------------------------|
// | 0-3   | load       | TMA of Q and dO, gather4 of KV            | the same for its half         |
// | 4-7   | p_consumer | tcgen05.ld of its heads of P              | the same                      |
// | 8-11  | delta      | delta of its heads                        | the same                      |
// | 12    | mma        | TMEM alloc, MMAs of both CTAs, TMEM free  | TMEM alloc, TMEM free         |
//
// Barriers (offsets, counts and bytes in the generated plan); b = k % stages, phase = k / stages:
//   q_ready      rank 0     bytes of both CTAs' Q                  load       -> mma
//   do_ready     each rank  bytes of its own dO                    load       -> delta
//   kv_ready[b]  rank 0     bytes of both CTAs' KV tile            load       -> mma
//   kv_free[b]   each rank  commit: the MMAs have read the tile    mma        -> load
//   p_ready[b]   each rank  commit: the accumulator is complete    mma        -> p_consumer
//   p_free[b]    rank 0     256 arrivals: all of P has been read   p_consumer -> mma
#pragma once

#include "sm100/cute.cuh"
#include "sm100/delta.cuh"
#include "sm100/head128_part0/config.cuh"

namespace tileproof::head128_part0 {

constexpr int kLeader = 0;  // the rank whose thread issues the MMAs

template <class Plan, bool Probe>
struct Kernel : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::kEveryRank, Base::lane, Base::params, Base::rank, Base::smem, Base::warp;
  using typename Base::Cfg;
  using typename Base::Storage;

  __device__ __forceinline__ Kernel(const Params& params_, Storage& smem_) : Base(params_, smem_) {}

  __device__ __forceinline__ void run() {
    prologue();
    if (this->template has_role<typename Plan::role::load>()) {
      if (elect_one_sync()) load();
    } else if (this->template has_role<typename Plan::role::p_consumer>()) {
      consume_p();
    } else if (this->template has_role<typename Plan::role::delta>()) {
      compute_delta();
    } else if (rank == kLeader) {
      if (elect_one_sync()) issue_mmas();
    }
    __syncwarp();
    epilogue();
  }

  // Barriers and TMEM exist in both CTAs before either signals the other.
  __device__ __forceinline__ void prologue() {
    // The peer has started: it takes part in the allocation (PTX ISA 9.7.16.7.1).
    cute::cluster_arrive_relaxed();
    cute::cluster_wait();
    if (warp == Plan::role::load::first_warp && elect_one_sync()) {
      smem.q_ready.init(Plan::barrier::q_ready::count);
      smem.do_ready.init(Plan::barrier::do_ready::count);
      CUTE_UNROLL
      for (int b = 0; b < Cfg::kKvStages; ++b) {
        smem.kv_ready[b].init(Plan::barrier::kv_ready::count);
        smem.kv_free[b].init(Plan::barrier::kv_free::count);
      }
      CUTE_UNROLL
      for (int b = 0; b < Cfg::kPStages; ++b) {
        smem.p_ready[b].init(Plan::barrier::p_ready::count);
        smem.p_free[b].init(Plan::barrier::p_free::count);
      }
      cutlass::arch::fence_barrier_init();
      prefetch_tma_descriptor(&params.q_map);
      prefetch_tma_descriptor(&params.dO_map);
      prefetch_tma_descriptor(&params.kv_map);
    }
    if (this->template has_role<typename Plan::role::mma>()) {
      TMEM::Allocator2Sm allocator;
      allocator.allocate(Plan::tmem_columns, &smem.tmem_base);
      allocator.release_allocation_lock();
    }
    __syncwarp();
    cluster_sync();
  }

  // No CTA frees TMEM or exits while its peer may still signal its barriers or multiply into its TMEM.
  __device__ __forceinline__ void epilogue() {
    ptx::fence_before_thread_sync();
    cluster_sync();
    ptx::fence_after_thread_sync();
    if (this->template has_role<typename Plan::role::mma>()) {
      TMEM::Allocator2Sm{}.free(smem.tmem_base, Plan::tmem_columns);
    }
  }

  // ---- load: one thread of each of four warps ----------------------------------------------------------

  __device__ __forceinline__ void load() {
    if (warp == Plan::role::load::first_warp) load_q_and_do();

    constexpr uint64_t kKeep = uint64_t(TMA::CacheHintSm100::EVICT_LAST);  // rows are shared by many tokens
    constexpr int kRowsPerWarp = Cfg::kKeys / Plan::role::load::warps;     // 8, as two gathers of 4
    const int row_in_tile = kRowsPerWarp * warp;
    const int slot_in_block = Cfg::kKeys * rank + row_in_tile;

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int b = k % Cfg::kKvStages;
      const int slot = k * Plan::b_topk + slot_in_block;
      int4 rows[kRowsPerWarp / 4];
      CUTE_UNROLL
      for (int g = 0; g < kRowsPerWarp / 4; ++g) rows[g] = this->key_rows(slot + 4 * g);

      smem.kv_free[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);
      if (rank == kLeader && warp == Plan::role::load::first_warp) {
        smem.kv_ready[b].arrive_own_and_expect_tx(Plan::barrier::kv_ready::tx_bytes);
      }
      const uint32_t ready = smem.kv_ready[b].address_in(kLeader);
      const uint32_t tile = cast_smem_ptr_to_uint(smem.kv[b]) + row_in_tile * kRowBytes;
      CUTE_UNROLL
      for (int c = 0; c < Cfg::kQkTiles; ++c) {
        CUTE_UNROLL
        for (int g = 0; g < kRowsPerWarp / 4; ++g) {
          ptx::tma_gather4(tile + c * Cfg::kKvTileBytes + 4 * g * kRowBytes, &params.kv_map, ready,
                           c * kColTile, rows[g], kKeep);
        }
      }
    }

    // The last commits must have arrived before this CTA may exit.
    CUTE_NO_UNROLL
    for (int k = max(0, k_blocks - Cfg::kKvStages); k < k_blocks; ++k) {
      smem.kv_free[k % Cfg::kKvStages].wait((k / Cfg::kKvStages) & 1);
    }
  }

  __device__ __forceinline__ void load_q_and_do() {
    constexpr uint64_t kOnce = uint64_t(TMA::CacheHintSm100::EVICT_FIRST);
    const int first_row = this->first_head();

    if (rank == kLeader) smem.q_ready.arrive_own_and_expect_tx(Plan::barrier::q_ready::tx_bytes);
    const uint32_t q_ready = smem.q_ready.address_in(kLeader);
    const uint32_t q = cast_smem_ptr_to_uint(smem.q);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kQkTiles; ++c) {
      ptx::tma_load_2d(q + c * Cfg::kQTileBytes, &params.q_map, q_ready, c * kColTile, first_row, kOnce);
    }

    smem.do_ready.arrive_own_and_expect_tx(Plan::barrier::do_ready::tx_bytes);
    const uint32_t do_ready = smem.do_ready.address();
    const uint32_t dO = cast_smem_ptr_to_uint(smem.dO);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kVTiles; ++c) {
      ptx::tma_load_2d(dO + c * Cfg::kQTileBytes, &params.dO_map, do_ready, c * kColTile, first_row, kOnce);
    }
  }

  // ---- mma: one thread of rank 0 -----------------------------------------------------------------------

  __device__ __forceinline__ void issue_mmas() {
    const uint32_t q = cast_smem_ptr_to_uint(smem.q);
    const uint32_t idesc =
        mma_descriptor<bf16, Plan::mma::P::m, Plan::mma::P::n, UMMA::Major::K, UMMA::Major::K>();
    const uint32_t tmem_P = smem.tmem_base + Plan::tmem::P::column;

    smem.q_ready.wait(0);  // also with no k-block: Q's bytes must have landed before the CTAs exit

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int b = k % Cfg::kKvStages;
      const int s = k % Cfg::kPStages;
      const uint32_t kv = cast_smem_ptr_to_uint(smem.kv[b]);

      smem.p_free[s].wait(((k / Cfg::kPStages) & 1) ^ 1);
      smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);
      ptx::fence_after_thread_sync();
      CUTE_UNROLL
      for (int step = 0; step < Plan::mma::P::k; step += kMmaK) {
        ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, k_major<Cfg::kHeads>(q, step),
                             k_major<Cfg::kKeys>(kv, step), idesc, step != 0);
      }
      ptx::commit_pair(smem.kv_free[b].address(), kEveryRank);
      ptx::commit_pair(smem.p_ready[s].address(), kEveryRank);
    }

    // All of P has been read, in both CTAs, before TMEM is freed.
    CUTE_NO_UNROLL
    for (int k = max(0, k_blocks - Cfg::kPStages); k < k_blocks; ++k) {
      smem.p_free[k % Cfg::kPStages].wait((k / Cfg::kPStages) & 1);
    }
  }

  // ---- p_consumer: 128 threads. Layout B: thread t holds head t % 64 and the 32 keys of half t / 64 ------

  __device__ __forceinline__ void consume_p() {
    constexpr int kColumns = Plan::tmem::P::columns;  // 32
    const int t = threadIdx.x % (32 * Plan::role::p_consumer::warps);
    float* row = params.P + int64_t(this->first_head() + t % Cfg::kHeads) * params.topk;
    row += t / Cfg::kHeads * kColumns;

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int s = k % Cfg::kPStages;
      smem.p_ready[s].wait((k / Cfg::kPStages) & 1);
      ptx::fence_after_thread_sync();
      float v[kColumns];
      ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column + s * kColumns), v);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();
      smem.p_free[s].arrive_in(kLeader);

      if constexpr (Probe) {
        float4* to = reinterpret_cast<float4*>(row + k * Plan::b_topk);
        CUTE_UNROLL
        for (int j = 0; j < kColumns; j += 4) to[j / 4] = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
      }
    }
  }

  // ---- delta: 16 heads per warp --------------------------------------------------------------------------

  __device__ __forceinline__ void compute_delta() {
    using Sum = Delta<Plan, typename Plan::role::delta, Cfg::kHeads>;
    const int warp_head = Sum::first_head(warp);
    const int64_t first_row = int64_t(this->first_head()) + warp_head;
    const float delta = Sum::of_warp(params.o + first_row * Plan::d_v, cast_smem_ptr_to_uint(smem.dO),
                                     smem.do_ready, warp_head, lane);
    if (lane < Sum::kHeadsPerWarp) params.delta[first_row + lane] = delta;
  }
};

}  // namespace tileproof::head128_part0
