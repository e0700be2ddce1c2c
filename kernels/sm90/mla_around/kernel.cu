// The kernels around the sparse MLA backward: delta, clear, convert to bf16 and to f16.
#include <cstddef>

#include "sm90/mla_around/delta.cuh"
#include "sm90/mla_around/dkv.cuh"

static_assert(sizeof(tileproof::DeltaParams) == 32 && offsetof(tileproof::DeltaParams, heads) == 24);

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
  tileproof::convert<__nv_bfloat16>(wide, narrow, count);
}

extern "C" __global__ void __launch_bounds__(tileproof::kDkvThreads)
    tileproof_mla_f16(const float* wide, uint16_t* narrow, int64_t count) {
  tileproof::convert<__half>(wide, narrow, count);
}
