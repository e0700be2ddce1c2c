// Registers that tcgen05.ld filled from cells of tensor memory which nothing has written. Loading them is
// legal (a tile's padding columns are loaded and dropped); the first use is the defect.
#pragma once

#include <cstdint>
#include <vector>

#include "findings.hpp"

namespace tileproof {

struct PoisonRegister {
  int32_t offset = -1;  // in the warp's register file, -1: free
  uint32_t lanes = 0;
  Origin load;                    // the tcgen05.ld, with the first thread that got poison
  int tmem_lane = 0, column = 0;  // of the cell that this thread got
};

class PoisonRegisters {
 public:
  void clear() {
    registers_.clear();
    index_.clear();
    live_ = 0;
  }
  bool any() const { return live_ > 0; }
  PoisonRegister* at(int32_t offset) {
    if (offset < 0 || index_.empty()) return nullptr;
    const uint16_t n = index_[static_cast<size_t>(offset) / 64];
    return n ? &registers_[n - 1u] : nullptr;
  }
  // `units` 64-byte units are the register file.
  void mark(size_t units, const PoisonRegister& r);
  // These lanes hold something else now.
  void drop(int32_t offset, uint32_t lanes);

 private:
  std::vector<PoisonRegister> registers_;
  std::vector<uint16_t> index_;  // by offset / 64: place in registers_ + 1
  int live_ = 0;
};

}  // namespace tileproof
