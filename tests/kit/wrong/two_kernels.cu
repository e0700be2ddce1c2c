// One helper, called with the same mistake from two kernels whose A differ in swizzle, and with another from
// a third.
#include "common.cuh"

namespace wrong {

#ifdef RIGHT
constexpr int N = 128, kDepth = 64;
#else
constexpr int N = 256, kDepth = 128;
#endif

__global__ void two_kernels_first(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  mma_ss(mma, k_major<128, 64>(a), k_major<64, kDepth>(b), tC);
}

__global__ void two_kernels_second(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 64>{});
  auto tC = partition_fragment_C(mma, Shape<_128, _64>{});
  mma_ss(mma, smem_tile<UMMA::Layout_K_SW64_Atom<bf16>, 128, 64>(a), k_major<64, kDepth>(b), tC);
}

__global__ void two_kernels_third(void* a, void* b) {
  auto mma = make_tiled_mma(SS<128, 128>{});
  auto tC = partition_fragment_C(mma, Shape<_128, Int<N>>{});
  mma_ss(mma, k_major<128, 64>(a), k_major<128, 64>(b), tC);
}

}  // namespace wrong
