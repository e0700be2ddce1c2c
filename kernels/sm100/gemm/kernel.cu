// sm100-gemm-bias: D = alpha A B^T + bias, A [M, K] and B [N, K] f16, bias [N] f32, D [M, N] bf16, row-major.
//
// One CTA computes a tile of D, tiles along M first. The build defines TILEPROOF_ENTRY (the entry's name) and
// TILEPROOF_PROBE (0 or 1: A B^T is stored as well).
//
// | warps | role     | job                                                    |
// |-------|----------|--------------------------------------------------------|
// | 0-3   | epilogue | tcgen05.ld of 32 rows per warp, bias, rounding, D      |
// | 4     | load     | TMA of A and B along K into a ring of stages           |
// | 5     | mma      | TMEM alloc, tcgen05.mma of the ring's tiles, TMEM free |
//
// Barriers (offsets, counts and bytes in the generated plan); b = k % stages:
//   full[b]        bytes of A and B                         load -> mma
//   empty[b]       commit: the MMAs have read the tiles     mma  -> load
//   product_ready  commit: the accumulator is complete      mma  -> epilogue
#include <cstddef>
#include <cstdint>

#include "sm100/barrier.cuh"
#include "sm100/cute.cuh"
#include "sm100/operand.cuh"
#include "sm100/ptx.cuh"
#include "tileproof_plan.h"

namespace tileproof::sm100_gemm {

using cute::elect_one_sync;
namespace UMMA = cute::UMMA;

using TileA = Plan::smem::A;
using TileB = Plan::smem::B;

constexpr int kStages = TileA::stages;
constexpr int kColumns = 32;  // of the accumulator that a thread holds at a time

struct Params {
  cute::TmaDescriptor a;
  cute::TmaDescriptor b;
  const float* bias;  // [N]
  uint4* D;           // [M, N] bf16
  float* product;     // [M, N], of the probe build
  float alpha;
  int rows;     // M
  int columns;  // N
  int k_tiles;
};
static_assert(offsetof(Params, bias) == 256 && offsetof(Params, k_tiles) == 292 && sizeof(Params) == 384);

struct SharedStorage {
  alignas(1024) unsigned char a[kStages][TileA::bytes];
  alignas(1024) unsigned char b[kStages][TileB::bytes];
  Barrier full[kStages];
  Barrier empty[kStages];
  Barrier product_ready;
  uint32_t tmem_base;
};
static_assert(offsetof(SharedStorage, a) == TileA::offset && offsetof(SharedStorage, b) == TileB::offset);
static_assert(Plan::barriers_agree<SharedStorage>());
static_assert(offsetof(SharedStorage, tmem_base) == Plan::smem::tmem_base::offset);
static_assert(sizeof(SharedStorage) == Plan::smem_bytes && TileB::stages == kStages);
static_assert(Plan::barrier::full::tx_bytes == TileA::bytes + TileB::bytes);

// One column tile per stage: a row is one span of the 128-byte swizzle.
static_assert(TileA::cols == kColTile && TileB::cols == kColTile && Plan::k == kColTile);
static_assert(Plan::mma::product::m == TileA::rows && Plan::mma::product::n == TileB::rows);
static_assert(Plan::mma::product::k == kColTile && Plan::mma::product::cta_group == 1);
static_assert(Plan::tmem::accumulator::columns == TileB::rows && TileB::rows % kColumns == 0);

static_assert(Plan::role::epilogue::first_warp % 4 == 0 && TileA::rows == 32 * Plan::role::epilogue::warps,
              "a warp reaches the TMEM lanes of its rank in its warpgroup");
static_assert(Plan::role::load::warps == 1 && Plan::role::mma::warps == 1);

__device__ void load(const Params& params, SharedStorage& smem, int row, int column) {
  constexpr uint64_t kHint = uint64_t(cute::TMA::CacheHintSm100::EVICT_NORMAL);
  CUTE_NO_UNROLL
  for (int k = 0; k < params.k_tiles; ++k) {
    const int b = k % kStages;
    smem.empty[b].wait(((k / kStages) & 1) ^ 1);
    smem.full[b].arrive_and_expect_tx(Plan::barrier::full::tx_bytes);
    const uint32_t full = smem.full[b].address();
    const uint32_t to_a = cute::cast_smem_ptr_to_uint(smem.a[b]);
    const uint32_t to_b = cute::cast_smem_ptr_to_uint(smem.b[b]);
    ptx::tma_load_2d_own(to_a, &params.a, full, k * kColTile, row, kHint);
    ptx::tma_load_2d_own(to_b, &params.b, full, k * kColTile, column, kHint);
  }
  // The last commits must have arrived before this CTA may exit.
  CUTE_NO_UNROLL
  for (int k = max(0, params.k_tiles - kStages); k < params.k_tiles; ++k) {
    smem.empty[k % kStages].wait((k / kStages) & 1);
  }
}

__device__ void multiply(const Params& params, SharedStorage& smem) {
  using f16 = cutlass::half_t;
  const auto idesc = uint32_t(UMMA::make_instr_desc<f16, f16, float, Plan::mma::product::m,
                                                    Plan::mma::product::n, UMMA::Major::K, UMMA::Major::K>());
  const uint32_t accumulator = smem.tmem_base + Plan::tmem::accumulator::column;
  CUTE_NO_UNROLL
  for (int k = 0; k < params.k_tiles; ++k) {
    const int b = k % kStages;
    smem.full[b].wait((k / kStages) & 1);
    ptx::fence_after_thread_sync();
    const uint32_t tile_a = cute::cast_smem_ptr_to_uint(smem.a[b]);
    const uint32_t tile_b = cute::cast_smem_ptr_to_uint(smem.b[b]);
    CUTE_UNROLL
    for (int step = 0; step < kColTile; step += kMmaK) {
      ptx::mma_f16_ss(accumulator, k_major<TileA::rows>(tile_a, step), k_major<TileB::rows>(tile_b, step),
                      idesc, k + step != 0);
    }
    ptx::commit(smem.empty[b].address());
  }
  ptx::commit(smem.product_ready.address());
}

// A thread has one row of the tile.
__device__ void store(const Params& params, SharedStorage& smem, int warp, int row, int column) {
  smem.product_ready.wait(0);
  ptx::fence_after_thread_sync();
  const uint32_t lanes = smem.tmem_base + (uint32_t(32 * (warp % 4)) << 16);
  const int64_t first = int64_t(row + threadIdx.x % TileA::rows) * params.columns + column;
  CUTE_UNROLL
  for (int c = 0; c < TileB::rows; c += kColumns) {
    float x[kColumns];
    ptx::load_tmem_32_columns(lanes + Plan::tmem::accumulator::column + c, x);
    ptx::wait_tmem_loads();
    const float* bias = params.bias + column + c;
    uint32_t d[kColumns / 2];
    CUTE_UNROLL
    for (int j = 0; j < kColumns; j += 2) {
      d[j / 2] = ptx::pack_bf16(params.alpha * x[j] + __ldg(bias + j),
                                params.alpha * x[j + 1] + __ldg(bias + j + 1));
    }
    CUTE_UNROLL
    for (int j = 0; j < kColumns; j += 8) {
      params.D[(first + c + j) / 8] = make_uint4(d[j / 2], d[j / 2 + 1], d[j / 2 + 2], d[j / 2 + 3]);
    }
    if (TILEPROOF_PROBE) {
      CUTE_UNROLL
      for (int j = 0; j < kColumns; ++j) params.product[first + c + j] = x[j];
    }
  }
}

}  // namespace tileproof::sm100_gemm

