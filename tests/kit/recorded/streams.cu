// Two kernels, one after the other by what the word says: streams and events, the default stream, a graph that
// is captured or made node by node. Words with "no-" leave an order out.
#include <cuda_runtime.h>

#include <string>
#include <vector>

constexpr int kCount = 256;
__global__ void plus(float* to, const float* from, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] + by;
}

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const auto has = [&](const char* part) { return what.find(part) != what.npos; };
  std::vector<float> in(kCount), out(kCount);
  for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i);
  float *x, *a, *b, *y;
  for (float** one : {&x, &a, &b, &y}) cudaMalloc(one, kCount * sizeof(float));
  cudaStream_t one, two;
  const unsigned flags = has("non-blocking") ? cudaStreamNonBlocking : cudaStreamDefault;
  cudaStreamCreateWithFlags(&one, flags);
  cudaStreamCreateWithFlags(&two, flags);
  cudaEvent_t copied, done, back;
  for (auto* event : {&copied, &done, &back}) cudaEventCreateWithFlags(event, cudaEventDisableTiming);
  const auto bytes = kCount * sizeof(float);
  const auto add = [&](float* to, const float* from, float by, cudaStream_t stream) {
    plus<<<2, kCount / 2, 0, stream>>>(to, from, by);
  };
  if (has("events")) {
    cudaMemcpyAsync(x, in.data(), bytes, cudaMemcpyHostToDevice, two);
    cudaEventRecord(copied, two);
    if (!has("no-copied")) cudaStreamWaitEvent(one, copied, 0);
    add(a, x, 1, one);
    cudaEventRecord(done, one);
    if (!has("no-wait")) cudaStreamWaitEvent(two, done, 0);
    add(y, a, 1, two);
    cudaMemcpyAsync(out.data(), y, bytes, cudaMemcpyDeviceToHost, has("no-back") ? one : two);
    cudaStreamSynchronize(two);
  }
  if (has("default")) {
    cudaMemcpy(x, in.data(), bytes, cudaMemcpyHostToDevice);
    add(a, x, 1, one);
    add(b, x, 1, nullptr);  // the default stream: after `one`, before `two`, unless they do not wait for it
    add(y, a, 1, two);
    cudaDeviceSynchronize();
    cudaMemcpy(out.data(), y, bytes, cudaMemcpyDeviceToHost);
  }
  if (has("fork")) {  // a graph of two branches that meet
    cudaMemcpy(x, in.data(), bytes, cudaMemcpyHostToDevice);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    if (has("captured")) {
      cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
      cudaEventRecord(copied, one);
      cudaStreamWaitEvent(two, copied, 0);
      add(a, x, 1, one);
      add(b, x, 2, two);
      cudaEventRecord(done, two);
      cudaStreamWaitEvent(one, done, 0);
      add(y, has("no-") ? a : b, 0, one);
      cudaStreamEndCapture(one, &graph);
    } else {
      cudaGraphCreate(&graph, 0);
      cudaGraphNode_t first, second, third;
      const auto node = [&](cudaGraphNode_t* out, std::vector<cudaGraphNode_t> after, float* to, float* from, float by) {
        void* arguments[] = {&to, &from, &by};
        cudaKernelNodeParams params = {};
        params.func = reinterpret_cast<void*>(plus);
        params.gridDim = 2, params.blockDim = kCount / 2, params.kernelParams = arguments;
        cudaGraphAddKernelNode(out, graph, after.data(), after.size(), &params);
      };
      node(&first, {}, a, x, 1);
      node(&second, {}, b, x, 2);
      // "no-": the dependency on the branch whose result is read is left out.
      node(&third, has("no-") ? std::vector{first} : std::vector{first, second}, y, b, 0);
    }
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphLaunch(executable, one);
    if (has("twice")) cudaGraphLaunch(executable, one);
    cudaStreamSynchronize(one);
    cudaMemcpy(out.data(), y, bytes, cudaMemcpyDeviceToHost);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
  return out[10] == 12 ? 0 : 1;
}
