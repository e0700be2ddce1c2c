// Who touched what: records of accesses, and the shadow of each memory that holds the latest of them.
#include "first_columns.hpp"
#include "machine.hpp"
#include "race.hpp"
#include "race_visit.hpp"
#include "schedule.hpp"
#include "race_dependence.hpp"
#include "slots/atomics.hpp"

namespace tileproof {

namespace {
const uint64_t kGlobalFlag = 0, kSharedFlag = 1ull << 63;
// The flags in shared memory of one CTA; those of a cluster differ below bit 36.
uint64_t shared_flag(const Cta& cta) {
  return kSharedFlag | cta.cluster->serial << 36 | static_cast<uint64_t>(cta.rank) << 32;
}
// Of a granule, reductions that commute with the last and are in no order; sums of floats, whose read is a
// doubt in any case.
const size_t kMostAdders = 64, kMostSums = 4;

// Calls f(address, bytes of the granule) for each granule of 16 bytes that a range touches.
template <class F>
void granules(uint64_t address, uint32_t size, F&& f) {
  if (size == 16 && !(address & 15)) {
    f(address, uint16_t{0xffff});
    return;
  }
  for (const uint64_t end = address + size; address < end;) {
    const uint32_t first = address & 15,
                   n = static_cast<uint32_t>(std::min<uint64_t>(16 - first, end - address));
    f(address, static_cast<uint16_t>(((1u << n) - 1) << first));
    address += n;
  }
}

// Of at most 16 bytes in shared memory those that nobody wrote, by their places in granules.
uint16_t nobodys(const Cta& cta, uint32_t offset, uint32_t size) {
  uint32_t units = 0;
  for (uint32_t k = 0; k < size; ++k)
    if (!(cta.shared.state[offset + k] & (kValid | kPendingMask | kMbarrier)))
      units |= 1u << ((offset + k) & 15);
  return static_cast<uint16_t>(units);
}

// A bulk group completes for the thread that issued it, not for its warp.
int8_t lane_of(const View& v) {
  return v.path == Path::Copy || v.path == Path::ThreadCopy || v.path == Path::Store
             ? static_cast<int8_t>(v.at.lane)
             : kWholeWarp;
}
}  // namespace

uint32_t Races::record(Thread& t, const Origin& at, uint32_t lanes, Path path) {
  const size_t pc = at.instr ? static_cast<size_t>(at.instr - e_.program.code.data()) : 0;
  if (t.nth.empty()) t.nth.resize(e_.program.code.size() + 1, 0);
  static const Access none{};
  Access& a = accesses_.push_back(none);
  a.at = at;
  a.issued = t.now;
  a.lanes = lanes;
  a.path = path;
  a.cluster = t.home->serial;
  a.barrier = t.barrier;
  a.phase = t.phase;
  a.nth = ++t.nth[pc];
  if (accesses_.size() > kMostAccesses && !e_.stopped)
    e_.fault("memory-limit",
             std::string("the race checker keeps ")
                 .append(std::to_string(kMostAccesses))
                 .append(" accesses of resident clusters"),
             at);
  return static_cast<uint32_t>(accesses_.size() - 1);
}

void Races::finish(uint32_t id, uint32_t agent, Tick tick, uint32_t lanes) {
  Access& a = accesses_[id];
  a.agent = agent;
  a.tick = tick;
  if (lanes) a.lanes = lanes;
}

// The view of one lane of the running instruction, and its record, made once per instruction.
const View& Races::running(const Exec& x, int lane) {
  const uint64_t stamp = e_.counters.warp_instructions;
  const bool same = stamp == view_stamp_ && &x.w == view_warp_;
  if (same && (view_.lanes >> lane & 1)) return view_;
  Thread& t = thread(x.w);
  const Group& g = group_of(t, lane);
  if (!same || view_group_ != &g) {
    const uint32_t id = same ? view_.writes : 0;
    view_ = view_of(t, g, 0);
    view_.writes = id;
    memo_for_ = 0;
    view_stamp_ = stamp;
    view_warp_ = &x.w;
    view_group_ = &g;
  }
  if (!view_.writes) {
    view_.writes = record(t, x.origin(lane), x.mask, Path::Generic);
    finish(view_.writes, t.agent, t.now, x.mask);
    accesses_[view_.writes].strong = x.order & kStrong;
    accesses_[view_.writes].scope = static_cast<uint8_t>(x.order >> kScopeBit);
    if (x.order & kStrong) accesses_[view_.writes].hold = e_.scheduler->running(x.w, *x.s);
    if (x.order & kAtomic) accesses_[view_.writes].adds = adds_of(x.instr);
  }
  view_.lanes = x.order & kCollective ? t.all : 1u << lane;
  if (x.order & kCollective) view_.know = joined(t);
  view_.at = x.origin(lane);
  if (t.copies) look_at_copies(t, lane, view_);
  return view_;
}

void Races::generic_shared(const Exec& x, Cta& cta, uint32_t offset, uint32_t size, int lane, bool write) {
  if (!questions_.empty()) answer();
  if (follows_) [[unlikely]]
    follows_->shared(x, cta, offset, size, lane, write);
  if (columns_) columns_->shared(x, cta, offset, size, lane, write);
  if (!write && (x.order & kAtomic)) return;  // its write counts for both
  const View& v = running(x, lane);
  const uint32_t id = v.writes;
  const int8_t by = x.order & kCollective ? kWholeWarp : static_cast<int8_t>(lane);
  Shadow& shadow = state(cta).shared;
  granules(offset, size, [&](uint64_t a, uint16_t units) {
    visit(shadow, shadow.at(a >> 4), units, id, by, write, v, Place::Shared, cta.rank, a);
  });
  if (&cta != &x.cta) remote(cta, id, by);
  if (x.order & kStrong) flag(x, shared_flag(cta) | offset, lane, write);
}

void Races::generic_global(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size, int lane,
                           bool write) {
  if (!questions_.empty()) answer();
  if (follows_ && (x.order & kStrong)) [[unlikely]] {
    if (!write)
      follows_->strong_read(x, lane, address, size);
    else if (!(x.order & kFails))
      follows_->strong_write(x, lane, address, size);
  }
  if (!b.writable || (!write && (x.order & kAtomic)) || (x.order & kForCopy)) return;
  const View& v = running(x, lane);
  const uint32_t id = v.writes;
  if (follows_) [[unlikely]]
    follow(x, id, lane, write);
  const int8_t by = x.order & kCollective ? kWholeWarp : static_cast<int8_t>(lane);
  granules(address, size, [&](uint64_t a, uint16_t units) {
    visit(global_, global_.at(a >> 4), units, id, by, write, v, Place::Global, x.cta.rank, a);
  });
  if (x.order & kStrong) flag(x, kGlobalFlag | address, lane, write);
  writer_ = nullptr;
}

// A chain of dependencies and relaxed communication begins at a weak read, and ends at a weak write.
void Races::follow(const Exec& x, uint32_t id, int lane, bool write) {
  if (x.order & kStrong) {
    if (write) released_.insert(accesses_[id].cluster);  // its accesses are kept
    return;
  }
  if (!write) {
    accesses_[id].read = follows_->weak_read(x, lane, accesses_[id].read);
    return;
  }
  writer_ = &x;
  writer_lane_ = lane;
}

// Where every access that overlaps is atomic too, with scopes that include each other, no pair of lanes can
// race: then the lanes of a granule are one slot. What a release or a fence before it hands on is by lane.
bool Races::takes_row(const Exec& x, const GlobalBuffer&, uint64_t address, uint32_t size) {
  if (!questions_.empty()) answer();
  if ((x.order & (kReleases | kForCopy)) || x.instr->o[slot::atom::dst] != INT32_MIN) return false;
  for (const Group& g : thread(x.w).groups)
    for (const auto& fences : g.fenced)
      if (!fences.empty()) return false;
  const uint32_t id = running(x, x.lane()).writes;
  const Access& b = accesses_[id];
  uint32_t last = id;  // neighbours mostly have the same record
  auto apart = [&](const Slot& s, uint16_t units) {
    if (!(s.units & units) || s.record == last || s.record == id) return false;
    const Access& a = accesses_[s.record];
    if (!(a.strong && together(a, b) && a.adds && a.adds == b.adds)) return true;
    last = s.record;
    return false;
  };
  bool quiet = true;
  row_.clear();
  granules(address, size * static_cast<uint32_t>(__builtin_popcount(x.mask)),
           [&](uint64_t a, uint16_t units) {
             Cell& cell = global_.at(a >> 4);
             row_.push_back(&cell);
             quiet = quiet && !apart(cell.write, units) && !apart(cell.read, units);
             if (quiet && cell.more())
               for (const Slot& s : global_.overflow(cell)) quiet = quiet && !apart(s, units);
           });
  return quiet;
}

void Races::atomic_row(const Exec& x, const GlobalBuffer&, uint64_t address, uint32_t size) {
  int lane = x.lane();
  auto cell = row_.begin();
  Thread& t = thread(x.w);
  const bool alike = !(x.mask & ~group_of(t, lane).lanes);  // its lanes know the same
  uint64_t last = 0;
  bool stayed = false;
  // An addition that comes before this one is replaced, as in `visit`.
  const auto stays = [&](const Slot& old, const Slot& fresh) {
    if (accesses_[old.record].agent == t.agent && old.lane < 32 && old.lane == fresh.lane &&
        old.stride == fresh.stride)
      return false;  // lane by lane in program order
    const uint64_t which = static_cast<uint64_t>(old.record) << 8 | static_cast<uint8_t>(old.lane);
    if (!old.stride || last != which) stayed = !alike || adds_apart(old, view_.writes, view_);
    last = old.stride ? which : 0;
    return stayed;
  };
  granules(address, size * static_cast<uint32_t>(__builtin_popcount(x.mask)),
           [&](uint64_t a, uint16_t units) {
             const int first = static_cast<int>(a & 15) / static_cast<int>(size),
                       count = __builtin_popcount(units) / static_cast<int>(size);
             Slot fresh{view_.writes, units, static_cast<int8_t>(lane)};
             if (count > 1) {
               fresh.lane = static_cast<int8_t>(lane - first);
               fresh.stride = static_cast<uint8_t>(size) & 0x7f;
             }
             lane += count;
             if ((*cell)->more()) [[unlikely]] {
               auto& list = global_.overflow(**cell);
               for (Slot& s : list)
                 if ((s.units & units) && !stays(s, fresh)) s.units = static_cast<uint16_t>(s.units & ~units);
               std::erase_if(list, [](const Slot& s) { return !s.units; });
               if (list.empty()) {
                 global_.drop(**cell);
                 (*cell)->more(false);
               }
             }
             (*cell)->read.units = static_cast<uint16_t>((*cell)->read.units & ~units);
             const Slot old = (*cell)->write;
             const bool both = (old.units & units) && stays(old, fresh);
             if (both || (*cell)->more() || old.units & ~units)
               put_write(global_, **cell, fresh, both);
             else
               (*cell)->write = fresh;
             ++cell;
           });
}

void Races::async_shared(Cta& cta, uint32_t offset, uint32_t size, bool write) {
  if (columns_) columns_->copied(cta, offset, size, write, op_ ? op_->at : Origin{});
  if (!op_) return;
  View& v = *op_;
  if (write && !v.writes && v.path == Path::Store && v.reads && !accesses_[v.reads].strong) {
    v.writes = v.reads;  // it reads nothing
  } else if (write && !v.writes) {
    accesses_.push_back(accesses_[v.reads]);
    v.writes = static_cast<uint32_t>(accesses_.size() - 1);
    accesses_[v.writes].tick = kUnfinished;
  }
  const uint32_t id = write ? v.writes : v.reads;
  if (!id) return;
  if (write) v.wrote = cta.rank;
  const int8_t lane = lane_of(v);
  if (follows_) [[unlikely]] {
    if (write)
      follows_->overwritten(cta, offset, size);
    else
      follows_->taken(cta, offset, size);
  }
  if (!write && e_.unseen != Unseen::No) [[unlikely]] {
    if (v.path == Path::Copy && e_.unseen == Unseen::Error)
      accesses_[v.reads].unwritten = accesses_[v.writes].unwritten = true;
    // Of an MMA's operand each byte is unknown where some are: elements of several types lie there.
    if (size <= 16) {
      nobodys_ = nobodys(cta, offset, size);
      unknown_ = v.path == Path::Copy ? nobodys_ : 0xffff;
    }
  }
  Shadow& shadow = state(cta).shared;
  Alike alike;
  const bool store = write && v.path == Path::Store && !accesses_[id].strong;
  if (store && v.know == stores_know_) alike = stores_;
  granules(offset, size, [&](uint64_t a, uint16_t units) {
    visit_next(alike, shadow, shadow.at(a >> 4), units, id, lane, write, v, Place::Shared, cta.rank, a);
  });
  unknown_ = 0;
  if (store) {
    stores_ = {};
    stores_.ordered_write = alike.ordered_write;
    stores_.ordered_read = alike.ordered_read;
    stores_know_ = v.know;
  }
  if (!write && cta.rank != v.at.rank) remote(cta, id, lane);
}

// A reduction of shared memory, .relaxed.gpu; its read of a source in shared memory is none.
void Races::async_atomic() {
  if (!op_ || op_->source) return;
  if (op_->path == Path::Copy) {
    op_->source = op_->reads;
    accesses_.push_back(accesses_[op_->reads]);
    op_->reads = op_->writes = static_cast<uint32_t>(accesses_.size() - 1);
  }
  Access& a = accesses_[op_->reads];
  a.strong = true;
  a.scope = kScopeGpu;
  a.adds = adds_of(a.at.instr);
}

void Races::async_chunks(Cta& cta, std::span<const uint32_t> offsets) {
  const bool each =
      follows_ || (columns_ && std::any_of(offsets.begin(), offsets.end(),
                                           [&](uint32_t offset) { return columns_->near(offset, 16); }));
  if (each) {
    for (const uint32_t offset : offsets) async_shared(cta, offset, 16, false);
    return;
  }
  if (!op_ || !op_->reads) return;
  const View& v = *op_;
  const int8_t lane = lane_of(v);
  Shadow& shadow = state(cta).shared;
  Alike alike;
  for (const uint32_t offset : offsets)
    visit_next(alike, shadow, shadow.at(offset >> 4), 0xffff, v.reads, lane, false, v, Place::Shared,
               cta.rank, offset);
  if (cta.rank != v.at.rank && !offsets.empty()) remote(cta, v.reads, lane);
}

void Races::async_global(const GlobalBuffer& b, uint64_t address, uint32_t size, bool write,
                         const Change* by) {
  if (!op_ || !b.writable) return;
  const View& v = *op_;
  const uint32_t id = write ? v.writes : v.reads;
  if (!id) return;
  const int8_t lane = lane_of(v);
  if (by) {  // .relaxed.gpu each (PTX ISA 9.7.9.25.4.2)
    accesses_[id].strong = true;
    accesses_[id].scope = kScopeGpu;
    accesses_[id].adds = adds_of(accesses_[id].at.instr, by);
    if (const AsyncOp* op = e_.scheduler->completing()) accesses_[id].hold = {op->actor, op->step};
  }
  granules(address, size, [&](uint64_t a, uint16_t units) {
    visit(global_, global_.at(a >> 4), units, id, lane, write, v, Place::Global, v.at.rank, a);
  });
}

// Who acquires from the location what this leaves there comes after it and what its thread did before it.
void Races::async_release(uint64_t address, uint8_t scope) {
  if (!op_ || !op_->writes) return;
  Access& a = accesses_[op_->writes];
  a.strong = true;
  a.scope = scope;
  if (const AsyncOp* op = e_.scheduler->completing()) a.hold = {op->actor, op->step};
  Knowledge& to = released_at(changing(kGlobalFlag | address), {a.cluster, op_->at.rank}, scope);
  give(*op_, to);
  to.started = 0;  // ranks are of one cluster
  released_.insert(a.cluster);
}

void Races::tmem(Cta& cta, int sixteenth, uint16_t units, int column, int columns, bool write,
                 const PendingTmemLoad* load) {
  touch_tmem(load ? *load->view : *op_, cta, sixteenth, units, column, columns, write);
}

void Races::touch_tmem(const View& v, Cta& cta, int sixteenth, uint16_t units, int column, int columns,
                       bool write) {
  CtaState& there = state(cta);
  Shadow& shadow = there.tmem;
  const uint32_t id = write ? v.writes : v.reads;
  if (!there.pair.parts.empty()) pair_touch(cta, id, write, column, columns);
  after_alloc(v, id, write, cta, column, columns);
  Alike alike;
  const uint64_t first = static_cast<uint64_t>(sixteenth * 16 + __builtin_ctz(units)) << 16;
  for (int c = column; c < column + columns; ++c)
    visit_next(alike, shadow, shadow.at(tmem_granule(sixteenth, c)), units, id, kWholeWarp, write, v,
               Place::Tmem, cta.rank, first | static_cast<uint64_t>(c));
}

void Races::tmem_dealloc(const Exec& x, int column, int columns) {
  allocates(x);
  Thread& t = thread(x.w);
  View v = view_of(t, t.groups[0], t.all);
  v.know = joined(t);
  v.path = Path::Generic;  // no tcgen05 fence is asked for, only completion and order
  v.at = x.origin(x.lane());
  v.writes = record(t, v.at, t.all, Path::Warp);
  finish(v.writes, t.agent, t.now, t.all);
  Shadow& shadow = state(x.cta).tmem;
  for (int part = 0; part < kTmemLanes / 16; ++part) {
    touch_tmem(v, x.cta, part, 0xffff, column, columns, true);
    for (int c = column; c < column + columns; ++c) {
      Cell& cell = shadow.at(tmem_granule(part, c));
      if (cell.more()) shadow.drop(cell);
      cell = Cell{};
    }
  }
  for (int u = column / 32; u < (column + columns) / 32; ++u)
    state(x.cta).columns[static_cast<size_t>(u)] = 0;
}

// Keeps an access to memory of another CTA: that CTA must not exit before it.
void Races::remote(Cta& cta, uint32_t id, int8_t lane) {
  auto& all = state(cta).remote;
  if (!all.empty() && all.back().first == id) {
    if (all.back().second != lane) all.back().second = kSeveralLanes;
    return;
  }
  all.push_back({id, lane});
  if (all.size() < 4096) return;
  // Of each agent and lane the last one stands for the earlier ones.
  std::map<std::tuple<uint32_t, int8_t, uint32_t>, std::pair<uint32_t, int8_t>> last;
  std::vector<std::pair<uint32_t, int8_t>> kept;
  for (auto& r : all) {
    if (accesses_[r.first].tick == kUnfinished)
      kept.push_back(r);
    else
      last[{accesses_[r.first].agent, r.second, accesses_[r.first].lanes}] = r;
  }
  for (auto& r : last) kept.push_back(r.second);
  all = std::move(kept);
}

// More accesses of one granule than are kept.
void Races::forget_slot(std::vector<Slot>& list) {
  const Origin& at = accesses_[list.front().record].at;
  doubt("not-tracked", at, at,
        "more than " + std::to_string(kMostSlots) + " accesses of 16 bytes with nothing between them; " +
            mnemonic(at.instr) + " is compared with no later one");
  list.erase(list.begin());
}

// Whether an earlier write is no reduction that reduction `id` commutes with and comes after.
bool Races::adds_apart(const Slot& first, uint32_t id, const View& v) {
  const Access& a = accesses_[first.record];
  return a.adds != accesses_[id].adds || first.lane == kCrowd ||
         !covered(v, kHappens, a, first.stride ? kSeveralLanes : first.lane);
}

// Of many reductions in no order the oldest are a crowd: any other access of their bytes is a doubt.
void Races::crowd(std::vector<Slot>& list) {
  std::vector<size_t> adders;
  for (size_t n = 0; n < list.size(); ++n)
    if (list[n].write && accesses_[list[n].record].adds) adders.push_back(n);
  if (adders.empty()) return;
  const bool sum = accesses_[list[adders[0]].record].adds & kSum;
  if (adders.size() <= (sum ? kMostSums : kMostAdders)) return;
  Slot &into = list[adders[0]], &next = list[adders[1]];
  if (accesses_[into.record].adds != accesses_[next.record].adds) return;
  into.units |= next.units;
  into.lane = kCrowd;
  into.stride = 0;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(adders[1]));
}

