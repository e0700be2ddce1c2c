// Clocks of an exchange between the two CTAs of a cluster on a Hopper card: each writes BYTES into the
// other's shared memory by st.async and waits for as many from it, one exchange after the other. By four
// warps or eight; 16, 32, 64 or 128 contiguous bytes of a row by neighbouring lanes, rows 256 bytes apart; in
// two rounds, 16 KB and 16 KB of partial sums for two barriers, then 16 KB more. Then there and back by a
// remote arrival, and barrier.cluster.
//
//   python benchmarks/silicon/build.py exchange     # here: builds build/silicon/exchange
//   ./exchange                                      # on the card
#include "card.cuh"

using card::wait;

constexpr int kSteps = 64;

__device__ __forceinline__ void send(uint32_t to, uint32_t value, uint32_t bar) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %1, %1, %1}, [%2];" ::"r"(to),
      "r"(value), "r"(bar)
      : "memory");
}

__device__ __forceinline__ void expect(uint32_t bar, int bytes) {
  if (threadIdx.x == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

enum class Form { kLinear, kRounds, kRows16, kRows32, kRows64 };

// Where the i-th 16 bytes of a thread go: `kLanes` neighbours fill a row of 256 bytes together.
template <int kBytes, int kThreads, Form form>
__device__ __forceinline__ uint32_t place(int i) {
  if constexpr (form == Form::kLinear) return (i * kThreads + threadIdx.x) * 16;
  constexpr int kLanes = form == Form::kRows16 ? 1 : form == Form::kRows32 ? 2 : 4;
  return (threadIdx.x / kLanes * 256 + i * kLanes * 16 + threadIdx.x % kLanes * 16) % kBytes;
}

template <int kBytes, int kThreads, Form form>
__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1) exchange(long long* clocks, int steps) {
  extern __shared__ __align__(128) unsigned char room[];
  __shared__ alignas(8) uint64_t full[6];  // by the parity of the step: the other CTA may be one ahead
  const uint32_t bars = static_cast<uint32_t>(__cvta_generic_to_shared(full));
  const uint32_t data = static_cast<uint32_t>(__cvta_generic_to_shared(room));
  if (threadIdx.x == 0)
    for (int b = 0; b < 6; ++b)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bars + 8 * b) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
  uint32_t rank, there, bars_there;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(data), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bars_there) : "r"(bars), "r"(rank ^ 1));
  const long long start = clock64();
  for (int s = 0; s < steps; ++s) {
    const uint32_t b = 8 * (s & 1);
    if constexpr (form == Form::kRounds) {
      constexpr int kPart = kBytes / 3;
      for (int part = 0; part < 3; ++part) expect(bars + b + 16 * part, kPart);
      for (int part = 0; part < 3; ++part) {
        if (part == 2) wait(bars + b, s >> 1 & 1), wait(bars + b + 16, s >> 1 & 1);
#pragma unroll
        for (int i = 0; i < kPart / 16 / kThreads; ++i)
          send(there + part * kPart + (i * kThreads + threadIdx.x) * 16, s, bars_there + b + 16 * part);
      }
      wait(bars + b + 32, s >> 1 & 1);
    } else {
      expect(bars + b, kBytes);
#pragma unroll
      for (int i = 0; i < kBytes / 16 / kThreads; ++i)
        send(there + place<kBytes, kThreads, form>(i), s, bars_there + b);
      wait(bars + b, s >> 1 & 1);
    }
  }
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - start;
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

// A thread of each CTA arrives at the other's barrier and waits for its own; or all threads at
// barrier.cluster.
template <bool kRemote>
__global__ void __cluster_dims__(2) __launch_bounds__(128, 1) ping(long long* clocks) {
  __shared__ alignas(8) uint64_t full;
  const uint32_t bar = static_cast<uint32_t>(__cvta_generic_to_shared(&full));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
  uint32_t rank, there;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(bar), "r"(rank ^ 1));
  const long long start = clock64();
  for (int s = 0; s < kSteps; ++s) {
    if constexpr (kRemote) {
      if (threadIdx.x == 0) {
        if (rank == 0)
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there)
                       : "memory");
        wait(bar, s & 1);
        if (rank == 1)
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there)
                       : "memory");
      }
    } else {
      asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    }
  }
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - start;
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

void between(const char* name, void (*kernel)(long long*), long long* clocks, int sms) {
  std::printf("%s", name);
  for (const int blocks : {2, sms / 2 * 2}) {
    const card::Runs runs = card::timed([&] { kernel<<<blocks, 128>>>(clocks); }, clocks, blocks, kSteps);
    std::printf("  %4d CTAs %9.1f (%.1f to %.1f)", blocks, runs.median(), runs.least(), runs.most());
  }
  std::printf("\n");
}

template <int kBytes, int kThreads = 128, Form form = Form::kLinear>
void row(long long* clocks, int sms, const char* how = "") {
  const auto kernel = exchange<kBytes, kThreads, form>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  std::printf("st.async %2d KB each way%s", kBytes / 1024, how);
  for (const int blocks : {2, sms / 2 * 2}) {
    const card::Runs runs =
        card::timed([&] { kernel<<<blocks, kThreads, kBytes>>>(clocks, kSteps); }, clocks, blocks, kSteps);
    std::printf("  %4d CTAs %9.1f (%.1f to %.1f)", blocks, runs.median(), runs.least(), runs.most());
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
  row<16384, 256>(clocks, card.multiProcessorCount, ", 8 warps");
  row<32768, 256>(clocks, card.multiProcessorCount, ", 8 warps");
  row<49152, 256>(clocks, card.multiProcessorCount, ", 8 warps");
  row<16384, 256, Form::kRows16>(clocks, card.multiProcessorCount, ", 8 warps, 16 B of a row");
  row<16384, 256, Form::kRows32>(clocks, card.multiProcessorCount, ", 8 warps, 32 B of a row");
  row<16384, 256, Form::kRows64>(clocks, card.multiProcessorCount, ", 8 warps, 64 B of a row");
  row<49152, 256, Form::kRounds>(clocks, card.multiProcessorCount, ", 8 warps, two rounds");
  between("remote arrival, there and back", ping<true>, clocks, card.multiProcessorCount);
  between("barrier.cluster", ping<false>, clocks, card.multiProcessorCount);
  return 0;
}
