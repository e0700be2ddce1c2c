// The mma role: one thread issues every MMA of its CTA. Per k-block, in this order:
//
//   P, dP over the lower columns, as soon as the keys have these
//   dKV^T part 3 of the k-block before = dO^T S + Q^T dS  -> dkv_ready
//   P  = Q K^T, the upper columns                         -> p_ready
//   dP = dO V^T, the upper columns                        -> dp_ready
//   dKV^T part 0 = dO^T S                                 while dS is computed
//   dQ += dS K, first the lower columns, then the upper   -> kv_lo_free, kv_hi_free (at the end dq_ready)
//   dKV^T part 0 += Q^T dS, part 1 = dO^T S + Q^T dS, RoPE = Q^T dS -> dkv_ready, rope_ready
//   dKV^T part 2 = dO^T S + Q^T dS                        -> dkv_ready
//
// The next k-block's keys are gathered from the first half of dQ on. Part 3, for which part 1 must have been
// read, comes only after MMAs that the next dS waits for, so the k-blocks follow one another at the speed of
// the additions. Every commit is waited for by its consumer, so that nothing is in flight when the roles end.
#pragma once

#include "sm100/cute.cuh"
#include "sm100/head64/config.cuh"

namespace tileproof::head64 {

template <class Plan>
struct IssueMmas : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::smem;
  using typename Base::Cfg;
  using Major = UMMA::Major;

  static constexpr int kRows = 64;  // of every operand tile

  uint32_t q, dO, kv, s, ds;  // shared addresses
  uint32_t tmem;              // read once: a load of shared memory takes long beside MMAs

  __device__ __forceinline__ explicit IssueMmas(const Base& base) : Base(base) {
    q = cast_smem_ptr_to_uint(smem.q);
    dO = cast_smem_ptr_to_uint(smem.dO);
    kv = cast_smem_ptr_to_uint(smem.kv);
    s = cast_smem_ptr_to_uint(smem.s);
    ds = cast_smem_ptr_to_uint(smem.ds);
    tmem = smem.tmem_base;
  }

