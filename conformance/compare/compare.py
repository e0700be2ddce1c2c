"""The comparison: every observed tile against its float64 reference, within the derived bound of its
stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.collective import collective
from tileproof.conformance.compare.held import ORDERED, ROUNDED, Ordered, in_order, part
from tileproof.conformance.observe.tiles import F64, Chain, Key, Reference, StageTile, columns
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import TileCoord


@dataclass(frozen=True)
class Divergence:
    """One wrong tile: the observation, its reference, and which elements are outside the bound or missing.

    `why`: all are within the bound, but more is known of what the kernel must hold (`compare.held`), or all
    together are further off than roundings bring them (`compare.collective`).
    """

    tile: StageTile
    reference: Reference
    wrong: npt.NDArray[np.bool_]
    why: str = ""


@dataclass
class StageScore:
    """What was compared of a stage or an output: tiles, elements, elements compared for equality, largest
    error relative to its bound, elements that are numbers without a finite bound, elements outside their
    bound; `stated`: the bound is not the default bound.
    """

    tiles: int = 0
    elements: int = 0
    exact: int = 0
    worst: float = 0.0
    unbounded: int = 0
    wrong: int = 0
    stated: bool = True

    def add(self, other: StageScore) -> None:
        """Counts `other` in."""
        self.tiles += other.tiles
        self.elements += other.elements
        self.exact += other.exact
        self.worst = max(self.worst, other.worst)
        self.unbounded += other.unbounded
        self.wrong += other.wrong
        self.stated &= other.stated

    def worse_than(self, other: StageScore) -> bool:
        """Whether more elements are wrong, or an element is further from its reference."""
        return self.wrong > other.wrong or self.worst > other.worst


@dataclass
class Comparison:
    """Divergences in stage graph order, then walk order; scores per stage."""

    divergences: list[Divergence] = field(default_factory=list)
    scores: dict[str, StageScore] = field(default_factory=dict)


def compare(chain: Chain, tiles: Iterable[StageTile], ordered: Ordered | None = None) -> Comparison:
    """Judges each tile alone, on the inputs that the kernel had for it; `ordered` knows bits of MMA stages.

    Tiles that were evaluated together are first compared together, and one by one where a value is wrong.
    """
    result = Comparison()
    places = {name: number for number, name in enumerate(chain.problem.stages)}
    ordered_tiles = sorted(tiles, key=lambda t: (places[t.stage], *_in_walk(t.coord)))
    bunches: dict[tuple[str, int, int | None, int | None], list[StageTile]] = {}
    for tile in ordered_tiles:
        result.scores.setdefault(tile.stage, StageScore())
        block = tile.coord.k_block if chain.is_partial_sum(tile.stage, tile.coord) else None
        bunches.setdefault((*chain.whole_of(tile.stage, tile.coord), block), []).append(tile)
    right = set()
    for whole, some in bunches.items():
        right_score = _score_if_right(chain, some, ordered)
        if right_score is not None:
            result.scores[whole[0]].add(right_score)
            right |= {id(tile) for tile in some}
    for tile in ordered_tiles:
        if id(tile) not in right:
            divergence = _judged(chain, tile, ordered, result.scores[tile.stage])
            result.divergences += [] if divergence is None else [divergence]
    return result


def _judged(chain: Chain, tile: StageTile, ordered: Ordered | None, scores: StageScore) -> Divergence | None:
    """What is wrong with a tile, if anything; counts it in."""
    at = chain.span(tile.stage, tile.coord.group, tile.rows, tile.cols)
    term, bits = chain.judged(tile.stage, tile.coord), in_order(chain, tile, ordered)
    held = part(term.held, at)
    found, apart = _apart(tile.value, held.value)
    may_be_nan = False if held.may_be_nan is None else held.may_be_nan
    wrong, why = ~(tile.written & _within(found, apart, held.value, held.errors, may_be_nan)), ""
    if not wrong.any() and bits is not None:
        held = Bounded(columns(bits.value[at]), np.where(np.isfinite(held.errors), 0.0, np.inf))
        wrong, why = _other_bits(found, held), ORDERED
    if not wrong.any():
        why = "" if bits is not None else collective(tile.value, term, at)
        wrong = (apart > 0) if why else wrong
    if not wrong.any():
        scores.add(_scored(apart, held.value, held.errors))
        return None
    found_score = score(tile.value, tile.written, held.value, held.errors)
    scores.add(replace(found_score, wrong=int(wrong.sum())))
    reference = replace(chain.reference(tile.stage, tile.coord, tile.rows, tile.cols), held=held)
    if not why and not wrong_elements(tile, reference).any():
        why = ROUNDED
    return Divergence(tile, reference, wrong, why)


def _other_bits(found: F64, held: Bounded) -> npt.NDArray[np.bool_]:
    """Elements with a finite bound that are not the bits that are held."""
    same = (found == held.value) | (np.isnan(found) & np.isnan(held.value))
    return np.asarray(~same & np.isfinite(held.errors))


def _score_if_right(chain: Chain, tiles: list[StageTile], ordered: Ordered | None) -> StageScore | None:
    """The score of tiles that are all of one evaluation, all written and right; None where they are not, or
    not all of them are there.
    """
    first = tiles[0]
    if any(
        tile.value.dtype != first.value.dtype or tile.operand != first.operand or not tile.written.all()
        for tile in tiles
    ):
        return None
    term = chain.judged(first.stage, first.coord)
    if len({tile.coord for tile in tiles}) != len(tiles):
        return None
    if sum(tile.value.size for tile in tiles) != term.value.size:
        return None
    value = np.empty(term.value.shape, first.value.dtype)
    places = [chain.span(tile.stage, tile.coord.group, tile.rows, tile.cols) for tile in tiles]
    for tile, at in zip(tiles, places, strict=True):
        value[at] = tile.value.reshape(value[at].shape)
    bits = in_order(chain, first, ordered)
    if bits is not None and bits.sound:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            same = bool((value.astype(np.float64) == bits.value).all())
        return StageScore(len(tiles), value.size, value.size) if same else None
    held = term.held
    found, apart = _apart(value, held.value)
    may_be_nan = False if held.may_be_nan is None else held.may_be_nan
    if not _within(found, apart, held.value, held.errors, may_be_nan).all():
        return None
    if bits is not None:
        held = Bounded(bits.value, np.where(np.isfinite(held.errors), 0.0, np.inf))
        if _other_bits(found, held).any():
            return None
    elif any(collective(tile.value, term, at) for tile, at in zip(tiles, places, strict=True)):
        return None
    score = _scored(apart, held.value, held.errors)
    score.tiles = len(tiles)
    return score


def wrong_elements(tile: StageTile, reference: Reference) -> npt.NDArray[np.bool_]:
    """``bool [rows, cols]``: not written, or further from the reference than the bound (equality where it is
    0).

    Where the bound is infinite (an f32 overflow is possible) any written value is accepted, but NaN only if
    the reference is NaN itself or an operand may be infinite there. NaN that an operand brought in must be
    found.
    """
    return ~(tile.written & within_bound(tile.value, reference.value, reference.bound, reference.may_be_nan))


def within_bound(
    value: Array, expected: F64, bound: F64, may_be_nan: npt.NDArray[np.bool_] | bool = False
) -> npt.NDArray[np.bool_]:
    """Elementwise: `value` is within `bound` of `expected`, by the rules of `wrong_elements`."""
    found, apart = _apart(value, expected)
    return _within(found, apart, expected, bound, may_be_nan)


def _apart(value: Array, expected: F64) -> tuple[F64, F64]:
    """The values in float64, and how far they are from what is expected."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        found = value.astype(np.float64)
        apart = found - expected
        return found, np.abs(apart, out=apart)


