// TMA tile and gather4 loads, tile stores and reductions, flat bulk copies (PTX ISA 9.7.9.25, 9.7.9.27).

#include "alu.hpp"

namespace tileproof {
namespace {

// One tensor copy between issue and completion.
struct Tensor {
  Origin origin;
  TensorMap map;
  bool gather4 = false;
  std::array<int64_t, 5> at{};   // box corner, innermost first; gather4: at[0] is the column
  std::array<int64_t, 4> row{};  // gather4 rows
  uint32_t row_bytes = 0;
  uint32_t rows = 1;
  uint32_t bytes() const { return rows * row_bytes; }
  // In shared memory: with a swizzle each row of the box starts a row of the atom (seen on silicon).
  uint32_t pitch() const { return map.swizzle ? 16u << std::min(map.swizzle, 3) : row_bytes; }
  uint32_t footprint() const { return (rows - 1) * pitch() + row_bytes; }
};

const uint32_t kAlign = 128;

// The tensor map behind a generic address; null after a fault.
const TensorMap* map_at(Exec& x, uint64_t address, int lane) {
  if (address % 64) {
    x.e.fault("misaligned", "a tensor map at " + hex(address) + "; 64-byte alignment is required",
              x.origin(lane), address);
    return nullptr;
  }
  const bool param = address - kParamWindow < kWindowSize;
  const uint8_t* p = param ? x.load(Space::Param, address - kParamWindow, 128, lane)
                           : x.load(Space::Global, address, 64, lane);
  if (!p) return nullptr;
  if (!param) {  // the second half may lie outside the buffer, or never have been written
    const uint8_t* q = x.load(Space::Global, address + 64, 64, lane);
    if (!q) return nullptr;
    if (q != p + 64) p = nullptr;
  }
  const TensorMap* m = p ? x.e.maps.get(p) : nullptr;
  if (!m)
    x.e.fault("tensormap-invalid", "the 128 bytes at " + hex(address) + " are not an encoded tensor map",
              x.origin(lane), address);
  return m;
}

// False when the box is larger than any shared memory.
bool shape_rows(Tensor& t) {
  t.row_bytes = static_cast<uint32_t>(t.map.box[0] * t.map.element_size);
  uint64_t rows = t.gather4 ? 4 : 1;
  if (!t.gather4)
    for (int d = 1; d < t.map.rank; ++d) {
      const int e = t.map.element_stride[static_cast<size_t>(d)];
      rows *= static_cast<uint64_t>((t.map.box[static_cast<size_t>(d)] + e - 1) / e);
    }
  t.rows = static_cast<uint32_t>(rows);
  return rows * t.pitch() <= kSharedLimit;
}

// Global address of image row `index` and whether its outer coordinates lie inside the tensor.
bool row_address(const Tensor& t, uint32_t index, uint64_t& address) {
  address = t.map.address;
  if (t.gather4) {
    const int64_t r = t.row[index];
    address += static_cast<uint64_t>(r) * static_cast<uint64_t>(t.map.stride[1]);
    return r >= 0 && r < t.map.shape[1];
  }
  bool inside = true;
  for (int d = 1; d < t.map.rank; ++d) {
    const size_t k = static_cast<size_t>(d);
    const int e = t.map.element_stride[k];
    const uint32_t n = static_cast<uint32_t>((t.map.box[k] + e - 1) / e);
    const int64_t c = t.at[k] + static_cast<int64_t>(index % n) * e;
    index /= n;
    inside &= c >= 0 && c < t.map.shape[k];
    address += static_cast<uint64_t>(c) * static_cast<uint64_t>(t.map.stride[k]);
  }
  return inside;
}

// Elements [first, last) of a row that lie inside dimension 0.
void clip(const Tensor& t, int64_t& first, int64_t& last) {
  const int64_t n = t.map.box[0];
  first = std::min(n, std::max<int64_t>(0, -t.at[0]));
  last = std::max(first, std::min(n, t.map.shape[0] - t.at[0]));
}

// Bytes of a row that a store writes: the card clips the innermost dimension in units of 16 bytes, and so may
// write past the tensor's end (seen on silicon).
uint32_t stored_bytes(const Tensor& t) {
  const int64_t inside = std::max<int64_t>(0, t.map.shape[0] - t.at[0]) * t.map.element_size;
  return static_cast<uint32_t>(std::min<int64_t>(t.row_bytes, (inside + 15) / 16 * 16));
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

void fill(const Tensor& t, uint8_t* p, uint32_t bytes) {
  if (!t.map.oob_nan) {
    std::memset(p, 0, bytes);
    return;
  }
  for (uint32_t k = 0; k < bytes; k += 2) {  // bf16: 0x7ff7, seen on silicon; encode() admits no other type
    p[k] = 0xf7;
    p[k + 1] = 0x7f;
  }
}

bool build_image(Engine& e, const Tensor& t, std::vector<uint8_t>& image) {
  image.resize(t.bytes());
  const int64_t size = t.map.element_size;
  int64_t first, last;
  clip(t, first, last);
  for (uint32_t r = 0; r < t.rows; ++r) {
    uint8_t* out = &image[r * t.row_bytes];
    uint64_t address;
    if (!row_address(t, r, address) || first >= last) {
      fill(t, out, t.row_bytes);
      continue;
    }
    const uint8_t* in = e.async_read_global(address + static_cast<uint64_t>((t.at[0] + first) * size),
                                            static_cast<uint32_t>((last - first) * size), t.origin);
    if (!in) return false;
    fill(t, out, static_cast<uint32_t>(first * size));
    std::memcpy(out + first * size, in, static_cast<size_t>((last - first) * size));
    fill(t, out + last * size, t.row_bytes - static_cast<uint32_t>(last * size));
  }
  return true;
}

// Calls f(image offset, shared offset, bytes) for each 16-byte chunk of the swizzled image at `base`.
template <class F>
void chunks(const Tensor& t, uint32_t base, F&& f) {
  for (uint32_t r = 0; r < t.rows; ++r)
    for (uint32_t c = 0; c < t.row_bytes; c += 16) {
      const uint32_t a = base + r * t.pitch() + c;
      f(r * t.row_bytes + c, swizzle_copy(a, t.map.swizzle), 16u);
    }
}

bool read_coordinates(Exec& x, const Instr& i, int lane, Tensor& t, int dims, bool gather4) {
  t.gather4 = gather4;
  if (t.map.rank != dims) {
    x.e.fault("tensormap-rank",
              "a " + std::to_string(dims) + "d tensor copy uses a map of rank " + std::to_string(t.map.rank),
              x.origin(lane));
    return false;
  }
  for (int32_t k = 0; k < i.nvec; ++k) {
    const int64_t c = x.src<int32_t>(x.e.program.vec[static_cast<size_t>(i.vec + k)])[lane];
    if (gather4 && k)
      t.row[static_cast<size_t>(k - 1)] = c;
    else
      t.at[static_cast<size_t>(k)] = c;
  }
  if (t.at[0] * t.map.element_size % 16) {
    x.e.fault("tma-coordinate",
              "the innermost coordinate " + std::to_string(t.at[0]) + " of a tensor copy lies " +
                  std::to_string(t.at[0] * t.map.element_size) +
                  " bytes into its row, which is no multiple of 16: an illegal instruction on the card",
              x.origin(lane));
    return false;
  }
  if (gather4 && (t.map.box[1] != 1 || t.map.rank != 2)) {
    x.e.fault("tensormap-gather4",
              "tile::gather4 needs a rank-2 map with box {columns, 1}; this one has " +
                  std::to_string(t.map.box[1]) + " rows",
              x.origin(lane));
    return false;
  }
  if (!shape_rows(t)) {
    x.e.fault("shared-out-of-bounds", "the box of this tensor map is larger than a CTA's shared memory",
              x.origin(lane));
    return false;
  }
  return true;
}

// cp.async.bulk.tensor load. o[1] dst, o[2] map, o[3] mbarrier, o[4] CTA mask or none, vec coordinates;
// m[0] dimensions, m[1] gather4, m[2] multicast, m[3] cta_group (0: none), m[4] 1 for .shared::cta.
Step tensor_load(Exec& x, const Instr& i) {
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    auto t = std::make_shared<Tensor>();
    t->origin = x.origin(l);
    const TensorMap* map = map_at(x, x.src<uint64_t>(i.o[2])[l], l);
    if (!map) return Step::Stop;
    t->map = *map;
    if (!read_coordinates(x, i, l, *t, i.m[0], i.m[1])) return Step::Stop;
    const uint32_t dst = x.src<uint32_t>(i.o[1])[l], bar = x.src<uint32_t>(i.o[3])[l];
    const uint32_t offset = dst & kOffsetMask, bar_offset = bar & kOffsetMask;
    std::vector<std::pair<Cta*, Cta*>> targets;  // data, barrier
    // .shared::cta names the own CTA, whether or not the address carries its rank.
    Cta* bar_owner = x.shared_owner(bar, l, !i.m[4] || i.m[3] == 2);
    if (!bar_owner) return Step::Stop;
    if (i.m[2]) {
      const uint32_t mask = x.src<uint16_t>(i.o[4])[l];
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
        targets.push_back({cta, i.m[3] == 2 ? x.cta.cluster->cta((r & ~1) | (bar_owner->rank & 1)) : cta});
      }
    } else {
      Cta* owner = x.shared_owner(dst, l, !i.m[4]);
      if (!owner) return Step::Stop;
      const bool pair = i.m[3] == 2 && (bar_owner->rank & ~1) == (owner->rank & ~1);
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
      if (!x.e.shared_range(*target.first, offset, t->footprint(), t->origin, "a tensor copy"))
        return Step::Stop;
      if (!x.e.barrier_at(*target.second, bar_offset, t->origin)) return Step::Stop;
      if (pending)
        chunks(*t, offset,
               [&](uint32_t, uint32_t a, uint32_t n) { add_pending(&target.first->shared.state[a], n); });
    }
    Engine* e = &x.e;
    e->issue("TMA load", 0, t->origin, [e, t, targets, offset, bar_offset, pending] {
      static thread_local std::vector<uint8_t> image;
      if (!build_image(*e, *t, image)) return;
      for (auto& target : targets) {
        if (target.first->exited()) {
          e->fault("access-after-exit", "a tensor copy writes shared memory of a CTA that has exited",
                   t->origin, offset);
          return;
        }
        chunks(*t, offset, [&](uint32_t o, uint32_t a, uint32_t n) {
          e->async_write_shared(*target.first, a, &image[o], n, pending, t->origin);
        });
        e->counters.tma_load_bytes += t->bytes();
        e->barrier_complete_tx(*target.second, bar_offset, t->bytes(), t->origin);
      }
    });
  }
  return Step::Next;
}

std::shared_ptr<BulkGroup> open_group(Exec& x, int lane) {
  x.e.tell(&Listener::bulk_open, x.w, lane);
  return x.w.bulk[lane].join();
}

// cp.async.bulk.tensor store and cp.reduce .add. o[1] source, o[2] map, vec coordinates; m[0] dimensions,
// m[1] scatter4, m[2] add.
Step tensor_store(Exec& x, const Instr& i) {
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    auto t = std::make_shared<Tensor>();
    t->origin = x.origin(l);
    const TensorMap* map = map_at(x, x.src<uint64_t>(i.o[2])[l], l);
    if (!map) return Step::Stop;
    t->map = *map;
    if (!read_coordinates(x, i, l, *t, i.m[0], i.m[1]) || !check_stored_corner(x, *t, l)) return Step::Stop;
    if (i.m[2] && t->map.dtype != 7) {
      x.e.fault("unsupported", "cp.reduce.async.bulk.tensor.add on a tensor map that is not FLOAT32",
                x.origin(l));
      return Step::Stop;
    }
    const uint32_t src = x.src<uint32_t>(i.o[1])[l];
    Cta* owner = x.shared_owner(src, l, false);
    if (!owner) return Step::Stop;
    const uint32_t offset = src & kOffsetMask;
    if (offset % kAlign) {
      x.e.fault("misaligned", "the shared source " + hex(src) + " of a tensor store is not 128-byte aligned",
                x.origin(l), src);
      return Step::Stop;
    }
    if (!x.e.shared_range(*owner, offset, t->footprint(), t->origin, "a tensor store")) return Step::Stop;
    auto group = open_group(x, l);
    Engine* e = &x.e;
    const bool add = i.m[2];
    e->issue("TMA store", 0, t->origin, [e, t, owner, offset, group, add] {
      auto image = std::make_shared<std::vector<uint8_t>>(t->bytes());
      if (!e->store_may_read(*owner, offset, t->origin, "a tensor store")) return;
      chunks(*t, offset, [&](uint32_t o, uint32_t a, uint32_t n) {
        e->read_shared(*owner, a, n, &(*image)[o], t->origin, "a tensor store");
      });
      group->reads_left--;
      e->issue("TMA store", 0, t->origin, [e, t, image, group, add] {
        const uint32_t n = stored_bytes(*t);
        for (uint32_t r = 0; r < t->rows; ++r) {
          uint64_t address;
          if (!row_address(*t, r, address) || !n) continue;
          const uint64_t to = address + static_cast<uint64_t>(t->at[0] * t->map.element_size);
          const uint8_t* in = &(*image)[r * t->row_bytes];
          uint8_t* out = e->async_write_global(to, n, t->origin, add);
          if (!out) return;
          if (!add) {
            std::memcpy(out, in, n);
          } else {
            for (uint32_t k = 0; k < n; k += 4) {
              float a, b;
              std::memcpy(&a, out + k, 4);
              std::memcpy(&b, in + k, 4);
              a = add_f32(a, b, true);
              std::memcpy(out + k, &a, 4);
            }
          }
          e->counters.tma_store_bytes += n;
        }
        group->writes_left--;
      });
    });
  }
  return Step::Next;
}

