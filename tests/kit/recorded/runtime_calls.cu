// Calls every function of the CUDA runtime API that tileproof record knows, and checks what comes back. One
// word chooses what is called; exit code 0: everything was as it must be. Kernels run when recorded with
// --run.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(what)                                                                                 \
  do {                                                                                              \
    if (!(what)) {                                                                                  \
      std::printf("line %d: %s, %s\n", __LINE__, #what, cudaGetErrorString(cudaPeekAtLastError())); \
      std::exit(1);                                                                                 \
    }                                                                                               \
  } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

// Of cuda_profiler_api.h, which is no part of the open package.
extern "C" cudaError_t cudaProfilerStart();
extern "C" cudaError_t cudaProfilerStop();

struct Pair {
  const int* in;
  int* out;
  int n;
};
__constant__ int table[4];
__device__ int total;

__global__ void twice(Pair p, int plus) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.n) p.out[i] = 2 * p.in[i] + plus;
}
__global__ void with_table(int* out) {
  out[threadIdx.x] = table[threadIdx.x & 3];
  if (threadIdx.x == 0) total = 7;
}
__global__ void ranks(int* out) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(rank);
}
__global__ void __launch_bounds__(128) shared_bytes(int* out) {
  extern __shared__ int space[];
  __shared__ int own[16];
  own[threadIdx.x & 15] = 1;
  space[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = space[127 - threadIdx.x] + own[0];
}

static std::vector<int> counting(int n) {
  std::vector<int> out(n);
  for (int i = 0; i < n; ++i) out[i] = i;
  return out;
}
static int* device_ints(int n) {
  int* out = nullptr;
  OK(cudaMalloc(&out, 4 * n));
  const auto host = counting(n);
  OK(cudaMemcpy(out, host.data(), 4 * n, cudaMemcpyHostToDevice));
  return out;
}
static std::vector<int> back(const int* from, int n) {
  std::vector<int> out(n, -1);
  OK(cudaMemcpy(out.data(), from, 4 * n, cudaMemcpyDeviceToHost));
  return out;
}

static void memory() {
  int* a = device_ints(64);
  int *b, *c;
  OK(cudaMallocAsync(&b, 256, nullptr));
  cudaMemPool_t pool;
  cudaMemPoolProps properties = {};
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaDeviceGetMemPool(&pool, 0));
  OK(cudaDeviceSetMemPool(0, pool));
  OK(cudaMemPoolCreate(&pool, &properties));
  unsigned long long keep = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  OK(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&c), 256, pool, nullptr));
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaMemcpyAsync(b, a, 256, cudaMemcpyDeviceToDevice, nullptr));
  OK(cudaMemcpyPeer(c, 0, b, 0, 256));
  CHECK(back(c, 64) == counting(64));
  OK(cudaMemset(b, 0x01, 128));
  OK(cudaMemsetAsync(b, 0xFF, 4, nullptr));
  const auto filled = back(b, 64);
  CHECK(filled[0] == -1 && filled[1] == 0x01010101 && filled[31] == 0x01010101 && filled[32] == 32);
  // Rows of 12 bytes, three of them, into a pitched allocation.
  char* rows;
  std::size_t pitch;
  OK(cudaMallocPitch(reinterpret_cast<void**>(&rows), &pitch, 12, 3));
  const auto host = counting(9);
  std::vector<int> again(9);
  OK(cudaMemcpy2D(rows, pitch, host.data(), 12, 12, 3, cudaMemcpyHostToDevice));
  OK(cudaMemset2D(rows + 4, pitch, 0, 4, 3));
  OK(cudaMemset2DAsync(rows + 4, pitch, 0, 4, 1, nullptr));
  OK(cudaMemcpy2DAsync(again.data(), 12, rows, pitch, 12, 3, cudaMemcpyDeviceToHost, nullptr));
  CHECK((again == std::vector<int>{0, 0, 2, 3, 0, 5, 6, 0, 8}));
  cudaPitchedPtr cube;
  OK(cudaMalloc3D(&cube, make_cudaExtent(12, 3, 2)));
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(again.data(), 12, 12, 3);
  box.dstPtr = cube;
  box.dstPos = make_cudaPos(0, 0, 1);
  box.extent = make_cudaExtent(12, 3, 1);
  box.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&box));
  OK(cudaMemcpy3DAsync(&box, nullptr));
  int one;
  OK(cudaMemcpy(&one, static_cast<char*>(cube.ptr) + cube.pitch * (3 + 2) + 8, 4, cudaMemcpyDefault));
  CHECK(one == 8);
  std::size_t available, all;
  OK(cudaMemGetInfo(&available, &all));
  CHECK(available <= all && all > 0);
  cudaPointerAttributes about;
  OK(cudaPointerGetAttributes(&about, a + 3));
  CHECK(about.type == cudaMemoryTypeDevice && about.devicePointer == a + 3 && !about.hostPointer);
  OK(cudaPointerGetAttributes(&about, &one));
  CHECK(about.type == cudaMemoryTypeUnregistered);
  OK(cudaFree(a));
  OK(cudaFree(nullptr));
  OK(cudaFreeAsync(b, nullptr));
  OK(cudaMemPoolDestroy(pool));
}

