// make_tmem_copy of a tensor that lies in shared memory.
#include "common.cuh"

namespace wrong {

__global__ void tmem_copy_of_smem(void* at) {
#ifdef RIGHT
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tile = partition_fragment_C(mma, Shape<_128, _64>{});
#else
  auto tile =
      make_tensor(make_smem_ptr(static_cast<float*>(at)), Layout<Shape<_128, _64>, Stride<_64, _1> >{});
#endif
  auto load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b16x{}, tile);
  print(load);
}

}  // namespace wrong
