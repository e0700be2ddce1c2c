"""Causes of wrong rows of a sum over many groups, from the rows alone: a mistake of every tile, a group or a
k-block that is missing or doubled, or tiles added to other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.rows import other_columns
from tileproof.conformance.diagnose.arrays import coarse, permuted
from tileproof.conformance.observe.tiles import F64
from tileproof.conformance.tensors.groups import GroupComparer
from tileproof.conformance.tensors.hypotheses import alternatives
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine.types import Array

GROUPS = 32  # that add to an output, beyond which no cause is searched: each is computed again and kept
ELEMENTS = 2**25  # of the tiles of all groups, beyond which no cause is searched: 8 bytes each
MISTAKES = 2**19  # elements up to which the known mistakes of every tile are computed too
ROWS = 256  # wrong rows by which causes are compared, those with the fewest groups
SLACK = 4.0  # times the bound of the right sums: that of another sum of as many terms
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroupTiles:
    """What a group adds: ``values [n, columns]`` and their errors to rows `index` where `live`; `others`: the
    values that known mistakes of the stage would give, by words.
    """

    group: int
    index: I64
    live: npt.NDArray[np.bool_]
    values: F64
    errors: F64
    others: Mapping[str, F64]


@dataclass(frozen=True)
class WrongRows:
    """The rows by which causes are compared: their numbers, ascending, and what was found in them."""

    rows: I64
    found: F64
    wrong: npt.NDArray[np.bool_]

    def sums(self, contributions: Sequence[tuple[I64, F64, F64]]) -> RowSums:
        """Their sums of contributions: rows, values, errors."""
        made = RowSums.of(self.rows, self.found.shape[1])
        for index, values, errors in contributions:
            here = np.isin(index, self.rows)
            made.add(index[here], values[here], errors[here])
        return made


def tiles_of_groups(
    comparer: GroupComparer, stage: str, groups: Sequence[int], mistakes: bool
) -> list[GroupTiles]:
    """The tiles of all groups, from what the dump holds of them, else from the reference."""
    made = []
    for group in groups:
        chain = comparer.chain(group)
        term = chain.whole(stage, 0).value
        right, errors = np.asarray(term.value), np.asarray(term.errors)
        index, live = comparer.problem.rows(chain.inputs, chain.tiling, 0, stage)
        others = {}
        for words, tiles, own in alternatives(chain, stage, 0) if mistakes else ():
            if own:
                others[words] = value = right.copy()
                for tile in tiles.values():
                    value[tile.rows, tile.cols] = tile.value
        made.append(GroupTiles(group, index, live, right, errors, others))
    return made


def explain_sums(
    comparer: GroupComparer, stage: str, output: Array, groups: Sequence[int], seen: WrongRows
) -> str:
    """The first cause that gives every wrong element of the rows; "" where none does."""
    first = comparer.dump.forms.group_inputs(comparer.dump.inputs, groups[0])
    slots, _ = comparer.problem.rows(first, comparer.tiling, 0, stage)
    elements = len(groups) * len(slots) * output.shape[1]
    if len(groups) > GROUPS or elements > ELEMENTS:
        return ""
    tiles = tiles_of_groups(comparer, stage, groups, elements <= MISTAKES)
    right = seen.sums([(t.index[t.live], t.values[t.live], t.errors[t.live]) for t in tiles])
    bound = SLACK * right.bound() + 2.0**-22 * right.magnitude
    if output.dtype.itemsize == 2:
        bound += 2.0**-8 * np.abs(seen.found)
    for words, value in _causes(comparer, tiles, seen, right, len(output)):
        with np.errstate(invalid="ignore"):
            fits = np.abs(seen.found - value) <= bound + 2.0**-22 * np.abs(value)
            differs = np.abs(value - right.value) > bound / SLACK
        if (fits & differs)[seen.wrong].all():
            return words
    axes = (comparer.problem.words.get(comparer.problem.walked, "row"), "column")
    order = permuted(right.value, bound, seen.found, axes)
    return order or coarse(np.asarray(output[seen.rows]), seen.wrong, right.value)


def _causes(
    comparer: GroupComparer, tiles: Sequence[GroupTiles], seen: WrongRows, right: RowSums, count: int
) -> Iterator[tuple[str, F64]]:
    """Words and the rows' values, the simplest mistake first. `count`: rows of the output."""
    problem, block = comparer.problem, comparer.tiling.block
    slot = problem.words.get(problem.walked, "slot")

    def sums(part: Sequence[tuple[I64, F64, F64]]) -> F64:
        return seen.sums(part).value

    for words in tiles[0].others:
        if all(words in t.others for t in tiles):
            yield words, sums([(t.index[t.live], t.others[words][t.live], t.errors[t.live]) for t in tiles])
    for t in tiles:
        own = sums([(t.index[t.live], t.values[t.live], t.errors[t.live])])
        yield f"the contribution of {problem.unit} {t.group} is missing", right.value - own
        yield f"the contribution of {problem.unit} {t.group} was added twice", right.value + own
    blocks = -(-max(len(t.index) for t in tiles) // block)
    for number in range(blocks if blocks > 1 else 0):
        parts = []
        for t in tiles:
            here = t.live & (np.arange(len(t.index)) // block == number)
            parts.append((t.index[here], t.values[here], t.errors[here]))
        own = sums(parts)
        yield f"the contribution of k-block {number} of every {problem.unit} is missing", right.value - own
        yield (
            f"the contribution of k-block {number} of every {problem.unit} was added twice",
            right.value + own,
        )
    for words, index in _rows(tiles, slot, count):
        yield (
            words,
            sums(
                [(i[t.live], t.values[t.live], t.errors[t.live]) for t, i in zip(tiles, index, strict=True)]
            ),
        )
    for which, order in (("last", slice(None, None, -1)), ("first", slice(None))):
        parts = []
        for t in tiles:
            numbers = np.flatnonzero(t.live)[order]
            first = numbers[np.unique(t.index[numbers], return_index=True)[1]]
            parts.append((t.index[first], t.values[first], t.errors[first]))
        yield f"of the {slot}s of a {problem.unit} with the same row only the {which} is added", sums(parts)
    for words, value, _ in other_columns(right):
        yield words, value


def _rows(tiles: Sequence[GroupTiles], slot: str, count: int) -> Iterator[tuple[str, list[I64]]]:
    """Words, and the rows that the tiles would be added to, for mistakes of the index."""
    yield f"each {slot} is added to the row of its number", [np.arange(len(t.index)) for t in tiles]
    for bits in range(4, 32):
        if 2**bits < count:
            yield f"row numbers are cut to {bits} bits", [t.index & (2**bits - 1) for t in tiles]
    for step in (1, -1):
        words = "after" if step > 0 else "before"
        yield f"each {slot} is added to the row {words} its own", [t.index + step for t in tiles]
