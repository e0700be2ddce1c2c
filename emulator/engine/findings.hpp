// Findings: defects with their place. One sink per launch; the same defect at the same instruction is
// counted, not repeated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "budget.hpp"
#include "enumerations/codes.hpp"
#include "program.hpp"

namespace tileproof {

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

struct GridPlace;

constexpr uint64_t kNoStep = ~0ull;  // of an actor (schedule.hpp)

struct Race {  // the access before, and what should stand between
  Origin first;
  uint32_t first_lanes = 0;
  uint32_t first_nth = 0;  // execution of the instruction by its warp, from 1
  bool first_writes = false;
  uint32_t second_nth = 0;
  bool second_writes = false;
  // The mbarrier phase that each warp had last waited for: byte offset (-1: none) and number.
  int32_t first_barrier = -1, first_phase = 0;
  int32_t second_barrier = -1, second_phase = 0;
  std::string space;       // "shared", "tmem" or "global"
  int32_t space_rank = 0;  // of the CTA whose memory it is
  int32_t tmem_base = 0;   // first column of that CTA's first allocation
  std::string buffer;      // in global memory
  std::string missing;
  // Who makes the first access or event, and at which of its steps (schedule.hpp): held back from there, it
  // comes after the second. kNoStep: not known.
  uint64_t actor = 0, step = kNoStep;
  const GridPlace* earlier = nullptr;  // the first access, when another grid made it
};

struct Finding {
  Severity severity = Severity::Error;
  std::string code;
  std::string message;
  Origin at;
  uint64_t address = 0;
  uint64_t count = 1;
  std::vector<Waiter> waiters;
  bool has_race = false;
  Race race;
};

// What a finding of some code counts as in this launch, and whether the launch stops there.
struct Weight {
  Severity severity = Severity::Error;
  bool stops = false;
};

class FindingSink {
 public:
  std::unordered_map<std::string, Weight> weights;  // of codes that weigh otherwise than they are reported
  bool* stopped = nullptr;                          // the launch's
  bool muted = false;                               // an instruction runs again, only to see its result

  // The finding: a new one the first time this (code, instruction, other instruction) is seen in a CTA rank;
  // null beyond kMostFindings of its severity.
  Finding* add(Severity severity, const std::string& code, const std::string& message, const Origin& at,
               uint64_t address = 0, const Instr* other = nullptr) {
    if (!weights.empty())
      if (const auto w = weights.find(code); w != weights.end()) {
        severity = w->second.severity;
        *stopped |= w->second.stops;
      }
    const auto key = std::make_tuple(code, at.instr, other, at.rank);
    if (const auto it = seen_.find(key); it != seen_.end()) {
      findings[it->second].count++;
      return &findings[it->second];
    }
    size_t& kept = kept_[static_cast<size_t>(severity)];
    if (kept == kMostFindings) {
      ++dropped;
      return nullptr;
    }
    ++kept;
    seen_.emplace(key, findings.size());
    Finding f;
    f.severity = severity;
    f.code = code;
    f.message = message;
    f.at = at;
    f.address = address;
    findings.push_back(std::move(f));
    return &findings.back();
  }
  // Counts one more of a finding that is already there.
  bool again(const std::string& code, const Origin& at, const Instr* other) {
    auto it = seen_.find(std::make_tuple(code, at.instr, other, at.rank));
    if (it != seen_.end()) findings[it->second].count++;
    return it != seen_.end();
  }
  // Whether a race of this code was found with `first` as its first access.
  bool told(const std::string& code, const Instr* first) const {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.has_race && f.race.first.instr == first && f.code == code;
    });
  }
  void report(Severity severity, const std::string& code, const std::string& message, const Origin& at,
              uint64_t address = 0) {
    if (!muted) add(severity, code, message, at, address);
  }

  std::vector<Finding> findings;
  uint64_t dropped = 0;  // reports beyond kMostFindings

 private:
  std::array<size_t, 3> kept_{};  // by severity
  std::map<std::tuple<std::string, const Instr*, const Instr*, int32_t>, size_t> seen_;
};

}  // namespace tileproof
