// What the race checker keeps of an access, and what the thread behind it knows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "findings.hpp"
#include "listener.hpp"
#include "race_clock.hpp"

namespace tileproof {

// Through what an access goes (PTX ISA 8.6, 9.7.16.6.5).
enum class Path : uint8_t {
  Generic,     // ld, st, atom, red
  Copy,        // TMA and bulk copies: the async proxy
  Tensor,      // tcgen05.mma and cp: the async proxy in shared memory, the tcgen05 pipeline in TMEM
  Warpgroup,   // wgmma: the async proxy
  Warp,        // tcgen05.ld, st, alloc and dealloc
  ThreadCopy,  // cp.async: the generic proxy, not in program order
  Store,       // st.async, red.async: likewise (PTX ISA 9.7.9.12)
  Map          // a copy's read of its tensor map: the tensormap proxy
};

enum class Place : uint8_t { Shared, Global, Tmem };

// The lane of a slot that stands for reductions by many threads.
constexpr int8_t kCrowd = 125;

// Of a kind of reduction: the result depends on the order.
constexpr uint8_t kSum = 128;

// One executed instruction, or asynchronous operation, that touched memory.
struct alignas(64) Access {
  // What two accesses are compared by, in one line of the cache.
  uint32_t agent = 0;
  Tick tick = kUnfinished;
  uint32_t lanes = 0;
  uint32_t cluster = 0;
  uint32_t shape = 0;  // of an MMA: what two pipelined ones must share
  uint32_t read = 0;   // of a load whose value is followed: its number
  Path path = Path::Generic;
  bool strong = false;     // atomic, relaxed, volatile or stronger
  bool unwritten = false;  // of a copy: of bytes that nobody wrote, which is an error
  uint8_t scope = 0;       // of a strong access
  uint8_t adds = 0;        // of a reduction without a result, what it may be exchanged with: commutes_
  Tick issued = 0;         // of its warp; it may complete later
  uint32_t nth = 0;        // execution of this instruction by this warp, from 1
  Tick used = 0;           // of a tcgen05.ld not waited for: when its registers were first used
  const Instr* released = nullptr;  // the warp's first release after that
  int32_t barrier = -1, phase = 0;  // the last mbarrier wait of its warp
  Origin at;
  Decision hold{0, kNoStep};  // of a strong access: holds it back in a replay

  // Whether another access that is no reduction, and of which all lanes are in order, is in the same order.
  bool ordered_as(const Access& a) const {
    return agent == a.agent && tick == a.tick && path == a.path && cluster == a.cluster && shape == a.shape &&
           read == a.read && unwritten == a.unwritten && !strong && !a.strong && !adds && !a.adds;
  }
};

struct CopyParts;

// What the thread behind an access knows: of a running instruction, or kept from the issue of an
// asynchronous operation.
struct View {
  std::shared_ptr<const Knowledge> know;
  uint32_t agent = 0;  // its warp
  uint32_t lanes = 0;
  Tick now = 0;
  std::array<Tick, kOrders> own{};  // own accesses of each lane up to here have passed such a fence
  uint32_t pipe = 0;                // the tensor pipeline that an MMA, cp or commit goes through
  Tick pipe_tick = 0;
  Path path = Path::Generic;
  uint32_t reads = 0, writes = 0;  // records
  Origin at;
  // cp.async: the agent of the warp's copies; up to where this lane has waited for its own, and has fenced
  // since.
  uint32_t copies = 0;
  Tick copies_waited = 0, copies_fenced = 0;
  uint32_t met = 0;        // rounds of the cluster barrier that its thread has passed
  Tick together = 0;       // up to here all lanes of its warp have run
  uint64_t map = 0;        // of a read through Path::Map, its address
  Tick maps_released = 0;  // own accesses up to here have passed a fence.proxy.tensormap::generic.release
  std::shared_ptr<const CopyParts> parts;  // of a cp.async of several lanes
  int32_t wrote = -1;                      // rank of the CTA that a copy has written last
  uint32_t source = 0;                     // of a reduction: the record of its read of the source
};

// What the lanes of one cp.async knew at its issue.
struct CopyParts {
  std::vector<View> views;  // a group of lanes that know alike
  std::array<Tick, 32> waited{}, fenced{};
};

}  // namespace tileproof
