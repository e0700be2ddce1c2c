// Values that nobody wrote. A read of bytes that nothing has written is legal where its value is dropped; so
// a launch follows such a value (its poison) from the read through registers and memory to what it decides.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "findings.hpp"

namespace tileproof {

using PoisonId = uint32_t;  // a set of reads, 0: none

// A read of bytes that nothing has written.
struct PoisonRead {
  const char* code;
  std::string message;
  Origin at;
  uint64_t address;
  uint32_t finding;  // reads by the same instruction in CTAs of the same rank
};

// The reads of a launch, and sets of them, which a value that was computed from several carries.
class PoisonLedger {
 public:
  // `quiet`: the read alone is no remark, only a computation with its value.
  PoisonId read(const char* code, std::string message, const Origin& at, uint64_t address, bool quiet);
  PoisonId both(PoisonId a, PoisonId b);
  const std::vector<uint32_t>& reads_of(PoisonId set) const { return sets_[set - 1]; }
  const PoisonRead& operator[](uint32_t read) const { return reads_[read]; }
  void used(uint32_t read) { fates_[reads_[read].finding].used = true; }
  void computed(PoisonId set);
  // The first read of each finding whose value decided nothing.
  std::vector<const PoisonRead*> dropped() const;

 private:
  struct Fate {
    uint32_t first;
    bool quiet, used;
  };
  using Finding = std::tuple<const char*, const Instr*, int32_t>;
  PoisonId set_of(std::vector<uint32_t> reads);
  std::vector<PoisonRead> reads_;
  std::vector<Fate> fates_;
  std::map<Finding, uint32_t> findings_;
  std::map<std::tuple<uint32_t, uint64_t, int32_t, int32_t>, uint32_t> places_;  // finding, CTA, warp, lane
  std::vector<std::vector<uint32_t>> sets_;                                      // a read for each finding
  std::map<std::vector<uint32_t>, PoisonId> ids_;
  std::map<std::pair<PoisonId, PoisonId>, PoisonId> unions_;
  size_t kept_ = 0;  // reads in all sets
};

struct PoisonRegister {
  int32_t offset = -1;  // in the warp's register file, -1: free
  int width = 0;        // bytes for each lane; 0: a predicate
  uint32_t lanes = 0;   // that hold some poison
  std::array<PoisonId, 32> set{};
  std::vector<uint8_t> bits;  // as the register holds its lanes; none for a predicate

  const uint8_t* lane(int l) const { return bits.data() + l * width; }
};

class PoisonRegisters {
 public:
  void clear() {
    registers_.clear();
    free_.clear();
    index_.clear();
    live_ = 0;
  }
  bool any() const { return live_ > 0; }
  PoisonRegister* at(int32_t offset) {
    if (offset < 0 || index_.empty()) return nullptr;
    const uint32_t n = index_[static_cast<size_t>(offset) / 64];
    return n ? &registers_[n - 1u] : nullptr;
  }
  // A lane of a register is poison from now on, in these bits (null: all of them). `units` 64-byte units are
  // the register file.
  void mark(size_t units, int32_t offset, int width, int lane, const uint8_t* bits, PoisonId set);
  // These lanes hold something else now.
  void drop(int32_t offset, uint32_t lanes);

 private:
  std::vector<PoisonRegister> registers_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> index_;  // by offset / 64: place in registers_ + 1
  int live_ = 0;
};

// What a handler that follows poison learns of a load.
struct Unwritten {
  PoisonId set = 0;
  uint64_t bytes = 0;  // bit k: byte k of the access
};

}  // namespace tileproof
