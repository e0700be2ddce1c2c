// The accumulator of a tcgen05.mma in registers, as on Hopper.
#include "common.cuh"

namespace wrong {

__global__ void accumulator_in_registers(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 64>{});
#ifdef RIGHT
  auto acc = partition_fragment_C(mma, Shape<_128, _64>{});
#else
  auto acc = make_tensor<float>(shape(partition_fragment_C(mma, Shape<_128, _64>{})));
#endif
  mma_ss(mma, k_major<128, 64>(a), k_major<64, 64>(b), acc);
}

}  // namespace wrong
