"""Non-bulk asynchronous copies, cp.async, their groups and their mbarrier arrivals (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE
from tileproof.emulator.ptx import Immediate, Instruction, Name, Operand
from tileproof.emulator.registry import Modifiers, instruction
from tileproof.emulator.slots import slots

slots("cp.async", operands="dst src size ignore", modifiers="bytes ignore_negated", visible=True)
slots("cp.async.commit", modifiers="", visible=True)
slots("cp.async.wait", modifiers="all", visible=True)  # imm: the groups that may stay pending
slots("cp.async.arrive", operands="barrier", modifiers="noinc", visible=True)


def _is_predicate(d: Decoder, operand: Operand) -> bool:
    if not isinstance(operand, Name):
        return False
    found = d.lookup(operand.name)
    return found is not None and getattr(found, "bytes", None) == 0


@instruction(
    "cp.async",
    group="asynchronous copies",
    forms=".{ca,cg}.{shared,shared::cta}.global[.L2::cache_hint][.{L2::64B,L2::128B,L2::256B}] @sm_80",
    section="9.7.9.25.3.1",
    note="an operation of the generic proxy; the schedule policy determines its completion; until then its "
    "bytes read as poison; bytes beyond src-size are zero, and all are when ignore-src holds",
)
def copy(d: Decoder, i: Instruction, m: Modifiers) -> None:
    cached = m.need("ca", "cg")
    m.need("shared", "shared::cta")
    m.need("global")
    operands = list(i.operands)
    if m.take("L2::cache_hint"):
        d.src(operands.pop(), "b64")
    m.drop_prefix("L2::")
    dst, src, bytes_, *rest = operands
    if not isinstance(bytes_, Immediate) or bytes_.value not in ((4, 8, 16) if cached == "ca" else (16,)):
        raise ValueError("cp-size is 4, 8 or 16, and 16 for .cg")
    if len(rest) > 1:
        raise ValueError("src-size and ignore-src exclude each other")
    ignore, negated, count = NONE, 0, NONE
    if rest and _is_predicate(d, rest[0]):
        ignore, negated = d.predicate(rest[0])
    elif rest:
        count = d.src(rest[0], "u32")
    d.emit(
        "cp.async",
        dst=d.address_slot(dst, 4),
        src=d.address_slot(src, 8),
        size=count,
        ignore=ignore,
        bytes=int(bytes_.value),
        ignore_negated=negated,
    )


@instruction(
    "cp.async.commit_group",
    group="asynchronous copies",
    forms="@sm_80",
    section="9.7.9.25.3.2",
)
def commit(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("cp.async.commit")


@instruction(
    "cp.async.wait_group",
    group="asynchronous copies",
    forms="@sm_80",
    section="9.7.9.25.3.3",
    note="its copies are visible to the executing thread; other threads need a barrier",
)
@instruction("cp.async.wait_all", group="asynchronous copies", forms="@sm_80", section="9.7.9.25.3.3")
def wait(d: Decoder, i: Instruction, m: Modifiers) -> None:
    if i.opcode == "cp.async.wait_all":
        d.emit("cp.async.wait", all=1)
        return
    (count,) = i.operands
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("an immediate count is needed, 0 or more")
    d.emit("cp.async.wait", imm=count.value, all=0)


@instruction(
    "cp.async.mbarrier.arrive",
    group="asynchronous copies",
    forms="[.noinc][.{shared,shared::cta}].b64 @sm_80",
    section="9.7.13.15.15",
    note="it arrives when this thread's earlier cp.async are complete; without .noinc the pending "
    "count is raised by one at once",
)
def arrive(d: Decoder, i: Instruction, m: Modifiers) -> None:
    noinc = m.take("noinc")
    m.take("shared", "shared::cta")
    m.need("b64")
    (barrier,) = i.operands
    d.emit("cp.async.arrive", barrier=d.address_slot(barrier, 4), noinc=int(bool(noinc)))