def _within(
    found: F64, apart: F64, expected: F64, bound: F64, may_be_nan: npt.NDArray[np.bool_] | bool
) -> npt.NDArray[np.bool_]:
    close: npt.NDArray[np.bool_] = apart <= bound
    if close.all():
        return close
    close |= found == expected  # infinities
    if close.all():
        return close
    no_number, must, unbounded = np.isnan(found), np.isnan(expected), np.isinf(bound)
    strict = np.where(must, no_number, close | (unbounded & ~no_number))
    return np.where(may_be_nan, close | unbounded, strict)


def score(value: Array, written: npt.NDArray[np.bool_], expected: F64, bounds: F64) -> StageScore:
    """The score of one tile of any shape."""
    size = int(written.size)
    if not written.all():
        value, expected, bounds = value[written], expected[written], bounds[written]
    score = _scored(_apart(value, expected)[1], expected, bounds)
    score.elements = size
    return score


def _scored(apart: F64, expected: F64, bounds: F64) -> StageScore:
    """The score of elements that were all written, by how far they are from what is expected."""
    size = int(apart.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = apart / bounds
    if size and bounds.min() > 0 and bounds.max() < np.inf and np.isfinite(worst := ratio.max()):
        return StageScore(1, size, 0, float(worst), 0)
    exact, infinite = int((bounds == 0).sum()), np.isinf(bounds)
    # What was to be equal, what has no bound and what is no number has no ratio.
    if exact or not np.isfinite(ratio).all():
        ratio = ratio[(bounds > 0) & ~infinite & np.isfinite(ratio)]
    unbounded = int((infinite & ~np.isnan(expected)).sum()) if infinite.any() else 0
    return StageScore(1, size, exact, float(ratio.max(initial=0.0)), unbounded)


def order(key: Key, stages: Iterable[str]) -> tuple[int, int, int, int]:
    """Sort key of a tile: its stage among `stages`, then group, k-block and CTA."""
    name, coord = key
    return (list(stages).index(name), *_in_walk(coord))


def _in_walk(coord: TileCoord) -> tuple[int, int, int]:
    return (
        coord.group,
        -1 if coord.k_block is None else coord.k_block,
        -1 if coord.cta is None else coord.cta,
    )


def index(tiles: Iterable[StageTile]) -> Mapping[Key, StageTile]:
    """Tiles by stage and coordinates."""
    return {tile.key: tile for tile in tiles}
