"""Waits whose result nobody heeds: their predicate, and all that is computed from it, is never asked for.

`mbarrier.try_wait` and `test_wait` say whether a phase is over, and the thread goes on in any case (PTX ISA
9.7.13.15.16). A wait tells its thread something only where a way on depends on what it said.
"""

from __future__ import annotations

import re
from collections import deque

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.program import NONE
from tileproof.emulator.slots import layout_of

# No effect but their result, of which the flag of a carry is none; or that time passes.
_COMPUTES = re.compile(
    r"(?:mov|selp|setp|and|or|xor|not|cnot|neg|abs|add|sub|mul|mul24|mad|min|max|shl|shr|shf|lop3|prmt|bfe|bfi|bmsk|"
    r"brev|clz|popc|bfind|szext|sad|cvt|cvta|nanosleep)(?:\.|$)"
)
_ENDS = ("ret", "trap", "brx.none")


def unheeded_waits(code: np.ndarray, vec: list[int]) -> tuple[int, ...]:
    """The places in a decoded program of the waits of which no instruction asks what they said."""
    numbers = _engine.handlers()
    wait = numbers["mbarrier.wait"]
    places = np.flatnonzero(code["handler"] == wait).tolist()
    if not places:
        return ()
    flow = _Flow(code, vec, {number: name for name, number in numbers.items()})
    return tuple(at for at in places if not flow.heeded(at))


class _Flow:
    """Where a value goes from one instruction to the next."""

    def __init__(self, code: np.ndarray, vec: list[int], names: dict[int, str]) -> None:
        self._names = names
        self._handler = code["handler"].tolist()
        self._guard = code["pred"].tolist()
        self._target = code["target"].tolist()
        self._operands = code["o"].tolist()
        self._first, self._count = code["vec"].tolist(), code["nvec"].tolist()
        self._written = code["written"].tolist()
        self._vec = vec

    def _registers(self, at: int) -> tuple[set[int], set[int]]:
        """What an instruction reads, its guard among it, and what it writes."""
        bits = layout_of(self._names[self._handler[at]]).written
        read, written = {self._guard[at]}, set[int]()
        for k, operand in enumerate(self._operands[at]):
            (written if bits >> k & 1 else read).add(operand)
        listed = self._vec[self._first[at] : self._first[at] + self._count[at]]
        begin, end = self._written[at]
        written.update(listed[begin:end])
        read.update(listed[:begin] + listed[end:])
        return read, written - {NONE}

    def _after(self, at: int) -> tuple[int, ...]:
        name, guarded = self._names[self._handler[at]], self._guard[at] >= 0
        if name == "bra":
            return (self._target[at], at + 1) if guarded else (self._target[at],)
        if name in _ENDS and not guarded:
            return ()
        return (at + 1,)

    def heeded(self, wait: int) -> bool:
        """Whether anything but more computing may read what the wait said."""
        _, results = self._registers(wait)
        left = deque((after, one) for one in results for after in self._after(wait))
        seen = set(left)
        while left:
            at, register = left.popleft()
            if at >= len(self._handler):
                continue
            read, written = self._registers(at)
            on = [register]
            if register in read:
                name = self._names[self._handler[at]]
                if name == "bra":
                    if len(set(self._after(at))) > 1:
                        return True
                elif not _COMPUTES.match(name):
                    return True
                on += written
            elif register in written and self._guard[at] < 0:
                on = []
            for state in ((after, one) for one in on for after in self._after(at)):
                if state not in seen:
                    seen.add(state)
                    left.append(state)
        return False
