// A descriptor of an operand in global memory.
#include "common.cuh"

namespace wrong {

__global__ void operand_in_global(bf16* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
#ifdef RIGHT
  auto A = k_major<128, 64>(a);
#else
  auto A = make_tensor(make_gmem_ptr(a), Layout<Shape<_128, _64>, Stride<_64, _1> >{});
#endif
  mma_ss(mma, A, k_major<64, 64>(b), tC);
}

}  // namespace wrong
