// Numbers of the asynchronous queues: operations with one number complete in order of issue; 0 is unordered.
#pragma once

#include "machine.hpp"

namespace tileproof {

inline uint64_t place(const Cta& cta) {
  return (cta.cluster->serial << 4 | static_cast<uint64_t>(cta.rank)) << 16;
}
// The tensor pipeline of one thread: odd.
inline uint64_t tensor_queue(const Cta& cta, int warp, int lane) {
  return 1 + 2 * (place(cta) | static_cast<uint64_t>(warp * 32 + lane));
}
// The TMEM stores of one warp: even, from 2.
inline bool is_store_queue(uint64_t queue) { return queue && queue % 2 == 0; }
inline uint64_t store_queue(const Cta& cta, int warp) {
  return 2 + 2 * (place(cta) | static_cast<uint64_t>(warp));
}

}  // namespace tileproof
