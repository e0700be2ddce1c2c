// atom and red: each lane in turn (PTX ISA 9.7.13.5, 9.7.13.6).
#include "address.hpp"
#include "clusters_apart.hpp"
#include "reduce.hpp"
#include "slots/atomics.hpp"

namespace tileproof {
namespace {

// red.global.add.f32 of neighbouring lanes to neighbouring words, checked once for all of them. False, with
// nothing done, where something is to be told or asked of one lane. The launch may have to stop.
bool add_row(Exec& x, const Instr& i, const float* added) {
  namespace s = slot::atom;
  const int first = x.lane(), count = __builtin_popcount(x.mask);
  if (count < 2 || static_cast<uint64_t>(x.mask) >> first != (1ull << count) - 1) return false;
  const uint64_t address = address_of(x, i.o[s::address], i.imm, i.m[s::width], first);
  uint64_t apart = 0;
  if (i.o[s::address] != INT32_MIN && i.m[s::width] == 8) {
    const uint64_t* base = x.src<uint64_t>(i.o[s::address]) + first;
    for (int k = 1; k < count; ++k) apart |= (base[k] - base[0]) ^ 4 * static_cast<uint64_t>(k);
  } else {
    for (int k = 1; k < count; ++k)
      apart |= address_of(x, i.o[s::address], i.imm, i.m[s::width], first + k) ^
               (address + 4 * static_cast<uint64_t>(k));
  }
  const uint32_t bytes = 4 * static_cast<uint32_t>(count);
  GlobalBuffer* b = apart || address % 4 ? nullptr : x.e.memory.find(address, bytes);
  if (!b || !b->writable || !b->initialised(address, bytes) || !x.e.tell_row(x, *b, address, 4)) return false;
  if (x.e.apart() && !x.e.meets_nobody(*b, address, bytes, Use::Add)) return true;
  b->mark(address, bytes);
  x.e.reduce_global(Reduction::Add, AtomicType::F32, true, address, b->data + (address - b->address),
                    reinterpret_cast<const uint8_t*>(added + first), bytes);
  x.e.counters.global_bytes += 2 * bytes;  // read and written
  x.e.counters.atomic_bytes += bytes;
  x.e.progress += static_cast<uint64_t>(count);
  return true;
}

// vec: the values of all elements, then, for cas, the values that replace them, then the destinations of atom
// (INT32_MIN: none).
Step atom(Exec& x, const Instr& i) {
  namespace s = slot::atom;
  const Space space = static_cast<Space>(i.m[s::space]);
  const Reduction op = static_cast<Reduction>(i.m[s::operation]);
  const AtomicType type = static_cast<AtomicType>(i.m[s::type]);
  const uint32_t element = bytes_of(type);
  const int32_t elements = i.m[s::elements];
  const uint32_t size = element * static_cast<uint32_t>(elements);
  const int32_t* values = &x.e.program.vec[static_cast<size_t>(i.vec)];
  const int32_t* swaps = values + elements;
  const int32_t* results = op == Reduction::Cas ? swaps + elements : swaps;
  const bool returns = i.o[s::dst] != INT32_MIN;
  x.order = static_cast<uint16_t>(i.m[s::order] | kStrong | kAtomic |
                                  (i.m[s::scope] ? i.m[s::scope] : kScopeGpu) << kScopeBit);
  if (op == Reduction::Add && type == AtomicType::F32 && elements == 1 && !returns &&
      space == Space::Global) {
    // What gradients are accumulated with: the same as below, for one f32.
    const float* added = x.src<float>(values[0]);
    if (add_row(x, i, added)) {
      x.order = 0;
      return Step::Next;
    }
    x.adding = true;
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      const uint64_t address = address_of(x, i.o[s::address], i.imm, i.m[s::width], l);
      if (!x.load(space, address, 4, l)) return Step::Stop;
      uint8_t* p = x.store(space, address, 4, l);
      if (!p) return Step::Stop;
      x.e.counters.atomic_bytes += 4;
      x.e.reduce_global(op, type, true, address, p, reinterpret_cast<const uint8_t*>(added + l), 4);
    }
    x.adding = false;
    x.order = 0;
    return Step::Next;
  }
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t address = address_of(x, i.o[s::address], i.imm, i.m[s::width], l);
    const bool shared = space == Space::SharedCta || space == Space::SharedCluster ||
                        (space == Space::Generic && address - kSharedWindow < kWindowSize);
    x.adding = !returns && !shared && op != Reduction::Cas &&
               (space == Space::Global || x.e.memory.find(address, size));
    const uint8_t* found = x.load(space, address, size, l);
    if (!found) return Step::Stop;
    if (op == Reduction::Cas) {  // one that fails writes nothing, and so releases nothing
      const uint8_t* wanted = x.src<uint8_t>(values[0]) + static_cast<uint32_t>(l) * element;
      x.order =
          static_cast<uint16_t>((x.order & ~kFails) | (std::memcmp(found, wanted, element) ? kFails : 0));
    }
    uint8_t* p = x.store(space, address, size, l);
    if (!p) return Step::Stop;
    x.e.counters.atomic_bytes += size;
    auto lane = [&](int32_t slot) { return x.src<uint8_t>(slot) + static_cast<uint32_t>(l) * element; };
    uint8_t value[8][16], swap[16];  // a destination may be a source
    for (int32_t k = 0; k < elements; ++k) std::memcpy(value[k], lane(values[k]), element);
    if (op == Reduction::Cas) std::memcpy(swap, lane(swaps[0]), element);
    for (int32_t k = 0; k < elements; ++k) {
      uint8_t* cell = p + static_cast<uint32_t>(k) * element;
      if (x.adding) {
        x.e.reduce_global(op, type, true, address + static_cast<uint32_t>(k) * element, cell, value[k],
                          element);
        continue;
      }
      if (returns && results[k] != INT32_MIN)
        std::memcpy(x.dst<uint8_t>(results[k]) + static_cast<uint32_t>(l) * element, cell, element);
      if (op != Reduction::Cas)  // global adds flush, shared ones do not (PTX ISA 9.7.13.5)
        reduce(op, type, cell, value[k], !shared);
      else if (std::memcmp(cell, value[k], element) == 0)
        std::memcpy(cell, swap, element);
    }
  }
  x.adding = false;
  x.order = 0;
  return Step::Next;
}

const Registrar atomics({{"atom", atom}});

}  // namespace
}  // namespace tileproof
