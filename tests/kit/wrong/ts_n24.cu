// N = 24 with M = 128: the step is 16 there.
#include "common.cuh"

namespace wrong {

__global__ void ts_n24(void* b) {
#ifdef RIGHT
  constexpr int N = 32;
#else
  constexpr int N = 24;
#endif
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_TS<bf16, bf16, float, 128, N, K, K>{});
  auto tA = mma.get_slice(_0{}).make_fragment_A(partition_shape_A(mma, Shape<_128, _64>{}));
  auto tB = mma.get_slice(_0{}).partition_fragment_B(k_major<N, 64>(b));
  auto tC = partition_fragment_C(mma, Shape<_128, Int<N>>{});
  cute::gemm(mma, tA(_, _, 0), tB(_, _, 0), tC);
}

}  // namespace wrong
