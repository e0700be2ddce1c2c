// head128-columns: the sparse MLA attention backward for 128 heads, the columns shared out over a pair of
// CTAs.
//
// Rank r has columns [256 r, 256 r + 256) of Q, dO, KV, dQ and dKV (with RoPE also 32 of its columns), for
// all 128 heads; it finishes P and dP of keys [32 r, 32 r + 32) of each k-block, of which its peer sends it
// the sums over the other columns, and makes S and dS of them for both.
//
// | warps | role       | does                                                                             |
// |-------|------------|----------------------------------------------------------------------------------|
// | 0-1   | load       | TMA of Q and dO; gather4 of KV                                                   |
// | 2     | mma        | TMEM alloc, every MMA, TMEM free                                                 |
// | 3     | signal     | signals to the peer that its shares have been read                               |
// | 4-11  | softmax    | exchange of P and dP; S and dS into both CTAs' shared memory; at the end dQ      |
// | 12-19 | dkv_export | delta; then dKV from TMEM to rows of global memory                               |
//
// Barriers (offsets, counts and bytes in the generated plan), one of each in every CTA:
//   q_ready, do_ready          bytes of Q, of dO                       load         -> mma, dkv_export
//   delta_ready                8 arrivals, bytes of the peer           dkv_export   -> softmax
//   kv_lo_ready[2]             bytes of half the columns               load         -> mma
//   kv_hi_ready[2 or 4]        of the other half, or a tile of it      load         -> mma
//   kv_lo_free[2]              commits                                 mma          -> load
//   kv_hi_free                 commits, or 4 arrivals where shares lay there   mma, softmax -> load
//   p_ready, dp_ready          commits                                 mma          -> softmax
//   p_free, dp_free            8 arrivals                              softmax      -> mma
//   in_ready                   bytes of the peer's P, then dP          peer softmax -> softmax
//   in_p_read, in_dp_read      4 arrivals                              softmax      -> mma, signal
//   s_sent, ds_sent            4 arrivals                              softmax      -> softmax
//   in_p_free                  commit of the peer, or its arrival      peer mma, signal -> softmax
//   in_dp_free                 arrival of the peer: P was read         peer signal  -> softmax
//   s_ready, ds_ready          4 arrivals, bytes of the peer           softmax      -> mma
//   s_free, ds_free            commits of both CTAs                    mma          -> softmax
//   dkv_ready[2]               commits                                 mma          -> dkv_export
//   dkv_free[2]                4 arrivals                              dkv_export   -> mma
//   rope_ready                 commit                                  mma          -> dkv_export
//   dq_ready[2]                commit, once                            mma          -> softmax
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head128_columns/dkv_export.cuh"
#include "sm100/head128_columns/load.cuh"
#include "sm100/head128_columns/mma.cuh"
#include "sm100/head128_columns/signal.cuh"
#include "sm100/head128_columns/softmax.cuh"

namespace tileproof::head128_columns {

template <class Plan, bool Probe>
struct Kernel : Context<Plan> {
  using Base = Context<Plan>;
  using Base::params, Base::smem, Base::warp;
  using typename Base::Base::Cfg;
  using typename Base::Base::Storage;

  __device__ __forceinline__ Kernel(const Params& params_, Storage& smem_) : Base(params_, smem_) {}

  // What a warp does for its own CTA only may begin before every CTA has its barriers.
  __device__ __forceinline__ void run() {
    if (this->template has_role<typename Plan::role::load>()) {
      load();
    } else {
      if (this->template has_role<typename Plan::role::mma>()) {
        TMEM::Allocator1Sm allocator;
        allocator.allocate(Plan::tmem_columns, &smem.tmem_base);
        allocator.release_allocation_lock();
      }
      __syncwarp();
      cluster_sync();
      if (this->template has_role<typename Plan::role::softmax>()) {
        Softmax<Plan, Probe>(*this).run();
      } else if (this->template has_role<typename Plan::role::dkv_export>()) {
        DkvExport<Plan>(*this).run();
      } else if (this->template has_role<typename Plan::role::mma>()) {
        if (elect_one_sync()) IssueMmas<Plan>(*this).run();
      } else if (this->template has_role<typename Plan::role::signal>()) {
        if (elect_one_sync()) Signal<Plan>(*this).run();
      }
      __syncwarp();
    }
    epilogue();
  }

