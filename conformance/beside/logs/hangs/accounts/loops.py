"""The loops of roles that a log states: `loop of mma: k x4 { wait full; commit empty(k-1) }`.

A line that names roles and then barriers, and is no event. What is done at a barrier follows from the role's
steps, so that the words do not matter. A bracket, or `//`, ends a part; parts with the same words in front
are one loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tileproof.conformance.beside.logs.hangs.log import Actor

_LATER = r"\(\s*[A-Za-z]+\s*[-\u2212]\s*(\d{1,3})\s*\)"  # `empty(k-2)`: in round k for round k - 2
_CTA = re.compile(r"(?i)(?:cta|block|блок)\s*(\d{1,4})|@(\d{1,4})")
_ENDS = re.compile(r"[}\]]|\)(?!\s*:)|//|(?<=[^\s=-])>")
MOST_LINES = 400  # in which loops are looked for


@dataclass(frozen=True)
class StatedLoop:
    """`steps`: the barriers in order, each with the number of rounds that it lags behind."""

    role: str
    ctas: frozenset[int]  # empty: of all
    steps: tuple[tuple[str, int], ...]


def _any_of(names: Iterable[str]) -> str:
    words = "|".join(map(re.escape, sorted(names, key=lambda name: (-len(name), name))))
    return rf"(?<![\w]){'(' + words + ')'}(?![\w])"


def stated_loops(lines: Sequence[str], roles: set[str], barriers: set[str]) -> list[StatedLoop]:
    """The loops that lines state; the lines are no events."""
    roles, barriers = roles - {""}, barriers - {""}
    if not roles or not barriers:
        return []
    of_role = re.compile(_any_of(roles))
    of_barrier = re.compile(_any_of(barriers) + rf"(?:{_LATER})?")
    found = []
    for text in lines[:MOST_LINES]:
        first = of_barrier.search(text)
        named = [*of_role.finditer(text, 0, first.start())] if first else []
        if not first or not named or not _ENDS.search(text, first.end()):
            continue
        head = text[: first.start()]
        places = [*_CTA.finditer(head)]
        ctas = frozenset(int(each[1] or each[2]) for each in places)
        start = max(each.end() for each in (named[-1], *places))
        for steps in _loops(text, start, of_barrier).values():
            if len(steps) > 1:
                found += [StatedLoop(role, ctas, tuple(steps)) for role in {each[1] for each in named}]
    return found


def _loops(text: str, start: int, of_barrier: re.Pattern[str]) -> dict[str, list[tuple[str, int]]]:
    """The steps of each loop of a line, by the words in front of it."""
    loops: dict[str, list[tuple[str, int]]] = {}
    label, at = "", start
    for each in of_barrier.finditer(text, start):
        ended = [*_ENDS.finditer(text, at, each.start())]
        if not label or ended:
            words = re.findall(r"[^\W\d_]+", text[ended[-1].end() if ended else at : each.start()])
            label = words[0] if words else "?"
        loops.setdefault(label, []).append((each[1], int(each[2] or 0)))
        at = each.end()
    return loops


def loop_of(loops: Iterable[StatedLoop], actor: Actor, *barriers: str) -> StatedLoop | None:
    """The only loop of an actor that has all of these barriers, each once."""
    mine = [
        loop
        for loop in loops
        if loop.role == actor.role
        and (not loop.ctas or actor.cta in loop.ctas)
        and all([name for name, _ in loop.steps].count(barrier) == 1 for barrier in barriers)
    ]
    return mine[0] if len(mine) == 1 else None
