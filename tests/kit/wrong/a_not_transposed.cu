// A is stored [k, m] and given as it lies: the MMA takes its 64 rows for M and its 128 columns for K.
#include "common.cuh"

namespace wrong {

__global__ void a_not_transposed(void* a, void* b) {
#ifdef RIGHT
  auto mma = make_tiled_mma(SS<128, 64, MN, K>{});
  auto sA = mn_major<128, 64>(a);
#else
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto sA = k_major<64, 128>(a);
#endif
  auto sB = k_major<64, 64>(b);
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  mma_ss(mma, sA, sB, tC);
}

}  // namespace wrong
