// What f32 additions to global memory cost on a Hopper card (sm_90a): clocks per step of a CTA, alone and
// with every SM busy.
//
//   python benchmarks/silicon/build.py additions     # here: builds build/silicon/additions
//   ./additions                                      # on the card
//
// "add": four warps add, 64 instructions a step each; an instruction touches 32 / lanes rows of 2,048 bytes,
// at random, with lanes * vector * 4 contiguous bytes of each. "fence": `n` such instructions of a warp, then
// a fence. "gather": rows of 1,024 bytes by cp.async, 64 KB a step, among few or many rows. "code": a loop
// over straight code of so many bytes, alone or one loop per warp; clocks per instruction. "acquire": waits
// for a complete phase, and what a load behind such a wait takes.
#include "additions.cuh"

using card::random_row;
using card::shared_address;

constexpr int kWarps = 4, kInstructions = 64;

// kFence: instructions between two fences, 0 for none.
template <int kLanes, int kVector, int kFence>
__global__ void __launch_bounds__(32 * kWarps, 1) additions(Args a) {
  const long long start = clock64();
  for (int s = 0; s < a.steps; ++s) {
#pragma unroll(kFence ? (kFence < 16 ? kFence : 16) : 16)
    for (int j = 0; j < (kFence ? kFence : kInstructions); ++j)
      add<kVector>(place<kLanes, kVector, kWarps>(a, s * (kFence ? kFence : kInstructions) + j));
    if constexpr (kFence > 0) __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

__global__ void __launch_bounds__(128, 1) gather(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  const long long start = clock64();
  const int t = threadIdx.x;
  for (int s = 0; s < a.steps; ++s)
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      const uint32_t to = shared_address(room) + (2 * s + half) % 4 * 32768;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const unsigned row = random_row((2 * s + half) * 32 + 2 * i + t / 64, a.table_rows);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (i * 128 + t) * 16),
                     "l"(a.kv + size_t(row) * 1024 + t % 64 * 16)
                     : "memory");
      }
      asm volatile("cp.async.commit_group;\n cp.async.wait_group 3;" ::: "memory");
    }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

// kRoles: warps with a loop of their own; the other warps run the first loop.
template <int kKb, int kRoles>
__global__ void __launch_bounds__(1024, 1) code(Args a) {
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = float(threadIdx.x + i);
  const int role = threadIdx.x / 32 % kRoles;
  const auto run = [&](int steps) {
    for (int s = 0; s < steps; ++s) {
      if (role == 0) {
#pragma unroll
        for (int i = 0; i < kKb; ++i) straight(x);
      }
      if constexpr (kRoles > 1)
        if (role == 1) {
#pragma unroll
          for (int i = 0; i < kKb; ++i) straight(x);
        }
      if constexpr (kRoles > 2) {
        if (role == 2) {
#pragma unroll
          for (int i = 0; i < kKb; ++i) straight(x);
        }
        if (role == 3) {
#pragma unroll
          for (int i = 0; i < kKb; ++i) straight(x);
        }
      }
    }
  };
  const long long start = clock64();
  run(a.steps);
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  for (int i = 0; i < 8; ++i) a.sink[threadIdx.x] += __float_as_uint(x[i]);
}

enum class Wait { kCta, kCluster, kLoadAlone, kLoadCta, kLoadCluster, kLoadFence };

template <Wait how>
__global__ void __launch_bounds__(32, 1) acquire(Args a) {
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
  __syncwarp();
  uint32_t x = 0;
  const long long start = clock64();
#pragma unroll 1
  for (int s = 0; s < a.steps; ++s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (how == Wait::kCta || how == Wait::kLoadCta)
        asm volatile(
            "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 1; @!p bra W%=;}" ::"r"(
                shared_address(&full))
            : "memory");
      if constexpr (how == Wait::kCluster || how == Wait::kLoadCluster)
        asm volatile(
            "{.reg .pred p; W%=: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 1; @!p "
            "bra "
            "W%=;}" ::"r"(shared_address(&full))
            : "memory");
      if constexpr (how == Wait::kLoadFence) asm volatile("fence.acq_rel.cluster;" ::: "memory");
      if constexpr (how >= Wait::kLoadAlone)
        asm volatile("ld.global.u32 %0, [%1];"
                     : "=r"(x)
                     : "l"(reinterpret_cast<const uint32_t*>(a.kv) + (x & 0xffffff))
                     : "memory");
    }
  }
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  a.sink[threadIdx.x] = x;
}

constexpr int kSteps = 64;