static void host_memory() {
  int *managed, *pinned, *more, *registered = static_cast<int*>(std::malloc(4096)), *seen;
  OK(cudaMallocManaged(&managed, 256));
  OK(cudaMallocHost(&pinned, 256));
  OK(cudaHostAlloc(&more, 256, cudaHostAllocMapped));
  OK(cudaHostRegister(registered, 4096, cudaHostRegisterDefault));
  cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemAdvise(managed, 256, cudaMemAdviseSetReadMostly, here));
  OK(cudaMemPrefetchAsync(managed, 256, here, 0, nullptr));
  unsigned flags;
  OK(cudaHostGetFlags(&flags, more));
  for (int i = 0; i < 64; ++i) managed[i] = i, pinned[i] = 100 + i, registered[i] = 1000 + i;
  OK(cudaHostGetDevicePointer(&seen, pinned, 0));
  twice<<<1, 64>>>(Pair{seen, managed, 64}, 0);
  OK(cudaDeviceSynchronize());
  CHECK(managed[5] == 210);
  twice<<<1, 64>>>(Pair{registered, registered, 64}, 1);
  twice<<<1, 64>>>(Pair{managed, more, 64}, 0);
  OK(cudaStreamSynchronize(nullptr));
  CHECK(registered[3] == 2007 && more[5] == 420);
  cudaPointerAttributes about;
  OK(cudaPointerGetAttributes(&about, managed));
  CHECK(about.type == cudaMemoryTypeManaged && about.hostPointer == managed);
  OK(cudaPointerGetAttributes(&about, pinned));
  CHECK(about.type == cudaMemoryTypeHost);
  OK(cudaHostUnregister(registered));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));
}

static void symbols() {
  const int values[4] = {10, 20, 30, 40}, other = 50;
  OK(cudaMemcpyToSymbol(table, values, 16));
  OK(cudaMemcpyToSymbolAsync(table, &other, 4, 4, cudaMemcpyHostToDevice));
  int* out = device_ints(32);
  with_table<<<1, 32>>>(out);
  CHECK(back(out, 4) == (std::vector<int>{10, 50, 30, 40}));
  int found = 0, by_address = 0;
  OK(cudaMemcpyFromSymbol(&found, total, 4));
  CHECK(found == 7);
  OK(cudaMemcpyFromSymbolAsync(&found, total, 4, 0, cudaMemcpyDeviceToHost));
  void* at;
  std::size_t bytes;
  OK(cudaGetSymbolAddress(&at, total));
  OK(cudaGetSymbolSize(&bytes, table));
  OK(cudaMemcpy(&by_address, at, 4, cudaMemcpyDeviceToHost));
  CHECK(bytes == 16 && by_address == 7);
}

static void count_up(void* data) { ++*static_cast<int*>(data); }
static void callback(cudaStream_t, cudaError_t, void* data) { ++*static_cast<int*>(data); }

