// As b_not_transposed, with the fragments made in the kernel: only descriptors and their strides are in the
// types.
#include "common.cuh"

namespace wrong {

__global__ void b_descriptors(void* a, void* b) {
  auto sA = k_major<128, 64>(a);
#ifdef RIGHT
  auto mma = make_tiled_mma(SS<128, 256, K, MN>{});
  auto sB = mn_major<256, 64>(b);
#else
  auto mma = make_tiled_mma(SS<128, 256>{});
  auto sB = k_major<64, 256>(b);
#endif
  auto thread = mma.get_slice(_0{});
  auto fA = thread.make_fragment_A(thread.partition_A(sA));
  auto fB = thread.make_fragment_B(thread.partition_B(sB));
  auto tC = partition_fragment_C(mma, Shape<_128, _256>{});
  cute::gemm(mma, fA, fB, tC);
}

}  // namespace wrong
