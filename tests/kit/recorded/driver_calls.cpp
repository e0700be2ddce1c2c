// Calls every function of the CUDA driver API that tileproof record knows, and checks what comes back; its kernel is PTX
// text, which goes into the file that the first word names too. Exit code 0: everything was as it must be.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <vector>

#define CHECK(what)                                    \
  do {                                                 \
    if (!(what)) {                                     \
      std::printf("line %d: %s\n", __LINE__, #what);   \
      std::exit(1);                                    \
    }                                                  \
  } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

static const char* const kText = R"(.version 8.6
.target sm_100a
.address_size 64
.visible .global .align 4 .u32 bias = 5;
.visible .entry twice(.param .u64 data, .param .u32 count)
{
 .reg .b64 a, o; .reg .b32 i, n, v, b; .reg .pred p;
 ld.param.u64 a, [data];
 ld.param.u32 n, [count];
 mov.u32 i, %tid.x;
 setp.ge.u32 p, i, n;
 @p ret;
 mul.wide.u32 o, i, 4;
 add.u64 a, a, o;
 ld.global.u32 v, [a];
 ld.global.u32 b, [bias];
 add.u32 v, v, v;
 add.u32 v, v, b;
 st.global.u32 [a], v;
 ret;
}
)";

static void count_up(void* data) { ++*static_cast<int*>(data); }

static void devices() {
  int value, count;
  OK(cuInit(0));
  OK(cuDriverGetVersion(&value));
  CHECK(value == CUDA_VERSION);
  OK(cuDeviceGetCount(&count));
  CUdevice device;
  OK(cuDeviceGet(&device, 0));
  CHECK(count == 1 && cuDeviceGet(&value, 1) != CUDA_SUCCESS);
  char name[64];
  OK(cuDeviceGetName(name, sizeof name, device));
  CUuuid uuid;
  OK(cuDeviceGetUuid(&uuid, device));
  std::size_t bytes;
  OK(cuDeviceTotalMem(&bytes, device));
  int minor;
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  OK(cuDeviceComputeCapability(&count, &minor, device));
  CHECK(value == 10 && count == 10 && minor == 0);
  CUcontext context, current;
  OK(cuCtxGetCurrent(&current));
  CHECK(!current);
  OK(cuDevicePrimaryCtxSetFlags(device, 0));
  OK(cuDevicePrimaryCtxRetain(&context, device));
  unsigned flags;
  int active;
  OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  OK(cuCtxSetCurrent(context));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == context);
  OK(cuCtxPushCurrent(context));
  OK(cuCtxPopCurrent(&current));
  OK(cuCtxGetDevice(&device));
  OK(cuCtxGetApiVersion(context, &flags));
  OK(cuCtxSynchronize());
  int least, greatest;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CUcontext own;
  CUctxCreateParams parameters = {};
  OK(cuCtxCreate(&own, &parameters, 0, device));
  OK(cuCtxDestroy(own));
  const char* text;
  OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
  OK(cuGetErrorString(CUDA_SUCCESS, &text));
  CHECK(!std::strcmp(text, "no error"));
  void* found;
  CUdriverProcAddressQueryResult how;
  OK(cuGetProcAddress("cuMemAlloc", &found, 13000, 0, &how));
  CHECK(found == reinterpret_cast<void*>(cuMemAlloc));
  CHECK(cuGetProcAddress("cuNoSuchFunction", &found, 13000, 0, &how) == CUDA_ERROR_NOT_FOUND && !found);
}

