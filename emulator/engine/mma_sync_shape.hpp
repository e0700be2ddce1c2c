// Which registers of an mma.sync hold which rows and columns (PTX ISA 9.7.14.5).
#pragma once

#include <algorithm>

#include "enumerations/mma_sync.hpp"
#include "program.hpp"
#include "slots/mma_sync.hpp"

namespace tileproof {

inline int bits_of(MmaOperand t) {
  switch (t) {
    case MmaOperand::F16:
    case MmaOperand::Bf16:
      return 16;
    case MmaOperand::Tf32:
      return 32;
    case MmaOperand::S4:
    case MmaOperand::U4:
      return 4;
    case MmaOperand::F64:
      return 64;
    default:
      return 8;
  }
}

struct MmaSyncShape {
  int m, k;
  int nd, na, nb;         // registers of D (and of C), A and B, which stand in vec in this order, C last
  int cells, cell_bytes;  // of D in a register: two of f16 in a row, else a single cell

  explicit MmaSyncShape(const Instr& i) : m(i.m[slot::mma_sync::rows]), k(i.m[slot::mma_sync::k]) {
    const int per = std::max(1, 32 / bits_of(static_cast<MmaOperand>(i.m[slot::mma_sync::a_type])));
    const MmaResult result = static_cast<MmaResult>(i.m[slot::mma_sync::d_type]);
    cells = result == MmaResult::F16 ? 2 : 1;
    cell_bytes = result == MmaResult::F16 ? 2 : result == MmaResult::F64 ? 8 : 4;
    nd = m * 8 / (32 * cells);
    na = m * k / (32 * per);
    nb = 8 * k / (32 * per);
  }
  int row_of_a(int lane, int r) const { return lane / 4 + 8 * (r % (m / 8)); }
  int row_of_d(int lane, int r) const { return lane / 4 + 8 * (cells == 2 ? r : r / 2); }
  int column_of_d(int lane, int r, int part) const { return 2 * (lane % 4) + (cells == 2 ? part : r % 2); }
};

}  // namespace tileproof
