// The buffer of B is MN-major, the MMA is told K-major.
#include "common.cuh"

namespace wrong {

__global__ void major_of_b(void* a, void* b) {
#ifdef RIGHT
  constexpr auto kMajorB = MN;
#else
  constexpr auto kMajorB = K;
#endif
  auto mma = make_tiled_mma(SS<128, 128, K, kMajorB>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
  mma_ss(mma, k_major<128, 64>(a), mn_major<128, 64>(b), tC);
}

}  // namespace wrong
