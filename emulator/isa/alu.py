"""Integer and floating-point arithmetic, comparison, conversion and moves (PTX ISA 9.7.1 to 9.7.9)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE, TYPE_BYTES
from tileproof.emulator.ptx import Immediate, Instruction, Name, Pair, Sink, Vector
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

slots("alu", operands="dst a b c d")  # every handler that declares none of its own

_INT16 = {"s16", "u16", "b16"}
_INTEGERS = {"s16", "u16", "s32", "u32", "s64", "u64"}
_BITS = {"b16", "b32", "b64"}


def _type(m: Modifiers, allowed: set[str]) -> str:
    types = m.types()
    if len(types) != 1 or types[0] not in allowed:
        raise Unknown(f"does not know the type .{'.'.join(types)}")
    return types[0]


def _emit3(d: Decoder, i: Instruction, handler: str, type_: str, *, last: str | None = None) -> None:
    """`op d, a, b`, all of one type (`last`: another type for b)."""
    dst, a, b = i.operands
    d.emit(handler, [d.dst(dst, type_), d.src(a, type_), d.src(b, last or type_)])


@instruction(
    "add",
    group="integer and f32 arithmetic",
    forms=".{s,u}{16,32,64}; [.rn][.ftz].f32; [.rn][.ftz].f32x2 @sm_100 @ptx8.6",
    section="9.7.1.1, 9.7.3.3",
    note="f32: round to nearest even",
)
@instruction(
    "sub",
    group="integer and f32 arithmetic",
    forms=".{s,u}{16,32,64}; [.rn][.ftz].f32; [.rn][.ftz].f32x2 @sm_100 @ptx8.6",
    section="9.7.1.2, 9.7.3.4",
)
def add_sub(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    rounding = m.take("rn")
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, {"f32", "f32x2"} if rounding or ftz else _INTEGERS | {"f32", "f32x2"})
    if type_ in ("f32", "f32x2"):
        _emit3(d, i, f"{base}.{ftz}{type_}", type_)
    else:
        _emit3(d, i, f"{base}.{8 * TYPE_BYTES[type_]}", type_)


@instruction(
    "mul",
    group="integer and f32 arithmetic",
    forms=".{lo,hi}.{s,u}{16,32,64}; .wide.{s,u}{16,32}; [.rn][.ftz].f32; [.rn][.ftz].f32x2 @sm_100 @ptx8.6",
    section="9.7.1.3, 9.7.3.5",
)
def mul(d: Decoder, i: Instruction, m: Modifiers) -> None:
    part = m.take("lo", "hi", "wide")
    if part is None:
        m.drop("rn")
        ftz = "ftz." if m.take("ftz") else ""
        type_ = _type(m, {"f32", "f32x2"})  # integers need .lo, .hi or .wide
    else:
        type_ = _type(m, _INTEGERS - {"s64", "u64"} if part == "wide" else _INTEGERS)
    if part is None:
        _emit3(d, i, f"mul.{ftz}{type_}", type_)
    elif part == "lo":
        _emit3(d, i, f"mul.lo.{8 * TYPE_BYTES[type_]}", type_)
    elif part == "hi":
        _emit3(d, i, f"mul.hi.{type_}", type_)
    else:
        wide = type_[0] + str(16 * TYPE_BYTES[type_])
        dst, a, b = i.operands
        d.emit(f"mul.wide.{type_}", [d.dst(dst, wide), d.src(a, type_), d.src(b, type_)])


@instruction(
    "mad",
    group="integer and f32 arithmetic",
    forms=".lo.{s,u}{16,32,64}; .wide.{s,u}{16,32}",
    section="9.7.1.4",
)
def mad(d: Decoder, i: Instruction, m: Modifiers) -> None:
    part = m.need("lo", "wide")
    type_ = _type(m, _INTEGERS - {"s64", "u64"} if part == "wide" else _INTEGERS)
    dst, a, b, c = i.operands
    if part == "lo":
        d.emit(
            f"mad.lo.{8 * TYPE_BYTES[type_]}",
            [d.dst(dst, type_), d.src(a, type_), d.src(b, type_), d.src(c, type_)],
        )
    else:
        wide = type_[0] + str(16 * TYPE_BYTES[type_])
        d.emit(f"mad.wide.{type_}", [d.dst(dst, wide), d.src(a, type_), d.src(b, type_), d.src(c, wide)])


@instruction(
    "fma",
    group="integer and f32 arithmetic",
    forms=".rn[.ftz].f32; .rn[.ftz].f32x2 @sm_100 @ptx8.6",
    section="9.7.3.6",
    note="one rounding",
)
def fma(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("rn")
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, {"f32", "f32x2"})
    dst, a, b, c = i.operands
    d.emit(f"fma.{ftz}{type_}", [d.dst(dst, type_), d.src(a, type_), d.src(b, type_), d.src(c, type_)])


@instruction(
    "div",
    group="integer and f32 arithmetic",
    forms=".{s,u}{16,32,64}; .{rn,full,approx}[.ftz].f32",
    section="9.7.1.7, 9.7.3.8",
    note="the approximate forms are computed correctly rounded, inside their documented error",
)
@instruction("rem", group="integer and f32 arithmetic", forms=".{s,u}{16,32,64}", section="9.7.1.8")
def div_rem(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    rounding = m.take("rn", "full", "approx") if base == "div" else None
    ftz = "ftz." if rounding and m.take("ftz") else ""
    type_ = _type(m, {"f32"} if rounding else _INTEGERS)
    _emit3(d, i, f"{base}.{ftz}{type_}", type_)


@instruction(
    "min",
    group="integer and f32 arithmetic",
    forms=".{s,u}{16,32,64}; [.ftz].f32; [.ftz].NaN.f32 @sm_80 @ptx7.0",
    section="9.7.1.11, 9.7.3.11",
)
@instruction(
    "max",
    group="integer and f32 arithmetic",
    forms=".{s,u}{16,32,64}; [.ftz].f32; [.ftz].NaN.f32 @sm_80 @ptx7.0",
    section="9.7.1.12, 9.7.3.12",
)
def min_max(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    ftz = "ftz." if m.take("ftz") else ""
    nan = "NaN." if m.take("NaN") else ""
    type_ = _type(m, _INTEGERS | {"f32"})
    _emit3(d, i, f"{base}.{ftz}{nan}{type_}", type_)


@instruction(
    "neg", group="integer and f32 arithmetic", forms=".s{16,32,64}; [.ftz].f32", section="9.7.1.9, 9.7.3.10"
)
@instruction(
    "abs", group="integer and f32 arithmetic", forms=".s{16,32,64}; [.ftz].f32", section="9.7.1.10, 9.7.3.9"
)
def neg_abs(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, {"s16", "s32", "s64", "f32"})
    dst, a = i.operands
    name = (
        f"{base}.{ftz}f32"
        if type_ == "f32"
        else f"neg.{8 * TYPE_BYTES[type_]}"
        if base == "neg"
        else f"abs.{type_}"
    )
    d.emit(name, [d.dst(dst, type_), d.src(a, type_)])


@instruction(
    "ex2",
    group="integer and f32 arithmetic",
    forms=".approx[.ftz].f32",
    section="9.7.3.21",
    note="computed in float64 and rounded once: inside the documented 2 ulp, not the hardware's bits",
)
@instruction(
    "lg2", group="integer and f32 arithmetic", forms=".approx[.ftz].f32", section="9.7.3.20", note="as ex2"
)
@instruction(
    "rsqrt", group="integer and f32 arithmetic", forms=".approx[.ftz].f32", section="9.7.3.16", note="as ex2"
)
@instruction(
    "sqrt",
    group="integer and f32 arithmetic",
    forms=".{rn,approx}[.ftz].f32",
    section="9.7.3.14",
    note="as ex2",
)
@instruction(
    "rcp",
    group="integer and f32 arithmetic",
    forms=".{rn,approx}[.ftz].f32",
    section="9.7.3.13",
    note="as ex2",
)
def unary_f32(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    m.need("approx", "rn") if base in ("sqrt", "rcp") else m.need("approx")
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, {"f32"})
    dst, a = i.operands
    d.emit(f"{base}.{ftz}f32", [d.dst(dst, type_), d.src(a, type_)])


@instruction("and", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.1")
@instruction("or", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.2")
@instruction("xor", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.3")
def bitwise(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    type_ = _type(m, _BITS | {"pred"})
    if type_ == "pred":
        dst, a, b = i.operands
        d.emit(f"{base}.pred", [d.dst(dst, "pred"), d.dst(a, "pred"), d.dst(b, "pred")])
    else:
        _emit3(d, i, f"{base}.{8 * TYPE_BYTES[type_]}", type_)


@instruction("not", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.4")
def not_(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, _BITS | {"pred"})
    dst, a = i.operands
    if type_ == "pred":
        d.emit("not.pred", [d.dst(dst, "pred"), d.dst(a, "pred")])
    else:
        d.emit(f"not.{8 * TYPE_BYTES[type_]}", [d.dst(dst, type_), d.src(a, type_)])


@instruction("shl", group="logic", forms=".b{16,32,64}", section="9.7.8.8", note="amounts clamp at the width")
@instruction(
    "shr", group="logic", forms=".{b,s,u}{16,32,64}", section="9.7.8.9", note="amounts clamp at the width"
)
def shift(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    type_ = _type(m, _BITS | _INTEGERS)
    kind = str(8 * TYPE_BYTES[type_]) if base == "shl" else ("s" if type_[0] == "s" else "u") + type_[1:]
    _emit3(d, i, f"{base}.{kind}", type_, last="u32")


@instruction("popc", group="logic", forms=".b32", section="9.7.1.16")
@instruction("clz", group="logic", forms=".b32", section="9.7.1.17")
@instruction("brev", group="logic", forms=".b32", section="9.7.1.20")
def count_bits(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    type_ = _type(m, {"b32"})
    dst, a = i.operands
    d.emit(f"{base}.b32", [d.dst(dst, type_), d.src(a, type_)])


@instruction("lop3", group="logic", forms=".b32", section="9.7.8.6")
def lop3(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, {"b32"})
    dst, a, b, c, table = i.operands
    if not isinstance(table, Immediate):
        raise Unknown("needs an immediate table")
    d.emit(
        "lop3.b32", [d.dst(dst, type_), d.src(a, type_), d.src(b, type_), d.src(c, type_)], imm=table.value
    )


@instruction("prmt", group="logic", forms=".b32", section="9.7.9.7")
def prmt(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, {"b32"})
    dst, a, b, c = i.operands
    d.emit("prmt.b32", [d.dst(dst, type_), d.src(a, type_), d.src(b, type_), d.src(c, type_)])


_COMPARE_INT = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"}
_COMPARE_F32 = _COMPARE_INT - {"lo", "ls", "hi", "hs"} | {
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@instruction(
    "setp",
    group="comparison and selection",
    forms=".{eq,ne}[.{and,or,xor}].{b,s,u}{16,32,64}; .{lt,le,gt,ge}[.{and,or,xor}].{s,u}{16,32,64}; "
    ".{lo,ls,hi,hs}[.{and,or,xor}].u{16,32,64}; "
    ".{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}[.{and,or,xor}][.ftz].f32",
    section="9.7.6.2",
    note="also p|q and a combined predicate",
)
def setp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    compare = m.left.pop(0)
    combine = m.take("and", "or", "xor")
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, _BITS | _INTEGERS | {"f32"})
    if compare not in (_COMPARE_F32 if type_ == "f32" else _COMPARE_INT):
        raise Unknown(f"does not know the comparison .{compare}")
    kind = (
        type_
        if type_ == "f32"
        else ("u" if type_[0] == "b" or compare in _UNSIGNED else type_[0]) + type_[1:]
    )
    first, a, b, *rest = i.operands
    p, q = (first.first, first.second) if isinstance(first, Pair) else (first, None)
    other, negated = d.predicate(rest[0]) if combine else (NONE, 0)
    if len(rest) != bool(combine):
        raise ValueError("a combined predicate is missing or surplus")
    o = [
        d.temporary(0) if isinstance(p, Sink) else d.dst(p, "pred"),
        d.src(a, type_),
        d.src(b, type_),
        NONE if q is None or isinstance(q, Sink) else d.dst(q, "pred"),
        other,
    ]
    code = {None: 0, "and": 1, "or": 2, "xor": 3}[combine]
    d.emit(f"setp.{_UNSIGNED.get(compare, compare)}.{ftz}{kind}", o, m=[code, negated])


@instruction(
    "selp", group="comparison and selection", forms=".{b,s,u}{16,32,64}; .f{32,64}", section="9.7.6.3"
)
def selp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, _BITS | _INTEGERS | {"f32", "f64"})
    dst, a, b, p = i.operands
    d.emit(
        f"selp.{8 * TYPE_BYTES[type_]}",
        [d.dst(dst, type_), d.src(a, type_), d.src(b, type_), d.dst(p, "pred")],
    )


@instruction(
    "mov",
    group="moves and conversions",
    forms=".{b,s,u}{16,32,64}; .f{32,64}; .pred; .b128 @sm_70 @ptx8.3",
    section="9.7.9.1",
    note="also special registers and the addresses of variables",
)
def mov(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, _BITS | _INTEGERS | {"f32", "f64", "b128", "pred"})
    dst, a = i.operands
    if type_ == "pred":
        if isinstance(a, Immediate):  # true unless 0 (nvcc writes 0 and -1): the comparison with 0
            bits, zero = d.src(a, "b32"), d.constant(0, 4)
            d.emit("setp.ne.u32", [d.dst(dst, "pred"), bits, zero, NONE, NONE], m=[0, 0])
            return
        d.emit("mov.pred", [d.dst(dst, "pred"), d.dst(a, "pred")])
        return
    whole = TYPE_BYTES[type_]
    for side in (dst, a):
        if isinstance(side, Vector) and (len(side.parts) not in (2, 4) or whole // len(side.parts) < 2):
            raise Unknown(f"a vector of {len(side.parts)} parts")
    if isinstance(a, Vector):
        part = whole // len(a.parts)
        parts = [d.src(p, f"b{8 * part}") for p in a.parts]
        d.emit("mov.pack", [d.dst(dst, type_)], m=[part, whole], vec=parts)
    elif isinstance(dst, Vector):
        part = whole // len(dst.parts)
        parts = [NONE if isinstance(p, Sink) else d.dst(p, f"b{8 * part}") for p in dst.parts]
        d.emit("mov.unpack", [NONE, d.src(a, type_)], m=[part, whole], vec=parts)
    elif isinstance(a, Name) and a.offset:
        d.emit(f"mov.{8 * whole}", [d.dst(dst, type_), d.address_value(a, whole)])
    else:
        d.emit(f"mov.{8 * whole}", [d.dst(dst, type_), d.src(a, type_)])


_CVT_INT = {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}
_CVT_FLOAT = {
    "cvt.f32.bf16",
    "cvt.f32.f16",
    "cvt.rn.bf16.f32",
    "cvt.rn.f16.f32",
    "cvt.rn.f32.s32",
    "cvt.rn.f32.u32",
    "cvt.rn.f32.s64",
    "cvt.rn.f32.u64",
    "cvt.rn.f32.u16",
    "cvt.rn.f32.s16",
    "cvt.f64.f32",
    "cvt.ftz.f64.f32",
    "cvt.rn.f16.s32",
    "cvt.rzi.s32.f32",
    "cvt.rzi.u32.f32",
    "cvt.rni.s32.f32",
}


@instruction(
    "cvt",
    group="moves and conversions",
    forms=".{s,u}{8,16,32,64}.{s,u}{8,16,32,64}; .f32.f16; .f32.bf16 @sm_80 @ptx7.1; .rn.f16.f32; "
    ".rn.bf16.f32 @sm_80 @ptx7.0; .rn.{bf16,f16}x2.f32 @sm_80 @ptx7.0; .rn.f32.{s,u}{16,32,64}; .rn.f16.s32; "
    "[.ftz].f64.f32; .{rzi,rni}.s32.f32; .rzi.u32.f32",
    section="9.7.9.21",
    note="the first source of an x2 form goes to the upper half",
)
def cvt(d: Decoder, i: Instruction, m: Modifiers) -> None:
    words = list(m.left)
    spelling = "cvt." + ".".join(words)
    if len(words) == 2 and set(words) <= _CVT_INT:
        to, from_ = m.types()
        dst, a = i.operands
        size_to = d.register(dst).bytes
        # A literal source is taken at the width of its type.
        if isinstance(a, Immediate):
            size_from, slot = TYPE_BYTES[from_], d.constant(a.value, TYPE_BYTES[from_])
        else:
            source = d.register(a)
            size_from, slot = source.bytes, source.offset
        if size_to < TYPE_BYTES[to] or size_from < TYPE_BYTES[from_]:
            raise d.bad("a register is narrower than its type")
        d.emit(f"cvt.{to}.{from_}", [d.dst_any(dst), slot], m=[size_to, size_from])
        return
    if spelling in ("cvt.rn.bf16x2.f32", "cvt.rn.f16x2.f32"):
        m.types()
        dst, a, b = i.operands
        d.emit(spelling, [d.dst(dst, "b32"), d.src(a, "f32"), d.src(b, "f32")])
        return
    if spelling not in _CVT_FLOAT:
        raise Unknown(f"does not know the conversion .{'.'.join(words)}")
    *_, to, from_ = m.types()
    dst, a = i.operands
    d.emit(spelling, [d.dst(dst, to), d.src(a, from_)])
