"""Registers whose value depends on the thread's number alone: their value in each thread, and the threads
that reach an instruction, as far as branches depend on these values.

A register that a single instruction computes from numbers, %tid.x and other such registers always has the
same value. The maximum number of threads of a CTA is that of the entry (`.maxntid`, `.reqntid`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from tileproof.conformance.beside.mutate.bits import EVERY, read
from tileproof.conformance.beside.mutate.code import REGISTER, CodeLine, PtxCode
from tileproof.conformance.beside.mutate.flow import Flow
from tileproof.conformance.beside.mutate.integers import U64, IntegerForm, computed
from tileproof.conformance.beside.mutate.lanes import from_lane

Mask = npt.NDArray[np.bool_]
_THREADS = re.compile(r"\.(?:max|req)ntid\s+(\d+)((?:\s*,\s*\d+)*)")
_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_TYPE = re.compile(r"\.([busf])(16|32|64)$")
_DEPTH = 16  # instructions back along a chain of definitions


@dataclass
class Threads:
    """The threads of an entry's CTA, 0 to `count` - 1; `values` of registers, None where it is not known."""

    code: PtxCode
    count: int
    values: dict[str, U64 | None] = field(default_factory=dict)

    def value(self, operand: str, depth: int = _DEPTH) -> U64 | None:
        """What each thread has in an operand, as 64 bits; a predicate is 0 or 1."""
        if _NUMBER.fullmatch(operand):
            return np.full(self.count, int(operand, 0) & EVERY, np.uint64)
        if operand == "%tid.x":
            return np.arange(self.count, dtype=np.uint64)
        if operand not in self.values and depth:
            made = self.code.definitions.get(operand, ())
            known = len(made) == 1 and not made[0].guard and operand == made[0].operands[0].split("|")[0]
            self.values[operand] = self.made(made[0], depth - 1) if known else None
        return self.values.get(operand)

    def made(self, at: CodeLine, depth: int = _DEPTH) -> U64 | None:
        """What each thread has in the result of an instruction that it executes."""
        kind = _TYPE.search(at.opcode)
        if at.opcode.startswith("shfl"):
            return self._shuffled(at, depth)
        if kind is None or kind[1] == "f" or any("{" in operand or "[" in operand for operand in at.operands):
            return None
        given = [self.value(operand, depth) for operand in at.operands[1:]]
        known = [values for values in given if values is not None]
        if len(known) != len(given):
            return None
        return computed(IntegerForm(tuple(at.opcode.split(".")), kind[1] == "s", int(kind[2])), known)

    def _shuffled(self, at: CodeLine, depth: int) -> U64 | None:
        from_ = from_lane(at)
        value = None if from_ is None else self.value(at.operands[1], depth)
        if from_ is None or value is None or from_[0] > from_[1] or self.count % 32:
            return None
        return np.repeat(value.reshape(-1, 32)[:, from_[0]], 32)

    def coming(self) -> tuple[Mask, ...] | None:
        """The threads that may reach each instruction; None if branches are unknown."""
        flow = Flow.of(self.code)
        if flow is None:
            return None
        masks = [np.zeros(self.count, bool) for _ in self.code.code]
        pending = [0] if masks else []
        if masks:
            masks[0][:] = True
        while pending:
            n = pending.pop()
            for target, mask in self._leaving(flow, n, masks[n]):
                if target >= 0 and (mask & ~masks[target]).any():
                    masks[target] |= mask
                    pending.append(target)
        return tuple(masks)

    def _leaving(self, flow: Flow, n: int, mask: Mask) -> list[tuple[int, Mask]]:
        """The next instructions of an instruction's threads."""
        at, targets = self.code.code[n], flow.after[n]
        asked = self.value(at.guard.lstrip("@!")) if at.guard and len(targets) == 2 else None
        if asked is None:
            return [(target, mask) for target in targets]
        taken = (asked != 0) ^ ("!" in at.guard)
        return [(targets[0], mask & taken), (targets[1], mask & ~taken)]


@lru_cache(maxsize=4)
def threads(code: PtxCode) -> tuple[Threads, tuple[Mask, ...]] | None:
    """The threads of an entry, and those that reach each instruction; None if unknown."""
    start = code.body().start
    head = code.text[: sum(len(line) + 1 for line in code.lines[:start])]
    head = head[head.rindex(".entry") :] if ".entry" in head else ""
    said = _THREADS.search(head)
    if said is None or not code.alone or re.search(r"[1-9]\d+|[2-9]", said[2]):
        return None
    them = Threads(code, int(said[1]))
    coming = them.coming()
    return None if coming is None else (them, coming)


def same(code: PtxCode, at: CodeLine, other: CodeLine) -> str:
    """Why another instruction in the place of one, into the same register, gives every thread that reaches
    it the same bits, as far as they are read; "" if unproved.
    """
    known = threads(code)
    if known is None or len(at.defines) != 1 or at.guard or other.guard:
        return ""
    them, coming = known
    fresh = {name for operand in other.operands[1:] for name in REGISTER.findall(operand)} - at.uses
    if not all(_made_before(code, at, name) for name in fresh):
        return ""
    was, now, here = them.made(at), them.made(other), coming[code.at[at.number]]
    if was is None or now is None:
        return ""
    asked = EVERY if at.opcode.startswith("setp") else read(code, at.operands[0])
    if ((was ^ now) & np.uint64(asked))[here].any():
        return ""
    return f"the same bits, as far as they are read, in each of the {int(here.sum())} threads that execute it"


def never(code: PtxCode, at: CodeLine) -> str:
    """Why a branch is not taken by any thread that reaches it; "" if unproved."""
    known = threads(code)
    if known is None or not at.guard or not at.opcode.startswith("bra"):
        return ""
    them, coming = known
    asked = them.value(at.guard.lstrip("@!"))
    if asked is None or ((asked != 0) ^ ("!" in at.guard))[coming[code.at[at.number]]].any():
        return ""
    return "no thread that reaches it takes the branch"


def _made_before(code: PtxCode, at: CodeLine, register: str) -> bool:
    made: Mapping[str, tuple[CodeLine, ...]] = code.definitions
    return any(line.block == at.block and line.number < at.number for line in made.get(register, ()))
