// The loops of sm90-gemm in an entry that dumps the accumulators (registers) as `product` and D, which it
// stages in shared memory. Plant: 1 the last k-block is not loaded, 2 a row of the stage is rotated, 3 the
// dump of D is 1 row short.
#include <cuda.h>
#include <tileproof_dump.cuh>

#include <cstdlib>

#define TILEPROOF_PROBE 0
#include "sm90/gemm/kernel.cu"

namespace gemm = tileproof::sm90_gemm;
using tileproof::DumpTile;
constexpr int kTile = gemm::TileA::rows, kM = 2 * kTile, kN = 2 * kTile, kK = 5 * kTile;
constexpr int kPitch = (kTile + 1) * 4;  // of the stage of D, whose rows are padded
constexpr int kShared = tileproof::Plan::smem_bytes + kTile * kPitch;

extern "C" __global__ void __launch_bounds__(tileproof::Plan::threads, 1)
    dumping(const __grid_constant__ gemm::Params params, DumpTile<float> product, DumpTile<float> D,
            int plant) {
  namespace ptx = tileproof::ptx;
  extern __shared__ __align__(1024) unsigned char shared[];
  auto* stage = reinterpret_cast<float*>(shared + tileproof::Plan::smem_bytes);
  const gemm::Ring ring{ptx::shared_address(shared)};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x % 2 * kTile, column = blockIdx.x / 2 * kTile;
  if (threadIdx.x == 0) {
    for (int s = 0; s < gemm::kStages; ++s) {
      ptx::init(ring.full(s), gemm::Full::count);
      ptx::init(ring.empty(s), gemm::Empty::count);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == tileproof::Plan::role::load::first_warp) {
    if (lane == 0) gemm::load(params, ring, row, column);
  } else {
    float acc[2][4][4] = {};
    gemm::multiply(params, ring, warp, lane, acc);
    const int m0 = warp / gemm::kAcross * gemm::kWarpTile, n0 = warp % gemm::kAcross * gemm::kWarpTile;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 4; ++j) {
        for (int e = 0; e < 4; ++e) {
          const int m = m0 + 16 * i + 8 * (e / 2) + lane / 4, n = n0 + 8 * j + lane % 4 * 2 + e % 2;
          if (blockIdx.x == 3) product.put(m, n, acc[i][j][e]);
          const float c = params.C[static_cast<int64_t>(row + m) * params.columns + column + n];
          stage[m * (kTile + 1) + (n + (plant == 2 && m == 7)) % kTile] =
              params.alpha * acc[i][j][e] + params.beta * c;
        }
      }
    }
  }
  __syncthreads();
  if (blockIdx.x == 3) D.shared(stage, tileproof::RowMajor{kPitch}, threadIdx.x, blockDim.x);
}

gemm::TensorMap map(void* device, int rows) {
  gemm::TensorMap made;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  const cuuint64_t sizes[2] = {kK, cuuint64_t(rows)}, strides[1] = {kK * 2};
  const cuuint32_t box[2] = {kTile, kTile}, steps[2] = {1, 1};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      reinterpret_cast<CUtensorMap*>(&made), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, device, sizes, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) std::exit(3);
  return made;
}

int main(int argc, char** argv) {
  const int plant = argc > 2 ? std::atoi(argv[2]) : 0;
  tileproof::DumpFolder folder(argc > 1 ? argv[1] : "dump");
  std::vector<__half> A(kM * kK), B(kN * kK);
  std::vector<float> C(kM * kN);
  uint32_t state = 1;
  auto draw = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; };
  for (__half& x : A) x = __float2half(draw());
  for (__half& x : B) x = __float2half(draw());
  for (float& x : C) x = draw();
  const float alpha = 0.5f, beta = -2.0f;
  folder.save("A", A.data(), {kM, kK});
  folder.save("B", B.data(), {kN, kK});
  folder.save("C", C.data(), {kM, kN});
  folder.save("alpha", &alpha, {});
  folder.save("beta", &beta, {});

  void *a, *b, *c;
  cudaMalloc(&a, A.size() * 2), cudaMalloc(&b, B.size() * 2), cudaMalloc(&c, C.size() * 4);
  cudaMemcpy(a, A.data(), A.size() * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(b, B.data(), B.size() * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(c, C.data(), C.size() * 4, cudaMemcpyHostToDevice);
  gemm::Params params{map(a, kM), map(b, kN), static_cast<float*>(c),   nullptr, nullptr, alpha, beta,
                      kM,         kN,         kK / kTile - (plant == 1)};
  auto product = folder.tile<float>("product[64:128, 64:128]");
  auto D = folder.tile<float>("D[64:128, 64:128]");
  if (plant == 3) --D.rows;
  cudaFuncSetAttribute(dumping, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  dumping<<<4, tileproof::Plan::threads, kShared>>>(params, product, D, plant);
  const size_t lost = folder.write();
  std::printf("%zu elements lost\n", lost);
  return lost ? 1 : 0;
}
