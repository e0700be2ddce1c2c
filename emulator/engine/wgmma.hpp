// wgmma: operations of a warpgroup in flight, and what its warps have issued, committed and waited for.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "findings.hpp"
#include "program.hpp"

namespace tileproof {

class Engine;
struct Cta;
struct Exec;
struct View;
struct Warp;

constexpr int kWarpgroup = 4;  // warps; the first has a number that is a multiple of that

// An mma_async. It begins when the last of its four warps has executed it.
struct WarpgroupMma {
  uint64_t serial = 0;  // of its warpgroup, from 1
  const Instr* instr = nullptr;
  uint32_t arrived = 0;  // bit of a warp of the group
  uint64_t a = 0, b = 0;
  bool accumulate = false;
  std::unique_ptr<std::array<uint32_t, kWarpgroup * kWarpSize>> metadata;  // by thread; of a sparse A only
  std::array<Origin, kWarpgroup> at{};
  std::array<std::shared_ptr<View>, kWarpgroup> views;  // the race checker's
};

// A register that wgmma uses, as one warp has accessed it.
struct FragmentUse {
  uint64_t as_d = 0, as_a = 0;  // serial of the last mma_async that has it as D, or as A
  uint64_t mma_fence = 0;       // fences executed before the last of them
  uint64_t fence = 0;           // of an access by another instruction: fences executed before it, plus 1
  const Instr* d_by = nullptr;  // that mma_async
  const Instr* a_by = nullptr;
  const Instr* by = nullptr;  // that instruction
};

// Operations on the same D, which nothing else has accessed in between. The uses of its registers have the
// first of them, and count as those of the last.
struct Run {
  uint64_t first;  // serial
  uint64_t serial = 0, fences = 0;
  const Instr* last = nullptr;
};
// Accumulators of a warpgroup that are followed as a whole.
constexpr size_t kMostAccumulators = 4;

struct WarpFragments {
  uint64_t issued = 0, waited = 0;  // serials
  uint64_t fences = 0;
  std::vector<Run> runs;          // oldest first
  std::deque<uint64_t> groups;    // committed and not waited for, oldest first: the last serial of each
  std::vector<FragmentUse> uses;  // by offset / 64 in the register file
};

// D of an operation carried out, by rows: its registers are written when something else uses them.
struct HeldAccumulator {
  const Instr* of;
  std::unique_ptr<float[]> cells;
};

struct Warpgroup {
  std::deque<std::shared_ptr<WarpgroupMma>> open;  // that some warp has not issued
  uint64_t begun = 0, complete = 0;                // serials
  std::array<WarpFragments, kWarpgroup> warps;
  std::vector<HeldAccumulator> held;            // no two share a register
  std::vector<std::unique_ptr<float[]>> spare;  // cells to be used again
  // The serial that wait_group N of a warp needs complete.
  uint64_t needed(int warp, int64_t pending) const {
    const auto& groups = warps[static_cast<size_t>(warp)].groups;
    const int64_t last = static_cast<int64_t>(groups.size()) - 1 - pending;
    return last < 0 ? 0 : groups[static_cast<size_t>(last)];
  }
};

// The warpgroup of a warp; made when first asked for.
Warpgroup& warpgroup_of(Warp& w);
// What is wrong with a matrix descriptor of sm_90a; empty: nothing.
std::string check_warpgroup_descriptor(uint64_t v, const char* name);
// What is wrong with the metadata that a warp brings for a sparse A; empty: nothing.
std::string check_metadata(const Exec& x, const Instr& i);
// The registers get what is held for them.
void write_back(const Program& program, Cta& cta, int first_warp);
void execute_wgmma(Engine& e, Cta& cta, int first_warp, const WarpgroupMma& op);

// ---- registers in flight (wgmma_registers.cpp)

// Marks the instructions of the program, other than wgmma's, that access registers of D or A.
void mark_fragment_accesses(const Program& program, std::vector<uint8_t>& marks);
// Before an instruction that is so marked.
void check_fragment_access(Exec& x, const Instr& i);
// When a warp issues an mma_async: that wgmma.fence stands between other accesses and it.
void issue_fragments(Exec& x, const Instr& i, WarpFragments& warp, uint64_t serial);

}  // namespace tileproof
