// What additions.cu, held_out.cu and held_out_rings.cu share: arguments, additions to rows of a table,
// straight code, and the timing of a program.
#pragma once

#include "card.cuh"

constexpr int kWidth = 512;

struct Args {
  float* table;  // rows of 512
  const unsigned char* kv;
  long long* clocks;
  uint32_t* sink;
  int steps;
  unsigned table_rows;  // a power of two
};

template <int kVector>
__device__ __forceinline__ void add(float* to) {
  if constexpr (kVector == 4)
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(to), "f"(1.0f) : "memory");
  else if constexpr (kVector == 2)
    asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" ::"l"(to), "f"(1.0f) : "memory");
  else
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(1.0f) : "memory");
}

// Where instruction n of a warp adds: 32 / kLanes rows, kVector floats by each lane; the rows change when
// their columns are through. kWarps: warps of a CTA, 0 for those of the launch.
template <int kLanes, int kVector, int kWarps = 0>
__device__ __forceinline__ float* place(const Args& a, unsigned n) {
  constexpr unsigned kColumns = kLanes * kVector, kOfRow = kWidth / kColumns;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warps = kWarps ? kWarps : blockDim.x / 32;
  const unsigned group = (n / kOfRow * warps + warp) * (32 / kLanes) + lane / kLanes;
  return a.table + size_t(card::random_row(group, a.table_rows)) * kWidth + n % kOfRow * kColumns +
         lane % kLanes * kVector;
}

// 64 instructions, none of which waits for another.
__device__ __forceinline__ void straight(float (&x)[8]) {
#define EIGHT                                                 \
  "fma.rn.f32 %0, %0, %0, %0;\n fma.rn.f32 %1, %1, %1, %1;\n" \
  "fma.rn.f32 %2, %2, %2, %2;\n fma.rn.f32 %3, %3, %3, %3;\n" \
  "fma.rn.f32 %4, %4, %4, %4;\n fma.rn.f32 %5, %5, %5, %5;\n" \
  "fma.rn.f32 %6, %6, %6, %6;\n fma.rn.f32 %7, %7, %7, %7;\n"
  asm volatile(EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT
               : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]),
                 "+f"(x[7]));
#undef EIGHT
}

// Arguments whose table has room for so many rows, and their kv for so many rows of 1,024 bytes; all zeros.
inline Args allocated(size_t table_rows, size_t kv_rows) {
  Args a{};
  unsigned char* kv = nullptr;
  CHECK(cudaMalloc(&a.table, table_rows * kWidth * sizeof(float)));
  CHECK(cudaMemset(a.table, 0, table_rows * kWidth * sizeof(float)));
  CHECK(cudaMalloc(&kv, kv_rows * 1024));
  CHECK(cudaMemset(kv, 0, kv_rows * 1024));
  CHECK(cudaMalloc(&a.clocks, 8 * 1024));
  CHECK(cudaMalloc(&a.sink, 4 * 1024));
  CHECK(cudaMemset(a.sink, 0, 4 * 1024));
  a.kv = kv;
  return a;
}

// Clocks per step of a kernel with `bytes` of dynamic shared memory.
template <class Kernel>
double median(Kernel kernel, Args a, int blocks, int threads, int bytes, int steps) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  a.steps = steps;
  return card::timed([&] { kernel<<<blocks, threads, bytes>>>(a); }, a.clocks, blocks, steps, 7).median();
}

// Prints the clocks per step of a program: of one CTA, and of a CTA on every SM.
template <class Kernel>
void print_row(const char* name, Kernel kernel, const Args& a, int threads, int bytes, int sms) {
  const auto clocks = [&](int blocks) { return median(kernel, a, blocks, threads, bytes, a.steps); };
  const double alone = clocks(1), all = clocks(sms);
  std::printf("%-48s  1 CTA %9.1f  %3d CTAs %9.1f\n", name, alone, sms, all);
}
