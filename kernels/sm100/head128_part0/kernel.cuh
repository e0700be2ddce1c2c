// head128-part0: the first part of the sparse MLA attention backward for 128 heads.
//
//   P     = q k^T            per k-block of 64 gathered keys, f32 in TMEM
//   delta = rowsum(o * dO)   f32, to global memory
//
// A cluster of two CTAs works on one query token. Rank r owns heads [64 r, 64 r + 64) and gathers slots
// [32 r, 32 r + 32) of every k-block; the 2-CTA MMA multiplies each rank's heads with all 64 keys.
//
// | warps | role       | rank 0                                    | rank 1                        |
// |-------|------------|-------------------------------------------|-------------------------------|
// | 0-3   | load       | TMA of Q and dO, gather4 of KV            | the same for its half         |
// | 4-7   | p_consumer | tcgen05.ld of its heads of P              | the same                      |
// | 8-11  | delta      | delta of its heads                        | the same                      |
// | 12    | mma        | TMEM alloc, MMAs of both CTAs, TMEM free  | TMEM alloc, TMEM free         |
//
// Barriers (offsets, counts and bytes in the generated plan); b = k % stages, phase = k / stages:
//   q_ready      rank 0     bytes of both CTAs' Q                  load       -> mma
//   do_ready     each rank  bytes of its own dO                    load       -> delta
//   kv_ready[b]  rank 0     bytes of both CTAs' KV tile            load       -> mma
//   kv_free[b]   each rank  commit: the MMAs have read the tile    mma        -> load
//   p_ready[b]   each rank  commit: the accumulator is complete    mma        -> p_consumer
//   p_free[b]    rank 0     256 arrivals: all of P has been read   p_consumer -> mma
#pragma once

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cutlass/arch/barrier.h>

#include "sm100/head128_part0/config.cuh"

namespace tileproof::head128_part0 {

constexpr uint32_t kLeader = 0;  // the rank whose thread issues the MMAs
constexpr uint16_t kBothRanks = 0b11;

template <class Plan, bool Probe>
struct Kernel {
  using Cfg = Config<Plan>;
  using Storage = typename Cfg::SharedStorage;

  const Params& params;
  Storage& smem;
  int token;
  uint32_t rank;
  int warp;
  int lane;
  int length;    // slots that may hold keys: topk_length clamped to [0, topk]
  int k_blocks;  // ceil(length / 64), possibly 0

  __device__ __forceinline__ Kernel(const Params& params_, Storage& smem_) : params(params_), smem(smem_) {
    token = blockIdx.x / Plan::cluster;
    rank = block_rank_in_cluster();
    warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // warp-uniform, so role branches are too
    lane = threadIdx.x % 32;
    length = params.topk_length == nullptr ? params.topk : __ldg(params.topk_length + token);
    length = max(0, min(length, params.topk));
    k_blocks = (length + Plan::b_topk - 1) / Plan::b_topk;
  }

  template <class Role>
  __device__ __forceinline__ bool has_role() const {
    return warp >= Role::first_warp && warp < Role::first_warp + Role::warps;
  }

  __device__ __forceinline__ void run() {
    prologue();
    if (has_role<typename Plan::role::load>()) {
      if (elect_one_sync()) load();
    } else if (has_role<typename Plan::role::p_consumer>()) {
      consume_p();
    } else if (has_role<typename Plan::role::delta>()) {
      compute_delta();
    } else if (rank == kLeader) {
      if (elect_one_sync()) issue_mmas();
    }
    __syncwarp();
    epilogue();
  }

