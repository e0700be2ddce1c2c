"""Integer and floating-point arithmetic, comparison, conversion and moves (PTX ISA 9.7.1 to 9.7.9)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE, TYPE_BYTES
from tileproof.emulator.ptx import Immediate, Instruction, Name, Operand, Pair, Sink, Vector
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

slots("alu", operands="dst a b c d", writes="dst")  # every handler that declares none of its own
slots("setp", operands="dst a b inverse other", modifiers="combine negated", writes="dst inverse")
slots("mov.pack", operands="dst", modifiers="part whole", writes="dst")  # parts in vec
slots("mov.unpack", operands="dst a", modifiers="part whole", fills=True)

_INT16 = {"s16", "u16", "b16"}
_INTEGERS = {"s16", "u16", "s32", "u32", "s64", "u64"}
_BITS = {"b16", "b32", "b64"}


def _type(m: Modifiers, allowed: set[str]) -> str:
    types = m.types()
    if len(types) != 1 or types[0] not in allowed:
        raise Unknown(f"does not support the type .{'.'.join(types)}")
    return types[0]


def _emit3(d: Decoder, i: Instruction, handler: str, type_: str, *, last: str | None = None) -> None:
    """`op d, a, b`, all of one type (`last`: another type for b)."""
    dst, a, b = i.operands
    d.emit(handler, dst=d.dst(dst, type_), a=d.src(a, type_), b=d.src(b, last or type_))


@instruction("and", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.1")
@instruction("or", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.2")
@instruction("xor", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.3")
def bitwise(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    type_ = _type(m, _BITS | {"pred"})
    if type_ == "pred":
        dst, a, b = i.operands
        d.emit(f"{base}.pred", dst=d.dst(dst, "pred"), a=d.dst(a, "pred"), b=d.dst(b, "pred"))
    else:
        _emit3(d, i, f"{base}.{8 * TYPE_BYTES[type_]}", type_)


@instruction("not", group="logic", forms=".b{16,32,64}; .pred", section="9.7.8.4")
def not_(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, _BITS | {"pred"})
    dst, a = i.operands
    if type_ == "pred":
        d.emit("not.pred", dst=d.dst(dst, "pred"), a=d.dst(a, "pred"))
    else:
        d.emit(f"not.{8 * TYPE_BYTES[type_]}", dst=d.dst(dst, type_), a=d.src(a, type_))


@instruction("shl", group="logic", forms=".b{16,32,64}", section="9.7.8.8", note="amounts clamp at the width")
@instruction(
    "shr", group="logic", forms=".{b,s,u}{16,32,64}", section="9.7.8.9", note="amounts clamp at the width"
)
def shift(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    type_ = _type(m, _BITS | _INTEGERS)
    kind = str(8 * TYPE_BYTES[type_]) if base == "shl" else ("s" if type_[0] == "s" else "u") + type_[1:]
    _emit3(d, i, f"{base}.{kind}", type_, last="u32")


@instruction("lop3", group="logic", forms=".b32", section="9.7.8.6")
def lop3(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, {"b32"})
    dst, a, b, c, table = i.operands
    if not isinstance(table, Immediate):
        raise Unknown("needs an immediate table")
    d.emit(
        "lop3.b32",
        dst=d.dst(dst, type_),
        a=d.src(a, type_),
        b=d.src(b, type_),
        c=d.src(c, type_),
        imm=table.value,
    )


_COMPARE_INT = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"}
_FLOATS = {"f32", "f64", "f16", "bf16", "f16x2", "bf16x2"}
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
_ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


_INT_CMP, _FLOAT_CMP = ".{eq,ne,lt,le,gt,ge}", ".{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
_COMBINE = "[{.and,.or,.xor}]"
_SETP_FORMS = (
    f"{_INT_CMP}{_COMBINE}.{{s,u}}{{16,32,64}}; .{{lo,ls,hi,hs}}{_COMBINE}.u{{16,32,64}}; "
    f".{{eq,ne}}{_COMBINE}.b{{16,32,64}}; {_FLOAT_CMP}{_COMBINE}[.ftz].f32; {_FLOAT_CMP}{_COMBINE}.f64; "
    f"{_FLOAT_CMP}{_COMBINE}[.ftz].{{f16,f16x2}} @sm_53; "
    f"{_FLOAT_CMP}{_COMBINE}.{{bf16,bf16x2}} @sm_90 @ptx7.8"
)


@instruction(
    "setp",
    group="comparison and selection",
    forms=_SETP_FORMS,
    section="9.7.6.2, 9.7.7.2",
    note="also p|q and a combined predicate",
)
def setp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    compare = m.remaining.pop(0)
    combine = m.take("and", "or", "xor")
    ftz = "ftz." if m.take("ftz") else ""
    type_ = _type(m, {"f32", "f16", "f16x2"} if ftz else _BITS | _INTEGERS | _FLOATS)
    if compare not in (_COMPARE_F32 if type_ in _FLOATS else _COMPARE_INT):
        raise Unknown(f"does not support the comparison .{compare}")
    if type_[0] == "b" and type_ in _BITS and compare not in ("eq", "ne"):
        raise Unknown(f"does not support the comparison .{compare} of bits")
    first, a, b, *rest = i.operands
    p, q = (first.first, first.second) if isinstance(first, Pair) else (first, None)
    other, negated = d.predicate(rest[0]) if combine else (NONE, 0)
    if len(rest) != bool(combine):
        raise ValueError("a combined predicate is missing or surplus")
    first_slot = d.temporary(0) if isinstance(p, Sink) else d.dst(p, "pred")
    second_slot = NONE if q is None or isinstance(q, Sink) else d.dst(q, "pred")
    code = {None: 0, "and": 1, "or": 2, "xor": 3}[combine]
    _compare(d, compare, ftz, type_, (a, b), (first_slot, second_slot), (other, code, negated))


def _compare(
    d: Decoder,
    compare: str,
    ftz: str,
    type_: str,
    operands: tuple[Operand, Operand],
    slots_: tuple[int, int],
    combined: tuple[int, int, int],
) -> None:
    """The predicates `slots_` of a comparison; `combined`: another, how it joins, whether negated."""
    a, b = operands
    first_slot, second_slot = slots_
    other, code, negated = combined
    if type_ in _FLOATS - {"f32", "f64"}:
        # Widened without error and compared as f32; the halves of a pair are p and q (PTX ISA 9.7.7.2).
        packed = type_.endswith("x2")
        carrier, narrow = "b32" if packed else "b16", type_.removesuffix("x2")
        sources = d.dst(a, carrier), d.dst(b, carrier)
        for half in range(2 if packed else 1):
            wide = [_widened(d, slot, narrow, half if packed else None, ftz) for slot in sources]
            to = first_slot if half == 0 else second_slot
            if to != NONE:
                # With both halves the second must not see a predicate that the first has overwritten.
                joined = other
                if packed and code and half == 0 and other == first_slot and second_slot != NONE:
                    other = d.temporary(0)
                    d.emit("mov.pred", dst=other, a=joined)
                    joined = first_slot
                no_second = NONE if packed else second_slot
                d.emit(
                    f"setp.{compare}.f32",
                    dst=to,
                    a=wide[0],
                    b=wide[1],
                    inverse=no_second,
                    other=joined,
                    combine=code,
                    negated=negated,
                )
        return
    kind = (
        type_
        if type_ in _FLOATS
        else ("u" if type_[0] == "b" or compare in _UNSIGNED else type_[0]) + type_[1:]
    )
    d.emit(
        f"setp.{_UNSIGNED.get(compare, compare)}.{ftz}{kind}",
        dst=first_slot,
        a=d.src(a, type_),
        b=d.src(b, type_),
        inverse=second_slot,
        other=other,
        combine=code,
        negated=negated,
    )


def _widened(d: Decoder, slot: int, narrow: str, half: int | None, ftz: str) -> int:
    """A slot that holds an f16 or bf16, one half of a pair when asked, as f32; "
    "subnormals flushed with .ftz."""
    if half is not None:
        parts = [d.temporary(2), NONE] if half == 0 else [NONE, d.temporary(2)]
        d.emit("mov.unpack", a=slot, part=2, whole=4, vec=parts)
        slot = parts[half]
    if ftz:
        flushed = d.temporary(2)
        d.emit("half.flush", dst=flushed, a=slot)
        slot = flushed
    wide = d.temporary(4)
    d.emit(f"cvt.f32.{narrow}", dst=wide, a=slot)
    return wide


