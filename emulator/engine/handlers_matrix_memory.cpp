// ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 to 17). The layouts of 8-bit elements follow from the
// figures of the ISA and from CuTe's Copy_Traits<SM100_U8x8_LDSM_T> and its neighbours
// (copy_traits_sm100.hpp).
#include <array>

#include "alu.hpp"
#include "slots/matrix_memory.hpp"

namespace tileproof {
namespace {

constexpr uint32_t kRow = 16;  // bytes of every row

bool full_warp(Exec& x, const char* what) {
  if (x.w.live == ~0u) return true;
  x.e.fault("aligned-partial",
            std::string(what) + " in a warp whose lanes " + hex(~x.w.live) +
                " have exited or do not exist: all 32 hold a part",
            x.origin(x.lane()));
  return false;
}

// The address that `lane` gives, in its CTA's shared window. False after a fault.
bool row_address(Exec& x, const Instr& i, int32_t base, int32_t bytes, int32_t space, int lane,
                 uint64_t& address) {
  address = static_cast<uint64_t>(i.imm);
  if (base != INT32_MIN) address += bytes == 4 ? x.src<uint32_t>(base)[lane] : x.src<uint64_t>(base)[lane];
  if (bytes == 4) address &= 0xffffffffu;
  if (static_cast<Space>(space) == Space::Generic) {
    if (address - kSharedWindow >= kWindowSize) {
      x.e.fault("shared-wrong-window", "a generic address outside shared memory: " + hex(address),
                x.origin(lane), address);
      return false;
    }
    address -= kSharedWindow;
  }
  if (address % kRow) {
    x.e.fault("misaligned", "a matrix row at " + hex(address) + "; rows begin at multiples of 16 bytes",
              x.origin(lane), address);
    return false;
  }
  return true;
}

Step ldmatrix(Exec& x, const Instr& i) {
  namespace s = slot::ldmatrix;
  if (!x.whole_warp()) return Step::Block;
  if (!full_warp(x, "ldmatrix")) return Step::Stop;
  const int width = i.m[s::width];
  const bool wide = i.m[s::unpacked] || width == 8;  // elements of 8 bits in the registers
  const bool square = wide && i.m[s::trans];         // m16n16
  const int rows = square ? 16 : 8, count = i.m[s::matrices];
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  uint8_t row[4][16][kRow];
  uint8_t poison[4][16][kRow];  // bits that nobody wrote, where there are some
  PoisonId sets[4][16] = {};
  bool some = false;
  Unwritten unwritten;
  x.unwritten = &unwritten;
  auto look = [&](int lane) {
    if (!unwritten.bytes) return;
    if (!some) std::memset(poison, 0, sizeof poison);
    some = true;
    PoisonId& set = sets[lane / rows][lane % rows];
    set = x.e.poisons.both(set, unwritten.set);
    for (uint32_t k = 0; k < kRow; ++k)
      if (i.m[s::unpacked] || unwritten.bytes >> k & 1) poison[lane / rows][lane % rows][k] = 0xff;
    unwritten.bytes = 0;
  };
  for (int lane = 0; lane < rows * count; ++lane) {
    uint64_t address;
    if (!row_address(x, i, i.o[s::base], i.m[s::address_bytes], i.m[s::space], lane, address))
      return Step::Stop;
    uint8_t* to = row[lane / rows][lane % rows];
    if (!i.m[s::unpacked]) {
      const uint8_t* p = x.load(Space::SharedCta, address, kRow, lane);
      if (!p) return Step::Stop;
      std::memcpy(to, p, kRow);
      look(lane);
      continue;
    }
    uint8_t packed[12] = {};  // the padding is not read
    for (uint32_t at = 0; at < static_cast<uint32_t>(2 * width); at += 4) {
      const uint8_t* p = x.load(Space::SharedCta, address + at, 4, lane);
      if (!p) return Step::Stop;
      std::memcpy(packed + at, p, 4);
      look(lane);
    }
    for (int k = 0; k < 16; ++k) {
      const int bit = k * width;
      const uint32_t two = packed[bit / 8] | (bit / 8 + 1 < 12 ? packed[bit / 8 + 1] << 8 : 0);
      to[k] = static_cast<uint8_t>(two >> (bit % 8) & ((1u << width) - 1));
    }
  }
  x.unwritten = nullptr;
  // Byte j of register r of lane l: matrix, row and byte.
  auto place = [&](int l, int r, int j) -> std::array<int, 3> {
    const int g = l / 4, t = l % 4;
    if (square)  // register 2k + h: row g + 8 h of the transposed matrix k, elements 4 t + j
      return {r / 2, 4 * t + j, g + 8 * (r % 2)};
    if (i.m[s::trans]) return {r, 2 * t + j / 2, 2 * g + j % 2};
    return {r, g, 4 * t + j};
  };
  for (int l = 0; l < 32; ++l)
    for (int32_t r = 0; r < i.nvec; ++r) {
      uint8_t* out = x.dst<uint8_t>(regs[r]) + 4 * l;
      for (int j = 0; j < 4; ++j) {
        const auto [matrix, at, byte] = place(l, r, j);
        out[j] = row[matrix][at][byte];
      }
    }
  for (int32_t r = 0; r < i.nvec && x.w.poison.any(); ++r) x.w.poison.drop(regs[r], ~0u);
  for (int l = 0; l < 32 && some; ++l)
    for (int32_t r = 0; r < i.nvec; ++r) {
      uint8_t bits[4];
      PoisonId set = 0;
      for (int j = 0; j < 4; ++j) {
        const auto [matrix, at, byte] = place(l, r, j);
        bits[j] = poison[matrix][at][byte];
        if (bits[j]) set = x.e.poisons.both(set, sets[matrix][at]);
      }
      if (set) x.e.mark_poison(x.w, regs[r], l, bits, set);
    }
  return Step::Next;
}

Step stmatrix(Exec& x, const Instr& i) {
  namespace s = slot::stmatrix;
  if (!x.whole_warp()) return Step::Block;
  if (!full_warp(x, "stmatrix")) return Step::Stop;
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  // Byte j of register r of lane l: matrix, row and byte.
  auto place = [&](int l, int r, int j) -> std::array<int, 3> {
    const int g = l / 4, t = l % 4;
    if (i.m[s::width] == 8)  // m16n8: elements (g + 8 (j / 2), 2 t + j % 2), columns become rows
      return {r, 2 * t + j % 2, g + 8 * (j / 2)};
    if (i.m[s::trans]) return {r, 2 * t + j / 2, 2 * g + j % 2};
    return {r, g, 4 * t + j};
  };
  uint8_t row[4][8][kRow], poison[4][8][kRow] = {};
  PoisonId sets[4][8] = {};
  for (int l = 0; l < 32; ++l)
    for (int32_t r = 0; r < i.nvec; ++r) {
      const uint8_t* in = x.src<uint8_t>(regs[r]) + 4 * l;
      const PoisonRegister* p = x.w.poison.at(regs[r]);
      if (p && !(p->lanes >> l & 1)) p = nullptr;
      for (int j = 0; j < 4; ++j) {
        const auto [matrix, at, byte] = place(l, r, j);
        row[matrix][at][byte] = in[j];
        if (!p || !p->lane(l)[j]) continue;
        poison[matrix][at][byte] = 0xff;
        sets[matrix][at] = x.e.poisons.both(sets[matrix][at], p->set[static_cast<size_t>(l)]);
      }
    }
  for (int lane = 0; lane < 8 * i.m[s::matrices]; ++lane) {
    uint64_t address;
    if (!row_address(x, i, i.o[s::base], i.m[s::address_bytes], i.m[s::space], lane, address))
      return Step::Stop;
    uint8_t* p = x.store(Space::SharedCta, address, kRow, lane);
    if (!p) return Step::Stop;
    std::memcpy(p, row[lane / 8][lane % 8], kRow);
    if (const PoisonId set = sets[lane / 8][lane % 8])
      x.e.store_poison(x.cta, static_cast<uint32_t>(address) & kOffsetMask, poison[lane / 8][lane % 8], kRow,
                       set);
  }
  return Step::Next;
}

Step movmatrix(Exec& x, const Instr& i) {
  if (!x.whole_warp()) return Step::Block;
  if (!full_warp(x, "movmatrix")) return Step::Stop;
  uint16_t in[8][8];
  std::memcpy(in, x.src<uint32_t>(i.o[slot::movmatrix::a]),
              sizeof in);  // lane 4 g + t holds (g, 2 t) and (g, 2 t + 1)
  uint16_t out[8][8];
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) out[r][c] = in[c][r];
  std::memcpy(x.dst<uint32_t>(i.o[slot::movmatrix::dst]), out, sizeof out);
  return Step::Next;
}

const Registrar matrix_memory({{"ldmatrix", ldmatrix}, {"stmatrix", stmatrix}, {"movmatrix", movmatrix}});

}  // namespace
}  // namespace tileproof
