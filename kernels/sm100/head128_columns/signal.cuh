// The signal role: one thread signals to the peer that the finishing warps have read its shares. A release
// for the whole cluster holds up the thread that makes it, so none of those warps does.
#pragma once

#include "sm100/head128_columns/config.cuh"

namespace tileproof::head128_columns {

template <class Plan>
struct Signal : Context<Plan> {
  using Base = Context<Plan>;
  using Base::k_blocks, Base::rank, Base::smem;
  using typename Base::Base::Cfg;

  __device__ __forceinline__ explicit Signal(const Base& base) : Base(base) {}

  __device__ __forceinline__ void run() {
    const uint32_t peer = uint32_t(rank) ^ 1;
    CUTE_NO_UNROLL
    for (int k = 0; k < k_blocks; ++k) {
      smem.in_p_read.wait_own(k & 1);
      smem.in_dp_free.arrive_in(peer);
      if constexpr (Cfg::kRoomy) {
        if (k + 1 == k_blocks) break;  // nobody would wait for it, and the peer may exit
        smem.in_dp_read.wait_own(k & 1);
        smem.in_p_free.arrive_in(peer);
      }
    }
  }
};

}  // namespace tileproof::head128_columns