def _set_forms() -> str:
    forms = []
    for to in ("{u32,s32,f32}", "f16", "bf16"):
        since = {"f16": " @sm_53", "bf16": " @sm_90 @ptx7.8"}.get(to, "")
        forms += [
            f"{_INT_CMP}{_COMBINE}.{to}.{{s,u}}{{16,32,64}}{since}",
            f".{{lo,ls,hi,hs}}{_COMBINE}.{to}.u{{16,32,64}}{since}",
            f".{{eq,ne}}{_COMBINE}.{to}.b{{16,32,64}}{since}",
            f"{_FLOAT_CMP}{_COMBINE}{'' if to == 'bf16' else '[.ftz]'}.{to}.f32{since}",
            f"{_FLOAT_CMP}{_COMBINE}.{to}.f64{since}",
        ]
    return "; ".join(
        (
            *forms,
            f"{_FLOAT_CMP}{_COMBINE}[.ftz].{{u16,s16,u32,s32,f16}}.f16 @sm_53",
            f"{_FLOAT_CMP}{_COMBINE}[.ftz].{{f16x2,u32,s32}}.f16x2 @sm_53",
            f"{_FLOAT_CMP}{_COMBINE}.{{u16,s16,u32,s32,bf16}}.bf16 @sm_90 @ptx7.8",
            f"{_FLOAT_CMP}{_COMBINE}.{{bf16x2,u32,s32}}.bf16x2 @sm_90 @ptx7.8",
        )
    )


