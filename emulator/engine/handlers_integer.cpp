// Integer arithmetic, logic, predicates.
#include "alu.hpp"

namespace tileproof {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;

template <class T>
struct Add {
  static T f(T a, T b) { return static_cast<T>(U<T>(a) + U<T>(b)); }
};
template <class T>
struct Sub {
  static T f(T a, T b) { return static_cast<T>(U<T>(a) - U<T>(b)); }
};
template <class T>
struct MulLo {
  static T f(T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
template <class T, class W>
struct MulHi {
  static T f(T a, T b) { return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (8 * sizeof(T))); }
};
template <class W, class T>
struct MulWide {
  static W f(T a, T b) { return static_cast<W>(a) * static_cast<W>(b); }
};
template <class T>
struct MadLo {
  static T f(T a, T b, T c) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
  }
};
template <class W, class T>
struct MadWide {
  static W f(T a, T b, W c) {
    return static_cast<W>(static_cast<uint64_t>(static_cast<W>(a)) *
                              static_cast<uint64_t>(static_cast<W>(b)) +
                          static_cast<uint64_t>(c));
  }
};
// Division by zero is unspecified in PTX; hardware yields all ones.
template <class T>
struct Div {
  static T f(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(-U<T>(a));
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Min {
  static T f(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T f(T a, T b) { return a < b ? b : a; }
};
template <class T>
struct Neg {
  static T f(T a) { return static_cast<T>(-U<T>(a)); }
};
template <class T>
struct Abs {
  static T f(T a) { return a < 0 ? static_cast<T>(-U<T>(a)) : a; }
};
template <class T>
struct And {
  static T f(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T f(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T f(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T f(T a) { return static_cast<T>(~a); }
};
// Shift amounts are 32-bit and clamp at the width (PTX ISA 9.7.8).
template <class T>
struct Shl {
  static T f(T a, uint32_t b) { return b >= 8 * sizeof(T) ? T(0) : static_cast<T>(U<T>(a) << b); }
};
template <class T>
struct Shr {
  static T f(T a, uint32_t b) {
    if (b >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> b);
  }
};
struct Popc32 {
  static uint32_t f(uint32_t a) { return static_cast<uint32_t>(__builtin_popcount(a)); }
};
struct Clz32 {
  static uint32_t f(uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32; }
};
struct Brev32 {
  static uint32_t f(uint32_t a) {
    uint32_t r = 0;
    for (int k = 0; k < 32; ++k) r |= ((a >> k) & 1u) << (31 - k);
    return r;
  }
};

// prmt.b32 d, a, b, c in its default mode (PTX ISA 9.7.9.7).
Step prmt(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[slot::alu::a]), *b = x.src<uint32_t>(i.o[slot::alu::b]),
                 *c = x.src<uint32_t>(i.o[slot::alu::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) {
    const uint64_t v = a[l] | static_cast<uint64_t>(b[l]) << 32;
    uint32_t r = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t sel = c[l] >> (4 * k) & 15;
      uint32_t byte = static_cast<uint32_t>(v >> (8 * (sel & 7)) & 255);
      if (sel & 8) byte = byte & 128 ? 255 : 0;
      r |= byte << (8 * k);
    }
    d[l] = r;
  });
  return Step::Next;
}
// lop3.b32 d, a, b, c, immLut (PTX ISA 9.7.8.6); the table is in imm.
Step lop3(Exec& x, const Instr& i) {
  const uint32_t *a = x.src<uint32_t>(i.o[slot::alu::a]), *b = x.src<uint32_t>(i.o[slot::alu::b]),
                 *c = x.src<uint32_t>(i.o[slot::alu::c]);
  uint32_t* d = x.dst<uint32_t>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) {
    uint32_t r = 0;
    for (int k = 0; k < 8; ++k)
      if (i.imm >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
    d[l] = r;
  });
  return Step::Next;
}

template <class F>
Step pred_binary(Exec& x, const Instr& i) {
  const uint32_t r = F::f(*x.src<uint32_t>(i.o[slot::alu::a]), *x.src<uint32_t>(i.o[slot::alu::b]));
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::alu::dst]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}
Step pred_not(Exec& x, const Instr& i) {
  const uint32_t r = ~*x.src<uint32_t>(i.o[slot::alu::a]);
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::alu::dst]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}
Step pred_mov(Exec& x, const Instr& i) {
  const uint32_t r = *x.src<uint32_t>(i.o[slot::alu::a]);
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::alu::dst]);
  p = (p & ~x.mask) | (r & x.mask);
  return Step::Next;
}

#define TP_INT_ALL(NAME, OP)                                              \
  {NAME ".16", binary<uint16_t, uint16_t, uint16_t, OP<uint16_t>>},       \
      {NAME ".32", binary<uint32_t, uint32_t, uint32_t, OP<uint32_t>>}, { \
    NAME ".64", binary<uint64_t, uint64_t, uint64_t, OP<uint64_t>>        \
  }

#define TP_INT_TYPED(NAME, OP)                                             \
  {NAME ".s16", binary<int16_t, int16_t, int16_t, OP<int16_t>>},           \
      {NAME ".s32", binary<int32_t, int32_t, int32_t, OP<int32_t>>},       \
      {NAME ".s64", binary<int64_t, int64_t, int64_t, OP<int64_t>>},       \
      {NAME ".u16", binary<uint16_t, uint16_t, uint16_t, OP<uint16_t>>},   \
      {NAME ".u32", binary<uint32_t, uint32_t, uint32_t, OP<uint32_t>>}, { \
    NAME ".u64", binary<uint64_t, uint64_t, uint64_t, OP<uint64_t>>        \
  }

