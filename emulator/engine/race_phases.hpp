// What is counted in each phase of an mbarrier (docs/certificate.md).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "certificate.hpp"
#include "config.hpp"
#include "race_clock.hpp"

namespace tileproof {

// An arrival, an announcement of bytes, a delivery or a wait.
struct PhaseEvent {
  uint32_t agent = 0;  // its warp; 0: asynchronous, over only for who has waited for its phase
  Tick tick = 0;
  uint32_t lanes = 0;
  Origin at;
  enum Kind : uint8_t { Other, ArriveExpectTx, Delivery } kind = Other;
  // What holds it back in a replay; step kNoStep: not known.
  Decision hold{0, kNoStep};
  // Of an announcement: bytes that were announced before it are delivered after it alone.
  bool held_open = false;
};

// The events of one mbarrier.
struct Phases {
  // Counted in the phase under way, in the last complete phase, and in the phase before.
  std::array<std::vector<PhaseEvent>, 3> counted;
  std::vector<PhaseEvent> announced;  // bytes without an arrival, which no arrival of the phase follows yet
  std::vector<PhaseEvent> waits;      // over since the last phase was complete
  PhaseEvent inval;                   // agent 0: none
};

// Who acts, and what it has seen.
struct Actor {
  const Knowledge* know;
  uint32_t agent;
  uint32_t lanes;
  Tick now;
  Tick together;  // up to here all lanes of the warp have run
};

}  // namespace tileproof
