// An MMA of 128 x 64 x 64 by tcgen05, dumped from tensor memory (`product`, upper half), registers (lower
// half) and a swizzled stage of shared memory (D = product + bias, bf16). Plant: 1 lanes of the dump are
// rotated by 1, 2 the stage is read without its swizzle, 3 the upper half is not dumped, 4 the bias of D
// is 1 column off.
#include <tileproof_dump.cuh>

#include "sm100/ptx.cuh"

namespace ptx = tileproof::ptx;
using tileproof::DumpTile;
constexpr int kM = 128, kN = 64, kK = 64, kThreads = 128, kSpan = 128;
constexpr uint32_t kInstruction = 1u << 4 | (kN / 8) << 17 | (kM / 16) << 24;  // f16 x f16, f32

struct alignas(1024) Shared {
  unsigned char a[kM * kSpan];
  unsigned char b[kN * kSpan];
  unsigned char d[kM * kSpan];
  uint64_t done;
  uint32_t tmem;
};

__device__ uint32_t address_of(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// K-major, 128-byte swizzle: 1024 bytes from 8 rows to the next.
__device__ uint64_t descriptor(uint32_t start) {
  return uint64_t(start >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}

template <class T>
__device__ T& at(unsigned char* tile, int row, int column) {
  return *reinterpret_cast<T*>(tile + tileproof::Swizzled<kSpan>{kM}(row, column, 2));
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    dumping(const __half* A, const __half* B, const float* bias, DumpTile<float> upper, DumpTile<float> lower,
            DumpTile<__nv_bfloat16> D, int plant) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Shared& smem = *reinterpret_cast<Shared*>(bytes);
  const int thread = threadIdx.x, warp = thread / 32;
  for (int i = thread; i < kM * kK; i += kThreads) at<__half>(smem.a, i / kK, i % kK) = A[i];
  for (int i = thread; i < kN * kK; i += kThreads) at<__half>(smem.b, i / kK, i % kK) = B[i];
  if (thread == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(address_of(&smem.done)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;"
                 :
                 : "r"(address_of(&smem.tmem))
                 : "memory");
  }
  ptx::fence_proxy_async_shared();
  ptx::fence_before_thread_sync();
  __syncthreads();
  ptx::fence_after_thread_sync();
  if (thread == 0) {
    for (int k = 0; k < kK; k += 16) {
      ptx::mma_f16_ss(smem.tmem, descriptor(address_of(smem.a) + 2 * k),
                      descriptor(address_of(smem.b) + 2 * k), kInstruction, k != 0);
    }
    ptx::commit(address_of(&smem.done));
  }
  uint32_t complete = 0;
  while (!complete) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
        "selp.b32 %0, 1, 0, p;\n\t}"
        : "=r"(complete)
        : "r"(address_of(&smem.done))
        : "memory");
  }
  ptx::fence_after_thread_sync();

  if (plant != 3) {
    upper.tmem(smem.tmem, [plant](int lane) {
      const int row = plant == 1 ? (lane + 1) % kM : lane;
      return row < kM / 2 ? row : -1;
    });
  }
  const int row = thread;
  for (int c = 0; c < kN; c += 32) {
    float x[32];
    ptx::load_tmem_32_columns(smem.tmem + (uint32_t(32 * warp) << 16) + c, x);
    ptx::wait_tmem_loads();
    for (int j = 0; j < 32; ++j) {
      if (row >= kM / 2) lower.put(row - kM / 2, c + j, x[j]);
      at<__nv_bfloat16>(smem.d, row, c + j) = __float2bfloat16_rn(x[j] + bias[(c + j + (plant == 4)) % kN]);
    }
  }
  __syncthreads();
  if (plant == 2) {
    D.shared(smem.d, tileproof::RowMajor{kSpan}, thread, kThreads);
  } else {
    D.shared(smem.d, tileproof::Swizzled<kSpan>{kM}, thread, kThreads);
  }
  ptx::fence_before_thread_sync();
  __syncthreads();
  ptx::fence_after_thread_sync();
  if (warp == 0) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" : : "r"(smem.tmem) : "memory");
  }
}

template <class T>
T* device(const std::vector<T>& values) {
  void* memory;
  cudaMalloc(&memory, values.size() * sizeof(T));
  cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return static_cast<T*>(memory);
}

int main(int argc, char** argv) {
  tileproof::DumpFolder folder(argc > 1 ? argv[1] : "dump");
  std::vector<__half> A(kM * kK), B(kN * kK);
  std::vector<float> bias(kN);
  uint32_t state = 1;
  auto draw = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; };
  for (__half& x : A) x = __float2half(draw());
  for (__half& x : B) x = __float2half(draw());
  for (float& x : bias) x = draw();
  const float alpha = 1;
  folder.save("A", A.data(), {kM, kK});
  folder.save("B", B.data(), {kN, kK});
  folder.save("bias", bias.data(), {kN});
  folder.save("alpha", &alpha, {});
  auto upper = folder.tile<float>("product[0:64, 0:64]");
  auto lower = folder.tile<float>("product[64:128, 0:64]");
  auto D = folder.tile<__nv_bfloat16>("D", {kM, kN});
  cudaFuncSetAttribute(dumping, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  dumping<<<1, kThreads, sizeof(Shared)>>>(device(A), device(B), device(bias), upper, lower, D,
                                           argc > 2 ? std::atoi(argv[2]) : 0);
  const size_t lost = folder.write();
  std::printf("%zu elements lost\n", lost);
  return lost ? 1 : 0;
}
