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
  const auto found =
      std::find_if(partial_.begin(), partial_.end(), [&](const Partial& p) { return p.agent == agent; });
  if (lanes == ~0u) {
    whole = tick;
    if (found != partial_.end() && found->latest <= whole) partial_.erase(found);
    return;
  }
  Partial& p = found != partial_.end() ? *found : partial_.emplace_back(Partial{agent, 0});
  p.latest = std::max(p.latest, tick);
  p.known |= lanes;
  for (uint32_t m = lanes; m; m &= m - 1) {
    Tick& lane = p.lanes[static_cast<size_t>(__builtin_ctz(m))];
    lane = std::max(lane, tick);
  }
  settle(p, whole);
}

// Lanes that together make up the warp raise it as a whole: to what the last of them has reached.
void Clock::settle(Partial& p, Tick& whole) {
  if (~p.known && p.latest > whole) return;
  Tick first = p.lanes[0];
  for (const Tick tick : p.lanes) first = std::min(first, tick);
  whole = std::max(whole, first);
  if (p.latest > whole) return;
  p = partial_.back();
  partial_.pop_back();
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
  std::erase_if(partial_, [&](const Partial& p) { return covers(p.agent, p.latest); });
  size_t next = 0;  // warps mostly stand in the same order in both
  for (const Partial& theirs : other.partial_) {
    if (covers(theirs.agent, theirs.latest)) continue;
    if (next >= partial_.size() || partial_[next].agent != theirs.agent)
      for (next = 0; next < partial_.size() && partial_[next].agent != theirs.agent;) ++next;
    if (next == partial_.size()) {
      partial_.push_back(theirs);
      settle(partial_[next++], at(theirs.agent));
      continue;
    }
    Partial& p = partial_[next++];
    p.latest = std::max(p.latest, theirs.latest);
    p.known |= theirs.known;
    if (theirs.known && !(theirs.known & (theirs.known - 1))) {
      Tick& lane = p.lanes[static_cast<size_t>(__builtin_ctz(theirs.known))];
      const bool grown = lane < theirs.latest;
      lane = std::max(lane, theirs.latest);
      if (grown) settle(p, at(theirs.agent));
      continue;
    }
    Tick grown = 0;
    for (size_t lane = 0; lane < p.lanes.size(); ++lane) {
      const Tick before = p.lanes[lane];
      p.lanes[lane] = std::max(before, theirs.lanes[lane]);
      grown |= before ^ p.lanes[lane];
    }
    if (grown) settle(p, at(theirs.agent));
  }
}

bool Clock::covers_partly(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const {
  const auto p = std::find_if(partial_.begin(), partial_.end(),
                              [&](const Partial& each) { return each.agent == agent; });
  if (p == partial_.end()) return false;
  if (lane == kWholeWarp) return p->latest >= tick;
  for (uint32_t m = lane < 32 ? 1u << lane : lanes; m; m &= m - 1)
    if (p->lanes[static_cast<size_t>(__builtin_ctz(m))] < tick) return false;
  return true;
}

}  // namespace tileproof
