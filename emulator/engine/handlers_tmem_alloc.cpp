// Allocation of tensor memory (PTX ISA 9.7.16.7).
#include "mma.hpp"
#include "queues.hpp"
#include "slots/tcgen05.hpp"
#include "tmem_map.hpp"
#include "tmem_reduce.hpp"

#include "tmem_loads.hpp"

namespace tileproof {
namespace {

// A cta_group::2 allocation instruction is one warp's part of what both CTAs of the pair do; the n-th parts
// belong together. It may block for the other part or not (PTX ISA 9.7.16.5): here it never does, so that
// what relies on blocking is seen. Records the part, once; null after a fault.
Cta* pair_part(Exec& x, const Instr& i) {
  Cta* twin = x.cta.cluster->cta(x.cta.rank ^ 1);
  if (!twin) {
    x.e.fault("cta-pair",
              "a cta_group::2 instruction needs a cluster with CTA pairs; this cluster has " +
                  std::to_string(x.cta.cluster->ctas.size()) + " CTA",
              x.origin(x.lane()));
    return nullptr;
  }
  if (x.s->arrived) return twin;  // an alloc that has waited for columns
  const size_t n = x.cta.pair_ops.size();
  x.cta.pair_ops.push_back(&i);
  x.s->arrived = true;
  ++x.e.progress;
  if (n < twin->pair_ops.size() && twin->pair_ops[n]->fn != i.fn) {
    x.e.fault("cta-pair", "the two CTAs of a pair run different cta_group::2 allocation instructions",
              x.origin(x.lane()));
    return nullptr;
  }
  if (twin->exited() && n >= twin->pair_ops.size()) {
    x.e.fault("pair-left",
              "CTA rank " + std::to_string(twin->rank) +
                  " has exited without its part of the cta_group::2 instruction " +
                  x.e.program.names[static_cast<size_t>(i.name)],
              x.origin(x.lane()));
    return nullptr;
  }
  return twin;
}

constexpr size_t kFewestRegisters = 8;  // of a thread

// Whether a CTA of `warps` warps, with `shared` bytes and `registers` for each of its threads, fits onto the
// processor beside this one.
bool fits_beside(const Engine& e, const Cta& cta, size_t shared, size_t warps, size_t registers) {
  constexpr size_t kUnit = 128;  // what shared memory is given out by
  const size_t own = (e.config.block.volume() + 31) / 32;
  const Handler moves = handler_table()[static_cast<size_t>(handler_ids().at("setmaxnreg"))];
  // Without setmaxnreg the directives are bounds, and ptxas may take fewer.
  const bool counted =
      e.config.launch_registers && std::any_of(e.program.code.begin(), e.program.code.end(),
                                               [&](const Instr& i) { return i.fn == moves; });
  const size_t bytes = (shared + kUnit - 1) / kUnit * kUnit + limits::kReservedSharedBytes;
  return cta.shared.data.size() + bytes <= limits::kProcessorSharedBytes &&
         32 * (own + warps) <= limits::kProcessorThreads &&
         (!counted || 32 * (own * static_cast<size_t>(e.config.launch_registers) + warps * registers) <=
                          limits::kRegisters);
}

// Whether nobody else's columns come before its own. The smallest CTA that could have some has a warp, and
// shared memory for the address of its columns.
bool alone(const Engine& e, const Cta& cta) {
  return e.config.alone || !fits_beside(e, cta, 4, 1, kFewestRegisters);
}

// The first column of the allocation; -1 while there is no room. `twin` null: for this CTA alone.
int find_columns(Engine& e, Cta& cta, int columns, const Cta* twin) {
  const int units = columns / 32;
  auto fits = [&](int u) {
    for (int k = 0; k < units; ++k)
      if (u + k >= 16 || cta.tmem.taken(u + k) || (twin && twin->tmem.taken(u + k))) return false;
    return true;
  };
  std::vector<int> starts;
  // Multiples of the size: with sizes that never increase, no legal sequence of allocations is then blocked
  // by holes.
  for (int u = 0; u + units <= 16; u += units)
    if (fits(u)) starts.push_back(u);
  if (starts.empty()) return -1;
  if (!e.config.environment || alone(e, cta)) return starts[0] * 32;
  // The base need not be 0 where CTAs share an SM; both CTAs of a pair get the same one.
  const uint64_t which = twin ? cta.pair_ops.size() * 77777
                              : 1 + cta.tmem.allocators.size() * 64 + static_cast<uint64_t>(cta.rank) +
                                    (static_cast<uint64_t>(cta.id.x) << 32 ^ cta.id.y << 16 ^ cta.id.z);
  std::mt19937_64 r(e.config.environment ^ which);
  // An odd environment gives other columns than the first where it can.
  const size_t away = e.config.environment % 2 && starts.size() > 1 ? 1 : 0;
  return starts[away + r() % (starts.size() - away)] * 32;
}

std::vector<PairAllocation>& pair_allocations(Cta& cta) {
  return cta.cluster->cta(cta.rank & ~1)->pair_allocations;
}

// As find_columns: the columns that its twin's part has got, or new ones, which are kept for the twin; -2
// after a fault.
int pair_columns(Exec& x, Cta& twin, int columns) {
  const uint8_t me = static_cast<uint8_t>(1 << (x.cta.rank & 1));
  for (PairAllocation& p : pair_allocations(x.cta)) {
    if (p.allocated & me) continue;
    if (p.columns != columns) {
      x.e.fault("cta-pair",
                "the two CTAs of a pair allocate " + std::to_string(p.columns) + " and " +
                    std::to_string(columns) + " columns",
                x.origin(x.lane()));
      return -2;
    }
    p.allocated |= me;
    x.cta.tmem.hold(p.base, columns, false);
    return p.base;
  }
  const int base = find_columns(x.e, x.cta, columns, &twin);
  if (base < 0) return -1;
  twin.tmem.hold(base, columns, true);
  pair_allocations(x.cta).push_back({base, columns, me, 0});
  return base;
}

// This CTA's part of freeing: the columns are free in both when both have done theirs.
void free_pair_columns(Cta& cta, size_t index) {
  auto& all = pair_allocations(cta);
  PairAllocation& p = all[index];
  Cta& twin = *cta.cluster->cta(cta.rank ^ 1);
  p.freed |= static_cast<uint8_t>(1 << (cta.rank & 1));
  cta.tmem.hold(p.base, p.columns, true);
  if (p.freed != 3) return;
  cta.tmem.hold(p.base, p.columns, false);
  twin.tmem.hold(p.base, p.columns, false);
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
}

// base: shared address of the result.
Step alloc(Exec& x, const Instr& i) {
  namespace s = slot::tcgen05_alloc;
  if (!x.whole_warp()) return Step::Block;
  const int l = x.lane();
  const uint32_t columns = x.src<uint32_t>(i.o[s::columns])[l];
  TensorMemory& t = x.cta.tmem;
  if (columns < 32 || columns > 512 || (columns & (columns - 1))) {
    x.e.fault("tmem-alloc",
              "tcgen05.alloc of " + std::to_string(columns) + " columns; 32, 64, 128, 256 and 512 are legal",
              x.origin(l));
    return Step::Stop;
  }
  if (t.relinquished) {
    x.e.fault("tmem-alloc", "tcgen05.alloc after relinquish_alloc_permit", x.origin(l));
    return Step::Stop;
  }
  if (static_cast<int>(columns) > t.smallest) {
    x.e.fault("tmem-alloc",
              "tcgen05.alloc of " + std::to_string(columns) + " columns after an allocation of " +
                  std::to_string(t.smallest) + "; sizes must not increase inside a CTA",
              x.origin(l));
    return Step::Stop;
  }
  Cta* twin = nullptr;
  if (i.m[s::cta_group] == 2) {
    twin = pair_part(x, i);
    if (!twin) return Step::Stop;
  }
  const int base = twin ? pair_columns(x, *twin, static_cast<int>(columns))
                        : find_columns(x.e, x.cta, static_cast<int>(columns), nullptr);
  if (base == -2) return Step::Stop;
  if (base < 0) {
    x.s->wait = Wait::TmemAlloc;
    x.s->frees_seen = t.frees;
    return Step::Block;
  }
  x.e.tell(&Listener::tmem_alloc, x);
  if (twin) x.e.tell(&Listener::pair_alloc, x, *twin, base, static_cast<int>(columns));
  x.s->arrived = false;
  const bool first = !t.serial++;
  t.smallest = static_cast<int>(columns);
  t.allocations.push_back({base, static_cast<int>(columns)});
  t.allocators.push_back({&i, x.w.index});
  if (t.first_base < 0) t.first_base = base;
  for (uint32_t u = 0; u < columns / 32; ++u) t.owner[static_cast<size_t>(base) / 32 + u] = t.serial;
  // The warp writes as one: any of its lanes may read the address back (PTX ISA 9.7.16.7.1, example).
  x.order = kCollective;
  uint8_t* p = x.store(Space::SharedCta, x.src<uint32_t>(i.o[s::base])[l], 4, l);
  x.order = 0;
  if (!p) return Step::Stop;
  std::memcpy(p, &base, 4);
  // A schedule `alone` excludes other kernels, but not the grids that may still run.
  const bool beside = x.e.config.alone && !x.e.config.in_flight.empty();
  const bool fixed = columns == kTmemColumns || (first && !beside && alone(x.e, x.cta));
  x.e.tell(&Listener::tmem_base, x, static_cast<uint32_t>(p - x.cta.shared.data.data()), base,
           static_cast<int>(columns), t.serial, fixed);
  return Step::Next;
}

Step dealloc(Exec& x, const Instr& i) {
  namespace s = slot::tcgen05_dealloc;
  if (!x.whole_warp()) return Step::Block;
  const int l = x.lane();
  const uint32_t taddr = x.src<uint32_t>(i.o[s::address])[l], columns = x.src<uint32_t>(i.o[s::columns])[l];
  Cta* twin = nullptr;
  size_t pair = SIZE_MAX;  // of the pair's allocations
  if (Cta* even = x.cta.cluster->cta(x.cta.rank & ~1))
    for (size_t k = 0; k < even->pair_allocations.size(); ++k) {
      const PairAllocation& p = even->pair_allocations[k];
      const int me = 1 << (x.cta.rank & 1);
      if (static_cast<uint32_t>(p.base) == taddr && (p.allocated & me) && !(p.freed & me)) pair = k;
    }
  if (i.m[s::cta_group] == 2) {
    twin = pair_part(x, i);
    if (!twin) return Step::Stop;
    x.s->arrived = false;
  }
  auto& a = x.cta.tmem.allocations;
  for (size_t k = 0; k < a.size(); ++k) {
    if (static_cast<uint32_t>(a[k].first) != taddr || static_cast<uint32_t>(a[k].second) != columns) continue;
    if ((twin != nullptr) != (pair != SIZE_MAX)) break;  // it was allocated with the other cta_group
    if (x.e.heard()) [[unlikely]]  // loads that nothing has needed yet would read the cells only after this
      for (Warp& w : x.cta.warps)
        for (PendingTmemLoad& load : w.tmem_loads)
          if (!load.done)
            tell_cells(x.e, x.cta, *load.instr, static_cast<int>(load.taddr >> 16),
                       static_cast<int>(load.taddr & 0xffff), &load);
    if (const int by = x.cta.tmem.allocators[k].second; x.e.config.strict && by != x.w.index)
      x.e.error("tmem-dealloc-warp",
                "warp " + std::to_string(x.w.index) + " frees columns that warp " + std::to_string(by) +
                    " has allocated; the same warp of the CTA must do both (PTX ISA 9.7.16.7.1)",
                x.origin(l));
    if (twin) x.e.tell(&Listener::pair_dealloc, x, *twin, a[k].first, a[k].second);
    x.e.tell(&Listener::tmem_dealloc, x, a[k].first, a[k].second);
    for (int c = a[k].first; c < a[k].first + a[k].second; c += 32)
      x.cta.tmem.owner[static_cast<size_t>(c / 32)] = 0;
    x.cta.tmem.frees++;
    for (int lane = 0; lane < kTmemLanes; ++lane) {
      uint8_t* state = x.cta.tmem.change_state(lane, a[k].first);
      for (int c = 0; c < a[k].second; ++c)
        if (state[c] & kPendingMask) {
          x.e.error("tmem-dealloc-in-flight",
                    "tcgen05.dealloc of columns that an asynchronous operation is still going to write",
                    x.origin(l), taddr);
          break;
        }
      std::memset(state, 0, static_cast<size_t>(a[k].second));
      if (!x.cta.tmem.poisoned.empty())
        std::fill_n(&x.cta.tmem.poisoned[static_cast<size_t>(lane * kTmemColumns + a[k].first)], a[k].second,
                    0);
    }
    a.erase(a.begin() + static_cast<std::ptrdiff_t>(k));
    x.cta.tmem.allocators.erase(x.cta.tmem.allocators.begin() + static_cast<std::ptrdiff_t>(k));
    if (twin) free_pair_columns(x.cta, pair);
    ++x.e.progress;
    return Step::Next;
  }
  x.e.fault("tmem-dealloc",
            "tcgen05.dealloc of " + std::to_string(columns) + " columns at " + hex(taddr) +
                ", which is no live allocation" +
                (pair != SIZE_MAX && !twin ? " of cta_group::1"
                 : twin                    ? " of cta_group::2"
                                           : ""),
            x.origin(l), taddr);
  return Step::Stop;
}

Step relinquish(Exec& x, const Instr& i) {
  if (!x.whole_warp()) return Step::Block;
  if (i.m[slot::tcgen05_relinquish::cta_group] == 2) {
    Cta* twin = pair_part(x, i);
    if (!twin) return Step::Stop;
    x.s->arrived = false;
    x.e.tell(&Listener::pair_relinquish, x, *twin);
  }
  x.e.tell(&Listener::tmem_relinquish, x);
  x.cta.tmem.relinquished = true;
  return Step::Next;
}

const Registrar allocations({{"tcgen05.alloc", alloc},
                             {"tcgen05.dealloc", dealloc},
                             {"tcgen05.relinquish", relinquish}});

}  // namespace

bool Engine::fits_twice(const Cta& cta) const {
  return fits_beside(*this, cta, cta.shared.data.size() - limits::kReservedSharedBytes,
                     (config.block.volume() + 31) / 32, static_cast<size_t>(config.launch_registers));
}

bool Engine::fits_with(const Cta& cta, size_t shared, size_t warps) const {
  return fits_beside(*this, cta, shared - limits::kReservedSharedBytes, warps, kFewestRegisters);
}

bool may_access(const Cta& cta, int rank, int column, int columns, bool strict) {
  if (cta.tmem.allocated(column, columns)) return true;
  if (strict || rank == cta.rank) return false;
  const Cta* even = cta.cluster->cta(cta.rank & ~1);
  return even && std::any_of(even->pair_allocations.begin(), even->pair_allocations.end(),
                             [&](const PairAllocation& p) {
                               return !(p.allocated >> (cta.rank & 1) & 1) && column >= p.base &&
                                      column + columns <= p.base + p.columns;
                             });
}

// The last thread of a CTA has exited: its twin must not have done a part more than it.
void Engine::check_pair_exit(Cta& cta, const Origin& at) {
  const Cta* twin = cta.cluster->cta(cta.rank ^ 1);
  if (!twin || twin->pair_ops.size() <= cta.pair_ops.size()) return;
  fault("pair-left",
        "CTA rank " + std::to_string(cta.rank) + " exits without its part of the cta_group::2 instruction " +
            program.names[static_cast<size_t>(twin->pair_ops[cta.pair_ops.size()]->name)] + " of CTA rank " +
            std::to_string(twin->rank),
        at);
}

}  // namespace tileproof
