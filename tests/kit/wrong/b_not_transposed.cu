// B is stored [k, n] and given as it lies: the MMA takes its 64 rows for N and its 256 columns for K.
#include "common.cuh"

namespace wrong {

__global__ void b_not_transposed(void* a, void* b) {
  auto sA = k_major<128, 64>(a);
#ifdef RIGHT
  auto mma = make_tiled_mma(SS<128, 256, K, MN>{});
  auto sB = mn_major<256, 64>(b);
#else
  auto mma = make_tiled_mma(SS<128, 256>{});
  auto sB = k_major<64, 256>(b);
#endif
  auto tC = partition_fragment_C(mma, Shape<_128, _256>{});
  mma_ss(mma, sA, sB, tC);
}

}  // namespace wrong
