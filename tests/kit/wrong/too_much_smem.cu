// 256 KiB of static shared memory.
#include <cstdint>

namespace wrong {

#ifdef RIGHT
constexpr int kWords = 8 << 10;
#else
constexpr int kWords = 64 << 10;
#endif

__global__ void too_much_smem(uint32_t* out) {
  __shared__ uint32_t tile[kWords];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  *out = tile[threadIdx.x ^ 1];
}

}  // namespace wrong
