// tensormap.replace and tensormap.cp_fenceproxy on the emulator's encoding of maps (PTX
// ISA 9.7.9.28, 9.7.13.17).
#include "machine.hpp"
#include "enumerations/tensormap.hpp"
#include "slots/tensormap.hpp"

namespace tileproof {
namespace {

// The instruction's codes of element types (PTX ISA 9.7.9.28) as CUtensorMapDataType, with their bytes.
constexpr struct {
  uint8_t code, size;
} kTypes[] = {{0, 1},  {1, 2}, {2, 4}, {3, 4},  {4, 8},  {5, 8},  {6, 2},  {7, 4},
              {10, 4}, {8, 8}, {9, 2}, {11, 4}, {12, 4}, {13, 1}, {14, 1}, {15, 1}};

// Dimension 0 of a packed type is kept in bytes of global memory.
uint64_t bytes_of(uint8_t dtype, uint64_t elements) {
  return dtype < 13 ? elements : dtype < 15 ? elements / 2 : elements * 3 / 4;
}
uint64_t elements_of(uint8_t dtype, uint64_t bytes) {
  return dtype < 13 ? bytes : dtype < 15 ? bytes * 2 : bytes * 4 / 3;
}

bool set(EncodedTensorMap& m, MapField field, size_t ordinal, uint64_t value) {
  const uint8_t small = static_cast<uint8_t>(value);
  switch (field) {
    case MapField::GlobalAddress:
      m.address = value;
      return true;
    case MapField::Rank:  // one less than the rank
      m.rank = static_cast<uint8_t>(value + 1);
      return value < 5;
    case MapField::BoxDim:
      m.box[ordinal] = static_cast<uint16_t>(ordinal ? value : bytes_of(m.dtype, value));
      return value && value <= 256;
    case MapField::GlobalDim:
      m.shape_minus_1[ordinal] = static_cast<uint32_t>((ordinal ? value : bytes_of(m.dtype, value)) - 1);
      return value != 0;
    case MapField::GlobalStride:
      m.stride[ordinal] = value;
      return value % 16 == 0 && value >> 40 == 0;
    case MapField::ElementStride:
      m.element_stride[ordinal] = small;
      return value && value <= 8;
    case MapField::Elemtype:
      if (value >= std::size(kTypes)) return false;
      m.box[0] = static_cast<uint16_t>(bytes_of(kTypes[value].code, elements_of(m.dtype, m.box[0])));
      m.shape_minus_1[0] = static_cast<uint32_t>(
          bytes_of(kTypes[value].code, elements_of(m.dtype, uint64_t{m.shape_minus_1[0]} + 1)) - 1);
      m.dtype = kTypes[value].code;
      m.element_size = kTypes[value].size;
      return true;
    case MapField::InterleaveLayout:
      return value == 0;
    case MapField::SwizzleMode:
      m.swizzle = small;
      return value <= 3;
    case MapField::SwizzleAtomicity:
      m.atomicity = small;
      return value <= 3;
    case MapField::FillMode:
      m.oob_nan = small;
      return value <= 1;
  }
  return false;
}

// The two halves of 128 bytes that a thread reads or writes.
bool read(Exec& x, Space space, uint64_t address, int lane, uint8_t* out) {
  for (uint32_t k = 0; k < 128; k += 64) {
    const uint8_t* p = x.load(space, address + k, 64, lane);
    if (!p) return false;
    std::memcpy(out + k, p, 64);
  }
  return true;
}
bool write(Exec& x, Space space, uint64_t address, int lane, const uint8_t* in) {
  for (uint32_t k = 0; k < 128; k += 64) {
    uint8_t* p = x.store(space, address + k, 64, lane);
    if (!p) return false;
    std::memcpy(p, in + k, 64);
  }
  return true;
}

Step replace(Exec& x, const Instr& i) {
  namespace s = slot::tensormap_replace;
  const MapField field = static_cast<MapField>(i.m[s::field]);
  const Space space = static_cast<Space>(i.m[s::space]);
  const bool wide = field == MapField::GlobalAddress || field == MapField::GlobalStride;
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const uint64_t address = x.src<uint64_t>(i.o[s::map])[l];
    const uint64_t value = wide ? x.src<uint64_t>(i.o[s::value])[l] : x.src<uint32_t>(i.o[s::value])[l];
    uint8_t bytes[128];
    if (!read(x, space, address, l, bytes)) return Step::Stop;
    EncodedTensorMap m;
    std::memcpy(&m, bytes, 128);
    if (std::all_of(bytes, bytes + 128, [](uint8_t b) { return b == 0; })) {
      std::memcpy(m.magic, "TPTMAP1", 8);
      std::fill(m.box, m.box + 5, uint16_t{1});
      std::fill(m.element_stride, m.element_stride + 5, uint8_t{1});
    } else if (!is_tensor_map(bytes)) {
      x.e.fault("tensormap-invalid", "the 128 bytes at " + hex(address) + " are not an encoded tensor map",
                x.origin(l), address);
      return Step::Stop;
    }
    if (!set(m, field, static_cast<size_t>(i.m[s::ordinal]), value)) {
      x.e.fault("tensormap-field",
                "tensormap.replace puts " + std::to_string(value) + " into a field that does not take it",
                x.origin(l), address);
      return Step::Stop;
    }
    std::memcpy(bytes, &m, 128);
    m.checksum = tensor_map_checksum(bytes, 120);
    std::memcpy(bytes, &m, 128);
    if (!write(x, space, address, l, bytes)) return Step::Stop;
  }
  return Step::Next;
}

// All lanes together copy once.
Step copy(Exec& x, const Instr& i) {
  namespace s = slot::tensormap_copy;
  if (!x.whole_warp()) return Step::Block;
  const int l = x.lane();
  x.order = kCollective;
  uint8_t bytes[128];
  if (!read(x, Space::SharedCta, x.src<uint32_t>(i.o[s::src])[l], l, bytes) ||
      !write(x, Space::Global, x.src<uint64_t>(i.o[s::dst])[l], l, bytes))
    return Step::Stop;
  x.order = 0;
  x.e.tell(&Listener::map_release, x);
  return Step::Next;
}

Step tensormap_fence(Exec& x, const Instr& i) {
  namespace s = slot::tensormap_fence;
  if (!i.m[s::acquires]) {
    x.e.tell(&Listener::map_release, x);
    return Step::Next;
  }
  const uint64_t* address = x.src<uint64_t>(i.o[s::map]);
  for (uint32_t left = x.mask; left;) {
    const uint64_t one = address[__builtin_ctz(left)];
    uint32_t alike = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (address[__builtin_ctz(m)] == one) alike |= 1u << __builtin_ctz(m);
    left &= ~alike;
    if (!one) {
      x.e.note("tensormap-null", "fence.proxy.tensormap acquires the map at address 0: there is none",
               x.origin(__builtin_ctz(alike)));
      continue;
    }
    if (!x.e.memory.find(one, 128)) {
      x.e.fault("global-out-of-bounds",
                "fence.proxy.tensormap acquires 128 bytes at " + hex(one) + ", outside every buffer",
                x.origin(__builtin_ctz(alike)), one);
      return Step::Stop;
    }
    x.e.tell(&Listener::map_acquire, x, alike, one);
  }
  return Step::Next;
}

const Registrar tensormaps({{"tensormap.replace", replace},
                            {"tensormap.copy", copy},
                            {"tensormap.fence", tensormap_fence}});

}  // namespace
}  // namespace tileproof
