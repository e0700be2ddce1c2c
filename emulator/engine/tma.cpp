// TMA: tiles, gather4 and scatter4, im2col; loads, stores, reductions and prefetches (PTX ISA 9.7.9.27).
#include "enumerations/async_copy.hpp"
#include "change.hpp"
#include "slots/async_copy.hpp"
#include "tma_tensor.hpp"

namespace tileproof {
namespace {

const uint32_t kAlign = 128;

// The tensor map behind a generic address; null after a fault.
const TensorMap* map_at(Exec& x, uint64_t address, int lane) {
  if (address % 64) {
    x.e.fault("misaligned", "a tensor map at " + hex(address) + "; 64-byte alignment is required",
              x.origin(lane), address);
    return nullptr;
  }
  const bool param = address - kParamWindow < kWindowSize;
  x.order = kForCopy;
  const uint8_t* p = param ? x.load(Space::Param, address - kParamWindow, 128, lane)
                           : x.load(Space::Global, address, 64, lane);
  if (p && !param) {  // the second half may lie outside the buffer, or never have been written
    const uint8_t* q = x.load(Space::Global, address + 64, 64, lane);
    if (q != p + 64) p = nullptr;
  }
  x.order = 0;
  if (x.e.stopped) return nullptr;
  std::string wrong;
  const TensorMap* m = p ? x.e.maps.get(p, wrong) : nullptr;
  if (!m && !wrong.empty())
    x.e.fault("tensormap-field",
              "the driver would not have made the tensor map at " + hex(address) + ": " + wrong,
              x.origin(lane), address);
  else if (!m)
    x.e.fault("tensormap-invalid", "the 128 bytes at " + hex(address) + " are not an encoded tensor map",
              x.origin(lane), address);
  return m;
}

// The copy reads its map until it completes.
void read_map(Engine& e, const Tensor& t) {
  if (t.map_in) e.tell(&Listener::map_read, *t.map_in, t.map_at);
}

// A store from a corner below 0 is an illegal instruction (seen on silicon); a load from there is filled.
bool check_stored_corner(Exec& x, const Tensor& t, int lane) {
  for (int d = 0; d < t.map.rank; ++d)
    if (t.at[static_cast<size_t>(d)] < 0) {
      x.e.fault("tma-coordinate",
                "coordinate " + std::to_string(d) + " of a tensor store is " +
                    std::to_string(t.at[static_cast<size_t>(d)]) +
                    ": below 0 a store is an illegal instruction on the card; past the end it is clipped",
                x.origin(lane));
      return false;
    }
  const int64_t n = stored_bytes(t), past = n - (t.map.shape[0] - t.at[0]) * t.map.element_size;
  if (n && past > 0)
    x.e.warn("tma-store-tail",
             "a tensor store writes " + std::to_string(past) +
                 " bytes past the end of the innermost dimension: the card clips in units of 16 bytes",
             x.origin(lane));
  return true;
}

// Whether the box at `offset` lies inside a CTA's shared memory, chunk by chunk: a swizzle moves those of a
// short last row to the end of their line of 128 bytes.
bool in_shared(Engine& e, Cta& cta, const Tensor& t, uint32_t offset, const char* who) {
  if (!e.shared_range(cta, offset, t.footprint(), t.origin, who)) return false;
  if (!t.map.swizzle || offset + (t.footprint() + 127) / 128 * 128 <= cta.shared.data.size()) return true;
  bool inside = true;
  chunks(t, offset, [&](uint32_t, uint32_t a, uint32_t, uint32_t room) {
    inside = inside && e.shared_range(cta, a, room, t.origin, who);
  });
  return inside;
}

// Reads the map and the coordinates; false after a fault.
bool prepare(Exec& x, const Instr& i, int32_t map_slot, int32_t dims, int32_t mode_code, int lane,
             Tensor& t) {
  t.origin = x.origin(lane);
  t.map_at = x.src<uint64_t>(map_slot)[lane];
  const TensorMap* map = map_at(x, t.map_at, lane);
  if (!map) return false;
  t.map = *map;
  t.map_in = x.e.memory.find(t.map_at, 128);
  const TensorMode mode = static_cast<TensorMode>(mode_code);
  t.four = mode == TensorMode::Four;
  if (t.map.rank != dims) {
    x.e.fault("tensormap-rank",
              "a " + std::to_string(dims) + "d tensor copy uses a map of rank " + std::to_string(t.map.rank),
              t.origin);
    return false;
  }
  const bool im2col = mode == TensorMode::Im2col || mode == TensorMode::Im2colNoOffs;
  if (im2col != t.map.im2col) {
    x.e.fault("tensormap-mode",
              std::string("a copy in ") + (im2col ? "im2col" : "tile") + " mode uses a map of the other kind",
              t.origin);
    return false;
  }
  std::array<int64_t, 3> offsets{};
  for (int32_t k = 0; k < i.nvec; ++k) {
    const int32_t slot = x.e.program.vec[static_cast<size_t>(i.vec + k)];
    if (im2col && k >= dims)
      offsets[static_cast<size_t>(k - dims)] = x.src<uint16_t>(slot)[lane];
    else if (t.four && k)
      t.row[static_cast<size_t>(k - 1)] = x.src<int32_t>(slot)[lane];
    else
      t.at[static_cast<size_t>(k)] = x.src<int32_t>(slot)[lane];
  }
  if (const Packing p = packing(t.map.dtype); p.bits) {
    const int64_t unit = p.padded() ? 128 : 32;
    if (t.at[0] % unit) {
      x.e.fault("tma-coordinate",
                "the innermost coordinate " + std::to_string(t.at[0]) +
                    " of a tensor copy of packed elements is no multiple of " + std::to_string(unit),
                t.origin);
      return false;
    }
    t.at[0] = t.at[0] * p.bits / 8;
  }
  if (t.at[0] * t.map.element_size % 16) {
    x.e.fault("tma-coordinate",
              "the innermost coordinate " + std::to_string(t.at[0]) + " of a tensor copy lies " +
                  std::to_string(t.at[0] * t.map.element_size) +
                  " bytes into its row, which is no multiple of 16: an illegal instruction on the card",
              t.origin);
    return false;
  }
  if (t.four && (t.map.box[1] != 1 || t.map.rank != 2)) {
    x.e.fault("tensormap-gather4",
              "tile::gather4 and scatter4 need a rank-2 map with box {columns, 1}; this map has " +
                  std::to_string(t.map.box[1]) + " rows",
              t.origin);
    return false;
  }
  if (im2col) walk_pixels(t, offsets);
  if (!shape_rows(t)) {
    x.e.fault("shared-out-of-bounds", "the box of this tensor map is larger than a CTA's shared memory",
              t.origin);
    return false;
  }
  return true;
}

Step tensor_load(Exec& x, const Instr& i) {
  namespace s = slot::tma_load;
  const bool own = i.m[s::own_window], pairs = i.m[s::cta_group] == 2;
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    auto t = std::make_shared<Tensor>();
    if (!prepare(x, i, i.o[s::map], i.m[s::dimensions], i.m[s::mode], l, *t)) return Step::Stop;
    const uint32_t dst = x.src<uint32_t>(i.o[s::dst])[l], bar = x.src<uint32_t>(i.o[s::barrier])[l];
    const uint32_t offset = dst & kOffsetMask, bar_offset = bar & kOffsetMask;
    std::vector<std::pair<Cta*, Cta*>> targets;  // data, barrier
    // .shared::cta names the own CTA, whether or not the address carries its rank.
    Cta* bar_owner = x.shared_owner(bar, l, !own || pairs);
    if (!bar_owner) return Step::Stop;
    if (i.o[s::mask] != INT32_MIN) {
      const uint32_t mask = x.src<uint16_t>(i.o[s::mask])[l];
      for (int r = 0; r < 16; ++r) {
        if (!(mask >> r & 1)) continue;
        Cta* cta = x.cta.cluster->cta(r);
        if (!cta) {
          x.e.fault("shared-no-such-cta",
                    "the multicast mask " + hex(mask) + " names CTA rank " + std::to_string(r), x.origin(l));
          return Step::Stop;
        }
        // cta_group::2 signals the member of each destination's pair with the parity of the barrier's CTA
        // (PTX 9.7.9.27.1.2).
        targets.push_back({cta, pairs ? x.cta.cluster->cta((r & ~1) | (bar_owner->rank & 1)) : cta});
      }
    } else {
      Cta* owner = x.shared_owner(dst, l, !own);
      if (!owner) return Step::Stop;
      const bool pair = pairs && (bar_owner->rank & ~1) == (owner->rank & ~1);
      if (bar_owner != owner && !pair) {
        x.e.fault("tma-barrier-cta",
                  "the copy writes CTA rank " + std::to_string(owner->rank) +
                      " but signals an mbarrier of rank " + std::to_string(bar_owner->rank) +
                      "; only .cta_group::2 may signal the other CTA of the pair",
                  x.origin(l), bar);
        return Step::Stop;
      }
      targets.push_back({owner, bar_owner});
    }
    if (offset % kAlign) {
      x.e.fault("misaligned",
                "the shared destination " + hex(dst) + " of a tensor copy is not 128-byte aligned",
                x.origin(l), dst);
      return Step::Stop;
    }
    const bool pending = !x.e.early();
    for (auto& target : targets) {
      if (!in_shared(x.e, *target.first, *t, offset, "a tensor copy")) return Step::Stop;
      if (!x.e.barrier_at(*target.second, bar_offset, t->origin)) return Step::Stop;
      if (pending)
        chunks(*t, offset, [&](uint32_t, uint32_t a, uint32_t, uint32_t n) {
          add_pending(&target.first->shared.state[a], n);
        });
    }
    Engine* e = &x.e;
    e->issue(
        "TMA load", 0, t->origin,
        [e, t, targets, offset, bar_offset, pending] {
          static thread_local std::vector<uint8_t> image;
          read_map(*e, *t);
          if (!build_image(*e, *t, image)) return;
          for (auto& target : targets) {
            if (target.first->exited()) {
              e->fault("access-after-exit", "a tensor copy writes shared memory of a CTA that has exited",
                       t->origin, offset);
              return;
            }
            chunks(*t, offset, [&](uint32_t o, uint32_t a, uint32_t n, uint32_t room) {
              land(*e, *target.first, a, &image[o], n, room, pending, t->origin);
            });
            e->counters.tma_load_bytes += t->bytes();
            e->barrier_complete_tx(*target.second, bar_offset, t->bytes(), t->origin);
          }
        },
        {}, t->bytes());
  }
  return Step::Next;
}

std::shared_ptr<BulkGroup> open_group(Exec& x, int lane) {
  x.e.tell(&Listener::bulk_open, x.w, lane);
  return x.w.bulk[lane].join();
}

// The element type of a reduction in a map's type; nothing where a map does not have that reduction. The ISA
// lists the types of each operation (PTX ISA 9.7.9.27.1.3), an H100 gave those that a map has
// (docs/evidence, tensor-reductions).
std::optional<AtomicType> reducible(int32_t dtype, Reduction op) {
  const bool bits = op == Reduction::And || op == Reduction::Or || op == Reduction::Xor;
  const bool steps = op == Reduction::Inc || op == Reduction::Dec;
  switch (dtype) {  // CUtensorMapDataType
    case 2:
      return AtomicType::U32;
    case 3:
      if (steps) return std::nullopt;
      return bits ? AtomicType::B32 : AtomicType::S32;
    case 4:
      if (steps) return std::nullopt;
      return AtomicType::U64;
    case 5:
      if (op != Reduction::Min && op != Reduction::Max) return std::nullopt;
      return AtomicType::S64;
    case 6:
      if (steps || bits) return std::nullopt;
      return AtomicType::F16;
    case 7:
    case 10:
    case 11:  // tf32: nothing is cut off
    case 12:
      if (op != Reduction::Add) return std::nullopt;
      return AtomicType::F32;
    case 8:
      if (op != Reduction::Add) return std::nullopt;
      return AtomicType::F64;
    case 9:
      if (steps || bits) return std::nullopt;
      return AtomicType::Bf16;
    default:
      return std::nullopt;
  }
}

Step tensor_store(Exec& x, const Instr& i) {
  namespace s = slot::tma_store;
  Change change = Change::of(i.m[s::operation], 0);
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    auto t = std::make_shared<Tensor>();
    if (!prepare(x, i, i.o[s::map], i.m[s::dimensions], i.m[s::mode], l, *t) ||
        (!t->map.im2col && !check_stored_corner(x, *t, l)))
      return Step::Stop;
    if (t->map.dtype == 14) {  // .b4x16_p64 (PTX ISA 9.7.9.27.1.1)
      x.e.fault("tensormap-type", "a tensor store does not have the element type 16U4_ALIGN16B", t->origin);
      return Step::Stop;
    }
    if (change.op) {
      const auto found = reducible(t->map.dtype, *change.op);
      if (!found) {
        x.e.fault("tensormap-type",
                  "the element type of this tensor map (CUtensorMapDataType " + std::to_string(t->map.dtype) +
                      ") does not have this reduction",
                  t->origin);
        return Step::Stop;
      }
      change.type = *found;
      change.flushes = t->map.dtype == 10 || t->map.dtype == 12;  // the types that end in _FTZ
    }
    const uint32_t src = x.src<uint32_t>(i.o[s::src])[l];
    Cta* owner = x.shared_owner(src, l, false);
    if (!owner) return Step::Stop;
    const uint32_t offset = src & kOffsetMask;
    if (offset % kAlign) {
      x.e.fault("misaligned", "the shared source " + hex(src) + " of a tensor store is not 128-byte aligned",
                x.origin(l), src);
      return Step::Stop;
    }
    if (!in_shared(x.e, *owner, *t, offset, "a tensor store")) return Step::Stop;
    auto group = open_group(x, l);
    Engine* e = &x.e;
    e->issue(
        "TMA store", 0, t->origin,
        [=] {
          auto image = e->held_bytes(t->bytes(), t->origin);
          if (!e->store_may_read(*owner, offset, t->origin, "a tensor store")) return;
          read_map(*e, *t);
          const uint32_t stored = stored_bytes(*t);
          chunks(*t, offset, [&](uint32_t o, uint32_t a, uint32_t n, uint32_t room) {
            uint64_t address;
            const bool kept = o % t->row_bytes < stored && row_address(*t, o / t->row_bytes, address);
            send(*e, *owner, a, &(*image)[o], n, room, kept, t->origin);
          });
          group->reads_left--;
          e->issue("TMA store", 0, t->origin, [=] {
            const uint32_t n = stored_bytes(*t);
            for (uint32_t r = 0; r < t->rows; ++r) {
              uint64_t address;
              if (!row_address(*t, r, address) || !n) continue;
              const uint64_t to = address + static_cast<uint64_t>(t->at[0] * t->map.element_size);
              const uint8_t* in = &(*image)[r * t->row_bytes];
              if (!e->async_store_global(to, in, n, change, t->origin)) return;
              e->counters.tma_store_bytes += n;
            }
            group->writes_left--;
          });
        },
        {}, t->bytes());
  }
  return Step::Next;
}

Step tensor_prefetch(Exec& x, const Instr& i) {
  namespace s = slot::tma_prefetch;
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    Tensor t;
    const int lane = __builtin_ctz(lanes);
    if (!prepare(x, i, i.o[s::map], i.m[s::dimensions], i.m[s::mode], lane, t)) return Step::Stop;
    if (t.map_in) x.e.tell(&Listener::map_prefetch, x, lane, *t.map_in, t.map_at);
  }
  return Step::Next;
}

const Registrar tma({{"tma.load", tensor_load},
                     {"tma.store", tensor_store},
                     {"tma.prefetch", tensor_prefetch}});

}  // namespace
}  // namespace tileproof