  // Barriers and TMEM exist in both CTAs before either signals the other.
  __device__ __forceinline__ void prologue() {
    if (warp == Plan::role::load::first_warp && elect_one_sync()) {
      smem.q_ready.init(Plan::barrier::q_ready::count);
      smem.do_ready.init(Plan::barrier::do_ready::count);
      CUTE_UNROLL
      for (int b = 0; b < Cfg::kKvStages; ++b) {
        smem.kv_ready[b].init(Plan::barrier::kv_ready::count);
        smem.kv_free[b].init(Plan::barrier::kv_free::count);
      }
      CUTE_UNROLL
      for (int b = 0; b < Cfg::kPStages; ++b) {
        smem.p_ready[b].init(Plan::barrier::p_ready::count);
        smem.p_free[b].init(Plan::barrier::p_free::count);
      }
      cutlass::arch::fence_barrier_init();
      prefetch_tma_descriptor(&params.q_map);
      prefetch_tma_descriptor(&params.dO_map);
      prefetch_tma_descriptor(&params.kv_map);
    }
    if (has_role<typename Plan::role::mma>()) {
      TMEM::Allocator2Sm allocator;
      allocator.allocate(Plan::tmem_columns, &smem.tmem_base);
      allocator.release_allocation_lock();
    }
    __syncwarp();
    cluster_sync();
  }

  // No CTA frees TMEM or exits while its peer may still signal its barriers or multiply into its TMEM.
  __device__ __forceinline__ void epilogue() {
    ptx::fence_before_thread_sync();
    cluster_sync();
    ptx::fence_after_thread_sync();
    if (has_role<typename Plan::role::mma>()) {
      TMEM::Allocator2Sm{}.free(smem.tmem_base, Plan::tmem_columns);
    }
  }

  // ---- load: one thread of each of four warps ----------------------------------------------------------

  __device__ __forceinline__ void load() {
    if (warp == Plan::role::load::first_warp) load_q_and_do();

    constexpr uint64_t kKeep = uint64_t(TMA::CacheHintSm100::EVICT_LAST);  // rows are shared by many tokens
    constexpr int kRowsPerWarp = Cfg::kKeys / Plan::role::load::warps;     // 8, as two gathers of 4
    const int row_in_tile = kRowsPerWarp * warp;
    const int slot_in_block = Cfg::kKeys * int(rank) + row_in_tile;
    const int* indices = params.indices + int64_t(token) * params.topk;

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int b = k % Cfg::kKvStages;
      const int slot = k * Plan::b_topk + slot_in_block;
      int4 rows[kRowsPerWarp / 4];
      CUTE_UNROLL
      for (int g = 0; g < kRowsPerWarp / 4; ++g) rows[g] = key_rows(indices, slot + 4 * g);

      smem.kv_free[b].wait(((k / Cfg::kKvStages) & 1) ^ 1);
      if (rank == kLeader && warp == Plan::role::load::first_warp) {
        smem.kv_ready[b].arrive_and_expect_tx(Plan::barrier::kv_ready::tx_bytes);
      }
      const uint32_t ready = smem.kv_ready[b].address_in(kLeader);
      const uint32_t tile = cast_smem_ptr_to_uint(smem.kv[b]) + row_in_tile * Cfg::kRowBytes;
      CUTE_UNROLL
      for (int c = 0; c < Cfg::kQkTiles; ++c) {
        CUTE_UNROLL
        for (int g = 0; g < kRowsPerWarp / 4; ++g) {
          ptx::tma_gather4(tile + c * Cfg::kKvTileBytes + 4 * g * Cfg::kRowBytes, &params.kv_map, ready,
                           c * Cfg::kColTile, rows[g], kKeep);
        }
      }
    }

    // The last commits must have arrived before this CTA may exit.
    CUTE_NO_UNROLL
    for (int k = max(0, k_blocks - Cfg::kKvStages); k < k_blocks; ++k) {
      smem.kv_free[k % Cfg::kKvStages].wait((k / Cfg::kKvStages) & 1);
    }
  }

  __device__ __forceinline__ void load_q_and_do() {
    constexpr uint64_t kOnce = uint64_t(TMA::CacheHintSm100::EVICT_FIRST);
    const int first_row = token * Plan::h_q + int(rank) * Cfg::kHeads;

    if (rank == kLeader) smem.q_ready.arrive_and_expect_tx(Plan::barrier::q_ready::tx_bytes);
    const uint32_t q_ready = smem.q_ready.address_in(kLeader);
    const uint32_t q = cast_smem_ptr_to_uint(smem.q);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kQkTiles; ++c) {
      ptx::tma_load_2d(q + c * Cfg::kQTileBytes, &params.q_map, q_ready, c * Cfg::kColTile, first_row, kOnce);
    }

