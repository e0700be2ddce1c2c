// Integer instructions on bits, bytes and carries (PTX ISA 9.7.1, 9.7.2).
#include <algorithm>

#include "alu.hpp"
#include "slots/bits.hpp"

namespace tileproof {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;
template <class T>
constexpr int kBits = 8 * static_cast<int>(sizeof(T));

// bfe: bits [pos, pos + len) of a, extended with the topmost of them when signed (PTX ISA 9.7.1.19).
template <class T>
struct Bfe {
  static T f(T a, uint32_t b, uint32_t c) {
    const int msb = kBits<T> - 1, pos = b & 0xff, len = c & 0xff;
    const U<T> v = static_cast<U<T>>(a);
    const bool fill = std::is_signed_v<T> && len && (v >> std::min(pos + len - 1, msb) & 1);
    const int count = std::min(len, pos > msb ? 0 : msb - pos + 1);
    const U<T> mask = count >= kBits<T> ? ~U<T>{0} : (U<T>{1} << count) - 1;
    const U<T> r = (pos > msb ? U<T>{0} : v >> pos) & mask;
    return static_cast<T>(fill ? r | static_cast<U<T>>(~mask) : r);
  }
};
template <class T>
Step bfe(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[slot::alu::a]);
  const uint32_t *b = x.src<uint32_t>(i.o[slot::alu::b]), *c = x.src<uint32_t>(i.o[slot::alu::c]);
  T* d = x.dst<T>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) { d[l] = Bfe<T>::f(a[l], b[l], c[l]); });
  return Step::Next;
}
// bfi: the low bits of a over those of b from a position on (9.7.1.20).
template <class T>
Step bfi(Exec& x, const Instr& i) {
  const T *a = x.src<T>(i.o[slot::alu::a]), *b = x.src<T>(i.o[slot::alu::b]);
  const uint32_t *at = x.src<uint32_t>(i.o[slot::alu::c]), *length = x.src<uint32_t>(i.o[slot::alu::d]);
  T* d = x.dst<T>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) {
    const int pos = at[l] & 0xff, len = std::min<int>(length[l] & 0xff, kBits<T>);
    const T low = len >= kBits<T> ? ~T{0} : (T{1} << len) - 1;
    const T mask = pos >= kBits<T> ? T{0} : static_cast<T>(low << pos);
    d[l] = (b[l] & ~mask) | (pos >= kBits<T> ? T{0} : static_cast<T>(a[l] << pos) & mask);
  });
  return Step::Next;
}

// shf: 64 bits hi:lo shifted, one half kept (9.7.8.7).
template <bool Left, bool Wrap>
struct Shf {
  static uint32_t f(uint32_t lo, uint32_t hi, uint32_t c) {
    const uint32_t n = Wrap ? c & 31 : std::min(c, 32u);
    const uint64_t v = static_cast<uint64_t>(hi) << 32 | lo;
    return static_cast<uint32_t>(Left ? (n == 32 ? v << 32 : v << n) >> 32 : v >> n);
  }
};

template <class T>
void carry_lanes(Exec& x, const Instr& i) {
  namespace s = slot::carry;
  const T *a = x.src<T>(i.o[s::a]), *b = x.src<T>(i.o[s::b]);
  T* d = x.dst<T>(i.o[s::dst]);
  uint32_t& flag = *x.dst<uint32_t>(i.o[s::carry]);
  const uint32_t in = i.m[s::reads] ? flag : 0;
  uint32_t out = 0;
  const bool subtracts = i.m[s::subtracts];
  lanes(x.mask, [&](int l) {
    using W = unsigned __int128;
    const W p = a[l], q = static_cast<W>(b[l]) + (in >> l & 1);
    out |= static_cast<uint32_t>(subtracts ? p < q : (p + q) >> kBits<T> != 0) << l;
    d[l] = static_cast<T>(subtracts ? p - q : p + q);
  });
  if (i.m[s::writes]) flag = (flag & ~x.mask) | (out & x.mask);
}
// add.cc, addc, sub.cc, subc: the flag is a borrow of a subtraction (9.7.2).
Step carry(Exec& x, const Instr& i) {
  if (i.m[slot::carry::bytes] == 4)
    carry_lanes<uint32_t>(x, i);
  else
    carry_lanes<uint64_t>(x, i);
  return Step::Next;
}

