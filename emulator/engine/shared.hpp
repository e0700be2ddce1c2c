// Per-CTA on-chip state: shared memory with its mbarriers, tensor memory, named barriers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "poison.hpp"
#include "program.hpp"
#include "trace.hpp"

namespace tileproof {

// State byte of a shared-memory byte or a TMEM cell.
//   bit 0      written and visible
//   bit 7      part of a live mbarrier object (shared memory only)
//   bits 1..6  asynchronous writes issued and not yet complete
constexpr uint8_t kValid = 1;
constexpr uint8_t kMbarrier = 0x80;
constexpr uint8_t kPendingOne = 2;
constexpr uint8_t kPendingMask = 0x7e;

// What a read of something never written yields: a NaN in bf16, f16 and f32 alike.
constexpr uint8_t kPoisonByte = 0xff;
constexpr uint32_t kPoisonWord = 0xffffffffu;

inline void add_pending(uint8_t* state, size_t n) {
  constexpr uint64_t kOne = 0x0101010101010101ull * kPendingOne, kFull = 0x0101010101010101ull * kPendingMask;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    std::memcpy(&w, state + i, 8);
    if (((w & kFull) + kOne) & ~kFull) break;  // a count that is full stays so
    w += kOne;
    std::memcpy(state + i, &w, 8);
  }
  for (; i < n; ++i)
    if ((state[i] & kPendingMask) != kPendingMask) state[i] = static_cast<uint8_t>(state[i] + kPendingOne);
}

// Eight at a time where they are what they mostly are: valid, with no write pending or with one.
inline void complete_pending(uint8_t* state, size_t n) {
  size_t i = 0;
  constexpr uint64_t kAll = 0x0101010101010101ull;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    std::memcpy(&w, state + i, 8);
    if (w == kAll * kValid) continue;
    if (w != kAll * (kValid | kPendingOne)) break;
    w = kAll * kValid;
    std::memcpy(state + i, &w, 8);
  }
  for (; i < n; ++i)
    state[i] = static_cast<uint8_t>((state[i] - (state[i] & kPendingMask ? kPendingOne : 0)) | kValid);
}

inline bool all_valid(const uint8_t* state, size_t n) {
  size_t i = 0;
  uint64_t other = 0;  // without a branch in the loop, which becomes one on vectors
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    std::memcpy(&w, state + i, 8);
    other |= w ^ 0x0101010101010101ull;
  }
  for (; i < n; ++i) other |= state[i] ^ uint64_t { kValid };
  return !other;
}

// mbarrier object (PTX ISA 9.7.13.15): phase c, expected E, pending P, transaction count X.
struct Mbarrier {
  uint32_t offset = 0;
  uint32_t phase = 0;
  int32_t expected = 0;
  int32_t pending = 0;
  int64_t tx = 0;
  int64_t announced = 0, listed = -1;  // bytes of expect_tx in this phase; in the last one, once noted
  int64_t delivered = -1;              // the last phase in which bytes came
  bool live = false;
  BarrierHistory history;
};

constexpr int kTmemLanes = 128;
constexpr int kTmemColumns = 512;

// What decides where the D of an MMA lies.
struct DPlace {
  uint32_t address = 0, idesc = 0;
  int cta_group = 0;
  bool ws = false;
  uint8_t format = 0;
  bool operator==(const DPlace&) const = default;
};

struct TensorMemory {
  std::vector<uint32_t> cell;       // [lane][column]
  std::array<int32_t, 16> owner{};  // serial of the allocation of each 32-column unit, 0 when free
  std::vector<std::pair<int, int>> allocations;          // (first column, columns), in order of allocation
  std::vector<std::pair<const Instr*, int>> allocators;  // instruction and warp of each allocation
  int first_base = -1;
  std::array<bool, 16> held{};     // units that the other CTA of the pair has got, or has not freed, for both
  std::vector<PoisonId> poisoned;  // of cells not valid, [lane][column]; empty before the first
  uint32_t frees = 0;              // columns have become free so often
  int smallest = 1024;
  bool relinquished = false;
  int32_t serial = 0;    // of the last allocation, from 1
  uint64_t changes = 0;  // of the cells' state, never reset
  // At this number of changes the cells of this D were valid, with no write to come.
  uint64_t settled = 0;
  DPlace settled_d;
  mutable bool crossed = false;  // a range that was asked for has columns of two allocations

  bool taken(int unit) const { return owner[static_cast<size_t>(unit)] || held[static_cast<size_t>(unit)]; }
  void hold(int column, int columns, bool on) {
    for (int u = column / 32; u < (column + columns) / 32; ++u) held[static_cast<size_t>(u)] = on;
    frees += !on;
  }
  void reset() {
    cell.assign(kTmemLanes * kTmemColumns, kPoisonWord);
    state_.assign(kTmemLanes * kTmemColumns, 0);
    ++changes;
    poisoned.clear();
    owner.fill(0);
    allocations.clear();
    allocators.clear();
    first_base = -1;
    held.fill(false);
    frees = 0;
    smallest = 1024;
    relinquished = false;
    serial = 0;
    crossed = false;
  }
  bool allocated(int column, int columns) const {
    if (column < 0 || columns <= 0 || column + columns > kTmemColumns) return false;
    for (int u = column / 32; u <= (column + columns - 1) / 32; ++u)
      if (!owner[static_cast<size_t>(u)]) return false;
    crossed |=
        owner[static_cast<size_t>(column) / 32] != owner[static_cast<size_t>(column + columns - 1) / 32];
    return true;
  }
  uint32_t* at(int lane, int column) { return &cell[static_cast<size_t>(lane * kTmemColumns + column)]; }
  const uint8_t* state_at(int lane, int column) const {
    return &state_[static_cast<size_t>(lane * kTmemColumns + column)];
  }
  // The same to be written at once: `changes` is how execute_mma knows that the state is as it was.
  uint8_t* change_state(int lane, int column) {
    ++changes;
    return &state_[static_cast<size_t>(lane * kTmemColumns + column)];
  }

 private:
  std::vector<uint8_t> state_;  // [lane][column]
};

struct NamedBarrier {
  uint32_t generation = 0;
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // threads, 0 while nobody has arrived
  uint32_t warps = 0;     // that arrived in this generation
  uint32_t before = 0;    // in the generation before
  uint32_t told = 0;      // warps whose passing listeners have been told since their last arrival
  // Of .red: votes so far, and the threads that had one.
  bool reduces = false;
  uint32_t yes = 0, voters = 0;
  // Lanes of a warp that have come before the others of it, and their votes.
  struct Part {
    uint32_t lanes = 0, yes = 0;
  };
  std::array<Part, 32> parts{};
};

struct SharedMemory {
  std::vector<uint8_t> data;
  std::vector<uint8_t> state;
  std::vector<int16_t> bar_index;  // by offset / 8
  std::vector<Mbarrier> bars;
  std::vector<PoisonId> poisoned;  // of bytes not valid: what was stored; empty before the first

  void reset(size_t bytes) {
    poisoned.clear();
    data.assign(bytes, kPoisonByte);
    state.assign(bytes, 0);
    bar_index.assign(bytes / 8 + 1, -1);
    bars.clear();
  }
  Mbarrier* barrier(uint32_t offset) {
    if (offset % 8 || offset / 8 >= bar_index.size() || bar_index[offset / 8] < 0) return nullptr;
    Mbarrier* b = &bars[static_cast<size_t>(bar_index[offset / 8])];
    return b->live ? b : nullptr;
  }
};

}  // namespace tileproof
