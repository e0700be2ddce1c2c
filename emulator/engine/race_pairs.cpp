// cta_group::2 alloc, dealloc and relinquish: each CTA's part may block for the other's or not (PTX ISA
// 9.7.16.5), so that only synchronisation of the program orders the two.
#include "machine.hpp"
#include "race.hpp"

namespace tileproof {

namespace {
constexpr const char* kPairBarrier =
    "a cluster barrier (or another synchronisation with the other CTA of the pair; .relaxed will do) before "
    "this one";
}

// What the warp knows at its part, which is recorded as the write of the view.
View Races::pair_part(const Exec& x, Cta& twin) {
  Thread& t = thread(x.w);
  View v = view_of(t, t.groups[0], t.all);
  v.know = joined(t);
  v.at = x.origin(x.lane());
  v.writes = record(t, v.at, t.all, Path::Warp);
  finish(v.writes, t.agent, t.now, t.all);
  t.now++;
  forget_view();
  CtaState &mine = state(x.cta), &other = state(twin);
  const size_t n = mine.pair.parts.size();
  mine.pair.parts.push_back(v.writes);
  if (n < other.pair.parts.size()) {
    const uint32_t first = other.pair.parts[n];
    const Access& a = accesses_[first];
    if (ran(v, a, kWholeWarp))
      report(Severity::Error, "pair-may-hang", first, true, v.writes, true, Place::Tmem, twin.rank, 0,
             "the second must not wait for the first: the first may block until the second runs");
  }
  bool started = v.know->started >> twin.rank & 1;
  for (const Thread& w : other.warps) {
    const Clock& happens = v.know->of[kRuns];
    started |= happens.covers(w.agent, 1) || happens.covers_other_lanes(w.agent, 1);
  }
  if (!started)
    e_.error("pair-not-started",
             mnemonic(x.instr) + " of CTA rank " + std::to_string(x.cta.rank) +
                 ": nothing ensures that CTA rank " + std::to_string(twin.rank) +
                 " has started; missing: " + kPairBarrier,
             v.at);
  return v;
}

void Races::pair_relinquish(const Exec& x, Cta& twin) {
  allocates(x);  // the parts of a CTA are matched in their order
  pair_part(x, twin);
}

void Races::pair_alloc(const Exec& x, Cta& twin, int column, int columns) {
  const View v = pair_part(x, twin);
  for (int u = column / 32; u < (column + columns) / 32; ++u) {
    PairState& mine = state(x.cta).pair;
    mine.allocated[static_cast<size_t>(u)] = v.writes;
    mine.twin_freed[static_cast<size_t>(u)] = 0;
  }
}

// Calls f(slot, writes, lane and column of its first cell) for the accesses to a unit of tensor memory.
template <class F>
void Races::tmem_slots(Cta& cta, int unit, F&& f) {
  Shadow& shadow = state(cta).tmem;
  for (int c = 32 * unit; c < 32 * unit + 32; ++c)
    for (int part = 0; part < kTmemLanes / 16; ++part) {
      Cell& cell = shadow.at(tmem_granule(part, c));
      auto tell = [&](const Slot& s, bool writes) {
        if (s.units && s.record)
          f(s, writes,
            static_cast<uint64_t>(part * 16 + __builtin_ctz(s.units)) << 16 | static_cast<uint64_t>(c));
      };
      tell(cell.write, true);
      tell(cell.read, false);
      if (cell.more())
        for (const Slot& s : shadow.overflow(cell)) tell(s, s.write);
    }
}

// Accesses by threads of the twin to its own tensor memory that are not ordered before this dealloc; those to
// this CTA's are judged as the dealloc's own (tmem_dealloc).
void Races::pair_uses(const View& v, Cta& own, Cta& twin, int unit) {
  std::set<uint32_t> told;
  auto look = [&](const Slot& s, bool writes, uint64_t address) {
    const Access& a = accesses_[s.record];
    if (a.at.rank != twin.rank || ran(v, a, s.lane) || !told.insert(s.record).second) return;
    // What the warp issued before the two met lacks only its wait.
    const Clock& happens = v.know->of[kRuns];
    const bool issued = a.path == Path::Warp && happens.covers(a.agent, a.issued, s.lane, a.lanes);
    if (issued && !writes && a.used && happens.covers(a.agent, a.used, s.lane, a.lanes))
      report(Severity::Error, "race-tmem-released", s.record, writes, v.writes, true, Place::Tmem, twin.rank,
             address, wait_ld_missing(a));
    else if (issued)
      unwaited(s.record, writes, v.writes, true, Place::Tmem, twin.rank, address);
    else
      report(Severity::Error, "pair-in-use", s.record, writes, v.writes, true, Place::Tmem, twin.rank,
             address, kPairBarrier);
  };
  PairState& other = state(twin).pair;
  for (const auto& [slot, writes] : other.left[static_cast<size_t>(unit)])
    look(slot, writes, static_cast<uint64_t>(32 * unit));
  tmem_slots(twin, unit, look);
  // What this CTA has done is looked at again by the twin's dealloc, if that is still to come.
  PairState& mine = state(own).pair;
  auto& left = mine.left[static_cast<size_t>(unit)];
  left.clear();
  if (!other.left[static_cast<size_t>(unit)].empty() || mine.twin_freed[static_cast<size_t>(unit)]) {
    other.left[static_cast<size_t>(unit)].clear();
    return;
  }
  std::set<uint32_t> kept;
  tmem_slots(own, unit, [&](const Slot& s, bool writes, uint64_t) {
    if (accesses_[s.record].at.rank == own.rank && kept.insert(s.record).second) left.push_back({s, writes});
  });
}

void Races::pair_dealloc(const Exec& x, Cta& twin, int column, int columns) {
  const View v = pair_part(x, twin);
  const uint32_t theirs = state(twin).pair.allocated[static_cast<size_t>(column / 32)];
  if (!theirs || !ran(v, accesses_[theirs], kWholeWarp))
    e_.error("pair-not-allocated",
             mnemonic(x.instr) + " of CTA rank " + std::to_string(x.cta.rank) +
                 ": nothing ensures that CTA rank " + std::to_string(twin.rank) +
                 " has done its part of the allocation; missing: " + kPairBarrier,
             v.at);
  for (int u = column / 32; u < (column + columns) / 32; ++u) {
    const size_t unit = static_cast<size_t>(u);
    pair_uses(v, x.cta, twin, u);
    PairState &mine = state(x.cta).pair, &other = state(twin).pair;
    const bool last = mine.twin_freed[unit] != 0;
    mine.twin_freed[unit] = 0;
    other.twin_freed[unit] = last ? 0 : v.writes;
    if (last) mine.allocated[unit] = other.allocated[unit] = 0;
  }
}

// An access to tensor memory of `cta`, of which the twin may have freed the columns already.
void Races::pair_touch(Cta& cta, uint32_t id, bool write, int column, int columns) {
  const PairState& pair = state(cta).pair;
  const size_t first = static_cast<size_t>(column / 32),
               last = static_cast<size_t>((column + columns - 1) / 32);
  for (size_t unit = first; unit <= last; ++unit)
    if (const uint32_t freed = pair.twin_freed[unit])
      report(Severity::Error, "pair-in-use", freed, true, id, write, Place::Tmem, cta.rank,
             static_cast<uint64_t>(column), "a cluster barrier after the second, before the first");
}

}  // namespace tileproof
