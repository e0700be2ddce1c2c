// M = 32 on one SM.
#include "common.cuh"

namespace wrong {

__global__ void m32(void* a, void* b) {
#ifdef RIGHT
  constexpr int M = 64;
#else
  constexpr int M = 32;
#endif
  auto mma = make_tiled_mma(SS<M, 128>{});
  auto tC = partition_fragment_C(mma, Shape<Int<M>, _128>{});
  mma_ss(mma, k_major<M, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
