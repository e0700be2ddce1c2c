// Vector clocks of the race checker: for each agent, up to which of its ticks something is ordered.
//
// An agent's upper bits name its cluster, or one that nobody else can know anything of.
//
// An agent is what orders its own accesses: a warp (with its lanes told apart), the tensor pipeline of one
// thread, an mbarrier (whose phases publish the copies that they count).
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
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
  kScoped,                     // kHappens, by scopes that include each other all the way
  kRuns,                       // order of execution: kHappens, .relaxed barriers, issue before delivery
  kPublished,                  // how many travel
  kAfterHappens = kPublished,  // kHappens at this thread's last tcgen05.fence::after_thread_sync
  kAfterSync,                  // kBeforeSync then
  kCommitted,  // tensor pipelines of which this thread itself saw a commit, by an acquiring wait
  kOrders
};

// Which lanes of a warp an access is of, when not just one.
constexpr int8_t kSeveralLanes = 126;  // all that executed the instruction, for lack of anything finer
constexpr int8_t kWholeWarp = 127;     // a collective access: any lane stands for all

// Agents of one cluster share their upper bits.
constexpr uint32_t kAgentsOfCluster = 1u << 16;

class Clock {
 public:
  void raise(uint32_t agent, Tick tick) {
    Tick& mine = at(agent);
    mine = std::max(mine, tick);
  }
  // Only for some lanes of a warp; lanes that the warp does not have count as present.
  void raise(uint32_t agent, uint32_t lanes, Tick tick);
  void join(const Clock& other);
  // For all lanes.
  bool covers(uint32_t agent, Tick tick) const {
    const uint32_t k = agent - base_;  // wraps around for agents of other clusters
    if (k < whole_.size()) return whole_[k] >= tick;
    return !far_.empty() && far(agent) >= tick;
  }
  bool covers(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const {
    if (covers(agent, tick)) return true;
    return !partial_.empty() && covers_partly(agent, tick, lane, lanes);
  }
  // Whether some lanes of the warp are covered, of an access whose own lane is not.
  bool covers_other_lanes(uint32_t agent, Tick tick) const {
    return std::any_of(partial_.begin(), partial_.end(),
                       [&](const Partial& p) { return p.agent == agent && p.latest >= tick; });
  }
  void clear() {
    whole_.clear();
    far_.clear();
    partial_.clear();
    apart_.clear();
  }

 private:
  using Lanes = std::array<Tick, 32>;
  struct Partial {  // a warp of which some lanes are further than the whole
    uint32_t agent;
    Tick latest = 0;     // of its lanes
    uint32_t known = 0;  // lanes that are not 0: often the lane that arrives for its warp
    uint32_t apart = 0;  // 0: all known lanes are at `latest`; else their place in apart_, from 1
    bool same_lanes(const Partial& p) const {
      return agent == p.agent && known == p.known && !(apart | p.apart);
    }
  };
  void raise(Partial& p, uint32_t lanes, Tick tick);
  Lanes& spread(Partial& p);
  void gather(Partial& p);
  void erase(Partial& p);
  void settle(Partial& p, Tick& whole);
  Tick& at(uint32_t agent);
  Tick far(uint32_t agent) const;
  std::vector<Tick>& segment(uint32_t base);

  bool covers_partly(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const;

  uint32_t base_ = 0;        // of the agents of one cluster: the first that was known
  std::vector<Tick> whole_;  // by agent - base_
  std::vector<std::pair<uint32_t, std::vector<Tick>>> far_;  // of other clusters, by their bases
  std::vector<Partial> partial_;
  std::vector<Lanes> apart_;  // of warps whose lanes have reached different ticks
};

// Writes of tensor maps: which have passed a fence.proxy.tensormap::generic.release on the way, and which an
// .acquire of the map at this address has made visible to copies.
struct MapKnowledge {
  Clock released;
  std::map<uint64_t, Clock> acquired;
};

struct Knowledge;

// Within which CTA, cluster or GPU a fence.sc counts: two are morally strong in a domain of both (PTX
// ISA 8.7).
struct Domain {
  uint8_t scope;
  uint32_t cluster;
  int32_t rank;
  auto operator<=>(const Domain&) const = default;
};

// What fence.sc operations have left behind them, by domain (PTX ISA 8.9.3, 8.10.2).
struct FencedKnowledge {
  using Sets = std::map<Domain, std::shared_ptr<const Knowledge>>;
  Sets fenced;    // by those that come before in base causality
  Sets observed;  // by those before a strong write that a strong access observed which comes before
};

struct Knowledge {
  Clock of[kOrders];
  std::shared_ptr<const MapKnowledge> maps;   // null where the kernel fences no map
  std::shared_ptr<const FencedKnowledge> sc;  // null where the kernel has no fence.sc
  uint32_t started = 0;  // ranks of the own cluster of which a thread is known to have run
  void join(const Knowledge& other, bool scoped = true) {
    started |= other.started;
    for (int k = 0; k < kPublished; ++k)
      if (k != kScoped || scoped) of[k].join(other.of[k]);
    if (other.maps) [[unlikely]]
      join_maps(other);
    if (other.sc) [[unlikely]]
      join_sc(other);
  }
  void join_maps(const Knowledge& other);
  void join_sc(const Knowledge& other);
  FencedKnowledge& mutable_sc();
  MapKnowledge& mutable_maps();
  void clear() {
    for (Clock& c : of) c.clear();
    maps.reset();
    sc.reset();
    started = 0;
  }
};

}  // namespace tileproof
