// Tensor maps as the engine sees them: the 128 bytes that emulator/tensormap.py encodes, decoded and cached.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace tileproof {

struct TensorMap {
  uint64_t address = 0;
  int32_t rank = 0;
  int32_t element_size = 0;
  int32_t dtype = 0;
  int32_t swizzle = 0;  // CUtensorMapSwizzle: 0 none, 1 32B, 2 64B, 3 128B, 4 to 6 128B in other atoms
  int32_t oob_nan = 0;
  bool im2col = false;                      // box[0] channels per pixel, box[1] pixels per column
  std::array<int32_t, 3> lower{}, upper{};  // im2col: corners of the pixel box, W first
  std::array<int64_t, 5> shape{};
  std::array<int64_t, 5> stride{};  // bytes; stride[0] = element_size
  std::array<int32_t, 5> box{};
  std::array<int32_t, 5> element_stride{};
};

// Byte image of emulator/tensormap.py `encode`: see its docstring for the fields.
struct EncodedTensorMap {
  char magic[8];
  uint64_t address;
  uint8_t rank, element_size, dtype, swizzle, oob_nan, atomicity, mode, pad0;
  uint32_t shape_minus_1[5];
  uint32_t pad1;
  uint64_t stride[4];
  uint16_t box[5];
  uint8_t element_stride[5];
  uint8_t pad2;
  int16_t lower[3], upper[3];
  uint8_t pad3[12];
  uint32_t checksum;
  uint32_t pad4;
};
static_assert(sizeof(EncodedTensorMap) == 128);

inline uint32_t tensor_map_checksum(const uint8_t* bytes, size_t n) {
  uint32_t h = 2166136261u;  // FNV-1a
  for (size_t i = 0; i < n; ++i) h = (h ^ bytes[i]) * 16777619u;
  return h;
}

// The first field that the driver would not have encoded, with what it holds and what is expected; empty:
// none.
std::string wrong_tensor_map(const EncodedTensorMap& m);

// Whether 128 bytes are an encoded map at all, whatever its fields hold.
inline bool is_tensor_map(const uint8_t* bytes) {
  EncodedTensorMap e;
  std::memcpy(&e, bytes, sizeof e);
  return std::memcmp(e.magic, "TPTMAP1", 8) == 0 && e.checksum == tensor_map_checksum(bytes, 120);
}

class TensorMapCache {
 public:
  // The map in 128 bytes, checked; null when it is none, with what is wrong with a field (empty: the bytes
  // are no map).
  const TensorMap* get(const uint8_t* bytes, std::string& wrong) {
    wrong.clear();
    auto it = cache_.find(bytes);
    if (it != cache_.end() && std::memcmp(it->second.raw.data(), bytes, 128) == 0) return &it->second.map;
    if (!is_tensor_map(bytes)) return nullptr;
    EncodedTensorMap e;
    std::memcpy(&e, bytes, 128);
    wrong = wrong_tensor_map(e);
    if (!wrong.empty()) return nullptr;
    Entry entry;
    std::memcpy(entry.raw.data(), bytes, 128);
    TensorMap& m = entry.map;
    m.address = e.address;
    m.rank = e.rank;
    m.element_size = e.element_size;
    m.dtype = e.dtype;
    m.swizzle = e.swizzle == 3 ? 3 + e.atomicity : e.swizzle;
    m.im2col = e.mode == 1;
    for (size_t d = 0; d < 3; ++d) {
      m.lower[d] = e.lower[d];
      m.upper[d] = e.upper[d];
    }
    m.oob_nan = e.oob_nan;
    m.stride[0] = e.element_size;
    for (size_t d = 0; d < 5; ++d) {
      m.shape[d] = static_cast<int64_t>(e.shape_minus_1[d]) + 1;
      m.box[d] = e.box[d];
      m.element_stride[d] = e.element_stride[d];
      if (d) m.stride[d] = static_cast<int64_t>(e.stride[d - 1]);
    }
    auto& slot = cache_[bytes];
    slot = entry;
    return &slot.map;
  }

 private:
  struct Entry {
    std::array<uint8_t, 128> raw;
    TensorMap map;
  };
  std::unordered_map<const uint8_t*, Entry> cache_;
};

// Where the byte at unswizzled address x lies. Address bits [7, 7+B) are XORed onto bits [4, 4+B) (PTX
// ISA 5.5.7; B = 1, 2, 3 for 32B, 64B, 128B). With atoms of 32 or 64 bytes the bits from 7 on go onto those
// from 5 or 6 on; the flip swaps the halves of 16 bytes in every other line.
inline uint32_t swizzle_address(uint32_t x, int32_t mode) {
  if (mode <= 3) return x ^ ((x & (((1u << mode) - 1) << 7)) >> 3);
  if (mode == 6) return x ^ ((x >> 7 & 1) << 6);
  return x ^ ((x >> 7 & 3) << 5) ^ (mode == 5 ? (x >> 7 & 1) << 3 : 0);
}

}  // namespace tileproof
