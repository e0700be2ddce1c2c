"""The mistake that gives the found values: the reference is evaluated with changed inputs.

A part of an input that is skipped, counted twice, taken from its neighbour, or read in another order changes
the reference's values; the change that explains every element of a region, within the bound, is the cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.patterns import permutation_words
from tileproof.conformance.diagnose.arrays import (
    Region,
    holds,
    imprecise,
    match,
    permuted,
    regions,
    zeros,
)
from tileproof.conformance.judging.values import WrongArray
from tileproof.spec.machine.types import Array

F64 = npt.NDArray[np.float64]
# The array in question, as a matrix, when the reference is given other inputs; None where it has none.
Again = Callable[[Mapping[str, Array | float]], F64 | None]
WIDTHS = (128, 64, 32, 16, 8)  # elements of an axis that one copy or one MMA takes
MAX_BLOCKS = 64
NEIGHBOURS = (-1, 1, -2, 2)
CHUNK_BYTES = 16  # what a swizzle moves (PTX ISA 5.5.7)
FACTORS = {"2 (added twice)": 2.0, "1/2": 0.5, "-1 (sign)": -1.0}
SAMPLE = 4096  # elements that counts of blocks are solved for


@dataclass(frozen=True)
class AskedInput:
    """An input that a mistake may have hit: its values in float64, bytes of an element where it lies."""

    name: str
    value: F64
    itemsize: int


def explain(
    array: WrongArray, inputs: list[AskedInput], again: Again, before: F64 | None, seconds: float
) -> str:
    """Words for the cause, "" when nothing explains what was found.

    `before`: what the array held before the launch, where it held something.
    """
    deadline = time.monotonic() + seconds
    found = np.where(array.written, array.found, np.nan)
    for region in regions(array.wrong):
        if (words := _alone(array, found, before, region)) and region[0].size and region[1].size:
            return words
    order = _order(array, found)
    if order:
        return order
    for words, changed in _changes(array, inputs, again, found, deadline):
        if words and changed is not None and _holds_somewhere(array, found, changed):
            return words
    return zeros(found, array.wrong) or imprecise(found, array.expected, array.bound, array.wrong)


def _holds_somewhere(array: WrongArray, found: F64, value: F64) -> bool:
    """Whether another value explains one of the regions; a region without wrong elements is ignored."""
    if value.shape != found.shape:
        return False
    return any(
        holds(found[at], value[at], array.bound[at]) for at in (np.ix_(*r) for r in regions(array.wrong))
    )


# ---- without the reference


def _alone(array: WrongArray, found: F64, before: F64 | None, region: Region) -> str:
    at = np.ix_(*region)
    expected, seen, bound = array.expected[at], found[at], array.bound[at]
    if before is not None and before.shape == found.shape:
        start = before[at]
        if start.any() and holds(seen, expected + start, bound):
            return "the previous contents of the buffer were added: it was not cleared"
        if holds(seen, start, np.zeros_like(bound)) and not np.array_equal(start, expected):
            return "the elements are those before the launch: nothing was stored there"
    usable = (expected != 0) & np.isfinite(seen) & np.isfinite(expected)
    if usable.sum() < 4 or not np.isfinite(seen).all():
        return ""
    for name, factor in FACTORS.items():
        if holds(seen, factor * expected, abs(factor) * bound):
            return f"every value is the expected one times {name}"
    ratio = float(np.median(seen[usable] / expected[usable]))
    if ratio not in (0.0, 1.0) and usable.sum() >= 16 and holds(seen, ratio * expected, abs(ratio) * bound):
        return f"every value is the expected one times {ratio:.6g}"
    return ""


def _order(array: WrongArray, found: F64) -> str:
    """Rows, columns or tiles of the right array in another place."""
    if words := permuted(array.expected, array.bound, found, ("row", "column")):
        return words.replace("of the tile", "of the array").replace("rows (rows)", "rows")
    rows, columns = found.shape
    if rows == columns and holds(found, array.expected.T, array.bound):
        return "the array is transposed"
    for axis, unit in ((0, "row"), (1, "column")):
        places = np.flatnonzero(array.wrong.any(axis=1 - axis))
        if places.size in (0, found.shape[axis]) or places.size > 1024:
            continue
        own = [np.take(x, places, axis=axis) for x in (found, array.expected, array.bound)]
        seen, want, limit = (x if axis == 0 else x.T for x in own)
        source = match(want, limit, seen)
        if source is not None:
            shown = ", ".join(
                f"{unit} {places[i]} holds {unit} {places[source[i]]}" for i in range(min(3, len(places)))
            )
            return f"{unit}s are permuted: {shown}; among them {permutation_words(source)}"
    return _neighbour_tile(array, found)


def _neighbour_tile(array: WrongArray, found: F64) -> str:
    """The rectangle of wrong elements holds what belongs to another rectangle of the array."""
    rows, columns = np.flatnonzero(array.wrong.any(axis=1)), np.flatnonzero(array.wrong.any(axis=0))
    height, width = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
    seen = found[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    limit = array.bound[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    if height * width < 16 or not np.isfinite(seen).all() or np.ptp(seen) == 0:
        return ""
    for row in range(rows[0] % height, found.shape[0] - height + 1, height):
        for column in range(columns[0] % width, found.shape[1] - width + 1, width):
            other = array.expected[row : row + height, column : column + width]
            if (row, column) != (rows[0], columns[0]) and holds(seen, other, limit):
                there = f"rows {row}..{row + height - 1}, columns {column}..{column + width - 1}"
                here = f"rows {rows[0]}..{rows[-1]}, columns {columns[0]}..{columns[-1]}"
                return f"{here} hold the values of {there}"
    return ""


# ---- with the reference


def _changes(
    array: WrongArray, inputs: list[AskedInput], again: Again, found: F64, deadline: float
) -> Iterator[tuple[str, F64 | None]]:
    """(words, what the reference gives) for each mistake that is tried, until the time is over."""

    def asked(name: str, value: F64) -> F64 | None:
        return again({name: value}) if time.monotonic() < deadline else None

    for each in inputs:
        for words, value in _read_otherwise(each):
            yield words, asked(each.name, value)
    for each in inputs:
        for words, value in _edges(each):
            yield words, asked(each.name, value)
    for width in WIDTHS:
        for each in inputs:
            for axis, size in enumerate(each.value.shape):
                if size % width or not 1 < size // width <= MAX_BLOCKS:
                    continue
                if time.monotonic() > deadline:
                    return
                yield from _counted(array, each, axis, width, again, found, deadline)
                for first in range(0, size, width):
                    for words, value in _stale(each, axis, width, first):
                        yield words, asked(each.name, value)


def _read_otherwise(each: AskedInput) -> Iterator[tuple[str, F64]]:
    """The input read in another order."""
    value, name = each.value, each.name
    if value.ndim == 2 and value.shape[0] == value.shape[1]:
        yield f"as if {name} were read transposed", np.ascontiguousarray(value.T)
    if value.ndim >= 2:
        for mode, moves in (("128B", 8), ("64B", 4), ("32B", 2)):
            if (changed := _swizzled(each, moves)) is not None:
                yield (
                    f"as if {name} were written with the {mode} swizzle and read without, or the reverse",
                    changed,
                )
    for axis, size in enumerate(value.shape):
        for step in (1, -1):
            yield (
                (
                    f"as if {name} were read {'one element later' if step > 0 else 'one element earlier'} "
                    f"along axis {axis}"
                ),
                np.roll(value, -step, axis),
            )
        bit = 1
        while bit < size and size % (2 * bit) == 0:
            words = f"as if {name} were read in another order along axis {axis}: i XOR {bit} instead of i"
            yield words, np.take(value, np.arange(size) ^ bit, axis)
            bit *= 2


def _swizzled(each: AskedInput, moves: int) -> F64 | None:
    """Rows with chunks of 16 bytes moved as a swizzle of `moves` chunks does, in lines of 128 bytes."""
    chunk = CHUNK_BYTES // each.itemsize
    if not chunk or each.value.shape[-1] % (moves * chunk):
        return None
    rows = each.value.reshape(-1, each.value.shape[-1] // chunk, chunk)
    line = np.arange(rows.shape[0])[:, None] * moves // 8 % moves
    column = np.arange(rows.shape[1])[None, :]
    moved = rows[np.arange(rows.shape[0])[:, None], column ^ line]
    return np.ascontiguousarray(moved.reshape(each.value.shape))


def _at(each: AskedInput, axis: int, first: int, width: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(first, first + width))


def _edges(each: AskedInput) -> Iterator[tuple[str, F64]]:
    """A loop that begins or ends an index too early or late: the first or last is skipped or taken twice."""
    for axis, size in enumerate(each.value.shape):
        for index in (size - 1, 0) if size > 1 else ():
            for words, factor in (("skipped", 0.0), ("taken twice", 2.0)):
                value = each.value.copy()
                value[_at(each, axis, index, 1)] *= factor
                at = f"index {index}{' (the last)' if index else ''} of axis {axis} of {each.name}"
                yield f"as if {at} were {words}: off by one", value


def _stale(each: AskedInput, axis: int, width: int, first: int) -> Iterator[tuple[str, F64]]:
    """A block of the input replaced by a neighbour."""
    for step in NEIGHBOURS:
        other = first + step * width
        if 0 <= other < each.value.shape[axis]:
            value = each.value.copy()
            value[_at(each, axis, first, width)] = each.value[_at(each, axis, other, width)]
            own, came = f"{first}..{first + width - 1}", f"{other}..{other + width - 1}"
            yield (
                f"as if {each.name} held its part {came} of axis {axis} instead of {own} (stale)",
                value,
            )


def _counted(
    array: WrongArray, each: AskedInput, axis: int, width: int, again: Again, found: F64, deadline: float
) -> Iterator[tuple[str, F64 | None]]:
    """Blocks that were skipped or counted twice: solved for, then evaluated together."""
    firsts = range(0, each.value.shape[axis], width)
    rows, columns = (
        axis_[: SAMPLE // 16]
        for axis_ in (np.flatnonzero(array.wrong.any(1)), np.flatnonzero(array.wrong.any(0)))
    )
    at = np.ix_(rows, columns[: max(SAMPLE // max(rows.size, 1), 1)])
    changes = []
    for first in firsts:
        if time.monotonic() > deadline:
            return
        value = each.value.copy()
        value[_at(each, axis, first, width)] = 0
        without = again({each.name: value})
        if without is None or without.shape != found.shape:
            return
        changes.append(array.expected[at].ravel() - without[at].ravel())
    parts, residual = np.stack(changes, axis=1), (found[at] - array.expected[at]).ravel()
    if not np.isfinite(parts).all() or not np.isfinite(residual).all():
        return
    live = np.flatnonzero(np.abs(parts).max(axis=0) > 0)
    if live.size == 0 or live.size > residual.size:
        return
    solved = np.linalg.lstsq(parts[:, live], residual, rcond=None)[0]
    for count, how in ((-1, "were skipped"), (1, "were counted twice")):
        chosen = [firsts[int(i)] for i, x in zip(live, solved, strict=True) if abs(x - count) < 0.2]
        if not chosen:
            continue
        value = each.value.copy()
        for first in chosen:
            value[_at(each, axis, first, width)] *= 1 + count
        spans = ", ".join(f"{first}..{first + width - 1}" for first in chosen[:4])
        more = f" and {len(chosen) - 4} more parts" if len(chosen) > 4 else ""
        yield f"as if {spans}{more} of axis {axis} of {each.name} {how}", again({each.name: value})
