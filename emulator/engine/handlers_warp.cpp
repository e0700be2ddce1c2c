// Reductions and matches over the lanes of a warp, clocks, nanosleep (PTX ISA 9.7.13.10, 9.7.13.12, 10).
#include <algorithm>
#include <cmath>

#include "extreme.hpp"
#include "alu.hpp"
#include "enumerations/warp.hpp"
#include "slots/warp.hpp"

namespace tileproof {
namespace {

using Op = WarpReduction;
using Type = WarpType;

template <class T>
uint32_t combine(Op op, uint32_t p, uint32_t q) {
  const T a = static_cast<T>(p), b = static_cast<T>(q);
  switch (op) {
    case Op::And:
      return p & q;
    case Op::Or:
      return p | q;
    case Op::Xor:
      return p ^ q;
    case Op::Add:
      return p + q;
    case Op::Min:
      return b < a ? q : p;
    default:
      return a < b ? q : p;
  }
}

uint32_t reduce_f32(const uint32_t* a, uint32_t group, bool max, bool absolute, bool nan) {
  uint32_t members[32];
  int count = 0;
  for (uint32_t m = group; m; m &= m - 1) members[count++] = a[__builtin_ctz(m)];
  return extreme_f32(members, count, max, absolute, nan);
}

Step redux(Exec& x, const Instr& i) {
  namespace s = slot::redux;
  if (!sync_members(x, i.o[s::mask])) return x.e.stopped ? Step::Stop : Step::Block;
  uint32_t a[32];
  std::memcpy(a, x.src<uint32_t>(i.o[s::a]), sizeof a);
  const uint32_t* masks = x.src<uint32_t>(i.o[s::mask]);
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  const Op op = static_cast<Op>(i.m[s::operation]);
  const Type type = static_cast<Type>(i.m[s::kind]);
  uint32_t results[32];
  lanes(x.mask, [&](int l) {
    const uint32_t group = masks[l] & x.mask;  // groups with masks of their own may run together
    if (type == Type::F32) {
      results[l] = reduce_f32(a, group, op == Op::Max, i.m[s::limit] & 1, i.m[s::limit] & 2);
      return;
    }
    uint32_t r = a[__builtin_ctz(group)];
    for (uint32_t m = group & (group - 1); m; m &= m - 1)
      r = type == Type::S32 ? combine<int32_t>(op, r, a[__builtin_ctz(m)])
                            : combine<uint32_t>(op, r, a[__builtin_ctz(m)]);
    results[l] = r;
  });
  lanes(x.mask, [&](int l) { d[l] = results[l]; });
  return Step::Next;
}

// match.any: the lanes with this lane's value; match.all: all lanes when they agree, else none.
Step match(Exec& x, const Instr& i) {
  namespace s = slot::match;
  if (!sync_members(x, i.o[s::mask])) return x.e.stopped ? Step::Stop : Step::Block;
  uint64_t a[32] = {};
  const size_t bytes = static_cast<size_t>(i.m[s::bytes]);
  const uint8_t* source = x.src<uint8_t>(i.o[s::a]);
  for (size_t l = 0; l < 32; ++l) std::memcpy(a + l, source + l * bytes, bytes);
  const uint32_t* masks = x.src<uint32_t>(i.o[s::mask]);
  uint32_t results[32], agree = 0;
  lanes(x.mask, [&](int l) {
    const uint32_t group = masks[l] & x.mask;
    uint32_t alike = 0;
    for (uint32_t m = group; m; m &= m - 1)
      alike |= static_cast<uint32_t>(a[__builtin_ctz(m)] == a[l]) << __builtin_ctz(m);
    const bool same = alike == group;
    results[l] = i.m[s::all] && !same ? 0 : alike;
    agree |= static_cast<uint32_t>(same) << l;
  });
  if (i.o[s::dst] != INT32_MIN) {
    uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
    lanes(x.mask, [&](int l) { d[l] = results[l]; });
  }
  if (i.o[s::same] != INT32_MIN) {
    uint32_t& p = *x.dst<uint32_t>(i.o[s::same]);
    p = (p & ~x.mask) | agree;
  }
  return Step::Next;
}

// A clock: how many warp instructions the launch has run. It never goes back, and it is no time.
Step clock(Exec& x, const Instr& i) {
  namespace s = slot::clock;
  if (x.e.apart()) {  // a single thread counts the clusters before this cluster too
    x.e.stopped = true;
    return Step::Stop;
  }
  const uint64_t now = x.e.counters.warp_instructions;
  if (i.m[s::bytes] == 8) {
    uint64_t* d = x.dst<uint64_t>(i.o[s::dst]);
    lanes(x.mask, [&](int l) { d[l] = now; });
  } else {
    uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
    lanes(x.mask, [&](int l) { d[l] = static_cast<uint32_t>(i.m[s::high] ? now >> 32 : now); });
  }
  return Step::Next;
}

// As one that spins: it moves again when nothing else can, or when there was progress.
Step nanosleep(Exec& x, const Instr&) {
  x.s->seen_progress = x.e.progress;
  x.s->idle = std::max(x.s->idle, kSpin);
  return Step::Yield;
}

const Registrar warp({{"redux", redux}, {"match", match}, {"clock", clock}, {"nanosleep", nanosleep}});

}  // namespace
}  // namespace tileproof
