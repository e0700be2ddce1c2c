// A lies as a plain row-major matrix, which no matrix descriptor can say.
#include "common.cuh"

namespace wrong {

__global__ void plain_rows(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 128>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _128>{});
#ifdef RIGHT
  auto sA = k_major<128, 64>(a);
#else
  auto sA = make_tensor(make_smem_ptr(static_cast<bf16*>(a)), Layout<Shape<_128, _64>, Stride<_64, _1> >{});
#endif
  mma_ss(mma, sA, k_major<128, 64>(b), tC);
}

}  // namespace wrong
