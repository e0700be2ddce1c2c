// A tile of 32 columns of k with the atom of the 128-byte swizzle, which is 64 wide.
#include "common.cuh"

namespace wrong {

__global__ void swizzle_too_wide(void* a, void* b) {
#ifdef RIGHT
  using Atom = UMMA::Layout_K_SW64_Atom<bf16>;
#else
  using Atom = UMMA::Layout_K_SW128_Atom<bf16>;
#endif
  auto mma = make_tiled_mma(SS<128, 128>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
  mma_ss(mma, smem_tile<Atom, 128, 32>(a), smem_tile<Atom, 128, 32>(b), tC);
}

}  // namespace wrong
