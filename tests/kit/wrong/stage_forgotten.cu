// The buffer has two pipeline stages and none is chosen before its part is multiplied: [128, 64, 2]
// for [128, 64].
#include "common.cuh"

namespace wrong {

__global__ void stage_forgotten(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  auto staged = make_tensor(make_smem_ptr(static_cast<bf16*>(a)),
                            tile_to_shape(UMMA::Layout_K_SW128_Atom<bf16>{}, Shape<_128, _64, _2>{}));
  auto sB = k_major<64, 64>(b);
#ifdef RIGHT
  mma_ss(mma, staged(_, _, 0), sB, tC);
#else
  auto thread = mma.get_slice(_0{});
  cute::gemm(mma, thread.partition_fragment_A(staged), thread.partition_fragment_B(sB), tC);
#endif
}

}  // namespace wrong
