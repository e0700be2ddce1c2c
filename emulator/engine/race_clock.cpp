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

// The ticks of each lane.
Clock::Lanes& Clock::spread(Partial& p) {
  if (!p.apart) {
    apart_.emplace_back();
    p.apart = static_cast<uint32_t>(apart_.size());
    for (uint32_t m = p.known; m; m &= m - 1) apart_.back()[static_cast<size_t>(__builtin_ctz(m))] = p.latest;
  }
  return apart_[p.apart - 1];
}

// All known lanes have reached the same tick.
void Clock::gather(Partial& p) {
  if (!p.apart) return;
  if (p.apart < apart_.size()) {
    apart_[p.apart - 1] = apart_.back();
    for (Partial& other : partial_)
      if (other.apart == apart_.size()) other.apart = p.apart;
  }
  apart_.pop_back();
  p.apart = 0;
}

void Clock::erase(Partial& p) {
  gather(p);
  p = partial_.back();
  partial_.pop_back();
}

void Clock::raise(Partial& p, uint32_t lanes, Tick tick) {
  if (tick >= p.latest && !(p.known & ~lanes)) {
    gather(p);
    p.latest = tick;
    p.known = lanes;
    return;
  }
  if (!p.apart && tick <= p.latest && (tick == p.latest || !(lanes & ~p.known))) {
    if (tick == p.latest) p.known |= lanes;
    return;
  }
  Lanes& mine = spread(p);
  p.latest = std::max(p.latest, tick);
  p.known |= lanes;
  for (uint32_t m = lanes; m; m &= m - 1) {
    Tick& lane = mine[static_cast<size_t>(__builtin_ctz(m))];
    lane = std::max(lane, tick);
  }
}

void Clock::raise(uint32_t agent, uint32_t lanes, Tick tick) {
  Tick& whole = at(agent);
  if (whole >= tick) return;
  const auto found =
      std::find_if(partial_.begin(), partial_.end(), [&](const Partial& p) { return p.agent == agent; });
  if (lanes == ~0u) {
    whole = tick;
    if (found != partial_.end() && found->latest <= whole) erase(*found);
    return;
  }
  Partial& p = found != partial_.end() ? *found : partial_.emplace_back(Partial{agent});
  raise(p, lanes, tick);
  settle(p, whole);
}

// Lanes that together make up the warp raise it as a whole: to what the last of them has reached.
void Clock::settle(Partial& p, Tick& whole) {
  if (~p.known && p.latest > whole) return;
  if (!~p.known) {
    Tick first = p.latest;
    if (p.apart)
      for (const Tick tick : apart_[p.apart - 1]) first = std::min(first, tick);
    whole = std::max(whole, first);
  }
  if (p.latest <= whole) erase(p);
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
  for (size_t k = 0; k < partial_.size();)
    if (covers(partial_[k].agent, partial_[k].latest))
      erase(partial_[k]);
    else
      ++k;
  size_t next = 0;  // warps mostly stand in the same order in both
  for (const Partial& theirs : other.partial_) {
    // Mostly of one lane in both. Mine is further than the whole warp, and so is what becomes of it.
    if (next < partial_.size() && partial_[next].same_lanes(theirs)) {
      partial_[next].latest = std::max(partial_[next].latest, theirs.latest);
      ++next;
      continue;
    }
    if (covers(theirs.agent, theirs.latest)) continue;
    if (next >= partial_.size() || partial_[next].agent != theirs.agent)
      for (next = 0; next < partial_.size() && partial_[next].agent != theirs.agent;) ++next;
    if (next == partial_.size()) partial_.emplace_back(Partial{theirs.agent});
    Partial& p = partial_[next++];
    if (!theirs.apart) {
      raise(p, theirs.known, theirs.latest);
    } else {
      Lanes& mine = spread(p);
      const Lanes& from = other.apart_[theirs.apart - 1];
      for (size_t lane = 0; lane < mine.size(); ++lane) mine[lane] = std::max(mine[lane], from[lane]);
      p.latest = std::max(p.latest, theirs.latest);
      p.known |= theirs.known;
    }
    settle(p, at(theirs.agent));
  }
}

bool Clock::covers_partly(uint32_t agent, Tick tick, int8_t lane, uint32_t lanes) const {
  const auto p = std::find_if(partial_.begin(), partial_.end(),
                              [&](const Partial& each) { return each.agent == agent; });
  if (p == partial_.end()) return false;
  if (lane == kWholeWarp) return p->latest >= tick;
  if (lane < 32) lanes = 1u << lane;
  if (!p->apart) return !lanes || !tick || (!(lanes & ~p->known) && p->latest >= tick);
  for (uint32_t m = lanes; m; m &= m - 1)
    if (apart_[p->apart - 1][static_cast<size_t>(__builtin_ctz(m))] < tick) return false;
  return true;
}

}  // namespace tileproof
