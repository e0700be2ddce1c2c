// A from tensor memory declared MN-major.
#include "common.cuh"

namespace wrong {

__global__ void ts_a_mn_major(void* b) {
#ifdef RIGHT
  constexpr auto kMajorA = K;
#else
  constexpr auto kMajorA = MN;
#endif
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_TS<bf16, bf16, float, 128, 64, kMajorA, K>{});
  auto tA = mma.get_slice(_0{}).make_fragment_A(partition_shape_A(mma, Shape<_128, _64>{}));
  auto tB = mma.get_slice(_0{}).partition_fragment_B(k_major<64, 64>(b));
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  cute::gemm(mma, tA(_, _, 0), tB(_, _, 0), tC);
}

}  // namespace wrong