extern "C" __global__ void __launch_bounds__(tileproof::Plan::threads, 1)
    TILEPROOF_ENTRY(const __grid_constant__ tileproof::sm100_gemm::Params params) {
  using namespace tileproof;
  using namespace tileproof::sm100_gemm;
  extern __shared__ __align__(1024) unsigned char shared[];
  SharedStorage& smem = *reinterpret_cast<SharedStorage*>(shared);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // warp-uniform, so role branches are too
  const int down = params.rows / TileA::rows;
  const int row = blockIdx.x % down * TileA::rows, column = blockIdx.x / down * TileB::rows;

  if (warp == Plan::role::load::first_warp && elect_one_sync()) {
    for (int b = 0; b < kStages; ++b) {
      smem.full[b].init(Plan::barrier::full::count);
      smem.empty[b].init(Plan::barrier::empty::count);
    }
    smem.product_ready.init(Plan::barrier::product_ready::count);
    cutlass::arch::fence_barrier_init();
  }
  if (warp == Plan::role::mma::first_warp) {
    cute::TMEM::Allocator1Sm allocator;
    allocator.allocate(Plan::tmem_columns, &smem.tmem_base);
    allocator.release_allocation_lock();
  }
  ptx::fence_before_thread_sync();
  __syncthreads();
  ptx::fence_after_thread_sync();

  if (warp == Plan::role::load::first_warp) {
    if (elect_one_sync()) load(params, smem, row, column);
  } else if (warp == Plan::role::mma::first_warp) {
    if (elect_one_sync()) multiply(params, smem);
  } else {
    store(params, smem, warp, row, column);
  }

  // The accumulator has been read before TMEM is freed.
  __syncwarp();
  ptx::fence_before_thread_sync();
  __syncthreads();
  ptx::fence_after_thread_sync();
  if (warp == Plan::role::mma::first_warp)
    cute::TMEM::Allocator1Sm{}.free(smem.tmem_base, Plan::tmem_columns);
}
