// The mma role: one thread issues every MMA of its CTA. P and dP of the first k-block, then per k-block,
// where the shares have room of their own:
//
//   dKV^T parts 0, 1 = dO^T S                              -> s_free
//   P of the next k-block                                  -> p_ready
//   dQ += dS K                                             -> kv_hi_free, kv_lo_free
//   parts 0, 1 of dKV^T += Q^T dS                          -> dkv_ready, ds_free
//   dP of the next k-block                                 -> dp_ready
//
// and where they lie in KV's bytes:
//
//   dKV^T parts 0, 1 = dO^T S                              -> s_free
//   P of the next k-block over the lower columns
//   dQ += dS K, the upper columns                          -> the peer's in_p_free
//   dQ += dS K, the lower columns and RoPE                 -> kv_lo_free
//   RoPE part of dKV^T = Q^T dS                            -> rope_ready
//   P of the next k-block over the upper columns           -> p_ready
//   parts 0, 1 of dKV^T += Q^T dS                          -> dkv_ready, ds_free
//   dP of the next k-block                                 -> dp_ready
//
// The last k-block commits each half of dQ to dq_ready. So one exchange is under way beside MMAs at any time.
// MMAs that have time (the upper columns of P, and dP) start when the share that came before was read:
// operands go before all else in shared memory, and beside them a share would take ten times as long.
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head128_columns/config.cuh"

namespace tileproof::head128_columns {

template <class Plan>
struct IssueMmas : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::kEveryRank, Base::rank, Base::smem;
  using typename Base::Base::Cfg;
  using Major = UMMA::Major;

  uint32_t q, dO, s;  // shared addresses; dS lies where S does
  uint32_t tmem;      // read once: a load of shared memory takes long beside MMAs

  __device__ __forceinline__ explicit IssueMmas(const Base& base) : Base(base) {
    q = cast_smem_ptr_to_uint(smem.q);
    dO = cast_smem_ptr_to_uint(smem.dO);
    s = cast_smem_ptr_to_uint(smem.s);
    tmem = smem.tmem_base;
  }

  __device__ __forceinline__ void run() {
    smem.q_ready.wait_own(0);  // also with no k-block: the bytes must have landed before the CTA exits

    if (k_blocks > 0) {
      p_lo(0);
      p_hi(0);
      smem.do_ready.wait_own(0);
      dp(0);
      CUTE_NO_UNROLL
      for (int k = 0; k + 1 < k_blocks; ++k) walk<true>(k);
      walk<false>(k_blocks - 1);
    }
  }