template <bool Signed, bool High>
struct Mul24 {
  static uint32_t f(uint32_t a, uint32_t b) {
    int64_t p;
    if (Signed)
      p = static_cast<int64_t>(static_cast<int32_t>(a << 8) >> 8) * (static_cast<int32_t>(b << 8) >> 8);
    else
      p = static_cast<int64_t>(static_cast<uint64_t>(a & 0xffffff) * (b & 0xffffff));
    return static_cast<uint32_t>(High ? p >> 16 : p);
  }
};
template <class T>
struct Sad {
  static T f(T a, T b, T c) {
    return static_cast<T>(U<T>(c) + (a < b ? U<T>(b) - U<T>(a) : U<T>(a) - U<T>(b)));
  }
};
struct AddSat {
  static int32_t f(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSat {
  static int32_t f(int32_t a, int32_t b) {
    return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX));
  }
};

struct Popc64 {
  static uint32_t f(uint64_t a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
struct Clz64 {
  static uint32_t f(uint64_t a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) : 64; }
};
struct Brev64 {
  static uint64_t f(uint64_t a) {
    uint64_t r = 0;
    for (int k = 0; k < 64; ++k) r |= (a >> k & 1) << (63 - k);
    return r;
  }
};
// bfind: the highest bit that differs from the sign; .shiftamt: how far to shift it to the top (9.7.1.18).
template <class T, bool Shift>
struct Bfind {
  static uint32_t f(T a) {
    U<T> v = static_cast<U<T>>(a);
    if (a < T{0}) v = static_cast<U<T>>(~v);
    if (!v) return ~0u;
    const uint32_t top = 63 - static_cast<uint32_t>(__builtin_clzll(v));
    return Shift ? static_cast<uint32_t>(kBits<T>) - 1 - top : top;
  }
};

// prmt with a mode: the selectors of PTX ISA 9.7.9.7, d's most significant byte first.
Step prmt_mode(Exec& x, const Instr& i) {
  static constexpr uint16_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
      {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  namespace s = slot::prmt_mode;
  const uint32_t *a = x.src<uint32_t>(i.o[s::a]), *b = x.src<uint32_t>(i.o[s::b]),
                 *c = x.src<uint32_t>(i.o[s::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  lanes(x.mask, [&](int l) {
    const uint64_t v = a[l] | static_cast<uint64_t>(b[l]) << 32;
    const uint32_t select = kSelectors[i.m[s::mode]][c[l] & 3];
    uint32_t r = 0;
    for (int k = 0; k < 4; ++k)
      r |= static_cast<uint32_t>(v >> (8 * (select >> (4 * k) & 7)) & 255) << (8 * k);
    d[l] = r;
  });
  return Step::Next;
}

// dp4a, dp2a: c plus products of bytes, or of halves of a with two bytes of b (9.7.1.24, 9.7.1.25).
Step dot(Exec& x, const Instr& i) {
  namespace s = slot::dp;
  const uint32_t *a = x.src<uint32_t>(i.o[s::a]), *b = x.src<uint32_t>(i.o[s::b]),
                 *c = x.src<uint32_t>(i.o[s::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[s::dst]);
  const bool pairs = i.m[s::pairs], as = i.m[s::a_signed], bs = i.m[s::b_signed];
  const int first = i.m[s::high] ? 2 : 0;
  lanes(x.mask, [&](int l) {
    uint32_t r = c[l];
    for (int k = 0; k < (pairs ? 2 : 4); ++k) {
      const uint32_t y = b[l] >> (8 * (k + first)) & 0xff;
      const uint32_t p = pairs ? a[l] >> (16 * k) & 0xffff : a[l] >> (8 * k) & 0xff;
      const int64_t u =
          as ? (pairs ? static_cast<int16_t>(p) : static_cast<int8_t>(p)) : static_cast<int64_t>(p);
      const int64_t v = bs ? static_cast<int8_t>(y) : static_cast<int64_t>(y);
      r += static_cast<uint32_t>(u * v);
    }
    d[l] = r;
  });
  return Step::Next;
}

Step fns(Exec& x, const Instr& i) {
  const uint32_t *mask = x.src<uint32_t>(i.o[slot::alu::a]), *base = x.src<uint32_t>(i.o[slot::alu::b]);
  const int32_t* offset = x.src<int32_t>(i.o[slot::alu::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) {
    uint32_t found = ~0u;
    if (offset[l] == 0) {
      if (base[l] < 32 && (mask[l] >> base[l] & 1)) found = base[l];
    } else {
      int64_t count = std::abs(static_cast<int64_t>(offset[l])) - 1;
      const int step = offset[l] > 0 ? 1 : -1;
      for (int64_t p = base[l]; p >= 0 && p < 32; p += step)
        if (mask[l] >> p & 1) {
          if (count-- == 0) {
            found = static_cast<uint32_t>(p);
            break;
          }
        }
    }
    d[l] = found;
  });
  return Step::Next;
}

template <bool Clamp, bool Signed>
struct Szext {
  static uint32_t f(uint32_t a, uint32_t b) {
    const uint32_t n = b & 31;
    const bool large = Clamp && b >= 32;
    const uint32_t mask = large ? 0 : ~0u << n;
    const bool sign = Signed && n && !large && (a >> (n - 1) & 1);
    return (a & ~mask) | (sign ? mask : 0);
  }
};
template <bool Clamp>
struct Bmsk {
  static uint32_t f(uint32_t a, uint32_t b) {
    const uint32_t at = a & 31, width = b & 31;
    if (Clamp && a >= 32) return 0;
    const uint32_t from = ~0u << at;
    const bool open = at + width >= 32 || (Clamp && b >= 32);  // reaches the top
    return from & ~(open ? 0u : width ? ~0u << (at + width) : ~0u);
  }
};
template <class T>
struct Cnot {
  static T f(T a) { return a == 0; }
};

// Two 16-bit lanes of a 32-bit register (sm_90).
template <class F>
struct Two {
  static uint32_t f(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(F::f(static_cast<uint16_t>(a), static_cast<uint16_t>(b))) |
           static_cast<uint32_t>(F::f(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))) << 16;
  }
};
struct Add16 {
  static uint16_t f(uint16_t a, uint16_t b) { return static_cast<uint16_t>(a + b); }
};
template <class T, bool IsMax, bool Relu>
struct Extreme {
  static U<T> f(U<T> a, U<T> b) {
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    const T r = (x < y) == IsMax ? y : x;
    return static_cast<U<T>>(Relu && r < T{0} ? T{0} : r);
  }
};

template <class F>
Handler pair16() {
  return binary<uint32_t, uint32_t, uint32_t, F>;
}

const Registrar bits({
    {"bfe.s32", bfe<int32_t>},
    {"bfe.u32", bfe<uint32_t>},
    {"bfe.s64", bfe<int64_t>},
    {"bfe.u64", bfe<uint64_t>},
    {"bfi.b32", bfi<uint32_t>},
    {"bfi.b64", bfi<uint64_t>},
    {"shf.l.clamp", ternary<uint32_t, uint32_t, uint32_t, Shf<true, false>>},
    {"shf.l.wrap", ternary<uint32_t, uint32_t, uint32_t, Shf<true, true>>},
    {"shf.r.clamp", ternary<uint32_t, uint32_t, uint32_t, Shf<false, false>>},
    {"shf.r.wrap", ternary<uint32_t, uint32_t, uint32_t, Shf<false, true>>},
    {"carry", carry},
    {"mul24.lo.u32", binary<uint32_t, uint32_t, uint32_t, Mul24<false, false>>},
    {"mul24.hi.u32", binary<uint32_t, uint32_t, uint32_t, Mul24<false, true>>},
    {"mul24.lo.s32", binary<uint32_t, uint32_t, uint32_t, Mul24<true, false>>},
    {"mul24.hi.s32", binary<uint32_t, uint32_t, uint32_t, Mul24<true, true>>},
    {"sad.s16", ternary<int16_t, int16_t, int16_t, Sad<int16_t>>},
    {"sad.u16", ternary<uint16_t, uint16_t, uint16_t, Sad<uint16_t>>},
    {"sad.s32", ternary<int32_t, int32_t, int32_t, Sad<int32_t>>},
    {"sad.u32", ternary<uint32_t, uint32_t, uint32_t, Sad<uint32_t>>},
    {"sad.s64", ternary<int64_t, int64_t, int64_t, Sad<int64_t>>},
    {"sad.u64", ternary<uint64_t, uint64_t, uint64_t, Sad<uint64_t>>},
    {"add.sat.s32", binary<int32_t, int32_t, int32_t, AddSat>},
    {"sub.sat.s32", binary<int32_t, int32_t, int32_t, SubSat>},
    {"popc.b64", unary<uint32_t, uint64_t, Popc64>},
    {"clz.b64", unary<uint32_t, uint64_t, Clz64>},
    {"brev.b64", unary<uint64_t, uint64_t, Brev64>},
    {"bfind.s32", unary<uint32_t, int32_t, Bfind<int32_t, false>>},
    {"bfind.u32", unary<uint32_t, uint32_t, Bfind<uint32_t, false>>},
    {"bfind.s64", unary<uint32_t, int64_t, Bfind<int64_t, false>>},
    {"bfind.u64", unary<uint32_t, uint64_t, Bfind<uint64_t, false>>},
    {"bfind.shiftamt.s32", unary<uint32_t, int32_t, Bfind<int32_t, true>>},
    {"bfind.shiftamt.u32", unary<uint32_t, uint32_t, Bfind<uint32_t, true>>},
    {"bfind.shiftamt.s64", unary<uint32_t, int64_t, Bfind<int64_t, true>>},
    {"bfind.shiftamt.u64", unary<uint32_t, uint64_t, Bfind<uint64_t, true>>},
    {"prmt.mode", prmt_mode},
    {"dp", dot},
    {"fns", fns},
    {"szext.clamp.s32", pair16<Szext<true, true>>()},
    {"szext.clamp.u32", pair16<Szext<true, false>>()},
    {"szext.wrap.s32", pair16<Szext<false, true>>()},
    {"szext.wrap.u32", pair16<Szext<false, false>>()},
    {"bmsk.clamp.b32", pair16<Bmsk<true>>()},
    {"bmsk.wrap.b32", pair16<Bmsk<false>>()},
    {"cnot.b16", unary<uint16_t, uint16_t, Cnot<uint16_t>>},
    {"cnot.b32", unary<uint32_t, uint32_t, Cnot<uint32_t>>},
    {"cnot.b64", unary<uint64_t, uint64_t, Cnot<uint64_t>>},
    {"add.16x2", pair16<Two<Add16>>()},
    {"min.s16x2", pair16<Two<Extreme<int16_t, false, false>>>()},
    {"max.s16x2", pair16<Two<Extreme<int16_t, true, false>>>()},
    {"min.u16x2", pair16<Two<Extreme<uint16_t, false, false>>>()},
    {"max.u16x2", pair16<Two<Extreme<uint16_t, true, false>>>()},
    {"min.relu.s16x2", pair16<Two<Extreme<int16_t, false, true>>>()},
    {"max.relu.s16x2", pair16<Two<Extreme<int16_t, true, true>>>()},
    {"min.relu.s32", pair16<Extreme<int32_t, false, true>>()},
    {"max.relu.s32", pair16<Extreme<int32_t, true, true>>()},
});

}  // namespace
}  // namespace tileproof
