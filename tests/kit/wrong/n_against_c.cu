// The accumulator has 256 columns, B has 128 rows.
#include "common.cuh"

namespace wrong {

__global__ void n_against_c(void* a, void* b) {
#ifdef RIGHT
  using Accumulator = Shape<_128, _128>;
#else
  using Accumulator = Shape<_128, _256>;
#endif
  auto mma = make_tiled_mma(SS<128, 128>{});
  auto tC = partition_fragment_C(mma, Accumulator{});
  mma_ss(mma, k_major<128, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
