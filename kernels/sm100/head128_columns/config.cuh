// Parameters, layouts and the shared-memory map of head128-columns, each asserted against the generated plan.
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

namespace tileproof::head128_columns {

using namespace cute;

// Boxes: 128 x 64 of q, dO and dQ, 1 x 64 of kv. The maps of RoPE columns are of the same tensors; no kernel
// without RoPE reads them.
struct Maps : BackwardMaps {
  TmaDescriptor q_rope_map;   // [s_q * h_q, d_qk], box 128 x 32, 64B swizzle
  TmaDescriptor kv_rope_map;  // [s_kv, d_qk],      box 1 x 32 for gather4, 64B swizzle, zero fill
  TmaDescriptor dQ_rope_map;  // [s_q * h_q, d_qk], box 128 x 32, 64B swizzle
};
static_assert(sizeof(Maps) == 7 * 128);
using Params = tileproof::Params<Maps>;
static_assert(sizeof(Params) == 1024);

template <class Plan>
struct Config {
  using Element = tileproof::Element<Plan>;

  static constexpr int kAllHeads = Plan::h_q;               // 128, of which every CTA has its columns
  static constexpr int kHeads = Plan::h_q / Plan::cluster;  // 64 that a CTA finishes
  static constexpr int kKeys = Plan::b_topk;                // 64 keys per k-block
  static constexpr int kCols = Plan::d_v / Plan::cluster;   // 256 columns of a CTA
  static constexpr int kColTiles = kCols / kColTile;        // 4

  // Column tiles of Q, dO, S and dS have 128 rows, those of KV 64.
  static constexpr int kHeadTileBytes = kAllHeads * kRowBytes;  // 16 KiB
  static constexpr int kKeyTileBytes = kKeys * kRowBytes;       // 8 KiB

  static constexpr int kRope = (Plan::d_qk - Plan::d_v) / Plan::cluster;                 // 32 or 0 of RoPE
  static constexpr int kNarrowHeadBytes = kRope != 0 ? kAllHeads * kNarrowRowBytes : 0;  // 8 KiB
  static constexpr int kNarrowKeyBytes = kRope != 0 ? kKeys * kNarrowRowBytes : 0;       // 4 KiB

  // Whether the peer's shares have bytes and dP tensor memory of their own; else they lie in KV's and P's.
  static constexpr bool kRoomy = kRope == 0;

  // KV is gathered, and multiplied with Q and dO, in two halves of the columns.
  static constexpr int kKvStages = Plan::smem::KV::stages;         // 2, of k-blocks
  static constexpr int kHalfTiles = kColTiles / 2;                 // 2 column tiles of a half
  static constexpr int kHalfCols = kHalfTiles * kColTile;          // 128
  static constexpr int kKvHalfBytes = kHalfTiles * kKeyTileBytes;  // 16 KiB
  static constexpr int kKvBytes = 2 * kKvHalfBytes;                // 32 KiB
  static constexpr int kHiParts = kRoomy ? 1 : kHalfTiles;         // of the upper half, with a barrier each

  static constexpr int kDkvM = Plan::mma::dKV_S::m;  // 128
  static constexpr int kDkvParts = kCols / kDkvM;    // 2, each with TMEM of its own
  static constexpr int kKeysPerThread = 32;          // of softmax: two warps per lane quarter
  static constexpr int kFinishingWarps = Plan::role::softmax::warps / Plan::cluster;
  static constexpr int kShareBytes = kHeads * kKeys * 4;  // of P or dP, f32

