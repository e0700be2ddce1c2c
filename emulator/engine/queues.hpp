// Numbers of the asynchronous queues: operations with one number complete in order of issue; 0 is unordered.
#pragma once

#include "machine.hpp"

namespace tileproof {

inline uint64_t place(const Cta& cta) {
  return (cta.cluster->serial << 4 | static_cast<uint64_t>(cta.rank)) << 16;
}
// The tensor pipeline of one thread: odd. A kernel that mixes the values of .cta_group has one for each:
// nothing says that a commit of the one covers operations of the other (PTX ISA 9.7.16.11).
constexpr uint64_t kOfGroup2 = 1 << 15;
inline uint64_t tensor_queue(const Exec& x, int lane, int cta_group) {
  return 1 + 2 * (place(x.cta) | static_cast<uint64_t>(x.w.index * 32 + lane) |
                  (x.e.mixed_groups && cta_group == 2 ? kOfGroup2 : 0));
}
// The MMAs of a warpgroup: as the tensor pipeline of its first thread, in kernels that have no other.
inline uint64_t warpgroup_queue(const Cta& cta, int first_warp) {
  return 1 + 2 * (place(cta) | static_cast<uint64_t>(first_warp * 32));
}
// The TMEM stores of one warp: even, from 2.
inline bool is_store_queue(uint64_t queue) { return queue && queue % 2 == 0; }
inline uint64_t store_queue(const Cta& cta, int warp) {
  return 2 + 2 * (place(cta) | static_cast<uint64_t>(warp));
}

}  // namespace tileproof
