// Loads a tile by a tensor map that is a parameter, and adds to it what a struct of pointers names; a memset, a copy and a
// second launch between. Arguments: none.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

struct Rest {
  int rows;           // 0: 4 bytes of padding behind it
  const float* bias;  // 8
  float* end;         // 16: one past the end of the output
  long long pair;     // 24: two 32-bit extents, no pointer
};

__global__ void add(const __grid_constant__ CUtensorMap map, const __grid_constant__ Rest rest, float* out) {
  __shared__ alignas(128) float tile[8 * 32];
  __shared__ alignas(8) std::uint64_t barrier;
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const auto bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(0), "r"(8 * static_cast<int>(blockIdx.x)), "r"(bar)
        : "memory");
  }
  asm volatile(
      "{\n .reg .pred p;\n again:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n @!p bra again;\n}" ::"r"(bar)
      : "memory");
  for (int row = 0; row < rest.rows; ++row)
    out[(8 * blockIdx.x + row) * 32 + threadIdx.x] = tile[32 * row + threadIdx.x] + rest.bias[threadIdx.x];
}
__global__ void scale(float* out, float by) { out[32 * blockIdx.x + threadIdx.x] *= by; }

int main() {
  float *in, *bias, *out, *unused, *half;
  cudaMalloc(&in, 16 * 128);
  cudaMalloc(&bias, 128);
  cudaMalloc(&unused, 1 << 20);
  cudaMalloc(&out, 16 * 128);
  cudaMalloc(&half, 128);
  std::vector<float> host(16 * 32), back(16 * 32);
  for (int i = 0; i < 512; ++i) host[i] = static_cast<float>(i);
  cudaMemcpy(in, host.data(), 2048, cudaMemcpyHostToDevice);
  cudaMemset(bias, 0, 128);
  cudaMemcpy(half, host.data() + 64, 64, cudaMemcpyHostToDevice);
  alignas(64) CUtensorMap map;
  const cuuint64_t shape[2] = {32, 16}, strides[1] = {128};
  const cuuint32_t box[2] = {32, 8}, steps[2] = {1, 1};
  void* encode;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, nullptr);
  reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, in, shape, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  const Rest rest{8, bias, out + 512, (4096ll << 32) | 4096};
  add<<<2, 32>>>(map, rest, out);
  cudaMemcpy(bias, in + 32, 128, cudaMemcpyDeviceToDevice);
  cudaMemset(in, 0x3F, 4);
  scale<<<16, 32>>>(out, 0.5f);
  add<<<2, 32>>>(map, rest, out);
  cudaMemcpy(back.data(), out, 2048, cudaMemcpyDeviceToHost);
  cudaFree(unused);
  return 0;
}