  __device__ __forceinline__ void run() {
    smem.q_ready.wait_own(0);  // also with no k-block: the bytes must have landed before the CTA exits
    smem.do_ready.wait_own(0);

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const uint32_t parity = k & 1;
      // Of the previous k-block s_ready and ds_ready have signalled that P and dP were read; dkv_free of
      // parts 0 and 1 will signal that the RoPE part was.
      smem.kv_lo_ready.wait_own(parity);
      ptx::fence_after_thread_sync();
      p_lo();
      dp_lo();
      if (k != 0) dkv(k - 1, Cfg::kDkvParts - 1);
      smem.kv_hi_ready[0].wait_own(parity);
      ptx::fence_after_thread_sync();
      p_hi<0>();
      dp_hi<0>();
      smem.kv_hi_ready[1].wait_own(parity);
      ptx::fence_after_thread_sync();
      p_hi<1>();
      ptx::commit(smem.p_ready.address());
      dp_hi<1>();
      ptx::commit(smem.dp_ready.address());

      smem.s_ready.wait_own(parity);
      dkv_of_s(k, 0);
      smem.ds_ready.wait_own(parity);
      ptx::fence_after_thread_sync();
      dq_part(0, k != 0);
      dq_rope(k != 0);
      ptx::commit(smem.kv_lo_free.address());
      dq_part(1, k != 0);
      ptx::commit(smem.kv_hi_free.address());
      if (k == k_blocks - 1) ptx::commit(smem.dq_ready.address());

      dkv_of_ds(0);
      dkv(k, 1);
      if constexpr (Cfg::kRope != 0) {
        dkv_rope();
        ptx::commit(smem.rope_ready[0].address());
      }
      dkv(k, 2);
    }
    if (k_blocks > 0) dkv(k_blocks - 1, Cfg::kDkvParts - 1);
  }

 private:
  __device__ __forceinline__ void p_lo() {
    scores<0, Cfg::kLoTiles>(q, Plan::tmem::P::column);
    scores<Cfg::kVTiles, Cfg::kQkTiles>(q, Plan::tmem::P::column);
  }

  template <int Part>
  __device__ __forceinline__ void p_hi() {
    scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1)>(q, Plan::tmem::P::column);
  }

  __device__ __forceinline__ void dp_lo() { scores<0, Cfg::kLoTiles>(dO, Plan::tmem::dP::column); }

  template <int Part>
  __device__ __forceinline__ void dp_hi() {
    scores<Cfg::hi_tile(Part), Cfg::hi_tile(Part + 1)>(dO, Plan::tmem::dP::column);
  }

  // A descriptor that no other chain shares, or ptxas would keep those of all chains in registers.
  __device__ __forceinline__ static uint64_t alone(uint64_t desc) {
    uint32_t low = uint32_t(desc);
    asm volatile("" : "+r"(low));
    return (desc & 0xffffffff00000000) | low;
  }

  // D [heads, keys] (+)= A KV^T over column tiles [First, End) of both.
  template <int First, int End>
  __device__ __forceinline__ void scores(uint32_t a, int column) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kHeads, Cfg::kKeys, Major::K, Major::K>();
    const uint32_t d = tmem + column;
    const uint64_t first_a = alone(k_major<kRows>(a, 0)), first_b = alone(k_major<kRows>(kv, 0));
    CUTE_UNROLL
    for (int step = First * kColTile; step < End * kColTile; step += kMmaK) {
      const int at = step / kColTile * Cfg::kColTileBytes + step % kColTile * 2;
      ptx::mma_ws_f16_ss(d, further(first_a, at), further(first_b, at), idesc, step != 0);
    }
  }

  // dQ [heads, columns of part `part`] += dS KV[:, those columns]
  __device__ __forceinline__ void dq_part(int part, bool accumulate) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kHeads, Cfg::kDqN, Major::K, Major::MN>();
    const uint32_t d = tmem + Plan::tmem::dQ::column + part * Plan::tmem::dQ::columns;
    const uint64_t a = alone(k_major<kRows>(ds, 0)), b = alone(mn_major<kRows>(kv, part * Cfg::kDqN, 0));
    CUTE_UNROLL
    for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
      ptx::mma_ws_f16_ss(d, further(a, key * 2), further(b, key * kRowBytes), idesc, accumulate || key != 0);
    }
  }

  __device__ __forceinline__ void dq_rope(bool accumulate) {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc =
          mma_descriptor<typename Cfg::Element, Cfg::kHeads, Cfg::kRope, Major::K, Major::MN>();
      const uint64_t a = alone(k_major<kRows>(ds, 0)), b = alone(mn_major<kRows>(kv, Plan::d_v, 0));
      CUTE_UNROLL
      for (int key = 0; key < Cfg::kKeys; key += kMmaK) {
        ptx::mma_ws_f16_ss(tmem + Plan::tmem::dQ_rope::column, further(a, key * 2),
                           further(b, key * kRowBytes), idesc, accumulate || key != 0);
      }
    }
  }

  // Part `part` of k-block k's dKV^T, when its stage is free.
  __device__ __forceinline__ void dkv(int k, int part) {
    dkv_of_s(k, part);
    dkv_of_ds(part);
  }

  __device__ __forceinline__ void dkv_of_s(int k, int part) {
    wait_part_free(k, part);
    dkv_part(dO, s, part, false);
  }

  __device__ __forceinline__ void dkv_of_ds(int part) {
    dkv_part(q, ds, part, true);
    ptx::commit(smem.dkv_ready[part % Cfg::kDkvStages].address());
  }

  // dKV^T [128 columns of part `part`, keys] = A[:, those columns]^T [.., heads] B [heads, keys]
  __device__ __forceinline__ void dkv_part(uint32_t a, uint32_t b, int part, bool accumulate) {
    const uint32_t idesc =
        mma_descriptor<typename Cfg::Element, Cfg::kDkvM, Cfg::kKeys, Major::MN, Major::MN>();
    const uint32_t d = tmem + Plan::tmem::dKV::column + part % Cfg::kDkvStages * Plan::tmem::dKV::columns;
    const uint64_t first_a = alone(mn_major<kRows>(a, part * Cfg::kDkvM, 0)),
                   first_b = alone(mn_major<kRows>(b, 0, 0));
    CUTE_UNROLL
    for (int head = 0; head < Cfg::kHeads; head += kMmaK) {
      ptx::mma_f16_ss(d, further(first_a, head * kRowBytes), further(first_b, head * kRowBytes), idesc,
                      accumulate || head != 0);
    }
  }

  __device__ __forceinline__ void dkv_rope() {
    if constexpr (Cfg::kRope != 0) {
      const uint32_t idesc =
          mma_descriptor<typename Cfg::Element, Cfg::kRope, Cfg::kKeys, Major::MN, Major::MN>();
      const uint64_t a = alone(mn_major<kRows>(q, Plan::d_v, 0)), b = alone(mn_major<kRows>(ds, 0, 0));
      CUTE_UNROLL
      for (int head = 0; head < Cfg::kHeads; head += kMmaK) {
        ptx::mma_ws_f16_ss(tmem + Plan::tmem::dKV_rope::column, further(a, head * kRowBytes),
                           further(b, head * kRowBytes), idesc, head != 0);
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

}  // namespace tileproof::head64