template <int kLanes, int kVector>
void adds(Args a, int sms) {
  std::printf("add %2d rows x %3d B, red%s, table of %3u MB  1 CTA %9.1f  %3d CTAs %9.1f\n", 32 / kLanes,
              4 * kLanes * kVector,
              kVector == 4   ? ".v4"
              : kVector == 2 ? ".v2"
                             : "   ",
              a.table_rows >> 9, median(additions<kLanes, kVector, 0>, a, 1, 32 * kWarps, 0, kSteps), sms,
              median(additions<kLanes, kVector, 0>, a, sms, 32 * kWarps, 0, kSteps));
}

template <int kLanes, int kFence>
void fences(Args a, int sms) {
  std::printf("fence behind %2d, %2d rows x %3d B  1 CTA %9.1f  %3d CTAs %9.1f\n", kFence, 32 / kLanes,
              4 * kLanes, median(additions<kLanes, 1, kFence>, a, 1, 32 * kWarps, 0, kSteps), sms,
              median(additions<kLanes, 1, kFence>, a, sms, 32 * kWarps, 0, kSteps));
}

template <int kKb, int kRoles>
void codes(Args a, int sms) {
  constexpr int kRuns = 2048 / kKb > 64 ? 64 : 2048 / kKb;
  for (const int warps : {kRoles, 4 * kRoles})
    std::printf("code %3d KB, %d loops, %2d warps  1 CTA %9.3f  %3d CTAs %9.3f\n", kKb, kRoles, warps,
                median(code<kKb, kRoles>, a, 1, 32 * warps, 0, kRuns) / (64 * kKb), sms,
                median(code<kKb, kRoles>, a, sms, 32 * warps, 0, kRuns) / (64 * kKb));
}

template <Wait how>
void waits(const char* name, Args a, int sms) {
  std::printf("acquire, %-28s  1 CTA %9.2f  %3d CTAs %9.2f\n", name,
              median(acquire<how>, a, 1, 32, 0, kSteps) / 8, sms,
              median(acquire<how>, a, sms, 32, 0, kSteps) / 8);
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  Args a = allocated(262144, 262144);
  std::printf("%s, %d SMs, %d bytes of L2; clocks per step, median of 7 launches\n", card.name, sms,
              card.l2CacheSize);
  a.table_rows = 8192;
  adds<1, 1>(a, sms), adds<2, 1>(a, sms), adds<4, 1>(a, sms), adds<8, 1>(a, sms), adds<16, 1>(a, sms);
  adds<32, 1>(a, sms), adds<1, 2>(a, sms), adds<1, 4>(a, sms), adds<2, 4>(a, sms), adds<4, 4>(a, sms);
  adds<8, 4>(a, sms);
  for (a.table_rows = 16384; a.table_rows <= 262144; a.table_rows *= 2)
    adds<32, 1>(a, sms), adds<8, 1>(a, sms);
  a.table_rows = 65536;
  adds<1, 1>(a, sms), adds<8, 4>(a, sms);
  a.table_rows = 8192;
  fences<32, 1>(a, sms), fences<32, 4>(a, sms), fences<32, 16>(a, sms), fences<32, 64>(a, sms);
  fences<1, 1>(a, sms), fences<1, 4>(a, sms), fences<1, 16>(a, sms), fences<4, 16>(a, sms);
  for (a.table_rows = 1; a.table_rows <= 262144; a.table_rows *= 8)
    std::printf("gather 64 KB a step, rows of %6u  1 CTA %9.1f  %3d CTAs %9.1f\n", a.table_rows,
                median(gather, a, 1, 128, 131072, kSteps), sms, median(gather, a, sms, 128, 131072, kSteps));
  a.table_rows = 8192;
  codes<4, 1>(a, sms), codes<16, 1>(a, sms), codes<32, 1>(a, sms), codes<64, 1>(a, sms), codes<96, 1>(a, sms);
  codes<128, 1>(a, sms), codes<192, 1>(a, sms), codes<256, 1>(a, sms);
  codes<4, 4>(a, sms), codes<8, 4>(a, sms), codes<16, 4>(a, sms), codes<32, 4>(a, sms), codes<64, 4>(a, sms);
  waits<Wait::kCta>("phase complete", a, sms);
  waits<Wait::kCluster>("phase complete, cluster", a, sms);
  waits<Wait::kLoadAlone>("load", a, sms);
  waits<Wait::kLoadCta>("phase complete, load", a, sms);
  waits<Wait::kLoadCluster>("phase complete, cluster, load", a, sms);
  waits<Wait::kLoadFence>("fence.cluster, load", a, sms);
  return 0;
}
