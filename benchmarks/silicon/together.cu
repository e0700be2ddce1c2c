// What units do together on a Hopper card (sm_90a): held out of every fit of the timing model. Clocks per
// step of a CTA, alone and with every SM busy.
//
//   python benchmarks/silicon/build.py together     # here: builds build/silicon/together
//   ./together                                      # on the card
//
// "pipeline": a warp loads 16 rows of 1,024 random bytes a step into a ring of stages by bulk copies; eight
// warps wait for a stage, read it, take ex2 of what they read, free the stage and add 16 KB to random rows
// (red.v4, 4 rows x 128 bytes an instruction). "softmax": eight warps do what head128-columns' softmax does
// of one k-block without tensor memory: 32 values a thread, the other CTA's share from shared memory, ex2,
// bf16 to swizzled shared memory, fence, named barrier, an arrival; a ninth warp answers each k-block by its
// own arrival.
#include "card.cuh"

using card::arrive;
using card::bf16x2;
using card::random_row;
using card::shared_address;
using card::wait;

constexpr int kWorkers = 256, kThreads = kWorkers + 32;
constexpr int kRows = 16, kRowBytes = 1024, kStageBytes = kRows * kRowBytes;

struct Args {
  float* table;             // rows of 512
  const unsigned char* kv;  // rows of 1,024 bytes
  long long* clocks;
  int steps;
  unsigned table_rows;  // a power of two
};

__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float4 load4(uint32_t at) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ __forceinline__ void make(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

template <int kStages, int kAdds>
__global__ void __launch_bounds__(kThreads, 1) pipeline(Args a) {
  extern __shared__ __align__(1024) unsigned char room[];
  __shared__ alignas(8) uint64_t bars[2 * kStages];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t full = shared_address(bars), empty = full + 8 * kStages, data = shared_address(room);
  if (threadIdx.x == 0)
    for (int s = 0; s < kStages; ++s) make(full + 8 * s, 1), make(empty + 8 * s, 8);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  if (warp == 8) {
    for (int k = 0; k < a.steps; ++k) {
      const int s = k % kStages;
      wait(empty + 8 * s, (k / kStages & 1) ^ 1);
      if (lane == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(full + 8 * s), "r"(kStageBytes)
                     : "memory");
      __syncwarp();
      if (lane < kRows)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                data + s * kStageBytes + lane * kRowBytes),
            "l"(a.kv + size_t(random_row(k * kRows + lane, a.table_rows)) * kRowBytes), "r"(kRowBytes),
            "r"(full + 8 * s)
            : "memory");
    }
  } else {
    for (int k = 0; k < a.steps; ++k) {
      const int s = k % kStages;
      wait(full + 8 * s, k / kStages & 1);
      float4 v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = load4(data + s * kStageBytes + warp * 2048 + i * 512 + lane * 16);
      __syncwarp();
      if (lane == 0) arrive(empty + 8 * s);
#pragma unroll
      for (int i = 0; i < kAdds; ++i) {
        const float4 w = v[i % 4];
        const float x = exp2_of(w.x), y = exp2_of(w.y), z = exp2_of(w.z), u = exp2_of(w.w);
        const unsigned row = random_row((k * 8 + warp) * 16 + i * 4 + lane / 8, a.table_rows);
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                         a.table + size_t(row) * 512 + (i * 8 + warp) % 16 * 32 + lane % 8 * 4),
                     "f"(x), "f"(y), "f"(z), "f"(u)
                     : "memory");
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

__global__ void __launch_bounds__(kThreads, 1) softmax(Args a) {
  extern __shared__ __align__(1024) unsigned char room[];  // 32 KB of shares, 16 KB of S
  __shared__ alignas(8) uint64_t bars[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t ready = shared_address(bars), answer = ready + 8, data = shared_address(room);
  for (int i = threadIdx.x; i < 12288; i += kThreads) reinterpret_cast<float*>(room)[i] = 0.5f;
  if (threadIdx.x == 0) make(ready, 8), make(answer, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  if (warp == 8) {
    for (int k = 0; k < a.steps; ++k) {
      wait(ready, k & 1);
      if (lane == 0) arrive(answer);
    }
  } else {
    const uint32_t share = data + threadIdx.x * 16, out = data + 32768 + threadIdx.x / 2 * 128;
    for (int k = 0; k < a.steps; ++k) {
      float x[32];
#pragma unroll
      for (int j = 0; j < 32; ++j) asm volatile("mov.b32 %0, 0f3E800000;" : "=f"(x[j]));
#pragma unroll
      for (int q = 0; q < 8; ++q) {
        const float4 v = load4(share + q * 4096);
        x[4 * q] += v.x, x[4 * q + 1] += v.y, x[4 * q + 2] += v.z, x[4 * q + 3] += v.w;
      }
#pragma unroll
      for (int j = 0; j < 32; ++j) x[j] = exp2_of(x[j] * 1.4427f - 2.0f);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int chunk = (threadIdx.x % 2 * 4 + c) ^ (threadIdx.x / 2 & 7);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(out + chunk * 16),
                     "r"(bf16x2(x[8 * c], x[8 * c + 1])), "r"(bf16x2(x[8 * c + 2], x[8 * c + 3])),
                     "r"(bf16x2(x[8 * c + 4], x[8 * c + 5])), "r"(bf16x2(x[8 * c + 6], x[8 * c + 7]))
                     : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync 1, 256;" ::: "memory");
      if (lane == 0) arrive(ready);
      wait(answer, k & 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

void row(const char* name, void (*kernel)(Args), int shared, Args a, int sms) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  std::printf("%s", name);
  for (const int blocks : {1, sms}) {
    const card::Runs runs =
        card::timed([&] { kernel<<<blocks, kThreads, shared>>>(a); }, a.clocks, blocks, a.steps);
    std::printf("  %4d CTA%s %9.1f (%.1f to %.1f)", blocks, blocks > 1 ? "s" : "", runs.median(),
                runs.least(), runs.most());
  }
  std::printf("\n");
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  constexpr unsigned kTableRows = 8192;
  Args a{};
  a.table_rows = kTableRows;
  CHECK(cudaMalloc(&a.table, size_t(kTableRows) * 2048));
  CHECK(cudaMemset(a.table, 0, size_t(kTableRows) * 2048));
  unsigned char* kv = nullptr;
  CHECK(cudaMalloc(&kv, size_t(kTableRows) * kRowBytes));
  CHECK(cudaMemset(kv, 0, size_t(kTableRows) * kRowBytes));
  a.kv = kv;
  CHECK(cudaMalloc(&a.clocks, 8 * 1024));
  std::printf("%s, %d SMs; clocks per step, median of 9 launches (least to most)\n", card.name, sms);
  for (const int steps : {32, 256}) {
    a.steps = steps;
    std::printf("%d steps\n", steps);
    row("pipeline, 2 stages, 16 KB in, 16 KB added", pipeline<2, 4>, 2 * kStageBytes, a, sms);
    row("pipeline, 4 stages, 16 KB in, 16 KB added", pipeline<4, 4>, 4 * kStageBytes, a, sms);
    row("pipeline, 4 stages, 16 KB in, 4 KB added", pipeline<4, 1>, 4 * kStageBytes, a, sms);
    row("pipeline, 1 stage, 16 KB in, 4 KB added", pipeline<1, 1>, kStageBytes, a, sms);
    row("softmax of 128 heads and 64 keys", softmax, 49152, a, sms);
  }
  return 0;
}