const Registrar integer({
    TP_INT_ALL("add", Add),
    TP_INT_ALL("sub", Sub),
    TP_INT_ALL("mul.lo", MulLo),
    TP_INT_ALL("and", And),
    TP_INT_ALL("or", Or),
    TP_INT_ALL("xor", Xor),
    TP_INT_TYPED("div", Div),
    TP_INT_TYPED("rem", Rem),
    TP_INT_TYPED("min", Min),
    TP_INT_TYPED("max", Max),
    {"mul.hi.s16", binary<int16_t, int16_t, int16_t, MulHi<int16_t, int32_t>>},
    {"mul.hi.s32", binary<int32_t, int32_t, int32_t, MulHi<int32_t, int64_t>>},
    {"mul.hi.u16", binary<uint16_t, uint16_t, uint16_t, MulHi<uint16_t, uint32_t>>},
    {"mul.hi.u32", binary<uint32_t, uint32_t, uint32_t, MulHi<uint32_t, uint64_t>>},
    {"mul.hi.u64", binary<uint64_t, uint64_t, uint64_t, MulHi<uint64_t, unsigned __int128>>},
    {"mul.hi.s64", binary<int64_t, int64_t, int64_t, MulHi<int64_t, __int128>>},
    {"mul.wide.s16", binary<int32_t, int16_t, int16_t, MulWide<int32_t, int16_t>>},
    {"mul.wide.u16", binary<uint32_t, uint16_t, uint16_t, MulWide<uint32_t, uint16_t>>},
    {"mul.wide.s32", binary<int64_t, int32_t, int32_t, MulWide<int64_t, int32_t>>},
    {"mul.wide.u32", binary<uint64_t, uint32_t, uint32_t, MulWide<uint64_t, uint32_t>>},
    {"mad.lo.16", ternary<uint16_t, uint16_t, uint16_t, MadLo<uint16_t>>},
    {"mad.lo.32", ternary<uint32_t, uint32_t, uint32_t, MadLo<uint32_t>>},
    {"mad.lo.64", ternary<uint64_t, uint64_t, uint64_t, MadLo<uint64_t>>},
    {"mad.wide.u32", ternary<uint64_t, uint32_t, uint64_t, MadWide<uint64_t, uint32_t>>},
    {"mad.wide.s32", ternary<int64_t, int32_t, int64_t, MadWide<int64_t, int32_t>>},
    {"mad.wide.u16", ternary<uint32_t, uint16_t, uint32_t, MadWide<uint32_t, uint16_t>>},
    {"mad.wide.s16", ternary<int32_t, int16_t, int32_t, MadWide<int32_t, int16_t>>},
    {"neg.16", unary<int16_t, int16_t, Neg<int16_t>>},
    {"neg.32", unary<int32_t, int32_t, Neg<int32_t>>},
    {"neg.64", unary<int64_t, int64_t, Neg<int64_t>>},
    {"abs.s32", unary<int32_t, int32_t, Abs<int32_t>>},
    {"abs.s64", unary<int64_t, int64_t, Abs<int64_t>>},
    {"abs.s16", unary<int16_t, int16_t, Abs<int16_t>>},
    {"not.16", unary<uint16_t, uint16_t, Not<uint16_t>>},
    {"not.32", unary<uint32_t, uint32_t, Not<uint32_t>>},
    {"not.64", unary<uint64_t, uint64_t, Not<uint64_t>>},
    {"shl.16", binary<uint16_t, uint16_t, uint32_t, Shl<uint16_t>>},
    {"shl.32", binary<uint32_t, uint32_t, uint32_t, Shl<uint32_t>>},
    {"shl.64", binary<uint64_t, uint64_t, uint32_t, Shl<uint64_t>>},
    {"shr.s16", binary<int16_t, int16_t, uint32_t, Shr<int16_t>>},
    {"shr.s32", binary<int32_t, int32_t, uint32_t, Shr<int32_t>>},
    {"shr.s64", binary<int64_t, int64_t, uint32_t, Shr<int64_t>>},
    {"shr.u16", binary<uint16_t, uint16_t, uint32_t, Shr<uint16_t>>},
    {"shr.u32", binary<uint32_t, uint32_t, uint32_t, Shr<uint32_t>>},
    {"shr.u64", binary<uint64_t, uint64_t, uint32_t, Shr<uint64_t>>},
    {"popc.b32", unary<uint32_t, uint32_t, Popc32>},
    {"clz.b32", unary<uint32_t, uint32_t, Clz32>},
    {"brev.b32", unary<uint32_t, uint32_t, Brev32>},
    {"prmt.b32", prmt},
    {"lop3.b32", lop3},
    {"and.pred", pred_binary<And<uint32_t>>},
    {"or.pred", pred_binary<Or<uint32_t>>},
    {"xor.pred", pred_binary<Xor<uint32_t>>},
    {"not.pred", pred_not},
    {"mov.pred", pred_mov},
});

}  // namespace
}  // namespace tileproof
