// Latencies and rates of a Hopper card (sm_90a) that `spec/machine/timing.py` states: small loops on one CTA,
// each timed by clock64 around it, clocks per step.
//
//   python benchmarks/silicon/build.py latency     # here: builds build/silicon/latency
//   ./latency                                      # on the card
//
// A chain needs the result of a step for the next one; a rate issues independent steps from some warps.
#include "card.cuh"

using card::shared_address;

constexpr int kSteps = 256;

struct Args {
  float* table;     // 8 rows of 2,304 bytes per warp, zeros
  uint32_t* chase;  // chase[i]: the next index, 4 KB further in 4 MB
  long long* clocks;
  uint32_t* sink;
  uint32_t next[64];  // a cycle
};

enum class What {
  kShuffle,
  kShared,
  kGlobal,
  kExp2,
  kFma,
  kRed,
  kRedV4,
  kBarrier,
  kBarrierOr,
  kReverse,
  kMbarrier,
  kReady,
  kBulkLoad,
  kVote,
  kConstant,
  kSpecial,
  kFenceProxy,
  kFenceCta,
  kFenceCluster,
  kFenceGpu
};

template <What what>
__global__ void __launch_bounds__(1024, 1) measure(Args a) {
  __shared__ alignas(16) uint32_t words[4096];
  __shared__ alignas(8) uint64_t full[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = (i * 4 + 128) % 16384;
  if (threadIdx.x == 0)
    for (auto& b : full)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(1) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  uint32_t x = what == What::kConstant ? a.next[threadIdx.x / 32] : lane;  // constants: one address per warp
  float f = lane;
  const uint32_t base = shared_address(words);
  float* row = a.table + size_t(blockIdx.x * 32 + warp) * 576 * 8 + lane;
  auto loop = [&](int steps) {
#pragma unroll 16
    for (int s = 0; s < steps; ++s) {
      if constexpr (what == What::kShuffle) x = __shfl_sync(0xffffffff, x, x & 31);
      if constexpr (what == What::kVote) x = __ballot_sync(0xffffffff, x & 1) + x;
      if constexpr (what == What::kShared)
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(base + x % 16384 / 4 * 4));
      if constexpr (what == What::kGlobal)
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(a.chase + x));
      if constexpr (what == What::kExp2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f));
      if constexpr (what == What::kFma) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(f));
      if constexpr (what == What::kRed)
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(row + s % 8 * 576), "f"(f) : "memory");
      if constexpr (what == What::kRedV4)
        asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(
                         row - lane + (s % 2 * 4 + lane / 8) * 576 + lane % 8 * 4),
                     "f"(f)
                     : "memory");
      if constexpr (what == What::kConstant) x = a.next[x & 63];
      if constexpr (what == What::kSpecial) {
        uint32_t t;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
        x ^= t;
      }
      if constexpr (what == What::kReady)  // the phase before the first counts as complete
        asm volatile(
            "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 1; @!p bra W%=;}" ::"r"(
                shared_address(&full[0]))
            : "memory");
      if constexpr (what == What::kBarrierOr) x = __syncthreads_or(x & 1) + x;
      if constexpr (what == What::kReverse) x = __brev(x) + s;
      if constexpr (what == What::kBarrier) asm volatile("bar.sync 0;" ::: "memory");
      if constexpr (what >= What::kFenceProxy)  // a store of its own before each, as kernels have it
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + lane * 4), "r"(s) : "memory");
      if constexpr (what == What::kFenceProxy) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if constexpr (what == What::kFenceCta) asm volatile("fence.acq_rel.cta;" ::: "memory");
      if constexpr (what == What::kFenceCluster) asm volatile("fence.acq_rel.cluster;" ::: "memory");
      if constexpr (what == What::kFenceGpu) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    if constexpr (what == What::kMbarrier) {  // two warps, one lane each: arrive for the other, wait for it
      if (lane == 0 && warp < 2)
        for (int s = 0; s < steps; ++s) {
          const uint32_t mine = shared_address(&full[warp]), other = shared_address(&full[1 - warp]);
          if (warp == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(other) : "memory");
          asm volatile(
              "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(
                  mine),
              "r"(s & 1)
              : "memory");
          if (warp == 1) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(other) : "memory");
        }
    }
    if constexpr (what == What::kBulkLoad) {
      if (threadIdx.x == 0)
        for (int s = 0; s < steps; ++s) {
          const uint32_t b = shared_address(&full[0]);
          asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 1024;" ::"r"(b) : "memory");
          asm volatile(
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::
                  "r"(base),
              "l"(a.chase + (s % 64) * 4096), "r"(b)
              : "memory");
          asm volatile(
              "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(b),
              "r"(s & 1)
              : "memory");
        }
    }
  };
  loop(64);
  __syncthreads();
  const long long start = clock64();
  loop(kSteps);
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  a.sink[threadIdx.x] = x + __float_as_uint(f);
}

