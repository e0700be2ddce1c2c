#include "race_clock.hpp"

namespace tileproof {

void Clock::raise(uint32_t agent, uint32_t lanes, Tick tick) {
  if (agent >= whole_.size()) whole_.resize(agent + 1, 0);
  if (whole_[agent] >= tick) return;
  if (lanes == ~0u) {
    whole_[agent] = tick;
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
    // Lanes that together make up the warp raise it as a whole.
    for (const Partial& at : partial_) {
      if (at.agent != agent) continue;
      uint32_t lanes_there = 0;
      for (const Partial& p : partial_)
        if (p.agent == agent && p.tick >= at.tick) lanes_there |= p.lanes;
      if (lanes_there == ~0u) whole_[agent] = std::max(whole_[agent], at.tick);
    }
  }
  std::erase_if(partial_, [&](const Partial& p) { return p.agent == agent && p.tick <= whole_[agent]; });
}

void Clock::join(const Clock& other) {
  const size_t n = other.whole_.size();
  if (whole_.size() < n) whole_.resize(n, 0);
  Tick* to = whole_.data();
  const Tick* from = other.whole_.data();
  for (size_t a = 0; a < n; ++a) to[a] = to[a] > from[a] ? to[a] : from[a];
  if (!partial_.empty()) std::erase_if(partial_, [&](const Partial& p) { return p.tick <= whole_[p.agent]; });
  for (const Partial& p : other.partial_) raise(p.agent, p.lanes, p.tick);
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
