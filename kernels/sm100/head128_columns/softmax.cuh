// The softmax role: 256 threads. A thread has a head (a TMEM lane) and 32 of the k-block's keys; two warps
// per lane quarter, and so per scheduler. The warps of the keys that the peer finishes send it the CTA's
// share of P and dP; those of the CTA's own keys add the peer's share and make S and dS for both CTAs.
#pragma once

#include "sm100/head128_columns/config.cuh"

namespace tileproof::head128_columns {

template <class Plan, bool Probe>
struct Softmax : Context<Plan> {
  using Base = Context<Plan>;
  using Base::indices, Base::k_blocks, Base::lane, Base::params, Base::rank, Base::smem, Base::warp;
  using typename Base::Base::Cfg;

  static constexpr int kThreads = 32 * Plan::role::softmax::warps;
  static constexpr int kNamedBarrier = 1;
  static constexpr int kKeys = Cfg::kKeysPerThread;  // 32
  static constexpr uint32_t kEveryKey = 0xffffffff;
  static constexpr int kChunk = 8;                      // elements in a 16-byte access
  static constexpr int kQuad = 4;                       // f32 in one
  static constexpr int kKeysTogether = 16;              // of a thread's keys
  static constexpr int kQuadRow = 16 * Cfg::kAllHeads;  // bytes from four keys of all heads to the next four

  // Loads of a share wait for each other where registers are few; senders need few.
  static constexpr int kFinishingRegisters = 104;
  static constexpr int kSendingRegisters = 88;

  int head;      // of the token's 128
  int half;      // of the k-block's keys, or of dQ's columns
  uint32_t row;  // tmem(0), read once where registers allow: a load of shared memory takes long beside MMAs

  __device__ __forceinline__ explicit Softmax(const Base& base) : Base(base) {
    head = 32 * (warp % 4) + lane;
    half = (warp - Plan::role::softmax::first_warp) / 4;
    row = Cfg::kRoomy ? 0 : this->tmem(0);
  }

  __device__ __forceinline__ void run() {
    if (half == rank) {
      ptx::take_registers<kFinishingRegisters>();
      finish();
    } else {
      ptx::give_registers<kSendingRegisters>();
      send();
    }
    __syncwarp();            // its lane 0 has come from an arrival of its own
    cute::cluster_arrive();  // what this warp did to the peer is done
    store_dq();
    // The last commits, the peer's too, must have arrived before this CTA may exit.
    if (k_blocks > 0) smem.ds_free.wait((k_blocks - 1) & 1);
  }

 private:
  // ---- keys that the peer finishes ---------------------------------------------------------------------

  // Stores to the peer are done one after the other: those of S and dS, which MMAs wait for, go first.
  __device__ __forceinline__ void send() {
    const uint32_t row = tmem_row();
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      float x[kKeys];
      smem.in_p_free.wait((k & 1) ^ 1);
      smem.ds_sent.wait_own((k & 1) ^ 1);  // of the k-block before; on a fresh barrier at once
      load_scores(smem.p_ready, k, Plan::tmem::P::column, x, row);
      send_share(x, k);
      arrive_once(smem.p_free);
      smem.in_dp_free.wait(k & 1);
      smem.s_sent.wait_own(k & 1);
      load_scores(smem.dp_ready, k, Plan::tmem::dP::column, x, row);
      send_share(x, k);
      arrive_once(smem.dp_free);
    }
  }