// Flat bulk copies. m[0]: 0 global -> shared, 1 shared -> shared::cluster, 2 shared -> global, 3 shared ->
// global add.f32. o[1] destination, o[2] source, o[3] bytes, o[4] mbarrier or none; m[1] bytes of a global
// address register are 8.
Step bulk_copy(Exec& x, const Instr& i) {
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint32_t size = x.src<uint32_t>(i.o[3])[l];
    const int kind = i.m[0];
    const uint64_t dst = kind >= 2 ? x.src<uint64_t>(i.o[1])[l] : x.src<uint32_t>(i.o[1])[l];
    const uint64_t src = kind == 0 ? x.src<uint64_t>(i.o[2])[l] : x.src<uint32_t>(i.o[2])[l];
    if (size % 16 || !size || dst % 16 || src % 16) {
      x.e.fault("misaligned",
                "a bulk copy of " + std::to_string(size) + " bytes from " + hex(src) + " to " + hex(dst) +
                    "; size and both addresses must be multiples of 16",
                at, dst);
      return Step::Stop;
    }
    Engine* e = &x.e;
    if (kind >= 2) {
      Cta* owner = x.shared_owner(src, l, false);
      if (!owner) return Step::Stop;
      const uint32_t offset = static_cast<uint32_t>(src) & kOffsetMask;
      if (!e->shared_range(*owner, offset, size, at, "a bulk copy")) return Step::Stop;
      auto group = open_group(x, l);
      e->issue("bulk copy", 0, at, [=] {
        auto image = std::make_shared<std::vector<uint8_t>>(size);
        if (!e->store_may_read(*owner, offset, at, "a bulk copy")) return;
        e->read_shared(*owner, offset, size, image->data(), at, "a bulk copy");
        group->reads_left--;
        e->issue("bulk copy", 0, at, [=] {
          uint8_t* out = e->async_write_global(dst, size, at, kind == 3);
          if (!out) return;
          if (kind == 2) {
            std::memcpy(out, image->data(), size);
          } else {
            // Subnormals are kept: seen on silicon, against the manual's text (facts/sm100.md section 14).
            for (uint32_t k = 0; k < size; k += 4) {
              float a, b;
              std::memcpy(&a, out + k, 4);
              std::memcpy(&b, image->data() + k, 4);
              a = add_f32(a, b, false);
              std::memcpy(out + k, &a, 4);
            }
          }
          e->counters.bulk_bytes += size;
          group->writes_left--;
        });
      });
      continue;
    }
    Cta* to = x.shared_owner(dst, l, !i.m[1]);
    if (!to) return Step::Stop;
    Cta* from = kind == 1 ? x.shared_owner(src, l, false) : nullptr;
    if (kind == 1 && !from) return Step::Stop;
    const uint32_t to_offset = static_cast<uint32_t>(dst) & kOffsetMask,
                   from_offset = static_cast<uint32_t>(src) & kOffsetMask;
    const uint32_t bar = x.src<uint32_t>(i.o[4])[l];
    Cta* bar_owner = x.shared_owner(bar, l, !i.m[1]);
    if (!bar_owner) return Step::Stop;
    if (bar_owner != to) {
      e->fault("tma-barrier-cta", "a bulk copy must signal an mbarrier of its destination CTA", at, bar);
      return Step::Stop;
    }
    const uint32_t bar_offset = bar & kOffsetMask;
    if (!e->shared_range(*to, to_offset, size, at, "a bulk copy") ||
        (from && !e->shared_range(*from, from_offset, size, at, "a bulk copy")) ||
        !e->barrier_at(*to, bar_offset, at))
      return Step::Stop;
    const bool pending = !e->early();
    if (pending) add_pending(&to->shared.state[to_offset], size);
    e->issue("bulk copy", 0, at, [=] {
      std::vector<uint8_t> image(size);
      if (from) {
        e->async_read_shared(*from, from_offset, size, image.data(), at, "a bulk copy");
      } else {
        const uint8_t* in = e->async_read_global(src, size, at);
        if (!in) return;
        std::memcpy(image.data(), in, size);
      }
      if (to->exited()) {
        e->fault("access-after-exit", "a bulk copy writes shared memory of a CTA that has exited", at, dst);
        return;
      }
      e->async_write_shared(*to, to_offset, image.data(), size, pending, at);
      e->counters.bulk_bytes += size;
      e->barrier_complete_tx(*to, bar_offset, size, at);
    });
  }
  return Step::Next;
}

const Registrar tma({{"tma.load", tensor_load}, {"tma.store", tensor_store}, {"bulk.copy", bulk_copy}});

}  // namespace
}  // namespace tileproof
