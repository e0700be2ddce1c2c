// head64: the sparse MLA attention backward for 64 heads. One CTA works on one query token: per k-block of 64
// gathered keys it computes P, S, dP, dS, dQ and dKV.
//
// | warps | role       | does                                                                             |
// |-------|------------|----------------------------------------------------------------------------------|
// | 0-3   | load       | TMA of Q and dO; gather4 of KV                                                   |
// | 4-7   | softmax    | S and dS, from TMEM to shared memory; at the end dQ                              |
// | 8-11  | dkv_export | delta; then dKV from TMEM to rows of global memory                               |
// | 12    | mma        | TMEM alloc, every MMA, TMEM free                                                 |
//
// Barriers (offsets, counts and bytes in the generated plan):
//   q_ready, do_ready          bytes of Q, of dO                      load       -> mma, dkv_export
//   delta_ready                128 arrivals                           dkv_export -> softmax
//   kv_lo_ready, kv_hi_ready   bytes of half of the columns           load       -> mma
//   kv_lo_free, kv_hi_free     commits                                mma        -> load
//   p_ready, dp_ready          commits                                mma        -> softmax
//   s_ready, ds_ready          128 arrivals; P, dP have been read     softmax    -> mma
//   dkv_ready[2], rope_ready   commits                                mma        -> dkv_export
//   dkv_free[2]                128 arrivals                           dkv_export -> mma
//   dq_ready                   commit, once                           mma        -> softmax
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head64/dkv_export.cuh"
#include "sm100/head64/load.cuh"
#include "sm100/head64/mma.cuh"
#include "sm100/head64/softmax.cuh"

namespace tileproof::head64 {

template <class Plan, bool Probe>
struct Kernel : Context<Plan> {
  using Base = Context<Plan>;
  using Base::params, Base::smem, Base::warp;
  using typename Base::Cfg;
  using typename Base::Storage;

  __device__ __forceinline__ Kernel(const Params& params_, Storage& smem_) : Base(params_, smem_) {}

  __device__ __forceinline__ void run() {
    prologue();
    if (this->template has_role<typename Plan::role::load>()) {
      if (elect_one_sync()) Load<Plan>(*this).run();
    } else if (this->template has_role<typename Plan::role::softmax>()) {
      Softmax<Plan, Probe>(*this).run();
    } else if (this->template has_role<typename Plan::role::dkv_export>()) {
      DkvExport<Plan>(*this).run();
    } else {
      if (elect_one_sync()) IssueMmas<Plan>(*this).run();
    }
    __syncwarp();
    epilogue();
  }

 private:
  // Barriers exist before anybody signals them.
  __device__ __forceinline__ void prologue() {
    if (warp == Plan::role::load::first_warp && elect_one_sync()) {
      using B = typename Plan::barrier;
      smem.q_ready.init(B::q_ready::count);
      smem.do_ready.init(B::do_ready::count);
      smem.delta_ready.init(B::delta_ready::count);
      smem.kv_lo_ready.init(B::kv_lo_ready::count);
      CUTE_UNROLL
      for (int part = 0; part < Cfg::kHiParts; ++part) smem.kv_hi_ready[part].init(B::kv_hi_ready::count);
      smem.kv_lo_free.init(B::kv_lo_free::count);
      smem.kv_hi_free.init(B::kv_hi_free::count);
      smem.p_ready.init(B::p_ready::count);
      smem.dp_ready.init(B::dp_ready::count);
      smem.s_ready.init(B::s_ready::count);
      smem.ds_ready.init(B::ds_ready::count);
      CUTE_UNROLL
      for (int b = 0; b < Cfg::kDkvStages; ++b) {
        smem.dkv_ready[b].init(B::dkv_ready::count);
        smem.dkv_free[b].init(B::dkv_free::count);
      }
      if constexpr (Cfg::kRope != 0) {
        smem.rope_ready[0].init(B::rope_ready::count);
      }
      smem.dq_ready.init(B::dq_ready::count);
      cutlass::arch::fence_barrier_init();
      prefetch_tma_descriptor(&params.q_map);
      prefetch_tma_descriptor(&params.dO_map);
      prefetch_tma_descriptor(&params.kv_map);
      prefetch_tma_descriptor(&params.dQ_map);
    }
    if (this->template has_role<typename Plan::role::mma>()) {
      TMEM::Allocator1Sm allocator;
      allocator.allocate(Plan::tmem_columns, &smem.tmem_base);
      allocator.release_allocation_lock();
    }
    __syncwarp();
    cluster_sync();
  }

  // TMEM is free of readers.
  __device__ __forceinline__ void epilogue() {
    ptx::fence_before_thread_sync();
    cluster_sync();
    ptx::fence_after_thread_sync();
    if (this->template has_role<typename Plan::role::mma>()) {
      TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);
    }
  }
};

}  // namespace tileproof::head64
