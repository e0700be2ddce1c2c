// cp.async.bulk, cp.reduce.async.bulk, st.async, red.async, st.bulk (PTX ISA 9.7.9.12 to 14, 9.7.9.25.4,
// 9.7.13.7).
#include "reduce.hpp"
#include "slots/bulk_copy.hpp"
#include "slots/remote_store.hpp"

namespace tileproof {
namespace {

// What is to be done to each element; `op` empty for a copy.
struct Change {
  std::optional<Reduction> op;
  Element type = Element::U32;
  static Change of(int32_t operation, int32_t type) {
    if (!operation) return {};
    return {static_cast<Reduction>(operation - 1), static_cast<Element>(type)};
  }
  // Subnormals are kept: seen on silicon, against the manual's text (docs/assumptions.md).
  void apply(uint8_t* to, const uint8_t* from, uint32_t bytes) const {
    if (!op) {
      std::memcpy(to, from, bytes);
      return;
    }
    const uint32_t n = bytes_of(type);
    for (uint32_t k = 0; k < bytes; k += n) reduce(*op, type, to + k, from + k, false);
  }
};

bool aligned(Exec& x, uint64_t dst, uint64_t src, uint32_t size, const Origin& at) {
  if (size % 16 == 0 && size && dst % 16 == 0 && src % 16 == 0) return true;
  x.e.fault("misaligned",
            "a bulk copy of " + std::to_string(size) + " bytes from " + hex(src) + " to " + hex(dst) +
                "; size and both addresses must be multiples of 16",
            at, dst);
  return false;
}

// Bytes come to shared memory of `to` and count on a barrier there. What a reduction does is atomic, and may
// meet others on the same bytes: it does not make them pending.
void land(Engine& e, Cta& to, uint32_t offset, const uint8_t* data, uint32_t size, uint32_t bar_offset,
          const Change& change, bool pending, const Origin& at) {
  if (to.exited()) {
    e.fault("access-after-exit", "an asynchronous copy writes shared memory of a CTA that has exited", at,
            offset);
    return;
  }
  if (change.op) {
    std::vector<uint8_t> sum(size);
    e.tell(&Listener::async_atomic);
    if (!e.async_read_shared(to, offset, size, sum.data(), at, "an asynchronous reduction")) return;
    change.apply(sum.data(), data, size);
    e.async_write_shared(to, offset, sum.data(), size, false, at);
  } else {
    e.async_write_shared(to, offset, data, size, pending, at);
  }
  e.counters.bulk_bytes += size;
  e.barrier_complete_tx(to, bar_offset, size, at);
}

Step bulk_copy(Exec& x, const Instr& i) {
  namespace s = slot::bulk_copy;
  const bool from_shared = i.m[s::from_shared], own = i.m[s::own_window];
  const Change change = Change::of(i.m[s::operation], i.m[s::type]);
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint32_t size = x.src<uint32_t>(i.o[s::bytes])[l], dst = x.src<uint32_t>(i.o[s::dst])[l],
                   bar = x.src<uint32_t>(i.o[s::barrier])[l];
    const uint64_t src = from_shared ? x.src<uint32_t>(i.o[s::src])[l] : x.src<uint64_t>(i.o[s::src])[l];
    if (!aligned(x, dst, src, size, at)) return Step::Stop;
    Engine* e = &x.e;
    Cta* to = x.shared_owner(dst, l, !own);
    Cta* from = to && from_shared ? x.shared_owner(src, l, false) : nullptr;
    Cta* bar_owner = to ? x.shared_owner(bar, l, !own) : nullptr;
    if (!to || !bar_owner || (from_shared && !from)) return Step::Stop;
    std::vector<Cta*> targets{to};
    if (i.o[s::mask] != INT32_MIN) {  // the same offsets in each CTA of the mask
      targets.clear();
      const uint32_t mask = x.src<uint16_t>(i.o[s::mask])[l];
      for (int r = 0; r < 16; ++r)
        if (mask >> r & 1) {
          Cta* cta = x.cta.cluster->cta(r);
          if (!cta) {
            e->fault("shared-no-such-cta",
                     "the multicast mask " + hex(mask) + " names CTA rank " + std::to_string(r), at, dst);
            return Step::Stop;
          }
          targets.push_back(cta);
        }
    } else if (bar_owner != to) {
      e->fault("tma-barrier-cta", "a bulk copy must signal an mbarrier of its destination CTA", at, bar);
      return Step::Stop;
    }
    const uint32_t to_offset = dst & kOffsetMask, bar_offset = bar & kOffsetMask,
                   from_offset = static_cast<uint32_t>(src) & kOffsetMask;
    const bool pending = !e->early() && !change.op;
    if (from && !e->shared_range(*from, from_offset, size, at, "a bulk copy")) return Step::Stop;
    for (Cta* cta : targets) {
      if (!e->shared_range(*cta, to_offset, size, at, "a bulk copy") || !e->barrier_at(*cta, bar_offset, at))
        return Step::Stop;
      if (pending) add_pending(&cta->shared.state[to_offset], size);
    }
    e->issue("bulk copy", 0, at, [=] {
      std::vector<uint8_t> image(size);
      if (from) {
        if (!e->async_read_shared(*from, from_offset, size, image.data(), at, "a bulk copy")) return;
      } else {
        const uint8_t* in = e->async_read_global(src, size, at);
        if (!in) return;
        std::memcpy(image.data(), in, size);
      }
      for (Cta* cta : targets) {
        land(*e, *cta, to_offset, image.data(), size, bar_offset, change, pending, at);
        if (e->stopped) return;
      }
    });
  }
  return Step::Next;
}

// Calls f(first byte, bytes) for the runs of bytes of each 16 that `mask` names.
template <class F>
bool runs(uint32_t size, uint32_t mask, F&& f) {
  if (mask == 0xffff) return f(0u, size);
  for (uint32_t o = 0; o < size; o += 16)
    for (uint32_t left = mask; left;) {
      const uint32_t first = static_cast<uint32_t>(__builtin_ctz(left)),
                     n = static_cast<uint32_t>(__builtin_ctz(~(left >> first)));
      if (!f(o + first, n)) return false;
      left &= ~(((1u << n) - 1) << first);
    }
  return true;
}

Step bulk_store(Exec& x, const Instr& i) {
  namespace s = slot::bulk_store;
  const Change change = Change::of(i.m[s::operation], i.m[s::type]);
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint32_t size = x.src<uint32_t>(i.o[s::bytes])[l], src = x.src<uint32_t>(i.o[s::src])[l];
    const uint64_t dst = x.src<uint64_t>(i.o[s::dst])[l];
    const uint32_t mask = i.o[s::mask] == INT32_MIN ? 0xffff : x.src<uint16_t>(i.o[s::mask])[l];
    if (!aligned(x, dst, src, size, at)) return Step::Stop;
    Cta* owner = x.shared_owner(src, l, false);
    if (!owner) return Step::Stop;
    const uint32_t offset = src & kOffsetMask;
    Engine* e = &x.e;
    if (!e->shared_range(*owner, offset, size, at, "a bulk copy")) return Step::Stop;
    e->tell(&Listener::bulk_open, x.w, l);
    auto group = x.w.bulk[l].join();
    e->issue("bulk copy", 0, at, [=] {
      auto image = std::make_shared<std::vector<uint8_t>>(size);
      if (!e->store_may_read(*owner, offset, at, "a bulk copy")) return;
      e->read_shared(*owner, offset, size, image->data(), at, "a bulk copy");
      group->reads_left--;
      e->issue("bulk copy", 0, at, [=] {
        const bool done = runs(size, mask, [&](uint32_t first, uint32_t n) {
          uint8_t* out = e->async_write_global(dst + first, n, at, change.op.has_value());
          if (out) change.apply(out, image->data() + first, n);
          return out != nullptr;
        });
        if (!done) return;
        e->counters.bulk_bytes += size;
        group->writes_left--;
      });
    });
  }
  return Step::Next;
}

