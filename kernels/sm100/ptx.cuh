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

// As tma_load_2d, by a CTA for itself: `mbar` lies in the same CTA.
__device__ __forceinline__ void tma_load_2d_own(uint32_t dst, const void* tensor_map, uint32_t mbar, int col,
                                                int row, uint64_t cache_policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4}], [%2], %5;"
      :
      : "r"(dst), "l"(tensor_map), "r"(mbar), "r"(col), "r"(row), "l"(cache_policy)
      : "memory");
}

// As tma_gather4, by a CTA for itself: `mbar` lies in the same CTA.
__device__ __forceinline__ void tma_gather4_own(uint32_t dst, const void* tensor_map, uint32_t mbar, int col,
                                                int4 rows, uint64_t cache_policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;"
      :
      : "r"(dst), "l"(tensor_map), "r"(mbar), "r"(col), "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w),
        "l"(cache_policy)
      : "memory");
}

// One box of shared memory to a rank-2 tensor map, in the thread's current bulk group.
__device__ __forceinline__ void tma_store_2d(const void* tensor_map, uint32_t src, int col, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
               :
               : "l"(tensor_map), "r"(src), "r"(col), "r"(row)
               : "memory");
}

__device__ __forceinline__ void commit_bulk_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until every bulk group of this thread has read its shared memory and written its global memory.
__device__ __forceinline__ void wait_bulk_groups() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Until every bulk group of this thread has read its shared memory.
__device__ __forceinline__ void wait_bulk_groups_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// This thread's generic accesses to its CTA's shared memory come before later async-proxy ones that follow
// it.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- generic memory -----------------------------------------------------------------------------------

__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

// To `address` of a CTA of the cluster; the bytes count on `mbar` of the same CTA when they are there.
__device__ __forceinline__ void store_async_16(uint32_t address, uint4 value, uint32_t mbar) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
               :
               : "r"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(mbar)
               : "memory");
}

__device__ __forceinline__ void store_async_4(uint32_t address, float value, uint32_t mbar) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               :
               : "r"(address), "r"(__float_as_uint(value)), "r"(mbar)
               : "memory");
}

__device__ __forceinline__ void red_add(float* address, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" : : "l"(address), "f"(x) : "memory");
}

// ---- registers ----------------------------------------------------------------------------------------

// A warpgroup's threads have `Count` registers each from here on, fewer than before (setmaxnreg).
template <int Count>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(Count));
}

// The same, more than before, when others of the CTA have given them.
template <int Count>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(Count));
}

// ---- scalar arithmetic --------------------------------------------------------------------------------

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// bf16 of `low` in the lower half and of `high` in the upper one, round to nearest even.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// As pack_bf16, of f16; beyond 65504 infinity.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float f32_of_f16(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// ---- tcgen05 ------------------------------------------------------------------------------------------

// D[tmem_d] = A B (+ D when accumulate) in this CTA. One thread issues it.
__device__ __forceinline__ void mma_f16_ss(uint32_t tmem_d, uint64_t desc_a, uint64_t desc_b, uint32_t idesc,
                                           bool accumulate) {
  asm volatile(
      "{\n\t"
      ".reg .pred accumulate;\n\t"
      "setp.ne.b32 accumulate, %4, 0;\n\t"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate;\n\t"
      "}"
      :
      : "r"(tmem_d), "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

// The weight-stationary form: with M = 64 its D fills all lanes.
__device__ __forceinline__ void mma_ws_f16_ss(uint32_t tmem_d, uint64_t desc_a, uint64_t desc_b,
                                              uint32_t idesc, bool accumulate) {
  asm volatile(
      "{\n\t"
      ".reg .pred accumulate;\n\t"
      "setp.ne.b32 accumulate, %4, 0;\n\t"
      "tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate, 0;\n\t"
      "}"
      :
      : "r"(tmem_d), "l"(desc_a), "l"(desc_b), "r"(idesc), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

// One arrival on this CTA's barrier, once all earlier MMAs of this thread are complete. Implies
// fence_before_thread_sync.
__device__ __forceinline__ void commit(uint32_t mbar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
               :
               : "r"(mbar)
               : "memory");
}

// The same on the barrier at this offset in every CTA of `cta_mask`.
__device__ __forceinline__ void commit_multicast(uint32_t mbar, uint16_t cta_mask) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
      :
      : "r"(mbar), "h"(cta_mask)
      : "memory");
}

// 32 columns from `tmem` on of the warp's 32 lanes: thread t gets lane t's. Complete after wait_tmem_loads.
__device__ __forceinline__ void load_tmem_32_columns(uint32_t tmem, float (&v)[32]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]),
        "=f"(v[8]), "=f"(v[9]), "=f"(v[10]), "=f"(v[11]), "=f"(v[12]), "=f"(v[13]), "=f"(v[14]), "=f"(v[15]),
        "=f"(v[16]), "=f"(v[17]), "=f"(v[18]), "=f"(v[19]), "=f"(v[20]), "=f"(v[21]), "=f"(v[22]),
        "=f"(v[23]), "=f"(v[24]), "=f"(v[25]), "=f"(v[26]), "=f"(v[27]), "=f"(v[28]), "=f"(v[29]),
        "=f"(v[30]), "=f"(v[31])
      : "r"(tmem)
      : "memory");
}

// As load_tmem_32_columns, 16 columns.
__device__ __forceinline__ void load_tmem_16_columns(uint32_t tmem, float (&v)[16]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
      : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]),
        "=f"(v[8]), "=f"(v[9]), "=f"(v[10]), "=f"(v[11]), "=f"(v[12]), "=f"(v[13]), "=f"(v[14]), "=f"(v[15])
      : "r"(tmem)
      : "memory");
}

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

// The previous grid is complete and its writes are visible. A launch with programmatic
// stream serialization may begin before that; in any other the wait returns at once.
__device__ __forceinline__ void wait_for_previous_grid() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace tileproof::ptx
