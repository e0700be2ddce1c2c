// Parameters and the shared-memory map of head128-part0, each asserted against the generated plan.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(TILEPROOF_EDITED) && !TILEPROOF_PROBE
#include <cute/tensor.hpp>  // the layouts below only, and most of what a compilation takes
#endif

#include "sm100/barrier.cuh"
#include "sm100/context.cuh"
#include "sm100/cute.cuh"
#include "sm100/operand.cuh"
#include "sm100/params.cuh"
#include "sm100/smem_map.cuh"

namespace tileproof::head128_part0 {

using namespace cute;

using bf16 = cutlass::bfloat16_t;

// What the host passes behind the maps. Boxes: 64 x 64 of q and dO, 1 x 64 of kv.
struct PartParams {
  const uint16_t* o;       // [s_q, h_q, d_v], bf16
  const int* indices;      // [s_q, topk]
  const int* topk_length;  // [s_q], or null: topk everywhere
  float* delta;            // [s_q, h_q]
  float* P;                // [s_q, h_q, topk], probe build only
  int s_kv;
  int topk;
};
static_assert(offsetof(PartParams, P) == 32);
static_assert(offsetof(PartParams, topk) == 44);
using Params = tileproof::Params<InputMaps, PartParams>;
static_assert(sizeof(Params) == 512);

template <class Plan>
struct Config {
  static constexpr int kHeads = Plan::h_q / Plan::cluster;    // 64 heads per CTA
  static constexpr int kKeys = Plan::b_topk / Plan::cluster;  // 32 gathered keys per CTA and k-block
  static constexpr int kQkTiles = Plan::d_qk / kColTile;      // 9 or 8
  static constexpr int kVTiles = Plan::d_v / kColTile;        // 8
  static constexpr int kKvStages = Plan::smem::KV::stages;
  static constexpr int kPStages = Plan::tmem::P::stages;

  // Column tiles follow each other, so one TMA box or one column of gather4s fills one column tile.
  static constexpr int kQTileBytes = kHeads * kRowBytes;  // 8192
  static constexpr int kKvTileBytes = kKeys * kRowBytes;  // 4096

  struct SharedStorage {
    alignas(1024) bf16 q[kHeads * Plan::d_qk];
    alignas(1024) bf16 dO[kHeads * Plan::d_v];
    alignas(1024) bf16 kv[kKvStages][kKeys * Plan::d_qk];
    Barrier q_ready;
    Barrier do_ready;
    Barrier kv_ready[kKvStages];
    Barrier kv_free[kKvStages];
    Barrier p_ready[kPStages];
    Barrier p_free[kPStages];
    uint32_t tmem_base;
  };

  // The problem's shape.
  static_assert(Plan::cluster == 2 && Plan::b_topk == 64 && Plan::d_v == 512);
  static_assert(Plan::d_qk % kColTile == 0 && Plan::d_v % kColTile == 0);
  static_assert(Plan::smem::Q::rows == kHeads && Plan::smem::Q::cols == Plan::d_qk);
  static_assert(Plan::smem::dO::rows == kHeads && Plan::smem::dO::cols == Plan::d_v);
  static_assert(Plan::smem::KV::rows == kKeys && Plan::smem::KV::cols == Plan::d_qk);

#if !defined(TILEPROOF_EDITED) && !TILEPROOF_PROBE
  // Both operands are the K-major layouts that CuTe builds from the swizzle's atom.
  using Atom = UMMA::Layout_K_SW128_Atom<bf16>;  // Sw<3,4,3> o (8,64):(64,1)
  using QTile = decltype(tile_to_shape(Atom{}, Shape<Int<kHeads>, Int<Plan::d_qk>>{}));
  using KvTile = decltype(tile_to_shape(Atom{}, Shape<Int<kKeys>, Int<Plan::d_qk>>{}));
  static_assert(int(sizeof(bf16)) * int(QTile{}.layout_b()(0, kColTile)) == kQTileBytes);
  static_assert(int(sizeof(bf16)) * int(KvTile{}.layout_b()(0, kColTile)) == kKvTileBytes);
  static_assert(int(sizeof(bf16)) * int(KvTile{}.layout_b()(8, 0)) == kAtomBytes);
  static_assert(int(sizeof(bf16)) * int(KvTile{}.layout_b()(1, 0)) == kRowBytes);
#endif

  // The shared-memory map.
  TILEPROOF_SMEM(q, Q);
  TILEPROOF_SMEM(dO, dO);
  TILEPROOF_SMEM(kv, KV);
  static_assert(sizeof(SharedStorage::q) == Plan::smem::Q::bytes);
  static_assert(sizeof(SharedStorage::dO) == Plan::smem::dO::bytes);
  static_assert(sizeof(SharedStorage::kv) == Plan::smem::KV::bytes * kKvStages);
  TILEPROOF_SMEM(tmem_base, tmem_base);
  static_assert(sizeof(SharedStorage) == Plan::smem_bytes, "the plan's shared-memory size differs");

  // The barriers.
  static_assert(Plan::template barriers_agree<SharedStorage>());
  static_assert(Plan::barrier::q_ready::tx_bytes == Plan::cluster * sizeof(SharedStorage::q));
  static_assert(Plan::barrier::do_ready::tx_bytes == sizeof(SharedStorage::dO));
  static_assert(Plan::barrier::kv_ready::tx_bytes == Plan::cluster * sizeof(SharedStorage::kv[0]));
  static_assert(Plan::barrier::p_free::count == Plan::cluster * 32 * Plan::role::p_consumer::warps);

  // The MMA and its accumulators.
  static_assert(Plan::mma::P::cta_group == 2 && Plan::mma::P::m == Plan::h_q);
  static_assert(Plan::mma::P::n == Plan::b_topk && Plan::mma::P::k == Plan::d_qk);
  static_assert(Plan::tmem::P::columns == Plan::b_topk / 2, "layout B halves the columns");
  static_assert(Plan::tmem::P::column + kPStages * Plan::tmem::P::columns <= Plan::tmem_columns);

  // The warp roles.
  static_assert(Plan::role::load::first_warp == 0 && Plan::role::load::warps == 4);
  static_assert(Plan::role::p_consumer::first_warp % 4 == 0 && Plan::role::p_consumer::warps == 4,
                "a warp reaches the TMEM lanes of its rank in its warpgroup");
  static_assert(Plan::role::delta::warps == 4 && Plan::role::mma::warps == 1);
  static_assert(Plan::threads == 32 * (Plan::role::mma::first_warp + Plan::role::mma::warps));
};

template <class Plan>
using Context = tileproof::Context<Plan, Config<Plan>, Params>;

}  // namespace tileproof::head128_part0