 private:
  // `More`: this k-block is not the last.
  template <bool More>
  __device__ __forceinline__ void walk(int k) {
    const uint32_t parity = k & 1;
    // Before S is there, so that nothing is waited for behind it.
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDkvParts; ++part) {
      smem.dkv_free[part].wait_own(parity ^ 1);  // of part 0 it tells that the RoPE part was read, too
    }
    if constexpr (Cfg::kRoomy) smem.p_free.wait_own(parity);
    wait_operand(smem.s_ready, parity);
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDkvParts; ++part) dkv_part(dO, part, false);
    ptx::commit_multicast(smem.s_free.address(), kEveryRank);
    if constexpr (More) {
      p_lo(k + 1);
      if constexpr (Cfg::kRoomy) p_hi(k + 1);
    }

    wait_operand(smem.ds_ready, parity);
    if constexpr (Cfg::kRoomy) {
      dq_all(kv_lo(k), k != 0);
      ptx::commit(smem.kv_hi_free[k % Cfg::kKvStages].address());
    } else {
      dq_half(kv_hi(k), 1, k != 0);
      if constexpr (!More) ptx::commit(smem.dq_ready[1].address());
      // The peer may send where these keys lie.
      if constexpr (More) {
        ptx::commit_multicast(smem.in_p_free.address(), uint16_t(1u << (rank ^ 1)));
      }
      dq_half(kv_lo(k), 0, k != 0);
      dq_rope(k);
    }
    if constexpr (!More) {
      if constexpr (Cfg::kRoomy) ptx::commit(smem.dq_ready[1].address());
      ptx::commit(smem.dq_ready[0].address());
    }
    ptx::commit(smem.kv_lo_free[k % Cfg::kKvStages].address());

    dkv_rope();
    if constexpr (!Cfg::kRoomy && More) p_hi(k + 1);
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kDkvParts; ++part) {
      dkv_part(q, part, true);
      ptx::commit(smem.dkv_ready[part].address());
    }
    ptx::commit_multicast(smem.ds_free.address(), kEveryRank);
    if constexpr (More) dp(k + 1);
  }

  __device__ __forceinline__ uint32_t kv_lo(int k) const {
    return cast_smem_ptr_to_uint(smem.kv) + k % Cfg::kKvStages * Cfg::kKvBytes;
  }

  __device__ __forceinline__ uint32_t kv_hi(int k) const { return kv_lo(k) + Cfg::kKvHalfBytes; }

  __device__ __forceinline__ uint32_t kv_rope(int k) const {
    return cast_smem_ptr_to_uint(smem.kv_rope) + k % Cfg::kKvStages * Cfg::kNarrowKeyBytes;
  }

  // P of k-block k over the lower columns and RoPE.
  __device__ __forceinline__ void p_lo(int k) {
    smem.kv_lo_ready[k % Cfg::kKvStages].wait_own(k / Cfg::kKvStages & 1);
    if constexpr (!Cfg::kRoomy) smem.dp_free.wait_own((k & 1) ^ 1);
    ptx::fence_after_thread_sync();
    const uint32_t d = tmem + Plan::tmem::P::column;
    scores(q, kv_lo(k), d, false);
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kKeys, Major::K, Major::K>();
      CUTE_UNROLL
      for (int step = 0; step < Cfg::kRope; step += kMmaK) {
        ptx::mma_f16_ss(d, narrow_k_major(cast_smem_ptr_to_uint(smem.q_rope), step),
                        narrow_k_major(kv_rope(k), step), idesc, true);
      }
    }
  }

  __device__ __forceinline__ void p_hi(int k) {
    smem.kv_hi_ready[k % Cfg::kKvStages].wait_own(k / Cfg::kKvStages & 1);
    smem.in_dp_read.wait_own((k & 1) ^ 1);  // dP's share of the k-block before; on a fresh barrier at once
    ptx::fence_after_thread_sync();
    scores(q + Cfg::kHalfTiles * Cfg::kHeadTileBytes, kv_hi(k), tmem + Plan::tmem::P::column, true);
    ptx::commit(smem.p_ready.address());
  }

  // dP of k-block k, where dP of the k-block before it was, or P.
  __device__ __forceinline__ void dp(int k) {
    if constexpr (Cfg::kRoomy) {
      smem.dp_free.wait_own((k & 1) ^ 1);
    } else {
      smem.p_free.wait_own(k & 1);
    }
    smem.in_p_read.wait_own(k & 1);  // P's
    ptx::fence_after_thread_sync();
    const uint32_t d = tmem + Plan::tmem::dP::column;
    scores(dO, kv_lo(k), d, false);
    scores(dO + Cfg::kHalfTiles * Cfg::kHeadTileBytes, kv_hi(k), d, true);
    ptx::commit(smem.dp_ready.address());
  }

  // S or dS is there, in both halves of the heads. The peer's half came by st.async, which is of the generic
  // proxy and which only this thread has waited for.
  __device__ __forceinline__ void wait_operand(const Barrier& ready, uint32_t parity) {
    ready.wait(parity);
    ptx::fence_proxy_async_shared();
    ptx::fence_after_thread_sync();
  }

  // D [heads, keys] (+)= A [heads, 128 columns] KV [keys, 128 columns]^T
  __device__ __forceinline__ void scores(uint32_t a, uint32_t kv, uint32_t d, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kKeys, Major::K, Major::K>();
    const uint64_t first_a = k_major<Cfg::kAllHeads>(a, 0), first_b = k_major<Cfg::kKeys>(kv, 0);
    CUTE_UNROLL
    for (int step = 0; step < Cfg::kHalfCols; step += kMmaK) {
      const int tile = step / kColTile, within = step % kColTile * 2;
      ptx::mma_f16_ss(d, further(first_a, tile * Cfg::kHeadTileBytes + within),
                      further(first_b, tile * Cfg::kKeyTileBytes + within), idesc, accumulate || step != 0);
    }
  }

  // dQ [heads, columns] += dS [heads, keys] KV [keys, columns]: N = 256 reads dS once, and leaves a quarter
  // of shared memory to others.
  __device__ __forceinline__ void dq_all(uint32_t kv, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kCols, Major::K, Major::MN>();
    const uint64_t first_a = plain_k_major<Cfg::kAllHeads>(s, 0), first_b = mn_major<Cfg::kKeys>(kv, 0, 0);
    CUTE_UNROLL
    for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
      ptx::mma_f16_ss(tmem + Plan::tmem::dQ::column,
                      further(first_a, plain_chunk<Cfg::kAllHeads>(0, key / 8)),
                      further(first_b, key * kRowBytes), idesc, accumulate || key != 0);
    }
  }

  // dQ [heads, half of the columns] += dS [heads, keys] KV [keys, half]
  __device__ __forceinline__ void dq_half(uint32_t kv, int half, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kHalfCols, Major::K, Major::MN>();
    const uint32_t d = tmem + Plan::tmem::dQ::column + half * Plan::tmem::dQ::columns;
    CUTE_UNROLL
    for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
      ptx::mma_f16_ss(d, plain_k_major<Cfg::kAllHeads>(s, key), mn_major<Cfg::kKeys>(kv, 0, key), idesc,
                      accumulate || key != 0);
    }
  }

  __device__ __forceinline__ void dq_rope(int k) {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc = bf16_mma_descriptor<Cfg::kAllHeads, Cfg::kRope, Major::K, Major::MN>();
      CUTE_UNROLL
      for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
        ptx::mma_f16_ss(tmem + Plan::tmem::dQ_rope::column, plain_k_major<Cfg::kAllHeads>(s, key),
                        narrow_mn_major(kv_rope(k), key), idesc, k != 0 || key != 0);
      }
    }
  }

  // dKV^T [RoPE columns, keys] = Q_rope^T [.., heads] dS [heads, keys]
  __device__ __forceinline__ void dkv_rope() {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc = bf16_mma_descriptor<Cfg::kRope, Cfg::kKeys, Major::MN, Major::MN>();
      CUTE_UNROLL
      for (int head = 0; head < Cfg::kAllHeads; head += kMmaK) {
        ptx::mma_ws_f16_ss(tmem + Plan::tmem::dKV_rope::column,
                           narrow_mn_major(cast_smem_ptr_to_uint(smem.q_rope), head),
                           plain_mn_major<Cfg::kAllHeads>(s, head), idesc, head != 0);
      }
      ptx::commit(smem.rope_ready[0].address());
    }
  }

  // dKV^T [128 columns of part `part`, keys] (+)= A[:, those columns]^T [.., heads] S or dS [heads, keys]
  __device__ __forceinline__ void dkv_part(uint32_t a, int part, bool accumulate) {
    const uint32_t idesc = bf16_mma_descriptor<Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>();
    const uint32_t d = tmem + Plan::tmem::dKV::column + part * Plan::tmem::dKV::columns;
    const uint64_t first_a = mn_major<Cfg::kAllHeads>(a, part * Cfg::kDkvM, 0);
    const uint64_t first_b = plain_mn_major<Cfg::kAllHeads>(s, 0);
    CUTE_UNROLL
    for (int head = 0; head < Cfg::kAllHeads; head += kMmaK) {
      ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), further(first_b, head * kPlainRowBytes), idesc,
                      accumulate || head != 0);
    }
  }
};

}  // namespace tileproof::head128_columns
