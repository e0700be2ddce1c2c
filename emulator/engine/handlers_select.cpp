// Comparison, selection, moves.
#include "alu.hpp"

namespace tileproof {
namespace {

template <class T>
struct Eq {
  static bool f(T a, T b) { return a == b; }
};
template <class T>
struct Ne {
  static bool f(T a, T b) { return a != b && a == a && b == b; }
};
template <class T>
struct Neu {
  static bool f(T a, T b) { return !(a == b); }
};
template <class T>
struct Lt {
  static bool f(T a, T b) { return a < b; }
};
template <class T>
struct Le {
  static bool f(T a, T b) { return a <= b; }
};
template <class T>
struct Gt {
  static bool f(T a, T b) { return a > b; }
};
template <class T>
struct Ge {
  static bool f(T a, T b) { return a >= b; }
};
template <class T>
struct Equ {
  static bool f(T a, T b) { return !(a < b || a > b); }
};
template <class T>
struct Ltu {
  static bool f(T a, T b) { return !(a >= b); }
};
template <class T>
struct Leu {
  static bool f(T a, T b) { return !(a > b); }
};
template <class T>
struct Gtu {
  static bool f(T a, T b) { return !(a <= b); }
};
template <class T>
struct Geu {
  static bool f(T a, T b) { return !(a < b); }
};
template <class T>
struct Num {
  static bool f(T a, T b) { return a == a && b == b; }
};
template <class T>
struct Nan {
  static bool f(T a, T b) { return a != a || b != b; }
};

// setp: `inverse` is the second destination or none, `other` the predicate combined by `combine` (1 and, 2
// or, 3 xor).
template <class T, class F, bool Z>
Step setp(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[slot::setp::a]);
  const T* b = x.src<T>(i.o[slot::setp::b]);
  uint32_t r = 0;
  auto test = [&](int l) -> uint32_t {
    if constexpr (Z)
      return F::f(ftz(a[l]), ftz(b[l]));
    else
      return F::f(a[l], b[l]);
  };
  if (x.mask == ~0u) {
    for (int l = 0; l < 32; ++l) r |= test(l) << l;
  } else {
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      r |= test(l) << l;
    }
  }
  uint32_t second = ~r;
  if (i.m[slot::setp::combine]) {
    uint32_t c = *x.src<uint32_t>(i.o[slot::setp::other]);
    if (i.m[slot::setp::negated]) c = ~c;
    r = i.m[slot::setp::combine] == 1 ? r & c : i.m[slot::setp::combine] == 2 ? r | c : r ^ c;
    second = i.m[slot::setp::combine] == 1   ? second & c
             : i.m[slot::setp::combine] == 2 ? second | c
                                             : second ^ c;
  }
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::setp::dst]);
  p = (p & ~x.mask) | (r & x.mask);
  if (i.o[slot::setp::inverse] != INT32_MIN) {
    uint32_t& q = *x.dst<uint32_t>(i.o[slot::setp::inverse]);
    q = (q & ~x.mask) | (second & x.mask);
  }
  return Step::Next;
}

template <class T>
Step selp(Exec& x, const Instr& i) {
  const T* a = x.src<T>(i.o[slot::alu::a]);
  const T* b = x.src<T>(i.o[slot::alu::b]);
  const uint32_t p = *x.src<uint32_t>(i.o[slot::alu::c]);
  T* d = x.dst<T>(i.o[slot::alu::dst]);
  lanes(x.mask, [&](int l) { d[l] = (p >> l) & 1 ? a[l] : b[l]; });
  return Step::Next;
}

// ---- moves
template <class T>
struct Same {
  static T f(T a) { return a; }
};
struct Wide128 {
  uint64_t lo, hi;
};