  struct SharedStorage {
    alignas(1024) Element q[kAllHeads * kCols];
    alignas(1024) Element dO[kAllHeads * kCols];
    alignas(1024) Element s[kAllHeads * kKeys];          // and, when the MMAs have read it, dS
    alignas(1024) Element kv[kKvStages][kKeys * kCols];  // and at the end dQ
    alignas(16) float own_incoming[kRoomy ? kKeysPerThread * kAllHeads : 0];
    alignas(512) unsigned char q_rope[kNarrowHeadBytes];
    alignas(512) unsigned char kv_rope[kKvStages * kNarrowKeyBytes];  // and at the end dQ
    float delta_own[kAllHeads];
    float delta_incoming[kAllHeads];
    Barrier q_ready;
    Barrier do_ready;
    Barrier delta_ready;
    Barrier kv_lo_ready[kKvStages];
    Barrier kv_hi_ready[kKvStages * kHiParts];
    Barrier kv_lo_free[kKvStages];
    Barrier kv_hi_free[kRoomy ? kKvStages : 1];
    Barrier p_ready;
    Barrier dp_ready;
    Barrier p_free;
    Barrier dp_free;
    Barrier in_ready;
    Barrier in_p_read;
    Barrier in_dp_read;
    Barrier s_sent;
    Barrier ds_sent;
    Barrier in_p_free;
    Barrier in_dp_free;
    Barrier s_ready;
    Barrier ds_ready;
    Barrier s_free;
    Barrier ds_free;
    Barrier dkv_ready[kDkvParts];
    Barrier dkv_free[kDkvParts];
    Barrier rope_ready[kRope != 0 ? 1 : 0];
    Barrier dq_ready[2];  // of the halves of its columns
    uint32_t tmem_base;
  };

  // The problem's shape.
  static_assert(Plan::cluster == 2 && Plan::h_q == 128 && Plan::d_v == 512);
  static_assert(kRope == kNarrowCols || kRope == 0);
  static_assert(kKeys == 64);

#if !defined(TILEPROOF_EDITED) && !TILEPROOF_PROBE
  // Read along rows a column tile is the K-major layout that CuTe builds from the same atom, read along
  // columns the MN-major one: element (row, col) lies at the same offset in both.
  using KAtom = UMMA::Layout_K_SW128_Atom<Element>;
  using MnAtom = UMMA::Layout_MN_SW128_Atom<Element>;
  using HeadsK = decltype(tile_to_shape(KAtom{}, Shape<Int<kAllHeads>, Int<kCols>>{}));
  using HeadsMn = decltype(tile_to_shape(MnAtom{}, Shape<Int<kCols>, Int<kAllHeads>>{}, Step<_2, _1>{}));
  using KeysK = decltype(tile_to_shape(KAtom{}, Shape<Int<kKeys>, Int<kCols>>{}));
  using KeysMn = decltype(tile_to_shape(MnAtom{}, Shape<Int<kCols>, Int<kKeys>>{}, Step<_2, _1>{}));
  static_assert(2 * int(HeadsK{}.layout_b()(0, kColTile)) == kHeadTileBytes);
  static_assert(2 * int(HeadsMn{}.layout_b()(kColTile, 0)) == kHeadTileBytes);
  static_assert(2 * int(KeysK{}.layout_b()(0, kColTile)) == kKeyTileBytes);
  static_assert(2 * int(KeysMn{}.layout_b()(kColTile, 0)) == kKeyTileBytes);
  static_assert(2 * int(HeadsK{}.layout_b()(8, 0)) == kAtomBytes &&
                2 * int(KeysK{}.layout_b()(8, 0)) == kAtomBytes);
  static_assert(2 * int(HeadsMn{}.layout_b()(0, 8)) == kAtomBytes &&
                2 * int(KeysMn{}.layout_b()(0, 8)) == kAtomBytes);
  static_assert(Swizzle<3, 4, 3>{}(3 * kRowBytes + 2 * 16) == int(swizzled_chunk(3, 2)));
#endif

  // The shared-memory map.
  TILEPROOF_SMEM(q, Q);
  TILEPROOF_SMEM(dO, dO);
  TILEPROOF_SMEM(s, S);
  TILEPROOF_SMEM(s, dS);
  TILEPROOF_SMEM(kv, KV);
  static_assert((kRoomy ? offsetof(SharedStorage, own_incoming)
                        : offsetof(SharedStorage, kv) + kKvHalfBytes) == Plan::smem::incoming::offset);
  TILEPROOF_SMEM(delta_own, delta_own);
  TILEPROOF_SMEM(delta_incoming, delta_incoming);
  TILEPROOF_SMEM(tmem_base, tmem_base);
  static_assert(sizeof(SharedStorage) == Plan::smem_bytes, "the plan's shared-memory size differs");
  static_assert(sizeof(SharedStorage::kv) == Plan::smem::KV::bytes * kKvStages);
  static_assert(kShareBytes == Plan::smem::incoming::bytes && kShareBytes == kKvHalfBytes);

