// The dkv_export role: 256 threads. First delta over the CTA's columns, to the peer too; then
// the transposed dKV accumulators to global memory, one warpgroup a part: a TMEM lane, and so a thread, holds
// one column of kv, its registers hold the keys. A part is free when it is in registers, before its
// additions.
//
// One red.global.add.f32 of a warp then adds 32 neighbouring columns of one row, 128 bytes, which is what the
// atomic units want (docs/limits.md). Rows are shuffled into registers some at a time before the additions
// that need them. A slot that is no key issues nothing: an added zero would still rewrite memory (red flushes
// subnormals, quiets NaNs).
#pragma once

#include "sm100/delta.cuh"
#include "sm100/head128_columns/config.cuh"

namespace tileproof::head128_columns {

template <class Plan>
struct DkvExport : Context<Plan> {
  using Base = Context<Plan>;
  using Base::indices, Base::k_blocks, Base::lane, Base::params, Base::rank, Base::smem, Base::warp;
  using typename Base::Base::Cfg;

  static constexpr int kTogether = 8;  // rows that are in registers at a time

  __device__ __forceinline__ explicit DkvExport(const Base& base) : Base(base) {}

  __device__ __forceinline__ void run() {
    compute_delta();
    ptx::wait_for_previous_grid();  // which cleared dKV
    const int part = (warp - Plan::role::dkv_export::first_warp) / 4;
    float* column = params.dKV + this->first_column() + part * Cfg::kDkvM + 32 * (warp % 4) + lane;
    const uint32_t row = this->tmem(0);
    const uint32_t tmem = row + Plan::tmem::dKV::column + part * Plan::tmem::dKV::columns;
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      // Lane l keeps the rows of keys l and 32 + l.
      const int slot = k * Plan::b_topk + lane;
      const int rows[2] = {this->key_row(__ldg(indices + slot), slot),
                           this->key_row(__ldg(indices + slot + 32), slot + 32)};
      if (part == 0) add_rope(k, rows, row);
      float v[2][32];
      smem.dkv_ready[part].wait_own(k & 1);
      ptx::fence_after_thread_sync();
      ptx::load_tmem_32_columns(tmem, v[0]);
      ptx::load_tmem_32_columns(tmem + 32, v[1]);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();
      __syncwarp();
      if (lane == 0) smem.dkv_free[part].arrive();
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        CUTE_UNROLL
        for (int first = 0; first < 32; first += kTogether) {
          int row[kTogether];
          CUTE_UNROLL
          for (int j = 0; j < kTogether; ++j) row[j] = __shfl_sync(0xffffffff, rows[half], first + j);
          CUTE_UNROLL
          for (int j = 0; j < kTogether; ++j) add_to_row(column, row[j], v[half][first + j]);
        }
      }
    }
  }

 private:
  // RoPE columns: layout G, lane = column, the keys of a quarter. Read before part 0, whose dkv_free covers
  // it.
  __device__ __forceinline__ void add_rope(int k, const int (&rows)[2], uint32_t row) {
    if constexpr (Cfg::kRope != 0) {
      constexpr int kKeys = Plan::tmem::dKV_rope::columns;  // 16
      float v[kKeys];
      smem.rope_ready[0].wait_own(k & 1);
      ptx::fence_after_thread_sync();
      ptx::load_tmem_16_columns(row + Plan::tmem::dKV_rope::column, v);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();  // of the arrival on dkv_free
      const int first = kKeys * (warp % 4);
      float* column = params.dKV + this->first_rope_column() + lane;
      CUTE_UNROLL
      for (int j = 0; j < kKeys; ++j) {
        add_to_row(column, __shfl_sync(0xffffffff, first < 32 ? rows[0] : rows[1], (first + j) % 32), v[j]);
      }
    }
  }

  // *(column + row * d_qk) += x, unless row is negative. Written out, so that nothing branches.
  __device__ __forceinline__ static void add_to_row(float* column, int row, float x) {
    asm volatile(
        "{\n\t"
        ".reg .pred is_key;\n\t"
        ".reg .b64 address;\n\t"
        "setp.ge.s32 is_key, %1, 0;\n\t"
        "mad.wide.s32 address, %1, %2, %0;\n\t"
        "@is_key red.global.add.f32 [address], %3;\n\t"
        "}"
        :
        : "l"(column), "r"(row), "n"(Plan::d_qk * int(sizeof(float))), "f"(x)
        : "memory");
  }

  // delta over the CTA's columns: for its own softmax and for the peer's.
  __device__ __forceinline__ void compute_delta() {
    using Sum = Delta<Plan, typename Plan::role::dkv_export, Cfg::kAllHeads, Cfg::kCols>;
    const int warp_head = Sum::first_head(warp);
    const float delta =
        Sum::of_warp(params.o + int64_t(this->token_row() + warp_head) * Plan::d_v + this->first_column(),
                     cast_smem_ptr_to_uint(smem.dO), smem.do_ready, warp_head, lane);
    if (lane < Sum::kHeadsPerWarp) {
      const int head = warp_head + lane;
      smem.delta_own[head] = delta;
      const uint32_t to = cast_smem_ptr_to_uint(smem.delta_incoming + head);
      ptx::store_async_4(this->in_peer(to), delta, this->in_peer(smem.delta_ready.address()));
    }
    __syncwarp();
    if (lane == 0) {
      if (warp_head == 0) {
        smem.delta_ready.arrive_own_and_expect_tx(Plan::barrier::delta_ready::tx_bytes);
      } else {
        smem.delta_ready.arrive();
      }
    }
  }
};

}  // namespace tileproof::head128_columns
