"""Exchanges between the lanes of a warp: lanes that certainly hold the same value in a register.

After ``x + shfl.bfly(x, m)`` lanes l and l ^ m hold the same bits, because addition commutes; exchanges over
other distances preserve this.
"""

from __future__ import annotations

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

BUTTERFLY = "shfl.sync.bfly.b32"
_DEPTH = 24  # instructions back
_COMMUTES = ("add.f32", "add.rn.f32", "add.s32", "add.u32", "min.f32", "max.f32", "min.s32", "max.s32")


def whole(at: CodeLine) -> bool:
    """Whether it is a butterfly over all 32 lanes, by a number."""
    return (
        at.opcode == BUTTERFLY
        and len(at.operands) == 5
        and at.operands[3:] == ("31", "-1")
        and at.operands[2].isdigit()
        and not at.guard
    )


def made(code: PtxCode, register: str, by: CodeLine) -> CodeLine | None:
    """The one instruction that makes the register which `by` reads, before it in its basic block and without
    a guard; through moves.
    """
    for _ in range(_DEPTH):
        found = code.definitions.get(register, ())
        if len(found) != 1 or found[0].block != by.block or found[0].guard or found[0].number >= by.number:
            return None
        by = found[0]
        if by.opcode not in ("mov.b32", "mov.f32", "mov.u32") or len(by.operands) != 2:
            return by
        register = by.operands[1]
    return None


def alike(code: PtxCode, register: str, by: CodeLine, depth: int = _DEPTH) -> frozenset[int]:
    """Distances d such that lanes l and l ^ d hold the same in the register that `by` reads, 0 among them."""
    at = made(code, register, by)
    if at is None or depth == 0:
        return frozenset((0,))
    if whole(at):
        return alike(code, at.operands[1], at, depth - 1)
    if at.opcode not in _COMMUTES or len(at.operands) != 3:
        return frozenset((0,))
    x, y = at.operands[1:]
    same = alike(code, x, at, depth - 1) & alike(code, y, at, depth - 1)
    for left, other in ((x, y), (y, x)):
        exchange = made(code, other, at)
        if exchange is not None and whole(exchange) and _same(code, exchange, left, at):
            same |= {d ^ int(exchange.operands[2]) for d in same}
    return frozenset(same)


def _same(code: PtxCode, exchange: CodeLine, register: str, by: CodeLine) -> bool:
    """Whether what an exchange gives is what `by` reads in a register."""
    given, read = made(code, exchange.operands[1], exchange), made(code, register, by)
    if given is not None or read is not None:
        return given is read
    # Made in another block: the same register, which nothing writes between the two.
    written = code.definitions.get(register, ())
    return exchange.operands[1] == register and not any(
        exchange.number <= line.number <= by.number for line in written
    )


def from_lane(at: CodeLine) -> tuple[int, int] | None:
    """Lane and clamp of a `shfl.sync.idx` from one lane of the whole warp, both numbers; None of others."""
    if at.opcode != "shfl.sync.idx.b32" or len(at.operands) != 5 or at.guard or at.operands[4] != "-1":
        return None
    if not (at.operands[2].isdigit() and at.operands[3].isdigit()) or int(at.operands[3]) >> 8:
        return None  # bits 8 to 12 cut the warp into parts (PTX ISA 9.7.9.6)
    return int(at.operands[2]) & 31, int(at.operands[3]) & 31