static void streams() {
  cudaStream_t one, two, three;
  OK(cudaStreamCreate(&one));
  OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  int least, greatest, priority, device, counted = 0;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  OK(cudaStreamCreateWithPriority(&three, cudaStreamDefault, greatest));
  cudaEvent_t before, after;
  OK(cudaEventCreate(&before));
  OK(cudaEventCreateWithFlags(&after, cudaEventDefault));
  int *a = device_ints(64), *b = device_ints(64);
  OK(cudaEventRecord(before, one));
  twice<<<1, 64, 0, one>>>(Pair{a, b, 64}, 0);
  OK(cudaEventRecordWithFlags(after, one, cudaEventRecordDefault));
  OK(cudaStreamWaitEvent(two, after, 0));
  twice<<<2, 32, 0, two>>>(Pair{b, a, 64}, 0);
  OK(cudaStreamSynchronize(two));
  OK(cudaEventSynchronize(after));
  OK(cudaEventQuery(after));
  OK(cudaStreamQuery(one));
  CHECK(back(a, 64)[10] == 40);
  float milliseconds = 0;
  OK(cudaEventElapsedTime(&milliseconds, before, after));
  CHECK(milliseconds > 0);
  unsigned flags;
  unsigned long long id;
  OK(cudaStreamGetFlags(two, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  OK(cudaStreamGetPriority(three, &priority));
  CHECK(priority == greatest && greatest <= least);
  OK(cudaStreamGetId(two, &id));
  OK(cudaStreamGetDevice(one, &device));
  auto mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  cudaStreamAttrValue value = {};
  OK(cudaStreamSetAttribute(one, cudaStreamAttributePriority, &value));
  OK(cudaStreamAttachMemAsync(one, a));
  OK(cudaLaunchHostFunc(one, count_up, &counted));
  OK(cudaStreamAddCallback(one, callback, &counted, 0));
  OK(cudaStreamSynchronize(one));
  CHECK(counted == 2);
  OK(cudaEventDestroy(before));
  OK(cudaStreamDestroy(one));
}

static void graphs() {
  int *a = device_ints(64), *b = device_ints(64), *c = device_ints(64);
  cudaStream_t stream, other;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  cudaStreamCaptureStatus capturing;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr, made;
  OK(cudaStreamIsCapturing(stream, &capturing));
  CHECK(capturing == cudaStreamCaptureStatusNone);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  twice<<<1, 64, 0, stream>>>(Pair{a, b, 64}, 1);
  OK(cudaMemcpyAsync(c, b, 64 * sizeof(int), cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemsetAsync(b, 0, 4, stream));
  int counted = 0;
  OK(cudaLaunchHostFunc(stream, count_up, &counted));
  OK(cudaStreamIsCapturing(stream, &capturing));
  CHECK(capturing == cudaStreamCaptureStatusActive);
  OK(cudaStreamGetCaptureInfo(stream, &capturing, &id, &graph));
  CHECK(capturing == cudaStreamCaptureStatusActive && id && graph);
  OK(cudaStreamEndCapture(stream, &made));
  CHECK(made == graph && counted == 0 && back(b, 64)[1] != 3);
  std::size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 4);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphUpload(executable, stream));
  for (int i = 0; i < 2; ++i) OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(counted == 2 && back(b, 64)[0] == 0 && back(b, 64)[1] == 3 && back(c, 64)[10] == 21);
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));

  // A stream that joined and was not joined back.
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(other, event, 0));
  twice<<<1, 64, 0, other>>>(Pair{a, b, 64}, 1);
  CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
  CHECK(cudaStreamEndCapture(other, &made) == cudaErrorStreamCaptureUnmatched);
  CHECK(cudaStreamEndCapture(stream, &made) == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamEndCapture(stream, &made) == cudaErrorIllegalState);
  cudaGetLastError();

  // Node by node: fill, then a kernel, a copy and a call of the host after it.
  OK(cudaGraphCreate(&made, 0));
  cudaGraphNode_t fill, kernel, copy, host, none;
  cudaMemsetParams bytes = {};
  bytes.dst = a, bytes.value = 5, bytes.elementSize = 4, bytes.width = 64, bytes.height = 1;
  OK(cudaGraphAddMemsetNode(&fill, made, nullptr, 0, &bytes));
  Pair pair{a, b, 64};
  int more = 7;
  void* arguments[] = {&pair, &more};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(twice);
  params.gridDim = 1, params.blockDim = 64, params.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&kernel, made, &fill, 1, &params));
  OK(cudaGraphAddMemcpyNode1D(&copy, made, nullptr, 0, c, b, 64 * sizeof(int), cudaMemcpyDeviceToDevice));
  OK(cudaGraphAddDependencies(made, &kernel, &copy, nullptr, 1));
  cudaHostNodeParams call = {count_up, &counted};
  OK(cudaGraphAddHostNode(&host, made, &copy, 1, &call));
  OK(cudaGraphAddEmptyNode(&none, made, &host, 1));
  CHECK(cudaGraphAddEmptyNode(&none, made, reinterpret_cast<cudaGraphNode_t*>(&stream), 1) ==
        cudaErrorInvalidValue);
  OK(cudaGraphInstantiate(&executable, made, 0));
  OK(cudaGraphLaunch(executable, stream));
  CHECK(back(c, 64)[63] == 17 && counted == 3);
  more = 8;
  OK(cudaGraphExecKernelNodeSetParams(executable, kernel, &params));
  OK(cudaGraphLaunch(executable, stream));
  CHECK(back(c, 64)[63] == 18 && counted == 4);
  OK(cudaGraphAddDependencies(made, &copy, &fill, nullptr, 1));
  CHECK(cudaGraphInstantiate(&executable, made, 0) == cudaErrorInvalidValue);  // a circle

  // A box of 3 x 2 x 2 ints out of rows of 4 and planes of 4 rows, into rows of 8 bytes more; then to the
  // host.
  OK(cudaGraphCreate(&made, 0));
  std::vector<int> box(64), out(12, -1);
  for (int i = 0; i < 64; ++i) box[i] = i;
  OK(cudaMemcpy(a, box.data(), 256, cudaMemcpyHostToDevice));
  OK(cudaMemset(b, 0, 256));
  cudaMemcpy3DParms how = {};
  how.srcPtr = make_cudaPitchedPtr(a, 16, 16, 4), how.srcPos = make_cudaPos(4, 1, 1);
  how.dstPtr = make_cudaPitchedPtr(b, 20, 12, 2);
  how.extent = make_cudaExtent(12, 2, 2), how.kind = cudaMemcpyDeviceToDevice;
  OK(cudaGraphAddMemcpyNode(&copy, made, nullptr, 0, &how));
  how.srcPtr = make_cudaPitchedPtr(b, 20, 12, 2), how.srcPos = make_cudaPos(0, 0, 0);
  how.dstPtr = make_cudaPitchedPtr(out.data(), 12, 12, 2), how.kind = cudaMemcpyDeviceToHost;
  OK(cudaGraphAddMemcpyNode(&host, made, &copy, 1, &how));
  OK(cudaGraphInstantiate(&executable, made, 0));
  CHECK(out[0] == -1);
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(out == (std::vector<int>{21, 22, 23, 25, 26, 27, 37, 38, 39, 41, 42, 43}));
  CHECK(back(b, 5)[3] == 0);
}

