// The parts of together.cu's softmax step on a Hopper card (sm_90a), left out one by one, and what
// synchronises it alone: where the timing model is too slow. Clocks per step of one CTA.
//
//   python benchmarks/silicon/build.py softmax_parts     # here: builds build/silicon/softmax_parts
//   ./softmax_parts                                      # on the card
//
// A step of eight warps: 8 ld.shared.v4 of 32 values a thread, 32 ex2, 4 st.shared.v4, a proxy fence,
// bar.sync, an arrival that a ninth warp answers by its own.
#include "card.cuh"

using card::arrive;
using card::bf16x2;
using card::shared_address;
using card::wait;

constexpr int kWorkers = 256, kThreads = kWorkers + 32;
constexpr int kLoad = 1, kExp2 = 2, kStore = 4, kFence = 8, kBarrier = 16, kAnswer = 32;

struct Args {
  long long* clocks;
  int steps;
};

template <int kParts>
__global__ void __launch_bounds__(kThreads, 1) parts(Args a) {
  extern __shared__ __align__(1024) unsigned char room[];
  __shared__ alignas(8) uint64_t bars[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t ready = shared_address(bars), answer = ready + 8, data = shared_address(room);
  for (int i = threadIdx.x; i < 12288; i += kThreads) reinterpret_cast<float*>(room)[i] = 0.5f;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 8;" ::"r"(ready) : "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(answer) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  if (warp == 8) {
    for (int k = 0; (kParts & kAnswer) && k < a.steps; ++k) {
      wait(ready, k & 1);
      if (lane == 0) arrive(answer);
    }
  } else {
    const uint32_t share = data + threadIdx.x * 16, out = data + 32768 + threadIdx.x / 2 * 128;
    float x[32];  // without loads the values of the step before, which ptxas cannot know
#pragma unroll
    for (int j = 0; j < 32; ++j) x[j] = float(a.steps + j);
    for (int k = 0; k < a.steps; ++k) {
      if (kParts & kLoad)
#pragma unroll
        for (int j = 0; j < 32; ++j) asm volatile("mov.b32 %0, 0f3E800000;" : "=f"(x[j]));
      if (kParts & kLoad)
#pragma unroll
        for (int q = 0; q < 8; ++q) {
          float4 v;
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                       : "r"(share + q * 4096)
                       : "memory");
          x[4 * q] += v.x, x[4 * q + 1] += v.y, x[4 * q + 2] += v.z, x[4 * q + 3] += v.w;
        }
      if (kParts & kExp2)
#pragma unroll
        for (int j = 0; j < 32; ++j)
          asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[j]) : "f"(x[j] * 1.4427f - 2.0f));
      if (kParts & kStore)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int chunk = (threadIdx.x % 2 * 4 + c) ^ (threadIdx.x / 2 & 7);
          asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(out + chunk * 16),
                       "r"(bf16x2(x[8 * c], x[8 * c + 1])), "r"(bf16x2(x[8 * c + 2], x[8 * c + 3])),
                       "r"(bf16x2(x[8 * c + 4], x[8 * c + 5])), "r"(bf16x2(x[8 * c + 6], x[8 * c + 7]))
                       : "memory");
        }
      if (kParts & kFence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if (kParts & kBarrier) asm volatile("bar.sync 1, 256;" ::: "memory");
      if (kParts & kAnswer) {
        if (lane == 0) arrive(ready);
        wait(answer, k & 1);
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

template <int kParts>
void row(const char* name, Args a) {
  CHECK(cudaFuncSetAttribute(parts<kParts>, cudaFuncAttributeMaxDynamicSharedMemorySize, 49152));
  const card::Runs runs =
      card::timed([&] { parts<kParts><<<1, kThreads, 49152>>>(a); }, a.clocks, 1, a.steps, 19);
  std::printf("%-36s 1 CTA %9.1f (%.1f to %.1f)\n", name, runs.median(), runs.least(), runs.most());
}

int main() {
  int device = 0;
  CHECK(cudaGetDevice(&device));
  cudaDeviceProp about{};
  CHECK(cudaGetDeviceProperties(&about, device));
  Args a{};
  CHECK(cudaMalloc(&a.clocks, 8));
  a.steps = 32;
  std::printf("%s; clocks per step of 32, median of 19 launches (least to most)\n", about.name);
  row<kLoad | kExp2 | kStore | kFence | kBarrier | kAnswer>("all", a);
  row<kExp2 | kStore | kFence | kBarrier | kAnswer>("without loads", a);
  row<kLoad | kStore | kFence | kBarrier | kAnswer>("without ex2", a);
  row<kLoad | kExp2 | kStore | kBarrier | kAnswer>("without the fence", a);
  row<kLoad | kExp2 | kStore | kFence | kAnswer>("without bar.sync", a);
  row<kLoad | kExp2 | kStore | kFence | kBarrier>("without the answer", a);
  row<kAnswer>("answer", a);
  row<kBarrier | kAnswer>("bar.sync, answer", a);
  row<kFence | kBarrier | kAnswer>("fence, bar.sync, answer", a);
  row<kLoad | kStore | kBarrier>("loads, stores, bar.sync", a);
  row<kStore | kBarrier>("stores, bar.sync", a);
  row<kExp2 | kStore | kBarrier>("ex2, stores, bar.sync", a);
  row<kLoad | kExp2 | kStore | kBarrier>("loads, ex2, stores, bar.sync", a);
  return 0;
}
