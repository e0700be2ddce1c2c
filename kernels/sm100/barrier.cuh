// An mbarrier in shared memory that both CTAs of a pair may signal.
//
// Where the bytes and arrivals of a phase come from both CTAs, arrivals are .release.cluster and waits
// .acquire.cluster; where they are all of the own CTA, `_own` names the narrower scope.
#pragma once

#include <cstdint>

#include "sm100/cute.cuh"
#include "sm100/ptx.cuh"

namespace tileproof {

struct Barrier {
  uint64_t state;

  __device__ __forceinline__ uint32_t address() const { return cute::cast_smem_ptr_to_uint(&state); }

  __device__ __forceinline__ uint32_t address_in(uint32_t rank) const {
    return ptx::map_to_rank(address(), rank);
  }

  __device__ __forceinline__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(address()), "r"(count) : "memory");
  }

  // Expect `bytes` more in this phase, then arrive once.
  __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(address()), "r"(bytes)
                 : "memory");
  }

  // The same, where only threads of this CTA wait.
  __device__ __forceinline__ void arrive_own_and_expect_tx(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(address()), "r"(bytes)
                 : "memory");
  }

  // Arrive once, by a thread of this CTA.
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" : : "r"(address()) : "memory");
  }

  // Arrive once on this barrier's twin in the CTA `rank`.
  __device__ __forceinline__ void arrive_in(uint32_t rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 :
                 : "r"(address_in(rank))
                 : "memory");
  }

  __device__ __forceinline__ bool try_wait(uint32_t parity) const {
    uint32_t done;
    asm volatile(
        "{\n\t"
        ".reg .pred complete;\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n\t"
        "selp.b32 %0, 1, 0, complete;\n\t"
        "}"
        : "=r"(done)
        : "r"(address()), "r"(parity)
        : "memory");
    return done != 0;
  }

  // Block until the phase of this parity is complete. On a fresh barrier parity 1 passes at once.
  __device__ __forceinline__ void wait(uint32_t parity) const {
    while (!try_wait(parity)) {
    }
  }

  // As `wait`, where nothing arrives but of this CTA.
  __device__ __forceinline__ void wait_own(uint32_t parity) const {
    while (!try_wait_own(parity)) {
    }
  }

 private:
  __device__ __forceinline__ bool try_wait_own(uint32_t parity) const {
    uint32_t done;
    asm volatile(
        "{\n\t"
        ".reg .pred complete;\n\t"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%1], %2;\n\t"
        "selp.b32 %0, 1, 0, complete;\n\t"
        "}"
        : "=r"(done)
        : "r"(address()), "r"(parity)
        : "memory");
    return done != 0;
  }
};

static_assert(sizeof(Barrier) == 8);

}  // namespace tileproof
