// Parameters, layouts and the shared-memory map of head64, each asserted against the generated
// plan.
#pragma once

#include <cstdint>

#if !defined(TILEPROOF_EDITED) && !TILEPROOF_PROBE
#include <cute/tensor.hpp>  // the layouts below only, and most of what a compilation takes
#endif

#include "sm100/barrier.cuh"
#include "sm100/context.cuh"
#include "sm100/cute.cuh"
#include "sm100/element.cuh"
#include "sm100/operand.cuh"
#include "sm100/params.cuh"
#include "sm100/smem_map.cuh"

namespace tileproof::head64 {

using namespace cute;

// Boxes: 64 x 64 of q, dO and dQ, 1 x 64 of kv.
using Params = tileproof::Params<BackwardMaps>;
static_assert(sizeof(Params) == 640);

template <class Plan>
struct Config {
  using Element = tileproof::Element<Plan>;

  static constexpr int kHeads = Plan::h_q;                // 64
  static constexpr int kKeys = Plan::b_topk;              // 64 keys per k-block
  static constexpr int kRope = Plan::d_qk - Plan::d_v;    // 64 or 0
  static constexpr int kQkTiles = Plan::d_qk / kColTile;  // 9 or 8
  static constexpr int kVTiles = Plan::d_v / kColTile;    // 8
  static constexpr int kLoTiles = kVTiles / 2;            // the lower columns, with which the RoPE columns go
  static constexpr int kHiParts = 2;                      // in which the upper columns are gathered
  // The first column tile of one of them, and of kHiParts the end.
  static constexpr int hi_tile(int part) { return kLoTiles + part * (kVTiles - kLoTiles) / kHiParts; }

  // Every operand tile has 64 rows, so each column tile is 8 KiB.
  static constexpr int kColTileBytes = 64 * kRowBytes;
  static_assert(kHeads == 64 && kKeys == 64);

  static constexpr int kDqN = Plan::mma::dQ::n;                  // 256
  static constexpr int kDqParts = Plan::d_v / kDqN;              // 2
  static constexpr int kDkvM = Plan::mma::dKV_S::m;              // 128
  static constexpr int kDkvParts = Plan::d_v / kDkvM;            // 4
  static constexpr int kDkvStages = Plan::tmem::dKV::stages;     // 2
  static constexpr int kPartsPerStage = kDkvParts / kDkvStages;  // uses of a stage in one k-block

  struct SharedStorage {
    alignas(1024) Element q[kHeads * Plan::d_qk];
    alignas(1024) Element dO[kHeads * Plan::d_v];
    alignas(1024) Element kv[kKeys * Plan::d_qk];  // and, after the last k-block, dQ [kHeads, d_qk]
    alignas(1024) Element s[kHeads * kKeys];
    alignas(1024) Element ds[kHeads * kKeys];
    float delta[kHeads];
    Barrier q_ready;
    Barrier do_ready;
    Barrier delta_ready;
    Barrier kv_lo_ready;
    Barrier kv_hi_ready[kHiParts];
    Barrier kv_lo_free;
    Barrier kv_hi_free;
    Barrier p_ready;
    Barrier dp_ready;
    Barrier s_ready;
    Barrier ds_ready;
    Barrier dkv_ready[kDkvStages];
    Barrier dkv_free[kDkvStages];
    Barrier rope_ready[kRope != 0 ? 1 : 0];
    Barrier dq_ready;
    uint32_t tmem_base;
  };

