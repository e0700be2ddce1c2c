// The kernels around the sparse MLA backward: delta, clear, convert to bf16 and to f16, d_sink,
// expand and collect.
#include <cstddef>

#include "sm90/mla_around/d_sink.cuh"
#include "sm90/mla_around/delta.cuh"
#include "sm90/mla_around/dkv.cuh"
#include "sm90/mla_around/ordered.cuh"

static_assert(sizeof(tileproof::DeltaParams) == 32 && offsetof(tileproof::DeltaParams, heads) == 24);
static_assert(sizeof(tileproof::SinkParams) == 40 && offsetof(tileproof::SinkParams, heads) == 36);
static_assert(sizeof(tileproof::ExpandParams) == 56 && offsetof(tileproof::ExpandParams, d_qk) == 48);
static_assert(sizeof(tileproof::CollectParams) == 48 && offsetof(tileproof::CollectParams, s_kv) == 44);

namespace tileproof {

// The previous grid is complete and its writes are visible. A launch with programmatic
// stream serialization may begin before that; in any other the wait returns at once.
__device__ __forceinline__ void wait_for_previous_grid() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace tileproof

extern "C" __global__ void __launch_bounds__(tileproof::kDeltaThreads)
    tileproof_mla_delta(const __grid_constant__ tileproof::DeltaParams params) {
  tileproof::delta_of_token(params);
}

extern "C" __global__ void __launch_bounds__(tileproof::kDkvThreads)
    tileproof_mla_clear(float* values, int64_t count) {
  tileproof::clear(values, count);
}

extern "C" __global__ void __launch_bounds__(tileproof::kDkvThreads)
    tileproof_mla_bf16(const float* wide, uint16_t* narrow, int64_t count) {
  tileproof::wait_for_previous_grid();
  tileproof::convert<__nv_bfloat16>(wide, narrow, count);
}

extern "C" __global__ void __launch_bounds__(tileproof::kDkvThreads)
    tileproof_mla_f16(const float* wide, uint16_t* narrow, int64_t count) {
  tileproof::wait_for_previous_grid();
  tileproof::convert<__half>(wide, narrow, count);
}

extern "C" __global__ void __launch_bounds__(tileproof::kSinkHeads* tileproof::kSinkTokens)
    tileproof_mla_d_sink(const __grid_constant__ tileproof::SinkParams params) {
  tileproof::wait_for_previous_grid();
  tileproof::sink_gradient(params);
}

extern "C" __global__ void __launch_bounds__(tileproof::kExpandThreads)
    tileproof_mla_expand(const __grid_constant__ tileproof::ExpandParams params) {
  tileproof::expand(params);
}

extern "C" __global__ void __launch_bounds__(tileproof::kCollectThreads)
    tileproof_mla_collect(const __grid_constant__ tileproof::CollectParams params) {
  tileproof::wait_for_previous_grid();
  tileproof::collect(params);
}
