"""Integer and floating-point arithmetic (PTX ISA 9.7.1, 9.7.3 to 9.7.6)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.convert import DIRECTED
from tileproof.emulator.program import NONE, TYPE_BYTES
from tileproof.emulator.ptx import Instruction, Operand
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# `limit` 1 .sat, 2 .relu; `nan` 1 .NaN, 2 .xorsign.abs.
slots("half", operands="dst a b c", modifiers="operation brain packed ftz limit nan", writes="dst")

_INTEGERS = {"s16", "u16", "s32", "u32", "s64", "u64"}
HALVES = {"f16", "f16x2", "bf16", "bf16x2"}
_HALF_OPERATIONS = enumeration("HalfOperation", "add sub mul fma neg abs min max ex2 tanh")
# Registers of the half types: a packed pair fills 32 bits.
_CARRIER = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_ROUND = "[{.rn,.rz,.rm,.rp}]"
NEED_ROUND = "{.rn,.rz,.rm,.rp}"


def only_type(m: Modifiers, allowed: set[str]) -> str:
    types = m.types()
    if len(types) != 1 or types[0] not in allowed:
        raise Unknown(f"does not support the type .{'.'.join(types)}")
    return types[0]


def _refuse(given: dict[str, object], *allowed: str) -> None:
    """The type must allow every modifier that was read."""
    for name, value in given.items():
        if value and name not in allowed:
            raise Unknown(f"does not support the modifier .{value} of this type")


def emit(d: Decoder, handler: str, dst: Operand, sources: tuple[Operand, ...], *types: str) -> None:
    """`types`: of the destination and the sources; the last stands for all that follow."""
    each = types + (types[-1],) * (1 + len(sources) - len(types))
    to = d.dst(dst, each[0])
    a, b, c = _three([d.src(s, t) for s, t in zip(sources, each[1:], strict=True)])
    d.emit(handler, dst=to, a=a, b=b, c=c)


def _three(sources: list[int]) -> list[int]:
    return sources + [NONE] * (3 - len(sources))


def half(
    d: Decoder, base: str, type_: str, operands: tuple[Operand, ...], *, ftz: object = None,
    limit: str | None = None, nan: object = None, xorsign: object = None,
) -> None:  # fmt: skip
    carrier = _CARRIER[type_]
    dst, *sources = operands
    a, b, c = _three([d.dst(source, carrier) for source in sources])
    d.emit(
        "half",
        dst=d.dst(dst, carrier),
        a=a,
        b=b,
        c=c,
        operation=_HALF_OPERATIONS.index(base),
        brain=int(type_.startswith("b")),
        packed=int(type_.endswith("x2")),
        ftz=int(bool(ftz)),
        limit={None: 0, "sat": 1, "relu": 2}[limit],
        nan=int(bool(nan)) + 2 * int(bool(xorsign)),
    )


def _float(
    d: Decoder, base: str, m: Modifiers, operands: tuple[Operand, ...], *, needs_rounding: bool = False
) -> None:
    """add, sub, mul and fma of every floating-point type."""
    rounding = m.take(*DIRECTED)
    ftz, oob = m.take("ftz"), m.take("oob")
    limit = m.take("sat", "relu")
    types = m.types()
    given: dict[str, object] = {"rounding": rounding, "ftz": ftz, "sat" if limit == "sat" else "relu": limit}
    if needs_rounding and not rounding:
        raise Unknown("needs one of .rn, .rz, .rm, .rp")
    if oob:
        raise Unknown("does not support .oob: the NaN for out of bounds is not published")
    if len(types) == 2 and types[0] == "f32" and types[1] in ("f16", "bf16") and base != "mul":
        _refuse(given, "rounding", "sat")
        _mixed(d, base, types[1], operands, rounding, limit)
        return
    if len(types) != 1 or types[0] not in {"f32", "f64", "f32x2"} | HALVES:
        raise Unknown(f"does not support the type .{'.'.join(types)}")
    type_ = types[0]
    dst, *sources = operands
    if type_ in HALVES:
        if type_.startswith("b"):
            # Only fma of bf16 has .relu. ptxas assembles its other roundings wrongly (docs/findings.md).
            _refuse(given, "rounding", *(["relu"] if base == "fma" else []))
        else:
            _refuse(given, "rounding", "ftz", "sat", *(["relu"] if base == "fma" else []))
        if rounding not in (None, "rn"):
            raise Unknown(f"does not support the modifier .{rounding} of this type")
        half(d, base, type_, operands, ftz=ftz, limit=limit)
        return
    _refuse(
        given, *{"f32": ("rounding", "ftz", "sat"), "f64": ("rounding",), "f32x2": ("rounding", "ftz")}[type_]
    )
    words = [base, None if rounding in (None, "rn") else rounding, ftz, limit, type_]
    emit(d, ".".join(w for w in words if w), dst, tuple(sources), type_)


def _mixed(
    d: Decoder, base: str, type_: str, operands: tuple[Operand, ...], rounding: str | None, limit: str | None
) -> None:
    """f32 arithmetic with f16 or bf16 sources: widened without error, then one rounding (9.7.5)."""
    dst, *sources = operands
    given: list[int] = []
    for source in sources[:-1]:
        wide = d.temporary(4)
        d.emit(f"cvt.f32.{type_}", dst=wide, a=d.src(source, "b16"))
        given.append(wide)
    words = [base, None if rounding in (None, "rn") else rounding, limit, "f32"]
    to = d.dst(dst, "f32")
    a, b, c = _three([*given, d.src(sources[-1], "f32")])
    d.emit(".".join(w for w in words if w), dst=to, a=a, b=b, c=c)


_ADD_FORMS = (
    f".{{s,u}}{{16,32,64}}; .{{s16x2,u16x2}} @sm_90 @ptx8.0; .sat.s32; {_ROUND}[.ftz][.sat].f32; "
    f"{_ROUND}[.ftz].f32x2 @sm_100 @ptx8.6; {_ROUND}.f64; [.rn][.ftz][.sat].{{f16,f16x2}} @sm_53; "
    f"[.rn].{{bf16,bf16x2}} @sm_90 @ptx7.8; "
    f"{_ROUND}[.sat].f32.{{f16,bf16}} @sm_100 @ptx8.6"
)


@instruction(
    "add",
    group="arithmetic",
    forms=_ADD_FORMS,
    section="9.7.1.1, 9.7.3.3, 9.7.4.1, 9.7.5.1",
    note=".sat of f32 and f16 gives +0 for NaN and -0",
)
@instruction(
    "sub",
    group="arithmetic",
    forms=_ADD_FORMS.replace(".{s16x2,u16x2} @sm_90 @ptx8.0; ", ""),
    section="9.7.1.2, 9.7.3.4, 9.7.4.2, 9.7.5.2",
)
def add_sub(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    dst, *sources = i.operands
    if m.remaining[-1:] and m.remaining[-1] in _INTEGERS:
        saturates = m.take("sat")
        type_ = only_type(m, {"s32"} if saturates else _INTEGERS)
        name = f"{base}.sat.s32" if saturates else f"{base}.{8 * TYPE_BYTES[type_]}"
        emit(d, name, dst, _count(sources, 2), type_)
    elif base == "add" and m.remaining in (["s16x2"], ["u16x2"]):
        m.types()
        emit(d, "add.16x2", dst, _count(sources, 2), "b32")
    else:
        _float(d, base, m, (dst, *_count(sources, 2)))


def _count(sources: list[Operand] | tuple[Operand, ...], count: int) -> tuple[Operand, ...]:
    if len(sources) != count:
        raise ValueError(f"{count} sources are needed")
    return tuple(sources)


@instruction(
    "mul",
    group="arithmetic",
    forms=f".{{lo,hi}}.{{s,u}}{{16,32,64}}; .wide.{{s,u}}{{16,32}}; {_ROUND}[.ftz][.sat].f32; "
    f"{_ROUND}[.ftz].f32x2 @sm_100 @ptx8.6; {_ROUND}.f64; [.rn][.ftz][.sat].{{f16,f16x2}} @sm_53; "
    f"[.rn].{{bf16,bf16x2}} @sm_90 @ptx7.8",
    section="9.7.1.3, 9.7.3.5, 9.7.4.3",
)
def mul(d: Decoder, i: Instruction, m: Modifiers) -> None:
    part = m.take("lo", "hi", "wide")
    dst, a, b = i.operands
    if part is None:
        _float(d, "mul", m, (dst, a, b))
        return
    type_ = only_type(m, _INTEGERS - {"s64", "u64"} if part == "wide" else _INTEGERS)
    if part == "lo":
        emit(d, f"mul.lo.{8 * TYPE_BYTES[type_]}", dst, (a, b), type_)
    elif part == "hi":
        emit(d, f"mul.hi.{type_}", dst, (a, b), type_)
    else:
        emit(d, f"mul.wide.{type_}", dst, (a, b), type_[0] + str(16 * TYPE_BYTES[type_]), type_)


@instruction(
    "mad",
    group="arithmetic",
    forms=f".{{lo,hi}}.{{s,u}}{{16,32,64}}; .hi.sat.s32; .wide.{{s,u}}{{16,32}}; "
    f"{NEED_ROUND}[.ftz][.sat].f32; {NEED_ROUND}.f64",
    section="9.7.1.4, 9.7.3.7",
    note="of floats: fma",
)
def mad(d: Decoder, i: Instruction, m: Modifiers) -> None:
    part = m.take("lo", "hi", "wide")
    dst, a, b, c = i.operands
    if part is None:
        if m.remaining[-1:] not in (["f32"], ["f64"]):
            raise Unknown("needs one of .lo, .hi, .wide")
        _float(d, "fma", m, (dst, a, b, c), needs_rounding=True)
        return
    saturates = m.take("sat")
    type_ = only_type(
        m, {"s32"} if saturates else _INTEGERS - {"s64", "u64"} if part == "wide" else _INTEGERS
    )
    if saturates and part != "hi":
        raise Unknown("does not support the modifier .sat here")
    wide = type_[0] + str(16 * TYPE_BYTES[type_])
    if part == "lo":
        emit(d, f"mad.lo.{8 * TYPE_BYTES[type_]}", dst, (a, b, c), type_)
    elif part == "wide":
        emit(d, f"mad.wide.{type_}", dst, (a, b, c), wide, type_, type_, wide)
    else:
        product = d.temporary(TYPE_BYTES[type_])
        d.emit(f"mul.hi.{type_}", dst=product, a=d.src(a, type_), b=d.src(b, type_))
        add = "add.sat.s32" if saturates else f"add.{8 * TYPE_BYTES[type_]}"
        d.emit(add, dst=d.dst(dst, type_), a=product, b=d.src(c, type_))


@instruction(
    "fma",
    group="arithmetic",
    forms=f"{NEED_ROUND}[.ftz][.sat].f32; {NEED_ROUND}[.ftz].f32x2 @sm_100 @ptx8.6; {NEED_ROUND}.f64; "
    f".rn[.ftz][{{.sat,.relu}}].{{f16,f16x2}}; .rn[.relu].{{bf16,bf16x2}} @sm_80 @ptx7.0; "
    f"{NEED_ROUND}[.sat].f32.{{f16,bf16}} @sm_100 @ptx8.6",
    section="9.7.3.6, 9.7.4.4, 9.7.5.3",
    note="one rounding",
)
def fma(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dst, a, b, c = i.operands
    _float(d, "fma", m, (dst, a, b, c), needs_rounding=True)


@instruction(
    "div",
    group="arithmetic",
    forms=f".{{s,u}}{{16,32,64}}; .{{full,approx}}[.ftz].f32; {NEED_ROUND}[.ftz].f32; {NEED_ROUND}.f64",
    section="9.7.1.7, 9.7.3.8",
    note="the approximate forms are computed correctly rounded, inside their documented error",
)
@instruction("rem", group="arithmetic", forms=".{s,u}{16,32,64}", section="9.7.1.8")
def div_rem(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    dst, a, b = i.operands
    rounding = m.take("full", "approx", *DIRECTED) if base == "div" else None
    ftz = "ftz." if rounding and m.take("ftz") else ""
    directed = rounding + "." if rounding in ("rz", "rm", "rp") else ""
    type_ = only_type(
        m, ({"f32"} if rounding in ("full", "approx") or ftz else {"f32", "f64"}) if rounding else _INTEGERS
    )
    emit(d, f"{base}.{directed}{ftz}{type_}", dst, (a, b), type_)


_MINMAX_FORMS = (
    ".{s,u}{16,32,64}; [.relu].s16x2 @sm_90 @ptx8.0; .u16x2 @sm_90 @ptx8.0; .relu.s32 @sm_90 @ptx8.0; "
    "[.ftz].f32; [.ftz].NaN.f32 @sm_80 @ptx7.0; [.ftz][.NaN].xorsign.abs.f32 @sm_86 @ptx7.2; .f64; "
    "[.ftz][.NaN].abs.f32 @sm_100 @ptx8.8; [.ftz][.NaN].{f16,f16x2} @sm_80 @ptx7.0; "
    "[.NaN].{bf16,bf16x2} @sm_80 @ptx7.0; [.ftz][.NaN].xorsign.abs.{f16,f16x2} @sm_86 @ptx7.2; "
    "[.NaN].xorsign.abs.{bf16,bf16x2} @sm_86 @ptx7.2"
)


@instruction(
    "min", group="arithmetic", forms=_MINMAX_FORMS, section="9.7.1.11, 9.7.3.11, 9.7.4.7",
    note="f32 also with three sources (sm_100); .abs without .xorsign needs them",
)  # fmt: skip
@instruction(
    "max", group="arithmetic", forms=_MINMAX_FORMS, section="9.7.1.12, 9.7.3.12, 9.7.4.8", note="as min"
)
def min_max(d: Decoder, i: Instruction, m: Modifiers) -> None:
    base = i.opcode.split(".")[0]
    relu, ftz, nan = m.take("relu"), m.take("ftz"), m.take("NaN")
    xorsign, absolute = m.take("xorsign"), m.take("abs")
    type_ = only_type(m, _INTEGERS | {"s16x2", "u16x2", "f32", "f64"} | HALVES)
    given: dict[str, object] = {"relu": relu, "ftz": ftz, "NaN": nan, "xorsign": xorsign, "abs": absolute}
    dst, *sources = i.operands
    if type_ == "f32" and len(sources) == 3:
        _refuse(given, "ftz", "NaN", "abs")
        if absolute:
            made = [d.temporary(4) for _ in sources]
            for slot, source in zip(made, sources, strict=True):
                d.emit(f"abs.{'ftz.' if ftz else ''}f32", dst=slot, a=d.src(source, "f32"))
        else:
            made = [d.src(source, "f32") for source in sources]
        name = f"{base}.{'ftz.' if ftz else ''}{'NaN.' if nan else ''}f32"
        first = d.temporary(4)
        d.emit(name, dst=first, a=made[0], b=made[1])
        d.emit(name, dst=d.dst(dst, "f32"), a=first, b=made[2])
        return
    a, b = _count(sources, 2)
    if type_ in HALVES:
        _refuse(given, "NaN", "xorsign", "abs", *(["ftz"] if type_.startswith("f") else []))
        if bool(xorsign) != bool(absolute):
            raise Unknown("takes .xorsign.abs together")
        half(d, base, type_, (dst, a, b), ftz=ftz, nan=nan, xorsign=xorsign)
    elif type_ == "f32":
        _refuse(given, "ftz", "NaN", "xorsign", "abs")
        if bool(xorsign) != bool(absolute):
            raise Unknown("takes .xorsign.abs together")
        name = f"{base}.{'ftz.' if ftz else ''}{'NaN.' if nan else ''}{'xorsign.' if xorsign else ''}f32"
        emit(d, name, dst, (a, b), "f32")
    else:
        _refuse(given, *(["relu"] if type_ in ("s16x2", "s32") else []))
        carrier = "b32" if type_.endswith("x2") else type_
        emit(d, f"{base}.{'relu.' if relu else ''}{type_}", dst, (a, b), carrier)
