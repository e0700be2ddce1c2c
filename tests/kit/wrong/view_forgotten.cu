// The MMA is told that B is MN-major, but B, stored [k, n], is given as it lies and not viewed transposed.
#include "common.cuh"

namespace wrong {

__global__ void view_forgotten(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 256, K, MN>{});
#ifdef RIGHT
  auto sB = mn_major<256, 64>(b);
#else
  auto sB = k_major<64, 256>(b);
#endif
  auto tC = partition_fragment_C(mma, Shape<_128, _256>{});
  mma_ss(mma, k_major<128, 64>(a), sB, tC);
}

}  // namespace wrong
