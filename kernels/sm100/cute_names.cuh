// CuTe's and CUTLASS's names that the kernels of this folder use, each for the one PTX instruction or the
// bits that the PTX ISA gives it, in place of their headers (sm100/cute.cuh).
#pragma once

#include <cstdint>

#define CUTE_UNROLL _Pragma("unroll")
#define CUTE_NO_UNROLL _Pragma("unroll 1")

namespace cutlass {

// 16 bits of a bf16; what a kernel computes with it goes through f32.
struct alignas(2) bfloat16_t {
  uint16_t storage;

  bfloat16_t() = default;
  __device__ __forceinline__ explicit bfloat16_t(float value) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(storage) : "f"(value));
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float(uint32_t(storage) << 16); }
};

struct alignas(2) half_t {
  uint16_t storage;
};

namespace arch {

__device__ __forceinline__ void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;"); }

}  // namespace arch
}  // namespace cutlass

namespace cute {

// As CUtensorMap, since CUDA 13.
struct alignas(128) TmaDescriptor {
  char bytes[128];
};

__device__ __forceinline__ void prefetch_tma_descriptor(const TmaDescriptor* map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}

__device__ __forceinline__ uint32_t cast_smem_ptr_to_uint(const void* pointer) {
  return uint32_t(__cvta_generic_to_shared(pointer));
}

// 1 in one thread of the warp, 0 in the others (elect.sync).
__device__ __forceinline__ uint32_t elect_one_sync() {
  uint32_t elected = 0;
  uint32_t leader = 0;
  asm volatile(
      "{\n\t"
      ".reg .b32 %%rx;\n\t"
      ".reg .pred %%px;\n\t"
      "elect.sync %%rx|%%px, %2;\n\t"
      "@%%px mov.s32 %1, 1;\n\t"
      "mov.s32 %0, %%rx;\n\t"
      "}"
      : "+r"(leader), "+r"(elected)
      : "r"(0xffffffff));
  return elected;
}

// ---- clusters -----------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t block_rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;"); }

__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;"); }

__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// ---- cache policies of tensor copies ------------------------------------------------------------------

namespace TMA {

enum class CacheHintSm100 : uint64_t {
  EVICT_NORMAL = 0x1000000000000000,
  EVICT_FIRST = 0x12f0000000000000,
  EVICT_LAST = 0x14f0000000000000,
};

}  // namespace TMA

// ---- tensor memory ------------------------------------------------------------------------------------

namespace TMEM {

// By one warp of the CTA.
struct Allocator1Sm {
  __device__ __forceinline__ void allocate(int columns, uint32_t* base) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                 :
                 : "r"(cast_smem_ptr_to_uint(base)), "r"(columns));
  }
  __device__ __forceinline__ void free(uint32_t base, int columns) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" : : "r"(base), "r"(columns));
  }
  __device__ __forceinline__ void release_allocation_lock() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
};

// By one warp of each CTA of a pair.
struct Allocator2Sm {
  __device__ __forceinline__ void allocate(int columns, uint32_t* base) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
                 :
                 : "r"(cast_smem_ptr_to_uint(base)), "r"(columns));
  }
  __device__ __forceinline__ void free(uint32_t base, int columns) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" : : "r"(base), "r"(columns));
  }
  __device__ __forceinline__ void release_allocation_lock() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
};

}  // namespace TMEM

// ---- descriptors of tcgen05.mma -----------------------------------------------------------------------

namespace UMMA {

enum class Major : uint8_t { K, MN };

enum class LayoutType : uint8_t { SWIZZLE_NONE = 0, SWIZZLE_128B = 2, SWIZZLE_64B = 4 };

// The shared memory descriptor (PTX ISA, tcgen05 matrix descriptors): addresses and offsets in 16 bytes.
union SmemDescriptor {
  uint64_t desc_;
  struct {
    uint16_t start_address_ : 14, : 2;
    uint16_t leading_byte_offset_ : 14, : 2;
    uint16_t stride_byte_offset_ : 14, version_ : 2;
    uint8_t : 8;
    uint8_t : 5, layout_type_ : 3;
  };
};

// `a_format` and `b_format` of .kind::f16.
template <class T>
constexpr uint32_t kFormat = 0;
template <>
constexpr uint32_t kFormat<cutlass::bfloat16_t> = 1;

// The instruction descriptor of .kind::f16 with an f32 D (PTX ISA, tcgen05 instruction descriptor).
template <class A, class B, class D, int M, int N, Major MajorA, Major MajorB>
__device__ __forceinline__ constexpr uint32_t make_instr_desc() {
  return 1u << 4 | kFormat<A> << 7 | kFormat<B> << 10 | uint32_t(MajorA) << 15 | uint32_t(MajorB) << 16 |
         uint32_t(N / 8) << 17 | uint32_t(M / 16) << 24;
}

}  // namespace UMMA
}  // namespace cute