  // The problem's shape.
  static_assert(Plan::cluster == 1 && Plan::d_v == 512 && (kRope == 64 || kRope == 0));
  static_assert(kHeads == kKeys, "dQ is staged in KV's bytes");

#if !defined(TILEPROOF_EDITED) && !TILEPROOF_PROBE
  // Read along rows a column tile is the K-major layout that CuTe builds from the same atom, read along
  // columns the MN-major one: element (row, col) lies at the same offset in both.
  using KAtom = UMMA::Layout_K_SW128_Atom<Element>;
  using MnAtom = UMMA::Layout_MN_SW128_Atom<Element>;
  using KTile = decltype(tile_to_shape(KAtom{}, Shape<Int<kKeys>, Int<Plan::d_qk>>{}));
  using MnTile = decltype(tile_to_shape(MnAtom{}, Shape<Int<Plan::d_qk>, Int<kKeys>>{}, Step<_2, _1>{}));
  static_assert(int(sizeof(Element)) * int(KTile{}.layout_b()(0, kColTile)) == kColTileBytes);
  static_assert(int(sizeof(Element)) * int(MnTile{}.layout_b()(kColTile, 0)) == kColTileBytes);
  static_assert(int(sizeof(Element)) * int(KTile{}.layout_b()(8, 0)) == kAtomBytes);
  static_assert(int(sizeof(Element)) * int(MnTile{}.layout_b()(0, 8)) == kAtomBytes);
  static_assert(int(sizeof(Element)) * int(KTile{}.layout_b()(1, 0)) == kRowBytes);
  static_assert(int(sizeof(Element)) * int(MnTile{}.layout_b()(0, 1)) == kRowBytes);
  static_assert(Swizzle<3, 4, 3>{}(3 * kRowBytes + 2 * 16) == int(swizzled_chunk(3, 2)));
#endif

  // The shared-memory map.
  TILEPROOF_SMEM(q, Q);
  TILEPROOF_SMEM(dO, dO);
  TILEPROOF_SMEM(kv, KV);
  TILEPROOF_SMEM(s, S);
  TILEPROOF_SMEM(ds, dS);
  TILEPROOF_SMEM(delta, delta);
  TILEPROOF_SMEM(tmem_base, tmem_base);
  static_assert(sizeof(SharedStorage) == Plan::smem_bytes, "the plan's shared-memory size differs");

  // The barriers.
  static_assert(Plan::template barriers_agree<SharedStorage>());
  static_assert(Plan::barrier::kv_lo_ready::tx_bytes == (kQkTiles - kLoTiles) * kColTileBytes);
  static_assert(Plan::barrier::kv_hi_ready::tx_bytes == (hi_tile(1) - hi_tile(0)) * kColTileBytes);
  static_assert(Plan::barrier::q_ready::tx_bytes == sizeof(SharedStorage::q));
  static_assert(Plan::barrier::do_ready::tx_bytes == sizeof(SharedStorage::dO));
  static_assert(Plan::barrier::kv_lo_free::count == 1);
  static_assert(Plan::barrier::s_ready::count == 32 * Plan::role::softmax::warps);
  static_assert(Plan::barrier::ds_ready::count == 32 * Plan::role::softmax::warps);
  static_assert(Plan::barrier::dkv_free::count == 32 * Plan::role::dkv_export::warps);
  static_assert(Plan::barrier::delta_ready::count == 32 * Plan::role::dkv_export::warps);

  // The accumulators: layout E holds half of a tile's N columns in each half of the lanes, layout D all.
  static_assert(2 * Plan::tmem::P::columns == kKeys && 2 * Plan::tmem::dP::columns == kKeys);
  static_assert(2 * Plan::tmem::dQ::columns == kDqN && Plan::tmem::dQ::stages == kDqParts);
  static_assert(kDqParts == 2 && kDqN == kLoTiles * kColTile, "a part of dQ frees its half of the columns");
  static_assert(Plan::tmem::dKV::columns == kKeys && kDkvM == 128 && kDkvParts % kDkvStages == 0);

  // The warp roles.
  static_assert(Plan::role::load::first_warp == 0 && Plan::role::load::warps == 4);
  static_assert(Plan::role::softmax::first_warp % 4 == 0 && Plan::role::softmax::warps == 4 &&
                    Plan::role::dkv_export::first_warp % 4 == 0 && Plan::role::dkv_export::warps == 4,
                "a warp reaches the TMEM lanes of its place in its warpgroup");
  static_assert(Plan::role::mma::warps == 1);
  static_assert(Plan::threads == 32 * (Plan::role::mma::first_warp + Plan::role::mma::warps));
};

template <class Plan>
using Context = tileproof::Context<Plan, Config<Plan>, Params>;

}  // namespace tileproof::head64
