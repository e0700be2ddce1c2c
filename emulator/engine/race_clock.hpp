// Vector clocks of the race checker: for each agent, up to which of its ticks something is ordered.
//
// An agent is what orders its own accesses: a warp (with its lanes told apart), the tensor pipeline of one
// thread, an mbarrier (whose phases publish the copies that they count).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace tileproof {

using Tick = uint32_t;
constexpr Tick kUnfinished = ~0u;  // of an access whose completion nothing has observed

// What a clock is about. The first ones travel with every release; the others belong to one thread.
enum Order : int {
  kHappens,                    // plain happens-before (PTX ISA 8.9)
  kProxyShared,                // with a fence.proxy.async for shared memory somewhere on the way
  kProxySharedOwn,             // the same, executed by the thread that made the access
  kProxyGlobal,                // with a fence.proxy.async for global memory on the way
  kBeforeSync,                 // with a tcgen05.fence::before_thread_sync, or a commit
  kInitFence,                  // with a fence.mbarrier_init
  kPublished,                  // how many travel
  kAfterHappens = kPublished,  // kHappens at this thread's last tcgen05.fence::after_thread_sync
  kAfterSync,                  // kBeforeSync then
  kOrders
};

// Which lanes of a warp an access is of, when not just one.
constexpr int8_t kSeveralLanes = 126;  // all that executed the instruction, for lack of anything finer
constexpr int8_t kWholeWarp = 127;     // a collective access: any lane stands for all

class Clock {
 public:
  void raise(uint32_t agent, Tick tick) {
    if (agent >= whole_.size()) whole_.resize(agent + 1, 0);
    whole_[agent] = std::max(whole_[agent], tick);
  }
  // Only for some lanes of a warp; lanes that the warp does not have count as present.
  void raise(uint32_t agent, uint32_t lanes, Tick tick);
  void join(const Clock& other);
  // For all lanes.
  bool covers(uint32_t agent, Tick tick) const { return agent < whole_.size() && whole_[agent] >= tick; }
  bool covers(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const {
    if (covers(agent, tick)) return true;
    return !partial_.empty() && covers_partly(agent, tick, lane, lanes);
  }
  // Whether some lanes of the warp are covered, of an access whose own lane is not.
  bool covers_other_lanes(uint32_t agent, Tick tick) const {
    return std::any_of(partial_.begin(), partial_.end(),
                       [&](const Partial& p) { return p.agent == agent && p.tick >= tick; });
  }
  void clear() {
    whole_.clear();
    partial_.clear();
  }

 private:
  struct Partial {
    uint32_t agent, lanes;
    Tick tick;
  };
  bool covers_partly(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const;

  std::vector<Tick> whole_;
  std::vector<Partial> partial_;
};

struct Knowledge {
  Clock of[kOrders];
  void join(const Knowledge& other) {
    for (int k = 0; k < kPublished; ++k) of[k].join(other.of[k]);
  }
  void clear() {
    for (Clock& c : of) c.clear();
  }
};

}  // namespace tileproof
