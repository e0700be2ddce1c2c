// What the programs of this folder share: a failed call ends the program, clocks are those of the middle CTA
// of each launch, and a handful of instructions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    const cudaError_t code = (call);                                                     \
    if (code != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(code)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

namespace card {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(uint32_t bar, int parity) {
  asm volatile(
      "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ uint32_t bf16x2(float low, float high) {
  uint32_t packed;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// A row that no load has to tell: what is measured is L2, not how fast indices come.
__device__ __forceinline__ unsigned random_row(unsigned n, unsigned table_rows) {
  return ((n + blockIdx.x * 40503u) * 2654435761u >> 12) & (table_rows - 1);
}

// Clocks per step of each launch, sorted.
struct Runs {
  std::vector<double> sorted;
  double median() const { return sorted[sorted.size() / 2]; }
  double least() const { return sorted.front(); }
  double most() const { return sorted.back(); }
};

// Calls `launch` once unseen and then `launches` times; each leaves the clocks of its CTAs in `clocks`.
template <class Launch>
Runs timed(Launch launch, const long long* clocks, int blocks, int steps, int launches = 9) {
  Runs runs;
  std::vector<long long> seen(blocks);
  for (int run = 0; run <= launches; ++run) {
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(seen.data(), clocks, blocks * sizeof(long long), cudaMemcpyDeviceToHost));
    std::sort(seen.begin(), seen.end());
    if (run) runs.sorted.push_back(double(seen[blocks / 2]) / steps);
  }
  std::sort(runs.sorted.begin(), runs.sorted.end());
  return runs;
}

}  // namespace card
