// Time on a Hopper card of launches of the operator one behind the other: as they are, and with programmatic
// stream serialization, where each kernel waits for the grid before it itself (griddepcontrol.wait), with and
// without an early griddepcontrol.launch_dependents. `main` stands for the backward, which Hopper cannot run:
// one CTA a token and SM, 200 KB of shared memory, per k-block 8,000 clocks and the additions of 64 rows.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90 -Ikernels benchmarks/silicon/programmatic.cu
//
// Prints microseconds of a sequence: queued on a stream behind another kernel, in a CUDA graph (medians of
// seven rounds of some sequences), and the host's time of its launches.
#include <chrono>
#include <string>

#include "card.cuh"
#include "sm90/mla_around/d_sink.cuh"
#include "sm90/mla_around/dkv.cuh"
#include "sm90/mla_around/ordered.cuh"

using namespace tileproof;

constexpr int kColumns = 576, kShared = 200 * 1024;
enum Wait { kNone, kFirst, kLast };  // where a kernel waits for the grid before it

__device__ __forceinline__ void wait_for_previous_grid() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Around the body of a kernel.
template <Wait at, bool early, class Body>
__device__ __forceinline__ void within(Body body) {
  if constexpr (at == kFirst) wait_for_previous_grid();
  if constexpr (early) launch_dependents();
  body();
  if constexpr (at == kLast) wait_for_previous_grid();
}

template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(kDkvThreads) clear_kernel(float* values, int64_t count) {
  within<at, early>([&] { clear(values, count); });
}

template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(kDkvThreads)
    convert_kernel(const float* wide, uint16_t* narrow, int64_t count) {
  within<at, early>([&] { convert<__nv_bfloat16>(wide, narrow, count); });
}

template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(kSinkHeads* kSinkTokens)
    d_sink_kernel(const __grid_constant__ SinkParams params) {
  within<at, early>([&] { sink_gradient(params); });
}

template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(kExpandThreads) expand_kernel(const __grid_constant__ ExpandParams params) {
  within<at, early>([&] { expand(params); });
}

template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(kCollectThreads)
    collect_kernel(const __grid_constant__ CollectParams params) {
  within<at, early>([&] { collect(params); });
}

// `at`: kFirst behind the prologue, kLast before the first addition.
template <Wait at = kNone, bool early = false>
__global__ void __launch_bounds__(416, 1)
    main_kernel(const int* indices, float* dKV, float* delta, int k_blocks, int clocks) {
  extern __shared__ uint64_t barriers[];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 16; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(card::shared_address(barriers + i)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if constexpr (at == kFirst) wait_for_previous_grid();
  if constexpr (early) launch_dependents();
  if (threadIdx.x < 64) delta[blockIdx.x * 64 + threadIdx.x] = 1.0f;
  for (int k = 0; k < k_blocks; ++k) {
    for (const long long begin = clock64(); clock64() - begin < clocks;) {
    }
    if (at == kLast && k == 0) wait_for_previous_grid();
    if (threadIdx.x >= 128) continue;
    for (int key = 0; key < 64; ++key) {
      float* row = dKV + int64_t(indices[(blockIdx.x * k_blocks + k) * 64 + key]) * kColumns;
      for (int column = threadIdx.x; column < kColumns; column += 128) atomicAdd(row + column, 1.0f);
    }
  }
}

__global__ void sleep_kernel(long long clocks) {
  for (const long long begin = clock64(); clock64() - begin < clocks;) {
  }
}

cudaStream_t stream;

// A launch; `programmatic`: it may begin before the launch before it has ended.
template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), bool programmatic, int64_t grid, int block,
           Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.gridDim = unsigned(grid);
  config.blockDim = block;
  config.dynamicSmemBytes = block == 416 ? kShared : 0;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = programmatic;
  CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Microseconds on the device of a sequence that `work` launches `count` times.
template <class Work>
double on_device(Work work, int count, bool behind_sleep) {
  std::vector<double> rounds;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int round = -2; round < 7; ++round) {
    float milliseconds;
    if (behind_sleep) sleep_kernel<<<1, 1, 0, stream>>>(3000000);
    CHECK(cudaEventRecord(begin, stream));
    work();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (round >= 0) rounds.push_back(milliseconds * 1e3 / count);
  }
  return median(rounds);
}

