// PTX ISA 9.7.12.12: griddepcontrol.wait waits until the prerequisite grids in flight have completed and
// their memory operations are visible; launch_dependents promises nothing about memory. CUDA programming
// guide, streams: what is issued into different streams may run in any order, or at the same time.
#include "grids.hpp"

#include <algorithm>
#include <mutex>

#include "change.hpp"
#include "reductions.hpp"

namespace tileproof {

namespace {

// Of bytes that atomic operations of several kinds write, `mixed()` is kept.
template <class Mixed>
void note(GridRecord& record, const GlobalBuffer& b, uint64_t first, uint64_t count, bool write, uint32_t id,
          Mixed mixed) {
  GridRecord::Bytes& bytes = record.buffers[{b.address, b.data}];
  if (bytes.size != b.size) bytes = {b.size, nullptr, nullptr};
  GridRecord::Ids& ids = write ? bytes.wrote : bytes.read;
  if (!ids) ids.reset(static_cast<uint32_t*>(std::calloc(b.size, sizeof(uint32_t))));
  if (!ids) throw std::bad_alloc();
  const bool atomic = record.places[id].atomic;
  const uint32_t adds = record.places[id].adds;
  for (uint64_t k = first; k < first + count; ++k) {
    if (!atomic || !ids[k])
      ids[k] = id;  // a plain access conflicts with more than an atomic one
    else if (record.places[ids[k]].atomic && record.places[ids[k]].adds != adds)
      ids[k] = mixed();
  }
}

// Numbers of kinds of reductions, equal in all launches of the process; 0: of no kind.
uint32_t number_of(const std::string& kind) {
  static std::mutex alone;
  static std::map<std::string, uint32_t> numbers{{"", 0}};
  const std::lock_guard<std::mutex> hold(alone);
  return numbers.try_emplace(kind, static_cast<uint32_t>(numbers.size())).first->second;
}

}  // namespace

void GridRecord::touch(const GlobalBuffer& b, uint64_t first, uint64_t count, bool write,
                       const std::string& what) {
  GridPlace p;
  p.instruction = what;
  places.push_back(std::move(p));
  const auto id = static_cast<uint32_t>(places.size() - 1);
  note(*this, b, first, count, write, id, [id] { return id; });
}

int64_t GridRecord::meets(const GlobalBuffer& b, uint64_t first, uint64_t count, bool write, bool atomic,
                          const GridPlace** place, bool* wrote) const {
  const Bytes* bytes = find(b);
  if (!bytes) return -1;
  for (uint64_t k = first; k < first + count; ++k) {
    uint32_t id = bytes->wrote ? bytes->wrote[k] : 0;
    *wrote = id != 0;
    if (id && atomic && places[id].atomic) id = 0;
    if (!id && write && bytes->read) {
      id = bytes->read[k];
      *wrote = false;
    }
    if (!id) continue;
    *place = &places[id];
    return static_cast<int64_t>(k);
  }
  return -1;
}

int64_t GridRecord::exchanged(const GlobalBuffer& b, uint64_t first, uint64_t count, uint32_t adds,
                              const GridPlace** place) const {
  const Bytes* bytes = find(b);
  if (!bytes || !bytes->wrote) return -1;
  for (uint64_t k = first; k < first + count; ++k) {
    const GridPlace& other = places[bytes->wrote[k]];
    if (!other.atomic || (adds && other.adds == adds)) continue;
    *place = &other;
    return static_cast<int64_t>(k);
  }
  return -1;
}

void Grids::start_cluster(Cluster& cluster) {
  clusters_[&cluster] = {};
  for (auto& cta : cluster.ctas) {
    Block& b = blocks_[cta.get()];
    b = {};
    b.lanes.assign(cta->warps.size(), 0);
  }
}

void Grids::grid_wait(const Exec& x) {
  lanes(x.w) |= x.mask;
  e_.config.grid_record->waited = true;
}

void Grids::grid_launch_dependents(const Exec& x) {
  e_.config.grid_record->dependents = true;
  if (x.mask & ~lanes(x.w)) e_.config.grid_record->early = true;
}

// A CTA that holds columns and waits for another grid must not keep columns from a CTA of that grid.
void Grids::tmem_alloc(const Exec& x) {
  GridRecord& own = *e_.config.grid_record;
  own.shared_bytes = x.cta.shared.data.size();
  own.warps = x.cta.warps.size();
  const bool knows = lanes(x.w) & x.mask;
  const auto& beside = e_.config.in_flight;
  // Of several streams, CTAs of a third grid may hold the columns of both.
  const bool streams = std::any_of(beside.begin(), beside.end(),
                                   [](const auto& grid) { return grid.second == InFlight::Unordered; });
  for (const auto& [earlier, how] : beside) {
    const bool late = how == InFlight::Unordered ? earlier->warps > 0 : earlier->allocates_late;
    if (!late || !(streams || e_.fits_with(x.cta, earlier->shared_bytes, earlier->warps))) continue;
    if (how == InFlight::Waits && !knows)
      doubt("open",
            "tcgen05.alloc before griddepcontrol.wait: its CTA may hold the columns that " + earlier->kernel +
                " allocates after launch_dependents, and wait for that grid",
            x.origin(x.lane()));
    else if (how != InFlight::Waits && e_.config.alone)
      doubt("order-decides",
            "tcgen05.alloc beside " + earlier->kernel +
                ": the schedule excludes CTAs of other kernels (alone), " +
                "but not of this grid, which may have the first columns",
            x.origin(x.lane()));
  }
}

void Grids::warp_sync(const Warp& w, uint32_t members) {
  uint32_t& know = lanes(w);
  if (know & members) know |= members;
}

void Grids::named_arrive(const Exec& x, uint32_t id) {
  NamedTold& b = blocks_[&x.cta].named[id];
  b.knows |= (lanes(x.w) & x.mask) != 0;
  b.warps |= 1u << x.w.index;
}

void Grids::named_done(const Cta& cta, uint32_t id) {
  NamedTold& b = blocks_[&cta].named[id];
  b.inherit = b.knows ? b.inherit | b.warps : b.inherit & ~b.warps;
  b.knows = false;
  b.warps = 0;
}

void Grids::named_pass(const Warp& w, uint32_t id) {
  if (blocks_[w.cta].named[id].inherit >> w.index & 1) lanes(w) |= w.live;
}

void Grids::cluster_arrive(const Exec& x, bool releases) {
  if (releases && lanes(x.w) & x.mask) clusters_[x.cta.cluster].now = true;
}

void Grids::cluster_done(const Cluster& cluster) {
  Told& b = clusters_[&cluster];
  b.before = b.now;
  b.now = false;
}

void Grids::cluster_pass(const Warp& w, uint32_t members) {
  if (clusters_[w.cta->cluster].before) lanes(w) |= members;
}

void Grids::mbarrier_init(const Exec&, Cta& cta, uint32_t offset, int) {
  blocks_[&cta].mbarriers.erase(offset);
}

void Grids::mbarrier_arrive(const Exec& x, Cta& cta, uint32_t offset, uint32_t members, MbarrierScope reach) {
  const bool releases = reach != MbarrierScope::Relaxed && (reach != MbarrierScope::Cta || &cta == &x.cta);
  if (releases && lanes(x.w) & members) blocks_[&cta].mbarriers[offset].now = true;
}

void Grids::mbarrier_commit(Cta& cta, uint32_t offset) {
  if (!running_.empty() && running_.back().lanes >> running_.back().at.lane & 1)
    blocks_[&cta].mbarriers[offset].now = true;
}

// Who passes from here on has seen this phase or a later one, so that what was told stays told.
void Grids::mbarrier_done(Cta& cta, const Mbarrier& b, const Origin&) {
  auto& all = blocks_[&cta].mbarriers;
  if (auto it = all.find(b.offset); it != all.end() && it->second.now) it->second.before = true;
}

void Grids::mbarrier_pass(const Exec& x, Cta& cta, uint32_t offset, uint32_t members, MbarrierScope reach) {
  auto& all = blocks_[&cta].mbarriers;
  if (auto it = all.find(offset); reach != MbarrierScope::Relaxed && it != all.end() && it->second.before)
    lanes(x.w) |= members;
}

void Grids::issue(AsyncOp& op) {
  if (!running_.empty() && running_.back().at.instr == op.origin.instr) {
    issued_[op.seq] = running_.back();  // the second half of a store
    return;
  }
  const Cta* cta = op.cluster->cta(op.origin.rank);
  const bool known = cta && op.origin.warp >= 0 && op.origin.lane >= 0;
  issued_[op.seq] = {op.origin, known ? blocks_[cta].lanes[static_cast<size_t>(op.origin.warp)] : 0};
}

void Grids::completing(const AsyncOp& op) { running_.push_back(issued_[op.seq]); }

void Grids::completed(const AsyncOp& op) {
  running_.pop_back();
  issued_.erase(op.seq);
}

void Grids::copy_lane(int lane) { running_.back().at.lane = lane; }

void Grids::generic_global(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size, int lane,
                           bool write) {
  if (!write && (x.order & kAtomic)) return;  // its write counts for both
  access(b, address, size, write, x.order & kAtomic, lanes(x.w) >> lane & 1, x.origin(lane));
}

void Grids::async_global(const GlobalBuffer& b, uint64_t address, uint32_t size, bool write,
                         const Change* by) {
  if (running_.empty()) return;
  const Running& op = running_.back();
  const bool knows = op.at.lane >= 0 && (op.lanes >> op.at.lane & 1);
  access(b, address, size, write, by, knows, op.at, by);
}

void Grids::access(const GlobalBuffer& b, uint64_t address, uint32_t size, bool write, bool atomic,
                   bool knows, const Origin& at, const Change* by) {
  for (const auto& earlier : e_.config.in_flight)
    if (!(knows && earlier.second == InFlight::Waits) &&
        check(earlier, b, address, size, write, atomic, at)) {
      e_.unseen = write ? Unseen::No : Unseen::Followed;
      break;
    }
  const uint32_t adds = atomic ? adds_of(at.instr, by) : 0;
  if (atomic && e_.config.races)
    for (const auto& earlier : e_.config.in_flight)
      if (!(knows && earlier.second == InFlight::Waits)) doubt_exchange(earlier, b, address, size, adds, at);
  note(*e_.config.grid_record, b, address - b.address, size, write, place(at, atomic, adds),
       [&] { return place(at, true, 0); });
}

uint32_t Grids::adds_of(const Instr* i, const Change* by) {
  if (!i) return 0;
  const auto [known, fresh] = adds_.try_emplace({i, by ? static_cast<int>(by->type) : -1}, 0);
  if (fresh) known->second = number_of(reduction_kind(e_.program, *i, by));
  return known->second;
}

void Grids::doubt(const char* reason, const std::string& text, const Origin& at) {
  const auto [found, fresh] = doubted_.try_emplace({at.instr, text}, e_.doubts.size());
  if (fresh)
    e_.doubts.push_back({reason, text, at, {}});
  else
    ++e_.doubts[found->second].count;
}

// Atomic operations do not race; what they leave does not depend on their order only if they are of one kind.
void Grids::doubt_exchange(const InFlightGrid& earlier, const GlobalBuffer& b, uint64_t address,
                           uint32_t size, uint32_t adds, const Origin& at) {
  const GridPlace* place = nullptr;
  if (earlier.first->exchanged(b, address - b.address, size, adds, &place) < 0) return;
  doubt("order-decides",
        e_.program.names[static_cast<size_t>(at.instr->name)] + " and " + place->instruction +
            " of an earlier grid (" + earlier.first->kernel + ") access one word of " + b.name +
            ", and nothing orders them: their results depend on which is first",
        at);
}

uint32_t Grids::place(const Origin& at, bool atomic, uint32_t adds) {
  auto [it, fresh] = places_.try_emplace({at.instr, at.cta.x, at.cta.y, at.cta.z, at.warp, atomic, adds}, 0);
  if (!fresh) return it->second;
  GridPlace p;
  p.at = at;
  p.atomic = atomic;
  p.adds = adds;
  if (at.instr) {
    p.instruction = e_.program.names[static_cast<size_t>(at.instr->name)];
    if (at.instr->source >= 0) p.source = e_.program.sources[static_cast<size_t>(at.instr->source)];
    p.line = at.instr->line;
  }
  auto& places = e_.config.grid_record->places;
  places.push_back(std::move(p));
  return it->second = static_cast<uint32_t>(places.size() - 1);
}

bool Grids::check(const InFlightGrid& earlier, const GlobalBuffer& b, uint64_t address, uint32_t size,
                  bool write, bool atomic, const Origin& at) {
  const GridRecord& record = *earlier.first;
  const GridPlace* place = nullptr;
  bool wrote = false;
  const int64_t k = record.meets(b, address - b.address, size, write, atomic, &place, &wrote);
  if (k < 0) return false;
  const GridPlace& p = *place;
  const bool unordered = earlier.second == InFlight::Unordered;
  const std::string missing =
      unordered ? "an event that the later stream waits for, or a synchronisation of the host between the two"
      : earlier.second == InFlight::Waits
          ? "griddepcontrol.wait before it, by this thread or by a thread that a barrier orders before it"
          : "griddepcontrol.wait in the grids between the two: a grid without it may complete "
            "before its own prerequisites";
  const std::string other =
      p.line ? p.instruction + " at PTX line " + std::to_string(p.line) + " of " : p.instruction + ", ";
  const std::string did = e_.program.names[static_cast<size_t>(at.instr->name)] +
                          (write ? " writes" : " reads") + " byte " + std::to_string(k) + " of " + b.name +
                          ", which " + other;
  Finding* f = unordered ? e_.sink.add(Severity::Error, "race-launches",
                                       did + record.where + " " + (wrote ? "wrote" : "read") +
                                           ", and nothing orders it and " + e_.config.grid_record->where +
                                           "; missing: " + missing,
                                       at, b.address + static_cast<uint64_t>(k), p.at.instr)
                         : e_.sink.add(Severity::Error, "race-grids",
                                       did + record.kernel + ", an earlier grid of the stream, " +
                                           (wrote ? "wrote" : "read") +
                                           "; both grids may be in flight; missing: " + missing,
                                       at, b.address + static_cast<uint64_t>(k), p.at.instr);
  if (!f || f->has_race) return true;
  f->has_race = true;
  Race& r = f->race;
  r.first = p.at;
  r.first.instr = nullptr;  // it belongs to the other launch
  r.earlier = &p;
  r.first_lanes = p.at.lane >= 0 ? 1u << p.at.lane : 0;
  r.first_writes = wrote;
  r.second_writes = write;
  r.space = "global";
  r.buffer = b.name;
  r.missing = missing;
  return true;
}

}  // namespace tileproof
