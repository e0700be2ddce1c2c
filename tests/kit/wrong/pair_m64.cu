// A 2-CTA MMA with M = 64.
#include "common.cuh"

namespace wrong {

__global__ void pair_m64(void* a, void* b) {
#ifdef RIGHT
  constexpr int M = 128;
#else
  constexpr int M = 64;
#endif
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_2x1SM_SS<bf16, bf16, float, M, 128, K, K>{});
  auto tC = partition_fragment_C(mma, Shape<Int<M>, _128>{});
  mma_ss(mma, k_major<M, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