  // The barriers.
  static_assert(Plan::template barriers_agree<SharedStorage>());
  static_assert(Plan::barrier::q_ready::tx_bytes == sizeof(SharedStorage::q) + kNarrowHeadBytes);
  static_assert(Plan::barrier::do_ready::tx_bytes == sizeof(SharedStorage::dO));
  static_assert(Plan::barrier::kv_lo_ready::tx_bytes == kKvHalfBytes + kNarrowKeyBytes);
  static_assert(Plan::barrier::kv_hi_ready::tx_bytes * kHiParts == kKvHalfBytes);
  static_assert(Plan::barrier::in_ready::tx_bytes == kShareBytes);
  static_assert(Plan::barrier::delta_ready::tx_bytes == sizeof(SharedStorage::delta_incoming));
  static_assert(Plan::barrier::delta_ready::count == Plan::role::dkv_export::warps);
  static_assert(Plan::barrier::p_free::count == Plan::role::softmax::warps);
  static_assert(Plan::barrier::dp_free::count == Plan::role::softmax::warps);
  static_assert(Plan::barrier::kv_hi_free::count == (kRoomy ? 1 : kFinishingWarps));
  static_assert(Plan::barrier::in_p_free::count == 1 && Plan::barrier::in_dp_free::count == 1);
  static_assert(Plan::barrier::in_p_read::count == kFinishingWarps &&
                Plan::barrier::in_dp_read::count == kFinishingWarps);
  static_assert(Plan::barrier::s_sent::count == kFinishingWarps &&
                Plan::barrier::ds_sent::count == kFinishingWarps);
  static_assert(Plan::barrier::s_ready::count == kFinishingWarps);
  static_assert(Plan::barrier::ds_ready::count == kFinishingWarps);
  static_assert(Plan::barrier::s_free::count == Plan::cluster &&
                Plan::barrier::ds_free::count == Plan::cluster);
  static_assert(Plan::barrier::dkv_free::count == Plan::role::dkv_export::warps / kDkvParts);

  // dQ leaves through the keys' bytes: a column tile of it through half of a k-block.
  static_assert(kHeadTileBytes == kKvHalfBytes && kColTiles == 2 * kKvStages);
  static_assert(kNarrowHeadBytes == kKvStages * kNarrowKeyBytes);

  // The accumulators, all of layout D: a lane is a head, or a column of kv.
  static_assert(Plan::tmem::P::columns == kKeys && Plan::tmem::dP::columns == kKeys);
  static_assert(Plan::tmem::dQ::columns * Plan::tmem::dQ::stages == kCols);
  static_assert(Plan::tmem::dKV::columns == kKeys && Plan::tmem::dKV::stages == kDkvParts && kDkvM == 128);

  // The warp roles.
  static_assert(Plan::role::load::first_warp == 0 && Plan::role::load::warps == 2);
  static_assert(Plan::role::softmax::first_warp % 4 == 0 && Plan::role::softmax::warps == 8 &&
                    Plan::role::dkv_export::first_warp % 4 == 0 && Plan::role::dkv_export::warps == 8,
                "a warp reaches the TMEM lanes of its rank in its warpgroup");
  static_assert(Plan::role::mma::warps == 1 && Plan::role::signal::warps == 1);
  static_assert(Plan::threads == 32 * (Plan::role::dkv_export::first_warp + Plan::role::dkv_export::warps));
};

// What every role knows, and which CTA is its peer.
template <class Plan>
struct Context : tileproof::Context<Plan, Config<Plan>, Params> {
  using Base = tileproof::Context<Plan, Config<Plan>, Params>;

  __device__ __forceinline__ Context(const Params& params, typename Base::Storage& smem)
      : Base(params, smem) {}

  // The place in the peer's shared memory of an address in this CTA's.
  __device__ __forceinline__ uint32_t in_peer(uint32_t address) const {
    return ptx::map_to_rank(address, cute::block_rank_in_cluster() ^ 1);
  }

  // The CTA's first column of q, kv, dO and o.
  __device__ __forceinline__ int first_column() const { return this->rank * Base::Cfg::kCols; }

  // Its first RoPE column of q and kv.
  __device__ __forceinline__ int first_rope_column() const {
    return Plan::d_v + this->rank * Base::Cfg::kRope;
  }

  // The token's first head among all rows of [s_q * h_q, ...].
  __device__ __forceinline__ int token_row() const {
    return int(blockIdx.x) / Plan::cluster * Plan::h_q;  // not from `token`, which would need a register
  }
};

}  // namespace tileproof::head128_columns
