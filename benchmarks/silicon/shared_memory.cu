// Shared memory of a Hopper card (sm_90a): bank conflicts of ld.shared and st.shared, and how loads share the
// memory with the operands of wgmma. Clocks per instruction and warp, one CTA.
//
//   python benchmarks/silicon/build.py shared_memory     # here: builds build/silicon/shared_memory
//   ./shared_memory                                      # on the card
#include "card.cuh"

constexpr int kSteps = 256;

struct Args {
  long long* clocks;
  uint32_t* sink;
  uint32_t stride;  // bytes from lane to lane
};

enum class What { kLoad, kLoadV4, kStore, kStoreV4, kChain };

template <What what>
__global__ void __launch_bounds__(1024, 1) banks(Args a) {
  __shared__ alignas(128) uint32_t words[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) words[i] = 0;
  __syncthreads();
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(words));
  const uint32_t at = base + threadIdx.x % 32 * a.stride;
  uint32_t x = 0;
  auto loop = [&](int steps) {
#pragma unroll 16
    for (int s = 0; s < steps; ++s) {
      uint32_t y, z, w;
      if constexpr (what == What::kLoad) {
        asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(y) : "r"(at + s % 4 * 4));
        x ^= y;
      }
      if constexpr (what == What::kLoadV4) {
        uint32_t v;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y), "=r"(z), "=r"(w), "=r"(v)
                     : "r"(at + s % 4 * 16));
        x ^= y ^ z ^ w ^ v;
      }
      if constexpr (what == What::kStore)
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + s % 4 * 4), "r"(s) : "memory");
      if constexpr (what == What::kStoreV4)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at + s % 4 * 16), "r"(s) : "memory");
      if constexpr (what == What::kChain) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at + x));
    }
  };
  loop(64);
  __syncthreads();
  const long long start = clock64();
  loop(kSteps);
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  a.sink[threadIdx.x] = x;
}

// Four warps of wgmma m64nNk16 with both operands in shared memory; the others load 16 bytes a lane. `mma`
// and `load` say which of them do anything; both run for a fixed number of steps.
__device__ __forceinline__ uint64_t descriptor(uint32_t at) {  // K-major, no swizzle: 8 x 16 byte cores
  return uint64_t(at >> 4 & 0x3FFF) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// One statement: ptxas keeps wgmma in flight only where nothing touches the accumulators in between.
#define WGMMA                                                                                       \
  "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"    \
  "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, " \
  "1, 1, 0, 0;\n"
#define WGMMA_8 WGMMA WGMMA WGMMA WGMMA WGMMA WGMMA WGMMA WGMMA

__device__ __forceinline__ void wgmma_32(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile("wgmma.fence.sync.aligned;\n" WGMMA_8 WGMMA_8 WGMMA_8 WGMMA_8
               "wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
                 "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                 "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
                 "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "l"(a), "l"(b)
               : "memory");
}
#endif

__global__ void __launch_bounds__(512, 1) operands(Args a, bool mma, int loaders, int steps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // wgmma; the model plays the other kernels as sm_90
  extern __shared__ __align__(1024) unsigned char room[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) reinterpret_cast<uint32_t*>(room)[i] = 0;
  __syncthreads();
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(room));
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  uint32_t x = 0;
  long long mine = 0;
  const long long start = clock64();
  if (warp < 4) {
    if (mma) {
      float d[32] = {};
      for (int s = 0; s < steps; ++s) wgmma_32(d, descriptor(base), descriptor(base + 16384));
      mine = clock64() - start;
      for (float f : d) x ^= __float_as_uint(f);
    }
  } else if (warp < 4 + loaders) {
    const uint32_t at = base + 32768 + threadIdx.x % 32 * 16 + warp * 512;
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        uint32_t y, z, w, v;
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y), "=r"(z), "=r"(w), "=r"(v)
                     : "r"(at + i % 4 * 4096));
        x ^= y ^ z ^ w ^ v;
      }
    mine = clock64() - start;
  }
  if (threadIdx.x == 0) a.clocks[0] = mine;
  if (threadIdx.x == 128) a.clocks[1] = mine;
  a.sink[threadIdx.x] = x;
#endif
}

template <What what>
void row(const char* name, Args a, int warps, uint32_t stride) {
  a.stride = stride;
  const card::Runs runs = card::timed([&] { banks<what><<<1, 32 * warps>>>(a); }, a.clocks, 1, kSteps, 7);
  std::printf("%-24s stride %4u bytes, %2d warps %8.2f (%.2f to %.2f)\n", name, stride, warps, runs.median(),
              runs.least(), runs.most());
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  Args a{};
  CHECK(cudaMalloc(&a.clocks, 8 * 16));
  CHECK(cudaMalloc(&a.sink, 4 * 1024));
  std::printf("%s; clocks per instruction, median of 7 launches (least to most)\n", card.name);
  for (uint32_t stride : {4u, 8u, 16u, 32u, 64u, 128u}) {
    row<What::kLoad>("ld.shared.b32", a, 1, stride);
    row<What::kLoad>("ld.shared.b32", a, 8, stride);
    row<What::kStore>("st.shared.b32", a, 1, stride);
    row<What::kStore>("st.shared.b32", a, 8, stride);
    row<What::kChain>("ld.shared.b32, chain", a, 1, stride);
  }
  for (uint32_t stride : {16u, 32u, 64u, 128u, 256u}) {
    row<What::kLoadV4>("ld.shared.v4.b32", a, 1, stride);
    row<What::kLoadV4>("ld.shared.v4.b32", a, 8, stride);
    row<What::kStoreV4>("st.shared.v4.b32", a, 1, stride);
    row<What::kStoreV4>("st.shared.v4.b32", a, 8, stride);
  }
  std::printf("wgmma m64n64k16, operands in shared memory, beside ld.shared.v4; clocks per instruction\n");
  CHECK(cudaFuncSetAttribute(operands, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  for (int loaders : {0, 1, 2, 4, 8, 12})
    for (bool mma : {false, true}) {
      if (!loaders && !mma) continue;
      std::vector<double> first, second;
      for (int run = 0; run < 8; ++run) {
        operands<<<1, 512, 65536>>>(a, mma, loaders, 64);
        CHECK(cudaGetLastError());
        long long seen[2];
        CHECK(cudaMemcpy(seen, a.clocks, 16, cudaMemcpyDeviceToHost));
        if (run) first.push_back(seen[0] / 2048.0), second.push_back(seen[1] / 2048.0);
      }
      std::sort(first.begin(), first.end()), std::sort(second.begin(), second.end());
      std::printf("%2d warps of loads, wgmma %-3s  wgmma %8.2f  load %8.2f\n", loaders, mma ? "yes" : "no",
                  mma ? first[3] : 0.0, loaders ? second[3] : 0.0);
    }
  return 0;
}
