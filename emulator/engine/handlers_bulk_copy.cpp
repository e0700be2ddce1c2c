// cp.async.bulk, cp.reduce.async.bulk (PTX ISA 9.7.9.25.4).
#include "change.hpp"
#include "slots/bulk_copy.hpp"

namespace tileproof {
namespace {

bool aligned(Exec& x, uint64_t dst, uint64_t src, uint32_t size, const Origin& at) {
  if (size % 16 == 0 && size && dst % 16 == 0 && src % 16 == 0) return true;
  x.e.fault("misaligned",
            "a bulk copy of " + std::to_string(size) + " bytes from " + hex(src) + " to " + hex(dst) +
                "; size and both addresses must be multiples of 16",
            at, dst);
  return false;
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
    e->issue(
        "bulk copy", 0, at,
        [=] {
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
        },
        {}, size);
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
    e->issue(
        "bulk copy", 0, at,
        [=] {
          auto image = e->held_bytes(size, at);
          if (!e->store_may_read(*owner, offset, at, "a bulk copy")) return;
          e->read_shared(*owner, offset, size, image->data(), at, "a bulk copy");
          group->reads_left--;
          e->issue("bulk copy", 0, at, [=] {
            const bool done = runs(size, mask, [&](uint32_t first, uint32_t n) {
              return e->async_store_global(dst + first, image->data() + first, n, change, at);
            });
            if (!done) return;
            e->counters.bulk_bytes += size;
            group->writes_left--;
          });
        },
        {}, size);
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

const Registrar bulk_copies({{"bulk.copy", bulk_copy},
                             {"bulk.store", bulk_store},
                             {"bulk.prefetch", bulk_prefetch}});

}  // namespace
}  // namespace tileproof