// Two lanes of one store or cp.async at the same bytes: a data race (PTX ISA 8.7.1), unless both leave the
// same. Where they know different things, what came before was compared with the first of them alone.
void Races::same_store(const Slot& both, Place place, int rank, uint64_t address) {
  const Access& a = accesses_[both.record];
  if ((a.path != Path::Generic && a.path != Path::ThreadCopy) || place == Place::Tmem) return;
  if (a.strong) {
    if (!a.adds)
      doubt("order-decides", a.at, a.at,
            "lanes of " + mnemonic(a.at.instr) + " access " + describe(place, rank, address) +
                ", and their order is not defined");
    return;
  }
  if (ask("race-unordered", both, both.record, place, rank, address,
          "a store by a single lane: which of several lanes of a store is last is not defined")) {
    Thread& t = thread_at(a.at);
    questions_.back().one_store = a.path == Path::ThreadCopy
                                      ? op_->parts->views.size() == 1
                                      : !(a.lanes & ~group_of(t, __builtin_ctz(a.lanes)).lanes);
  }
}

// Whether `fresh` stands for `old` as well: what is ordered after the one is ordered after the other.
bool Races::replaces(const Slot& old, Slot& fresh, const View& v, Place place) const {
  if (!old.units) return true;
  if (old.units & ~fresh.units || old.lane == kCrowd) return false;
  const Access &a = accesses_[old.record], &b = accesses_[fresh.record];
  if (a.tick == kUnfinished || a.read != b.read) return false;
  const bool own = a.agent == b.agent;
  const bool several = old.lane == kSeveralLanes && !old.stride;  // of which record, its lanes say
  if (own && old.lane == fresh.lane && old.stride == fresh.stride && !several) return true;
  if (covered(v, place == Place::Tmem ? kAfterSync : kHappens, a, old.stride ? kSeveralLanes : old.lane))
    return true;
  const uint32_t lanes = old.lane < 32 && !old.stride ? 1u << old.lane : a.lanes;
  if (!own || lanes & ~b.lanes) return false;
  fresh.lane = kSeveralLanes;
  fresh.stride = 0;
  return true;
}

