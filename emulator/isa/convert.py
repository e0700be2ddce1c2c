"""Conversions between number formats (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import NONE, TYPE_BYTES
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# `rounding`: a Round; `limit`: 1 .sat, 2 .satfinite, 4 .relu.
# Of integers: the registers may be wider than their types.
slots("cvt", operands="dst a b", modifiers="to_bytes from_bytes", writes="dst")
slots(
    "convert",
    operands="dst a",
    modifiers="to source_kind to_bytes from_bytes rounding ftz limit",
    writes="dst",
)
slots(
    "convert.pair",
    operands="dst a b",
    modifiers="to source_kind to_bits from_bits rounding limit",
    writes="dst",
)
# Sources in vec, the uppermost first.
slots("convert.random", operands="dst random", modifiers="to to_bits limit", writes="dst")
slots("cvt.pack", operands="dst a b c", modifiers="bits extended", writes="dst")

_KINDS = enumeration(
    "NumberFormat",
    "s8 s16 s32 s64 u8 u16 u32 u64 f16 bf16 f32 f64 tf32 e4m3 e5m2 e2m3 e3m2 ue8m0 e2m1",
)
_INTEGERS = _KINDS[:8]
ROUNDINGS = enumeration("Round", "rn rz rm rp rna rni rzi rmi rpi")
DIRECTED = ROUNDINGS[:4]  # of arithmetic
_BYTES = {**TYPE_BYTES, "tf32": 4}
# Handlers of their own: what compilers use most.
_DIRECT = {
    "cvt.f32.bf16", "cvt.f32.f16", "cvt.rn.bf16.f32", "cvt.rn.f16.f32", "cvt.rn.f32.s32", "cvt.rn.f32.u32",
    "cvt.rn.f32.s64", "cvt.rn.f32.u64", "cvt.rn.f32.u16", "cvt.rn.f32.s16", "cvt.f64.f32", "cvt.ftz.f64.f32",
    "cvt.rn.f16.s32", "cvt.rzi.s32.f32", "cvt.rzi.u32.f32", "cvt.rni.s32.f32",
}  # fmt: skip

_R, _RI = "{.rn,.rz,.rm,.rp}", "{.rni,.rzi,.rmi,.rpi}"
_SMALL = "{s,u}{8,16,32,64}"


def _range(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


# .sat stands where the destination does not hold every value of the source.
_CLAMPED = "{" + ",".join(
    f"{to}.{{" + ",".join(narrow) + "}"
    for to in _INTEGERS
    if (narrow := [f for f in _INTEGERS if _range(f)[0] < _range(to)[0] or _range(f)[1] > _range(to)[1]])
) + "}"  # fmt: skip
_FORMS = (
    f".{_SMALL}.{_SMALL}; .sat.{_CLAMPED}; {_R}[.sat].f16.{_SMALL}; {_R}[.ftz][.sat].f32.{_SMALL}; "
    f"{_R}[.sat].f64.{_SMALL}; "
    f"{_RI}[.sat].{_SMALL}.{{f16,f64}}; {_RI}[.ftz][.sat].{_SMALL}.f32; "
    f"[.ftz][.sat].f32.f16; .f32.bf16 @sm_80 @ptx7.1; {_R}[.ftz][.sat].f16.f32; "
    f"{_R}.bf16.f32 @sm_80 @ptx7.0; "
    f"[.sat].f64.f16; [.ftz][.sat].f32.f32; [.sat].{{f16.f16,f64.f64}}; [.ftz][.sat].f64.f32; "
    f"{_R}[.ftz][.sat].f32.f64; {_R}[.sat].f16.f64; "
    f"{_RI}[.sat].f16.f16; {_RI}[.ftz][.sat].f32.f32; {_RI}[.sat].f64.f64; "
    f"{{.rn,.rz}}[.relu].{{f16,bf16}}.f32 @sm_80 @ptx7.0; .rna.tf32.f32 @sm_80 @ptx7.0; "
    f"{{.rn,.rz}}[.relu].tf32.f32 @sm_90 @ptx7.8; {{.rn,.rz}}[.relu].{{f16,bf16}}x2.f32 @sm_80 @ptx7.0; "
    ".rn.satfinite[.relu].{e4m3x2,e5m2x2}.{f32,f16x2} @sm_90 @ptx7.8; "
    ".rn.satfinite[.relu].{e4m3x2,e5m2x2}.{f32,f16x2} @sm_89 @ptx8.1; "
    ".rn[.relu].f16x2.{e4m3x2,e5m2x2} @sm_90 @ptx7.8; .rn[.relu].f16x2.{e4m3x2,e5m2x2} @sm_89 @ptx8.1; "
    ".rn.satfinite[.relu].{e2m3x2,e3m2x2}.f32 @sm_100a|sm_120a @ptx8.6; "
    ".rn[.relu].f16x2.{e2m3x2,e3m2x2} @sm_100a|sm_120a @ptx8.6; "
    f"{_R}.bf16.{{f16,f64,{{s,u}}{{16,32,64}}}} @sm_90 @ptx7.8; {_R}.{{f16,f64}}.bf16 @sm_90 @ptx7.8; "
    f"{_R}.f32.bf16 @sm_80 @ptx7.1; [{_R}].ftz.f32.bf16 @sm_90 @ptx7.8; "
    f"{_RI}.{{s,u}}{{16,32,64}}.bf16 @sm_90 @ptx7.8; {_R}.ftz.bf16.f32 @sm_80 @ptx7.0; "
    "{.rn,.rz}.satfinite[.relu].{f16,bf16,f16x2,bf16x2}.f32 @sm_80 @ptx8.1; "
    ".rna.satfinite.tf32.f32 @sm_80 @ptx8.1; "
    "{.rn,.rz}.satfinite[.relu].tf32.f32 @sm_100 @ptx8.6; "
    ".rn.bf16x2.ue8m0x2 @sm_100a|sm_120a @ptx8.6; "
    ".rn.satfinite[.relu].e2m1x2.{f32,f16x2} @sm_100a|sm_120a @ptx8.6; "
    ".rn[.relu].f16x2.e2m1x2 @sm_100a|sm_120a @ptx8.6; "
    "{.rz,.rp}[.satfinite].ue8m0x2.{f32,bf16x2} @sm_100a|sm_120a @ptx8.6; "
    ".rs[.relu][.satfinite].{f16x2,bf16x2}.f32 @=sm_100a|=sm_103a @ptx8.7; "
    ".rs[.relu].satfinite.{e4m3x4,e5m2x4,e2m3x4,e3m2x4,e2m1x4}.f32 @=sm_100a|=sm_103a @ptx8.7; "
    f"{{.f64.bf16,[{_RI}].bf16.bf16}} @sm_90 @ptx7.8"
)


@instruction(
    "cvt",
    group="moves and conversions",
    forms=_FORMS,
    section="9.7.9.21",
    note="one rounding; the first source of an x2 form goes to the upper half",
)
def cvt(d: Decoder, i: Instruction, m: Modifiers) -> None:
    spelling = "cvt." + ".".join(m.remaining)
    rounding, ftz = m.take(*ROUNDINGS), m.take("ftz")
    limit = (1 if m.take("sat") else 0) + (2 if m.take("satfinite") else 0) + (4 if m.take("relu") else 0)
    stochastic = m.take("rs")
    to, from_ = m.types()
    if stochastic:
        _random(d, i, to, limit)
        return
    mode = ROUNDINGS.index(rounding or "rn")
    if to.endswith("x2"):
        _pair(d, i, spelling, to.removesuffix("x2"), from_.removesuffix("x2"), mode, limit)
        return
    dst, a = i.operands
    if (from_, to) == ("f32", "f16"):
        ftz = None  # code of ptxas and an H200 keep subnormals: .rp gives the smallest f16
    if (from_, to) == ("bf16", "f32") and not ftz:
        spelling = "cvt.f32.bf16"  # exact: no rounding has an effect, nor has a NaN other bits
    if spelling in _DIRECT:
        d.emit(spelling, dst=d.dst(dst, to), a=d.src(a, from_))
        return
    integers = to in _INTEGERS and from_ in _INTEGERS
    size_to = d.register(dst).bytes
    if isinstance(a, Immediate):  # taken at the width of its type
        size_from, slot = _BYTES[from_], d.constant(d.immediate(a, from_), _BYTES[from_])
    else:
        source = d.register(a)
        size_from, slot = source.bytes, source.offset
    if size_to < _BYTES[to] or size_from < _BYTES[from_]:
        raise d.bad("a register is narrower than its type")
    if to not in _INTEGERS and size_to != _BYTES[to]:
        raise d.bad("a register does not fit its floating-point type")
    if integers and not limit:
        d.emit(f"cvt.{to}.{from_}", dst=d.dst_any(dst), a=slot, to_bytes=size_to, from_bytes=size_from)
        return
    d.emit(
        "convert",
        dst=d.dst_any(dst),
        a=slot,
        to=_KINDS.index(to),
        source_kind=_KINDS.index(from_),
        to_bytes=size_to,
        from_bytes=_BYTES[from_] if size_from >= _BYTES[from_] and from_ not in _INTEGERS else size_from,
        rounding=mode,
        ftz=int(bool(ftz)),
        limit=limit,
    )


_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "e2m1": 4}


def _random(d: Decoder, i: Instruction, to: str, limit: int) -> None:
    """Stochastic rounding: two or four f32 into one register, with the bits of another."""
    count, to = int(to[-1]), to[:-2]
    width = _WIDTH.get(to, 8)
    dst, *sources, bits = i.operands
    values = sources if count == 2 else d.vector(sources[0])
    if len(values) != count or len(sources) != (2 if count == 2 else 1):
        raise d.bad(f"{count} values are rounded", f"{count} registers", str(len(values)))
    d.emit(
        "convert.random",
        dst=d.dst(dst, f"b{count * width}"),
        random=d.src(bits, "b32"),
        vec=[d.src(value, "f32") for value in values],
        to=_KINDS.index(to),
        to_bits=width,
        limit=limit,
    )


@instruction(
    "cvt.pack",
    group="moves and conversions",
    forms=".sat{.{u,s}16.s32,.{u,s}{2,4,8}.s32.b32}",
    section="9.7.9.22",
)
def pack(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("sat")
    to = m.types()[0]
    dst, a, b, *rest = i.operands
    d.emit(
        "cvt.pack",
        dst=d.dst(dst, "b32"),
        a=d.src(a, "s32"),
        b=d.src(b, "s32"),
        c=d.src(rest[0], "b32") if rest else d.constant(0, 4),
        bits=int(to[1:]),
        extended=int(to[0] == "s"),
    )


def _pair(d: Decoder, i: Instruction, spelling: str, to: str, from_: str, mode: int, limit: int) -> None:
    to_bits, from_bits = _WIDTH.get(to, 8), _WIDTH.get(from_, 8)
    result = f"b{2 * to_bits}"
    dst, *sources = i.operands
    if from_ == "f32":
        a, b = sources
        if spelling in ("cvt.rn.bf16x2.f32", "cvt.rn.f16x2.f32"):
            d.emit(spelling, dst=d.dst(dst, result), a=d.src(a, "f32"), b=d.src(b, "f32"))
            return
        slots_ = d.src(a, "f32"), d.src(b, "f32")
    else:
        (a,) = sources
        slots_ = d.dst(a, f"b{2 * from_bits}"), NONE
    if to not in _KINDS or from_ not in _KINDS:
        raise Unknown(f"does not support the conversion {spelling}")
    d.emit(
        "convert.pair",
        dst=d.dst(dst, result),
        a=slots_[0],
        b=slots_[1],
        to=_KINDS.index(to),
        source_kind=_KINDS.index(from_),
        to_bits=to_bits,
        from_bits=from_bits,
        rounding=mode,
        limit=limit,
    )