static void launches() {
  int *a = device_ints(128), *b = device_ints(128);
  Pair pair{a, b, 128};
  int plus = 3;
  void* arguments[] = {&pair, &plus};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(twice), 2, 64, arguments, 0, nullptr));
  CHECK(back(b, 128)[100] == 203);
  OK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(twice), 2, 64, arguments, 0, nullptr));
  // A cluster and a programmatic launch.
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {4, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 8, config.blockDim = 32, config.attrs = attributes, config.numAttrs = 2;
  void* only[] = {&a};
  OK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(ranks), only));
  CHECK(back(a, 8) == (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  int clusters, blocks, size, most;
  std::size_t available;
  OK(cudaOccupancyMaxActiveClusters(&clusters, ranks, &config));
  OK(cudaOccupancyMaxPotentialClusterSize(&size, ranks, &config));
  CHECK(clusters > 0 && size == 8);
  // More shared memory than a launch has unless it asks.
  const auto* large = reinterpret_cast<const void*>(shared_bytes);
  OK(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  shared_bytes<<<1, 128, 200000>>>(b);
  OK(cudaGetLastError());
  CHECK(back(b, 2) == (std::vector<int>{128, 127}));
  cudaFuncAttributes about;
  OK(cudaFuncGetAttributes(&about, large));
  CHECK(about.sharedSizeBytes == 64 && about.maxThreadsPerBlock == 128 &&
        about.maxDynamicSharedSizeBytes == 200000);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, large, 128, 200000));
  CHECK(blocks == 1);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&most, large, 128, 0, 0));
  CHECK(most == 16);
  OK(cudaOccupancyAvailableDynamicSMemPerBlock(&available, large, 2, 128));
  CHECK(available == 233472 / 2 - 1024);
  OK(cudaFuncSetCacheConfig(large, cudaFuncCachePreferShared));
  OK(cudaFuncSetSharedMemConfig(large, cudaSharedMemBankSizeFourByte));
  const char* name;
  std::size_t offset, bytes;
  OK(cudaFuncGetName(&name, reinterpret_cast<const void*>(twice)));
  CHECK(std::strstr(name, "twice"));
  OK(cudaFuncGetParamInfo(reinterpret_cast<const void*>(twice), 1, &offset, &bytes));
  CHECK(offset == 24 && bytes == 4);
  cudaKernel_t kernel;
  cudaFunction_t function;
  OK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(twice)));
  OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
  OK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(twice)));
  OK(cudaLaunchKernel(kernel, 2, 64, arguments, 0, nullptr));
  // A module that is loaded while the program runs.
  const char* text =
      ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry late(.param .u64 a)\n{\n"
      " .reg .b64 p;\n ld.param.u64 p, [a];\n st.global.u32 [p], 77;\n ret;\n}\n";
  cudaLibrary_t library;
  OK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cudaLibraryGetKernel(&kernel, library, "late"));
  OK(cudaLaunchKernel(kernel, 1, 1, only, 0, nullptr));
  CHECK(back(a, 1)[0] == 77);
  OK(cudaLibraryUnload(library));
}

