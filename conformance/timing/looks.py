"""Which wait a look at an mbarrier belongs to: ptxas makes a loop of PTX a first look and a repeated one.

The first look stands before the loop and carries the line of what stands before the loop in PTX; the repeated
one, to which a failing first look branches, carries the line of the wait. On the machine a first look waits
itself, for as long as the hardware lets it; the model lets it wait for as long as the wait takes, and the
repeated one never runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileproof.conformance.timing.sass import Sass
from tileproof.spec.machine.errors import TileproofError

_FAR = 24  # instructions from a failing look to the repeated one
_BARRIER = re.compile(r"\[(?:(?:U?R\d+|URZ|RZ)(?:\+URZ)?\+?)*(0x[0-9a-f]+)?\]")


@dataclass(frozen=True)
class Looks:
    """`sass` with the first looks, and the branches behind them, at the line of their wait: `changed` has
    their indices. `repeated`: first and end of code that runs only when a first look failed."""

    sass: list[Sass]
    changed: set[int]
    repeated: list[tuple[int, int]]


def resolved(sass: Sequence[Sass]) -> Looks:
    """TileproofError when a first look and the repeated one are about different barriers."""
    out = list(sass)
    changed: set[int] = set()
    repeated: list[tuple[int, int]] = []
    for at, one in enumerate(sass):
        if not is_look(one):
            continue
        branch = _failing(sass, at)
        if branch is None:
            continue
        (target,) = sass[branch].targets
        again = _look_from(sass, target)
        if again is None or again == at or target <= at < branch:
            continue
        if _offset(one) != _offset(sass[again]):
            raise TileproofError(
                "a look at a barrier leads to one at another barrier when it fails",
                where=f"SASS {one.address:#x} and {sass[again].address:#x}", expected=str(one),
                found=str(sass[again]), do="report it with the kernel's PTX",
            )  # fmt: skip
        for index in (at, branch):
            out[index] = replace(sass[index], line=sass[again].line)
        changed |= {at, branch}
        repeated.append((target, _end(sass, again)))
    return Looks(out, changed, repeated)


def is_look(one: Sass) -> bool:
    """Whether it asks for a barrier's phase."""
    return one.opcode.startswith("SYNCS.PHASECHK")


def _failing(sass: Sequence[Sass], at: int) -> int | None:
    """The branch that a look takes when the phase is not complete."""
    predicate = sass[at].operands.split(",")[0]
    for index in range(at + 1, min(at + 1 + _FAR, len(sass))):
        one = sass[index]
        if one.root == "BRA" and one.guard == f"!{predicate}" and len(one.targets) == 1:
            return index
        if one.root in ("BRA", "BRX", "EXIT", "RET") or one.operands.split(",")[0] == predicate:
            return None
    return None


def _look_from(sass: Sequence[Sass], at: int) -> int | None:
    """The first look from there on, where nothing branches on the way but without a condition."""
    for _ in range(_FAR):
        if at >= len(sass):
            return None
        one = sass[at]
        if is_look(one):
            return at
        if one.root in ("SYNCS", "BAR", "EXIT", "RET", "BRX"):
            return None
        if one.targets:
            if one.guard or one.falls_through:
                return None
            at = one.targets[0]
        else:
            at += 1
    return None


def _end(sass: Sequence[Sass], again: int) -> int:
    """Behind the branch that repeats the look, and behind the one that leaves then."""
    for index in range(again + 1, min(again + 1 + _FAR, len(sass))):
        if sass[index].root == "BRA" and not sass[index].falls_through:
            return index + 1
    return again + 1


def _offset(one: Sass) -> str:
    found = _BARRIER.search(one.operands)
    return (found[1] or "") if found else one.operands
