// What bulk copies and asynchronous stores do to each element of their destination.
#pragma once

#include "reduce.hpp"

namespace tileproof {

// `op` empty for a copy.
struct Change {
  std::optional<Reduction> op;
  AtomicType type = AtomicType::U32;
  static Change of(int32_t operation, int32_t type) {
    if (!operation) return {};
    return {static_cast<Reduction>(operation - 1), static_cast<AtomicType>(type)};
  }
  // Subnormals are kept: seen on silicon, against the manual's text (docs/assumptions.md).
  void apply(uint8_t* to, const uint8_t* from, uint32_t bytes) const {
    if (!op) {
      std::memcpy(to, from, bytes);
      return;
    }
    const uint32_t n = bytes_of(type);
    for (uint32_t k = 0; k < bytes; k += n) reduce(*op, type, to + k, from + k, false);
  }
};

// Bytes come to shared memory of `to` and count on a barrier there. What a reduction does is atomic, and may
// meet others on the same bytes: it does not make them pending.
void land(Engine& e, Cta& to, uint32_t offset, const uint8_t* data, uint32_t size, uint32_t bar_offset,
          const Change& change, bool pending, const Origin& at);

}  // namespace tileproof
