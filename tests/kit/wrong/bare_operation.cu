// A tensor-memory load as the policy of a copy, without the atom that it needs.
#include "common.cuh"

namespace wrong {

__global__ void bare_operation() {
  auto mma = make_tiled_mma(SS<128, 32>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _32>{});
#ifdef RIGHT
  auto load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x{}, tC);
  auto thread = load.get_slice(threadIdx.x);
  auto into = make_tensor<float>(shape(thread.partition_D(make_identity_tensor(shape(tC)))));
  copy(load, thread.partition_S(tC), into);
#else
  auto into = make_tensor<float>(Shape<_32>{});
  copy(SM100_TMEM_LOAD_32dp32b32x{}, tC, into);
#endif
}

}  // namespace wrong
