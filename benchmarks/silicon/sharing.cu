// Gathers beside additions on a Hopper card (sm_90a): clocks per step of a CTA, alone and with every SM busy.
// Four warps add f32 to random rows of 2,048 bytes (red.v4, 4 rows x 128 bytes an instruction); at the same
// time rows of 1,024 bytes are read into shared memory, by bulk copies or by cp.async of 16 bytes a thread.
//
//   python benchmarks/silicon/build.py sharing     # here: builds build/silicon/sharing
//   ./sharing                                      # on the card
//
// Then what a bulk store takes until wait_group, with and without `.read`, and how fast one thread's, or four
// threads', bulk loads are by their size.
#include "card.cuh"

using card::random_row;
using card::shared_address;

constexpr int kThreads = 256;
constexpr int kStages = 4, kStageRows = 32, kRowBytes = 1024;  // 32 KB a stage
constexpr int kMost = 64;                                      // steps a launch has indices for

struct Args {
  float* table;             // rows of 512
  const unsigned char* kv;  // rows of 1,024 bytes
  const int* rows;          // 64 a step and CTA
  long long* clocks;
  int steps;
  unsigned table_rows;  // a power of two
};

enum class Read { kBulk, kAsync };

template <int kAddKb, int kReadKb, Read read>
__global__ void __launch_bounds__(kThreads, 1) both(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  __shared__ alignas(8) uint64_t full[kStages];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0)
    for (auto& b : full)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(1) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const int* rows = a.rows + size_t(blockIdx.x) * kMost * 64;
  const long long start = clock64();
  if (warp < 4) {
    if constexpr (kAddKb > 0) {
      for (int s = 0; s < a.steps; ++s) {
        int row[16];
        for (int g = 0; g < 16; ++g) row[g] = __ldg(rows + s * 64 + g * 4 + lane / 8);
#pragma unroll
        for (int j = 0; j < kAddKb / 2; ++j)
          asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(
                           a.table + size_t(row[j % 16]) * 512 + (j / 16 * 4 + warp) * 32 + lane % 8 * 4),
                       "f"(1.0f)
                       : "memory");
      }
    }
  } else if (kReadKb > 0 && read == Read::kBulk) {
    if (warp == 4) {
      const int chunks = a.steps * (kReadKb / 32);
      for (int c = 0; c < chunks; ++c) {
        const int stage = c % kStages;
        const uint32_t b = shared_address(full) + 8 * stage;
        if (c >= kStages)
          asm volatile(
              "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(b),
              "r"((c / kStages - 1) & 1)
              : "memory");
        if (lane == 0)
          asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(b),
                       "r"(kStageRows * kRowBytes)
                       : "memory");
        __syncwarp();
        const unsigned row = random_row(c * kStageRows + lane, a.table_rows);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(room) + (stage * kStageRows + lane) * kRowBytes),
            "l"(a.kv + size_t(row) * kRowBytes), "r"(kRowBytes), "r"(b)
            : "memory");
      }
      for (int c = chunks; c < chunks + kStages; ++c)
        asm volatile(
            "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(
                shared_address(full) + 8 * (c % kStages)),
            "r"((c / kStages - 1) & 1)
            : "memory");
    }
  } else if (kReadKb > 0) {
    const int chunks = a.steps * (kReadKb / 32), t = threadIdx.x - 128;
    for (int c = 0; c < chunks; ++c) {
      const uint32_t to = shared_address(room) + c % kStages * kStageRows * kRowBytes;
#pragma unroll
      for (int i = 0; i < 16; ++i) {  // two rows of 64 pieces at a time
        const unsigned row = random_row(c * kStageRows + 2 * i + t / 64, a.table_rows);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (i * 128 + t) * 16),
                     "l"(a.kv + size_t(row) * kRowBytes + t % 64 * 16)
                     : "memory");
      }
      asm volatile("cp.async.commit_group;\n cp.async.wait_group 3;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

template <int kKb, bool kRead>
__global__ void __launch_bounds__(32, 1) store(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  const uint32_t from = shared_address(room);
  for (int i = threadIdx.x; i < kKb * 256; i += 32) reinterpret_cast<uint32_t*>(room)[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    const long long start = clock64();
    for (int s = 0; s < a.steps; ++s) {
      asm volatile(
          "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n cp.async.bulk.commit_group;" ::"l"(
              a.table + size_t(blockIdx.x * 8 + s % 8) * 16384),
          "r"(from), "r"(kKb * 1024)
          : "memory");
      if constexpr (kRead)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      else
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    a.clocks[blockIdx.x] = clock64() - start;
  }
}

template <int kBytes, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, 1) load(Args a) {
  extern __shared__ __align__(128) unsigned char room[];
  __shared__ alignas(8) uint64_t full[4 * kWarps];
  constexpr int kCopies = 32768 / kWarps / kBytes;  // of a warp and stage
  const int warp = threadIdx.x / 32;
  const uint32_t bars = shared_address(full) + 32 * warp;
  if (threadIdx.x % 32 == 0)
    for (int b = 0; b < 4; ++b)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bars + 8 * b), "r"(1) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  const long long start = clock64();
  if (threadIdx.x % 32 == 0)
    for (int c = 0; c < a.steps + 4; ++c) {
      const uint32_t b = bars + 8 * (c % 4);
      if (c >= 4)
        asm volatile(
            "{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(b),
            "r"((c / 4 - 1) & 1)
            : "memory");
      if (c >= a.steps) continue;
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(b), "r"(kCopies * kBytes)
                   : "memory");
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(room) + c % 4 * 32768 + (warp * kCopies + i) * kBytes),
            "l"(a.kv + ((blockIdx.x * 64 + c) % 256 * 32768 + (warp * kCopies + i) * kBytes)), "r"(kBytes),
            "r"(b)
            : "memory");
    }
  __syncthreads();
  if (threadIdx.x == 0) a.clocks[blockIdx.x] = clock64() - start;
}

