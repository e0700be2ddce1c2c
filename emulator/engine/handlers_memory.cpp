// ld, st, atom, red, address conversion.
//
// Common operands: o[1] address base (INT32_MIN: none), imm displacement, m[0] Space, m[1] bytes an element,
// m[2] elements, m[3] register bytes, m[4] 1 to sign-extend, m[5] bytes of the address register; registers in
// vec.
#include <type_traits>

#include "alu.hpp"

namespace tileproof {
namespace {

uint64_t address_of(const Exec& x, const Instr& i, int lane) {
  uint64_t base = 0;
  if (i.o[1] != INT32_MIN) base = i.m[5] == 4 ? x.src<uint32_t>(i.o[1])[lane] : x.src<uint64_t>(i.o[1])[lane];
  const uint64_t a = base + static_cast<uint64_t>(i.imm);
  return i.m[5] == 4 ? a & 0xffffffffu : a;
}

Step ld(Exec& x, const Instr& i) {
  const Space space = static_cast<Space>(i.m[0]);
  const uint32_t element = static_cast<uint32_t>(i.m[1]), reg = static_cast<uint32_t>(i.m[3]);
  const uint32_t size = element * static_cast<uint32_t>(i.m[2]);
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  x.order = static_cast<uint8_t>(i.m[6]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint8_t* p = x.load(space, address_of(x, i, l), size, l);
    if (!p) return Step::Stop;
    for (int32_t k = 0; k < i.m[2]; ++k) {
      if (regs[k] == INT32_MIN) continue;
      uint8_t* d = x.dst<uint8_t>(regs[k]) + static_cast<uint32_t>(l) * reg;
      if (element == reg) {
        std::memcpy(d, p + static_cast<uint32_t>(k) * element, element);
      } else {  // a wider register: extend
        uint64_t v = 0;
        std::memcpy(&v, p + static_cast<uint32_t>(k) * element, element);
        if (i.m[4] && element < 8 && (v >> (8 * element - 1)) & 1) v |= ~0ull << (8 * element);
        std::memcpy(d, &v, reg);
      }
    }
  }
  x.order = 0;
  return Step::Next;
}

Step st(Exec& x, const Instr& i) {
  const Space space = static_cast<Space>(i.m[0]);
  const uint32_t element = static_cast<uint32_t>(i.m[1]), reg = static_cast<uint32_t>(i.m[3]);
  const uint32_t size = element * static_cast<uint32_t>(i.m[2]);
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  x.order = static_cast<uint8_t>(i.m[6]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint8_t* p = x.store(space, address_of(x, i, l), size, l);
    if (!p) return Step::Stop;
    for (int32_t k = 0; k < i.m[2]; ++k)
      std::memcpy(p + static_cast<uint32_t>(k) * element,
                  x.src<uint8_t>(regs[k]) + static_cast<uint32_t>(l) * reg, element);
  }
  x.order = 0;
  return Step::Next;
}

enum AtomOp : int32_t { kAdd = 0, kMin, kMax, kAnd, kOr, kXor, kExch, kInc, kDec };

template <class T>
T integer_op(int32_t op, T a, T b) {
  switch (op) {
    case kAdd:
      return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    case kMin:
      return a < b ? a : b;
    case kMax:
      return a < b ? b : a;
    case kAnd:
      return static_cast<T>(a & b);
    case kOr:
      return static_cast<T>(a | b);
    case kXor:
      return static_cast<T>(a ^ b);
    case kInc:
      return a >= b ? T(0) : static_cast<T>(a + 1);
    case kDec:
      return a == 0 || a > b ? b : static_cast<T>(a - 1);
    default:
      return b;
  }
}

// o[0] destination of atom (INT32_MIN for red and for `_`), values in vec, m[6] operation, m[7] type:
// 0 u32, 1 s32, 2 u64, 3 s64, 4 f32.
Step atom(Exec& x, const Instr& i) {
  const Space space = static_cast<Space>(i.m[0]);
  const uint32_t element = static_cast<uint32_t>(i.m[1]);
  const uint32_t size = element * static_cast<uint32_t>(i.m[2]);
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  x.order = static_cast<uint8_t>(i.m[4] | kStrong | kAtomic);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t address = address_of(x, i, l);
    const bool shared = space == Space::SharedCta || space == Space::SharedCluster ||
                        (space == Space::Generic && address - kSharedWindow < kWindowSize);
    if (!x.load(space, address, size, l)) return Step::Stop;
    uint8_t* p = x.store(space, address, size, l);
    if (!p) return Step::Stop;
    x.e.counters.atomic_bytes += size;
    for (int32_t k = 0; k < i.m[2]; ++k) {
      uint8_t* cell = p + static_cast<uint32_t>(k) * element;
      const uint8_t* value = x.src<uint8_t>(regs[k]) + static_cast<uint32_t>(l) * element;
      if (i.o[0] != INT32_MIN)
        std::memcpy(x.dst<uint8_t>(i.o[0]) + static_cast<uint32_t>(l) * element, cell, element);
      auto apply = [&](auto tag) {
        using T = decltype(tag);
        T a, b;
        std::memcpy(&a, cell, sizeof(T));
        std::memcpy(&b, value, sizeof(T));
        a = integer_op<T>(i.m[6], a, b);
        std::memcpy(cell, &a, sizeof(T));
      };
      switch (i.m[7]) {
        case 0:
          apply(uint32_t{});
          break;
        case 1:
          apply(int32_t{});
          break;
        case 2:
          apply(uint64_t{});
          break;
        case 3:
          apply(int64_t{});
          break;
        default: {
          float a, b;
          std::memcpy(&a, cell, 4);
          std::memcpy(&b, value, 4);
          a = add_f32(a, b, !shared);  // global adds flush, shared ones do not (PTX ISA 9.7.13.5)
          std::memcpy(cell, &a, 4);
        }
      }
    }
  }
  x.order = 0;
  return Step::Next;
}

// cvta: imm is added (to generic) or subtracted (to a state space); m[0] = 1 for shared, where the window is
// checked.
Step cvta(Exec& x, const Instr& i) {
  const uint64_t* a = x.src<uint64_t>(i.o[1]);
  uint64_t* d = x.dst<uint64_t>(i.o[0]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = a[l] + static_cast<uint64_t>(i.imm);
  }
  return Step::Next;
}

// mapa.shared::cluster.u32 d, a, rank: the same offset in the CTA of that rank (PTX ISA 9.7.9.23).
Step mapa32(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[1]), *r = x.src<uint32_t>(i.o[2]);
  uint32_t* d = x.dst<uint32_t>(i.o[0]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (r[l] >= x.e.cluster->ctas.size()) {
      x.e.fault("shared-no-such-cta",
                "mapa asks for CTA rank " + std::to_string(r[l]) + " of a cluster of " +
                    std::to_string(x.e.cluster->ctas.size()),
                x.origin(l), a[l]);
      return Step::Stop;
    }
    d[l] = (a[l] & kOffsetMask) | r[l] << kRankShift;
  }
  return Step::Next;
}
Step mapa64(Exec& x, const Instr& i) {
  const uint64_t* a = x.src<uint64_t>(i.o[1]);
  const uint32_t* r = x.src<uint32_t>(i.o[2]);
  uint64_t* d = x.dst<uint64_t>(i.o[0]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = (a[l] & ~(0xffull << kRankShift)) | static_cast<uint64_t>(r[l]) << kRankShift;
  }
  return Step::Next;
}

Step nop(Exec&, const Instr&) { return Step::Next; }

const Registrar memory({
    {"ld", ld},
    {"st", st},
    {"atom", atom},
    {"cvta", cvta},
    {"mapa.u32", mapa32},
    {"mapa.u64", mapa64},
    {"nop", nop},
});

}  // namespace
}  // namespace tileproof
