#include "race_clock.hpp"

#include <algorithm>
#include <array>

namespace tileproof {

std::vector<Tick>& Clock::segment(uint32_t base) {
  if (whole_.empty() && far_.empty()) base_ = base;
  if (base == base_) return whole_;
  for (auto& [b, ticks] : far_)
    if (b == base) return ticks;
  return far_.emplace_back(base, std::vector<Tick>{}).second;
}

Tick& Clock::at(uint32_t agent) {
  std::vector<Tick>& ticks = segment(agent & ~(kAgentsOfCluster - 1));
  const uint32_t k = agent & (kAgentsOfCluster - 1);
  if (k >= ticks.size()) ticks.resize(k + 1, 0);
  return ticks[k];
}

Tick Clock::far(uint32_t agent) const {
  for (const auto& [base, ticks] : far_)
    if (const uint32_t k = agent - base; k < ticks.size()) return ticks[k];
  return 0;
}

void Clock::raise(uint32_t agent, uint32_t lanes, Tick tick) {
  Tick& whole = at(agent);
  if (whole >= tick) return;
  if (lanes == ~0u) {
    whole = tick;
  } else {
    bool placed = false;
    for (Partial& p : partial_) {
      if (p.agent != agent) continue;
      if (p.tick >= tick && (p.lanes & lanes) == lanes) return;
      if (p.tick == tick) {
        p.lanes |= lanes;
        placed = true;
        break;
      }
      if (p.tick < tick && (p.lanes & lanes) == p.lanes) {
        p = {agent, lanes, tick};
        placed = true;
        break;
      }
    }
    if (!placed) partial_.push_back({agent, lanes, tick});
    // Lanes that together make up the warp raise it as a whole: to what the last of them has reached.
    uint32_t all = 0;
    for (const Partial& p : partial_)
      if (p.agent == agent) all |= p.lanes;
    if (all != ~0u) return;
    std::array<Tick, 32> reached{};
    for (const Partial& p : partial_)
      if (p.agent == agent)
        for (uint32_t m = p.lanes; m; m &= m - 1) {
          Tick& lane = reached[static_cast<size_t>(__builtin_ctz(m))];
          lane = std::max(lane, p.tick);
        }
    whole = std::max(whole, *std::min_element(reached.begin(), reached.end()));
  }
  std::erase_if(partial_, [&](const Partial& p) { return p.agent == agent && p.tick <= whole; });
}

void Clock::join(const Clock& other) {
  auto join_ticks = [](std::vector<Tick>& mine, const std::vector<Tick>& theirs) {
    const size_t n = theirs.size();
    if (mine.size() < n) mine.resize(n, 0);
    Tick* to = mine.data();
    const Tick* from = theirs.data();
    for (size_t a = 0; a < n; ++a) to[a] = to[a] > from[a] ? to[a] : from[a];
  };
  if (!other.whole_.empty()) join_ticks(segment(other.base_), other.whole_);
  for (const auto& [base, ticks] : other.far_) join_ticks(segment(base), ticks);
  if (!partial_.empty()) std::erase_if(partial_, [&](const Partial& p) { return covers(p.agent, p.tick); });
  for (const Partial& p : other.partial_) raise(p.agent, p.lanes, p.tick);
}

bool Clock::covers_but(const Clock& other, uint32_t one, uint32_t two) const {
  auto whole = [&](uint32_t base, const std::vector<Tick>& ticks) {
    for (size_t k = 0; k < ticks.size(); ++k) {
      const uint32_t agent = base + static_cast<uint32_t>(k);
      if (ticks[k] && agent != one && agent != two && !covers(agent, ticks[k])) return false;
    }
    return true;
  };
  return whole(other.base_, other.whole_) &&
         std::all_of(other.far_.begin(), other.far_.end(),
                     [&](const auto& far) { return whole(far.first, far.second); }) &&
         std::all_of(other.partial_.begin(), other.partial_.end(), [&](const Partial& p) {
           return p.agent == one || p.agent == two || covers(p.agent, p.tick, kSeveralLanes, p.lanes);
         });
}

bool Clock::covers_partly(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const {
  uint32_t wanted = lane < 32 ? 1u << lane : lanes;
  for (const Partial& p : partial_) {
    if (p.agent != agent || p.tick < tick) continue;
    if (lane == kWholeWarp) return true;
    wanted &= ~p.lanes;
    if (!wanted) return true;
  }
  return false;
}

}  // namespace tileproof
