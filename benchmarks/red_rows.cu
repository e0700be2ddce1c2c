// How fast a card adds f32 to random rows, by how many bytes of a row one warp instruction touches.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a benchmarks/red_rows.cu -o red_rows &&
//   ./red_rows
//
// One block of 128 threads adds tiles of 64 rows x 576 f32 (a dKV tile of d_qk 576) to rows drawn at random
// from a table. Every figure is the best of five launches after one that is not counted; bytes are those of
// the additions.
#include "silicon/card.cuh"

constexpr int kWidth = 576;
constexpr int kRows = 64;

template <int Vector>
__device__ void add_ones(float* to) {
  if constexpr (Vector == 4)
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(to), "f"(1.0f) : "memory");
  else
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(1.0f) : "memory");
}

// An instruction of a warp touches 32 / Lanes rows with 4 * Vector * Lanes contiguous bytes each.
template <int Lanes, int Vector>
__global__ void add_rows(float* table, const int* rows, int tiles) {
  constexpr int kRowsAtOnce = 32 / Lanes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    for (int r = warp * kRowsAtOnce; r < kRows; r += 4 * kRowsAtOnce) {
      float* to = table + size_t(rows[tile * kRows + r + lane / Lanes]) * kWidth + Vector * (lane % Lanes);
#pragma unroll 6
      for (int c = 0; c < kWidth; c += Vector * Lanes) add_ones<Vector>(to + c);
    }
  }
}

template <int Lanes, int Vector>
void measure(float* table, const int* rows, int tiles, int blocks) {
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  float best = 1e30f;
  for (int run = 0; run < 6; ++run) {
    CHECK(cudaEventRecord(start));
    add_rows<Lanes, Vector><<<blocks, 128>>>(table, rows, tiles);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    if (run && ms < best) best = ms;
  }
  const double bytes = double(tiles) * kRows * kWidth * 4;
  std::printf("  %2d rows x %3d bytes  red%s  %5.2f TB/s\n", 32 / Lanes, 4 * Vector * Lanes,
              Vector == 4 ? ".v4.f32" : ".f32   ", bytes / best / 1e9);
}

int main() {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  const int tiles = card.multiProcessorCount * 64;
  std::printf("%s, %d SMs, %d bytes of L2\n", card.name, card.multiProcessorCount, card.l2CacheSize);
  for (const int table_rows : {8192, 65536}) {
    float* table = nullptr;
    int* rows = nullptr;
    const size_t bytes = size_t(table_rows) * kWidth * 4;
    std::vector<int> drawn(size_t(tiles) * kRows);
    unsigned state = 1;
    for (int& row : drawn) row = int((state = state * 1664525u + 1013904223u) >> 8) % table_rows;
    CHECK(cudaMalloc(&table, bytes));
    CHECK(cudaMemset(table, 0, bytes));
    CHECK(cudaMalloc(&rows, drawn.size() * sizeof(int)));
    CHECK(cudaMemcpy(rows, drawn.data(), drawn.size() * sizeof(int), cudaMemcpyHostToDevice));
    std::printf("table of %d rows, %.0f MB\n", table_rows, bytes / 1e6);
    const int blocks = 4 * card.multiProcessorCount;
    measure<1, 4>(table, rows, tiles, blocks);
    measure<2, 4>(table, rows, tiles, blocks);
    measure<4, 4>(table, rows, tiles, blocks);
    measure<8, 4>(table, rows, tiles, blocks);
    measure<32, 1>(table, rows, tiles, blocks);
    CHECK(cudaFree(table));
    CHECK(cudaFree(rows));
  }
  return 0;
}
