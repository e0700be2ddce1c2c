// Findings: defects with their place. One sink per launch; the same defect at the same instruction is
// counted, not repeated.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "program.hpp"

namespace tileproof {

enum class Severity : uint8_t { Note, Warning, Error };

// Who did it: kept by every asynchronous operation, so that its faults name the instruction that issued it.
struct Origin {
  const Instr* instr = nullptr;
  Dim3 cta{0, 0, 0};
  int32_t rank = 0;
  int32_t warp = -1;
  int32_t lane = -1;
  uint64_t time = 0;  // order stamp of the instruction, 0 when not known
};

struct Waiter {  // one blocked group of lanes, in a hang
  Origin at;
  uint32_t lanes = 0;
  std::string waits_for;
  int64_t barrier = -1;  // byte offset in the CTA's shared memory
  int32_t barrier_rank = -1;
  int32_t parity = -1;
  uint32_t phase = 0;
  int32_t pending = 0;
  int64_t tx = 0;
};

struct Finding {
  Severity severity = Severity::Error;
  std::string code;
  std::string message;
  Origin at;
  uint64_t address = 0;
  uint64_t count = 1;
  std::vector<Waiter> waiters;
};

class FindingSink {
 public:
  // Returns true the first time this (code, instruction) is seen in a CTA rank.
  bool report(Severity severity, const std::string& code, const std::string& message, const Origin& at,
              uint64_t address = 0) {
    auto key = std::make_tuple(code, at.instr, at.rank);
    auto [it, fresh] = seen_.try_emplace(key, findings.size());
    if (!fresh) {
      findings[it->second].count++;
      return false;
    }
    Finding f;
    f.severity = severity;
    f.code = code;
    f.message = message;
    f.at = at;
    f.address = address;
    findings.push_back(std::move(f));
    return true;
  }

  std::vector<Finding> findings;

 private:
  std::map<std::tuple<std::string, const Instr*, int32_t>, size_t> seen_;
};

}  // namespace tileproof
