// What a launch may print, report and hold in the memory of the host, whatever its kernel does. Output beyond
// it is cut, and the result says so; a launch that holds more ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tileproof {

constexpr size_t kMostPrintf = 1 << 20;     // bytes of printf: a card's buffer by default (CUDA C++ guide)
constexpr size_t kMostString = 4096;        // of a string argument
constexpr int kMostField = 1024;            // width and precision of a conversion
constexpr size_t kMostFindings = 4096;      // of a severity
constexpr size_t kMostListed = 1 << 16;     // mbarrier.init counts, and byte counts of phases
constexpr size_t kMostInFlight = 1 << 20;   // asynchronous operations
constexpr uint64_t kMostHeld = 2ull << 30;  // bytes of captures, of data on its way, of groups of copies
constexpr uint64_t kMostRecordedWords = 1ull << 28;  // of results of recorded instructions
constexpr uint64_t kGroupBytes = 64;                 // about what a committed group of copies takes
constexpr size_t kMostAccesses = 1 << 25;            // of resident clusters, that the race checker knows
constexpr size_t kMostDecisions = 1 << 20;           // of a recorded schedule
constexpr size_t kMostPoisonSets = 1 << 18, kMostPoisonReads = 1 << 25;  // sets of reads, reads in all sets

}  // namespace tileproof
