"""The wait that each test of an mbarrier belongs to: ptxas compiles a wait loop of PTX into a first and a
repeated test.

The first test precedes the loop and has the line of the PTX before the loop. If it fails, it branches to the
repeated test, which has the line of the wait. On the machine a first test waits for a time that the hardware
limits. The model lets it wait for the whole wait, and never runs the repeated test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileproof.conformance.beside.timing.sass import Sass
from tileproof.spec.machine.errors import TileproofError

_FAR = 24  # instructions from a failing first test to the repeated test
_BARRIER = re.compile(r"\[(?:(?:U?R\d+|URZ|RZ)(?:\+URZ)?\+?)*(0x[0-9a-f]+)?\]")


@dataclass(frozen=True)
class WaitTests:
    """`sass` with the first looks, and the branches behind them, at the line of their wait: `changed` has
    their indices. `repeated`: first and end of code that runs only when a first look failed."""

    sass: list[Sass]
    changed: set[int]
    repeated: list[tuple[int, int]]


def resolved(sass: Sequence[Sass]) -> WaitTests:
    """Assign each first test to its wait; TileproofError if its repeated test uses a different barrier."""
    out = list(sass)
    changed: set[int] = set()
    repeated: list[tuple[int, int]] = []
    for at, instruction in enumerate(sass):
        if not is_wait_test(instruction):
            continue
        branch = _failing(sass, at)
        if branch is None:
            continue
        (target,) = sass[branch].targets
        again = _look_from(sass, target)
        if again is None or again == at or target <= at < branch:
            continue
        if _offset(instruction) != _offset(sass[again]):
            raise TileproofError(
                "a failing test of a barrier leads to a test of another barrier",
                where=f"SASS {instruction.address:#x} and {sass[again].address:#x}",
                expected=str(instruction), found=str(sass[again]), do="report it with the kernel's PTX",
            )  # fmt: skip
        for index in (at, branch):
            out[index] = replace(sass[index], line=sass[again].line)
        changed |= {at, branch}
        repeated.append((target, _end(sass, again)))
    return WaitTests(out, changed, repeated)


def is_wait_test(instruction: Sass) -> bool:
    """Whether it tests a barrier's phase."""
    return instruction.opcode.startswith("SYNCS.PHASECHK")


def _failing(sass: Sequence[Sass], at: int) -> int | None:
    """The branch that a look takes when the phase is not complete."""
    predicate = sass[at].operands.split(",")[0]
    for index in range(at + 1, min(at + 1 + _FAR, len(sass))):
        instruction = sass[index]
        if (
            instruction.root == "BRA"
            and instruction.guard == f"!{predicate}"
            and len(instruction.targets) == 1
        ):
            return index
        if (
            instruction.root in ("BRA", "BRX", "EXIT", "RET")
            or instruction.operands.split(",")[0] == predicate
        ):
            return None
    return None


def _look_from(sass: Sequence[Sass], at: int) -> int | None:
    """The first look from there on, where nothing branches on the way but without a condition."""
    for _ in range(_FAR):
        if at >= len(sass):
            return None
        instruction = sass[at]
        if is_wait_test(instruction):
            return at
        if instruction.root in ("SYNCS", "BAR", "EXIT", "RET", "BRX"):
            return None
        if instruction.targets:
            if instruction.guard or instruction.falls_through:
                return None
            at = instruction.targets[0]
        else:
            at += 1
    return None


def _end(sass: Sequence[Sass], again: int) -> int:
    """Index after the branch that repeats the test and the following exit branch."""
    for index in range(again + 1, min(again + 1 + _FAR, len(sass))):
        if sass[index].root == "BRA" and not sass[index].falls_through:
            return index + 1
    return again + 1


def _offset(instruction: Sass) -> str:
    found = _BARRIER.search(instruction.operands)
    return (found[1] or "") if found else instruction.operands
