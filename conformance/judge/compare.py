"""The comparison: every observed tile against its float64 reference, within the derived bound of its
stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.observe.tiles import F64, Chain, Key, Reference, StageTile


@dataclass(frozen=True)
class Divergence:
    """One wrong tile: the observation, its reference, and which elements are outside the bound or missing."""

    tile: StageTile
    reference: Reference
    wrong: npt.NDArray[np.bool_]


@dataclass
class StageScore:
    """What was compared of one stage: tiles, elements, elements compared for equality, largest error /
    bound, elements that are numbers without a finite bound.
    """

    tiles: int = 0
    elements: int = 0
    exact: int = 0
    worst: float = 0.0
    unbounded: int = 0

    def add(self, other: StageScore) -> None:
        """Counts `other` in."""
        self.tiles += other.tiles
        self.elements += other.elements
        self.exact += other.exact
        self.worst = max(self.worst, other.worst)
        self.unbounded += other.unbounded


@dataclass
class Comparison:
    """Divergences in stage graph order, then walk order; scores per stage."""

    divergences: list[Divergence] = field(default_factory=list)
    scores: dict[str, StageScore] = field(default_factory=dict)


def compare(chain: Chain, tiles: Iterable[StageTile]) -> Comparison:
    """Judges each tile alone, on the inputs that the kernel had for it."""
    result = Comparison()
    for tile in sorted(tiles, key=lambda t: order(t.key, chain.problem.stages)):
        reference = chain.reference(tile.stage, tile.coord, tile.rows, tile.cols)
        wrong = wrong_elements(tile, reference)
        result.scores.setdefault(tile.stage, StageScore()).add(_score(tile, reference))
        if wrong.any():
            result.divergences.append(Divergence(tile, reference, wrong))
    return result


def wrong_elements(tile: StageTile, reference: Reference) -> npt.NDArray[np.bool_]:
    """``bool [rows, cols]``: not written, or further from the reference than the bound (equality where it is
    0).

    Where the bound is infinite (an f32 overflow is possible) any written value is accepted, but NaN only if
    the reference is NaN itself or an operand may be infinite there. NaN that an operand brought in must be
    found.
    """
    return ~(tile.written & within_bound(tile.value, reference.value, reference.bound, reference.free))


def within_bound(
    value: npt.NDArray[Any], expected: F64, bound: F64, free: npt.NDArray[np.bool_] | bool = False
) -> npt.NDArray[np.bool_]:
    """Elementwise: `value` is within `bound` of `expected`, by the rules of `wrong_elements`."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        found = value.astype(np.float64)
        close = (np.abs(found - expected) <= bound) | (found == expected)
    if close.all():
        return close
    no_number, must, unbounded = np.isnan(found), np.isnan(expected), np.isinf(bound)
    strict = np.where(must, no_number, close | (unbounded & ~no_number))
    return np.where(free, close | unbounded, strict)


def _score(tile: StageTile, reference: Reference) -> StageScore:
    return score(tile.value, tile.written, reference.value, reference.bound)


def score(value: npt.NDArray[Any], written: npt.NDArray[np.bool_], expected: F64, bounds: F64) -> StageScore:
    """The score of one tile of any shape."""
    if not written.all():
        value, expected, bounds = value[written], expected[written], bounds[written]
    exact, infinite = int((bounds == 0).sum()), np.isinf(bounds)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(value.astype(np.float64) - expected) / bounds
    # What was to be equal, what has no bound and what is no number has no ratio.
    if exact or not np.isfinite(ratio).all():
        ratio = ratio[(bounds > 0) & ~infinite & np.isfinite(ratio)]
    unbounded = int((infinite & ~np.isnan(expected)).sum()) if infinite.any() else 0
    return StageScore(1, int(written.size), exact, float(ratio.max(initial=0.0)), unbounded)


def order(key: Key, stages: Iterable[str]) -> tuple[int, int, int, int]:
    """Sort key of a tile: its stage among `stages`, then group, k-block and CTA."""
    name, coord = key
    return (
        list(stages).index(name),
        coord.group,
        -1 if coord.k_block is None else coord.k_block,
        -1 if coord.cta is None else coord.cta,
    )


def index(tiles: Iterable[StageTile]) -> Mapping[Key, StageTile]:
    """Tiles by stage and coordinates."""
    return {tile.key: tile for tile in tiles}
