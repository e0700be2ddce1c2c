// Programs that the timing model had not seen when `cp.async` groups and the sharing of L2 were mended, on a
// Hopper card (sm_90a): clocks per step of a CTA, alone and with every SM busy. tools/held_out_rows.py
// predicts them.
//
//   python benchmarks/silicon/build.py held_out_rings     # here: builds build/silicon/held_out_rings
//   ./held_out_rings                                      # on the card
#include "additions.cuh"

using card::random_row;
using card::shared_address;

constexpr int kPart = 16384;  // bytes of a step's gather: 16 rows of 1,024

// One group: 16 KB of random rows by 128 threads, each row `kTimes` times.
template <int kTimes>
__device__ __forceinline__ void ask(const Args& a, uint32_t to, int s) {
  const int t = threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const unsigned row = random_row((s * 16 + i * 2 + t / 64) / kTimes, a.table_rows);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (i * 128 + t) * 16),
                 "l"(a.kv + size_t(row) * 1024 + t % 64 * 16)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kAhead>
__device__ __forceinline__ void wait_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kAhead) : "memory");
}

__device__ __forceinline__ float read4(uint32_t at) {
  float x, y, z, w;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
               : "r"(at)
               : "memory");
  return x + y + z + w;
}

// A ring of kAhead + 1 stages: 128 threads gather a stage, then read the stage that is complete.
template <int kAhead>
__device__ __forceinline__ float ring(const Args& a, uint32_t room) {
  float sum = 0;
#pragma unroll 1
  for (int s = 0; s < a.steps; ++s) {
    ask<1>(a, room + s % (kAhead + 1) * kPart, s);
    wait_groups<kAhead>();
    __syncthreads();
    const uint32_t from = room + (s + 1) % (kAhead + 1) * kPart + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += read4(from + i * 2048);
    __syncthreads();
  }
  wait_groups<0>();
  return sum;
}

// Warps 0 to 3 gather 16 KB a step, each row twice, two groups in flight; warps 4 to 7 add 16 KB a step.
__device__ __forceinline__ void beside(const Args& a, uint32_t room) {
  if (threadIdx.x < 128) {
#pragma unroll 1
    for (int s = 0; s < a.steps; ++s) {
      ask<2>(a, room + s % 3 * kPart, s);
      wait_groups<2>();
    }
    wait_groups<0>();
  } else {
#pragma unroll 1
    for (int s = 0; s < a.steps; ++s)
#pragma unroll
      for (int j = 0; j < 8; ++j) add<4>(place<8, 4>(a, s * 8 + j));
  }
}

// A warp fetches 16 KB a step by bulk copies of 1 KB, each row twice; two stages in flight.
__device__ __forceinline__ void bulk(const Args& a, uint32_t room, uint32_t bars) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll 1
  for (int s = 0; s < a.steps + 2; ++s) {
    const uint32_t bar = bars + s % 2 * 8;
    if (s >= 2) card::wait(bar, (s / 2 - 1) & 1);
    if (s >= a.steps) continue;
    if (lane == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(kPart) : "memory");
    __syncwarp();
    if (lane < 16)
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
              room + s % 2 * kPart + lane * 1024),
          "l"(a.kv + size_t(random_row(s * 8 + lane / 2, a.table_rows)) * 1024), "r"(1024), "r"(bar)
          : "memory");
  }
}

// Eight warps store words with a stride of 8 words and load words with a stride of 16: 8 and 16 lanes of a
// bank.
__device__ __forceinline__ float banks(const Args& a, uint32_t room) {
  float sum = 0;
#pragma unroll 1
  for (int s = 0; s < a.steps; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(room + threadIdx.x * 32 + i * 8192), "f"(sum) : "memory");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float x;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(room + threadIdx.x * 64 + i * kPart) : "memory");
      sum += x;
    }
    __syncthreads();
  }
  return sum;
}

enum class Does { kOne, kThree, kSix, kBeside, kBulk, kBanks };

template <Does does>
__global__ void __launch_bounds__(256, 1) rings(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  __shared__ alignas(8) uint64_t bars[2];
  const uint32_t at = shared_address(room), barriers = shared_address(bars);
  if (threadIdx.x == 0)
    for (int b = 0; b < 2; ++b)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers + 8 * b) : "memory");
  for (unsigned i = threadIdx.x; i < 7 * kPart / 16; i += blockDim.x)
    asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at + i * 16), "f"(0.0f) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  float sum = 0;
  const long long start = clock64();
  if constexpr (does == Does::kOne) sum = ring<0>(a, at);
  if constexpr (does == Does::kThree) sum = ring<2>(a, at);
  if constexpr (does == Does::kSix) sum = ring<5>(a, at);
  if constexpr (does == Does::kBeside) beside(a, at);
  if constexpr (does == Does::kBulk) bulk(a, at, barriers);
  if constexpr (does == Does::kBanks) sum = banks(a, at);
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  a.sink[threadIdx.x] = __float_as_uint(sum);
}

template <Does does>
void row(const char* name, Args a, int threads, int sms) {
  print_row(name, rings<does>, a, threads, 7 * kPart, sms);
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  Args a = allocated(8192, 8192);
  a.steps = 128;
  a.table_rows = 8192;
  std::printf("%s, %d SMs; clocks per step, median of 7 launches\n", card.name, sms);
  row<Does::kOne>("ring of 1 stage, gather of 16 KB", a, 128, sms);
  row<Does::kThree>("ring of 3 stages, gather of 16 KB", a, 128, sms);
  row<Does::kSix>("ring of 6 stages, gather of 16 KB", a, 128, sms);
  row<Does::kBeside>("gather of 16 KB beside additions of 16 KB", a, 256, sms);
  row<Does::kBulk>("bulk copies of 16 KB, each row twice", a, 32, sms);
  row<Does::kBanks>("8 and 16 lanes of a bank, bar.sync", a, 256, sms);
  return 0;
}
