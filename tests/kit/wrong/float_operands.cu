// An f16/bf16 MMA with operands of float.
#include "common.cuh"

namespace wrong {

#ifdef RIGHT
using Element = bf16;
#else
using Element = float;
#endif

__global__ void float_operands() {
  auto mma = make_tiled_mma(SM100_MMA_F16BF16_SS<Element, Element, float, 128, 64, K, K>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  tC.data() = 0u;
}

}  // namespace wrong
