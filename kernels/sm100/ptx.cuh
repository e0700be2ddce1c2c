// Thin wrappers over the PTX instructions that CuTe does not offer, or offers only with an election or a
// barrier address built in. One function is one instruction; names follow the PTX ISA.
#pragma once

#include <cstdint>

namespace tileproof::ptx {

// ---- shared-memory addresses --------------------------------------------------------------------------

// The same offset in the CTA `rank` of the cluster (mapa).
__device__ __forceinline__ uint32_t map_to_rank(uint32_t shared_address, uint32_t rank) {
  uint32_t mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(shared_address), "r"(rank));
  return mapped;
}

// ---- TMA ----------------------------------------------------------------------------------------------

// One box of a rank-2 tensor map into this CTA's `dst`; its bytes are counted on `mbar`, which may lie in
// either CTA of the pair (cp.async.bulk.tensor, .cta_group::2).
__device__ __forceinline__ void tma_load_2d(uint32_t dst, const void* tensor_map, uint32_t mbar, int col,
                                            int row, uint64_t cache_policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;"
      :
      : "r"(dst), "l"(tensor_map), "r"(mbar), "r"(col), "r"(row), "l"(cache_policy)
      : "memory");
}

// Four rows of a rank-2 tensor map, `box` columns from `col`, packed one after another at `dst`. A row
// outside the tensor is filled with zeros and its bytes are counted all the same (tile::gather4).
__device__ __forceinline__ void tma_gather4(uint32_t dst, const void* tensor_map, uint32_t mbar, int col,
                                            int4 rows, uint64_t cache_policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes.cta_group::2"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;"
      :
      : "r"(dst), "l"(tensor_map), "r"(mbar), "r"(col), "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w),
        "l"(cache_policy)
      : "memory");
}

// ---- tcgen05 ------------------------------------------------------------------------------------------

// D[tmem_d] = A B (+ D when accumulate) in both CTAs of the pair. One thread of the even CTA issues it.
__device__ __forceinline__ void mma_f16_ss_pair(uint32_t tmem_d, uint64_t desc_a, uint64_t desc_b,
                                                uint32_t idesc, bool accumulate) {
  asm volatile(
      "{\n\t"
      ".reg .pred accumulate;\n\t"
      "setp.ne.b32 accumulate, %4, 0;\n\t"
      "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, accumulate;\n\t"
      "}"
      :
      : "r"(tmem_d), "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

// One arrival on the barrier at this offset in every CTA of `cta_mask`, once all earlier MMAs of this
// thread are complete. Implies fence_before_thread_sync.
__device__ __forceinline__ void commit_pair(uint32_t mbar, uint16_t cta_mask) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
      :
      : "r"(mbar), "h"(cta_mask)
      : "memory");
}

__device__ __forceinline__ void wait_tmem_loads() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ __forceinline__ void fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

}  // namespace tileproof::ptx
