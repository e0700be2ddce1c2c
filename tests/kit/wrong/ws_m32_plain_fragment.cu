// A weight-stationary MMA with M = 32 whose accumulator is described by the fragment of the plain MMA (corpus
// L1).
#include "ws_atom.cuh"

namespace wrong {

__global__ void ws_m32_plain_fragment() {
#ifdef RIGHT
  auto mma =
      make_tiled_mma(SM100_MMA_F16BF16_WS_TS<bf16, bf16, float, 32, 128, UMMA::tmem_frg_ws_1sm<float>>{});
#else
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_WS_TS<bf16, bf16, float, 32, 128, UMMA::tmem_frg_1sm<float>>{});
#endif
  auto tC = partition_fragment_C(mma, Shape<_32, _128>{});
  tC.data() = 0u;
}

}  // namespace wrong
