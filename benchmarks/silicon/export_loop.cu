// Clocks per k-block of head64's dKV export loop on a Hopper card (sm_90a), alone and with every SM busy.
//
//   python benchmarks/silicon/export_loop.py       # here: builds build/silicon/export_loop
//   ./export_loop                                  # on the card
//
// "as shipped" calls the function of kernels/sm100/head64/dkv_export.cuh itself, for the 4 x 2 halves of the
// parts and the RoPE columns of d_qk 576: 147,456 bytes added per k-block of 64 keys. What the kernel loads
// from tensor memory stands in registers here, so TMEM loads, barriers and the other roles cost nothing: a
// floor of what the role needs. The other forms add the same bytes; "a key at a time" and "32 shuffles first"
// are what the kernel did before. Rows are drawn at random from 8,192.
#include "card.cuh"
#include "sm100/head64/dkv_export.cuh"
#include "tileproof_plan.h"

using tileproof::Plan;
using tileproof::head64::Params;

enum class Form { kKeyAtATime, kShufflesFirst, kAsShipped, kVectors };
constexpr int kSlotHalves = 9;  // 4 parts of 128 columns x 2 halves of the keys, and RoPE
constexpr int kThreads = 128;
constexpr int kKBlocks = 32;
constexpr int kTableRows = 8192;

struct Loop : tileproof::head64::DkvExport<Plan> {
  using Role = tileproof::head64::DkvExport<Plan>;
  __device__ __forceinline__ explicit Loop(const tileproof::head64::Context<Plan>& context) : Role(context) {}

  template <Form form>
  __device__ __forceinline__ void half(const float (&v)[32], int rows, int column, int t) {
    if constexpr (form == Form::kAsShipped) {
      add(v, rows, column);
    } else if constexpr (form == Form::kKeyAtATime) {
      for (int j = 0; j < 32; ++j) {
        const int row = __shfl_sync(0xffffffff, rows, j);
        if (row >= 0) tileproof::ptx::red_add(params.dKV + int64_t(row) * Plan::d_qk + column, v[j]);
      }
    } else if constexpr (form == Form::kShufflesFirst) {
      add_rows<false>(v, rows, column);
    } else {
      // Lane l adds columns 4 (l % 8) .. + 3 of row l / 8 of each group of four keys.
      const int first = column - t + t / 32 * 32 + t % 8 * 4;
      int row[8];
      for (int j = 0; j < 8; ++j) row[j] = __shfl_sync(0xffffffff, rows, 4 * j + t % 32 / 8);
      for (int j = 0; j < 8; ++j)
        if (row[j] >= 0)
          asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                       :
                       : "l"(params.dKV + int64_t(row[j]) * Plan::d_qk + first), "f"(v[4 * j]),
                         "f"(v[4 * j + 1]), "f"(v[4 * j + 2]), "f"(v[4 * j + 3])
                       : "memory");
    }
  }

  template <Form form>
  __device__ __forceinline__ void run_loop() {
    const int t = threadIdx.x % kThreads;
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int slot = k * Plan::b_topk + lane;
      const int rows[2] = {key_row(__ldg(indices + slot), slot),
                           key_row(__ldg(indices + slot + 32), slot + 32)};
      CUTE_UNROLL
      for (int n = 0; n < kSlotHalves; ++n) {
        float v[32];
        for (int j = 0; j < 32; ++j) asm volatile("mov.b32 %0, 0f3F800000;" : "=f"(v[j]));
        const bool rope = n == kSlotHalves - 1;
        const int column = rope ? Plan::d_v + t % 64 : n / 2 * 128 + t;
        half<form>(v, rows[rope ? t / 64 : n % 2], column, rope ? t % 64 : t);
      }
    }
  }
};

template <Form form>
__global__ void __launch_bounds__(kThreads, 1)
    export_loop(const __grid_constant__ Params params, long long* clocks) {
  extern __shared__ __align__(1024) unsigned char shared[];  // never touched: the barriers are not used
  Loop loop({params, *reinterpret_cast<typename Loop::Storage*>(shared)});
  __syncthreads();
  const long long start = clock64();
  loop.template run_loop<form>();
  __syncthreads();
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - start;
}

template <Form form>
void measure(const char* name, const Params& params, long long* clocks, int sms) {
  std::printf("%-32s", name);
  for (const int blocks : {1, sms}) {
    const card::Runs runs = card::timed([&] { export_loop<form><<<blocks, kThreads>>>(params, clocks); },
                                        clocks, blocks, kKBlocks);
    std::printf("  %8.0f (%.0f to %.0f)", runs.median(), runs.least(), runs.most());
  }
  std::printf("\n");
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount, topk = kKBlocks * Plan::b_topk;
  std::vector<int> indices(size_t(sms) * topk);
  unsigned state = 1;
  for (int& index : indices) index = int((state = state * 1664525u + 1013904223u) >> 8) % kTableRows;
  Params params{};
  params.s_kv = kTableRows;
  params.topk = topk;
  int* at = nullptr;
  long long* clocks = nullptr;
  CHECK(cudaMalloc(&at, indices.size() * sizeof(int)));
  CHECK(cudaMemcpy(at, indices.data(), indices.size() * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&params.dKV, size_t(kTableRows) * Plan::d_qk * sizeof(float)));
  CHECK(cudaMemset(params.dKV, 0, size_t(kTableRows) * Plan::d_qk * sizeof(float)));
  CHECK(cudaMalloc(&clocks, sms * sizeof(long long)));
  params.indices = at;
  std::printf("%s, %d SMs; clocks per k-block, median of 9 launches (least to most)\n", card.name, sms);
  std::printf("%-32s  %26s  %26s\n", "147,456 bytes added by 4 warps", "one CTA", "a CTA on every SM");
  measure<Form::kKeyAtATime>("a key at a time", params, clocks, sms);
  measure<Form::kShufflesFirst>("32 shuffles first", params, clocks, sms);
  measure<Form::kAsShipped>("as shipped: no test per key", params, clocks, sms);
  measure<Form::kVectors>("red.v4.f32, 4 rows x 128 bytes", params, clocks, sms);
  return 0;
}