template <What what>
void row(const char* name, const Args& args, int threads, int blocks = 1) {
  const card::Runs runs =
      card::timed([&] { measure<what><<<blocks, threads>>>(args); }, args.clocks, blocks, kSteps);
  std::printf("%-34s %4d warps %4d CTAs %9.2f (%.2f to %.2f)\n", name, threads / 32, blocks, runs.median(),
              runs.least(), runs.most());
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  Args a{};
  const size_t table = size_t(sms) * 32 * 576 * 8 * 4;
  CHECK(cudaMalloc(&a.table, table));
  CHECK(cudaMemset(a.table, 0, table));
  std::vector<uint32_t> chase(1 << 20);
  for (uint32_t i = 0; i < chase.size(); ++i) chase[i] = (i + 1024) % chase.size();
  CHECK(cudaMalloc(&a.chase, chase.size() * 4));
  CHECK(cudaMemcpy(a.chase, chase.data(), chase.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&a.clocks, 8 * 1024));
  CHECK(cudaMalloc(&a.sink, 4 * 1024));
  for (uint32_t i = 0; i < 64; ++i) a.next[i] = (i + 5) % 64;
  std::printf("%s, %d SMs; clocks per step, median of 9 launches (least to most)\n", card.name, sms);
  row<What::kFma>("fma, chain", a, 32);
  row<What::kExp2>("ex2.approx.ftz.f32, chain", a, 32);
  row<What::kShuffle>("shfl.idx, chain (with lop3)", a, 32);
  row<What::kVote>("ballot and add, chain", a, 32);
  row<What::kShared>("ld.shared, chain (with lop3, iadd)", a, 32);
  row<What::kGlobal>("ld.global from L2, chain", a, 32);
  for (int warps : {1, 2, 4, 8, 16}) row<What::kRed>("red.f32, rate", a, 32 * warps);
  for (int warps : {1, 2, 4, 8, 16}) row<What::kRedV4>("red.v4.f32, 4 rows x 128 B, rate", a, 32 * warps);
  for (int warps : {4, 8}) row<What::kRed>("red.f32, rate", a, 32 * warps, sms);
  for (int warps : {4, 8}) row<What::kRedV4>("red.v4.f32, 4 rows x 128 B, rate", a, 32 * warps, sms);
  for (int warps : {1, 2, 4, 8, 13}) row<What::kBarrier>("bar.sync", a, 32 * warps);
  for (int warps : {1, 2, 4, 8, 13}) row<What::kBarrierOr>("bar.red.or, chain (with add)", a, 32 * warps);
  row<What::kReverse>("brev, chain (with iadd)", a, 32);
  row<What::kConstant>("parameter by index, chain (lop3)", a, 32);
  row<What::kSpecial>("read %smid", a, 32);
  row<What::kReady>("try_wait, phase complete", a, 32);
  row<What::kMbarrier>("mbarrier, there and back", a, 64);
  row<What::kBulkLoad>("bulk load of 1 KB and wait", a, 32);
  row<What::kFenceProxy>("st.shared, fence.proxy.async", a, 32);
  row<What::kFenceCta>("st.shared, fence.acq_rel.cta", a, 32);
  row<What::kFenceCluster>("st.shared, fence.acq_rel.cluster", a, 32);
  row<What::kFenceGpu>("st.shared, fence.acq_rel.gpu", a, 32);
  return 0;
}
