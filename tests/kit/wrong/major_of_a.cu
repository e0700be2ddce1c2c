// The buffer of A is K-major, the MMA is told MN-major.
#include "common.cuh"

namespace wrong {

__global__ void major_of_a(void* a, void* b) {
#ifdef RIGHT
  constexpr auto kMajorA = K;
#else
  constexpr auto kMajorA = MN;
#endif
  auto mma = make_tiled_mma(SS<128, 128, kMajorA, K>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
  mma_ss(mma, k_major<128, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
