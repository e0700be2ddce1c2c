// The registers for a tensor-memory load were counted by hand: 16, where a thread receives 4.
#include "common.cuh"

namespace wrong {

__global__ void tmem_registers() {
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  auto load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b16x{}, tC);
  auto from = load.get_slice(threadIdx.x).partition_S(tC);
#ifdef RIGHT
  auto into =
      make_tensor<float>(shape(load.get_slice(threadIdx.x).partition_D(make_identity_tensor(shape(tC)))));
#else
  auto into = make_tensor<float>(Shape<_16>{});
#endif
  copy(load, from, into);
}

}  // namespace wrong
