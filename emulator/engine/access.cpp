// One thread's memory access, checked. Every ld, st, atom and red of every state space passes through here.
#include "clusters_apart.hpp"
#include "machine.hpp"

namespace tileproof {

namespace {
const uint8_t* poison() {
  static const std::vector<uint8_t> bytes(64, kPoisonByte);
  return bytes.data();
}
}  // namespace

template <class F>
const uint8_t* Exec::partly(const uint8_t* data, uint32_t size, F&& written, PoisonId set) {
  static thread_local uint8_t scratch[64];
  unwritten->set = set;
  unwritten->bytes = 0;
  for (uint32_t k = 0; k < size; ++k) {
    scratch[k] = written(k) ? data[k] : kPoisonByte;
    if (!written(k)) unwritten->bytes |= uint64_t{1} << k;
  }
  return scratch;
}

bool Exec::whole_warp(bool all) {
  if (all && !w.exits.empty()) {
    uint32_t gone = 0;
    for (const auto& [lanes, at] : w.exits) gone |= lanes;
    e.fault("aligned-partial",
            "an .aligned instruction, and lanes " + hex(gone) +
                " of its warp have exited: its behaviour is undefined",
            origin(lane()));
    return false;
  }
  if (mask != s->mask) {
    e.fault("aligned-partial",
            "lanes " + hex(mask) + " execute an .aligned instruction that their warp's lanes " +
                hex(s->mask & ~mask) + " skip by a predicate",
            origin(lane()));
    return false;
  }
  tell_skippable();
  if (!e.gather_lanes(w, *s, w.live)) return false;
  mask = s->mask;
  e.tell(&Listener::lanes_meet, w, mask);
  return true;
}

Cta* Exec::shared_owner(uint64_t address, int lane, bool cluster_window) {
  const uint64_t rank = address >> kRankShift;
  if (!cluster_window) {
    // A .shared::cta access: the own rank stands in the upper bits; without it the address is CTA 0's, and a
    // card ends the launch (seen on an H200: docs/evidence).
    if (rank == static_cast<uint64_t>(cta.rank)) return &cta;
    e.fault("shared-wrong-window",
            "a .shared::cta access uses the address " + hex(address) + " of CTA rank " +
                std::to_string(rank) + "; only .shared::cluster accesses reach another CTA",
            origin(lane), address);
    return nullptr;
  }
  Cta* owner = rank < cta.cluster->ctas.size() ? cta.cluster->cta(static_cast<int32_t>(rank)) : nullptr;
  if (!owner) {
    e.fault("shared-no-such-cta",
            "the shared address " + hex(address) + " names CTA rank " + std::to_string(rank) +
                " of a cluster of " + std::to_string(cta.cluster->ctas.size()),
            origin(lane), address);
    return nullptr;
  }
  return owner;
}

uint8_t* Exec::shared(uint64_t address, uint32_t size, int lane, bool write, bool cluster_window) {
  Cta* owner = shared_owner(address, lane, cluster_window);
  if (!owner) return nullptr;
  const uint32_t offset = static_cast<uint32_t>(address) & kOffsetMask;
  if (!e.shared_range(*owner, offset, size, origin(lane), write ? "a store" : "a load")) return nullptr;
  if (address & (size - 1)) {  // sizes are powers of two
    e.fault("misaligned", "a " + std::to_string(size) + "-byte shared access at " + hex(address),
            origin(lane), address);
    return nullptr;
  }
  e.counters.shared_bytes += size;
  uint8_t* data = &owner->shared.data[offset];
  uint8_t* state = &owner->shared.state[offset];
  e.tell(&Listener::generic_shared, *this, *owner, offset, size, lane, write);
  if (write) {
    ++e.progress;
    for (uint32_t i = 0; i < size; ++i) {
      if (state[i] & ~kValid) {
        if (state[i] & kMbarrier)
          e.error("mbarrier-overwritten", "a store overwrites a live mbarrier", origin(lane), address);
        else
          e.error("shared-write-under-copy",
                  "a store hits shared bytes at " + hex(offset) +
                      " that an asynchronous copy is still going to write",
                  origin(lane), address);
      }
      state[i] |= kValid;
    }
    return data;
  }
  if (all_valid(state, size)) return data;
  bool never = false, pending = false, barrier = false;
  for (uint32_t i = 0; i < size; ++i) {
    barrier |= (state[i] & kMbarrier) != 0;
    pending |= (state[i] & kPendingMask) != 0;
    never |= !(state[i] & (kPendingMask | kMbarrier | kValid));
  }
  if (barrier)
    e.error("mbarrier-read-as-data", "a load reads the bytes of a live mbarrier", origin(lane), address);
  if (pending)
    e.error("shared-pending",
            "a load reads shared bytes at " + hex(offset) + " of CTA rank " + std::to_string(owner->rank) +
                " whose asynchronous copy has not completed: a wait is missing",
            origin(lane), address);
  if (never) {
    bool fresh = false;
    PoisonId set = e.poison_in(*owner, offset, size, fresh);
    const std::string message = "a load reads shared bytes at " + hex(offset) + " of CTA rank " +
                                std::to_string(owner->rank) + " that were never written";
    if (unwritten && !pending && !barrier) {
      if (fresh)
        set = e.poisons.both(set,
                             e.poisons.read("shared-uninitialised", message, origin(lane), address, false));
      return const_cast<uint8_t*>(partly(data, size, [&](uint32_t k) { return state[k] == kValid; }, set));
    }
    if (fresh) e.error("shared-uninitialised", message, origin(lane), address);
    if (set) e.poison_used(set, instr, "");
  }
  return const_cast<uint8_t*>(poison());
}

uint8_t* Exec::global(uint64_t address, uint32_t size, int lane, bool write, bool read) {
  GlobalBuffer* b = e.memory.find(address, size);
  if (!b) {
    std::string where = "outside every buffer";
    GlobalBuffer* before = e.memory.nearest(address);
    GlobalBuffer* after = e.memory.following(address);
    if (before && address < before->address + before->size + 65536)
      where = std::to_string(address - before->address) + " bytes into " + before->name + ", which has " +
              std::to_string(before->size);
    else if (after && after->address - address <= 65536)
      where = std::to_string(after->address - address) + " bytes before " + after->name;
    e.fault("global-out-of-bounds",
            std::string(write ? "a store of " : "a load of ") + std::to_string(size) + " bytes at " +
                hex(address) + ", " + where,
            origin(lane), address);
    return nullptr;
  }
  if (address & (size - 1)) {
    e.fault("misaligned",
            "a " + std::to_string(size) + "-byte global access at " + hex(address) + " in " + b->name,
            origin(lane), address);
    return nullptr;
  }
  if (e.apart() && !e.meets_nobody(*b, address, size,
                                   adding  ? Use::Add
                                   : write ? Use::Write
                                           : Use::Read)) [[unlikely]]
    return nullptr;
  e.counters.global_bytes += size;
  uint8_t* data = b->data + (address - b->address);
  e.tell(&Listener::generic_global, *this, *b, address, size, lane, write);
  if (e.unseen != Unseen::No) [[unlikely]] {
    e.unseen = Unseen::No;
    return const_cast<uint8_t*>(poison());
  }
  if (read && !b->initialised(address, size)) {
    const std::string message = "a load reads bytes of " + b->name + " at offset " +
                                std::to_string(address - b->address) + " that were never written";
    if (unwritten && !write) {
      const uint8_t* written = b->written + (address - b->address);
      return const_cast<uint8_t*>(partly(
          data, size, [&](uint32_t k) { return written[k] == kValid; },
          e.poisons.read("global-uninitialised", message, origin(lane), address, false)));
    }
    e.error("global-uninitialised", message, origin(lane), address);
    if (!write) return const_cast<uint8_t*>(poison());
  }
  if (write) {
    ++e.progress;
    if (!b->writable) {
      e.fault("global-read-only", "a store into the read-only buffer " + b->name, origin(lane), address);
      return nullptr;
    }
    b->mark(address, size);
  }
  return data;
}

bool Engine::tell_row(const Exec& x, const GlobalBuffer& b, uint64_t address, uint32_t size) {
  for (Listener* l : listeners_)
    if (!l->takes_row(x, b, address, size)) return false;
  tell(&Listener::atomic_row, x, b, address, size);
  return true;
}

const uint8_t* Exec::check_params(uint64_t address, uint32_t size, int lane) {
  const auto first = e.config.known_params.begin() + static_cast<std::ptrdiff_t>(address);
  const auto unset = std::find(first, first + size, 0);
  if (unset == first + size) return nullptr;
  const auto last = std::find(unset, first + size, 1);
  const uint64_t from = address + static_cast<uint64_t>(unset - first),
                 to = address + static_cast<uint64_t>(last - first);
  std::string where = "the gaps between the parameters";
  uint64_t base = 0;
  for (const auto& [offset, bytes, name] : e.config.param_names)
    if (from >= offset && from < uint64_t{offset} + bytes) {
      where = "parameter " + name;
      base = offset;
    }
  const std::string message = "a load of " + std::to_string(size) + " bytes reads bytes " +
                              std::to_string(from - base) + " to " + std::to_string(to - base - 1) + " of " +
                              where + ", which the caller never set";
  if (!unwritten || size > 64) {
    e.error("param-unset", message, origin(lane), from);
    return nullptr;
  }
  return partly(
      e.config.params.data() + address, size,
      [&](uint32_t k) { return first[static_cast<std::ptrdiff_t>(k)] != 0; },
      e.poisons.read("param-unset", message, origin(lane), from, false));
}

const uint8_t* Exec::load(Space space, uint64_t address, uint32_t size, int lane) {
  if (space == Space::Generic) {
    if (address - kSharedWindow < kWindowSize)
      return shared(address - kSharedWindow, size, lane, false, true);
    if (address - kLocalWindow < kWindowSize) {
      space = Space::Local;
      address -= kLocalWindow;
    } else if (address - kParamWindow < kWindowSize) {
      space = Space::Param;
      address -= kParamWindow;
    } else {
      return global(address, size, lane, false, true);
    }
  }
  switch (space) {
    case Space::Global:
      return global(address, size, lane, false, true);
    case Space::SharedCta:
      return shared(address, size, lane, false, false);
    case Space::SharedCluster:
      return shared(address, size, lane, false, true);
    case Space::Param:
      if (address > e.config.params.size() || size > e.config.params.size() - address) {
        e.fault("param-out-of-bounds",
                "a load of " + std::to_string(size) + " bytes at parameter offset " + hex(address),
                origin(lane), address);
        return nullptr;
      }
      if (size <= 32 && address % size) {
        e.fault("misaligned",
                "a " + std::to_string(size) + "-byte access at parameter offset " + hex(address),
                origin(lane), address);
        return nullptr;
      }
      if (!e.config.known_params.empty()) [[unlikely]]
        if (const uint8_t* p = check_params(address, size, lane)) return p;
      return e.config.params.data() + address;
    case Space::Local:
    case Space::Generic:
      break;
  }
  const uint64_t bytes = static_cast<uint64_t>(e.program.local_bytes);
  if (address > bytes || size > bytes - address || address % size) {
    e.fault(address % size ? "misaligned" : "local-out-of-bounds",
            "a local access of " + std::to_string(size) + " bytes at " + hex(address), origin(lane), address);
    return nullptr;
  }
  const size_t at = local_place(lane, address);
  if (!w.local_poison.empty() && !storing) [[unlikely]]
    if (const uint8_t* p = poison_in_local(at, size)) return p;
  return &w.local[at];
}

// What was stored there that nobody had written: null when there is none, or it is an error here.
const uint8_t* Exec::poison_in_local(size_t at, uint32_t size) {
  PoisonId set = 0;
  for (size_t k = at; k < at + size; ++k)
    if (const auto it = w.local_poison.find(k); it != w.local_poison.end())
      set = e.poisons.both(set, it->second);
  if (!set) return nullptr;
  if (unwritten)
    return partly(&w.local[at], size, [&](uint32_t k) { return !w.local_poison.contains(at + k); }, set);
  e.poison_used(set, instr, "");
  return nullptr;
}

uint8_t* Exec::store(Space space, uint64_t address, uint32_t size, int lane) {
  if (space == Space::Generic) {
    if (address - kSharedWindow < kWindowSize) return shared(address - kSharedWindow, size, lane, true, true);
    if (address - kLocalWindow < kWindowSize) {
      space = Space::Local;
      address -= kLocalWindow;
    } else if (address - kParamWindow < kWindowSize) {
      space = Space::Param;
    } else {
      space = Space::Global;
    }
  }
  switch (space) {
    case Space::Global:
      return global(address, size, lane, true, false);
    case Space::SharedCta:
      return shared(address, size, lane, true, false);
    case Space::SharedCluster:
      return shared(address, size, lane, true, true);
    case Space::Param:
      e.fault("param-written", "a store into the kernel's parameters", origin(lane), address);
      return nullptr;
    case Space::Local:
    case Space::Generic:
      break;
  }
  storing = true;
  uint8_t* p = const_cast<uint8_t*>(load(Space::Local, address, size, lane));
  storing = false;
  if (p && !w.local_poison.empty())
    for (size_t k = 0; k < size; ++k) w.local_poison.erase(local_place(lane, address) + k);
  return p;
}

}  // namespace tileproof
