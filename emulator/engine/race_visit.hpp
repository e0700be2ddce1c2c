// What an access finds in the shadow of a granule, and what it leaves there; of the sources that touch
// shadows.
#pragma once

#include <algorithm>

#include "race.hpp"

namespace tileproof {

constexpr size_t kMostSlots = 256;  // of a granule

template <class S>
void Races::visit(S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane, bool write, const View& v,
                  Place place, int rank, uint64_t address) {
  remember_for(id);
  // True: the value will tell whether the two writes race; both stay, since a reader must know of both.
  // What a reduction is ordered after is not ordered before those that commute with it: all stays but
  // reductions of its kind that come before it.
  const bool adder = write && accesses_[id].adds;
  const View* const view = &v;
  bool stays_too = false;  // what the last look found
  auto look = [&](const Slot& s, bool first_writes) {
    stays_too = adder;
    if (!(s.units & units) || s.record == id) return false;
    stays_too = adder && (!first_writes || adds_apart(s, id, v));
    if (seen(s.record)) return false;
    Slot both = s;
    both.units &= units;
    if (!write && !alike_.empty() && reads_alike(shadow, cell, both, id, v, place, rank, address))
      return false;
    uniform_ = s.of_lane_at(units) == units;
    const size_t asked = questions_.size();
    check(both, first_writes, id, write, v, place, rank, address);
    return questions_.size() != asked;
  };
  // A read whose value is unknown whatever those writes left (poison_flow.cpp) has to come after none.
  if (const uint16_t some = units & unknown_; some && !write) [[unlikely]] {
    if (const uint16_t known = some & ~nobodys_) read_beside(cell, shadow, known, id, v);
    for (const View* reader : readers(view)) add_read(shadow, cell, Slot{id, some, lane}, *reader, place);
    units = static_cast<uint16_t>(units & ~some);
    if (!units) return;
  }
  asks_of_reads_ = look(cell.write, true) && write;
  const bool both_stay = asks_of_reads_ || stays_too;
  const uint16_t others = static_cast<uint16_t>(~units);
  if (cell.more()) [[unlikely]] {
    auto& list = shadow.overflow(cell);
    auto look_at = [&](bool writes) {
      for (Slot& s : list) {
        if (s.write != writes) continue;
        const bool stays = look(s, writes);
        if (write && stays && writes) asks_of_reads_ = true;
        if (write && !(stays && writes) && !stays_too) s.units &= others;
      }
    };
    look_at(true);
    if (write) look_at(false);
    if (write) {
      std::erase_if(list, [](const Slot& s) { return !s.units; });
      if (list.empty()) {
        shadow.drop(cell);
        cell.more(false);
      }
    }
  }
  if (!write) {
    for (const View* reader : readers(view)) add_read(shadow, cell, Slot{id, units, lane}, *reader, place);
    return;
  }
  look(cell.read, false);
  asks_of_reads_ = false;
  if (!adder) cell.read.units &= others;
  if (cell.write.record == id) {
    if (const uint16_t both = cell.write.units & units; both && lane < 32) [[unlikely]]
      same_store(Slot{id, both, lane}, place, rank, address);
    cell.write.add(units, lane, kSeveralLanes);
    return;
  }
  put_write(shadow, cell, Slot{id, units, lane}, both_stay);
}

// A read of bytes beside some that nobody wrote, whose value is therefore unknown: of a write in no order
// with it the finding depends on which comes first.
template <class S>
void Races::read_beside(const Cell& cell, S& shadow, uint16_t units, uint32_t id, const View& v) {
  const auto look = [&](const Slot& s) {
    if (!(s.units & units) || s.record == id) return;
    const Access& a = accesses_[s.record];
    if (covered(v, kHappens, a, s.stride ? kSeveralLanes : s.lane)) return;
    doubt("not-tracked", accesses_[id].at, a.at,
          mnemonic(accesses_[id].at.instr) + " reads bytes beside some that nobody wrote, in no order with " +
              mnemonic(a.at.instr));
  };
  look(cell.write);
  if (cell.more())
    for (const Slot& s : shadow.overflow(const_cast<Cell&>(cell)))
      if (s.write) look(s);
}

// Whether a granule has other reads now than before and the read that was added.
inline bool adds_others(const Readers& now, const Readers& before, uint64_t added) {
  const auto other = [&](uint64_t slot) { return slot != added && !before.has(slot); };
  return other(now.first) || std::any_of(now.list.begin(), now.list.begin() + now.count, other);
}
template <class S>
inline void Races::visit_next(Alike& alike, S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane,
                              bool write, const View& v, Place place, int rank, uint64_t address) {
  if (alike.again(cell, units)) return;
  visit_other(alike, shadow, cell, units, id, lane, write, v, place, rank, address);
}
template <class S>
void Races::visit_other(Alike& alike, S& shadow, Cell& cell, uint16_t units, uint32_t id, int8_t lane,
                        bool write, const View& v, Place place, int rank, uint64_t address) {
  remember_for(id);
  const uint16_t others = static_cast<uint16_t>(~units);
  const Slot fresh{id, units, lane};
  const Slot writer = cell.write, reader = cell.read;
  const bool single = !cell.more();
  const bool ordered = quiet(writer, alike.write, alike.ordered_write, units, id);
  if (single && ordered) [[likely]] {
    if (!write && !unknown_ && (!reader.units || reader.bits() == alike.read)) {
      cell.read = fresh;
      alike.keep(writer, reader, units, cell);
      return;
    }
    if (write && writer.record != id && !(writer.units & others) &&
        quiet(reader, alike.read, alike.ordered_read, units, id) && !accesses_[id].adds) {
      cell.write = fresh;
      cell.read.units &= others;
      alike.keep(writer, reader, units, cell);
      return;
    }
  }
  Readers before;
  const bool few = !write && !unknown_ && shadow.readers(cell, before);
  if (few && ordered && alike.after.more && before == alike.before) {
    shadow.set_readers(cell, alike.after);
    return;
  }
  const uint64_t told = told_;
  visit(shadow, cell, units, id, lane, write, v, place, rank, address);
  if (told != told_ || unknown_) return;
  if (single && !cell.more()) alike.keep(writer, reader, units, cell);
  alike.write = writer.bits();
  if (writer.units & units && seen(writer.record)) alike.ordered_write = writer.record;
  if (cell.more()) {
    alike.after.more = false;
    if (few && shadow.readers(cell, alike.after) && !adds_others(alike.after, before, fresh.bits()))
      alike.before = before;
    else
      alike.after.more = false;
  } else if (single) {
    if (write && reader.units & units && seen(reader.record)) alike.ordered_read = reader.record;
    if (write || cell.read.bits() == fresh.bits()) alike.read = reader.bits();
  }
}

// Whether what a read may see of a write that nothing orders before it is what it sees of another write,
// which is: then that is a remark, as of the two writes.
template <class S>
bool Races::reads_alike(S& shadow, const Cell& cell, const Slot& first, uint32_t second, const View& v,
                        Place place, int rank, uint64_t address) {
  const Access& a = accesses_[first.record];
  if (place == Place::Tmem || v.path != Path::Generic || first.lane == kCrowd ||
      covered(v, kHappens, a, first.lane))
    return false;
  auto stands = [&](const Slot& s) {
    const auto pair = alike_.find(std::minmax(first.record, s.record));
    bool ordered = (first.units & ~s.units) == 0 && pair != alike_.end() && pair->second;
    for (uint32_t units = first.units; ordered && units; units &= units - 1)
      ordered = covered(v, kHappens, accesses_[s.record], s.lane_of(__builtin_ctz(units)));
    return ordered;
  };
  bool found = stands(cell.write);
  if (!found && cell.more())
    for (const Slot& s : shadow.overflow(const_cast<Cell&>(cell))) found = found || (s.write && stands(s));
  if (found)
    report(Severity::Note, "race-same-value", first.record, true, second, false, place, rank, address,
           "order of the read after both writes, which leave the same bytes");
  return found;
}

// The last write of a granule; what it leaves of the write before goes to the list.
template <class S>
void Races::put_write(S& shadow, Cell& cell, const Slot& fresh, bool both_stay) {
  Slot old = cell.write;
  if (!both_stay) old.units = static_cast<uint16_t>(old.units & ~fresh.units);
  const bool more = cell.more();
  cell.write = fresh;
  cell.more(more);
  if (old.units && old.record) {
    old.write = 1;
    auto& list = shadow.overflow(cell);
    if (list.size() > kMostSlots) forget_slot(list);
    list.push_back(old);
    if (accesses_[old.record].adds) crowd(list);
    cell.more(true);
  }
}

template <class S>
void Races::add_read(S& shadow, Cell& cell, Slot fresh, const View& v, Place place) {
  Slot& r = cell.read;
  if (r.record == fresh.record) {
    r.add(fresh.units, fresh.lane, kSeveralLanes);
    return;
  }
  const bool inside = !(r.units & ~fresh.units), tmem = place == Place::Tmem,
             whole = r.lane == kWholeWarp && fresh.lane == kWholeWarp && !tmem;
  uint32_t& stood = stands_for_[r.record & 7];
  if (!r.units || (inside && ((seen(r.record) && !tmem) || (whole && stood == r.record))) ||
      replaces(r, fresh, v, place)) {
    if (whole && r.units) stood = r.record;
    r = fresh;
    if (!cell.more()) return;
  }
  if (cell.more()) {
    auto& list = shadow.overflow(cell);
    std::erase_if(list, [&](const Slot& s) { return !s.write && replaces(s, fresh, v, place); });
    if (r.record == fresh.record) {
      r.lane = fresh.lane;
      return;
    }
    for (Slot& s : list)
      if (!s.write && s.record == fresh.record) {
        s.add(fresh.units, fresh.lane, kSeveralLanes);
        return;
      }
    if (list.size() > kMostSlots) forget_slot(list);
  }
  shadow.overflow(cell).push_back(fresh);
  cell.more(true);
}

}  // namespace tileproof
