// A has 256 rows, the accumulator 128.
#include "common.cuh"

namespace wrong {

__global__ void m_against_c(void* a, void* b) {
#ifdef RIGHT
  constexpr int kRows = 128;
#else
  constexpr int kRows = 256;
#endif
  auto mma = make_tiled_mma(SS<128, 128>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
  mma_ss(mma, k_major<kRows, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