template <class Kernel>
double median(Kernel kernel, Args a, int blocks, int threads, int bytes, int steps) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  a.steps = steps;
  const card::Runs runs =
      card::timed([&] { kernel<<<blocks, threads, bytes>>>(a); }, a.clocks, blocks, steps, 7);
  return runs.median();
}

template <int kAddKb, int kReadKb, Read read>
void row(const char* how, Args a, int sms) {
  const auto kernel = both<kAddKb, kReadKb, read>;
  const int bytes = kStages * kStageRows * kRowBytes;
  std::printf("add %3d KB, read %3d KB %-8s 1 CTA %9.1f  %3d CTAs %9.1f\n", kAddKb, kReadKb, how,
              median(kernel, a, 1, kThreads, bytes, 16), sms, median(kernel, a, sms, kThreads, bytes, kMost));
}

template <int kKb>
void stores(Args a, int sms) {
  std::printf("bulk store %2d KB, wait_group      1 CTA %9.1f  %3d CTAs %9.1f\n", kKb,
              median(store<kKb, false>, a, 1, 32, kKb * 1024, kMost), sms,
              median(store<kKb, false>, a, sms, 32, kKb * 1024, kMost));
  std::printf("bulk store %2d KB, wait_group.read 1 CTA %9.1f  %3d CTAs %9.1f\n", kKb,
              median(store<kKb, true>, a, 1, 32, kKb * 1024, kMost), sms,
              median(store<kKb, true>, a, sms, 32, kKb * 1024, kMost));
}

template <int kBytes, int kWarps>
void loads(Args a, int sms) {
  std::printf("bulk loads of %5d B, 32 KB by %d threads  1 CTA %9.1f  %3d CTAs %9.1f\n", kBytes, kWarps,
              median(load<kBytes, kWarps>, a, 1, 32 * kWarps, 131072, kMost), sms,
              median(load<kBytes, kWarps>, a, sms, 32 * kWarps, 131072, kMost));
}

void all(Args a, int sms, int table_rows) {
  std::vector<int> rows(size_t(sms) * kMost * 64);
  unsigned state = 1;
  for (int& r : rows) r = int((state = state * 1664525u + 1013904223u) >> 8) % table_rows;
  int* at = nullptr;
  CHECK(cudaMalloc(&at, rows.size() * 4));
  CHECK(cudaMemcpy(at, rows.data(), rows.size() * 4, cudaMemcpyHostToDevice));
  a.rows = at;
  a.table_rows = table_rows;
  std::printf("rows of %d: f32 %d MB, bf16 %d MB\n", table_rows, table_rows * 2048 >> 20,
              table_rows * 1024 >> 20);
  row<0, 32, Read::kBulk>("bulk", a, sms);
  row<0, 64, Read::kBulk>("bulk", a, sms);
  row<0, 128, Read::kBulk>("bulk", a, sms);
  row<0, 192, Read::kBulk>("bulk", a, sms);
  row<0, 64, Read::kAsync>("cp.async", a, sms);
  row<0, 192, Read::kAsync>("cp.async", a, sms);
  row<64, 0, Read::kBulk>("", a, sms);
  row<128, 0, Read::kBulk>("", a, sms);
  row<64, 32, Read::kBulk>("bulk", a, sms);
  row<64, 64, Read::kBulk>("bulk", a, sms);
  row<64, 128, Read::kBulk>("bulk", a, sms);
  row<64, 192, Read::kBulk>("bulk", a, sms);
  row<128, 32, Read::kBulk>("bulk", a, sms);
  row<128, 64, Read::kBulk>("bulk", a, sms);
  row<128, 128, Read::kBulk>("bulk", a, sms);
  row<128, 192, Read::kBulk>("bulk", a, sms);
  row<64, 192, Read::kAsync>("cp.async", a, sms);
  row<128, 64, Read::kAsync>("cp.async", a, sms);
  row<128, 192, Read::kAsync>("cp.async", a, sms);
  CHECK(cudaFree(at));
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int sms = card.multiProcessorCount;
  Args a{};
  unsigned char* kv = nullptr;
  CHECK(cudaMalloc(&a.table, size_t(65536) * 2048));
  CHECK(cudaMemset(a.table, 0, size_t(65536) * 2048));
  CHECK(cudaMalloc(&kv, size_t(32768) * 1024));
  CHECK(cudaMemset(kv, 0, size_t(32768) * 1024));
  CHECK(cudaMalloc(&a.clocks, 8 * 1024));
  a.kv = kv;
  std::printf("%s, %d SMs; clocks per step, median of 7 launches\n", card.name, sms);
  all(a, sms, 8192);
  all(a, sms, 32768);
  stores<1>(a, sms);
  stores<8>(a, sms);
  stores<32>(a, sms);
  loads<256, 1>(a, sms);
  loads<1024, 1>(a, sms);
  loads<4096, 1>(a, sms);
  loads<32768, 1>(a, sms);
  loads<1024, 4>(a, sms);
  loads<8192, 4>(a, sms);
  return 0;
}
