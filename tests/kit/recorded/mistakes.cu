// Mistakes of host programs, one a word, each of which the recorder names.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>

__global__ void store(int* out, int at) { out[at] = at; }
__global__ void __launch_bounds__(64) small(int* out) { extern __shared__ int s[]; s[0] = 1; out[0] = s[0]; }

int main(int, char** words) {
  const std::string what = words[1];
  int *a, host[64] = {};
  cudaMalloc(&a, sizeof host);
  cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
  store<<<1, 1>>>(a, 1);
  if (what == "past-the-end") cudaMemcpy(a, host, sizeof host + 4, cudaMemcpyHostToDevice);
  if (what == "wrong-direction") cudaMemcpy(host, a, 4, cudaMemcpyHostToDevice);
  if (what == "freed") cudaFree(a), cudaMemset(a, 0, 4);
  if (what == "freed-twice") cudaFree(a), cudaFree(a);
  if (what == "host-freed") cudaFreeHost(a);
  if (what == "pitch") cudaMemcpy2D(a, 8, host, 16, 16, 2, cudaMemcpyHostToDevice);
  if (what == "device-1") cudaSetDevice(1);
  if (what == "no-opt-in") small<<<1, 64, 60000>>>(a);
  if (what == "too-much-shared")
    cudaFuncSetAttribute(reinterpret_cast<const void*>(small), cudaFuncAttributeMaxDynamicSharedMemorySize, 300000);
  if (what == "large-block") small<<<1, 128>>>(a);
  if (what == "empty-grid") store<<<0, 1>>>(a, 1);
  if (what == "no-kernel") cudaLaunchKernel(host, 1, 1, nullptr, 0, nullptr);
  if (what == "no-symbol") cudaMemcpyToSymbol(host, host, 4);
  if (what.rfind("cluster", 0) == 0) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {what == "cluster-16" ? 16u : 3u, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = 16, config.blockDim = 1, config.attrs = &cluster, config.numAttrs = 1;
    int at = 0;
    void* arguments[] = {&a, &at};
    cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(store), arguments);
  }
  if (what == "not-recorded") {
    cudaEvent_t one, two;
    float time;
    cudaEventCreate(&one), cudaEventCreate(&two);
    cudaEventElapsedTime(&time, one, two);
  }
  // What ends the program.
  if (what == "graph") {
    cudaGraph_t graph, other;
    cudaGraphCreate(&graph, 0);
    cudaGraphClone(&other, graph);
  }
  if (what == "array") {
    cudaArray_t array;
    const auto format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaMallocArray(&array, &format, 4);
  }
  if (what == "attribute") {
    int value;
    cudaDeviceGetAttribute(&value, cudaDevAttrMaxTexture1DWidth, 0);
  }
  if (what == "stream") {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamDestroy(stream);
    cudaStreamSynchronize(stream);
  }
  if (what == "launch-event") {
    cudaLaunchAttribute event = {};
    event.id = cudaLaunchAttributeProgrammaticEvent;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = 1, config.attrs = &event, config.numAttrs = 1;
    int at = 0;
    void* arguments[] = {&a, &at};
    cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(store), arguments);
  }
  if (what == "crash") host[0] = *static_cast<volatile int*>(a);  // device memory, read by the host
  if (what == "exit") return 7;
  if (what == "hang")
    for (volatile int forever = 1; forever;) continue;
  // What only --run finds.
  if (what == "out-of-bounds") {
    store<<<1, 1>>>(a, 64);
    const auto error = cudaDeviceSynchronize() ? cudaDeviceSynchronize() : cudaGetLastError();
    std::printf("%s\n", cudaGetErrorName(error));
    return error != cudaSuccess;
  }
  return 0;
}