@instruction(
    "set",
    group="comparison and selection",
    forms=_set_forms(),
    section="9.7.6.1, 9.7.7.1",
    note="all bits or 1.0 where the comparison holds",
)
def set_(d: Decoder, i: Instruction, m: Modifiers) -> None:
    compare = m.remaining.pop(0)
    combine = m.take("and", "or", "xor")
    ftz = "ftz." if m.take("ftz") else ""
    to, type_ = m.types()
    dst, a, b, *rest = i.operands
    other, negated = d.predicate(rest[0]) if combine else (NONE, 0)
    code = {None: 0, "and": 1, "or": 2, "xor": 3}[combine]
    packed = type_.endswith("x2")
    holds = [d.temporary(0), d.temporary(0) if packed else NONE]
    _compare(d, compare, ftz, type_, (a, b), (holds[0], holds[1]), (other, code, negated))
    size = 2 if packed else (TYPE_BYTES.get(to, 2))
    yes, no = d.constant(_ONES.get(to.removesuffix("x2"), (1 << 8 * size) - 1), size), d.constant(0, size)
    carrier = f"b{16 * len(holds) if packed else 8 * size}"
    if not packed:
        d.emit(f"selp.{8 * size}", dst=d.dst(dst, carrier), a=yes, b=no, c=holds[0])
        return
    parts = [d.temporary(2), d.temporary(2)]
    for part, predicate in zip(parts, holds, strict=True):
        d.emit("selp.16", dst=part, a=yes, b=no, c=predicate)
    d.emit("mov.pack", dst=d.dst(dst, carrier), part=2, whole=4, vec=parts)


@instruction(
    "selp", group="comparison and selection", forms=".{b,s,u}{16,32,64}; .f{32,64}", section="9.7.6.3"
)
def selp(d: Decoder, i: Instruction, m: Modifiers) -> None:
    type_ = _type(m, _BITS | _INTEGERS | {"f32", "f64"})
    dst, a, b, p = i.operands
    d.emit(
        f"selp.{8 * TYPE_BYTES[type_]}",
        dst=d.dst(dst, type_),
        a=d.src(a, type_),
        b=d.src(b, type_),
        c=d.dst(p, "pred"),
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
            d.emit("setp.ne.u32", dst=d.dst(dst, "pred"), a=bits, b=zero)
            return
        d.emit("mov.pred", dst=d.dst(dst, "pred"), a=d.dst(a, "pred"))
        return
    whole = TYPE_BYTES[type_]
    for side in (dst, a):
        if isinstance(side, Vector) and (len(side.parts) not in (2, 4) or whole < len(side.parts)):
            raise Unknown(f"a vector of {len(side.parts)} parts")
    if isinstance(a, Vector):
        part = whole // len(a.parts)
        parts = [d.src(p, f"b{8 * part}") for p in a.parts]
        d.emit("mov.pack", dst=d.dst(dst, type_), part=part, whole=whole, vec=parts)
    elif isinstance(dst, Vector):
        part = whole // len(dst.parts)
        parts = [NONE if isinstance(p, Sink) else d.dst(p, f"b{8 * part}") for p in dst.parts]
        d.emit("mov.unpack", a=d.src(a, type_), part=part, whole=whole, vec=parts)
    elif isinstance(a, Name) and a.offset:
        d.emit(f"mov.{8 * whole}", dst=d.dst(dst, type_), a=d.address_value(a, whole))
    else:
        d.emit(f"mov.{8 * whole}", dst=d.dst(dst, type_), a=d.src(a, type_))