// mov d, {a, b, ...}: `part` and `whole` are bytes; parts in vec.
Step mov_pack(Exec& x, const Instr& i) {
  const int32_t part = i.m[slot::mov_pack::part], whole = i.m[slot::mov_pack::whole];
  uint8_t* d = x.dst<uint8_t>(i.o[slot::mov_pack::dst]);
  for (int32_t k = 0; k < i.nvec; ++k) {
    const uint8_t* a = x.src<uint8_t>(x.e.program.vec[static_cast<size_t>(i.vec + k)]);
    lanes(x.mask,
          [&](int l) { std::memcpy(d + l * whole + k * part, a + l * part, static_cast<size_t>(part)); });
  }
  return Step::Next;
}
// mov {a, b, ...}, s: INT32_MIN marks the sink `_`.
Step mov_unpack(Exec& x, const Instr& i) {
  const int32_t part = i.m[slot::mov_unpack::part], whole = i.m[slot::mov_unpack::whole];
  const uint8_t* a = x.src<uint8_t>(i.o[slot::mov_unpack::a]);
  uint8_t copy[512];
  std::memcpy(copy, a, static_cast<size_t>(whole) * 32);
  for (int32_t k = 0; k < i.nvec; ++k) {
    const int32_t off = x.e.program.vec[static_cast<size_t>(i.vec + k)];
    if (off == INT32_MIN) continue;
    uint8_t* d = x.dst<uint8_t>(off);
    lanes(x.mask,
          [&](int l) { std::memcpy(d + l * part, copy + l * whole + k * part, static_cast<size_t>(part)); });
  }
  return Step::Next;
}

#define TP_SETP_INT(CMP, OP)                                       \
  {"setp." CMP ".s16", setp<int16_t, OP<int16_t>, false>},         \
      {"setp." CMP ".s32", setp<int32_t, OP<int32_t>, false>},     \
      {"setp." CMP ".s64", setp<int64_t, OP<int64_t>, false>},     \
      {"setp." CMP ".u16", setp<uint16_t, OP<uint16_t>, false>},   \
      {"setp." CMP ".u32", setp<uint32_t, OP<uint32_t>, false>}, { \
    "setp." CMP ".u64", setp<uint64_t, OP<uint64_t>, false>        \
  }

#define TP_SETP_F32(CMP, OP)                                    \
  {"setp." CMP ".f32", setp<float, OP<float>, false>},          \
      {"setp." CMP ".ftz.f32", setp<float, OP<float>, true>}, { \
    "setp." CMP ".f64", setp<double, OP<double>, false>         \
  }

const Registrar comparisons({
    TP_SETP_INT("eq", Eq),
    TP_SETP_INT("ne", Ne),
    TP_SETP_INT("lt", Lt),
    TP_SETP_INT("le", Le),
    TP_SETP_INT("gt", Gt),
    TP_SETP_INT("ge", Ge),
    TP_SETP_F32("eq", Eq),
    TP_SETP_F32("ne", Ne),
    TP_SETP_F32("lt", Lt),
    TP_SETP_F32("le", Le),
    TP_SETP_F32("gt", Gt),
    TP_SETP_F32("ge", Ge),
    TP_SETP_F32("neu", Neu),
    TP_SETP_F32("equ", Equ),
    TP_SETP_F32("ltu", Ltu),
    TP_SETP_F32("leu", Leu),
    TP_SETP_F32("gtu", Gtu),
    TP_SETP_F32("geu", Geu),
    TP_SETP_F32("num", Num),
    TP_SETP_F32("nan", Nan),
    {"selp.16", selp<uint16_t>},
    {"selp.32", selp<uint32_t>},
    {"selp.64", selp<uint64_t>},
    {"mov.16", unary<uint16_t, uint16_t, Same<uint16_t>>},
    {"mov.32", unary<uint32_t, uint32_t, Same<uint32_t>>},
    {"mov.64", unary<uint64_t, uint64_t, Same<uint64_t>>},
    {"mov.128", unary<Wide128, Wide128, Same<Wide128>>},
    {"mov.pack", mov_pack},
    {"mov.unpack", mov_unpack},
});

}  // namespace
}  // namespace tileproof
