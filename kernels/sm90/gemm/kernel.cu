// D = alpha A B^T + beta C: A [M, K] and B [N, K] f16, C and D [M, N] f32, row-major. One CTA computes a tile
// of D: one warp loads tiles of A and B along K into a ring of stages by TMA, four warps multiply 32 x 32
// each. The build defines TILEPROOF_ENTRY (the entry's name) and TILEPROOF_PROBE (0 or 1: A B^T is stored as
// well). With TILEPROOF_BIAS (bias.cu) D is alpha A B^T + bias, in bf16.
#include <cstdint>

#include "sm90/ptx.cuh"
#include "tileproof_plan.h"

#ifndef TILEPROOF_BIAS
#define TILEPROOF_BIAS 0
#endif

namespace tileproof::sm90_gemm {

using TileA = Plan::smem::A;
using TileB = Plan::smem::B;
using Full = Plan::barrier::full;
using Empty = Plan::barrier::empty;

constexpr int kStages = TileA::stages;
constexpr int kRowBytes = 128;            // a row of a tile is one span of the 128-byte swizzle
constexpr int kWarpTile = 32;             // rows and columns of D per warp
constexpr int kSteps = TileA::cols / 16;  // mma.m16n8k16
constexpr int kAcross = TileB::rows / kWarpTile;
static_assert(TileA::cols * 2 == kRowBytes && TileB::cols * 2 == kRowBytes);
static_assert(TileB::stages == kStages && Full::stages == kStages && Empty::stages == kStages);
static_assert(Plan::role::mma::warps == TileA::rows / kWarpTile * kAcross);
static_assert(Full::tx_bytes == TileA::bytes + TileB::bytes && Empty::count == Plan::role::mma::warps);

struct alignas(64) TensorMap {
  uint64_t words[16];
};

struct Params {
  TensorMap a;
  TensorMap b;
  const float* C;  // of bias.cu the bias [N]
  float* D;        // of bias.cu bf16
  float* product;  // [M, N], of the probe build
  float alpha;
  float beta;
  int rows;     // M
  int columns;  // N
  int k_tiles;
};
static_assert(sizeof(Params) == 320);

struct Ring {
  uint32_t base;  // of the CTA's dynamic shared memory

  __device__ uint32_t a(int s) const { return base + TileA::offset + s * TileA::bytes; }
  __device__ uint32_t b(int s) const { return base + TileB::offset + s * TileB::bytes; }
  __device__ uint32_t full(int s) const { return base + Full::offset + 8 * s; }
  __device__ uint32_t empty(int s) const { return base + Empty::offset + 8 * s; }
};

// Where 16-byte chunk `chunk` of row `row` lies: the 128-byte swizzle XORs it with the row modulo 8.
__device__ __forceinline__ uint32_t swizzled(uint32_t tile, int row, int chunk) {
  return tile + row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

__device__ void load(const Params& params, Ring ring, int row, int column) {
  for (int k = 0; k < params.k_tiles; ++k) {
    const int s = k % kStages;
    ptx::wait(ring.empty(s), ((k / kStages) & 1) ^ 1);
    ptx::arrive_and_expect_tx(ring.full(s), Full::tx_bytes);
    ptx::tma_load_2d(ring.a(s), &params.a, ring.full(s), k * TileA::cols, row);
    ptx::tma_load_2d(ring.b(s), &params.b, ring.full(s), k * TileB::cols, column);
  }
}

__device__ void multiply(const Params& params, Ring ring, int warp, int lane, float (&acc)[2][4][4]) {
  const int m0 = warp / kAcross * kWarpTile, n0 = warp % kAcross * kWarpTile;
  const int matrix = lane / 8, r = lane % 8;
  for (int k = 0; k < params.k_tiles; ++k) {
    const int s = k % kStages;
    ptx::wait(ring.full(s), (k / kStages) & 1);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Of A the matrices are the upper and the lower 8 rows, then those of the next 8 columns; of B the
        // first and the next 8 columns of K, then those of the next 8 rows.
        ptx::ldmatrix_x4(a[i],
                         swizzled(ring.a(s), m0 + 16 * i + 8 * (matrix % 2) + r, 2 * step + matrix / 2));
        ptx::ldmatrix_x4(b[i],
                         swizzled(ring.b(s), n0 + 16 * i + 8 * (matrix / 2) + r, 2 * step + matrix % 2));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          ptx::mma_m16n8k16(acc[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]);
        }
      }
    }
    ptx::fence_proxy_async_shared();  // the next copy into the stage is the async proxy's
    __syncwarp();                     // every lane has read before one says so
    if (lane == 0) ptx::arrive(ring.empty(s));
  }
}

__device__ void store(const Params& params, const float (&acc)[2][4][4], int row, int column, int lane) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t m = row + 16 * i + 8 * half + lane / 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t at = m * params.columns + column + 8 * j + lane % 4 * 2;
        const float x = acc[i][j][2 * half], y = acc[i][j][2 * half + 1];
#if TILEPROOF_BIAS
        const float2 bias = *reinterpret_cast<const float2*>(params.C + column + 8 * j + lane % 4 * 2);
        const uint32_t rounded = ptx::pack_bf16(params.alpha * x + bias.x, params.alpha * y + bias.y);
        reinterpret_cast<uint32_t*>(params.D)[at / 2] = rounded;
#else
        const float2 c = *reinterpret_cast<const float2*>(params.C + at);
        const float2 d =
            make_float2(params.alpha * x + params.beta * c.x, params.alpha * y + params.beta * c.y);
        *reinterpret_cast<float2*>(params.D + at) = d;
#endif
        if (TILEPROOF_PROBE) *reinterpret_cast<float2*>(params.product + at) = make_float2(x, y);
      }
    }
  }
}

}  // namespace tileproof::sm90_gemm

extern "C" __global__ void __launch_bounds__(tileproof::Plan::threads, 1)
    TILEPROOF_ENTRY(const __grid_constant__ tileproof::sm90_gemm::Params params) {
  using namespace tileproof;
  using namespace tileproof::sm90_gemm;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring{ptx::shared_address(shared)};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Tiles count along M first.
  const int down = params.rows / TileA::rows;
  const int row = blockIdx.x % down * TileA::rows, column = blockIdx.x / down * TileB::rows;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::init(ring.full(s), Full::count);
      ptx::init(ring.empty(s), Empty::count);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warp == Plan::role::load::first_warp) {
    if (lane == 0) load(params, ring, row, column);
  } else {
    float acc[2][4][4] = {};
    multiply(params, ring, warp, lane, acc);
    store(params, acc, row + warp / kAcross * kWarpTile, column + warp % kAcross * kWarpTile, lane);
  }
}
