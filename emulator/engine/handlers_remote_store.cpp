// st.async, red.async, st.bulk (PTX ISA 9.7.9.12 to 14, 9.7.13.7).
#include "change.hpp"
#include "pool.hpp"
#include "slots/remote_store.hpp"

namespace tileproof {

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

namespace {

// Of one lane, until its bytes come.
struct Landing {
  Engine* e;
  Cta* to;
  uint32_t offset;
  std::array<uint8_t, 16> data;
  uint32_t size, bar_offset;
  Change change;
  bool pending;
  Origin at;
  void operator()() const { land(*e, *to, offset, data.data(), size, bar_offset, change, pending, at); }
  static void* operator new(size_t) { return Pool<sizeof(Landing)>::take(); }
  static void operator delete(void* at) { Pool<sizeof(Landing)>::give(at); }
};

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
    const Landing lands{e, to, offset, data, size, bar_offset, change, pending, at};
    // At once: what is referred to takes no memory of its own.
    std::function<void()> complete =
        e->early() ? std::function<void()>([&lands] { lands(); }) : std::function<void()>(lands);
    e->issue("remote store", 0, at, std::move(complete), {}, size, true);
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

// st.async and red.async with .release, to global memory: nothing tells their thread that they are done, only
// an acquire that reads what they wrote.
Step st_async_release(Exec& x, const Instr& i) {
  namespace s = slot::st_async_release;
  const uint32_t size = static_cast<uint32_t>(i.m[s::bytes]);
  const Change change = Change::of(i.m[s::operation], i.m[s::type]);
  const uint8_t scope = static_cast<uint8_t>(i.m[s::scope]);
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint64_t dst = x.src<uint64_t>(i.o[s::dst])[l];
    Engine* e = &x.e;
    const GlobalBuffer* b = e->memory.find(dst, size);
    if (!b || !b->writable || dst % size) {
      e->fault(!b           ? "global-out-of-bounds"
               : dst % size ? "misaligned"
                            : "global-read-only",
               "an asynchronous store of " + std::to_string(size) + " bytes to " + hex(dst) +
                   "; it must lie in one writable buffer of global memory, at a multiple of its size",
               at, dst);
      return Step::Stop;
    }
    std::array<uint8_t, 8> data{};
    std::memcpy(data.data(), x.src<uint8_t>(i.o[s::value]) + static_cast<uint32_t>(l) * size, size);
    e->issue("release store", 0, at, [=] {
      e->tell(&Listener::async_release, dst, scope);
      if (!e->async_store_global(dst, data.data(), size, change, at)) return;
      e->counters.global_bytes += size;
    });
  }
  return Step::Next;
}

const Registrar remote_stores({{"st.async", st_async},
                               {"st.async.release", st_async_release},
                               {"st.bulk", st_bulk}});

}  // namespace
}  // namespace tileproof
