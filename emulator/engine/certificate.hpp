// The result of the certificate of a launch (docs/certificate.md): counts of obligations, and what depends on
// the schedule although nothing races.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "config.hpp"
#include "findings.hpp"

namespace tileproof {

// How many pairs of events the certificate needs an order of, by kind.
struct Obligations {
  uint64_t arrivals = 0;       // counted in no earlier phase
  uint64_t waits = 0;          // start after the phase before is complete
  uint64_t held = 0;           // end before the next phase is complete
  uint64_t announcements = 0;  // before an arrival of their phase
};

// Why a launch that has no race may still depend on the schedule.
struct Doubt {
  const char* reason = "";
  std::string text;
  Origin at, other;
  // Of two events, what holds back the first in a replay; step kNoStep: not known.
  Decision hold{0, kNoStep};
  bool first_column = false;  // what decides is where an allocation begins
  uint64_t count = 1;
};

// What reductions without a result add to global memory, as a multiset of (address, operand): sums of hashes,
// which do not depend on the order.
struct Additions {
  std::array<uint64_t, 2> sums{};
  void add(uint64_t address, const uint8_t* operand, uint32_t bytes) {
    uint64_t first = sums[0], second = sums[1];
    const auto add_word = [&](uint32_t k, uint32_t size) {
      uint32_t word = 0;
      std::memcpy(&word, operand + k, size);
      uint64_t h = (address + k) * 0x9e3779b97f4a7c15u ^ word;
      h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
      h = (h ^ h >> 27) * 0x94d049bb133111ebu;
      first += h ^ h >> 31;
      second += (h ^ h >> 29) * 0xff51afd7ed558ccdu;
    };
    uint32_t k = 0;
    for (; k + 4 <= bytes; k += 4) add_word(k, 4);
    if (k < bytes) add_word(k, bytes - k);
    sums = {first, second};
  }
};

}  // namespace tileproof
