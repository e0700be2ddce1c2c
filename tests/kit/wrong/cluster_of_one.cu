// A 2-CTA MMA in a cluster of one CTA.
#include "common.cuh"

#include <cutlass/gemm/collective/builders/sm100_common.inl>

namespace wrong {

__global__ void cluster_of_one() {
#ifdef RIGHT
  using Cluster = Shape<_2, _1, _1>;
#else
  using Cluster = Shape<_1, _1, _1>;
#endif
  using Mma = decltype(make_tiled_mma(SM100_MMA_F16BF16_2x1SM_SS<bf16, bf16, float, 256, 128, K, K>{}));
  using cutlass::gemm::collective::detail::sm100_cluster_shape_to_tma_atom_A;
  using Atom = decltype(sm100_cluster_shape_to_tma_atom_A(Cluster{}, Mma::AtomThrID{}));
  static_assert(sizeof(Atom) > 0);
}

}  // namespace wrong