static void memory() {
  std::vector<unsigned> host(64), again(64);
  std::iota(host.begin(), host.end(), 0u);
  CUdeviceptr a, b, managed, pitched, base, seen;
  std::size_t pitch, bytes, all;
  void *pinned, *more;
  OK(cuMemAlloc(&a, 256));
  OK(cuMemAllocAsync(&b, 256, nullptr));
  OK(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemAllocHost(&pinned, 256));
  OK(cuMemHostAlloc(&more, 256, 0));
  OK(cuMemAllocPitch(&pitched, &pitch, 100, 2, 4));
  CHECK(pitch >= 100);
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  OK(cuMemAdvise(managed, 256, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  OK(cuMemPrefetchAsync(managed, 256, here, 0, nullptr));
  OK(cuMemHostRegister(host.data(), 256, 0));
  OK(cuMemHostGetDevicePointer(&seen, host.data(), 0));
  OK(cuMemHostUnregister(host.data()));
  OK(cuMemcpyHtoD(a, host.data(), 256));
  OK(cuMemcpyDtoD(b, a, 128));
  OK(cuMemcpyDtoDAsync(b + 128, a + 128, 128, nullptr));
  OK(cuMemcpyDtoH(again.data(), b, 256));
  CHECK(again == host);
  OK(cuMemcpyHtoDAsync(a, again.data() + 8, 4, nullptr));
  OK(cuMemcpy(a + 4, a, 4));
  OK(cuMemcpyAsync(managed, a, 256, nullptr));
  CHECK(reinterpret_cast<unsigned*>(managed)[1] == 8);
  OK(cuMemsetD8(a, 1, 4));
  OK(cuMemsetD8Async(a, 2, 1, nullptr));
  OK(cuMemsetD16(a + 4, 0x1234, 2));
  OK(cuMemsetD16Async(a + 6, 0x5678, 1, nullptr));
  OK(cuMemsetD32(a + 8, 0xABCDEF01, 2));
  OK(cuMemsetD32Async(a + 12, 9, 1, nullptr));
  OK(cuMemcpyDtoHAsync(again.data(), a, 16, nullptr));
  CHECK(again[0] == 0x01010102 && again[1] == 0x56781234 && again[2] == 0xABCDEF01 && again[3] == 9);
  OK(cuMemGetAddressRange(&base, &bytes, a + 100));
  CHECK(base == a && bytes == 256);
  OK(cuMemGetInfo(&bytes, &all));
  unsigned type;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  OK(cuMemFree(a));
  OK(cuMemFreeAsync(b, nullptr));
  OK(cuMemFreeHost(pinned));
}

static void graph_of(CUfunction kernel, void** arguments) {
  CUgraph graph;
  OK(cuGraphCreate(&graph, 0));
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = kernel, params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 32, params.blockDimY = params.blockDimZ = 1, params.kernelParams = arguments;
  CUgraphNode node, none;
  OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  OK(cuGraphAddEmptyNode(&none, graph, nullptr, 0));
  OK(cuGraphAddDependencies(graph, &node, &none, nullptr, 1));
  size_t nodes = 0;
  OK(cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 2);
  CUgraphExec executable;
  OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cuGraphUpload(executable, nullptr));
  OK(cuGraphLaunch(executable, nullptr));
  OK(cuGraphExecDestroy(executable));
  OK(cuGraphDestroy(graph));
}

static void launches(const char* path) {
  CUmodule module, other, third, of;
  CUlibrary library, from_file;
  OK(cuModuleLoadData(&module, kText));
  OK(cuModuleLoadDataEx(&other, kText, 0, nullptr, nullptr));
  OK(cuModuleLoadFatBinary(&third, kText));
  std::ofstream(path) << kText;
  OK(cuModuleLoad(&of, path));
  OK(cuLibraryLoadFromFile(&from_file, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cuLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUfunction function, same;
  CUkernel kernel;
  OK(cuModuleGetFunction(&function, module, "twice"));
  CHECK(cuModuleGetFunction(&same, module, "thrice") == CUDA_ERROR_NOT_FOUND);
  OK(cuLibraryGetKernel(&kernel, library, "twice"));
  OK(cuKernelGetFunction(&same, kernel));
  OK(cuLibraryGetModule(&of, library));
  OK(cuFuncGetModule(&of, function));
  CHECK(of == module);
  const char* name;
  OK(cuFuncGetName(&name, function));
  OK(cuFuncLoad(function));
  CUdeviceptr bias, bias2, data;
  std::size_t bytes;
  OK(cuModuleGetGlobal(&bias, &bytes, module, "bias"));
  CHECK(bytes == 4);
  OK(cuLibraryGetGlobal(&bias2, &bytes, library, "bias"));
  CHECK(bias != bias2);
  std::vector<unsigned> host(32);
  std::iota(host.begin(), host.end(), 0u);
  OK(cuMemAlloc(&data, 128));
  OK(cuMemcpyHtoD(data, host.data(), 128));
  unsigned count = 32;
  void* arguments[] = {&data, &count};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));  // 2 i + 5
  OK(cuMemsetD32(bias, 1, 1));
  struct {
    CUdeviceptr data;
    unsigned count;
  } block = {data, 32};
  std::size_t size = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));  // 4 i + 11
  CUlaunchAttribute attributes[1] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 1, attributes[0].value.clusterDim.y = 1, attributes[0].value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 32, config.attrs = attributes, config.numAttrs = 1;
  OK(cuLaunchKernelEx(&config, same, arguments, nullptr));  // of the library: its bias is 5; 8 i + 27
  OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments));  // 16 i + 55
  OK(cuMemcpyDtoH(host.data(), data, 128));
  for (unsigned i = 0; i < 32; ++i) CHECK(host[i] == 16 * i + 55);
  graph_of(function, arguments);  // 32 i + 111
  OK(cuMemcpyDtoH(host.data(), data, 128));
  for (unsigned i = 0; i < 32; ++i) CHECK(host[i] == 32 * i + 111);
  int value;
  OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  CHECK(value == 100000);
  OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000, kernel, 0));
  OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0));
  CHECK(value == 1024);
  OK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_NONE));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 64, 0));
  CHECK(value == 32);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function, 1024, 0, 0));
  CHECK(value == 2);
  OK(cuOccupancyMaxActiveClusters(&value, function, &config));
  int counted = 0;
  OK(cuLaunchHostFunc(nullptr, count_up, &counted));
  CHECK(counted == 1);
  OK(cuModuleUnload(third));
  OK(cuLibraryUnload(from_file));
}

