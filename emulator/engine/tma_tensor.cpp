#include "tma_tensor.hpp"

#include "poison_memory.hpp"
#include "reduce.hpp"

namespace tileproof {
namespace {

// Elements [first, last) of a row that lie inside dimension 0.
void clip(const Tensor& t, int64_t& first, int64_t& last) {
  const int64_t n = t.map.box[0];
  first = std::min(n, std::max<int64_t>(0, -t.at[0]));
  last = std::max(first, std::min(n, t.map.shape[0] - t.at[0]));
}

// The NaN request writes 0x7ff7, of f32 twice (seen on an H200 and an H100).
void fill(const Tensor& t, uint8_t* p, uint32_t bytes) {
  if (!t.map.oob_nan) {
    std::memset(p, 0, bytes);
    return;
  }
  const uint32_t size = static_cast<uint32_t>(t.map.element_size);
  const uint32_t pattern = 0x7ff77ff7;
  for (uint32_t k = 0; k < bytes; k += size) std::memcpy(p + k, &pattern, size);
}

// The TFLOAT32 types round to 10 bits of mantissa (CUDA driver API). A load of an _FTZ type keeps subnormals
// (seen on an H100).
void convert(const Tensor& t, uint8_t* p, uint32_t bytes) {
  if (t.map.dtype != 11 && t.map.dtype != 12) return;
  for (uint32_t k = 0; k < bytes; k += 4) {
    uint32_t u;
    std::memcpy(&u, p + k, 4);
    u = (u & 0x7fffffff) > 0x7f800000 ? 0x7fffe000u : (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
    std::memcpy(p + k, &u, 4);
  }
}

}  // namespace

bool shape_rows(Tensor& t) {
  t.row_bytes = static_cast<uint32_t>(t.map.box[0] * t.map.element_size);
  uint64_t rows = t.four ? 4 : t.map.im2col ? t.pixels.size() : 1;
  if (!t.four && !t.map.im2col)
    for (int d = 1; d < t.map.rank; ++d) {
      const int e = t.map.element_stride[static_cast<size_t>(d)];
      rows *= static_cast<uint64_t>((t.map.box[static_cast<size_t>(d)] + e - 1) / e);
    }
  t.rows = static_cast<uint32_t>(rows);
  return rows * t.pitch() <= kMaxSharedBytes;
}

bool row_address(const Tensor& t, uint32_t index, uint64_t& address) {
  address = t.map.address;
  if (t.map.im2col) {
    bool inside = true;
    for (size_t k = 1; k < static_cast<size_t>(t.map.rank); ++k) {
      const int64_t c = t.pixels[index][k];
      inside &= c >= 0 && c < t.map.shape[k];
      address += static_cast<uint64_t>(c) * static_cast<uint64_t>(t.map.stride[k]);
    }
    return inside;
  }
  if (t.four) {
    const int64_t r = t.row[index];
    address += static_cast<uint64_t>(r) * static_cast<uint64_t>(t.map.stride[1]);
    return r >= 0 && r < t.map.shape[1];
  }
  bool inside = true;
  for (int d = 1; d < t.map.rank; ++d) {
    const size_t k = static_cast<size_t>(d);
    const int e = t.map.element_stride[k];
    const uint32_t n = static_cast<uint32_t>((t.map.box[k] + e - 1) / e);
    const int64_t c = t.at[k] + static_cast<int64_t>(index % n) * e;
    index /= n;
    inside &= c >= 0 && c < t.map.shape[k];
    address += static_cast<uint64_t>(c) * static_cast<uint64_t>(t.map.stride[k]);
  }
  return inside;
}

uint32_t stored_bytes(const Tensor& t) {
  const int64_t inside = std::max<int64_t>(0, t.map.shape[0] - t.at[0]) * t.map.element_size;
  return static_cast<uint32_t>(std::min<int64_t>(t.row_bytes, (inside + 15) / 16 * 16));
}

bool build_image(Engine& e, const Tensor& t, std::vector<uint8_t>& image) {
  image.resize(t.bytes());
  const int64_t size = t.map.element_size;
  int64_t first, last;
  clip(t, first, last);
  for (uint32_t r = 0; r < t.rows; ++r) {
    uint8_t* out = &image[r * t.row_bytes];
    uint64_t address;
    if (!row_address(t, r, address) || first >= last) {
      fill(t, out, t.row_bytes);
      continue;
    }
    const uint8_t* in = e.async_read_global(address + static_cast<uint64_t>((t.at[0] + first) * size),
                                            static_cast<uint32_t>((last - first) * size), t.origin);
    if (!in) return false;
    fill(t, out, static_cast<uint32_t>(first * size));
    std::memcpy(out + first * size, in, static_cast<size_t>((last - first) * size));
    convert(t, out + first * size, static_cast<uint32_t>((last - first) * size));
    fill(t, out + last * size, t.row_bytes - static_cast<uint32_t>(last * size));
  }
  return true;
}

void land(Engine& e, Cta& cta, uint32_t offset, const uint8_t* in, uint32_t bytes, uint32_t room,
          bool pending, const Origin& at) {
  if (bytes == room) {
    e.async_write_shared(cta, offset, in, bytes, pending, at);
    return;
  }
  uint8_t whole[16];
  std::memset(whole, kPoisonByte, sizeof whole);
  std::memcpy(whole, in, bytes);
  e.async_write_shared(cta, offset, whole, room, pending, at);
  for (uint32_t k = bytes; k < room; ++k) cta.shared.state[offset + k] &= static_cast<uint8_t>(~kValid);
}

void send(Engine& e, Cta& cta, uint32_t offset, uint8_t* out, uint32_t bytes, uint32_t room, bool kept,
          const Origin& at) {
  uint8_t whole[16];
  uint8_t* read = bytes == room ? out : whole;
  PoisonId unused = 0;
  if (kept)
    e.read_shared(cta, offset, room, read, at, "a tensor store");
  else
    follow_bytes(e, cta, offset, room, read, at, "a tensor store", unused);
  if (bytes == room) return;
  std::memset(out, 0, bytes);
  for (uint32_t k = 0; k < 16; ++k)
    for (uint32_t b = 0; b < 6; ++b)
      out[(6 * k + b) / 8] |= static_cast<uint8_t>((whole[k] >> b & 1) << (6 * k + b) % 8);
}

void walk_pixels(Tensor& t, const std::array<int64_t, 3>& offsets) {
  const size_t spatial = static_cast<size_t>(t.map.rank - 2);
  std::array<int64_t, 5> c = t.at;
  for (int32_t n = 0; n < t.map.box[1]; ++n) {
    std::array<int64_t, 5> at = c;
    for (size_t k = 0; k < spatial; ++k) at[k + 1] += offsets[k];
    t.pixels.push_back(at);
    size_t k = 0;
    for (; k < spatial; ++k) {
      c[k + 1] += t.map.element_stride[k + 1];
      if (c[k + 1] < t.map.shape[k + 1] + t.map.upper[k]) break;
      c[k + 1] = t.map.lower[k];
    }
    if (k == spatial) ++c[spatial + 1];
  }
}

}  // namespace tileproof
