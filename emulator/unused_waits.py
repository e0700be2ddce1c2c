"""Waits whose result is unused: no branch, store or other effect depends on their predicate.

`mbarrier.try_wait` and `test_wait` return whether a phase is complete; the thread continues in either case
(PTX ISA 9.7.13.15.16). Such a wait synchronises only if control flow or an effect depends on the returned
predicate.
"""

from __future__ import annotations

import re
from collections import deque

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.program import NONE
from tileproof.emulator.slots import layout_of

# Instructions whose only effect is their result (without a carry flag), or a delay.
_COMPUTES = re.compile(
    r"(?:mov|selp|setp|and|or|xor|not|cnot|neg|abs|add|sub|mul|mul24|mad|min|max|shl|shr|shf|lop3|prmt|bfe|bfi|bmsk|"
    r"brev|clz|popc|bfind|szext|sad|cvt|cvta|nanosleep)(?:\.|$)"
)
_ENDS = ("ret", "trap", "brx.none")


def unused_waits(code: np.ndarray, vec: list[int]) -> tuple[int, ...]:
    """Return the indices of the waits in a decoded program whose result is unused."""
    numbers = _engine.handlers()
    wait = numbers["mbarrier.wait"]
    places = np.flatnonzero(code["handler"] == wait).tolist()
    if not places:
        return ()
    flow = _Flow(code, vec, {number: name for name, number in numbers.items()})
    return tuple(at for at in places if not flow.result_used(at))


class _Flow:
    """Data flow of registers from one instruction to the next."""

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
        """Return the registers that an instruction reads, including its guard, and those that it writes."""
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

    def result_used(self, wait: int) -> bool:
        """Return whether an instruction with an effect may depend on the result of the wait."""
        _, results = self._registers(wait)
        pending = deque((after, result) for result in results for after in self._after(wait))
        seen = set(pending)
        while pending:
            at, register = pending.popleft()
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
            for state in ((after, live) for live in on for after in self._after(at)):
                if state not in seen:
                    seen.add(state)
                    pending.append(state)
        return False
