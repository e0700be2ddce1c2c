// Non-bulk asynchronous copies of one warp: what is in flight, and the groups of each of its threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tileproof {

struct View;

// A cp.async.mbarrier.arrive that has not arrived yet.
struct CopyArrival {
  uint32_t lanes = 0;
  int copies_left = 0;         // of the instructions that it tracks
  std::shared_ptr<View> view;  // for race checking
};

// One executed cp.async instruction.
struct CopyFlight {
  uint64_t serial = 0;
  uint32_t lanes = 0;
  std::vector<std::pair<std::shared_ptr<CopyArrival>, std::function<void()>>> arrivals;
};

struct CopyState {
  uint64_t serial = 0;  // cp.async instructions executed
  std::vector<std::shared_ptr<CopyFlight>> flights;
  std::array<std::vector<uint64_t>, 32> groups;  // by lane: serial at each commit, oldest first
  std::array<uint64_t, 32> issued{}, tracked{};  // by lane: last copy; last that a wait or arrival covers

  // Whether more than the `allowed` newest groups of a thread are pending (PTX ISA 9.7.9.25.3.3).
  bool waits(int lane, int64_t allowed) const {
    const auto& all = groups[static_cast<size_t>(lane)];
    const int64_t last = static_cast<int64_t>(all.size()) - 1 - allowed;
    if (last < 0) return false;
    for (const auto& f : flights)
      if ((f->lanes >> lane & 1) && f->serial <= all[static_cast<size_t>(last)]) return true;
    return false;
  }
  size_t committed() const {
    size_t n = 0;
    for (const auto& all : groups) n += all.size();
    return n;
  }
  // All but the `allowed` newest groups have been waited for; returns how many those are.
  size_t passed(int lane, int64_t allowed) {
    auto& all = groups[static_cast<size_t>(lane)];
    const int64_t done = static_cast<int64_t>(all.size()) - allowed;
    if (done <= 0) return 0;
    uint64_t& to = tracked[static_cast<size_t>(lane)];
    to = std::max(to, all[static_cast<size_t>(done - 1)]);
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(done));
    return static_cast<size_t>(done);
  }
};

}  // namespace tileproof
