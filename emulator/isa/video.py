"""SIMD video instructions that Hopper and Blackwell still execute in hardware (PTX ISA 9.7.18)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.ptx import Instruction
from tileproof.emulator.registry import Modifiers, Unknown, instruction

_FORMS = ".{s,u}32.{s,u}32.{s,u}32[{.sat,.add}]"


@instruction("vabsdiff2", group="integer", forms=_FORMS, section="9.7.18.1", note="all lanes, in order")
@instruction("vabsdiff4", group="integer", forms=_FORMS, section="9.7.18.1", note="all lanes, in order")
def absolute_differences(d: Decoder, i: Instruction, m: Modifiers) -> None:
    lanes = 2 if i.opcode.startswith("vabsdiff2") else 4
    width = 32 // lanes
    adds, clamps = bool(m.take("add")), bool(m.take("sat"))
    types = m.types()
    if len(types) != 3 or not set(types) <= {"s32", "u32"}:
        raise Unknown(f"does not support the types .{'.'.join(types)}")
    dst, a, b, c = i.operands
    first, second, result = d.src(a, "b32"), d.src(b, "b32"), d.src(c, "b32")
    x, y, difference, joined = (d.temporary(4) for _ in range(4))
    count, zero = d.constant(width, 4), d.constant(0, 4)
    top = d.constant((1 << width - (types[0] == "s32")) - 1, 4)
    d.emit("mov.32", dst=joined, a=result)
    for lane in range(lanes):
        at = d.constant(width * lane, 4)
        d.emit(f"bfe.{types[1]}", dst=x, a=first, b=at, c=count)
        d.emit(f"bfe.{types[2]}", dst=y, a=second, b=at, c=count)
        d.emit("sad.s32", dst=joined if adds else difference, a=x, b=y, c=joined if adds else zero)
        if clamps:
            d.emit("min.u32", dst=difference, a=difference, b=top)
        if not adds:
            d.emit("bfi.b32", dst=joined, a=difference, b=joined, c=at, d=count)
    d.emit("mov.32", dst=d.dst(dst, "b32"), a=joined)