 private:
  static constexpr int kLoadBarrier = 2;  // named, of the load warps

  __device__ __forceinline__ void load() {
    if (warp == Plan::role::load::first_warp && elect_one_sync()) {
      init_barriers();
      Load<Plan>(*this).load_q();
      prefetch_tma_descriptor(&params.dO_map);
      prefetch_tma_descriptor(&params.kv_map);
      prefetch_tma_descriptor(&params.dQ_map);
    }
    __syncwarp();
    cluster_arrive_relaxed();  // fence.mbarrier_init stands before it
    asm volatile("bar.sync %0, %1;" : : "n"(kLoadBarrier), "n"(32 * Plan::role::load::warps) : "memory");
    if (elect_one_sync()) Load<Plan>(*this).run();
    __syncwarp();
    cluster_wait();
  }

  // Of one thread, which may then use them.
  __device__ __forceinline__ void init_barriers() {
    using B = typename Plan::barrier;
    smem.q_ready.init(B::q_ready::count);
    smem.do_ready.init(B::do_ready::count);
    smem.delta_ready.init(B::delta_ready::count);
    CUTE_UNROLL
    for (int b = 0; b < Cfg::kKvStages; ++b) {
      smem.kv_lo_ready[b].init(B::kv_lo_ready::count);
      smem.kv_lo_free[b].init(B::kv_lo_free::count);
    }
    CUTE_UNROLL
    for (int b = 0; b < B::kv_hi_ready::stages; ++b) smem.kv_hi_ready[b].init(B::kv_hi_ready::count);
    CUTE_UNROLL
    for (int b = 0; b < B::kv_hi_free::stages; ++b) smem.kv_hi_free[b].init(B::kv_hi_free::count);
    smem.p_ready.init(B::p_ready::count);
    smem.dp_ready.init(B::dp_ready::count);
    smem.p_free.init(B::p_free::count);
    smem.dp_free.init(B::dp_free::count);
    smem.in_ready.init(B::in_ready::count);
    smem.in_p_read.init(B::in_p_read::count);
    smem.in_dp_read.init(B::in_dp_read::count);
    smem.s_sent.init(B::s_sent::count);
    smem.ds_sent.init(B::ds_sent::count);
    smem.in_p_free.init(B::in_p_free::count);
    smem.in_dp_free.init(B::in_dp_free::count);
    smem.s_ready.init(B::s_ready::count);
    smem.ds_ready.init(B::ds_ready::count);
    smem.s_free.init(B::s_free::count);
    smem.ds_free.init(B::ds_free::count);
    CUTE_UNROLL
    for (int b = 0; b < Cfg::kDkvParts; ++b) {
      smem.dkv_ready[b].init(B::dkv_ready::count);
      smem.dkv_free[b].init(B::dkv_free::count);
    }
    if constexpr (Cfg::kRope != 0) smem.rope_ready[0].init(B::rope_ready::count);
    CUTE_UNROLL
    for (int h = 0; h < B::dq_ready::stages; ++h) smem.dq_ready[h].init(B::dq_ready::count);
    cutlass::arch::fence_barrier_init();
  }

  // TMEM is free of readers when it is freed. No CTA exits while its peer may still signal its barriers or
  // write its shared memory: softmax arrives when it has done the last of that; what others sent has been
  // waited for.
  __device__ __forceinline__ void epilogue() {
    if (!this->template has_role<typename Plan::role::softmax>()) cluster_arrive_relaxed();
    ptx::fence_before_thread_sync();
    __syncthreads();
    ptx::fence_after_thread_sync();
    if (this->template has_role<typename Plan::role::mma>()) {
      TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);
    }
    cluster_wait();
  }
};

}  // namespace tileproof::head128_columns
