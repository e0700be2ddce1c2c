// tcgen05.ld / st data movement shapes: which lane and column register i of thread t touches
// (PTX ISA 9.7.16.2.3; Copy_Traits in cute/atom/copy_traits_sm100.hpp).
#pragma once

#include <utility>

#include "enumerations/tcgen05.hpp"

namespace tileproof {

// Lane and column offsets relative to the address.
inline std::pair<int, int> tmem_place(TmemShape shape, int t, int i, int second) {
  switch (shape) {
    case TmemShape::k16x64b:
      return {t / 4 + 8 * (t % 2), 2 * i + t / 2 % 2};
    case TmemShape::k16x128b:
      return {t / 4 + 8 * (i % 2), t % 4 + 4 * (i / 2)};
    case TmemShape::k16x256b:
      return {t / 4 + 8 * (i / 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i / 4)};
    case TmemShape::k16x32bx2:
      return {t % 16, i + second * (t / 16)};
    default:
      return {t, i};
  }
}

// The first of the two cells whose low halves are the register's halves with .pack::16b or .unpack::16b: the
// columns of the shape count twice, the second column offset does not (Copy_Traits of the _16b operations).
inline std::pair<int, int> tmem_packed_place(TmemShape shape, int t, int i, int second) {
  auto [lane, column] = tmem_place(shape, t, i, 0);
  return {lane, 2 * column + (shape == TmemShape::k16x32bx2 ? second * (t / 16) : 0)};
}

inline int tmem_registers(TmemShape shape, int n) {
  return shape == TmemShape::k16x128b ? 2 * n : shape == TmemShape::k16x256b ? 4 * n : n;
}

// Columns touched, counted from the address's column; `packed`: .pack::16b or .unpack::16b.
inline int tmem_width(TmemShape shape, int n, int second, bool packed = false) {
  if (packed) n *= 2;
  switch (shape) {
    case TmemShape::k16x64b:
      return 2 * n;
    case TmemShape::k16x128b:
      return 4 * n;
    case TmemShape::k16x256b:
      return 8 * n;
    case TmemShape::k16x32bx2:
      return second + n;
    default:
      return n;
  }
}

}  // namespace tileproof
