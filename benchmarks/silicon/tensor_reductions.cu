// Reductions through a tensor map, every operation with every element type, and loads by a map that lies in
// global memory. Each program has a process of its own, which a fault ends alone.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

constexpr int kBytes = 256;

template <int kOp>
__device__ void reduce(const CUtensorMap* map, unsigned from) {
#define TILEPROOF_OP(number, name)                                         \
  if constexpr (kOp == number)                                             \
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta." name \
                 ".tile.bulk_group [%0, {%1}], [%2];" ::"l"(map),          \
                 "r"(0), "r"(from)                                         \
                 : "memory");
  TILEPROOF_OP(0, "add")
  TILEPROOF_OP(1, "min")
  TILEPROOF_OP(2, "max")
  TILEPROOF_OP(3, "and")
  TILEPROOF_OP(4, "or")
  TILEPROOF_OP(5, "xor")
  TILEPROOF_OP(6, "inc")
  TILEPROOF_OP(7, "dec")
#undef TILEPROOF_OP
}

template <int kOp>
__global__ void one(const __grid_constant__ CUtensorMap map, const uint8_t* values) {
  __shared__ alignas(128) uint8_t tile[kBytes];
  for (int n = threadIdx.x; n < kBytes; n += blockDim.x) tile[n] = values[n];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    reduce<kOp>(&map, static_cast<unsigned>(__cvta_generic_to_shared(tile)));
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// A load by a map in global memory, after the fence for maps that a kernel or copy wrote.
__global__ void by_global_map(const CUtensorMap* map, uint8_t* out) {
  __shared__ alignas(128) uint8_t tile[kBytes];
  __shared__ alignas(8) uint64_t barrier;
  const unsigned to = __cvta_generic_to_shared(tile), bar = __cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.proxy.async;" ::"r"(bar) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(bar) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], "
        "[%3];" ::"r"(to),
        "l"(map), "r"(0), "r"(bar)
        : "memory");
    unsigned done = 0;
    while (!done)
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(bar)
                   : "memory");
  }
  __syncthreads();
  for (int n = threadIdx.x; n < kBytes; n += blockDim.x) out[n] = tile[n];
}

struct Type {
  const char* name;
  CUtensorMapDataType value;
  int bytes;
};
const Type kTypes[] = {
    {"uint8", CU_TENSOR_MAP_DATA_TYPE_UINT8, 1},
    {"uint16", CU_TENSOR_MAP_DATA_TYPE_UINT16, 2},
    {"uint32", CU_TENSOR_MAP_DATA_TYPE_UINT32, 4},
    {"int32", CU_TENSOR_MAP_DATA_TYPE_INT32, 4},
    {"uint64", CU_TENSOR_MAP_DATA_TYPE_UINT64, 8},
    {"int64", CU_TENSOR_MAP_DATA_TYPE_INT64, 8},
    {"float16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2},
    {"float32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4},
    {"float64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8},
    {"bfloat16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
    {"float32_ftz", CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 4},
    {"tfloat32", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4},
    {"tfloat32_ftz", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 4},
};
const char* kOps[] = {"add", "min", "max", "and", "or", "xor", "inc", "dec"};
using Kernel = void (*)(const CUtensorMap, const uint8_t*);
const Kernel kKernels[] = {one<0>, one<1>, one<2>, one<3>, one<4>, one<5>, one<6>, one<7>};

CUtensorMap encode(const Type& type, void* at) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
  const auto call = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  CUtensorMap map;
  cuuint64_t extent[1] = {static_cast<cuuint64_t>(kBytes / type.bytes)}, stride[1] = {0};
  cuuint32_t box[1] = {static_cast<cuuint32_t>(kBytes / type.bytes)}, step[1] = {1};
  const CUresult got =
      call(&map, type.value, 1, at, extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (got != CUDA_SUCCESS) std::printf("refused by the driver (%d)", got);
  return map;
}

void print(const char* what, const uint8_t* bytes) {
  std::printf(" %s ", what);
  for (int n = 0; n < 16; ++n) std::printf("%02x", bytes[n]);
}

// The first 16 bytes before, of the values, and after, for the tests to compute.
void reduction(int op, const Type& type) {
  uint8_t before[kBytes], values[kBytes], *target, *given;
  for (int n = 0; n < kBytes; ++n)
    before[n] = n % 8 == 1 ? 0x3c : n % 2, values[n] = n % 8 == 1 ? 0x38 : n / 8 % 4;
  cudaMalloc(&target, kBytes), cudaMalloc(&given, kBytes);
  cudaMemcpy(target, before, kBytes, cudaMemcpyHostToDevice),
      cudaMemcpy(given, values, kBytes, cudaMemcpyHostToDevice);
  const CUtensorMap map = encode(type, target);
  kKernels[op]<<<1, 32>>>(map, given);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("%s", cudaGetErrorString(error));
    return;
  }
  uint8_t after[kBytes];
  cudaMemcpy(after, target, kBytes, cudaMemcpyDeviceToHost);
  std::printf("ok");
  print("before", before), print("values", values), print("after", after);
}

// `wrong`: the map holds an address at which the card has no memory, as a map does that another machine made.
void global_map(bool wrong) {
  uint8_t values[kBytes], after[kBytes], *source, *out;
  for (int n = 0; n < kBytes; ++n) values[n] = n;
  CUtensorMap* map;
  cudaMalloc(&source, kBytes), cudaMalloc(&out, kBytes), cudaMalloc(&map, sizeof(CUtensorMap));
  cudaMemcpy(source, values, kBytes, cudaMemcpyHostToDevice);
  const CUtensorMap made = encode(kTypes[0], wrong ? reinterpret_cast<void*>(0x10000000) : source);
  cudaMemcpy(map, &made, sizeof made, cudaMemcpyHostToDevice);
  by_global_map<<<1, 32>>>(map, out);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("%s", cudaGetErrorString(error));
    return;
  }
  cudaMemcpy(after, out, kBytes, cudaMemcpyDeviceToHost);
  std::printf("%s", std::memcmp(after, values, kBytes) ? "other bytes" : "the same bytes");
}

template <typename F>
void apart(F&& run) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    run();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("ended by signal %d", WTERMSIG(status));
  std::printf("\n");
}

int main() {
  for (const bool wrong : {false, true}) {
    std::printf("map in global memory, %s: ",
                wrong ? "no memory at its address" : "as the driver encodes it");
    apart([&] { global_map(wrong); });
  }
  for (int op = 0; op < 8; ++op)
    for (const Type& type : kTypes) {
      std::printf("%s %s: ", kOps[op], type.name);
      apart([&] { reduction(op, type); });
    }
}
