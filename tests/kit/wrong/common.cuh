// What the wrong kernels of this folder share: operand tiles in shared memory and a gemm over k, as a user
// writes it.
#pragma once

#include <cute/tensor.hpp>

#include <cute/arch/mma_sm100_umma.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cutlass/numeric_types.h>

namespace wrong {

using namespace cute;
using bf16 = cutlass::bfloat16_t;
constexpr auto K = UMMA::Major::K;
constexpr auto MN = UMMA::Major::MN;

template <int M, int N, UMMA::Major A = K, UMMA::Major B = K>
using SS = SM100_MMA_F16BF16_SS<bf16, bf16, float, M, N, A, B>;

// A tile [Rows, Cols] in shared memory, of atom `Atom` repeated.
template <class Atom, int Rows, int Cols>
__device__ auto smem_tile(void* at) {
  return make_tensor(make_smem_ptr(static_cast<bf16*>(at)),
                     tile_to_shape(Atom{}, Shape<Int<Rows>, Int<Cols>>{}));
}

template <int Rows, int Cols>
__device__ auto k_major(void* at) {
  return smem_tile<UMMA::Layout_K_SW128_Atom<bf16>, Rows, Cols>(at);
}

template <int Rows, int Cols>
__device__ auto mn_major(void* at) {
  return smem_tile<UMMA::Layout_MN_SW128_Atom<bf16>, Rows, Cols>(at);
}

// D += A B over all of k, A and B in shared memory.
template <class Mma, class TensorA, class TensorB, class TensorC>
__device__ void mma_ss(Mma& mma, TensorA sA, TensorB sB, TensorC& tC) {
  auto thread = mma.get_slice(_0{});
  auto sA_frag = thread.partition_fragment_A(sA);
  auto sB_frag = thread.partition_fragment_B(sB);
  static_assert(size<2>(sA_frag) == size<2>(sB_frag));
  CUTE_UNROLL
  for (int k = 0; k < size<2>(sA_frag); ++k) {
    gemm(mma, sA_frag(_, _, k), sB_frag(_, _, k), tC);
  }
}

}  // namespace wrong
