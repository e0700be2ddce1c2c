// A tensor-memory load of 64 columns from an accumulator of 32.
#include "common.cuh"

namespace wrong {

__global__ void tmem_load_too_wide() {
  auto mma = make_tiled_mma(SS<128, 32>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _32>{});
#ifdef RIGHT
  auto load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x{}, tC);
#else
  auto load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b64x{}, tC);
#endif
  auto thread = load.get_slice(threadIdx.x);
  auto from = thread.partition_S(tC);
  auto into = make_tensor<float>(shape(thread.partition_D(make_identity_tensor(shape(tC)))));
  copy(load, from, into);
}

}  // namespace wrong