  // The CTA's share of P or dP of k-block k into the peer's buffer.
  __device__ __forceinline__ void send_share(const float (&x)[kKeys], int k) const {
    const uint32_t to = this->in_peer(share(k));
    const uint32_t ready = this->in_peer(smem.in_ready.address());
    CUTE_UNROLL
    for (int c = 0; c < kKeys / kQuad; ++c) {
      const float* v = x + c * kQuad;
      ptx::store_async_16(
          to + c * kQuadRow,
          {__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])},
          ready);
    }
  }

  // ---- keys that this CTA finishes ---------------------------------------------------------------------

  __device__ __forceinline__ void finish() {
    const float lse = __ldg(params.lse + this->token_row() + head);
    float delta = 0.0f;
    if (k_blocks == 0) delta = finish_delta();

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const uint32_t parity = k & 1;
      const uint32_t keys = key_mask(k);
      const float scale_log2e = loaded_once(params.sm_scale_log2e);
      float x[kKeys];  // P, then dP, then dS
      float s[kKeys];

      load_scores(smem.p_ready, k, Plan::tmem::P::column, x, tmem_row());
      arrive_once(smem.p_free);
      add_share(x, k, 0);
      if constexpr (Probe) store_probe(params.P, k, 0, x);
      if constexpr (Probe) store_probe(params.P, k, kKeysTogether, x + kKeysTogether);
      CUTE_UNROLL
      for (int begin = 0; begin < kKeys; begin += kKeysTogether) {
        CUTE_UNROLL
        for (int j = begin; j < begin + kKeysTogether; ++j) {
          s[j] = ptx::exp2_approx(fmaf(x[j], scale_log2e, -lse));
        }
        // Not a product with 0: where no key counts exp2 may be infinite.
        if (keys != kEveryKey) clear_others(s + begin, keys >> begin);
        if constexpr (Probe) store_probe(params.S, k, begin, s + begin);
        if (begin == 0) smem.ds_free.wait(parity ^ 1);  // of the k-block before
        publish(s + begin, begin, smem.s_ready);
      }
      published(smem.s_ready, smem.s_sent);
      const float scale = loaded_once(params.sm_scale);
      CUTE_UNROLL
      for (int j = 0; j < kKeys; ++j) s[j] *= scale;  // here, where dP is waited for

      load_scores(smem.dp_ready, k, Plan::tmem::dP::column, x, tmem_row());
      arrive_once(smem.dp_free);
      add_share(x, k, 1);
      if constexpr (Probe) store_probe(params.dP, k, 0, x);
      if constexpr (Probe) store_probe(params.dP, k, kKeysTogether, x + kKeysTogether);
      if (k == 0) delta = finish_delta();
      smem.s_free.wait(parity);
      CUTE_UNROLL
      for (int begin = 0; begin < kKeys; begin += kKeysTogether) {
        CUTE_UNROLL
        for (int j = begin; j < begin + kKeysTogether; ++j) x[j] = s[j] * (x[j] - delta);
        if (keys != kEveryKey) clear_others(x + begin, keys >> begin);
        if constexpr (Probe) store_probe(params.dS, k, begin, x + begin);
        publish(x + begin, begin, smem.ds_ready);
      }
      published(smem.ds_ready, smem.ds_sent);
    }
  }

  // A parameter in a register, that it is not loaded again at each use.
  __device__ __forceinline__ static float loaded_once(float parameter) {
    asm volatile("" : "+f"(parameter));
    return parameter;
  }

  // 0 where a slot is no key.
  __device__ __forceinline__ static void clear_others(float* v, uint32_t keys) {
    CUTE_UNROLL
    for (int j = 0; j < kKeysTogether; ++j) v[j] = (keys >> j & 1) ? v[j] : 0.0f;
  }

  // delta of the thread's head from both CTAs' columns, also to global memory.
  __device__ __forceinline__ float finish_delta() {
    smem.delta_ready.wait(0);
    const float delta = smem.delta_own[head] + smem.delta_incoming[head];
    if (head / Cfg::kHeads == rank) params.delta[this->token_row() + head] = delta;
    return delta;
  }

  // Adds the peer's share of P (use 0 of the buffer of k-block k) or dP (use 1); the warp has then read it.
  __device__ __forceinline__ void add_share(float (&x)[kKeys], int k, int use) {
    if (leads() && lane == 0) smem.in_ready.arrive_own_and_expect_tx(Plan::barrier::in_ready::tx_bytes);
    smem.in_ready.wait(use);
    CUTE_UNROLL
    for (int c = 0; c < kKeys / kQuad; ++c) {
      const uint4 v = ptx::load_shared_16(share(k) + c * kQuadRow);
      x[c * kQuad] += __uint_as_float(v.x);
      x[c * kQuad + 1] += __uint_as_float(v.y);
      x[c * kQuad + 2] += __uint_as_float(v.z);
      x[c * kQuad + 3] += __uint_as_float(v.w);
    }
    if (!Cfg::kRoomy && use == 1) ptx::fence_proxy_async_shared();  // keys are gathered here next
    __syncwarp();
    if (lane == 0) {
      if (!Cfg::kRoomy && use == 1) smem.kv_hi_free[0].arrive();
      (use == 0 ? smem.in_p_read : smem.in_dp_read).arrive();
    }
  }

  // S or dS of keys [begin, begin + kKeysTogether) of the thread's, rounded to operands, into row `head` of
  // the tile of both CTAs.
  __device__ __forceinline__ void publish(const float* v, int begin, const Barrier& ready) {
    const uint32_t peer_ready = this->in_peer(ready.address());
    const uint32_t own =
        cast_smem_ptr_to_uint(smem.s) + plain_chunk<Cfg::kAllHeads>(head, half * (kKeys / kChunk));
    const uint32_t peer = this->in_peer(own);
    CUTE_UNROLL
    for (int c = 0; c < kKeysTogether / kChunk; ++c) {
      const uint32_t at = plain_chunk<Cfg::kAllHeads>(0, begin / kChunk + c);
      const uint4 chunk = pack<typename Cfg::Element>(v + c * kChunk);
      ptx::store_shared_16(own + at, chunk);
      ptx::store_async_16(peer + at, chunk, peer_ready);
    }
  }

  // All of the thread's S or dS was sent.
  __device__ __forceinline__ void published(Barrier& ready, Barrier& sent) {
    arrive_once(sent);
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      if (leads()) {
        ready.arrive_own_and_expect_tx(Plan::barrier::s_ready::tx_bytes);
      } else {
        ready.arrive();
      }
    }
  }

  // Of one warp of those that finish: it expects the peer's bytes.
  __device__ __forceinline__ bool leads() const { return warp % 4 == 0; }

  // ---- both --------------------------------------------------------------------------------------------

  // The CTA's share of P or dP of k-block k: the thread's head and keys.
  __device__ __forceinline__ void load_scores(const Barrier& ready, int k, int column, float (&x)[kKeys],
                                              uint32_t row) const {
    ready.wait_own(k & 1);
    ptx::fence_after_thread_sync();
    ptx::load_tmem_32_columns(row + column + half * kKeys, x);
    ptx::wait_tmem_loads();
    ptx::fence_before_thread_sync();
  }

  __device__ __forceinline__ void arrive_once(Barrier& barrier) const {
    __syncwarp();
    if (lane == 0) barrier.arrive();
  }

  // Of TMEM.
  __device__ __forceinline__ uint32_t tmem_row() const {
    if constexpr (Cfg::kRoomy) {
      return this->tmem(0);
    } else {
      return row;
    }
  }

  // Where a share of the thread's head and first four keys lies.
  __device__ __forceinline__ uint32_t share(int k) const {
    const uint32_t buffer =
        Cfg::kRoomy ? cast_smem_ptr_to_uint(smem.own_incoming)
                    : cast_smem_ptr_to_uint(smem.kv[(k + 1) % Cfg::kKvStages]) + Cfg::kKvHalfBytes;
    return buffer + head * 16;
  }

  // Bit j: slot j of this thread's half of k-block k is a key.
  __device__ __forceinline__ uint32_t key_mask(int k) const {
    const int slot = k * Plan::b_topk + half * kKeys + lane;
    return __ballot_sync(0xffffffff, this->key_row(__ldg(indices + slot), slot) >= 0);
  }

  // dQ from TMEM, or zeros where the token has no k-block, by way of the keys' bytes to global memory: a
  // column tile after the other, the upper ones first, as the MMAs of the last k-block complete them.
  __device__ __forceinline__ void store_dq() const {
    const bool stores = threadIdx.x == 32 * Plan::role::softmax::first_warp;
    const int other = k_blocks % Cfg::kKvStages;  // stages of keys: not the last k-block's
    CUTE_UNROLL
    for (int i = 0; i < Cfg::kColTiles; ++i) {
      const bool upper = i < Cfg::kHalfTiles;
      const int tile = (i + Cfg::kHalfTiles) % Cfg::kColTiles;
      if (i % Cfg::kHalfTiles == 0) wait_dq(smem.dq_ready[upper]);
      const uint32_t staged = cast_smem_ptr_to_uint(smem.kv) + (upper ? other : other ^ 1) * Cfg::kKvBytes +
                              (i % 2 == upper ? Cfg::kKvHalfBytes : 0);
      float v[32];
      load_dq(Plan::tmem::dQ::column + tile * kColTile + half * 32, v);
      CUTE_UNROLL
      for (int c = 0; c < 32 / kChunk; ++c) {
        ptx::store_shared_16(staged + swizzled_chunk(head, half * (32 / kChunk) + c),
                             pack<typename Cfg::Element>(v + c * kChunk));
      }
      ptx::fence_proxy_async_shared();
      asm volatile("bar.sync %0, %1;" : : "n"(kNamedBarrier), "n"(kThreads) : "memory");
      if (stores) {
        ptx::tma_store_2d(&params.dQ_map, staged, this->first_column() + tile * kColTile, this->token_row());
      }
    }
    store_dq_rope(stores);
    if (stores) {
      ptx::commit_bulk_group();
      ptx::wait_bulk_groups_read();
    }
  }

  __device__ __forceinline__ void store_dq_rope(bool stores) const {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t staged = cast_smem_ptr_to_uint(smem.kv_rope);
      if (half == 0) {
        float v[32];
        load_dq(Plan::tmem::dQ_rope::column, v);
        CUTE_UNROLL
        for (int c = 0; c < 32 / kChunk; ++c) {
          ptx::store_shared_16(staged + swizzled_narrow_chunk(head, c),
                               pack<typename Cfg::Element>(v + c * kChunk));
        }
      }
      ptx::fence_proxy_async_shared();
      asm volatile("bar.sync %0, %1;" : : "n"(kNamedBarrier), "n"(kThreads) : "memory");
      if (stores) {
        ptx::tma_store_2d(&params.dQ_rope_map, staged, this->first_rope_column(), this->token_row());
      }
    }
  }

  // Half of dQ's columns are complete, and the keys that they were made of are free.
  __device__ __forceinline__ void wait_dq(const Barrier& ready) const {
    if (k_blocks > 0) {
      ready.wait_own(0);
      ptx::fence_after_thread_sync();
    }
  }

  // 32 columns of dQ, zeros where the token has no k-block.
  __device__ __forceinline__ void load_dq(int column, float (&v)[32]) const {
    if (k_blocks > 0) {
      ptx::load_tmem_32_columns(tmem_row() + column, v);
      ptx::wait_tmem_loads();
    } else {
      CUTE_UNROLL
      for (int j = 0; j < 32; ++j) v[j] = 0.0f;
    }
  }

  // Row `head`, slots from `begin` of this thread's in k-block k of a [s_q, h_q, topk] output.
  template <class T>
  __device__ __forceinline__ void store_probe(T* to, int k, int begin, const float* v) const {
    to += int64_t(this->token_row() + head) * params.topk + k * Plan::b_topk + half * kKeys + begin;
    CUTE_UNROLL
    for (int j = 0; j < kKeysTogether; ++j) to[j] = T(v[j]);
  }
};

}  // namespace tileproof::head128_columns
