// What chosen instructions write to 32-bit registers, for observation inside a kernel that shows nothing:
// each execution with its CTA, warp and lanes (emulator/register_record.py).
#pragma once

#include <cstdint>
#include <vector>

#include "program.hpp"

namespace tileproof {

struct Exec;

class RegisterRecord {
 public:
  // `instructions`: their numbers in the program. `words`: kept at most; what comes later is counted.
  RegisterRecord(const Program& program, const std::vector<uint32_t>& instructions, uint64_t words);
  // The running instruction has written its results.
  void add(const Exec& x, const Instr& i);

  struct Results {
    std::vector<int32_t> registers;  // offsets in the register file, of its 32-bit destinations
    // Of each execution: the CTA's number in the grid (x fastest), warp, lanes, and 32 values per register.
    std::vector<uint32_t> words;
  };
  // By position in `instructions`.
  std::vector<Results> results;
  uint64_t dropped = 0;  // executions beyond `words`

 private:
  const Program& program_;
  std::vector<int32_t> position_;  // by number of an instruction, -1: not recorded
  uint64_t room_;
};

}  // namespace tileproof
