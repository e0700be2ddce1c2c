// The decoded program: what the Python front end hands to the engine, one Instr per PTX instruction.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "enumerations/memory.hpp"
#include "enumerations/program.hpp"
#include "limits.hpp"

namespace tileproof {

using namespace limits;

constexpr int kWarpSize = 32;

// Generic address map. The shared window holds (cluster rank << 24) | offset, as seen on silicon: kernels
// clear or flip bit 24 of such an address to name the other CTA of a pair.
constexpr uint64_t kSharedWindow = 0x700000000000ull;
constexpr uint64_t kLocalWindow = 0x710000000000ull;
constexpr uint64_t kParamWindow = 0x720000000000ull;
constexpr uint64_t kWindowSize = 0x010000000000ull;
constexpr uint32_t kRankShift = 24;
constexpr uint32_t kOffsetMask = (1u << kRankShift) - 1;

struct Exec;
struct Instr;

// What the interpreter does after a handler: fall through, take the pc the handler set, try the same
// instruction again later, stop the launch, or fall through and give way to whatever else can move.
enum class Step : uint8_t { Next, Jump, Block, Stop, Yield };

using Handler = Step (*)(Exec&, const Instr&);

// Operands are byte offsets into the warp's register file, or, when negative, ~offset into the constant bank.
struct Instr {
  Handler fn;
  int32_t pred;      // offset of the guard predicate, -1 when there is none
  int32_t pred_neg;  // 1 for @!p
  int32_t o[8];
  int64_t imm;
  int32_t m[8];  // modifiers, as each handler defines them
  int32_t vec, nvec;
  int32_t target, rpc;  // branch target; immediate post-dominator where diverged lanes meet again
  int32_t line, source;
  int32_t name;
  bool visible;     // other threads or engines can tell that it ran: the scheduler may choose before it
  uint8_t written;  // bit k: o[k] is a destination
  uint8_t vec_from, vec_end;  // the destinations in vec
};

// The layout of one instruction in the array that the front end packs (numpy structured dtype in decode.py).
struct PackedInstr {
  int64_t imm;
  int32_t handler, pred, pred_neg;
  int32_t o[8];
  int32_t m[8];
  int32_t vec, nvec, target, rpc, line, source, name;
  int32_t written[2];  // first and end of the destinations in vec
};
static_assert(sizeof(PackedInstr) == 8 + 4 * (3 + 8 + 8 + 9));

struct SpecialSlot {
  int32_t offset;
  Special kind;
};

struct Program {
  std::string kernel;
  std::vector<Instr> code;
  std::vector<int32_t> vec;
  std::vector<uint8_t> constants;
  std::vector<std::string> names;    // full mnemonics, for messages
  std::vector<std::string> sources;  // "file:line"
  std::vector<SpecialSlot> specials;
  std::vector<uint8_t>
      register_widths;  // of each 64 bytes of the register file: bytes of a lane, 0: a predicate
  int64_t register_bytes = 0;
  int64_t local_bytes = 0;
  int64_t static_shared_bytes = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t volume() const { return x * y * z; }
};

}  // namespace tileproof
