// The softmax role: 128 threads. Thread t holds head t % 64 and the 32 keys of half t / 64, as layout E lays
// P and dP over the TMEM lanes.
#pragma once

#include "sm100/head64/config.cuh"

namespace tileproof::head64 {

template <class Plan, bool Probe>
struct Softmax : Context<Plan> {
  using Base = Context<Plan>;
  using Base::indices, Base::k_blocks, Base::lane, Base::params, Base::smem;
  using typename Base::Cfg;

  static constexpr int kThreads = 32 * Plan::role::softmax::warps;
  static constexpr int kNamedBarrier = 1;
  static constexpr int kKeysPerThread = Cfg::kKeys / 2;  // 32
  static constexpr int kChunk = 8;                       // elements in a 16-byte access

  int head;  // of the CTA's 64
  int half;  // of the k-block's keys, or of an accumulator's columns

  __device__ __forceinline__ explicit Softmax(const Base& base) : Base(base) {
    const int t = threadIdx.x % kThreads;
    head = t % Cfg::kHeads;
    half = t / Cfg::kHeads;
  }

  __device__ __forceinline__ void run() {
    const float lse = __ldg(params.lse + this->first_head() + head);
    smem.delta_ready.wait_own(0);
    const float delta = smem.delta[head];

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const uint32_t parity = k & 1;
      const uint32_t keys = key_mask(k);
      float x[kKeysPerThread];  // P, then dP, then dS
      float s[kKeysPerThread];

      smem.p_ready.wait_own(parity);
      ptx::fence_after_thread_sync();
      ptx::load_tmem_32_columns(this->tmem(Plan::tmem::P::column), x);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();
      if constexpr (Probe) store_probe(params.P, k, x);
      CUTE_UNROLL
      for (int j = 0; j < kKeysPerThread; ++j) {
        // Not a product with 0: where no key counts exp2 may be infinite.
        s[j] = (keys >> j & 1) ? ptx::exp2_approx(fmaf(x[j], params.sm_scale_log2e, -lse)) : 0.0f;
      }
      if constexpr (Probe) store_probe(params.S, k, s);
      // p_ready also signals that the MMAs of the previous k-block have read S and dS: they were issued
      // before P.
      store_operand(cast_smem_ptr_to_uint(smem.s), s);
      ptx::fence_proxy_async_shared();
      smem.s_ready.arrive();

      smem.dp_ready.wait_own(parity);
      ptx::fence_after_thread_sync();
      ptx::load_tmem_32_columns(this->tmem(Plan::tmem::dP::column), x);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();
      if constexpr (Probe) store_probe(params.dP, k, x);
      CUTE_UNROLL
      for (int j = 0; j < kKeysPerThread; ++j) {
        x[j] = (keys >> j & 1) ? s[j] * (x[j] - delta) * params.sm_scale : 0.0f;
      }
      if constexpr (Probe) store_probe(params.dS, k, x);
      store_operand(cast_smem_ptr_to_uint(smem.ds), x);
      ptx::fence_proxy_async_shared();
      smem.ds_ready.arrive();
    }
    store_dq();
  }

 private:
  // Bit j: slot j of this thread's half of k-block k is a key.
  __device__ __forceinline__ uint32_t key_mask(int k) const {
    const int slot = k * Plan::b_topk + half * kKeysPerThread + lane;
    return __ballot_sync(0xffffffff, this->key_row(__ldg(indices + slot), slot) >= 0);
  }

  // This thread's 32 keys, rounded to operands, into row `head` of an operand tile.
  __device__ __forceinline__ void store_operand(uint32_t tile, const float (&v)[kKeysPerThread]) const {
    CUTE_UNROLL
    for (int c = 0; c < kKeysPerThread / kChunk; ++c) {
      ptx::store_shared_16(tile + swizzled_chunk(head, half * (kKeysPerThread / kChunk) + c),
                           pack<typename Cfg::Element>(v + c * kChunk));
    }
  }

  // dQ from TMEM, or zeros where the token has no k-block, by way of KV's bytes to global memory.
  __device__ __forceinline__ void store_dq() const {
    if (k_blocks > 0) {
      smem.dq_ready.wait_own(0);
      ptx::fence_after_thread_sync();
    }
    constexpr int kColumns = Plan::tmem::dQ::columns;  // 128 per thread and part
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDqParts; ++part) {
      stage_dq<kColumns>(Plan::tmem::dQ::column + part * kColumns, part * Cfg::kDqN + half * kColumns);
    }
    if constexpr (Cfg::kRope != 0) {
      constexpr int kRopeColumns = Plan::tmem::dQ_rope::columns;
      stage_dq<kRopeColumns>(Plan::tmem::dQ_rope::column, Plan::d_v + half * kRopeColumns);
    }
    ptx::fence_before_thread_sync();
    ptx::fence_proxy_async_shared();
    asm volatile("bar.sync %0, %1;" : : "n"(kNamedBarrier), "n"(kThreads) : "memory");
    if (threadIdx.x % kThreads == 0) {
      const uint32_t staged = cast_smem_ptr_to_uint(smem.kv);
      CUTE_UNROLL
      for (int c = 0; c < Cfg::kQkTiles; ++c) {
        ptx::tma_store_2d(&params.dQ_map, staged + c * Cfg::kColTileBytes, c * kColTile, this->first_head());
      }
      ptx::commit_bulk_group();
      ptx::wait_bulk_groups();
    }
  }

  // `Columns` accumulator columns from `column` on become columns [first, first + Columns) of row `head`.
  template <int Columns>
  __device__ __forceinline__ void stage_dq(int column, int first) const {
    CUTE_NO_UNROLL
    for (int at = 0; at < Columns; at += 32) {
      float v[32];
      if (k_blocks > 0) {
        ptx::load_tmem_32_columns(this->tmem(column + at), v);
        ptx::wait_tmem_loads();
      } else {
        CUTE_UNROLL
        for (int j = 0; j < 32; ++j) v[j] = 0.0f;
      }
      const int col = first + at;
      const uint32_t tile = cast_smem_ptr_to_uint(smem.kv) + col / kColTile * Cfg::kColTileBytes;
      CUTE_UNROLL
      for (int c = 0; c < 32 / kChunk; ++c) {
        ptx::store_shared_16(tile + swizzled_chunk(head, col % kColTile / kChunk + c),
                             pack<typename Cfg::Element>(v + c * kChunk));
      }
    }
  }

  // Row `head`, this thread's 32 slots of k-block k of a [s_q, h_q, topk] output.
  template <class T>
  __device__ __forceinline__ void store_probe(T* to, int k, const float (&v)[kKeysPerThread]) const {
    to += int64_t(this->first_head() + head) * params.topk + k * Plan::b_topk + half * kKeysPerThread;
    CUTE_UNROLL
    for (int j = 0; j < kKeysPerThread; ++j) to[j] = T(v[j]);
  }
};

}  // namespace tileproof::head64
