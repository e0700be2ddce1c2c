// Diverged lanes of a warp: where they part, where they meet again, and when a .sync instruction needs them
// together.
#include <algorithm>

#include "machine.hpp"

namespace tileproof {

// Lanes of split `index` have reached their join: park or, when all are there, merge. The split is gone.
void Engine::enter_join(Warp& w, size_t index) {
  Split& s = w.splits[index];
  const int32_t j = s.join;
  w.joins[static_cast<size_t>(j)].arrived |= s.mask;
  s.dead = true;
  leave_join(w, j);
}

// Creates the merged split once every lane that has not exited is there.
void Engine::leave_join(Warp& w, int32_t j) {
  Join& join = w.joins[static_cast<size_t>(j)];
  join.expected &= w.live;
  join.arrived &= w.live;
  if (!join.arrived || join.arrived != join.expected) return;
  Split s;
  s.pc = join.rpc;
  s.mask = join.arrived;
  s.join = join.parent;
  s.rpc = s.join >= 0 ? w.joins[static_cast<size_t>(s.join)].rpc : -1;
  join.expected = join.arrived = 0;
  for (Split& dead : w.splits)
    if (dead.dead) {
      dead = s;
      return;
    }
  w.splits.push_back(s);
}

// `taken` lanes and the others of the warp go separate ways.
void Warp::part(uint32_t taken) {
  if (parts.empty()) parts.push_back(live);
  for (size_t n = parts.size(); n-- > 0;)
    if (const uint32_t rest = parts[n] & ~taken; rest && rest != parts[n]) {
      parts[n] &= taken;
      parts.push_back(rest);
    }
}

// `lanes` have waited for one another.
void Warp::meet(uint32_t lanes) {
  if (parts.empty()) return;
  for (uint32_t& p : parts) p &= ~lanes;
  parts.push_back(lanes);
  std::erase(parts, 0u);
  if (live & ~lanes) return;
  parts.clear();
  apart.clear();
}

// Whether lanes parted at a branch and nothing has made them wait for one another since. Those that have
// exited count: how soon they do is up to the scheduler.
bool Warp::parted() const { return parts.size() > 1; }

// The lanes that execute an instruction; of a warp whose lanes have parted all that have, since whether they
// run together is up to the scheduler.
uint32_t Warp::executed_by(const Instr* at, uint32_t lanes) {
  if (!parted()) return lanes;
  for (auto& [instr, by] : apart)
    if (instr == at) return by |= lanes;
  return apart.emplace_back(at, lanes).second;
}

bool Engine::gather_lanes(Warp& w, Split& s, uint32_t wanted) {
  wanted &= w.live;
  if ((s.mask & wanted) == wanted) {
    w.meet(wanted);
    s.gathered = false;
    return true;
  }
  uint32_t there = s.mask;
  for (const Split& o : w.splits)
    if (&o != &s && !o.dead && o.wait == Wait::WarpLanes && o.pc == s.pc && o.mask & wanted) there |= o.mask;
  s.lanes_wanted = wanted;
  if ((there & wanted) != wanted) {
    s.wait = Wait::WarpLanes;
    s.gathered = false;
    return false;
  }
  // Merge: the joined lanes leave every join below the innermost one that all of them share.
  auto chain = [&](int32_t j) {
    std::vector<int32_t> c;
    for (; j >= 0; j = w.joins[static_cast<size_t>(j)].parent) c.push_back(j);
    return c;
  };
  for (Split& o : w.splits) {
    if (&o == &s || o.dead || o.wait != Wait::WarpLanes || o.pc != s.pc || !(o.mask & wanted)) continue;
    const std::vector<int32_t> mine = chain(s.join), theirs = chain(o.join);
    int32_t common = -1;
    for (int32_t j : mine)
      if (std::find(theirs.begin(), theirs.end(), j) != theirs.end()) {
        common = j;
        break;
      }
    for (int32_t j : mine) {
      if (j == common) break;
      w.joins[static_cast<size_t>(j)].expected &= ~s.mask;
    }
    for (int32_t j : theirs) {
      if (j == common) break;
      w.joins[static_cast<size_t>(j)].expected &= ~o.mask;
    }
    s.mask |= o.mask;
    s.join = common;
    s.rpc = common >= 0 ? w.joins[static_cast<size_t>(common)].rpc : -1;
    o.dead = true;
  }
  w.meet(wanted);
  s.gathered = false;
  return true;
}

void Engine::diverge(Warp& w, size_t index, const Instr& i, uint32_t taken) {
  const uint32_t rest = w.splits[index].mask & ~taken;
  w.part(taken);
  tell(&Listener::lanes_part, w, taken);
  int32_t join = w.splits[index].join;
  if (i.rpc >= 0 && w.splits[index].rpc != i.rpc) {
    Join fresh;
    fresh.rpc = i.rpc;
    fresh.expected = w.splits[index].mask;
    fresh.parent = join;
    size_t slot = w.joins.size();
    for (size_t k = 0; k < w.joins.size(); ++k)
      if (!w.joins[k].expected && !w.joins[k].arrived) {
        bool used = false;
        for (const Join& other : w.joins) used |= other.expected && other.parent == static_cast<int32_t>(k);
        for (const Split& sp : w.splits) used |= !sp.dead && sp.join == static_cast<int32_t>(k);
        if (!used) {
          slot = k;
          break;
        }
      }
    if (slot == w.joins.size())
      w.joins.push_back(fresh);
    else
      w.joins[slot] = fresh;
    join = static_cast<int32_t>(slot);
  }
  const int32_t rpc = join >= 0 ? w.joins[static_cast<size_t>(join)].rpc : -1;
  Split other = w.splits[index];
  other.mask = rest;
  other.pc = w.splits[index].pc + 1;
  other.join = join;
  other.rpc = rpc;
  Split& s = w.splits[index];
  s.mask = taken;
  s.pc = i.target;
  s.join = join;
  s.rpc = rpc;
  for (Split& dead : w.splits)
    if (dead.dead) {
      dead = other;
      return;
    }
  w.splits.push_back(other);
}

bool Engine::release_joins() {
  bool any = false;
  for (auto& cluster : live)
    for (auto& cta : cluster->ctas)
      for (Warp& w : cta->warps)
        for (size_t j = 0; j < w.joins.size(); ++j) {
          Join& join = w.joins[j];
          if (!join.arrived) continue;
          const uint32_t lanes = join.arrived;
          join.expected &= ~lanes;
          join.arrived = 0;
          Split s;
          s.pc = join.rpc;
          s.mask = lanes;
          s.join = join.parent;
          s.rpc = s.join >= 0 ? w.joins[static_cast<size_t>(s.join)].rpc : -1;
          w.splits.push_back(s);
          counters.divergent_releases++;
          any = true;
        }
  return any;
}

// Lanes that have parted may skip an instruction under a predicate apart from those that execute it; beside
// them that is an error.
void Exec::tell_skippable() {
  if (instr->pred >= 0 && w.parted())
    e.tell(&Listener::accesses_untold, *this, lane(),
           "is under a predicate, in a warp whose lanes have parted");
}

bool sync_members(Exec& x, int32_t off) {
  const uint32_t* masks = x.src<uint32_t>(off);
  bool several = false;
  uint32_t named = x.mask;  // of a whole warp: lanes that every mask names
  for (int l = 0; l < 32 && x.mask == ~0u; ++l) named &= masks[l];
  for (uint32_t m = named == ~0u ? 0 : x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint32_t idle = masks[l] & x.s->mask & ~x.mask;
    if (!(masks[l] >> l & 1) || idle) {
      x.e.fault("sync-mask",
                "a lane executes a .sync instruction whose member mask " + hex(masks[l]) +
                    (idle ? " names lanes " + hex(idle) + " that do not execute it" : " does not name it"),
                x.origin(l));
      return false;
    }
  }
  x.tell_skippable();
  if (!x.e.gather_lanes(x.w, *x.s, masks[x.lane()])) return false;
  x.mask = x.s->mask & x.guard();
  const uint32_t mask = masks[x.lane()];
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (masks[l] == mask) continue;
    if (x.mask != x.w.live || !x.w.exits.empty() || x.w.parted())
      x.e.tell(&Listener::accesses_untold, x, l, "has several member masks, and its warp is not together");
    x.w.meet(masks[l] & x.w.live);
    several = true;
  }
  if (!several) x.e.tell(&Listener::lanes_meet, x.w, mask & x.w.live);
  return true;
}

}  // namespace tileproof