    smem.do_ready.arrive_and_expect_tx(Plan::barrier::do_ready::tx_bytes);
    const uint32_t do_ready = smem.do_ready.address();
    const uint32_t dO = cast_smem_ptr_to_uint(smem.dO);
    CUTE_UNROLL
    for (int c = 0; c < Cfg::kVTiles; ++c) {
      ptx::tma_load_2d(dO + c * Cfg::kQTileBytes, &params.dO_map, do_ready, c * Cfg::kColTile, first_row,
                       kOnce);
    }
  }

  // Rows of kv for slots [slot, slot + 4); -1, which the gather fills with zeros, where a slot is no key.
  __device__ __forceinline__ int4 key_rows(const int* indices, int slot) const {
    const int4 index = __ldg(reinterpret_cast<const int4*>(indices + slot));
    return {key_row(index.x, slot), key_row(index.y, slot + 1), key_row(index.z, slot + 2),
            key_row(index.w, slot + 3)};
  }

  __device__ __forceinline__ int key_row(int index, int slot) const {
    const bool is_key = slot < length && index >= 0 && index < params.s_kv;
    return is_key ? index : -1;
  }

  // ---- mma: one thread of rank 0 -----------------------------------------------------------------------

  __device__ __forceinline__ void issue_mmas() {
    using TiledMma = typename Cfg::TiledMma;
    const auto cta_mma = TiledMma{}.get_slice(Int<0>{});
    Tensor sQ = make_tensor(make_smem_ptr(smem.q), typename Cfg::MmaLayoutQ{});
    const Tensor tQ = cta_mma.make_fragment_A(sQ);  // UMMA::DescriptorIterator o (1,1,(4,9)):(0,0,(2,512))
    const uint32_t idesc = uint32_t(UMMA::make_instr_desc<bf16, bf16, float, Plan::mma::P::m, Plan::mma::P::n,
                                                          UMMA::Major::K, UMMA::Major::K>());
    const uint32_t tmem_P = smem.tmem_base + Plan::tmem::P::column;

    smem.q_ready.wait(0);  // also with no k-block: Q's bytes must have landed before the CTAs exit

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int b = k % Cfg::kKvStages;
      const int s = k % Cfg::kPStages;
      Tensor sKV = make_tensor(make_smem_ptr(smem.kv[b]), typename Cfg::MmaLayoutKV{});
      const Tensor tKV = cta_mma.make_fragment_B(sKV);  // o (1,1,(4,9)):(0,0,(2,256))

      smem.p_free[s].wait(((k / Cfg::kPStages) & 1) ^ 1);
      smem.kv_ready[b].wait((k / Cfg::kKvStages) & 1);
      ptx::fence_after_thread_sync();
      CUTE_UNROLL
      for (int step = 0; step < size<2>(tQ); ++step) {
        ptx::mma_f16_ss_pair(tmem_P + s * Plan::tmem::P::columns, tQ(0, 0, step), tKV(0, 0, step), idesc,
                             step != 0);
      }
      ptx::commit_pair(smem.kv_free[b].address(), kBothRanks);
      ptx::commit_pair(smem.p_ready[s].address(), kBothRanks);
    }

    // All of P has been read, in both CTAs, before TMEM is freed.
    CUTE_NO_UNROLL
    for (int k = max(0, k_blocks - Cfg::kPStages); k < k_blocks; ++k) {
      smem.p_free[k % Cfg::kPStages].wait((k / Cfg::kPStages) & 1);
    }
  }

  // ---- p_consumer: 128 threads, thread t reads TMEM lane t ---------------------------------------------

  __device__ __forceinline__ void consume_p() {
    const int t = threadIdx.x % 128;
    const auto cta_mma = typename Cfg::TiledMma{}.get_slice(rank);
    Tensor tP = partition_fragment_C(typename Cfg::TiledMma{}, Shape<Int<Plan::h_q>, Int<Plan::b_topk>>{});
    // tP: tmem ((64,(32,2)),1,1):((65536,(1,4194304)),0,0), data path layout B

    auto tiled_load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x{}, tP);
    auto thread_load = tiled_load.get_slice(t);

    Tensor gP = make_tensor(make_gmem_ptr(params.P + int64_t(token) * Plan::h_q * params.topk),
                            make_shape(Int<Plan::h_q>{}, params.topk), make_stride(params.topk, _1{}));

    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      const int s = k % Cfg::kPStages;
      smem.p_ready[s].wait((k / Cfg::kPStages) & 1);
      ptx::fence_after_thread_sync();

      tP.data() = smem.tmem_base + Plan::tmem::P::column + s * Plan::tmem::P::columns;
      Tensor tile = local_tile(gP, Shape<Int<Plan::h_q>, Int<Plan::b_topk>>{}, make_coord(0, k));
      Tensor tPg = thread_load.partition_D(cta_mma.partition_C(tile));
      Tensor rP = make_tensor<float>(shape(tPg));  // 32 columns of one head
      copy(tiled_load, thread_load.partition_S(tP), rP);
      ptx::wait_tmem_loads();
      ptx::fence_before_thread_sync();
      smem.p_free[s].arrive_in(kLeader);

      if constexpr (Probe) copy(AutoVectorizingCopyWithAssumedAlignment<128>{}, rP, tPg);
    }
  }

  // ---- delta: 16 heads a warp, one head at a time over 32 lanes ------------------------------------------

  __device__ __forceinline__ void compute_delta() {
    constexpr int kHeadsPerWarp = Cfg::kHeads / Plan::role::delta::warps;  // 16
    constexpr int kVector = 8;                                             // bf16 in a 16-byte access
    constexpr int kVectors = Plan::d_v / (32 * kVector);                   // 2 a lane and head
    constexpr int kBatch = 4;                                              // heads whose o is in flight
    const int first_head = kHeadsPerWarp * (warp - Plan::role::delta::first_warp);
    const int64_t first_row = int64_t(token) * Plan::h_q + int(rank) * Cfg::kHeads + first_head;
    const bf16* o = params.o + first_row * Plan::d_v;
    // Position independent, so that the accesses stay ld.shared: the swizzle acts on the offset.
    Tensor sDO =
        as_position_independent_swizzle_tensor(make_tensor(make_smem_ptr(smem.dO), typename Cfg::LayoutDO{}));

    float delta = 0.0f;  // lane h keeps head h of the warp
    CUTE_NO_UNROLL
    for (int batch = 0; batch < kHeadsPerWarp; batch += kBatch) {
      uint4 o_bits[kBatch][kVectors];
      CUTE_UNROLL
      for (int h = 0; h < kBatch; ++h) {
        CUTE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const int col = kVector * (32 * v + lane);
          o_bits[h][v] = __ldg(reinterpret_cast<const uint4*>(o + (batch + h) * Plan::d_v + col));
        }
      }
      smem.do_ready.wait(0);
      CUTE_UNROLL
      for (int h = 0; h < kBatch; ++h) {
        float sum = 0.0f;
        CUTE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const int col = kVector * (32 * v + lane);
          const uint4 do_bits = *reinterpret_cast<const uint4*>(&sDO(first_head + batch + h, col));
          sum = dot(o_bits[h][v], do_bits, sum);
        }
        CUTE_UNROLL
        for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
        if (lane == batch + h) delta = sum;
      }
    }
    if (lane < kHeadsPerWarp) params.delta[first_row + lane] = delta;
  }

  // sum + eight products of bf16 pairs, by f32 FMA.
  __device__ __forceinline__ static float dot(uint4 a, uint4 b, float sum) {
    const uint32_t x[4] = {a.x, a.y, a.z, a.w};
    const uint32_t y[4] = {b.x, b.y, b.z, b.w};
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      // A bf16 is the upper half of the f32 of the same value.
      sum = fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), sum);
      sum = fmaf(__uint_as_float(x[i] & 0xffff0000u), __uint_as_float(y[i] & 0xffff0000u), sum);
    }
    return sum;
  }
};

}  // namespace tileproof::head128_part0
