// Python's `random.Random(seed).getrandbits(32)`: MT19937, seeded with the words of the number.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tileproof::timing {

class Random {
 public:
  explicit Random(uint64_t seed) {
    std::vector<uint32_t> key{static_cast<uint32_t>(seed)};
    if (seed >> 32) key.push_back(static_cast<uint32_t>(seed >> 32));
    start(19650218);
    size_t i = 1, j = 0;
    for (size_t k = std::max(kWords, key.size()); k; --k) {
      state_[i] = (state_[i] ^ (mixed(i) * 1664525U)) + key[j] + static_cast<uint32_t>(j);
      if (++i == kWords) state_[0] = state_[kWords - 1], i = 1;
      if (++j == key.size()) j = 0;
    }
    for (size_t k = kWords - 1; k; --k) {
      state_[i] = (state_[i] ^ (mixed(i) * 1566083941U)) - static_cast<uint32_t>(i);
      if (++i == kWords) state_[0] = state_[kWords - 1], i = 1;
    }
    state_[0] = 0x80000000U;
  }

  uint32_t operator()() {
    if (at_ == kWords) next();
    uint32_t y = state_[at_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
  }

 private:
  static constexpr size_t kWords = 624, kShift = 397;
  uint32_t mixed(size_t i) const { return state_[i - 1] ^ (state_[i - 1] >> 30); }
  void start(uint32_t seed) {
    state_[0] = seed;
    for (size_t i = 1; i < kWords; ++i) state_[i] = 1812433253U * mixed(i) + static_cast<uint32_t>(i);
  }
  void next() {
    for (size_t i = 0; i < kWords; ++i) {
      const uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
      state_[i] = state_[(i + kShift) % kWords] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfU : 0U);
    }
    at_ = 0;
  }
  std::array<uint32_t, kWords> state_{};
  size_t at_ = kWords;
};

}  // namespace tileproof::timing
