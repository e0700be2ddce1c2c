// Cooperative groups: tiles, coalesced threads, a partition by label, a grid that waits for all its CTAs.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;
constexpr int kThreads = 128, kBlocks = 6;

__global__ void tiles(int* sums, int* scans, int* odd, int* labels) {
  const cg::thread_block block = cg::this_thread_block();
  const int at = blockIdx.x * kThreads + threadIdx.x;
  const auto tile = cg::tiled_partition<8>(block);
  sums[at] = cg::reduce(tile, at, cg::plus<int>());
  scans[at] = cg::exclusive_scan(tile, at);
  odd[at] = 0;
  if (at % 3 == 1) {
    const auto active = cg::coalesced_threads();
    odd[at] = int(active.size()) * 100 + int(active.thread_rank());
  }
  const auto warp = cg::tiled_partition<32>(block);
  const auto same = cg::labeled_partition(warp, at % 5);
  labels[at] = cg::reduce(same, at, cg::greater<int>());
}

// Each block adds to its neighbour's partial sum, between two barriers of the grid.
__global__ void grid(const int* in, int* partial, int* out) {
  const cg::grid_group all = cg::this_grid();
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[all.thread_rank()]);
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
#ifndef WITHOUT_BARRIER
  all.sync();
#endif
  if (threadIdx.x == 0) out[blockIdx.x] = partial[blockIdx.x] + partial[(blockIdx.x + 1) % kBlocks];
  all.sync();
  if (all.thread_rank() == 0)
    for (int i = 0; i < kBlocks; ++i) out[kBlocks] += out[i];
}

int main() {
  const int n = kThreads * kBlocks;
  int* device;
  cudaMalloc(&device, 4 * n * sizeof(int));
  tiles<<<kBlocks, kThreads>>>(device, device + n, device + 2 * n, device + 3 * n);
  std::vector<int> got(4 * n);
  cudaMemcpy(got.data(), device, 4 * n * sizeof(int), cudaMemcpyDeviceToHost);
  bool right[4] = {true, true, true, true};
  for (int i = 0; i < n; ++i) {
    const int tile = i / 8 * 8, warp = i / 32 * 32;
    int scan = 0, size = 0, rank = 0, best = 0;
    for (int j = tile; j < i; ++j) scan += j;
    for (int j = warp; j < warp + 32; ++j) {
      size += j % 3 == 1;
      rank += j % 3 == 1 && j < i;
      if (j % 5 == i % 5) best = j;
    }
    right[0] &= got[i] == tile * 8 + 28;
    right[1] &= got[n + i] == scan;
    right[2] &= got[2 * n + i] == (i % 3 == 1 ? size * 100 + rank : 0);
    right[3] &= got[3 * n + i] == best;
  }
  check("sums of tiles", right[0]);
  check("scans of tiles", right[1]);
  check("coalesced threads", right[2]);
  check("partition by label", right[3]);

  std::vector<int> in(n), out(kBlocks + 1), sums(kBlocks);
  int expected = 0;
  for (int i = 0; i < n; ++i) sums[i / kThreads] += in[i] = i * i % 1000, expected += 2 * in[i];
  int *d_in = device, *d_partial = device + n, *d_out = device + 2 * n;
  cudaMemcpy(d_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(d_out, 0, (kBlocks + 1) * sizeof(int));
  void* arguments[] = {&d_in, &d_partial, &d_out};
  cudaLaunchCooperativeKernel((const void*)grid, dim3(kBlocks), dim3(kThreads), arguments);
  cudaMemcpy(out.data(), d_out, out.size() * sizeof(int), cudaMemcpyDeviceToHost);
  bool all = out[kBlocks] == expected;
  for (int i = 0; i < kBlocks; ++i) all &= out[i] == sums[i] + sums[(i + 1) % kBlocks];
  check("barrier of the grid", all);
  return failures();
}
