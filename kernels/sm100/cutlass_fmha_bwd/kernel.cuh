// The operator of CUTLASS example 77's backward that one build is made for: tiles of 128 keys by 128 queries,
// heads of at most Plan::d_tile columns; f16, or bf16 with Plan::bf16; sequences of one length, or packed
// ones. With Plan::another_d_v the kernel of heads whose values have columns of their own.
#pragma once

#include "tileproof_plan.h"

#include "collective/fmha_fusion.hpp"
// Before device/, so that the PTX names these files by their own paths; the first has what the others need.
// clang-format off
#include "kernel/sm100_fmha_bwd_kernel_tma_warpspecialized.hpp"
#include "kernel/sm100_fmha_bwd_mla_kernel_tma_warpspecialized.hpp"
#include "kernel/fmha_kernel_bwd_convert.hpp"
#include "kernel/fmha_kernel_bwd_sum_OdO.hpp"
// clang-format on

#include "device/fmha_device_bwd.hpp"

namespace tileproof {

template <int Causal>  // 0: none, 1: query i sees keys up to i, 2: the last query sees all keys
struct MaskOf {
  using type = cutlass::fmha::collective::CausalForBackwardMask<Causal == 1>;
};

template <>
struct MaskOf<0> {
  using type = cutlass::fmha::collective::ResidualMaskForBackward;
};

// Queries, keys, columns of q and k, of v and o, ((query heads per key head, key heads), batches).
using Length = std::conditional_t<Plan::packed != 0, cutlass::fmha::collective::VariableLength, int>;
using Element = std::conditional_t<Plan::bf16 != 0, cutlass::bfloat16_t, cutlass::half_t>;
using ProblemShape = cute::tuple<Length, Length, int, int, cute::tuple<cute::tuple<int, int>, int>>;
using TileShape =
    cute::Shape<cute::Int<Plan::m>, cute::_128, cute::Int<Plan::d_tile>, cute::Int<Plan::smem::V::cols>>;
using Backward = cutlass::fmha::device::Sm100FmhaBwd<ProblemShape, Element, float, TileShape,
                                                     Plan::another_d_v != 0, MaskOf<Plan::causal>::type>;
using SumOdO = Backward::OperationSumOdO::Kernel;
using Main = Backward::Operation::Kernel;
using Convert = Backward::OperationConvert::Kernel;

}  // namespace tileproof
