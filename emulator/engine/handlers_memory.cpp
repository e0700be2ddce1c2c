// ld, st, address conversion.
//
// ld and st: the address is base (INT32_MIN: none) + imm; `bytes` of an element in memory, `register_bytes`
// of it in a register, `sign` 1 to sign-extend, `width` bytes of the address register; registers in vec.
#include <algorithm>

#include "address.hpp"
#include "slots/alu.hpp"
#include "slots/memory.hpp"

namespace tileproof {
namespace {

// One lane's elements into its registers; those of 4 and 8 bytes, which need no extension, apart.
template <class T>
void put(Exec& x, const int32_t* regs, int32_t elements, const uint8_t* p, int l) {
  for (int32_t k = 0; k < elements; ++k)
    if (regs[k] != INT32_MIN)
      std::memcpy(x.dst<T>(regs[k]) + l, p + static_cast<size_t>(k) * sizeof(T), sizeof(T));
}

void put_any(Exec& x, const Instr& i, const int32_t* regs, const uint8_t* p, int l) {
  const uint32_t element = static_cast<uint32_t>(i.m[slot::ld::bytes]),
                 reg = static_cast<uint32_t>(i.m[slot::ld::register_bytes]);
  for (int32_t k = 0; k < i.m[slot::ld::elements]; ++k) {
    if (regs[k] == INT32_MIN) continue;
    uint8_t* d = x.dst<uint8_t>(regs[k]) + static_cast<uint32_t>(l) * reg;
    if (element == reg) {
      std::memcpy(d, p + static_cast<uint32_t>(k) * element, element);
    } else {  // a wider register: extend
      uint64_t v = 0;
      std::memcpy(&v, p + static_cast<uint32_t>(k) * element, element);
      if (i.m[slot::ld::sign] && element < 8 && (v >> (8 * element - 1)) & 1) v |= ~0ull << (8 * element);
      std::memcpy(d, &v, reg);
    }
  }
}

// Whether all of these bytes of the parameters exist and were set by the caller.
bool known(const Exec& x, uint64_t address, uint32_t size) {
  const auto& set = x.e.config.known_params;
  if (address > x.e.config.params.size() || size > x.e.config.params.size() - address) return false;
  return set.empty() || std::all_of(set.begin() + static_cast<std::ptrdiff_t>(address),
                                    set.begin() + static_cast<std::ptrdiff_t>(address + size),
                                    [](uint8_t by_caller) { return by_caller != 0; });
}

// Parameters that all lanes read at one address, as they mostly do, and that the caller has set: checked
// once.
bool same_parameter(const Exec& x, const Instr& i, uint32_t size) {
  if (i.o[slot::ld::base] != INT32_MIN) {
    const int first = x.lane();
    const uint64_t address = address_of(x, i.o[slot::ld::base], i.imm, i.m[slot::ld::width], first);
    for (uint32_t m = x.mask; m; m &= m - 1)
      if (address_of(x, i.o[slot::ld::base], i.imm, i.m[slot::ld::width], __builtin_ctz(m)) != address)
        return false;
    return known(x, address, size);
  }
  return known(x, static_cast<uint64_t>(i.imm), size);
}

// The registers of a lane whose elements nobody wrote, or only in part.
void put_poison(Exec& x, const Instr& i, const int32_t* regs, const Unwritten& u, int l) {
  const uint32_t element = static_cast<uint32_t>(i.m[slot::ld::bytes]),
                 reg = static_cast<uint32_t>(i.m[slot::ld::register_bytes]);
  for (int32_t k = 0; k < i.m[slot::ld::elements]; ++k) {
    if (regs[k] == INT32_MIN) continue;
    uint8_t bits[16] = {};
    for (uint32_t b = 0; b < element; ++b)
      if (u.bytes >> (static_cast<uint32_t>(k) * element + b) & 1) bits[b] = 0xff;
    if (i.m[slot::ld::sign] && bits[element - 1]) std::memset(bits + element, 0xff, reg - element);
    if (std::any_of(bits, bits + reg, [](uint8_t b) { return b != 0; }))
      x.e.mark_poison(x.w, regs[k], l, bits, u.set);
  }
}

Step ld(Exec& x, const Instr& i) {
  const Space space = static_cast<Space>(i.m[slot::ld::space]);
  const uint32_t element = static_cast<uint32_t>(i.m[slot::ld::bytes]);
  const int32_t elements = i.m[slot::ld::elements];
  const uint32_t size = element * static_cast<uint32_t>(elements);
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  x.order = static_cast<uint16_t>(i.m[slot::ld::order]);
  const uint32_t whole = element == static_cast<uint32_t>(i.m[slot::ld::register_bytes]) ? element : 0;
  const uint8_t* p = nullptr;
  Unwritten unwritten;
  x.unwritten = &unwritten;
  const bool once = space == Space::Param && same_parameter(x, i, size);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (!p || !once) {
      p = x.load(space, address_of(x, i.o[slot::ld::base], i.imm, i.m[slot::ld::width], l), size, l);
      if (!p) {
        x.unwritten = nullptr;
        return Step::Stop;
      }
    }
    if (whole == 4)
      put<uint32_t>(x, regs, elements, p, l);
    else if (whole == 8)
      put<uint64_t>(x, regs, elements, p, l);
    else
      put_any(x, i, regs, p, l);
    if (unwritten.bytes) [[unlikely]] {
      put_poison(x, i, regs, unwritten, l);
      unwritten.bytes = 0;
    }
  }
  x.unwritten = nullptr;
  x.order = 0;
  return Step::Next;
}

Step st(Exec& x, const Instr& i) {
  const Space space = static_cast<Space>(i.m[slot::st::space]);
  const uint32_t element = static_cast<uint32_t>(i.m[slot::st::bytes]),
                 reg = static_cast<uint32_t>(i.m[slot::st::register_bytes]);
  const uint32_t size = element * static_cast<uint32_t>(i.m[slot::st::elements]);
  const int32_t* regs = &x.e.program.vec[static_cast<size_t>(i.vec)];
  x.order = static_cast<uint16_t>(i.m[slot::st::order]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint8_t* p = x.store(space, address_of(x, i.o[slot::st::base], i.imm, i.m[slot::st::width], l), size, l);
    if (!p) return Step::Stop;
    if (element == 4 && reg == 4) {
      for (int32_t k = 0; k < i.m[slot::st::elements]; ++k)
        std::memcpy(p + static_cast<size_t>(k) * 4, x.src<uint32_t>(regs[k]) + l, 4);
      continue;
    }
    for (int32_t k = 0; k < i.m[slot::st::elements]; ++k)
      std::memcpy(p + static_cast<uint32_t>(k) * element,
                  x.src<uint8_t>(regs[k]) + static_cast<uint32_t>(l) * reg, element);
  }
  x.order = 0;
  return Step::Next;
}

// cvta: imm is added (to generic) or subtracted (to a state space); for shared the window is
// checked.
Step cvta(Exec& x, const Instr& i) {
  const uint64_t* a = x.src<uint64_t>(i.o[slot::alu::a]);
  uint64_t* d = x.dst<uint64_t>(i.o[slot::alu::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = a[l] + static_cast<uint64_t>(i.imm);
  }
  return Step::Next;
}

// mapa.shared::cluster.u32 d, a, rank: the same offset in the CTA of that rank (PTX ISA 9.7.9.23).
Step mapa32(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[slot::alu::a]), *r = x.src<uint32_t>(i.o[slot::alu::b]);
  uint32_t* d = x.dst<uint32_t>(i.o[slot::alu::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (r[l] >= x.cta.cluster->ctas.size()) {
      x.e.fault("shared-no-such-cta",
                "mapa asks for CTA rank " + std::to_string(r[l]) + " of a cluster of " +
                    std::to_string(x.cta.cluster->ctas.size()),
                x.origin(l), a[l]);
      return Step::Stop;
    }
    d[l] = (a[l] & kOffsetMask) | r[l] << kRankShift;
  }
  return Step::Next;
}
Step mapa64(Exec& x, const Instr& i) {
  const uint64_t* a = x.src<uint64_t>(i.o[slot::alu::a]);
  const uint32_t* r = x.src<uint32_t>(i.o[slot::alu::b]);
  uint64_t* d = x.dst<uint64_t>(i.o[slot::alu::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = (a[l] & ~(0xffull << kRankShift)) | static_cast<uint64_t>(r[l]) << kRankShift;
  }
  return Step::Next;
}

// getctarank d, a: the rank of the CTA whose shared memory has the address (9.7.9.24).
Step space_rank(Exec& x, const Instr& i) {
  namespace s = slot::space_rank;
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  const bool wide = i.m[s::bytes] == 8;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t a = wide ? x.src<uint64_t>(i.o[s::a])[l] : x.src<uint32_t>(i.o[s::a])[l];
    const uint64_t base = i.m[s::generic] ? kSharedWindow : 0;
    const uint64_t rank = (a - base) >> kRankShift;
    if (rank >= x.cta.cluster->ctas.size()) {
      x.e.fault("shared-no-such-cta",
                "getctarank of an address that lies in no CTA of a cluster of " +
                    std::to_string(x.cta.cluster->ctas.size()),
                x.origin(l), a);
      return Step::Stop;
    }
    d[l] = static_cast<uint32_t>(rank);
  }
  return Step::Next;
}

// isspacep p, a: whether a generic address lies in a window (9.7.9.19); order of _TESTED in isa/memory.py.
Step space_test(Exec& x, const Instr& i) {
  const uint64_t* a = x.src<uint64_t>(i.o[slot::space_test::a]);
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::space_test::dst]);
  uint32_t hits = 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const bool shared = a[l] - kSharedWindow < kWindowSize, local = a[l] - kLocalWindow < kWindowSize,
               param = a[l] - kParamWindow < kWindowSize;
    const uint64_t rank = (a[l] - kSharedWindow) >> kRankShift;
    const bool in[] = {!shared && !local, local, shared && rank == static_cast<uint64_t>(x.cta.rank),
                       shared && rank < x.cta.cluster->ctas.size(), param};
    hits |= static_cast<uint32_t>(in[i.m[slot::space_test::space]]) << l;
  }
  p = (p & ~x.mask) | hits;
  return Step::Next;
}

Step nop(Exec&, const Instr&) { return Step::Next; }

const Registrar memory({
    {"ld", ld},
    {"st", st},
    {"cvta", cvta},
    {"mapa.u32", mapa32},
    {"mapa.u64", mapa64},
    {"space.rank", space_rank},
    {"space.test", space_test},
    {"nop", nop},
});

}  // namespace
}  // namespace tileproof
