// Dumps tiles of shared memory, registers or tensor memory from inside a kernel, under the names that
// `tileproof tensors` reads (docs/tensors.md). C++17; any architecture, tensor memory from sm_100a on.
//
//   #include <tileproof_dump.cuh>   // -I$(tileproof tensors --include)
//
//   tileproof::DumpFolder folder("dump");                             // host
//   auto S = folder.tile<__nv_bfloat16>("S[3, 0:64, 128:192]");       // a part, with every range written out
//   auto dq = folder.tile<float>("dq", {s_q, h_q, d_qk});             // a whole tensor
//   kernel<<<...>>>(..., S, dq);
//   folder.save("q", q, {s_q, h_q, d_qk});                            // inputs, from host memory
//   folder.save("sm_scale", &sm_scale, {});
//   size_t lost = folder.write();                                        // synchronises; S...npy and so on
//
//   S.put(row, column, value);                                        // device: one element of a register
//   S.shared(tile, tileproof::Swizzled<128>{64}, thread, threads);    // a tile of shared memory
//   P.tmem(address, [](int lane) { return lane; });                   // whole warps: a tile of tensor memory
//
// A tile's columns are the last axis of its name; its rows count the other axes, the last of them fastest.
// The caller orders the dump: after what produces the tile, before what overwrites it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tileproof {

// Where element (row, column) of a tile lies in shared memory, in bytes from the tile's start; a lambda
// (row, column, bytes of an element) does as well.
struct RowMajor {
  int pitch;  // bytes from row to row
  __device__ uint32_t operator()(int row, int column, int size) const { return row * pitch + column * size; }
};

// Column tiles of `Span` bytes, one after another, each `rows` deep, with the 128-, 64- or 32-byte swizzle of
// TMA and of the matrix descriptors. The tile begins where the swizzle does (1024, 512 or 256 bytes).
template <int Span>
struct Swizzled {
  static_assert(Span == 128 || Span == 64 || Span == 32);
  int rows;
  __device__ uint32_t operator()(int row, int column, int size) const {
    const uint32_t at = column * size;
    const uint32_t linear = (at / Span) * rows * Span + row * Span + at % Span;
    return linear ^ (((linear >> 7) & (Span / 16 - 1)) << 4);
  }
};

// A tile in device memory, passed to the kernel by value.
template <class T>
struct DumpTile {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  T* data;
  int rows;
  int columns;
  unsigned* outside;  // counts what was put outside the tile

  __device__ void put(int row, int column, T value) const {
    if (row >= 0 && row < rows && column >= 0 && column < columns) {
      data[static_cast<int64_t>(row) * columns + column] = value;
    } else {
      atomicAdd(outside, 1u);
    }
  }

  // The whole tile from shared memory, by `threads` threads of which this is number `thread`.
  template <class Layout>
  __device__ void shared(const void* tile, Layout layout, int thread, int threads) const {
    const auto* bytes = static_cast<const unsigned char*>(tile);
    for (int i = thread; i < rows * columns; i += threads) {
      const int row = i / columns, column = i % columns;
      put(row, column, *reinterpret_cast<const T*>(bytes + layout(row, column, int(sizeof(T)))));
    }
  }

  // The whole tile from tensor memory, by whole warps: each dumps the 32 lanes that it reaches, those of its
  // number modulo 4. `address`: of lane 0 and the first column. `row_of`: the row of a lane, below 0 for
  // none. 16-bit elements lie two to a column. The MMAs are complete and tcgen05.fence::after_thread_sync
  // was executed.
  template <class RowOf>
  __device__ void tmem(uint32_t address, RowOf row_of) const {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || \
    (defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ >= 1000) ||        \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000)
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const uint32_t first = thread / 32 % 4 * 32;
    const int row = row_of(static_cast<int>(first + thread % 32));
    constexpr int kPacked = 4 / sizeof(T);
    for (int at = 0; at < columns; at += kPacked) {
      uint32_t word;
      asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];"
                   : "=r"(word)
                   : "r"(address + (first << 16) + at / kPacked)
                   : "memory");
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int i = 0; i < kPacked && row >= 0 && at + i < columns; ++i) {
        T value;
        const auto* halves = reinterpret_cast<const unsigned char*>(&word);
        memcpy(&value, halves + i * sizeof(T), sizeof(T));
        put(row, at + i, value);
      }
    }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    __trap();  // -arch=sm_100a also makes PTX of compute_100, which no card with tensor memory runs
#elif defined(__CUDA_ARCH__)
    static_assert(sizeof(RowOf) == 0, "tensor memory needs an architecture that has it, such as sm_100a");
#endif
  }
};

// Tiles and inputs on the host, and the folder of .npy files that they become.
class DumpFolder {
 public:
  explicit DumpFolder(std::string path) : path_(std::move(path)) {}

