"""Causes of a wrong output when only the output is known: fault hypotheses of earlier stages.

Each hypothesis is a stage that is wrong in a known way. The stages after it are evaluated from what it would
have left, and the output that results is compared with the output found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.compare import Divergence
from tileproof.conformance.observe.tiles import F64, Chain, Key, StageTile
from tileproof.conformance.tensors.parts import PartialChain
from tileproof.spec import numerics
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine.finding import Finding
from tileproof.spec.problems.base import TileCoord, upstream
from tileproof.spec.problems.faults import WrongTile

LEAST_SHARE = 0.98  # of the wrong elements that a hypothesis must give, to be named
SHOWN = 3
FACTORS = {"-1 (sign)": -1.0, "2": 2.0, "1/2": 0.5, "0": 0.0}


@dataclass(frozen=True)
class Hypothesis:
    """A stage, what is wrong with it, and the share of the output's wrong elements that this gives."""

    stage: str
    words: str
    share: float


def explained(finding: Finding, ranked: list[Hypothesis]) -> Finding:
    """The finding with the likeliest hypothesis as its cause, the others, and the stages to dump next."""
    if not ranked:
        return finding
    first, *others = ranked
    evidence = [f"also possible: {item.words} ({item.share:.0%} of the wrong elements)" for item in others]
    stages = list(dict.fromkeys(item.stage for item in ranked))
    evidence.append(f"to confirm it, dump {' and '.join(stages)} too")
    return replace(finding, cause=f"as if {first.words}", evidence=(*finding.evidence, *evidence))


def ranked_hypotheses(chain: PartialChain, divergence: Divergence) -> list[Hypothesis]:
    """The best hypotheses about stages before a wrong tile, the likeliest first."""
    tile, reference = divergence.tile, divergence.reference
    found = tile.value.astype(np.float64)

    def there(other: Chain) -> tuple[F64, F64]:
        again = other.reference(tile.stage, tile.coord, tile.rows, tile.cols)
        return again.value, again.bound

    wrong = divergence.wrong & tile.written
    return _ranked(
        chain, tile.stage, tile.coord.group, tile, found, wrong, (reference.value, reference.bound), there
    )


def ranked_for_rows(
    chain: PartialChain, stage: str, found: F64, wrong: npt.NDArray[np.bool_], rows: npt.NDArray[np.int64]
) -> list[Hypothesis]:
    """The same for rows of an output that only the chain's group adds to: `found` and `wrong`
    ``[rows, columns]``, `rows` their numbers, ascending.
    """

    def sums(of: Chain) -> tuple[F64, F64]:
        made = RowSums.of(rows, found.shape[1])
        index, live = of.problem.rows(of.inputs, of.tiling, 0, stage)
        at = np.flatnonzero(live & np.isin(index, rows))
        term = of.whole(stage, 0).value
        made.add(index[at], term.value[at], term.errors[at])
        return made.value, made.bound()

    return _ranked(chain, stage, 0, None, found, wrong, sums(chain), sums)


def _ranked(
    chain: PartialChain,
    stage: str,
    group: int,
    tile: StageTile | None,
    found: F64,
    wrong: npt.NDArray[np.bool_],
    right: tuple[F64, F64],
    there: Callable[[Chain], tuple[F64, F64]],
) -> list[Hypothesis]:
    """Every hypothesis about stages before `stage` that gives the wrong elements. `there`: value and bound of
    what was found, by another chain.
    """
    if not wrong.any():
        return []
    ranked = []
    own = [item for item in chain.own_tiles.values() if item.stage not in (stage, *chain.pieces)]
    own += [item for some in chain.pieces.values() for item in some if item.stage != stage]
    held = {item.stage for item in own}
    if tile is not None:
        own.append(tile)  # whether its rounded copy is what was seen
    for name in upstream(chain.problem, stage):
        if name in held:
            continue
        for words, tiles, own_to_problem in alternatives(chain, name, group):
            known = [*own, *tiles.values()]
            other = PartialChain(chain.inputs, known, problem=chain.problem, tiling=chain.tiling)
            with np.errstate(invalid="ignore", over="ignore"):
                value, bound = there(other)
                # A hypothesis that changes nothing, or less than its own bound, explains nothing.
                least = np.maximum(right[1], bound) / 2
                gives = (np.abs(found - value) <= bound) & (np.abs(value - right[0]) > least)
            share = float(gives[wrong].mean())
            if share >= LEAST_SHARE:
                ranked.append(
                    (-round(share, 2), not own_to_problem, Hypothesis(name, f"in {name} {words}", share))
                )
    # Of two that give the same, a mistake that the problem knows is likelier than a factor.
    return [item for *_, item in sorted(ranked, key=lambda item: item[:2])[:SHOWN]]


def alternatives(chain: Chain, name: str, group: int) -> Iterator[tuple[str, dict[Key, StageTile], bool]]:
    """Words, the tiles of a stage over a group, and whether the problem has this hypothesis itself, for each
    known way in which the stage can be wrong.
    """
    known: set[str] = set()
    by_words: dict[str, dict[Key, StageTile]] = {}
    right: dict[Key, StageTile] = {}
    for coord in chain.coordinates(name, group):
        rows, cols = chain.region(name, coord)
        reference = chain.reference(name, coord, rows, cols)

        def as_tile(
            value: F64, coord: TileCoord = coord, rows: slice = rows, cols: slice = cols
        ) -> StageTile:
            with np.errstate(over="ignore", invalid="ignore"):
                stored = value.astype(np.float32)
            return StageTile(name, coord, rows, cols, stored, np.ones(value.shape, bool))

        right[name, coord] = as_tile(reference.value)
        seen = WrongTile(
            name, coord, reference.operands, False, cols, reference.value,
            np.ones(reference.value.shape, bool),
        )  # fmt: skip
        made = [(item.cause, item.value) for item in chain.problem.fault_hypotheses.alternatives(chain, seen)]
        known |= {words for words, _ in made}
        scales = {**FACTORS, **chain.problem.fault_hypotheses.scales(chain.inputs)}
        made += [
            (f"every value is the right value times {words}", factor * reference.value)
            for words, factor in scales.items()
        ]
        made.append(("the values are rounded to bf16", numerics.round_bf16(reference.value)))
        for words, value in made:
            value = value if value.ndim == 2 else value.reshape(reference.value.shape)
            if value.shape == reference.value.shape:
                by_words.setdefault(words, {})[name, coord] = as_tile(value)
    for words, tiles in by_words.items():
        yield words, right | tiles, words in known
