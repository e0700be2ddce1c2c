// What a trace holds besides, where the path of each warp is asked for: how the lanes of an access lie in
// shared memory and in global memory, and groups of copies. Its events have kinds behind those of `Event`:
// PATH_KINDS in emulator/trace.py.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trace.hpp"

namespace tileproof {

// What the lanes of one instruction touch: {offset, bytes} in the order of the lanes, each 1 to 16 bytes.
using LaneBytes = std::vector<std::pair<uint32_t, uint32_t>>;

// Passes over the 32 banks: 8 lanes of 16 bytes, 16 of 8 or 32 of less go together, 4 bytes a bank; different
// words of one bank come one after the other, equal ones at once (CUDA C++ programming guide; measured,
// docs/evidence).
uint32_t bank_passes(const LaneBytes& lanes);

// What the lanes of one instruction touch in global memory: lines of 128 bytes, those that a single lane
// touches, and the sectors of 32 bytes in the others.
struct Touched {
  uint32_t lines = 0, single = 0, sectors = 0;
};
using LaneAddresses = std::vector<std::pair<uint64_t, uint32_t>>;  // {address, bytes}
Touched touched(const LaneAddresses& lanes);

std::unique_ptr<Trace> path_trace(const Engine& engine);

}  // namespace tileproof