  // A tile in device memory, filled with NaN: elements that no thread puts are seen. Freed with the process.
  template <class T>
  DumpTile<T> tile(const std::string& name, std::vector<size_t> shape) {
    size_t count = 1;
    for (size_t length : shape) count *= length;
    const int columns = shape.empty() ? 1 : static_cast<int>(shape.back());
    void* memory = nullptr;  // the counter lies behind the elements
    const size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
    check(cudaMalloc(&memory, bytes + 16), name);
    check(cudaMemset(memory, 0xff, bytes), name);
    check(cudaMemset(static_cast<char*>(memory) + bytes, 0, 16), name);
    auto* outside = reinterpret_cast<unsigned*>(static_cast<char*>(memory) + bytes);
    tiles_.push_back({name, code<T>(), sizeof(T), shape, count, memory, outside});
    return {static_cast<T*>(memory), static_cast<int>(count / (columns ? columns : 1)), columns, outside};
  }

  // A part, whose name holds its ranges: "P[3, 0:64, 128:192]". A number is an axis of length 1.
  template <class T>
  DumpTile<T> tile(const std::string& name) {
    return tile<T>(name, ranges(name));
  }

  // A tensor or (shape {}) a number from host memory.
  template <class T>
  void save(const std::string& name, const T* values, const std::vector<size_t>& shape) const {
    npy(name, code<T>(), sizeof(T), shape, values);
  }

  // Writes every tile. Returns how many elements are missing: not put, or put outside their tile.
  size_t write() const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    size_t lost = 0;
    for (const Entry& entry : tiles_) {
      std::vector<unsigned char> values(entry.count * entry.size);
      unsigned outside = 0;
      check(cudaMemcpy(values.data(), entry.memory, values.size(), cudaMemcpyDeviceToHost), entry.name);
      check(cudaMemcpy(&outside, entry.outside, sizeof outside, cudaMemcpyDeviceToHost), entry.name);
      size_t absent = 0;
      for (size_t i = 0; i < entry.count; ++i) {
        bool all = true;
        for (size_t byte = 0; byte < entry.size; ++byte) all &= values[i * entry.size + byte] == 0xff;
        absent += all;
      }
      if (absent || outside) {
        std::fprintf(stderr, "tileproof_dump: %s: %zu of %zu elements were not put, %u outside it\n",
                     entry.name.c_str(), absent, entry.count, outside);
      }
      lost += absent + outside;
      npy(entry.name, entry.code, entry.size, entry.shape, values.data());
    }
    return lost;
  }

 private:
  struct Entry {
    std::string name;
    const char* code;
    size_t size;
    std::vector<size_t> shape;
    size_t count;
    void* memory;
    unsigned* outside;
  };

  // numpy's code of a dtype; bfloat16, which numpy does not have, as two bytes.
  template <class T>
  static const char* code() {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) return "|V2";
    if constexpr (std::is_same_v<T, __half>) return "<f2";
    if constexpr (std::is_same_v<T, float>) return "<f4";
    if constexpr (std::is_same_v<T, double>) return "<f8";
    if constexpr (std::is_same_v<T, int32_t>) return "<i4";
    if constexpr (std::is_same_v<T, int64_t>) return "<i8";
    static_assert(std::is_arithmetic_v<T> || sizeof(T) == 2, "bf16, f16, f32, f64, int32 or int64");
  }

  static void fail(const std::string& where, const char* why) {
    std::fprintf(stderr, "tileproof_dump: %s: %s\n", where.c_str(), why);
    std::exit(2);
  }
  static void check(cudaError_t error, const std::string& where) {
    if (error != cudaSuccess) fail(where, cudaGetErrorString(error));
  }

  static std::vector<size_t> ranges(const std::string& name) {
    std::vector<size_t> shape;
    const size_t open = name.find('['), close = name.rfind(']');
    if (open == std::string::npos || close != name.size() - 1) fail(name, "no ranges, and no shape given");
    for (const char* at = name.c_str() + open + 1; *at && *at != ']';) {
      char* end = nullptr;
      const long first = std::strtol(at, &end, 10);
      if (end == at || first < 0) fail(name, "a range is not written as 3 or 0:64");
      if (*end == ':') {
        at = end + 1;
        const long last = std::strtol(at, &end, 10);
        if (end == at || last <= first) fail(name, "a range is not written as 3 or 0:64");
        shape.push_back(static_cast<size_t>(last - first));
      }
      while (*end == ' ' || *end == ',') ++end;
      at = end;
    }
    return shape;
  }

  // NPY, version 1.0.
  void npy(const std::string& name, const char* code, size_t size, const std::vector<size_t>& shape,
           const void* values) const {
    std::filesystem::create_directories(path_);
    std::string axes;
    size_t count = 1;
    for (size_t length : shape) axes += std::to_string(length) + ", ", count *= length;
    std::string head =
        "{'descr': '" + std::string(code) + "', 'fortran_order': False, 'shape': (" + axes + "), }";
    head.append(63 - (10 + head.size()) % 64, ' ').push_back('\n');
    std::ofstream file(std::filesystem::path(path_) / (name + ".npy"), std::ios::binary);
    const char magic[8] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const char length[2] = {static_cast<char>(head.size() & 0xff), static_cast<char>(head.size() >> 8)};
    file.write(magic, 8).write(length, 2).write(head.data(), static_cast<std::streamsize>(head.size()));
    file.write(static_cast<const char*>(values), static_cast<std::streamsize>(count * size));
    if (!file.flush()) fail(name, "the file cannot be written");
  }

  std::string path_;
  std::vector<Entry> tiles_;
};

}  // namespace tileproof
