"""Matrices between shared memory and the fragments of mma.sync (PTX ISA 9.7.14.5.15 to 9.7.14.5.17)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.isa.memory import GENERIC, SHARED
from tileproof.emulator.ptx import Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction
from tileproof.emulator.slots import slots

# vec: the registers. width: bits of an element (in memory, when `unpacked`).
slots(
    "ldmatrix",
    operands="base",
    modifiers="space matrices trans width unpacked address_bytes",
    visible=True,
    fills=True,
)
slots("stmatrix", operands="base", modifiers="space matrices trans width address_bytes", visible=True)
slots("movmatrix", operands="dst a", writes="dst")

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def _space(m: Modifiers) -> int:
    return SHARED if m.take("shared", "shared::cta") else GENERIC


def _registers(d: Decoder, parts: tuple[object, ...], count: int) -> list[int]:
    if len(parts) != count:
        raise ValueError(f"{count} registers are needed, not {len(parts)}")
    return [d.dst(part, "b32") for part in parts]  # type: ignore[arg-type]


def _check_modifiers(m: Modifiers) -> None:
    """The modifiers by which all lanes of the warp execute it."""
    m.need("sync")
    m.need("aligned")


@instruction(
    "ldmatrix",
    group="warp-level matrices",
    forms=".sync.aligned.m8n8.{x1,x2,x4}[.trans][.shared[::cta]].b16; "
    ".sync.aligned.m16n16.{x1,x2}.trans[.shared[::cta]].b8 @sm_100a|sm_120a; "
    ".sync.aligned.m8n16.{x1,x2,x4}[.shared[::cta]].b8x16.{b6x16_p32,b4x16_p64} @sm_100a|sm_120a; "
    ".sync.aligned.m16n16.{x1,x2}.trans[.shared[::cta]].b8x16.{b6x16_p32,b4x16_p64} @sm_100a|sm_120a",
    section="9.7.14.5.15",
    note="each row is a checked read of the lane that names it; 4- and 6-bit elements are widened with zeros",
)
def ldmatrix(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _check_modifiers(m)
    shape = m.need("m8n8", "m8n16", "m16n16")
    count = _COUNTS[m.need(*_COUNTS)]
    trans = m.take("trans")
    space = _space(m)
    types = m.types()
    unpacked = len(types) == 2
    if unpacked:
        if types[0] != "b8x16" or types[1] not in ("b6x16_p32", "b4x16_p64") or shape == "m8n8":
            raise Unknown(f"does not support the types .{'.'.join(types)} of this shape")
        width = int(types[1][1])
    elif types not in (["b16"], ["b8"]) or (types == ["b16"]) != (shape == "m8n8") or shape == "m8n16":
        raise Unknown(f"does not support the type .{'.'.join(types)} of this shape")
    else:
        width = int(types[0][1:])
    square = shape == "m16n16"
    if (square and (count == 4 or not trans)) or (shape == "m8n16" and trans):
        raise Unknown("takes .trans and at most two matrices of m16n16, no .trans of m8n16")
    dst, source = i.operands
    base, displacement, address_bytes = d.address(source)
    d.emit(
        "ldmatrix",
        base=base,
        space=space,
        matrices=count,
        trans=int(bool(trans)),
        width=width,
        unpacked=int(unpacked),
        address_bytes=address_bytes,
        vec=_registers(d, d.vector(dst), 2 * count if square else count),
        imm=displacement,
    )


@instruction(
    "stmatrix",
    group="warp-level matrices",
    forms=".sync.aligned.m8n8.{x1,x2,x4}[.trans][.shared[::cta]].b16 @sm_90 @ptx7.8; "
    ".sync.aligned.m16n8.{x1,x2,x4}.trans[.shared[::cta]].b8 @sm_100a|sm_120a",
    section="9.7.14.5.16",
    note="each row is a checked write of the lane that names it",
)
def stmatrix(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _check_modifiers(m)
    shape = m.need("m8n8", "m16n8")
    count = _COUNTS[m.need(*_COUNTS)]
    trans = m.take("trans")
    space = _space(m)
    width = 16 if m.need("b16" if shape == "m8n8" else "b8") == "b16" else 8
    if width == 8 and not trans:
        raise Unknown("needs .trans of m16n8")
    target, source = i.operands
    base, displacement, address_bytes = d.address(target)
    d.emit(
        "stmatrix",
        base=base,
        space=space,
        matrices=count,
        trans=int(bool(trans)),
        width=width,
        address_bytes=address_bytes,
        vec=_registers(d, d.vector(source), count),
        imm=displacement,
    )


@instruction(
    "movmatrix",
    group="warp-level matrices",
    forms=".sync.aligned.m8n8.trans.b16 @sm_75 @ptx7.8",
    section="9.7.14.5.17",
)
def movmatrix(d: Decoder, i: Instruction, m: Modifiers) -> None:
    _check_modifiers(m)
    for word in ("m8n8", "trans", "b16"):
        m.need(word)
    dst, a = i.operands
    d.emit("movmatrix", dst=d.dst(dst, "b32"), a=d.dst(a, "b32"))
