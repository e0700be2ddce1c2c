// Accumulators of 128 x 1024 f32: twice what tensor memory holds.
#include "common.cuh"

namespace wrong {

__global__ void too_much_tmem() {
#ifdef RIGHT
  using Tile = Shape<_128, _512>;
#else
  using Tile = Shape<_128, _1024>;
#endif
  auto mma = make_tiled_mma(SS<128, 256>{});
  auto tC = partition_fragment_C(mma, Tile{});
  tC.data() = 0u;
}

}  // namespace wrong
