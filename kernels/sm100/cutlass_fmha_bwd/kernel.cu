// The three kernels of CUTLASS example 77's backward as entries of one module, each as cutlass::device_kernel
// calls it, with every offset that the plan states asserted against the example's own types.
#include "kernel.cuh"

namespace tileproof {

#define ENTRY_(stem, suffix) stem##suffix
#define ENTRY(stem, suffix) ENTRY_(stem, suffix)
#define KERNEL(name, Kernel)                                                                \
  extern "C" __global__ __launch_bounds__(                                                  \
      Kernel::MaxThreadsPerBlock,                                                           \
      Kernel::MinBlocksPerMultiprocessor) void name(CUTLASS_GRID_CONSTANT                   \
                                                    typename Kernel::Params const params) { \
    extern __shared__ char smem[];                                                          \
    Kernel kernel;                                                                          \
    kernel(params, smem);                                                                   \
  }

KERNEL(TILEPROOF_ENTRY, Main)
KERNEL(ENTRY(TILEPROOF_ENTRY, _sum_odo), SumOdO)
KERNEL(ENTRY(TILEPROOF_ENTRY, _convert), Convert)

using Shared = Main::SharedStorage;
using Columns = Main::TmemAllocation;

static_assert(Main::SharedStorageSize == Plan::smem_bytes && Main::MaxThreadsPerBlock == Plan::threads);
static_assert(cute::TMEM::Allocator1Sm::Sm100TmemCapacityColumns == Plan::tmem_columns);
static_assert(offsetof(Shared, tmem_base_ptr) == Plan::smem::tmem_base::offset);

#define TILE(member, tile)                                                      \
  static_assert(offsetof(Shared, tensors.member) == Plan::smem::tile::offset && \
                sizeof(Shared::tensors.member) == Plan::smem::tile::bytes * Plan::smem::tile::stages)

TILE(smem_k, K);
TILE(smem_v, V);
TILE(smem_q, Q);
TILE(smem_do, dO);
TILE(smem_ds, dS);
TILE(smem_dq, dQ_out);
TILE(smem_lse, lse);
TILE(smem_sum_odo, delta);

// Barriers that say full lie first in a pipeline's storage, those that say empty behind.
#define PIPELINE(member, ready, free)                                                               \
  static_assert(offsetof(Shared, pipelines.member.full_barrier_) == Plan::barrier::ready::offset && \
                offsetof(Shared, pipelines.member.empty_barrier_) == Plan::barrier::free::offset)

PIPELINE(load_mma_q, q_ready, q_free);
PIPELINE(load_mma_do, do_ready, do_free);
PIPELINE(load_compute_lse, lse_ready, lse_free);
PIPELINE(load_compute_sum_odo, delta_ready, delta_free);
PIPELINE(mma_compute_s, logits_ready, logits_free);
PIPELINE(mma_compute_dp, dp_ready, dp_free);
PIPELINE(mma_reduce_dq, dq_ready, dq_free);
PIPELINE(compute_mma_p, softmax_ready, softmax_free);
PIPELINE(compute_mma_ds, ds_ready, ds_free);
PIPELINE(mma_compute_dkdv, dv_ready, dv_free);
static_assert(sizeof(Shared::pipelines.mma_compute_dkdv.full_barrier_) == 16 &&
              Plan::barrier::dk_ready::offset == Plan::barrier::dv_ready::offset + 8);

static_assert(Main::kTransactionsBytesLoadQ == Plan::barrier::q_ready::tx_bytes &&
              Main::kTransactionsBytesLoadK == Plan::smem::K::bytes &&
              Main::kTransactionsBytesLoadDO == Plan::barrier::do_ready::tx_bytes &&
              Main::kTransactionsBytesLoadV == Plan::smem::V::bytes);

static_assert(Columns::kDK == Plan::tmem::dK_acc::column && Columns::kDV == Plan::tmem::dV_acc::column &&
              Columns::kDP == Plan::tmem::dP::column && Columns::kDQ == Plan::tmem::dQ::column);
#ifdef TILEPROOF_MLA
TILE(smem_p, S);
static_assert(Columns::kS == Plan::tmem::P::column + (Plan::tmem::P::lane << 16));
#else
static_assert(Columns::kS == Plan::tmem::P::column && Columns::kP == Plan::tmem::S::column);
#endif

// Which warp does what: the example's table, four bits a warp.
constexpr bool has_role(int first, int warps, Main::WarpRole role) {
  for (int warp = first; warp < first + warps; ++warp) {
    if (((Main::kWarpAssignment >> (4 * warp)) & 0xF) != static_cast<unsigned long long>(role)) return false;
  }
  return true;
}

#define ROLE(name, kind) \
  static_assert(has_role(Plan::role::name::first_warp, Plan::role::name::warps, Main::WarpRole::kind))

ROLE(reduce, Reduce);
ROLE(compute, Compute);
ROLE(mma, Mma);
ROLE(load, Load);
ROLE(empty, Empty);

}  // namespace tileproof
