// Tensor maps in global memory: who changed one, by which proxy fence the change reaches a copy (PTX
// ISA 9.7.13.4), and until when a copy reads it (9.7.9.27.1.2: with its source).
#include "machine.hpp"
#include "race.hpp"
#include "race_visit.hpp"

namespace tileproof {

MapKnowledge& Knowledge::mutable_maps() {
  auto mine = maps ? std::make_shared<MapKnowledge>(*maps) : std::make_shared<MapKnowledge>();
  maps = mine;
  return *mine;
}

void Knowledge::join_maps(const Knowledge& other) {
  if (maps == other.maps) return;
  if (!maps) {
    maps = other.maps;
    return;
  }
  MapKnowledge& mine = mutable_maps();
  mine.released.join(other.maps->released);
  for (const auto& [address, clock] : other.maps->acquired) mine.acquired[address].join(clock);
}

void Races::map_release(const Exec& x) {
  Thread& t = thread(x.w);
  split(t, x.mask);
  for (Group& g : t.groups) {
    if (!(g.lanes & x.mask)) continue;
    Knowledge& know = mutable_knowledge(g);
    know.mutable_maps().released.join(know.of[kHappens]);
    g.maps_released = t.now;
  }
  t.now++;
  thread_fence(x.w, x.mask, kScopeSys);
}

void Races::map_acquire(const Exec& x, uint32_t lanes, uint64_t address) {
  thread_fence(x.w, lanes, kScopeSys);
  Thread& t = thread(x.w);
  for (Group& g : t.groups) {
    if (!(g.lanes & lanes)) continue;
    MapKnowledge& maps = mutable_knowledge(g).mutable_maps();
    Clock& mine = maps.acquired[address];
    mine.join(maps.released);
    if (g.maps_released) mine.raise(t.agent, t.absent_too(g.lanes), g.maps_released);
  }
}

void Races::read_map(View v, const GlobalBuffer& b, uint64_t address) {
  if (!v.reads || !b.writable) return;
  v.path = Path::Map;
  v.map = address;
  const int8_t lane = static_cast<int8_t>(v.at.lane);
  memo_for_ = 0;  // what is in order for the copy's data need not be for its map
  for (uint64_t a = address; a < address + 128; a += 16)
    visit(global_, global_.at(a >> 4), 0xffff, v.reads, lane, false, v, Place::Global, v.at.rank, a);
  memo_for_ = 0;
}

void Races::map_read(const GlobalBuffer& b, uint64_t address) {
  if (op_) read_map(*op_, b, address);
}

// Nothing tells when a prefetch is over: it counts as over at once.
void Races::map_prefetch(const Exec& x, int lane, const GlobalBuffer& b, uint64_t address) {
  Thread& t = thread(x.w);
  View v = view_of(t, group_of(t, lane), 1u << lane);
  v.at = x.origin(lane);
  v.reads = record(t, v.at, 1u << lane, Path::Generic);
  finish(v.reads, t.agent, t.now, 1u << lane);
  read_map(std::move(v), b, address);
}

bool Races::map_released(const View& v, const Access& a, int8_t lane) const {
  const uint32_t lanes = lane < 32 ? 1u << lane : a.lanes;
  const bool mine = a.agent == v.agent && (lane == kWholeWarp || (lanes & ~v.lanes) == 0);
  if (mine && a.tick <= v.maps_released) return true;
  return v.know->maps && v.know->maps->released.covers(a.agent, a.tick, lane, a.lanes);
}

bool Races::map_acquired(const View& v, const Access& a, int8_t lane) const {
  if (!v.know->maps) return false;
  const auto it = v.know->maps->acquired.find(v.map);
  return it != v.know->maps->acquired.end() && it->second.covers(a.agent, a.tick, lane, a.lanes);
}

}  // namespace tileproof