static void devices() {
  CHECK(cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat).x == 32);
  int value, count, other;
  OK(cudaGetDeviceCount(&count));
  OK(cudaSetDevice(0));
  OK(cudaInitDevice(0, 0, 0));
  OK(cudaGetDevice(&value));
  CHECK(count == 1 && value == 0);
  cudaDeviceProp about;
  OK(cudaGetDeviceProperties(&about, 0));
  CHECK(about.major == 10 && about.minor == 0 && about.multiProcessorCount == 148 &&
        about.clusterLaunch == 1);
  CHECK(about.sharedMemPerBlockOptin == 232448 && about.maxThreadsDim[2] == 64 && about.warpSize == 32);
  CHECK(about.maxGridSize[0] == 2147483647 && about.sharedMemPerMultiprocessor == 233472);
  OK(cudaChooseDevice(&other, &about));
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(value == 148);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  CHECK(value == 232448);
  unsigned flags;
  OK(cudaSetDeviceFlags(cudaDeviceScheduleAuto));
  OK(cudaGetDeviceFlags(&flags));
  std::size_t limit;
  OK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  cudaFuncCache cache;
  OK(cudaDeviceGetCacheConfig(&cache));
  OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
  OK(cudaCtxResetPersistingL2Cache());
  OK(cudaDeviceCanAccessPeer(&value, 0, 0));
  char bus[32];
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  OK(cudaRuntimeGetVersion(&value));
  OK(cudaDriverGetVersion(&other));
  CHECK(value == CUDART_VERSION && other >= value);
  OK(cudaProfilerStart());
  OK(cudaProfilerStop());
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 13000, cudaEnableDefault, &found));
  CHECK(encode && found == cudaDriverEntryPointSuccess);
  OK(cudaGetDriverEntryPoint("cuNoSuchFunction", &encode, cudaEnableDefault, &found));
  CHECK(!encode && found == cudaDriverEntryPointSymbolNotFound);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(!std::strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice"));
  OK(cudaGetLastError());
  int* a = device_ints(4);
  twice<<<1, 4>>>(Pair{a, a, 4}, 0);
  OK(cudaDeviceReset());
}

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "memory") memory();
  if (what == "host") host_memory();
  if (what == "symbols") symbols();
  if (what == "streams") streams();
  if (what == "graphs") graphs();
  if (what == "launches") launches();
  if (what == "devices") devices();
  if (what == "memory") {
    int* a = device_ints(4);
    twice<<<1, 4>>>(Pair{a, a, 4}, 0);
    CHECK(back(a, 4)[3] == 6);
  }
  return 0;
}
