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
//   dQ += dS K                                             -> the peer's in_p_free
//   its RoPE columns                                       -> kv_lo_free
//   P of the next k-block over the upper columns           -> p_ready
//   RoPE part of dKV^T = Q^T dS                            -> rope_ready
//   parts 0, 1 of dKV^T += Q^T dS                          -> dkv_ready, ds_free
//   dP of the next k-block                                 -> dp_ready
//
// The last k-block commits dQ to dq_ready. So one exchange is under way beside MMAs at any time. MMAs that
// have time (P, of which the lower columns may begin where the next keys have room of their own, and dP)
// start when the share that came before was read: operands go before all else in shared memory, and beside
// them a share would take ten times as long.
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
      smem.dkv_free[part].wait_own(parity ^ 1);  // part 0's covers the read of the RoPE part
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
    dq_all(kv_lo(k), k != 0);
    if constexpr (Cfg::kRoomy) {
      ptx::commit(smem.kv_hi_free[k % Cfg::kKvStages].address());
    } else if constexpr (More) {
      // The peer may send where the upper columns of these keys lie.
      ptx::commit_multicast(smem.in_p_free.address(), uint16_t(1u << (rank ^ 1)));
    }
    dq_rope(k);
    if constexpr (!More) {
      ptx::commit(smem.dq_ready[1].address());
      ptx::commit(smem.dq_ready[0].address());
    }
    ptx::commit(smem.kv_lo_free[k % Cfg::kKvStages].address());

    if constexpr (!Cfg::kRoomy && More) p_hi(k + 1);
    dkv_rope();
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
    if constexpr (!Cfg::kRoomy) {
      smem.dp_free.wait_own((k & 1) ^ 1);
      wait_share_read(k);
    }
    ptx::fence_after_thread_sync();
    const uint32_t d = tmem + Plan::tmem::P::column;
    scores(q, kv_lo(k), d, false);
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc =
          mma_descriptor<typename Cfg::Element, Cfg::kAllHeads, Cfg::kKeys, Major::K, Major::K>();
      const uint64_t first_a = alone(narrow_k_major(cast_smem_ptr_to_uint(smem.q_rope), 0));
      const uint64_t first_b = alone(narrow_k_major(kv_rope(k), 0));
      CUTE_UNROLL
      for (int step = 0; step < Cfg::kRope; step += kMmaK) {
        ptx::mma_f16_ss(d, further(first_a, step * 2), further(first_b, step * 2), idesc, true);
      }
    }
  }

  // dP's share of the k-block before k; on a fresh barrier at once.
  __device__ __forceinline__ void wait_share_read(int k) const { smem.in_dp_read.wait_own((k & 1) ^ 1); }

  // P over the upper columns, in the parts in which they are gathered.
  __device__ __forceinline__ void p_hi(int k) {
    if constexpr (Cfg::kRoomy) wait_share_read(k);  // else p_lo has
    constexpr int kTiles = Cfg::kHalfTiles / Cfg::kHiParts;
    CUTE_UNROLL
    for (int part = 0; part < Cfg::kHiParts; ++part) {
      const int tile = part * kTiles;
      smem.kv_hi_ready[k % Cfg::kKvStages * Cfg::kHiParts + part].wait_own(k / Cfg::kKvStages & 1);
      ptx::fence_after_thread_sync();
      scores<kTiles>(q + (Cfg::kHalfTiles + tile) * Cfg::kHeadTileBytes, kv_hi(k) + tile * Cfg::kKeyTileBytes,
                     tmem + Plan::tmem::P::column, true);
    }
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

  // A descriptor that no other chain shares, or ptxas would keep those of all chains in registers.
  __device__ __forceinline__ static uint64_t alone(uint64_t desc) {
    uint32_t low = uint32_t(desc);
    asm volatile("" : "+r"(low));
    return (desc & 0xffffffff00000000) | low;
  }

  // D [heads, keys] (+)= A [heads, columns] KV [keys, columns]^T over some column tiles.
  template <int Tiles = Cfg::kHalfTiles>
  __device__ __forceinline__ void scores(uint32_t a, uint32_t kv, uint32_t d, bool accumulate) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kAllHeads, Cfg::kKeys, Major::K, Major::K>();
    const uint64_t first_a = alone(k_major<Cfg::kAllHeads>(a, 0)),
                   first_b = alone(k_major<Cfg::kKeys>(kv, 0));
    CUTE_UNROLL
    for (int step = 0; step < Tiles * kColTile; step += kMmaK) {
      const int tile = step / kColTile, within = step % kColTile * 2;
      ptx::mma_f16_ss(d, further(first_a, tile * Cfg::kHeadTileBytes + within),
                      further(first_b, tile * Cfg::kKeyTileBytes + within), idesc, accumulate || step != 0);
    }
  }

  // dQ [heads, columns] += dS [heads, keys] KV [keys, columns]: N = 256 reads dS once, and leaves a quarter
  // of shared memory to others.
  __device__ __forceinline__ void dq_all(uint32_t kv, bool accumulate) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kAllHeads, Cfg::kCols, Major::K, Major::MN>();
    const uint64_t first_a = alone(plain_k_major<Cfg::kAllHeads>(s, 0)),
                   first_b = alone(mn_major<Cfg::kKeys>(kv, 0, 0));
    CUTE_UNROLL
    for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
      ptx::mma_f16_ss(tmem + Plan::tmem::dQ::column,
                      further(first_a, plain_chunk<Cfg::kAllHeads>(0, key / 8)),
                      further(first_b, key * kRowBytes), idesc, accumulate || key != 0);
    }
  }

  __device__ __forceinline__ void dq_rope(int k) {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc =
          mma_descriptor<typename Cfg::Element, Cfg::kAllHeads, Cfg::kRope, Major::K, Major::MN>();
      const uint64_t first_a = alone(plain_k_major<Cfg::kAllHeads>(s, 0));
      const uint64_t first_b = alone(narrow_mn_major(kv_rope(k), 0));
      CUTE_UNROLL
      for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
        ptx::mma_f16_ss(tmem + Plan::tmem::dQ_rope::column,
                        further(first_a, plain_chunk<Cfg::kAllHeads>(0, key / 8)),
                        further(first_b, key * kNarrowRowBytes), idesc, k != 0 || key != 0);
      }
    }
  }

  // dKV^T [RoPE columns, keys] = Q_rope^T [.., heads] dS [heads, keys]
  __device__ __forceinline__ void dkv_rope() {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc =
          mma_descriptor<typename Cfg::Element, Cfg::kRope, Cfg::kKeys, Major::MN, Major::MN>();
      const uint64_t first_a = alone(narrow_mn_major(cast_smem_ptr_to_uint(smem.q_rope), 0));
      const uint64_t first_b = alone(plain_mn_major<Cfg::kAllHeads>(s, 0));
      CUTE_UNROLL
      for (int head = 0; head < Cfg::kAllHeads; head += kMmaK) {
        ptx::mma_ws_f16_ss(tmem + Plan::tmem::dKV_rope::column, further(first_a, head * kNarrowRowBytes),
                           further(first_b, head * kPlainRowBytes), idesc, head != 0);
      }
      ptx::commit(smem.rope_ready[0].address());
    }
  }

  // dKV^T [128 columns of part `part`, keys] (+)= A[:, those columns]^T [.., heads] S or dS [heads, keys]
  __device__ __forceinline__ void dkv_part(uint32_t a, int part, bool accumulate) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>();
    const uint32_t d = tmem + Plan::tmem::dKV::column + part * Plan::tmem::dKV::columns;
    const uint64_t first_a = alone(mn_major<Cfg::kAllHeads>(a, part * Cfg::kDkvM, 0));
    const uint64_t first_b = alone(plain_mn_major<Cfg::kAllHeads>(s, 0));
    CUTE_UNROLL
    for (int head = 0; head < Cfg::kAllHeads; head += kMmaK) {
      ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), further(first_b, head * kPlainRowBytes), idesc,
                      accumulate || head != 0);
    }
  }
};

}  // namespace tileproof::head128_columns
