// A ring of two stages in each CTA of a pair: `load` fills, `math` uses and frees; CTA 0's `lead` tells both
// CTAs when a k-block may start. `plant` says what is wrong.
#define TILEPROOF_LOG
#include <tileproof_log.cuh>

namespace {

constexpr int kStages = 2, kBlocks = 5, kBytes = 256;
enum Plant { kNone, kOneCta, kLeftOut, kCount, kParity, kBytesShort, kStops, kStage, kCopyLost };

struct Ring {
  alignas(128) uint8_t tile[kStages][kBytes];
  alignas(8) uint64_t full[kStages], empty[kStages], go[kStages];
};

__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ uint32_t in(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}
__device__ void init(uint64_t& bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&bar)), "r"(count) : "memory");
}
__device__ void wait(uint64_t& bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra AGAIN;\n}" ::"r"(at(&bar)),
      "r"(parity)
      : "memory");
}
__device__ void arrive(uint64_t& bar, uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(in(at(&bar), rank))
               : "memory");
}
__device__ void expect(uint64_t& bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(at(&bar)),
               "r"(bytes)
               : "memory");
}
__device__ void copy(void* to, const void* from, uint32_t bytes, uint64_t& bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)),
      "l"(from), "r"(bytes), "r"(at(&bar))
      : "memory");
}

}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) ring(const uint8_t* in_, int plant) {
  __shared__ Ring ring;
  const int warp = threadIdx.x / 32;
  const bool one = threadIdx.x % 32 == 0;
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    tileproof::Log log("setup");
    for (int stage = 0; stage < kStages; ++stage) {
      const uint32_t count = plant == kCount && rank == 1 ? 2 : 1;
      init(ring.full[stage], 1);
      log.init("full", stage, 1);
      init(ring.empty[stage], count);
      log.init("empty", stage, count);
      init(ring.go[stage], 1);
      log.init("go", stage, 1);
    }
    log.end();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (one && warp == 0) {
    tileproof::Log log("load");
    for (int k = 0; k < kBlocks; ++k) {
      const int stage = k % kStages;
      const uint32_t parity = k / kStages & 1;
      log.wait("empty", stage, parity ^ 1, k, [&] { wait(ring.empty[stage], parity ^ 1); });
      if (plant == kStops && rank == 1 && k == 2) break;
      const bool bad = rank == 1 && k == 2;
      log.expect("full", stage, k, kBytes);
      expect(ring.full[stage], kBytes);
      if (plant == kCopyLost && bad) continue;
      const uint32_t bytes = plant == kBytesShort && bad ? kBytes / 2 : kBytes;
      log.copy("full", stage, k, bytes);
      copy(ring.tile[stage], in_, bytes, ring.full[stage]);
    }
    if (plant != kStops) log.end();
  }
  if (one && warp == 1) {
    tileproof::Log log("math");
    for (int k = 0; k < kBlocks; ++k) {
      const int stage = k % kStages;
      uint32_t parity = k / kStages & 1;
      log.wait("go", stage, parity, k, [&] { wait(ring.go[stage], parity); });
      if (plant == kParity && rank == 1 && k == 2) {
        wait(ring.full[stage], parity);  // not told: then the wrong parity is of the phase under way
        parity ^= 1;
      }
      log.wait("full", stage, parity, k, [&] { wait(ring.full[stage], parity); });
      if (plant == kLeftOut && rank == 1 && k == 1) continue;
      const int to = plant == kStage && rank == 1 && k == 1 ? 0 : stage;
      log.arrive("empty", to, k);
      arrive(ring.empty[to], rank);
    }
    log.end();
  }
  if (one && warp == 2 && rank == 0) {
    tileproof::Log log("lead");
    for (int k = 0; k < kBlocks; ++k) {
      log.wait("full", k % kStages, k / kStages & 1, k,
               [&] { wait(ring.full[k % kStages], k / kStages & 1); });
      const bool only = plant == kOneCta && k >= 2;
      log.arrive("go", k % kStages, k, only ? 0b01 : 0b11);
      arrive(ring.go[k % kStages], 0);
      if (!only) arrive(ring.go[k % kStages], 1);
    }
    log.end();
  }
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