static void streams() {
  CUstream one, two;
  CUevent before, after;
  CUcontext context;
  OK(cuStreamCreate(&one, CU_STREAM_DEFAULT));
  OK(cuStreamCreateWithPriority(&two, CU_STREAM_NON_BLOCKING, 0));
  OK(cuEventCreate(&before, 0));
  OK(cuEventCreate(&after, 0));
  OK(cuEventRecord(before, one));
  OK(cuEventRecord(after, one));
  OK(cuStreamWaitEvent(two, after, 0));
  OK(cuStreamSynchronize(two));
  OK(cuStreamQuery(one));
  OK(cuEventSynchronize(after));
  OK(cuEventQuery(after));
  float milliseconds;
  OK(cuEventElapsedTime(&milliseconds, before, after));
  OK(cuStreamGetCtx(one, &context));
  CUstreamCaptureStatus capturing;
  OK(cuStreamIsCapturing(one, &capturing));
  OK(cuStreamGetCaptureInfo(one, &capturing, nullptr, nullptr, nullptr, nullptr, nullptr));
  CHECK(capturing == CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUgraph graph;
  OK(cuStreamEndCapture(one, &graph));
  OK(cuGraphDestroy(graph));
  OK(cuEventDestroy(before));
  OK(cuStreamDestroy(one));
}

static void maps() {
  CUdeviceptr data;
  OK(cuMemAlloc(&data, 1 << 16));
  alignas(64) CUtensorMap map, moved;
  const cuuint64_t shape[2] = {64, 128}, strides[1] = {128}, wrong[1] = {120};
  const cuuint32_t box[2] = {64, 8}, steps[2] = {1, 1};
  const auto encode = [&](const cuuint64_t* pitch) {
    return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, reinterpret_cast<void*>(data), shape, pitch,
                                  box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CHECK(encode(wrong) == CUDA_ERROR_INVALID_VALUE);  // no multiple of 16
  OK(encode(strides));
  moved = map;
  OK(cuTensorMapReplaceAddress(&moved, reinterpret_cast<void*>(data + 4096)));
  CHECK(std::memcmp(&moved, &map, sizeof map));
  const cuuint64_t image[4] = {64, 9, 9, 2}, pitches[3] = {128, 1152, 10368};
  const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
  const cuuint32_t one[4] = {1, 1, 1, 1};
  OK(cuTensorMapEncodeIm2col(&moved, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, reinterpret_cast<void*>(data), image, pitches,
                             lower, upper, 64, 32, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

int main(int, char** words) {
  devices();
  memory();
  maps();
  streams();
  launches(words[1]);
  OK(cuDevicePrimaryCtxRelease(0));
  OK(cuDevicePrimaryCtxReset(0));
  return 0;
}