Step bulk_prefetch(Exec& x, const Instr& i) {
  namespace s = slot::bulk_prefetch;
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const uint32_t size = x.src<uint32_t>(i.o[s::bytes])[l];
    const uint64_t src = x.src<uint64_t>(i.o[s::src])[l];
    if (!aligned(x, 0, src, size, x.origin(l))) return Step::Stop;
    if (x.e.memory.find(src, size)) continue;
    x.e.fault("global-out-of-bounds",
              "a prefetch of " + std::to_string(size) + " bytes at " + hex(src) + ", outside every buffer",
              x.origin(l), src);
    return Step::Stop;
  }
  return Step::Next;
}

// st.async and red.async: the values are read at once, the bytes come later.
Step st_async(Exec& x, const Instr& i) {
  namespace s = slot::st_async;
  const uint32_t element = static_cast<uint32_t>(i.m[s::bytes]),
                 size = element * static_cast<uint32_t>(i.m[s::elements]);
  const Change change = Change::of(i.m[s::operation], i.m[s::type]);
  const int32_t* values = &x.e.program.vec[static_cast<size_t>(i.vec)];
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint32_t dst = x.src<uint32_t>(i.o[s::dst])[l], bar = x.src<uint32_t>(i.o[s::barrier])[l];
    Engine* e = &x.e;
    if (dst % size) {
      e->fault("misaligned", "an asynchronous store of " + std::to_string(size) + " bytes to " + hex(dst), at,
               dst);
      return Step::Stop;
    }
    Cta* to = x.shared_owner(dst, l, true);
    Cta* bar_owner = to ? x.shared_owner(bar, l, true) : nullptr;
    if (!bar_owner) return Step::Stop;
    if (bar_owner != to) {
      e->fault("tma-barrier-cta",
               "an asynchronous store must signal an mbarrier of its destination CTA (PTX ISA 9.7.9.12)", at,
               bar);
      return Step::Stop;
    }
    const uint32_t offset = dst & kOffsetMask, bar_offset = bar & kOffsetMask;
    if (!e->shared_range(*to, offset, size, at, "an asynchronous store") ||
        !e->barrier_at(*to, bar_offset, at))
      return Step::Stop;
    std::array<uint8_t, 16> data{};
    for (int32_t k = 0; k < i.m[s::elements]; ++k)
      std::memcpy(&data[static_cast<uint32_t>(k) * element],
                  x.src<uint8_t>(values[k]) + static_cast<uint32_t>(l) * element, element);
    const bool pending = !e->early() && !change.op;
    if (pending) add_pending(&to->shared.state[offset], size);
    e->issue("remote store", 0, at,
             [=] { land(*e, *to, offset, data.data(), size, bar_offset, change, pending, at); });
  }
  return Step::Next;
}

