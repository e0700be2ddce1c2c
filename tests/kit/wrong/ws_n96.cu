// A weight-stationary MMA with N = 96.
#include "ws_atom.cuh"

namespace wrong {

__global__ void ws_n96() {
#ifdef RIGHT
  constexpr int N = 128;
#else
  constexpr int N = 96;
#endif
  auto mma =
      make_tiled_mma(SM100_MMA_F16BF16_WS_TS<bf16, bf16, float, 64, N, UMMA::tmem_frg_ws_1sm<float>>{});
  auto tC = partition_fragment_C(mma, Shape<_64, Int<N>>{});
  tC.data() = 0u;
}

}  // namespace wrong
