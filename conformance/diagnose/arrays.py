"""Wrong arrays against what they should hold: order, zeros, rounding, and the regions that a cause explains.

Independent of stages and problems.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.patterns import permutation_words
from tileproof.conformance.observe.words import plural
from tileproof.spec import numerics
from tileproof.spec.machine.types import Array

F64 = npt.NDArray[np.float64]
# What explains little: whatever else is known of the launch says more.
ALL_NAN = "every wrong element is NaN: a poisoned or never-written operand or accumulator entered the sum"
SOME_NAN = "some wrong elements are NaN"
WEAK = ("", ALL_NAN, SOME_NAN)
MIN_ROWS = 4  # rows of one number that must be in another order
STEPS = (1, 2, 4, 8, 16, 32, 64)  # rows or columns by which a tile may be off
SIDED = 8  # wrong elements on the same side of the right value, below which that may be chance
COARSE = 16  # elements that show the number of their bits
NEAR = 8.0  # times the bound: further off is no matter of rounding
Region = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def regions(wrong: npt.NDArray[np.bool_]) -> Iterator[Region]:
    """Where a mistake must explain what was found: the whole tile, whole columns, whole rows, the rows and
    columns of wrong elements.
    """
    rows, cols = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
    every_row, every_col = np.arange(wrong.shape[0]), np.arange(wrong.shape[1])
    yield every_row, every_col
    if cols.size < every_col.size:
        yield every_row, cols
    if rows.size < every_row.size:
        yield rows, every_col
        if cols.size < every_col.size:
            yield rows, cols


def holds(found: F64, value: F64, bound: F64) -> bool:
    """Whether `value` explains `found` everywhere; elements that may overflow are ignored."""
    known = np.isfinite(bound)
    with np.errstate(invalid="ignore"):
        return bool(known.any() and (np.abs(found - value) <= bound)[known].all())


def permuted(value: F64, bound: F64, found: F64, axes: tuple[str, str]) -> str:
    """Whether rows or columns of the right tile are in another order."""
    for unit, expected, limit, seen in (
        (f"rows ({plural(axes[0])})", value, bound, found),
        ("columns" if axes[1] == "column" else f"columns ({plural(axes[1])})", value.T, bound.T, found.T),
    ):
        source = match(expected, limit, seen)
        # A row of one number is another's by chance.
        if source is not None and (
            expected.shape[1] > 1 or (source != np.arange(source.size)).sum() >= MIN_ROWS
        ):
            return f"the {unit} of the tile are permuted: {permutation_words(source)}"
    return ""


def shifted(value: F64, bound: F64, found: F64, wrong: npt.NDArray[np.bool_], axes: tuple[str, str]) -> str:
    """Whether rows or columns hold what belongs so many further, but for those at the end."""
    for axis, unit in enumerate(axes):
        expected, limit, seen = (np.moveaxis(array, axis, 0) for array in (value, bound, found))
        off = np.moveaxis(wrong, axis, 0)
        for step in (s * side for s in STEPS if 2 * s <= len(seen) for side in (1, -1)):
            here = slice(0, -step) if step > 0 else slice(-step, None)
            there = slice(step, None) if step > 0 else slice(0, step)
            if off[here].sum() < off.sum() / 2 or not holds(seen[here], expected[there], limit[there]):
                continue
            off_by = f"{abs(step)} {unit if abs(step) == 1 else plural(unit)}"
            side = "further" if step > 0 else "before"
            begins = "its start, or its operands"
            return f"each {unit} of the tile holds values from {off_by} {side}: {begins}"
    return ""


def match(expected: F64, bound: F64, found: F64) -> npt.NDArray[np.int64] | None:
    """The row of `expected` that each row of `found` equals, if the order differs; None if a row equals
    none."""
    size = found.shape[0]
    source = np.full(size, -1, dtype=np.int64)
    for i in range(size):
        with np.errstate(invalid="ignore"):
            fits = (np.abs(found[i] - expected) <= bound).all(axis=1)
        if fits[i]:
            source[i] = i
        elif fits.any():
            source[i] = int(np.flatnonzero(fits)[0])
    here = np.arange(size)
    return source if (source >= 0).all() and not np.array_equal(source, here) else None


def zeros(found: F64, wrong: npt.NDArray[np.bool_]) -> str:
    """Whether what is wrong is zero, inf or NaN."""
    if not found[wrong].any():
        return "every wrong element is zero"
    if np.isinf(found[wrong]).all():
        return "every wrong element is inf: an exponent or a sum overflowed"
    if np.isnan(found[wrong]).any():
        return SOME_NAN
    return ""


def coarse(value: Array, wrong: npt.NDArray[np.bool_], right: F64 | None = None) -> str:
    """Of how few significant bits all elements of a tile are, where f32 would have more; and `right` has."""
    usable = np.isfinite(value) & (value != 0)
    at = usable & wrong if (usable & wrong).sum() >= COARSE else usable
    bits = _significant_bits(value[at])
    width = 24 if value.dtype.itemsize == 4 else 8
    if at.sum() < COARSE or bits >= width or (right is not None and _significant_bits(right[at]) <= bits):
        return ""
    return f"no value has more than {bits} significant bits"


def _significant_bits(values: Array) -> int:
    """The most significant bits of a value; 0 of none."""
    seen = np.abs(values[np.isfinite(values)].astype(np.float64))
    seen = seen[seen > 0]
    return int((np.frexp(seen)[1] - numerics.lowest_bit(seen)).max()) if seen.size else 0


def imprecise(found: F64, value: F64, bound: F64, wrong: npt.NDArray[np.bool_]) -> str:
    """Whether every wrong element is only a little outside its bound, and on which side."""
    usable = wrong & np.isfinite(bound) & (bound > 0) & np.isfinite(found)
    if not usable.any() or not (usable == wrong).all():
        return ""
    with np.errstate(invalid="ignore"):
        error = found - value
        off = np.abs(error[wrong]) / bound[wrong]
    if not off.max() <= NEAR:  # NaN too: rounding cannot be judged against a NaN reference
        return ""
    low, toward = (error[wrong] < 0).mean(), (error[wrong] * value[wrong] < 0).mean()
    if wrong.sum() < SIDED:
        low = toward = 0.5
    side = "towards zero" if toward > 0.95 else "down" if low > 0.95 else "up" if low < 0.05 else ""
    rounded = f": rounded {side}, not to nearest" if side else ": a rounding or a less precise operation"
    return f"the errors are up to {off.max():.2g} times the bound{rounded}"