// Zeros, 8 bytes at a time: a thread's own, synchronous store.
Step st_bulk(Exec& x, const Instr& i) {
  namespace s = slot::st_bulk;
  const Space space = static_cast<Space>(i.m[s::space]);
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const uint64_t dst = x.src<uint64_t>(i.o[s::dst])[l], size = x.src<uint64_t>(i.o[s::bytes])[l];
    const bool global = space == Space::Generic && dst - kSharedWindow >= kWindowSize;
    if (dst % 8 || size % 8 || size > 1u << 24 || global) {
      x.e.fault(global ? "shared-wrong-window" : "misaligned",
                "st.bulk of " + std::to_string(size) + " bytes at " + hex(dst) +
                    "; both must be multiples of 8, in the shared memory of the own CTA (PTX ISA 9.7.9.14)",
                x.origin(l), dst);
      return Step::Stop;
    }
    for (uint64_t k = 0; k < size; k += 8) {
      uint8_t* p = x.store(space, dst + k, 8, l);
      if (!p) return Step::Stop;
      std::memset(p, 0, 8);
    }
  }
  return Step::Next;
}

const Registrar bulk_copies({{"bulk.copy", bulk_copy},
                             {"bulk.store", bulk_store},
                             {"bulk.prefetch", bulk_prefetch},
                             {"st.async", st_async},
                             {"st.bulk", st_bulk}});

}  // namespace
}  // namespace tileproof