// Once no cluster is resident, only what they did to global memory is kept: of one that released something
// there all, so that an acquire orders it; of the others, which nothing can come after, one access an
// instruction.
void Races::finish_cluster(Cluster& cluster) {
  answer();
  if (e_.live.size() <= 1) settle_reads();
  for (const auto& cta : cluster.ctas)
    for (const auto& [offset, b] : state(*cta).barriers) never_ends(*cta, offset, b);
  std::erase_if(flags_, [&](const auto& f) { return f.first >> 36 == shared_flag(*cluster.ctas[0]) >> 36; });
  if (e_.live.size() > 1) return;
  alike_.clear();
  const size_t before = retired_;
  std::vector<Access> kept;
  std::map<std::tuple<const Instr*, bool, bool, uint8_t, uint8_t, uint32_t>, uint32_t> ids;
  std::vector<uint32_t> now(accesses_.size());  // of a record that was met
  global_.each_touched([&](Slot& s) {
    if (s.record < before) return;
    if (now[s.record]) {
      s.record = now[s.record];
      return;
    }
    const Access& a = accesses_[s.record];
    const bool released = released_.count(a.cluster) != 0;
    auto [it, fresh] =
        ids.try_emplace({a.at.instr, a.strong, a.unwritten, a.scope, a.adds, released ? s.record : 0},
                        static_cast<uint32_t>(before + kept.size()));
    if (fresh) {
      kept.push_back(a);
      if (!released) {
        kept.back().agent = 0;
        kept.back().tick = kUnfinished;
      }
    }
    s.record = now[s.record] = it->second;
  });
  accesses_.shrink(before);
  for (const Access& a : kept) accesses_.push_back(a);
  retired_ = accesses_.size();
  if (released_.empty()) next_base_ = 0;
  op_.reset();
  stores_know_.reset();
}

}  // namespace tileproof
