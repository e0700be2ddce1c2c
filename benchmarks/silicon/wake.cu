// How long after an arrival a waiting warp goes on, by how long it has waited, on a Hopper card (sm_90a):
// clocks of a round trip over two mbarriers, less what a warp delays in between.
//
//   python benchmarks/silicon/build.py wake     # here: builds build/silicon/wake
//   ./wake                                      # on the card
//
// Warp 0 arrives at a barrier and waits at another. Warp 1 waits at the first, waits a delay out and
// arrives at the second: warp 0 waits for the delay and longer, warp 1 only for the way of an arrival.
// Forms of a warp: "whole": all lanes wait, lane 0 arrives; "lane": only lane 0 runs the loop, the others
// have gone on to its end; "wait": only lane 0 waits, the others meet it behind each wait. The same for a
// thread that waits for a bulk load of 1 KB that it issued.
#include "card.cuh"

using card::arrive;
using card::shared_address;
using card::wait;

struct Args {
  long long* clocks;
  unsigned char* table;
  int steps;
  int delay;  // clocks, at least
};

// Until `delay` clocks have passed; how many had.
__device__ __forceinline__ int delayed(int delay) {
  if (delay == 0) return 0;
  int start, now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(start)::"memory");
  do asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
  while (now - start < delay);
  return now - start;
}

// Who delays: warp 1 before its answer, warp 0 before its call, or both.
enum class Who { answer, call, both, none };

enum class Form { whole, lane, wait };

template <Form form>
__device__ __forceinline__ void wait_as(uint32_t bar, int parity, int lane) {
  if (form == Form::wait) {
    if (lane == 0) wait(bar, parity);
    __syncwarp();
  } else {
    wait(bar, parity);
  }
}

template <Form first, Form second, Who who>
__global__ void __launch_bounds__(64, 1) wake(Args a) {
  __shared__ alignas(8) uint64_t bars[2];
  __shared__ int spent[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t call = shared_address(bars), answer = call + 8;
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(call + 8 * s) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  int sum = 0;
  if (warp == 1) {
    if (second != Form::lane || lane == 0)
      for (int k = 0; k < a.steps; ++k) {
        wait_as<second>(call, k & 1, lane);
        if (who == Who::answer || who == Who::both) sum += delayed(a.delay);
        if (lane == 0) arrive(answer);
      }
  } else {
    if (first != Form::lane || lane == 0)
      for (int k = 0; k < a.steps; ++k) {
        if (who == Who::call || who == Who::both) sum += delayed(a.delay);
        if (lane == 0) arrive(call);
        wait_as<first>(answer, k & 1, lane);
      }
  }
  if (lane == 0) spent[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    a.clocks[0] = clock64() - start;
    a.clocks[1] = spent[0] + spent[1];
  }
}

template <Form form>
__global__ void __launch_bounds__(32, 1) load(Args a) {
  __shared__ alignas(128) unsigned char room[1024];
  __shared__ alignas(8) uint64_t bars[1];
  const int lane = threadIdx.x % 32;
  const uint32_t bar = shared_address(bars);
  if (lane == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  if (form != Form::lane || lane == 0)
    for (int k = 0; k < a.steps; ++k) {
      if (lane == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                shared_address(room)),
            "l"(a.table + k * 4096), "r"(bar)
            : "memory");
      }
      if (form == Form::whole) __syncwarp();
      wait_as<form>(bar, k & 1, lane);
    }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[0] = clock64() - start, a.clocks[1] = 0;
}

double median(void (*kernel)(Args), int threads, Args a) {
  std::vector<double> runs;
  for (int run = 0; run < 20; ++run) {
    kernel<<<1, threads>>>(a);
    CHECK(cudaGetLastError());
    long long seen[2];
    CHECK(cudaMemcpy(seen, a.clocks, 16, cudaMemcpyDeviceToHost));
    if (run) runs.push_back(double(seen[0] - seen[1]) / a.steps);
  }
  std::sort(runs.begin(), runs.end());
  return runs[9];
}

int main() {
  int device = 0;
  CHECK(cudaGetDevice(&device));
  cudaDeviceProp about{};
  CHECK(cudaGetDeviceProperties(&about, device));
  Args a{};
  CHECK(cudaMalloc(&a.clocks, 16));
  CHECK(cudaMalloc(&a.table, 1 << 20));
  CHECK(cudaMemset(a.table, 0, 1 << 20));
  a.steps = 64;
  std::printf("%s; clocks of a round trip less the delays, of 64, median of 19 launches\n", about.name);
  constexpr Form kWhole = Form::whole, kLane = Form::lane, kWait = Form::wait;
  std::printf("warps whole, whole %6.1f\n", median(wake<kWhole, kWhole, Who::none>, 64, a));
  std::printf("warps lane, whole  %6.1f\n", median(wake<kLane, kWhole, Who::none>, 64, a));
  std::printf("warps whole, lane  %6.1f\n", median(wake<kWhole, kLane, Who::none>, 64, a));
  std::printf("warps lane, lane   %6.1f\n", median(wake<kLane, kLane, Who::none>, 64, a));
  std::printf("warps wait, whole  %6.1f\n", median(wake<kWait, kWhole, Who::none>, 64, a));
  std::printf("warps whole, wait  %6.1f\n", median(wake<kWhole, kWait, Who::none>, 64, a));
  std::printf("warps wait, wait   %6.1f\n", median(wake<kWait, kWait, Who::none>, 64, a));
  std::printf("load of 1 KB: whole %6.1f lane %6.1f wait %6.1f\n", median(load<kWhole>, 32, a),
              median(load<kLane>, 32, a), median(load<kWait>, 32, a));
  for (const int delay : {20, 50, 100, 200, 400, 800, 1600, 3200}) {
    a.delay = delay;
    std::printf("delay %5d  whole: answer %6.1f call %6.1f both %6.1f", delay,
                median(wake<kWhole, kWhole, Who::answer>, 64, a),
                median(wake<kWhole, kWhole, Who::call>, 64, a),
                median(wake<kWhole, kWhole, Who::both>, 64, a));
    std::printf("   lane: answer %6.1f call %6.1f both %6.1f\n",
                median(wake<kLane, kLane, Who::answer>, 64, a), median(wake<kLane, kLane, Who::call>, 64, a),
                median(wake<kLane, kLane, Who::both>, 64, a));
  }
  return 0;
}
