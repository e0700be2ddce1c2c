// cuda::barrier and cuda::pipeline: copies of tiles into shared memory, two stages in flight.
#include <cooperative_groups.h>
#include <mma.h>

#include <cuda/barrier>
#include <cuda/pipeline>
#include <vector>

#include "check.h"

namespace cg = cooperative_groups;
#pragma nv_diag_suppress static_var_with_dynamic_init  // cuda::barrier in shared memory
constexpr int kThreads = 64, kTiles = 7, kStages = 2;

__global__ void piped(const float* in, float* out) {
  __shared__ float tiles[kStages][kThreads];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int tile = 0, fetched = 0; tile < kTiles; ++tile) {
    for (; fetched < kTiles && fetched < tile + kStages; ++fetched) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, tiles[fetched % kStages], in + fetched * kThreads,
                         cuda::aligned_size_t<16>(sizeof(float) * kThreads), pipeline);
      pipeline.producer_commit();
    }
#ifndef WITHOUT_WAIT
    pipeline.consumer_wait();
#endif
    sum += tiles[tile % kStages][kThreads - 1 - threadIdx.x];
    pipeline.consumer_release();
  }
  out[threadIdx.x] = sum;
}

__global__ void arrived(const float* in, float* out) {
  __shared__ float tile[kThreads];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, kThreads);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kTiles; ++i) {
    cuda::memcpy_async(tile + threadIdx.x, in + i * kThreads + threadIdx.x, sizeof(float), barrier);
    barrier.arrive_and_wait();
    sum += tile[threadIdx.x ^ 5];
    barrier.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}

__global__ void product(const half* a, const half* b, float* d) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fd;
  wmma::fill_fragment(fd, 1.0f);
  for (int k = 0; k < 32; k += 16) {
    wmma::load_matrix_sync(fa, a + k, 32);
    wmma::load_matrix_sync(fb, b + k, 32);
    wmma::mma_sync(fd, fa, fb, fd);
  }
  wmma::store_matrix_sync(d, fd, 16, wmma::mem_row_major);
}

int main() {
  std::vector<float> in(kThreads * kTiles), out(kThreads);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 37) - 9;
  float *d_in, *d_out;
  cudaMalloc(&d_in, in.size() * sizeof(float));
  cudaMalloc(&d_out, kThreads * sizeof(float));
  cudaMemcpy(d_in, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice);
  auto sums = [&](auto from) {
    cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost);
    bool right = true;
    for (int t = 0; t < kThreads; ++t) {
      float sum = 0;
      for (int i = 0; i < kTiles; ++i) sum += in[i * kThreads + from(t)];
      right &= out[t] == sum;
    }
    return right;
  };
  piped<<<1, kThreads>>>(d_in, d_out);
  check("pipeline of two stages", sums([](int t) { return kThreads - 1 - t; }));
  arrived<<<1, kThreads>>>(d_in, d_out);
  check("barrier with copies", sums([](int t) { return t ^ 5; }));

  std::vector<half> a(16 * 32), b(16 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3, b[i] = float(i % 5) / 4;
  half* ab;
  float* d;
  cudaMalloc(&ab, 2 * a.size() * sizeof(half));
  cudaMalloc(&d, 256 * sizeof(float));
  cudaMemcpy(ab, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(ab + a.size(), b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice);
  product<<<1, 32>>>(ab, ab + a.size(), d);
  std::vector<float> got(256);
  cudaMemcpy(got.data(), d, 256 * sizeof(float), cudaMemcpyDeviceToHost);
  bool right = true;
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float sum = 1;
      for (int k = 0; k < 32; ++k) sum += float(a[m * 32 + k]) * float(b[n * 32 + k]);
      right &= got[m * 16 + n] == sum;
    }
  check("wmma product", right);
  return failures();
}
