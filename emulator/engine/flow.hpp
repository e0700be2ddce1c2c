// What each instruction does with the values of its operands, for those who follow values: poison
// (poison_flow.cpp) and dependencies (race_dependence.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

#include "program.hpp"

namespace tileproof {

struct Exec;

enum class Flow : uint8_t {
  Depends,   // on every operand
  Load,      // ld: on its address; the handler itself marks what it loads
  Matrix,    // ldmatrix, stmatrix, tcgen05.st, wgmma: the same, and the handler says what becomes of them
  Store,     // st: on its address
  Move,      // each bit of the result is a bit of a source, or the function is monotone in each bit
  MoveOne,   // the same while a single source is poison
  Compute,   // a poison source makes the whole result poison
  Pieces,    // the same for each piece of a packed register
  Compare,   // setp
  Carry,     // Compute, with a condition code
  WarpMove,  // Move and Compute across the lanes of a warp
  WarpCompute,
  Products,  // mma.sync: rows of A and columns of B
};

struct Rule {
  Flow flow = Flow::Depends;
  uint8_t controls = 0;  // operands that choose, of a Move: a poison operand here makes it Compute
  uint8_t piece = 0;     // bytes
};

inline bool across_lanes(Flow f) {
  return f == Flow::WarpMove || f == Flow::WarpCompute || f == Flow::Products || f == Flow::Matrix;
}
inline bool depends(Flow f) { return f == Flow::Depends || f == Flow::Store || across_lanes(f); }

Rule rule_of(Handler fn);
// The lane that each lane of a shfl takes its value from.
std::array<uint32_t, 32> shuffle_sources(const Exec& x, const Instr& i);

// The operands of an instruction.
template <class F>
void each_source(const Program& p, const Instr& i, F&& f) {
  for (int k = 0; k < static_cast<int>(std::size(i.o)); ++k)
    if (!(i.written >> k & 1) && i.o[k] >= 0) f(i.o[k], k);
  for (int32_t k = 0; k < i.nvec; ++k)
    if (const int32_t off = p.vec[static_cast<size_t>(i.vec + k)];
        off >= 0 && (k < i.vec_from || k >= i.vec_end))
      f(off, -1);
}
template <class F>
void each_result(const Program& p, const Instr& i, F&& f) {
  for (size_t k = 0; k < std::size(i.o); ++k)
    if ((i.written >> k & 1) && i.o[k] >= 0) f(i.o[k]);
  for (int32_t k = i.vec_from; k < i.vec_end; ++k)
    if (const int32_t off = p.vec[static_cast<size_t>(i.vec + k)]; off >= 0) f(off);
}

}  // namespace tileproof
