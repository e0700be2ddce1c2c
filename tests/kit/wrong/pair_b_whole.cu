// A 2-CTA MMA with all of B's N rows in each CTA, where each CTA holds half of them.
#include "common.cuh"

namespace wrong {

__global__ void pair_b_whole(void* a, void* b) {
#ifdef RIGHT
  constexpr int kRows = 64;
#else
  constexpr int kRows = 256;
#endif
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_2x1SM_SS<bf16, bf16, float, 128, 128, K, K>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
  mma_ss(mma, k_major<64, 64>(a), k_major<kRows, 64>(b), tC);
}

}  // namespace wrong
