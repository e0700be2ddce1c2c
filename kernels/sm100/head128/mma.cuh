// The mma role: one thread issues every MMA of its CTA. Per k-block, in this order:
//
//   P  = Q K^T                                        -> p_ready
//   dP = dO V^T                                       -> dp_ready
//   dKV^T parts 0, 1 = dO^T S                         while dS is computed
//   dQ += dS K, first the lower 32 keys, then the upper -> kv_lo_free, kv_hi_free (and at the end dq_ready)
//   dKV^T parts 0, 1 += Q^T dS, RoPE = Q^T dS         -> dkv_ready, rope_ready
//   dKV^T parts 2, 3 = dO^T S + Q^T dS                -> dkv_ready
//
// The next k-block's keys are gathered from the first half of dQ on. Every commit is waited for by its
// consumer, so that nothing is in flight when the roles end.
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head128/config.cuh"

namespace tileproof::head128 {

template <class Plan>
struct IssueMmas : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::kEveryRank, Base::smem;
  using typename Base::Cfg;
  using Major = UMMA::Major;

  static constexpr int kRows = 64;  // of every operand tile

  uint32_t q, dO, kv, s, ds;  // shared addresses

  __device__ __forceinline__ explicit IssueMmas(const Base& base) : Base(base) {
    q = cast_smem_ptr_to_uint(smem.q);
    dO = cast_smem_ptr_to_uint(smem.dO);
    kv = cast_smem_ptr_to_uint(smem.kv);
    s = cast_smem_ptr_to_uint(smem.s);
    ds = cast_smem_ptr_to_uint(smem.ds);
  }

  __device__ __forceinline__ void run() {
    smem.q_ready.wait_own(0);  // also with no k-block: the bytes must have landed before the CTA exits
    smem.do_ready.wait_own(0);

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const uint32_t parity = k & 1;
      this->wait_for_cluster(smem.kv_ready, parity);
      ptx::fence_after_thread_sync();
      // Of the previous k-block s_ready and ds_ready have told that P and dP were read, and dkv_free of parts
      // 0 and 1 will tell that the RoPE part was.
      scores<Plan::mma::P::k>(q, smem.tmem_base + Plan::tmem::P::column);
      ptx::commit(smem.p_ready.address());
      scores<Plan::mma::dP::k>(dO, smem.tmem_base + Plan::tmem::dP::column);
      ptx::commit(smem.dp_ready.address());

      smem.s_ready.wait_own(parity);
      CUTE_UNROLL
      for (int part = 0; part < Cfg::kDkvStages; ++part) {
        wait_part_free(k, part);
        dkv_part(dO, s, part, false);
      }

      smem.ds_ready.wait_own(parity);
      ptx::fence_after_thread_sync();
      dq_of_keys<0>(k != 0);
      ptx::commit_multicast(smem.kv_lo_free.address(), kEveryRank);
      dq_of_keys<Cfg::kHalf>(true);
      ptx::commit_multicast(smem.kv_hi_free.address(), kEveryRank);
      if (k == k_blocks - 1) ptx::commit(smem.dq_ready.address());

      CUTE_UNROLL
      for (int part = 0; part < Cfg::kDkvStages; ++part) {
        dkv_part(q, ds, part, true);
        ptx::commit(smem.dkv_ready[part].address());
      }
      if constexpr (Cfg::kRope != 0) {
        dkv_rope();
        ptx::commit(smem.rope_ready[0].address());
      }
      CUTE_UNROLL
      for (int part = Cfg::kDkvStages; part < Cfg::kDkvParts; ++part) {
        wait_part_free(k, part);
        dkv_part(dO, s, part, false);
        dkv_part(q, ds, part, true);
        ptx::commit(smem.dkv_ready[part % Cfg::kDkvStages].address());
      }
    }
  }

 private:
  // D [heads, keys] = A [heads, K] KV[:, :K]^T
  template <int K>
  __device__ __forceinline__ void scores(uint32_t a, uint32_t d) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kHeads, Cfg::kKeys, Major::K, Major::K>();
    CUTE_UNROLL
    for (int step = 0; step < K; step += kMmaK) {
      ptx::mma_ws_f16_ss(d, k_major<kRows>(a, step), k_major<kRows>(kv, step), idesc, step != 0);
    }
  }

  // dQ [heads, d_qk] += dS[:, keys] KV[keys], keys = [First, First + 32)
  template <int First>
  __device__ __forceinline__ void dq_of_keys(bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kHeads, Cfg::kDqN, Major::K, Major::MN>();
    const uint32_t d = smem.tmem_base + Plan::tmem::dQ::column;
    CUTE_UNROLL
    for (int key = First; key < First + Cfg::kHalf; key += kMmaK) {
      CUTE_UNROLL
      for (int part = 0; part < Cfg::kDqParts; ++part) {
        ptx::mma_ws_f16_ss(d + part * Plan::tmem::dQ::columns, k_major<kRows>(ds, key),
                           mn_major<kRows>(kv, part * Cfg::kDqN, key), idesc, accumulate || key != First);
      }
      if constexpr (Cfg::kRope != 0) {
        const uint32_t rope = bf16_mma_descriptor<Cfg::kHeads, Cfg::kRope, Major::K, Major::MN>();
        ptx::mma_ws_f16_ss(smem.tmem_base + Plan::tmem::dQ_rope::column, k_major<kRows>(ds, key),
                           mn_major<kRows>(kv, Plan::d_v, key), rope, accumulate || key != First);
      }
    }
  }

  // dKV^T [128 columns of part `part`, keys] = A[:, those columns]^T [.., heads] B [heads, keys]
  __device__ __forceinline__ void dkv_part(uint32_t a, uint32_t b, int part, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>();
    const uint32_t d =
        smem.tmem_base + Plan::tmem::dKV::column + part % Cfg::kDkvStages * Plan::tmem::dKV::columns;
    CUTE_UNROLL
    for (int head = 0; head < Cfg::kHeads; head += kMmaK) {
      ptx::mma_f16_ss(d, mn_major<kRows>(a, part * Cfg::kDkvM, head), mn_major<kRows>(b, 0, head), idesc,
                      accumulate || head != 0);
    }
  }

  __device__ __forceinline__ void dkv_rope() {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc = bf16_mma_descriptor<Cfg::kRope, Cfg::kKeys, Major::MN, Major::MN>();
      CUTE_UNROLL
      for (int head = 0; head < Cfg::kHeads; head += kMmaK) {
        ptx::mma_ws_f16_ss(smem.tmem_base + Plan::tmem::dKV_rope::column, mn_major<kRows>(q, Plan::d_v, head),
                           mn_major<kRows>(ds, 0, head), idesc, head != 0);
      }
    }
  }

  // A stage's n-th use may start when its (n - 1)-th part has been read.
  __device__ __forceinline__ void wait_part_free(int k, int part) {
    const int use = k * Cfg::kPartsPerStage + part / Cfg::kDkvStages;
    smem.dkv_free[part % Cfg::kDkvStages].wait_own((use & 1) ^ 1);
    ptx::fence_after_thread_sync();
  }
};

}  // namespace tileproof::head128
