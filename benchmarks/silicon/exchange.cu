// Clocks of an exchange between the two CTAs of a cluster on a Hopper card: each writes BYTES into the
// other's shared memory by st.async and waits for as many from it, one exchange after the other.
//
//   python benchmarks/silicon/build.py exchange     # here: builds build/silicon/exchange
//   ./exchange                                      # on the card
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

constexpr int kSteps = 64;
constexpr int kThreads = 128;

template <int kBytes>
__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1) exchange(long long* clocks) {
  extern __shared__ __align__(128) unsigned char room[];
  __shared__ alignas(8) uint64_t full[2];  // by the parity of the step: the other CTA may be one ahead
  const uint32_t bars = static_cast<uint32_t>(__cvta_generic_to_shared(full));
  const uint32_t data = static_cast<uint32_t>(__cvta_generic_to_shared(room));
  if (threadIdx.x == 0)
    for (int b = 0; b < 2; ++b)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bars + 8 * b) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
  uint32_t rank, there, bars_there;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(data), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bars_there) : "r"(bars), "r"(rank ^ 1));
  const long long start = clock64();
  for (int s = 0; s < kSteps; ++s) {
    const uint32_t b = 8 * (s & 1);
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bars + b), "r"(kBytes)
                   : "memory");
#pragma unroll
    for (int i = 0; i < kBytes / 16 / kThreads; ++i)
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];" ::"r"(
              there + (i * kThreads + threadIdx.x) * 16),
          "r"(s), "r"(bars_there + b)
          : "memory");
    asm volatile(
        "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(bars + b),
        "r"(s >> 1 & 1)
        : "memory");
  }
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - start;
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

template <int kBytes>
void row(long long* clocks, int sms) {
  CHECK(cudaFuncSetAttribute(exchange<kBytes>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  std::printf("st.async %2d KB each way", kBytes / 1024);
  for (const int blocks : {2, sms / 2 * 2}) {
    std::vector<double> runs;
    for (int run = 0; run < 10; ++run) {
      exchange<kBytes><<<blocks, kThreads, kBytes>>>(clocks);
      CHECK(cudaGetLastError());
      std::vector<long long> seen(blocks);
      CHECK(cudaMemcpy(seen.data(), clocks, blocks * 8, cudaMemcpyDeviceToHost));
      std::sort(seen.begin(), seen.end());
      if (run) runs.push_back(double(seen[blocks / 2]) / kSteps);
    }
    std::sort(runs.begin(), runs.end());
    std::printf("  %4d CTAs %9.1f (%.1f to %.1f)", blocks, runs[4], runs.front(), runs.back());
  }
  std::printf("\n");
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  long long* clocks = nullptr;
  CHECK(cudaMalloc(&clocks, 8 * 1024));
  std::printf("%s, %d SMs; clocks per exchange, median of 9 launches (least to most)\n", card.name,
              card.multiProcessorCount);
  row<4096>(clocks, card.multiProcessorCount);
  row<8192>(clocks, card.multiProcessorCount);
  row<16384>(clocks, card.multiProcessorCount);
  row<32768>(clocks, card.multiProcessorCount);
  row<49152>(clocks, card.multiProcessorCount);
  return 0;
}
