// What the race checker keeps of threads, barriers, CTAs and clusters.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "race_phases.hpp"
#include "race_shadow.hpp"
#include "race_view.hpp"

namespace tileproof {

// The types of that state, as a base of Races.
struct RaceState {
  struct Flag;
  struct OwnCopies {  // cp.async of one warp, in its ticks
    uint32_t agent = 0;
    std::array<std::vector<Tick>, 32> commits;
    std::array<Tick, 32> waited{}, fenced{};
  };
  struct Deeds {  // what a thread hands on: what it knows and has done
    const Knowledge& know;
    const std::array<Tick, kOrders>& own;
    Tick now, together, maps_released;
    const OwnCopies* copies;
  };
  struct Moment {  // the same, kept
    std::shared_ptr<const Knowledge> know;
    std::array<Tick, kOrders> own;
    Tick now, together, maps_released;
    std::unique_ptr<OwnCopies> copies;
    Deeds deeds() const { return {*know, own, now, together, maps_released, copies.get()}; }
  };
  struct Fenced {  // lanes, and their warp at their fence
    uint32_t lanes;
    std::shared_ptr<const Moment> at;
  };
  struct SeenFlag {  // as lanes have read it, with the scope of the read
    uint32_t lanes;
    std::shared_ptr<const Flag> flag;
    uint8_t scope;
  };
  struct Group {  // lanes of a warp that know the same and that no branch has parted
    uint32_t lanes = 0;
    std::shared_ptr<Knowledge> know;
    std::array<Tick, kOrders> own{};
    Tick maps_released = 0;
    uint32_t met = 0;  // rounds of the cluster barrier that they have passed, or come after lanes that have
    // The last thread fences of .cta, .cluster, .gpu or wider: what strong writes after them release.
    std::array<std::vector<Fenced>, 3> fenced;
    std::vector<SeenFlag> seen;                       // flags read since: what the next thread fence acquires
    std::shared_ptr<const FencedKnowledge> observed;  // of the last flag that a strong access of them read
    // Whether nothing but a branch tells it from another group of its warp.
    bool alike(const Group& g) const {
      return know == g.know && own == g.own && maps_released == g.maps_released && met == g.met &&
             observed == g.observed;
    }
    // The lanes of another group, with their fences and the flags that they have read.
    void take(const Group& g) {
      lanes |= g.lanes;
      seen.insert(seen.end(), g.seen.begin(), g.seen.end());
      for (size_t k = 0; k < fenced.size(); ++k)
        fenced[k].insert(fenced[k].end(), g.fenced[k].begin(), g.fenced[k].end());
    }
    void keep(uint32_t some) {
      lanes = some;
      const auto others = [&](auto& of) { return !(of.lanes &= some); };
      std::erase_if(seen, others);
      for (auto& fences : fenced) std::erase_if(fences, others);
    }
  };
  struct BulkThread {
    int64_t committed = 0;
    std::vector<std::pair<int64_t, std::shared_ptr<View>>> pending;  // group, operation
  };
  struct Releaser {  // a CTA
    uint32_t cluster = 0;
    int32_t rank = 0;
  };
  // What strong writes of one location have released.
  struct Flag {
    Knowledge wide;     // to the whole GPU
    Releaser by;        // the last that did
    uint8_t reach = 0;  // the narrowest scope that has all who did; 0: nobody yet
    struct Narrow {
      Releaser by;
      uint8_t scope;
      Knowledge know;
    };
    std::vector<Narrow> narrow;
    std::vector<uint64_t> releasers;            // threads: agent, lane
    std::shared_ptr<const FencedKnowledge> sc;  // fences before what was written here
  };
  struct Parts {  // of a wgmma: the warps that issued it, and when
    uint64_t serial = 0;
    std::array<std::pair<uint32_t, Tick>, 4> issued{};
  };
  struct Pipe {
    uint32_t agent = 0;
    Tick tick = 0;
    std::deque<Parts> parts;  // that some warp has not waited for
    std::array<uint64_t, 4> passed{};
  };
  struct ClusterState;
  struct Overrun {  // an event that may be counted in the phase before
    PhaseEvent before, event;
    std::string text;
  };
  struct LateRead {  // a read that a later write is not ordered after: an error if its value is used
    uint32_t first, second, lanes;
    int rank;
    uint64_t address;
  };
  struct Tried {  // a wait whose result nothing asks for
    const Instr* at;
    uint32_t offset;
    Tick now;
    bool gave_up;
    std::vector<std::shared_ptr<Knowledge>> told;  // what it would have told
  };
  struct Thread {  // one warp
    uint32_t agent = 0;
    ClusterState* home = nullptr;
    Pipe release_stores;                                                // st.async.release: each is one tick
    uint32_t all = ~0u;                                                 // the lanes that it has
    uint32_t absent_too(uint32_t lanes) const { return lanes | ~all; }  // clocks ask all 32
    Tick now = 1;
    std::vector<Group> groups;
    std::vector<std::shared_ptr<View>> stores;               // tcgen05.st not waited for
    std::vector<uint32_t> loads;                             // tcgen05.ld not waited for
    std::map<int, BulkThread> bulk;                          // by lane
    std::shared_ptr<OwnCopies> copies;                       // null before the first
    std::vector<uint32_t> nth;                               // by instruction
    int32_t barrier = -1, phase = 0;                         // its last successful mbarrier wait
    std::vector<Tried> tried;                                // the latest of each instruction and mbarrier
    Tick together = 0;                                       // up to here all its lanes have run
    Tick counted = 0;                                        // its last event at an mbarrier
    std::array<uint32_t, 16> rounds{};                       // of named barriers: the last that it arrived in
    std::array<std::shared_ptr<const Knowledge>, 16> given;  // by named barriers: when that was complete
    uint32_t meets = 0;  // rounds of the cluster barrier that it has arrived at
  };
  // What other CTAs give to an mbarrier: arrivals of .cluster scope, arrivals without a scope, completions of
  // copies and commits (those only where scopes are told apart).
  enum Far : size_t { kArrivals, kDefaultArrivals, kCompletions, kFar };
  struct Barrier {
    uint32_t agent = 0;
    uint32_t far_agent = 0;  // of the copies of other CTAs
    uint32_t init = 0;       // access
    int8_t init_lane = 0;
    uint32_t init_round = 0;  // of the cluster barrier: the first that follows the init in execution
    uint32_t phases = 0;      // complete
    Knowledge gather;
    bool has_commits = false;
    Clock commits, committed;  // arrived so far, and in complete phases
    uint32_t last_commit = 0;  // access of its own CTA's last commit that arrived
    PhaseEvent delivered;      // the last delivery or arrival of copies; tick: phases complete after it
    uint32_t needed = 0;       // phases that are complete when that has been counted
    uint32_t waited = 0;       // phases that a thread has waited for
    std::shared_ptr<Knowledge> done;
    std::array<std::shared_ptr<Knowledge>, kFar> far, far_done;  // null before the first
    std::set<uint32_t> checked;                                  // warps that know of the init
    Phases events;
    bool asked = false;            // a thread has waited
    std::vector<Overrun> unasked;  // the first, while nobody has waited: it matters to who waits later
    // Of the last copies whose bytes came, in turn: `gather` has their kRuns.
    std::array<std::shared_ptr<const Knowledge>, 8> issued;
    uint32_t next_issued = 0;
  };
  struct Rounds {  // what a cluster barrier's rounds add up: in the open round, and up to each complete round
    Clock open;
    std::vector<std::shared_ptr<const Clock>> complete;
  };
  struct Meeting {  // a named or cluster barrier
    Knowledge gather;
    std::vector<std::pair<uint32_t, Tick>> came, last;  // agents, of a named one: this round, the last one
    std::shared_ptr<Knowledge> done;                    // by the last round of a cluster barrier
    std::vector<PhaseEvent> arrived, arrived_last;      // at a named barrier, as `came` and `last`
    uint32_t rounds = 0;                                // complete
    // Of a cluster barrier, by .relaxed arrivals: what was ordered before a thread that arrives by barriers
    // of its CTA, and that with its own accesses.
    Rounds settled, preceded;
  };
  // cta_group::2 instructions of a CTA; units are of 32 columns.
  struct PairState {
    std::vector<uint32_t> parts;            // its parts so far
    std::array<uint32_t, 16> allocated{};   // by unit: its alloc, from then on
    std::array<uint32_t, 16> twin_freed{};  // its twin's dealloc, until its own
    // What its threads have done to columns that only it has freed, not yet its twin: (slot, writes), by
    // unit.
    std::array<std::vector<std::pair<Slot, bool>>, 16> left;
  };
  struct CtaState {
    std::vector<Thread> warps;
    std::unordered_map<uint32_t, Barrier> barriers;
    std::array<Meeting, 16> named;
    Shadow shared, tmem;
    Clock at_exit;
    std::vector<std::pair<uint32_t, int8_t>> remote;  // accesses of other CTAs, with their lanes
    PairState pair;
    PhaseEvent allocated;                // the last alloc or dealloc of tensor memory
    PhaseEvent given;                    // the last alloc
    std::array<uint32_t, 16> columns{};  // by unit of tensor memory: its alloc, from then on
    // By collector buffer: the products that no later one is ordered after, and whether they fill or read it.
    std::array<std::vector<std::pair<PhaseEvent, bool>>, 5> collectors;
    bool triggered = false;  // griddepcontrol.launch_dependents was executed
  };
  struct ClusterState {
    std::vector<CtaState> ctas;
    Meeting meeting;
    uint32_t serial = 0;
    uint32_t base = 0, agents = 0;
  };
};

}  // namespace tileproof
