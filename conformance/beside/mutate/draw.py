"""The mutants that a seed draws.

Operators take turns; each walks the places of the source in an order of the seed alone and takes one
instruction and one variation of a place. Copies of unrolled or inlined code have one place, so they count
once. Places are numbered by their order in the code: no path and no hash enters, and a seed draws the same
mutants on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tileproof.conformance.beside.mutate import values  # noqa: F401  (registers its operators)
from tileproof.conformance.beside.mutate.code import CodeLine, Frame, PtxCode
from tileproof.conformance.beside.mutate.operators import OPERATORS, Variation
from tileproof.conformance.beside.mutate.sources import SOURCE_OPERATORS, walk
from tileproof.spec.machine.errors import TileproofError, did_you_mean


@dataclass(frozen=True)
class Drawn:
    """One drawn mutant: `number` counts from 0 in its draw; `edits` are lines of the PTX, or texts of
    sources (path -> text) when it was drawn from them.
    """

    number: int
    operator: str
    what: str
    frames: tuple[Frame, ...]
    opcode: str = ""
    lines: dict[int, str] = field(default_factory=dict, repr=False)
    sources: dict[str, str] = field(default_factory=dict, repr=False)


Site = tuple[CodeLine, tuple[Variation, ...]]


def places(code: PtxCode, operator: str) -> list[list[Site]]:
    """The sites of an operator, grouped by source place, in order of first appearance."""
    found: dict[tuple[Frame, ...], list[Site]] = {}
    for at in code.code:
        variations = tuple(OPERATORS[operator](code, at))
        if variations:
            found.setdefault(at.frames, []).append((at, variations))
    return list(found.values())


@dataclass(frozen=True)
class Pool:
    """What is drawn from: the compiled code, and the kernel's sources (path -> text; `prefix` is what their
    paths begin with in the PTX).
    """

    code: PtxCode
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str = ""

    def walk(self, operator: str, seed: int) -> Iterator[tuple[int, Drawn]]:
        """The operator's mutants, each with how often its place came before; all have number 0."""
        times: Counter[tuple[Frame, ...]] = Counter()
        for drawn in self._mutants(operator, seed):
            yield times[drawn.frames], drawn
            times[drawn.frames] += 1

    def _mutants(self, operator: str, seed: int) -> Iterator[Drawn]:
        if operator in SOURCE_OPERATORS:
            for what, frame, changed in walk(self.code, self.sources, self.prefix, operator, seed):
                yield Drawn(0, operator, what, (frame,), sources=changed)
        else:
            for at, change in _walk(self.code, operator, seed):
                yield Drawn(0, operator, change.what, at.frames, at.opcode, dict(change.lines))


def draw(pool: Pool, operators: Sequence[str], seed: int, rounds: int | None = None) -> Iterator[Drawn]:
    """Mutants until every place of every operator has had each of its changes, or `rounds` of them. No place
    repeats before all places of all operators were drawn.
    """
    turns = {name: pool.walk(name, seed) for name in operators}
    ready: dict[str, tuple[int, Drawn]] = {}
    number, round_ = 0, 0
    while turns:
        later = 0
        for name in list(turns):
            ahead = ready.pop(name, None) or next(turns[name], None)
            if ahead is None:
                del turns[name]
            elif ahead[0] > round_:
                ready[name] = ahead
                later += 1
            else:
                yield replace(ahead[1], number=number)
                number += 1
        if turns and later == len(turns):
            round_ += 1
            if round_ == rounds:
                return


def stands_at(drawn: Drawn, places: Sequence[tuple[str, int]]) -> bool:
    """Whether the changed code, or one of its callers, is at one of the places (the end of a path, and a
    line or 0 for any line of the file).
    """
    return any(
        line in (0, at) and f"/{file}".endswith(f"/{end}")
        for end, line in places
        for file, at in drawn.frames
    )


def places_named(texts: Sequence[str]) -> list[tuple[str, int]]:
    """FILE or FILE:LINE, read; TileproofError for anything else."""
    found = []
    for text in texts:
        match = re.fullmatch(r"([^:]+)(?::([1-9]\d*))?", text)
        if match is None:
            raise TileproofError(
                "not a place", where="--at", expected="FILE or FILE:LINE, as softmax.cuh:80", found=text
            )
        found.append((match[1].lstrip("/"), int(match[2] or 0)))
    return found


def _walk(code: PtxCode, operator: str, seed: int) -> Iterator[tuple[CodeLine, Variation]]:
    random = Random(f"{seed}/{operator}")
    pending = [(sites, set[tuple[int, int]]()) for sites in places(code, operator)]
    while pending:
        order = list(range(len(pending)))
        random.shuffle(order)
        for n in order:
            sites, taken = pending[n]
            choices = [(s, v) for s, (_, them) in enumerate(sites) for v in range(len(them))]
            unused = [choice for choice in choices if choice not in taken]
            site, which = random.choice(unused)
            taken.add((site, which))
            yield sites[site][0], sites[site][1][which]
        pending = [
            (sites, taken) for sites, taken in pending if len(taken) < sum(len(them) for _, them in sites)
        ]


def wanted(names: str | None) -> list[str]:
    """The operators in a comma-separated list, by default all; the TileproofError lists all."""
    if names is None:
        return [*OPERATORS, *SOURCE_OPERATORS]
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in OPERATORS and name not in SOURCE_OPERATORS:
            raise TileproofError(
                "unknown operator",
                where="--operators",
                expected=", ".join((*OPERATORS, *SOURCE_OPERATORS)),
                found=name,
                do=did_you_mean(name, (*OPERATORS, *SOURCE_OPERATORS)),
            )
    return found
