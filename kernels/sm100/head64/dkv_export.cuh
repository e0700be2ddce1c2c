// The dkv_export role: 128 threads. First delta of the CTA's heads, then, part by part, the transposed dKV
// accumulators to global memory: a TMEM lane, and so a thread, holds one column of kv, its registers hold
// keys.
//
// One red.global.add.f32 of a warp then adds 32 neighbouring columns of one row, 128 bytes. With keys in the
// lanes a vector of 16 bytes per lane would touch 32 rows, at less than half the rate; cp.reduce.async.bulk
// would need the part in shared memory, of which the operands leave nothing, and adds no faster
// (docs/limits.md). A slot that is no key issues nothing: an added zero would still rewrite memory (red
// flushes subnormals, quiets NaNs).
#pragma once

#include "sm100/delta.cuh"
#include "sm100/head64/config.cuh"

namespace tileproof::head64 {

template <class Plan>
struct DkvExport : Context<Plan> {
  using Base = Context<Plan>;
  using Base::indices, Base::k_blocks, Base::lane, Base::params, Base::smem, Base::warp;
  using typename Base::Cfg;

  static constexpr int kThreads = 32 * Plan::role::dkv_export::warps;

  __device__ __forceinline__ explicit DkvExport(const Base& base) : Base(base) {}

  __device__ __forceinline__ void run() {
    compute_delta();
    ptx::wait_for_previous_grid();  // which cleared dKV
    const int t = threadIdx.x % kThreads;
    const uint32_t tmem = this->tmem(0);  // read once, as IssueMmas does
    int next[2] = {};                     // indices of the next k-block, read a k-block ahead
    if (k_blocks > 0) read_indices(lane, next);
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      // Lane l keeps the rows of keys l and 32 + l.
      const int slot = k * Plan::b_topk + lane;
      const int rows[2] = {this->key_row(next[0], slot), this->key_row(next[1], slot + 32)};
      if (k + 1 < k_blocks) read_indices((k + 1) * Plan::b_topk + lane, next);

      // The order in which the parts are published.
      CUTE_UNROLL
      for (int part = 0; part < Cfg::kDkvParts; ++part) {
        if (Cfg::kRope != 0 && part == Cfg::kDkvStages) add_rope(k, rows, tmem, t);
        const int b = part % Cfg::kDkvStages;
        const int use = k * Cfg::kPartsPerStage + part / Cfg::kDkvStages;
        smem.dkv_ready[b].wait_own(use & 1);
        float v[2][32];
        const uint32_t column = tmem + Plan::tmem::dKV::column + b * Plan::tmem::dKV::columns;
        ptx::fence_after_thread_sync();
        ptx::load_tmem_32_columns(column, v[0]);
        ptx::load_tmem_32_columns(column + 32, v[1]);
        ptx::wait_tmem_loads();
        ptx::fence_before_thread_sync();
        smem.dkv_free[b].arrive();
        CUTE_UNROLL
        for (int half = 0; half < 2; ++half) add(v[half], rows[half], part * Cfg::kDkvM + t);
      }
    }
  }

 protected:
  __device__ __forceinline__ void read_indices(int slot, int (&of)[2]) const {
    of[0] = __ldg(indices + slot);
    of[1] = __ldg(indices + slot + 32);
  }

  // RoPE columns: layout E, lane = column t % 64, the keys of half t / 64.
  __device__ __forceinline__ void add_rope(int k, const int (&rows)[2], uint32_t tmem, int t) {
    if constexpr (Cfg::kRope != 0) {
      float v[32];
      smem.rope_ready[0].wait_own(k & 1);
      ptx::fence_after_thread_sync();
      ptx::load_tmem_32_columns(tmem + Plan::tmem::dKV_rope::column, v);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();  // of the arrival on the next part's dkv_free
      add(v, t < Cfg::kRope ? rows[0] : rows[1], Plan::d_v + t % Cfg::kRope);
    }
  }

  // Value j is added to column `column` of the row that lane j keeps, where there is one. Where every slot is
  // a key the additions stand in one block of straight code: a test per key costs a branch, and ptxas then
  // computes each address in the registers that the addition before still reads (docs/limits.md).
  __device__ __forceinline__ void add(const float (&v)[32], int rows, int column) {
    if (__all_sync(0xffffffff, rows >= 0)) {
      add_rows<true>(v, rows, column);
    } else {
      add_rows<false>(v, rows, column);
    }
  }

  // The same, with `Every` known. All shuffles come first, and the pointer is read from the parameters once.
  template <bool Every>
  __device__ __forceinline__ void add_rows(const float (&v)[32], int rows, int column) {
    float* const out = params.dKV + column;
    int row[32];
    CUTE_UNROLL
    for (int j = 0; j < 32; ++j) row[j] = __shfl_sync(0xffffffff, rows, j);
    CUTE_UNROLL
    for (int j = 0; j < 32; ++j) {
      if (Every || row[j] >= 0) ptx::red_add(out + int64_t(row[j]) * Plan::d_qk, v[j]);
    }
  }

  // delta of the CTA's heads to global memory and, for softmax, to shared memory.
  __device__ __forceinline__ void compute_delta() {
    using Sum = Delta<Plan, typename Plan::role::dkv_export, Cfg::kHeads>;
    const int warp_head = Sum::first_head(warp);
    const int64_t first_row = int64_t(this->first_head()) + warp_head;
    const float delta = Sum::of_warp(params.o + first_row * Plan::d_v, cast_smem_ptr_to_uint(smem.dO),
                                     smem.do_ready, warp_head, lane);
    if (lane < Sum::kHeadsPerWarp) {
      params.delta[first_row + lane] = delta;
      smem.delta[warp_head + lane] = delta;
    }
    smem.delta_ready.arrive();
  }
};

}  // namespace tileproof::head64
