// The mma role: one thread issues every MMA of its CTA. P and dP of the first k-block, then per k-block:
//
//   dKV^T parts 0, 1 = dO^T S                         -> s_free
//   P = Q K^T, dP = dO V^T of the next k-block        -> p_ready, dp_ready
//   dQ += dS K, half by half of the columns           -> kv_free
//   dKV^T parts 0, 1 += Q^T dS                        -> dkv_ready, ds_free
//
// So the next P and dP are exchanged while dS is made and under the MMAs that follow it.
#pragma once

#include <cute/arch/mma_sm100_desc.hpp>

#include "sm100/head128_columns/config.cuh"
#include "sm100/head128_columns/load.cuh"

namespace tileproof::head128_columns {

template <class Plan>
struct IssueMmas : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::kEveryRank, Base::smem;
  using typename Base::Base::Cfg;
  using Major = UMMA::Major;

  uint32_t q, dO, kv, s;  // shared addresses; dS lies where S does

  __device__ __forceinline__ explicit IssueMmas(const Base& base) : Base(base) {
    q = cast_smem_ptr_to_uint(smem.q);
    dO = cast_smem_ptr_to_uint(smem.dO);
    kv = cast_smem_ptr_to_uint(smem.kv[0]);
    s = cast_smem_ptr_to_uint(smem.s);
  }

  __device__ __forceinline__ void run() {
    smem.q_ready.wait_own(0);  // also with no k-block: the bytes must have landed before the CTA exits
    smem.do_ready.wait_own(0);

    if (k_blocks > 0) {
      scores(0);
      CUTE_NO_UNROLL
      for (int k = 0; k < k_blocks; ++k) walk(k);
      ptx::commit(smem.dq_ready.address());
    }
  }

 private:
  // Where half `half` of k-block k lies in the KV ring.
  __device__ __forceinline__ static uint32_t stage_of(int k, int half) {
    static_assert(Cfg::kKvStages == 2 * Cfg::kKvHalves);
    return Cfg::kKvHalves * (k & 1) + half;
  }

  __device__ __forceinline__ void walk(int k) {
    const uint32_t parity = k & 1;
    wait_operand(smem.s_ready, parity);
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDkvParts; ++part) {
      smem.dkv_free[part].wait_own(parity ^ 1);
      ptx::fence_after_thread_sync();
      dkv_part(dO, s, part, false);
    }
    ptx::commit_multicast(smem.s_free.address(), kEveryRank);

    // s_ready has told that P was read.
    if (k + 1 < k_blocks) scores(k + 1);

    wait_operand(smem.ds_ready, parity);
    CUTE_UNROLL
    for (int half = 0; half < Cfg::kKvHalves; ++half) {
      const uint32_t stage = stage_of(k, half);
      dq_half(stage, half, k != 0);
      ptx::commit(smem.kv_free[stage].address());
    }
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDkvParts; ++part) {
      dkv_part(q, s, part, true);
      ptx::commit(smem.dkv_ready[part].address());
    }
    ptx::commit_multicast(smem.ds_free.address(), kEveryRank);
  }

  // P and dP of k-block k.
  __device__ __forceinline__ void scores(int k) {
    CUTE_UNROLL
    for (int half = 0; half < Cfg::kKvHalves; ++half) {
      smem.kv_ready[stage_of(k, half)].wait_own(k / 2 & 1);
      ptx::fence_after_thread_sync();
      scores(q, stage_of(k, half), half, smem.tmem_base + Plan::tmem::P::column);
    }
    ptx::commit(smem.p_ready.address());
    smem.dp_free.wait_own((k & 1) ^ 1);
    ptx::fence_after_thread_sync();
    CUTE_UNROLL
    for (int half = 0; half < Cfg::kKvHalves; ++half) {
      scores(dO, stage_of(k, half), half, smem.tmem_base + Plan::tmem::dP::column);
    }
    ptx::commit(smem.dp_ready.address());
  }

  // S or dS is there, in both halves of the heads. The peer's half came by st.async, which is of the generic
  // proxy and which only this thread has waited for.
  __device__ __forceinline__ void wait_operand(const Barrier& ready, uint32_t parity) {
    ready.wait(parity);
    ptx::fence_proxy_async_shared();
    ptx::fence_after_thread_sync();
  }

  // D [heads, keys] (+)= A [heads, half of the columns] KV[:, half]^T
  __device__ __forceinline__ void scores(uint32_t a, uint32_t stage, int half, uint32_t d) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kKeys, Major::K, Major::K>();
    CUTE_UNROLL
    for (int step = 0; step < Cfg::kKvCols; step += kMmaK) {
      ptx::mma_f16_ss(d, k_major<Cfg::kAllHeads>(a, half * Cfg::kKvCols + step),
                      k_major<Cfg::kKeys>(kv + stage * Cfg::kKvBytes, step), idesc, half != 0 || step != 0);
    }
  }

  // dQ [heads, half of the columns] += dS [heads, keys] KV [keys, half]
  __device__ __forceinline__ void dq_half(uint32_t stage, int half, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kKvCols, Major::K, Major::MN>();
    const uint32_t d = smem.tmem_base + Plan::tmem::dQ::column + half * Plan::tmem::dQ::columns;
    CUTE_UNROLL
    for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
      ptx::mma_f16_ss(d, k_major<Cfg::kAllHeads>(s, key),
                      mn_major<Cfg::kKeys>(kv + stage * Cfg::kKvBytes, 0, key), idesc,
                      accumulate || key != 0);
    }
  }

  // dKV^T [128 columns of part `part`, keys] (+)= A[:, those columns]^T [.., heads] B [heads, keys]
  __device__ __forceinline__ void dkv_part(uint32_t a, uint32_t b, int part, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>();
    const uint32_t d = smem.tmem_base + Plan::tmem::dKV::column + part * Plan::tmem::dKV::columns;
    CUTE_UNROLL
    for (int head = 0; head < Cfg::kAllHeads; head += kMmaK) {
      ptx::mma_f16_ss(d, mn_major<Cfg::kAllHeads>(a, part * Cfg::kDkvM, head),
                      mn_major<Cfg::kAllHeads>(b, 0, head), idesc, accumulate || head != 0);
    }
  }
};

}  // namespace tileproof::head128_columns
