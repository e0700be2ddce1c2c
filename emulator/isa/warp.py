"""Reductions and matches over the lanes of a warp, clocks (PTX ISA 9.7.13.10, 9.7.13.12, 10)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import NONE, TYPE_BYTES
from tileproof.emulator.ptx import Instruction, Pair, Sink
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

# `operation`: of _OPERATIONS; `kind`: of _TYPES; `limit`: 1 .abs, 2 .NaN.
slots("redux", operands="dst a mask", modifiers="operation kind limit", writes="dst")
slots("match", operands="dst same a mask", modifiers="all bytes", writes="dst same")
slots("clock", operands="dst", modifiers="bytes high", visible=True, writes="dst")
slots("nanosleep", visible=True)

_OPERATIONS = enumeration("WarpReduction", "and or xor add min max")
_TYPES = enumeration("WarpType", "b32 u32 s32 f32")


@instruction(
    "redux",
    group="warp",
    forms=".sync.{and,or,xor}.b32 @sm_80 @ptx7.0; .sync.{add,min,max}.{u32,s32} @sm_80 @ptx7.0; "
    ".sync.{min,max}[.abs][.NaN].f32 @sm_100a @ptx8.6",
    section="9.7.13.12",
    note="f32: +0 is above -0; without .NaN a NaN is the result only if all values are NaN",
)
def redux(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("sync")
    operation = m.need(*_OPERATIONS)
    limit = (1 if m.take("abs") else 0) + (2 if m.take("NaN") else 0)
    (type_,) = m.types()
    dst, a, mask = i.operands
    d.emit(
        "redux",
        dst=d.dst(dst, type_),
        a=d.src(a, type_),
        mask=d.src(mask, "u32"),
        operation=_OPERATIONS.index(operation),
        kind=_TYPES.index(type_),
        limit=limit,
    )


@instruction(
    "match",
    group="warp",
    forms=".{any,all}.sync.b{32,64} @sm_70 @ptx6.0",
    section="9.7.13.10",
    note="`.all` also as d|p",
)
def match(d: Decoder, i: Instruction, m: Modifiers) -> None:
    of_all = m.need("any", "all") == "all"
    m.need("sync")
    (type_,) = m.types()
    dst, a, mask = i.operands
    both = dst if isinstance(dst, Pair) else Pair(dst, Sink())
    if isinstance(dst, Pair) and not of_all:
        raise ValueError("match.any has no predicate")
    d.emit(
        "match",
        dst=NONE if isinstance(both.first, Sink) else d.dst(both.first, "b32"),
        same=NONE if isinstance(both.second, Sink) else d.dst(both.second, "pred"),
        a=d.src(a, type_),
        mask=d.src(mask, "u32"),
        all=int(of_all),
        bytes=TYPE_BYTES[type_],
    )


@instruction(
    "nanosleep",
    group="hints",
    forms=".u32 @sm_70",
    section="9.7.19.2",
    grade="order only",
    note="no time passes; the lanes yield to all other actors that can proceed",
)
def nanosleep(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    d.src(i.operands[0], "u32")
    d.emit("nanosleep")
