// A weight-stationary atom, which CUTLASS 4.2 has no class for: tcgen05.mma.ws with A in tensor memory.
#pragma once

#include "common.cuh"

namespace wrong {

template <class TypeA, class TypeB, class TypeC, int M, int N, class FrgC>
struct SM100_MMA_F16BF16_WS_TS {
  using ARegisters = uint32_t[1];
  using BRegisters = uint64_t[1];
  using CRegisters = uint32_t[1];
  using DRegisters = void;
};

}  // namespace wrong

namespace cute {

template <class TypeA, class TypeB, class TypeC, int M, int N, class FrgC>
struct MMA_Traits<wrong::SM100_MMA_F16BF16_WS_TS<TypeA, TypeB, TypeC, M, N, FrgC>> {
  using ValTypeA = TypeA;
  using ValTypeB = TypeB;
  using ValTypeC = TypeC;
  using ValTypeD = TypeC;
  using FrgTypeA = UMMA::tmem_frg_ws_1sm<TypeA, TypeA>;
  using FrgTypeB = UMMA::smem_desc<UMMA::Major::K>;
  using FrgTypeC = FrgC;
  using Shape_MNK = Shape<Int<M>, Int<N>, _16>;
  using ThrID = Layout<_1>;
  using ALayout = Layout<Shape<_1, Shape<Int<M>, _16>>, Stride<_0, Stride<_1, Int<M>>>>;
  using BLayout = Layout<Shape<_1, Shape<Int<N>, _16>>, Stride<_0, Stride<_1, Int<N>>>>;
  using CLayout = Layout<Shape<_1, Shape<Int<M>, Int<N>>>, Stride<_0, Stride<_1, Int<M>>>>;
  UMMA::ScaleOut accumulate_ = UMMA::ScaleOut::One;
};

}  // namespace cute
