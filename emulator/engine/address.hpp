// The address of a memory operand [base + displacement].
#pragma once

#include "machine.hpp"

namespace tileproof {

// `width`: bytes of the base register; INT32_MIN for no base.
inline uint64_t address_of(const Exec& x, int32_t slot, int64_t displacement, int32_t width, int lane) {
  uint64_t base = 0;
  if (slot != INT32_MIN) base = width == 4 ? x.src<uint32_t>(slot)[lane] : x.src<uint64_t>(slot)[lane];
  const uint64_t a = base + static_cast<uint64_t>(displacement);
  return width == 4 ? a & 0xffffffffu : a;
}

}  // namespace tileproof
