"""Warp-level matrix multiplication (PTX ISA 9.7.14.5)."""

from __future__ import annotations

import re

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.isa.convert import DIRECTED
from tileproof.emulator.ptx import Immediate, Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction, refused
from tileproof.emulator.slots import slots

# vec: registers of D, A, B, C in this order.
slots("mma.sync", modifiers="rows k a_type b_type d_type saturates rounding")

_TYPES = enumeration("MmaOperand", "f16 bf16 tf32 e4m3 e5m2 s8 u8 s4 u4 f64")
_BITS = dict(zip(_TYPES, (16, 16, 32, 8, 8, 8, 8, 4, 4, 64), strict=True))
_CODE = {name: code for code, name in enumerate(_TYPES)}
_RESULTS = enumeration("MmaResult", "f32 f16 s32 f64")
_EIGHT, _BYTES, _NIBBLES = {"e4m3", "e5m2"}, {"s8", "u8"}, {"s4", "u4"}
# Shape -> the operand types that ptxas takes with it.
_SHAPES = {
    (8, 16): _BYTES,
    (8, 32): _NIBBLES,
    (8, 4): {"f64"},
    (16, 4): {"tf32", "f64"},
    (16, 8): {"f16", "bf16", "tf32", "f64"},
    (16, 16): {"f16", "bf16", "f64"} | _EIGHT | _BYTES,
    (16, 32): _EIGHT | _BYTES | _NIBBLES,
    (16, 64): _NIBBLES,
}

_FORMS = (
    ".m16n8k8.row.col.f16.f16.f16.f16; .m16n8k16.row.col.f16.f16.f16.f16; "
    ".m16n8k8.row.col.f32.{f16.f16,bf16.bf16,tf32.tf32}.f32; .m16n8k4.row.col.f32.tf32.tf32.f32; "
    ".m16n8k16.row.col.f32.{f16.f16,bf16.bf16}.f32; "
    ".{m16n8k16,m16n8k32}.row.col.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16 @sm_89 @ptx8.7; "
    ".m16n8k16.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 @sm_89 @ptx8.7; "
    ".m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 @sm_89 @ptx8.4; "
    ".{m16n8k16,m16n8k32}.row.col.kind::f8f6f4.f16.{e4m3,e5m2}.{e4m3,e5m2}.f16 @sm_100a|sm_120a @ptx8.7; "
    ".m16n8k16.row.col.kind::f8f6f4.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 @sm_100a|sm_120a @ptx8.7; "
    ".m16n8k32.row.col.kind::f8f6f4.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32 @sm_100a|sm_120a; "
    ".{m8n8k16,m16n8k16,m16n8k32}.row.col[.satfinite].s32.{s8,u8}.{s8,u8}.s32; "
    ".{m8n8k32,m16n8k32,m16n8k64}.row.col[.satfinite].s32.{s4,u4}.{s4,u4}.s32; "
    ".m8n8k4.row.col[{.rn,.rz,.rm,.rp}].f64.f64.f64.f64; "
    ".{m16n8k4,m16n8k8,m16n8k16}.row.col[{.rn,.rz,.rm,.rp}].f64.f64.f64.f64 @sm_90 @ptx7.8"
)


@instruction(
    "mma",
    group="warp-level matrices",
    forms="; ".join(f".sync.aligned{form.strip()}" for form in _FORMS.split(";")),
    section="9.7.14.5.14",
    note="`exact` follows recorded B200 words (spec/machine/warp_mma.py); `fast` sums in f32 in order of k; "
    "f64 one fused multiply-add after the other",
)
def mma(d: Decoder, i: Instruction, m: Modifiers) -> None:
    for word in ("sync", "aligned"):
        m.need(word)
    shape = re.fullmatch(r"m(8|16)n8k(4|8|16|32|64)", m.remaining.pop(0))
    if not shape:
        raise Unknown("does not support this shape")
    rows, k = int(shape.group(1)), int(shape.group(2))
    m.need("row")
    m.need("col")
    kind = m.take("kind::f8f6f4")
    saturates = m.take("satfinite")
    rounding = m.take(*DIRECTED)
    types = m.types()
    if len(types) != 4 or types[0] != types[3]:
        raise Unknown(f"does not support the types .{'.'.join(types)}")
    result, a, b, _ = types
    if a not in _SHAPES.get((rows, k), set()) or b not in _SHAPES[(rows, k)]:
        raise Unknown(f"does not multiply .{a} by .{b} in this shape")
    family = next((f for f in (_EIGHT, _BYTES, _NIBBLES) if a in f), {a})
    integer = a in _BYTES | _NIBBLES
    results = (
        {"s32"}
        if integer
        else {"f64"}
        if a == "f64"
        else {"f32"}
        if a in ("bf16", "tf32")
        else {"f32", "f16"}
    )
    if b not in family or result not in results:
        raise Unknown(f"does not support the types .{'.'.join(types)}")
    if (kind and a not in _EIGHT) or (saturates and not integer) or (rounding and a != "f64"):
        raise Unknown("does not support this modifier for these types")
    per = max(1, 32 // _BITS[a])
    counts = (rows * 8 // (64 if result == "f16" else 32), rows * k // (32 * per), 8 * k // (32 * per))
    kinds = ("b64",) * 3 if a == "f64" else ("b32",) * 3
    registers: list[int] = []
    for operand, count, type_ in zip(i.operands[:3], counts, kinds, strict=True):
        parts = d.vector(operand)
        if len(parts) != count:
            raise ValueError(f"{count} registers are needed, not {len(parts)}")
        registers += [d.dst(part, type_) for part in parts]
    initial = d.vector(i.operands[3])
    if len(initial) != counts[0]:
        raise ValueError(f"{counts[0]} accumulators are needed, not {len(initial)}")
    literal = {"f16": "b32"}.get(result, result)
    registers += [d.src(p, literal) if isinstance(p, Immediate) else d.dst(p, kinds[0]) for p in initial]
    emit_mma(
        d, rows, k, (a, b), result, registers[: counts[0]], registers[counts[0] : counts[0] + counts[1]],
        registers[counts[0] + counts[1] : sum(counts)], registers[sum(counts) :], saturates=bool(saturates),
        rounding=rounding,
    )  # fmt: skip


def emit_mma(
    d: Decoder, rows: int, k: int, types: tuple[str, str], result: str, target: list[int], a: list[int],
    b: list[int], c: list[int], *, saturates: bool, rounding: str | None,
) -> None:  # fmt: skip
    """Emit a product of `rows` x 8 x `k`; `types` of A and B, slots of the four fragments."""
    d.emit(
        "mma.sync",
        rows=rows,
        k=k,
        a_type=_CODE[types[0]],
        b_type=_CODE[types[1]],
        d_type=_RESULTS.index(result),
        saturates=int(saturates),
        rounding=DIRECTED.index(rounding or "rn"),
        vec=[*target, *a, *b, *c],
        written=(0, len(target)),
    )


refused(
    "mma", group="warp-level matrices", forms="*", section="9.7.14.5.14",
    note="other shapes and types of the warp-level MMA",
)  # fmt: skip
refused("mma.sp", group="warp-level matrices", forms="*", section="9.7.14.6", note="sparse warp-level MMA")
