"""Waits whose early false result has no effect: their threads only repeat the wait (docs/certificate.md).

`mbarrier.try_wait` may return false at any time (PTX ISA 9.7.13.15.16). A wait is plain when a false result
leads back to the wait, or to another wait for the same phase with the same continuation, past instructions
that leave the same registers however often they run. Registers that depend on the number of false results
must be dead where the ways after a true and after a false result meet.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from tileproof.emulator import _engine
from tileproof.emulator.program import NONE
from tileproof.emulator.slots import layout_of
from tileproof.emulator.unused_waits import Flow

# Instructions that only compute their destinations from their sources.
_PURE = re.compile(
    r"(?:mov|selp|setp|and|or|xor|not|neg|add|sub|mul|mul24|mad|min|max|shl|shr|lop3|prmt|bfe|cvt|cvta)(?:\.|$)"
)
_NOTHING = re.compile(r"nanosleep(?:\.|$)")
_LONGEST = 64  # instructions from a wait to the next
# Modifiers of two waits for the same phase with the same effect; a relaxed wait orders less.
_SAME = [layout_of("mbarrier.wait").modifiers.index(name) for name in ("space", "width", "parity", "reach")]


class _End(NamedTuple):
    """Where a walk stops, the values that it has derived from the result, and what it has computed else."""

    at: int
    values: dict[int, int]
    computed: tuple[int, ...]


class Waits:
    """The waits of one decoded program."""

    def __init__(self, code: np.ndarray, vec: list[int], constants: bytes) -> None:
        self._names = {number: name for name, number in _engine.handlers().items()}
        self._code, self._vec, self._constants = code, vec, constants
        self._targets = frozenset(code["target"].tolist())
        self._flow = Flow(code, vec, self._names)
        self._known: dict[int, bool] = {}

    def plain(self, wait: int) -> bool:
        """Return whether a false result of this wait has no effect but another wait for the same phase."""
        if wait not in self._known:
            self._known[wait] = False  # while it is looked at
            self._known[wait] = self._plain(wait)
        return self._known[wait]

    def _plain(self, wait: int) -> bool:
        result = int(self._code[wait]["o"][0])
        end = self._walk(wait, {result: 0})
        if self._name(end.at) != "mbarrier.wait" or not self._waits_again(wait, end):
            return False
        if end.at == wait:
            # Nothing has derived these registers before the first wait.
            differ = end.values.keys() - {result}
            return all(at < wait and self._leads_to(at, wait) for at in end.computed) and not self._flow.used(
                differ, [wait + 1]
            )
        if end.computed or not self.plain(end.at):
            return False
        here = self._walk(wait, {result: 1})
        there = self._walk(end.at, {**end.values, int(self._code[end.at]["o"][0]): 1})
        if here.at != there.at or here.computed != there.computed:
            return False
        either = here.values.keys() | there.values.keys()
        differ = {register for register in either if here.values.get(register) != there.values.get(register)}
        return not self._flow.used(differ, [here.at])

    def _waits_again(self, wait: int, end: _End) -> bool:
        """Return whether a thread with a false result of `wait` executes the wait at the end of its walk, and
        waits there for the same phase, with the same order."""
        first, again = self._code[wait], self._code[end.at]
        guard, negated = int(again["pred"]), bool(again["pred_neg"])
        if guard in end.values:
            runs = bool(end.values[guard]) != negated
        else:
            runs = guard < 0 or (guard == first["pred"] and negated == bool(first["pred_neg"]))
        return (
            runs and self._key(end.at) == self._key(wait) and not end.values.keys() & set(self._key(wait)[:2])
        )

    def _name(self, at: int) -> str:
        return self._names[int(self._code[at]["handler"])]

    def _key(self, at: int) -> tuple[int, ...]:
        row = self._code[at]
        return (*row["o"][1:3].tolist(), int(row["imm"]), *(int(row["m"][slot]) for slot in _SAME))

    def _leads_to(self, at: int, wait: int) -> bool:
        """Return whether every run of `wait` directly follows a run of `at`."""
        return not any(at < target <= wait for target in self._targets)

    def _walk(self, wait: int, values: dict[int, int]) -> _End:
        """Continue from a wait with a known result, up to an instruction that does not depend on known
        values."""
        at, computed = wait + 1, dict[int, None]()
        # `skipped`: what instructions that do not run here write; before the first wait they may have run.
        read_first, written, skipped = set[int](), set[int](), set[int]()
        for _ in range(_LONGEST):
            row, name = self._code[at], self._name(at)
            guard = int(row["pred"])
            if guard >= 0 and guard not in values:
                break
            runs = guard < 0 or bool(values[guard]) != bool(row["pred_neg"])
            if name == "bra":
                at = int(row["target"]) if runs else at + 1
                continue
            if name == "mbarrier.wait":
                break
            if _NOTHING.match(name):
                at += 1
                continue
            reads, writes = self._flow.registers(at)
            reads = {register for register in reads if register >= 0}
            if not runs:
                if writes & (read_first | written | values.keys()):
                    break
                skipped |= writes
                at += 1
                continue
            if not _PURE.match(name) or row["nvec"] or (reads | writes) & skipped:
                break
            if reads & values.keys():  # a guard is read, too
                value = self._value(name, row, values)
                if value is None or writes & read_first:
                    break
                values = {**values, **dict.fromkeys(writes, value)}
            else:
                read_first |= reads - written
                if writes & read_first or writes & values.keys():
                    break
                written |= writes
                computed[at] = None
            at += 1
        return _End(at, values, tuple(computed))

    def _value(self, name: str, row: np.void, values: dict[int, int]) -> int | None:
        """Return what an instruction computes from known values; None where that is not decided here."""
        operands, operation = row["o"].tolist(), name.split(".")

        def known(o: int) -> int | None:
            if o in values:
                return values[o]
            if o >= 0 or o == NONE:
                return None
            return int.from_bytes(self._constants[~o : ~o + 4], "little")

        if operation[0] == "selp":
            chosen = values.get(operands[3] if len(operands) > 3 else NONE)
            return None if chosen is None else known(operands[1] if chosen else operands[2])
        a, b = known(operands[1]), known(operands[2])
        if operation[0] == "mov" and len(operation) == 2 and operation[1] in ("pred", "32"):
            return a
        if name == "not.pred" and a is not None:
            return int(not a)
        if a is None or b is None:
            return None
        if (
            operation[0] == "setp"
            and operation[1] in ("eq", "ne")
            and operands[3] == NONE
            and not row["m"][0]
        ):
            return int((a == b) == (operation[1] == "eq"))
        return {"and": a & b, "or": a | b, "xor": a ^ b}.get(operation[0])
