// What bulk copies and asynchronous stores do to each element of their destination.
#pragma once

#include "reduce.hpp"

namespace tileproof {

// `op` empty for a copy.
struct Change {
  std::optional<Reduction> op;
  AtomicType type = AtomicType::U32;
  bool flushes = false;  // subnormals of f32; kept but by tensor maps that say so (docs/assumptions.md)
  static Change of(int32_t operation, int32_t type) {
    if (!operation) return {};
    return {static_cast<Reduction>(operation - 1), static_cast<AtomicType>(type)};
  }
  void apply(uint8_t* to, const uint8_t* from, uint32_t bytes) const {
    if (op)
      reduce_row(*op, type, flushes, to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }
};

// Bytes come to shared memory of `to` and count on a barrier there. What a reduction does is atomic, and may
// meet others on the same bytes: it does not make them pending.
void land(Engine& e, Cta& to, uint32_t offset, const uint8_t* data, uint32_t size, uint32_t bar_offset,
          const Change& change, bool pending, const Origin& at);

}  // namespace tileproof
