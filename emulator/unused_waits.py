"""Results that nothing uses: no branch, store or other effect depends on them.

`mbarrier.try_wait` and `test_wait` return whether a phase is complete; the thread continues in either case
(PTX ISA 9.7.13.15.16). Such a wait synchronises only if control flow or an effect depends on the returned
predicate. The state that `mbarrier.arrive` returns has the phase and the count of pending arrivals; as the
token of a wait it names the phase alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.program import NONE
from tileproof.emulator.slots import layout_of

# Instructions whose only effect is their result (without a carry flag), or a delay.
_COMPUTES = re.compile(
    r"(?:mov|selp|setp|and|or|xor|not|cnot|neg|abs|add|sub|mul|mul24|mad|min|max|shl|shr|shf|lop3|prmt|bfe|bfi|bmsk|"
    r"brev|clz|popc|bfind|szext|sad|cvt|cvta|nanosleep)(?:\.|$)"
)
_COPIES = re.compile(r"mov\.64$")
_ENDS = ("ret", "trap", "brx.none")


def unused_waits(code: np.ndarray, vec: list[int]) -> tuple[int, ...]:
    """Return the indices of the waits in a decoded program whose result is unused."""
    numbers = _engine.handlers()
    wait = numbers["mbarrier.wait"]
    places = np.flatnonzero(code["handler"] == wait).tolist()
    if not places:
        return ()
    flow = Flow(code, vec, {number: name for name, number in numbers.items()})
    return tuple(at for at in places if not flow.result_used(at))


def used_states(code: np.ndarray, vec: list[int]) -> tuple[int, ...]:
    """Return the indices of the arrivals whose state is used as anything but the token of a wait."""
    numbers = _engine.handlers()
    state = layout_of("mbarrier.arrive").operands.index("dst")
    arrivals = (code["handler"] == numbers["mbarrier.arrive"]) & (code["o"][:, state] != NONE)
    places = np.flatnonzero(arrivals).tolist()
    if not places:
        return ()
    flow = Flow(code, vec, {number: name for name, number in numbers.items()})
    return tuple(at for at in places if flow.state_used(at))


class Flow:
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
        wait = layout_of("mbarrier.wait")
        self._token = wait.operands.index("value")
        self._parity = code["m"][:, wait.modifiers.index("parity")].tolist()

    def registers(self, at: int) -> tuple[set[int], set[int]]:
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
        return self.used(self.registers(wait)[1], self._after(wait))

    def state_used(self, arrival: int) -> bool:
        """Return whether anything but the phase of an arrival's state may have an effect."""
        computed: list[tuple[int, int]] = []

        def read_by(at: int, register: int) -> set[int] | None:
            name, written = self._names[self._handler[at]], self.registers(at)[1]
            if _COPIES.match(name):
                return written
            if _COMPUTES.match(name):
                computed.extend(product(self._after(at), written))
            elif not self._is_token(at, register):
                return None
            return set()

        state = self.registers(arrival)[1]
        return self._reaches(product(self._after(arrival), state), read_by) or self._reaches(
            computed, self._carried
        )

    def _is_token(self, at: int, register: int) -> bool:
        """Return whether an instruction is a wait for the phase of a state, and reads nothing else of it."""
        if self._names[self._handler[at]] != "mbarrier.wait" or self._parity[at]:
            return False
        return [k for k, operand in enumerate(self._operands[at]) if operand == register] == [self._token]

    def used(self, registers: Iterable[int], places: Iterable[int]) -> bool:
        """Return whether an instruction with an effect may depend on the registers' values at the places."""
        return self._reaches(product(places, registers), self._carried)

    def _carried(self, at: int, _: int) -> set[int] | None:
        """Return the registers that depend on what an instruction reads; None for an effect."""
        name = self._names[self._handler[at]]
        if len(set(self._after(at))) > 1 if name == "bra" else not _COMPUTES.match(name):
            return None
        return self.registers(at)[1]

    def _reaches(
        self, values: Iterable[tuple[int, int]], read_by: Callable[[int, int], set[int] | None]
    ) -> bool:
        """Follow values, each a place and a register. `read_by`: the registers that an instruction passes the
        value on to; None ends the search.
        """
        pending = deque(values)
        seen = set(pending)
        while pending:
            at, register = pending.popleft()
            if at >= len(self._handler):
                continue
            read, written = self.registers(at)
            on = {register}
            if register in read:
                further = read_by(at, register)
                if further is None:
                    return True
                on |= further
            elif register in written and self._guard[at] < 0:
                on = set()
            for state in product(self._after(at), on):
                if state not in seen:
                    seen.add(state)
                    pending.append(state)
        return False
