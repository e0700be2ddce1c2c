// A has 64 columns of k, B has 128.
#include "common.cuh"

namespace wrong {

__global__ void k_differs(void* a, void* b) {
#ifdef RIGHT
  constexpr int kCols = 64;
#else
  constexpr int kCols = 128;
#endif
  auto mma = make_tiled_mma(SS<128, 256>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _256>{});
  mma_ss(mma, k_major<128, 64>(a), k_major<256, kCols>(b), tC);
}

}  // namespace wrong
