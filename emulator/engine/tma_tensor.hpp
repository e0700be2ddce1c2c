// One tensor copy: its box, where each piece of it lies in global and in shared memory, and the bytes of a
// load.
#pragma once

#include "machine.hpp"

namespace tileproof {

// A packed element type: its bits, and the bytes of 16 elements in global and in shared memory, where the
// rest is padding (PTX ISA 5.5.1.1). Extents and coordinates of dimension 0 are in bytes of global memory
// then.
struct Packing {
  int64_t bits;
  uint32_t here, there;
  bool padded() const { return here != there; }
};
constexpr Packing packing(int32_t dtype) {  // of CUtensorMapDataType
  return dtype == 13   ? Packing{4, 8, 8}
         : dtype == 14 ? Packing{4, 8, 16}
         : dtype == 15 ? Packing{6, 12, 16}
                       : Packing{0, 16, 16};
}

// One tensor copy between issue and completion.
struct Tensor {
  Origin origin;
  TensorMap map;
  const GlobalBuffer* map_in = nullptr;  // null: in the parameters
  uint64_t map_at = 0;
  bool four = false;
  std::array<int64_t, 5> at{};   // box corner, innermost first; of four rows at[0] is the column
  std::array<int64_t, 4> row{};  // of gather4 or scatter4
  std::vector<std::array<int64_t, 5>> pixels;  // im2col: coordinates of each
  uint32_t row_bytes = 0;
  uint32_t rows = 1;
  uint32_t bytes() const { return rows * row_bytes; }
  // In shared memory: with a swizzle each row of the box starts a row of the atom (seen on silicon).
  uint32_t shared_row() const {
    const Packing p = packing(map.dtype);
    return p.padded() ? row_bytes / p.here * p.there : row_bytes;
  }
  uint32_t pitch() const { return map.swizzle ? 16u << std::min(map.swizzle, 3) : shared_row(); }
  uint32_t footprint() const { return (rows - 1) * pitch() + shared_row(); }
};

// False when the box is larger than any shared memory.
bool shape_rows(Tensor& t);
// Global address of image row `index` and whether its outer coordinates lie inside the tensor.
bool row_address(const Tensor& t, uint32_t index, uint64_t& address);
// Bytes of a row that a store writes: the card clips the innermost dimension in units of 16 bytes, and so may
// write past the tensor's end (seen on silicon).
uint32_t stored_bytes(const Tensor& t);
// The packed bytes of a load, row after row, filled where the tensor ends; false after a fault.
bool build_image(Engine& e, const Tensor& t, std::vector<uint8_t>& image);
// The pixels of a column (PTX ISA 5.5.4): from the given one on, along W, H, D inside the box, then to the
// next image; the offsets are added to each.
void walk_pixels(Tensor& t, const std::array<int64_t, 3>& offsets);

// Calls f(image offset, shared offset, bytes, bytes with padding) for each chunk of the swizzled image at
// `base` that stays whole.
template <class F>
void chunks(const Tensor& t, uint32_t base, F&& f) {
  const Packing p = packing(t.map.dtype);
  const uint32_t chunk = p.padded()           ? p.here
                         : t.map.swizzle == 5 ? 8
                                              : 16,
                 room = p.padded() ? p.there : chunk;
  for (uint32_t r = 0; r < t.rows; ++r)
    for (uint32_t c = 0; c < t.row_bytes; c += chunk) {
      const uint32_t a = base + r * t.pitch() + c / chunk * room;
      f(r * t.row_bytes + c, t.map.swizzle ? swizzle_address(a, t.map.swizzle) : a, chunk, room);
    }
}

// A chunk lands; its padding is not initialised then, whatever lay there.
void land(Engine& e, Cta& cta, uint32_t offset, const uint8_t* in, uint32_t bytes, uint32_t room,
          bool pending, const Origin& at);
// A chunk of what a store sends: of 6-bit elements the low bits of each byte (.b6p2x16). Of a chunk that is
// not `kept`, since it lies outside the tensor, the values do not matter.
void send(Engine& e, Cta& cta, uint32_t offset, uint8_t* out, uint32_t bytes, uint32_t room, bool kept,
          const Origin& at);

}  // namespace tileproof
