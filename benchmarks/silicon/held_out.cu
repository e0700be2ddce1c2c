// Programs that the timing model had not seen when it was fitted, on a Hopper card (sm_90a): clocks per step
// of a CTA, alone and with every SM busy. tools/held_out_rows.py predicts them.
//
//   python benchmarks/silicon/build.py held_out     # here: builds build/silicon/held_out
//   ./held_out                                      # on the card
#include "additions.cuh"

using card::random_row;
using card::shared_address;

template <int kLanes, int kVector>
__device__ __forceinline__ void add_at(const Args& a, unsigned n) {
  add<kVector>(place<kLanes, kVector>(a, n));
}

// 32 KB of rows of 1 KB, each row twice, by 128 threads.
__device__ __forceinline__ void gather(const Args& a, uint32_t room, int s) {
  const int t = threadIdx.x;
  const uint32_t to = room + s % 2 * 32768;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const unsigned row = random_row(s * 16 + i, a.table_rows);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (i * 128 + t) * 16),
                 "l"(a.kv + size_t(row) * 1024 + t % 64 * 16)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;\n cp.async.wait_group 1;" ::: "memory");
}

enum class Does { kMixed, kFence, kPairs, kEighths, kGather, kCode };

template <Does does>
__global__ void __launch_bounds__(256, 1) held(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = float(threadIdx.x + i);
  const long long start = clock64();
#pragma unroll 1
  for (int s = 0; s < a.steps; ++s) {
    if constexpr (does == Does::kMixed) {
#pragma unroll
      for (int j = 0; j < 16; ++j) add_at<1, 1>(a, s * 16 + j), add_at<32, 4>(a, s * 16 + j);
    }
    if constexpr (does == Does::kFence) {
#pragma unroll
      for (int j = 0; j < 12; ++j) add_at<4, 2>(a, s * 12 + j);
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      __syncthreads();
    }
    if constexpr (does == Does::kPairs) {
#pragma unroll
      for (int j = 0; j < 32; ++j) add_at<16, 1>(a, s * 32 + j);
    }
    if constexpr (does == Does::kEighths) {
#pragma unroll
      for (int j = 0; j < 32; ++j) add_at<4, 4>(a, s * 32 + j);
    }
    if constexpr (does == Does::kGather) gather(a, shared_address(room), s);
    if constexpr (does == Does::kCode) {
#pragma unroll
      for (int i = 0; i < 24; ++i) straight(x);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared_address(room) + threadIdx.x * 4), "f"(x[0])
                   : "memory");
      __syncthreads();
    }
  }
  if constexpr (does == Does::kGather) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (does == Does::kCode) a.sink[threadIdx.x] = __float_as_uint(sum);
}

template <Does does>
void row(const char* name, Args a, int threads, int sms) {
  print_row(name, held<does>, a, threads, does == Does::kGather ? 65536 : 1024, sms);
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  Args a = allocated(65536, 2048);
  a.steps = 128;
  std::printf("%s, %d SMs; clocks per step, median of 7 launches\n", card.name, sms);
  a.table_rows = 8192;
  row<Does::kMixed>("mixed: 32 rows x 4 B and 1 row x 512 B", a, 128, sms);
  row<Does::kFence>("12 of 8 rows x 32 B, fence, bar.sync", a, 256, sms);
  a.table_rows = 16384;
  row<Does::kPairs>("2 rows x 64 B, table of 32 MB", a, 128, sms);
  a.table_rows = 65536;
  row<Does::kEighths>("8 rows x 64 B, table of 128 MB", a, 128, sms);
  a.table_rows = 2048;
  row<Does::kGather>("gather of 32 KB, each row twice, of 2048 rows", a, 128, sms);
  row<Does::kCode>("loop of 24 KB of code, st.shared, bar.sync", a, 256, sms);
  return 0;
}