template <class Sequence>
void row(const std::string& what, const char* how, int count, Sequence sequence) {
  const auto all = [&] {
    for (int i = 0; i < count; ++i) sequence();
  };
  const double queued = on_device(all, count, true);
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  all();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  const double replayed = on_device([&] { CHECK(cudaGraphLaunch(ready, stream)); }, count, false);
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  std::vector<double> host;
  for (int round = 0; round < 7; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    all();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    host.push_back(time.count() / count);
    CHECK(cudaStreamSynchronize(stream));
  }
  std::printf("%-58s %-46s %8.2f %8.2f %6.2f\n", what.c_str(), how, queued, replayed, median(host));
  std::fflush(stdout);
}

template <class T>
T* zeros(int64_t count) {
  T* memory;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}

int* random_indices(int64_t count, int rows) {
  std::vector<int> made(count);
  unsigned x = 1;
  for (int& index : made) index = int((x = x * 1664525u + 1013904223u) >> 8) % rows;
  int* memory = zeros<int>(count);
  CHECK(cudaMemcpy(memory, made.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  return memory;
}

// The launches of a call on `rows` rows of kv.
struct Call {
  int64_t count;
  float *wide, *lse, *delta, *sink, *d_sink;
  uint16_t* narrow;
  int *indices, tokens, k_blocks;

  Call(int rows, int tokens_, int k_blocks_)
      : count(int64_t(rows) * kColumns), tokens(tokens_), k_blocks(k_blocks_) {
    wide = zeros<float>(count);
    narrow = zeros<uint16_t>(count);
    lse = zeros<float>(tokens * 64);
    delta = zeros<float>(tokens * 64);
    sink = zeros<float>(64);
    d_sink = zeros<float>(64);
    indices = random_indices(int64_t(tokens) * k_blocks * 64, rows);
  }
  ~Call() {
    for (void* memory :
         {(void*)wide, (void*)narrow, (void*)lse, (void*)delta, (void*)sink, (void*)d_sink, (void*)indices})
      CHECK(cudaFree(memory));
  }
  int64_t blocks() const { return (count + 4 * kDkvThreads - 1) / (4 * kDkvThreads); }
  template <Wait at = kNone, bool early = false>
  void clears(bool programmatic = false) const {
    start(clear_kernel<at, early>, programmatic, blocks(), kDkvThreads, wide, count);
  }
  template <Wait at = kNone, bool early = false>
  void mains(bool programmatic = false) const {
    CHECK(cudaFuncSetAttribute(main_kernel<at, early>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
    start(main_kernel<at, early>, programmatic, tokens, 416, indices, wide, delta, k_blocks, 8000);
  }
  template <Wait at = kNone, bool early = false>
  void sinks(bool programmatic = false) const {
    const SinkParams params{lse, delta, sink, d_sink, tokens, 64};
    start(d_sink_kernel<at, early>, programmatic, 8, kSinkHeads * kSinkTokens, params);
  }
  template <Wait at = kNone, bool early = false>
  void converts(bool programmatic = false) const {
    start(convert_kernel<at, early>, programmatic, blocks(), kDkvThreads, wide, narrow, count);
  }
};

void pairs(int rows) {
  const std::string at = ", " + std::to_string(rows) + " rows";
  for (int tokens : {4096, 65536}) {
    const Call c(rows, tokens, 1);
    if (tokens == 4096) {
      row("clear, convert" + at, "plain", 20, [&] { c.clears(), c.converts(); });
      row("clear, convert" + at, "plain, the wait in convert", 20, [&] { c.clears(), c.converts<kFirst>(); });
      row("clear, convert" + at, "programmatic", 20, [&] { c.clears(), c.converts<kFirst>(1); });
      row("clear, convert" + at, "programmatic, clear triggers", 20,
          [&] { c.clears<kNone, true>(), c.converts<kFirst>(1); });
    }
    const std::string what = "d_sink of " + std::to_string(tokens) + " tokens, convert" + at;
    row(what, "plain", 20, [&] { c.sinks(), c.converts(); });
    row(what, "programmatic", 20, [&] { c.sinks(), c.converts<kFirst>(1); });
    row(what, "programmatic, side by side", 20, [&] { c.sinks<kFirst, true>(), c.converts<kLast>(1); });
  }
}

void whole(int rows, int tokens, int k_blocks) {
  const Call c(rows, tokens, k_blocks);
  const std::string sizes = std::to_string(tokens) + " x " + std::to_string(k_blocks);
  const std::string what = "clear, main " + sizes + ", convert, " + std::to_string(rows) + " rows";
  row(what, "plain", 6, [&] { c.clears(), c.mains(), c.converts(); });
  row(what, "convert programmatic", 6, [&] { c.clears(), c.mains(), c.converts<kFirst>(1); });
  row(what, "both, main waits first", 6, [&] { c.clears(), c.mains<kFirst>(1), c.converts<kFirst>(1); });
  row(what, "both, main waits before it adds", 6,
      [&] { c.clears(), c.mains<kLast>(1), c.converts<kFirst>(1); });
  row(what, "both, clear triggers", 6,
      [&] { c.clears<kNone, true>(), c.mains<kLast>(1), c.converts<kFirst>(1); });
  row(what, "both, clear and main trigger", 6,
      [&] { c.clears<kNone, true>(), c.mains<kLast, true>(1), c.converts<kFirst>(1); });
  row("clear, main " + sizes + ", d_sink, convert, " + std::to_string(rows) + " rows", "plain", 6,
      [&] { c.clears(), c.mains(), c.sinks(), c.converts(); });
  row("clear, main " + sizes + ", d_sink, convert, " + std::to_string(rows) + " rows", "all behind clear", 6,
      [&] { c.clears(), c.mains<kLast>(1), c.sinks<kFirst>(1), c.converts<kFirst>(1); });
}

void ordered(int s_q, int s_kv, int topk) {
  const int64_t slots = int64_t(s_q) * topk;
  auto* kv = zeros<uint16_t>(int64_t(s_kv) * kColumns);
  auto* rows = zeros<uint16_t>(slots * kColumns);
  auto* narrow = zeros<uint16_t>(int64_t(s_kv) * kColumns);
  auto *wide = zeros<float>(slots * kColumns), *sums = zeros<float>(int64_t(s_kv) * kColumns);
  int *indices = random_indices(slots, s_kv), *own = zeros<int>(slots);
  const ExpandParams expands{kv, indices, nullptr, own, rows, s_kv, topk, kColumns, 0};
  const CollectParams collects{wide, indices, own, sums, s_q, topk, kColumns, s_kv};
  const auto four = [&](auto clears, auto collect, auto converts, bool programmatic) {
    start(expand_kernel<>, false, slots, kExpandThreads, expands);
    start(clears, false, (slots * kColumns + 1023) / 1024, kDkvThreads, wide, slots * kColumns);
    start(collect, programmatic, s_kv / kCollectRows, kCollectThreads, collects);
    start(converts, programmatic, int64_t(s_kv) * kColumns / 1024, kDkvThreads, sums, narrow,
          int64_t(s_kv) * kColumns);
  };
  const std::string what = "expand, clear, collect of " + std::to_string(s_q) + " tokens, convert";
  row(what, "plain", 10, [&] { four(clear_kernel<>, collect_kernel<>, convert_kernel<>, false); });
  row(what, "collect and convert programmatic", 10,
      [&] { four(clear_kernel<>, collect_kernel<kFirst>, convert_kernel<kFirst>, true); });
}

int main() {
  CHECK(cudaStreamCreate(&stream));
  std::printf("%-58s %-46s %8s %8s %6s\n", "sequence", "launches", "stream", "graph", "host");
  for (int again = 0; again < 2; ++again) {
    for (int rows : {4096, 131072}) {
      pairs(rows);
      for (int tokens : {64, 528}) whole(rows, tokens, 8);
    }
    whole(131072, 528, 32);
    ordered(64, 8192, 2048);
  }
}
