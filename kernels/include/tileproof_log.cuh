// Prints the waits and arrivals of a kernel's roles, compactly and completely, for `tileproof explain`.
//
//   #define TILEPROOF_LOG           // before the include; without it every call is empty
//   #include <tileproof_log.cuh>    // -I$(tileproof explain --include)
//
//   tileproof::Log log("mma", elected);                       // one thread of each role speaks
//   log.init("kv_full", stage, 2);                            // the count given to mbarrier.init
//   log.wait("kv_full", stage, parity, k, [&] { kv_full[stage].wait(parity); });
//   log.arrive("kv_empty", stage, k, 0b11);                   // just before it: the CTAs that it reaches
//   log.expect("kv_full", stage, k, bytes);                   // an arrival that announces bytes
//   log.copy("kv_full", stage, k, bytes);                     // a copy that completes on the barrier
//   log.end();
//
// A line: tp1 CLUSTER RANK/CTAS ROLE NUMBER k=K VERB BARRIER[STAGE] ... The number counts a role's lines from
// 0, so that a missing one is known. C++17; any architecture; clusters from sm_90 on.
#pragma once

#include <cstdint>
#include <cstdio>

namespace tileproof {

#ifdef TILEPROOF_LOG

class Log {
 public:
  // `role`: a string literal without spaces. `speaks`: whether this thread is the one that prints.
  __device__ explicit Log(const char* role, bool speaks = true) : role_(role), speaks_(speaks) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t x, y, z, across, down;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank_));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(ctas_));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(x));
    asm("mov.u32 %0, %%clusterid.y;" : "=r"(y));
    asm("mov.u32 %0, %%clusterid.z;" : "=r"(z));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(across));
    asm("mov.u32 %0, %%nclusterid.y;" : "=r"(down));
    block = x + across * (y + down * z);
#endif
    cluster_ = block;
  }

  __device__ void init(const char* barrier, int stage, uint32_t count) {
    if (speaks_) say(-1, "init", barrier, stage, "count", count);
  }

  // Before a wait and after it; `wait` does both around `body`.
  __device__ void waits(const char* barrier, int stage, uint32_t parity, int k = -1) {
    if (speaks_) say(k, "wait", barrier, stage, "p", parity);
  }
  __device__ void passed(const char* barrier, int stage, uint32_t parity, int k = -1) {
    if (speaks_) say(k, "pass", barrier, stage, "p", parity);
  }
  template <class Body>
  __device__ void wait(const char* barrier, int stage, uint32_t parity, int k, Body&& body) {
    waits(barrier, stage, parity, k);
    body();
    passed(barrier, stage, parity, k);
  }

  // An arrival or commit, printed before it is made; `to`: a mask of the ranks that it reaches, 0 for the own
  // CTA, `count`: how many arrivals it stands for (128 where each thread of a warpgroup arrives).
  __device__ void arrive(const char* barrier, int stage, int k = -1, uint32_t to = 0, uint32_t count = 1) {
    if (speaks_) say(k, "arrive", barrier, stage, "n", count, to);
  }
  // An arrival that announces `bytes`, and a copy of `bytes` that completes on the barrier.
  __device__ void expect(const char* barrier, int stage, int k, uint32_t bytes, uint32_t to = 0) {
    if (speaks_) say(k, "expect", barrier, stage, "tx", bytes, to);
  }
  __device__ void copy(const char* barrier, int stage, int k, uint32_t bytes, uint32_t to = 0) {
    if (speaks_) say(k, "copy", barrier, stage, "tx", bytes, to);
  }

  // The role is done.
  __device__ void end() {
    if (speaks_) printf("tp1 %u %u/%u %s %u end\n", cluster_, rank_, ctas_, role_, next_++);
  }

 private:
  __device__ __noinline__ void say(int k, const char* verb, const char* barrier, int stage, const char* what,
                                   uint32_t value, uint32_t to = 0) {
    printf("tp1 %u %u/%u %s %u k=%d %s %s[%d] %s=%u to=%u\n", cluster_, rank_, ctas_, role_, next_++, k, verb,
           barrier, stage, what, value, to ? to : 1u << rank_);
  }

  const char* role_;
  uint32_t cluster_ = 0, rank_ = 0, ctas_ = 1, next_ = 0;
  bool speaks_;
};

#else

class Log {
 public:
  __device__ explicit Log(const char*, bool = true) {}
  __device__ void init(const char*, int, uint32_t) {}
  __device__ void waits(const char*, int, uint32_t, int = -1) {}
  __device__ void passed(const char*, int, uint32_t, int = -1) {}
  template <class Body>
  __device__ void wait(const char*, int, uint32_t, int, Body&& body) {
    body();
  }
  __device__ void arrive(const char*, int, int = -1, uint32_t = 0, uint32_t = 1) {}
  __device__ void expect(const char*, int, int, uint32_t, uint32_t = 0) {}
  __device__ void copy(const char*, int, int, uint32_t, uint32_t = 0) {}
  __device__ void end() {}
};

#endif

}  // namespace tileproof
