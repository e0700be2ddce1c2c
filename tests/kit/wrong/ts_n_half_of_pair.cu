// A 2-CTA MMA with A in tensor memory and N = 48: the step is 32 there.
#include "common.cuh"

namespace wrong {

__global__ void ts_n_half_of_pair() {
#ifdef RIGHT
  constexpr int N = 64;
#else
  constexpr int N = 48;
#endif
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_2x1SM_TS<bf16, bf16, float, 128, N, K, K>{});
  print(mma);
}

}  // namespace wrong
