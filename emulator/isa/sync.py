"""Warp operations and barriers (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Instruction, Operand, Pair, Sink
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

slots("elect", operands="leader chosen mask", writes="leader chosen")
slots("shfl", operands="dst inside a b c mask", modifiers="mode", writes="dst inside")
SHUFFLES = enumeration("Shuffle", "up down bfly idx")
VOTES = enumeration("Vote", "all any uni ballot")
slots("vote", operands="dst source mask", modifiers="mode negated", writes="dst")
slots("activemask", operands="dst", writes="dst")
slots("bar.warp.sync", operands="mask")
# `mode` of bar is the place in BARRIER_MODES.
BARRIER_MODES = enumeration("BarrierMode", "sync arrive popc and or")
slots("bar", operands="id threads dst vote", modifiers="mode aligned negated", visible=True, writes="dst")
slots("barrier.cluster.arrive", modifiers="aligned relaxed", visible=True)
slots("barrier.cluster.wait", modifiers="aligned relaxed", visible=True)


def _pair(d: Decoder, operand: Operand, type_: str) -> tuple[int, int]:
    """Slots of `d|p`; either may be a sink."""
    first, second = (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())
    return (
        NONE if isinstance(first, Sink) else d.dst(first, type_),
        NONE if isinstance(second, Sink) else d.dst(second, "pred"),
    )


@instruction(
    "elect.sync",
    group="warp",
    forms="@sm_90 @ptx8.0",
    section="9.7.13.14",
    note="the lowest lane of the mask, always",
)
def elect(d: Decoder, i: Instruction, m: Modifiers) -> None:
    dst, mask = i.operands
    leader, p = _pair(d, dst, "b32")
    d.emit("elect", leader=leader, chosen=d.temporary(0) if p == NONE else p, mask=d.src(mask, "u32"))


@instruction("shfl", group="warp", forms=".sync.{up,down,bfly,idx}.b32", section="9.7.9.6")
def shfl(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("sync")
    mode = m.need(*SHUFFLES)
    m.need("b32")
    dst, a, b, c, mask = i.operands
    value, p = _pair(d, dst, "b32")
    value = d.temporary(4) if value == NONE else value
    d.emit(
        "shfl",
        dst=value,
        inside=p,
        a=d.src(a, "b32"),
        b=d.src(b, "u32"),
        c=d.src(c, "u32"),
        mask=d.src(mask, "u32"),
        mode=SHUFFLES.index(mode),
    )


@instruction("vote", group="warp", forms=".sync.{all,any,uni}.pred; .sync.ballot.b32", section="9.7.13.9")
def vote(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("sync")
    mode = m.need(*VOTES)
    m.need("b32" if mode == "ballot" else "pred")
    dst, a, mask = i.operands
    p, negated = d.predicate(a)
    d.emit(
        "vote",
        dst=d.dst(dst, "b32" if mode == "ballot" else "pred"),
        source=p,
        mask=d.src(mask, "u32"),
        mode=VOTES.index(mode),
        negated=negated,
    )


@instruction(
    "activemask", group="warp", forms=".b32", section="9.7.13.11", note="the lanes that run together now"
)
def activemask(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("b32")
    d.emit("activemask", dst=d.dst(i.operands[0], "b32"))


@instruction("bar.warp.sync", group="barriers", forms="", section="9.7.13.2")
def warp_sync(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("bar.warp.sync", mask=d.src(i.operands[0], "u32"))


@instruction(
    "bar",
    group="barriers",
    forms=".{sync,arrive}; .cta.{sync,arrive} @ptx7.8; "
    ".red{.popc.u32,.{and,or}.pred}; .cta.red{.popc.u32,.{and,or}.pred} @ptx7.8",
    section="9.7.13.1",
    note="16 per CTA; without a count: all warps that have not exited",
)
@instruction(
    "barrier",
    group="barriers",
    forms=".{sync,arrive}[.aligned]; .cta.{sync,arrive}[.aligned] @ptx7.8; "
    ".red{.popc[.aligned].u32,.{and,or}[.aligned].pred}; "
    ".cta.red{.popc[.aligned].u32,.{and,or}[.aligned].pred} @ptx7.8",
    section="9.7.13.1",
    note="without .aligned each lane arrives separately, and its warp counts when its last lane arrives",
)
def bar(d: Decoder, i: Instruction, m: Modifiers) -> None:
    aligned = bool(m.take("aligned")) or i.opcode.startswith("bar.")
    m.drop("cta", "u32", "pred")
    mode = m.need("sync", "arrive", "red")
    dst, vote, negated = NONE, NONE, 0
    operands = list(i.operands)
    if mode == "red":
        mode = m.need("popc", "and", "or")
        dst = d.dst(operands.pop(0), "u32" if mode == "popc" else "pred")
        vote, negated = d.predicate(operands.pop())
    name, *count = operands
    if mode == "arrive" and not count:
        raise ValueError("bar.arrive needs a thread count")
    after = None if aligned else d.jump_unguarded()
    d.emit(
        "bar",
        id=d.src(name, "u32"),
        threads=d.src(count[0], "u32") if count else NONE,
        dst=dst,
        vote=vote,
        mode=BARRIER_MODES.index(mode),
        aligned=int(aligned),
        negated=negated,
        predicate=-1 if after else None,
    )
    if after:
        d.place_label(after)


@instruction(
    "barrier.cluster.arrive",
    group="barriers",
    forms="[.aligned] @sm_90 @ptx7.8; .{release,relaxed}[.aligned] @sm_90 @ptx8.0",
    section="9.7.13.3",
    note="memory ordering: order only",
)
@instruction(
    "barrier.cluster.wait",
    group="barriers",
    forms="[.aligned] @sm_90 @ptx7.8; .acquire[.aligned] @sm_90 @ptx8.0",
    section="9.7.13.3",
)
def cluster(d: Decoder, i: Instruction, m: Modifiers) -> None:
    relaxed = m.take("release", "relaxed", "acquire") == "relaxed"
    aligned = m.take("aligned")
    d.emit(".".join(i.opcode.split(".")[:3]), aligned=int(bool(aligned)), relaxed=int(relaxed))
