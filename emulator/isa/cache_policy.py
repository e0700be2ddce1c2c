"""Cache eviction policies: createpolicy (PTX ISA 9.7.9.18)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.ptx import Instruction
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

slots("createpolicy.fractional", operands="dst fraction", writes="dst")
slots("createpolicy.range", operands="dst primary total", writes="dst")

_PRIORITIES = ".L2::{evict_last,evict_normal,evict_first,evict_unchanged}[.L2::{evict_first,evict_unchanged}]"


@instruction(
    "createpolicy",
    group="memory",
    forms=f".fractional{_PRIORITIES}.b64 @sm_80 @ptx7.4; .range[.global]{_PRIORITIES}.b64 @sm_80 @ptx7.4; "
    ".cvt.L2.b64 @sm_80 @ptx7.4",
    section="9.7.9.18",
    note="an opaque word: only .L2::cache_hint operands take it, and hints do nothing; "
    "fraction and sizes are checked",
)
def createpolicy(d: Decoder, i: Instruction, m: Modifiers) -> None:
    kind = m.need("fractional", "range", "cvt")
    m.drop_prefix("L2", "global")
    m.need("b64")
    target, *given = i.operands
    dst = d.dst(target, "b64")
    if kind == "cvt":
        d.emit("mov.64", dst=dst, a=d.src(given[0], "b64"))
    elif kind == "fractional":
        fraction = d.src(given[0], "f32") if given else d.constant(0x3F800000, 4)
        d.emit("createpolicy.fractional", dst=dst, fraction=fraction)
    else:
        address, primary, total = given
        d.address(address)
        d.emit("createpolicy.range", dst=dst, primary=d.src(primary, "u32"), total=d.src(total, "u32"))
