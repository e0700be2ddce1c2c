"""How wrong elements are arranged in a tile, in words that a kernel author recognises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from tileproof.conformance.observe.words import ordinal, plural

ATOM_ROWS = 8  # rows of a swizzle atom
WARP_LANES = 32

Mask = npt.NDArray[np.bool_]
# A problem's word for elements low .. high - 1 of an axis of that unit and size (`FaultHypotheses.part`).
Part = Callable[[str, int, int, int, int], str]


def _nameless(unit: str, low: int, high: int, size: int, ctas: int) -> str:
    return ""


def arrangement(
    wrong: Mask,
    *,
    rows_first: int,
    cols_first: int,
    units: tuple[str, str],
    ctas: int = 1,
    part: Part = _nameless,
    numbers: npt.NDArray[np.int64] | None = None,
    count: int = 0,
) -> str:
    """Words for the mask `wrong` [rows, cols], whose element (0, 0) is number `rows_first`, `cols_first` of
    `units`; `part` names parts of an axis. `numbers`: the rows of the mask are these of `count` rows, and
    nothing is wrong in the others.
    """
    count = count if numbers is not None else wrong.shape[0]
    if wrong.all() and count == wrong.shape[0]:
        return "the whole tile"
    rows, cols = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
    dense = wrong[np.ix_(rows, cols)].mean()
    named = rows if numbers is None else numbers[rows]
    row_words = axis_words(named, count, rows_first, units[0], ctas, part)
    if wrong.shape[1] == 1:
        return row_words
    column_words = axis_words(cols, wrong.shape[1], cols_first, units[1], ctas, part)
    filled = "" if dense == 1.0 else f" ({percent(dense)} of the elements there)"
    if rows.size == count:
        return f"{column_words}, all {plural(units[0])}{filled}"
    if cols.size == wrong.shape[1]:
        return f"{row_words}, all {plural(units[1])}{filled}"
    if dense < 0.25:
        return f"scattered over {row_words} and {column_words}{filled}"
    return f"{row_words}, {column_words}{filled}"


def percent(part: float) -> str:
    """A fraction in per cent: 100% only if all, and 0% only if none."""
    return f"{min(max(round(100 * part), 1), 99)}%"


def axis_words(
    places: npt.NDArray[np.int64], size: int, first: int, unit: str, ctas: int = 1, part: Part = _nameless
) -> str:
    """Words for the indices `places` of an axis of `size` elements that starts at `first`."""
    if places.size == size:
        return f"all {plural(unit)}"
    low, high = int(places[0]), int(places[-1])
    if places.size == 1:
        return f"{unit} {first + low}"
    span = f"{plural(unit)} {first + low}..{first + high}"
    if high - low + 1 == places.size:
        name = part(unit, low, high + 1, size, ctas)
        if not name and places.size == ATOM_ROWS and low % ATOM_ROWS == 0:
            name = "one swizzle atom"
        return span + (f" ({name})" if name else "")
    step = np.unique(np.diff(places))
    if step.size == 1:
        return f"every {ordinal(int(step[0]))} {unit} from {first + low} to {first + high}"
    for modulus in (2, 4, ATOM_ROWS, 16, WARP_LANES):
        residues = np.unique(places % modulus)
        if residues.size < modulus and places.size == residues.size * (size // modulus):
            return f"{plural(unit)} congruent to {', '.join(map(str, residues))} modulo {modulus}"
    return f"{places.size} {plural(unit)} between {first + low} and {first + high}"


def permutation_words(source: npt.NDArray[np.int64]) -> str:
    """Words for "element i holds what belongs to element source[i]"."""
    here = np.arange(source.size)
    size = source.size
    for name, value in (("XOR", source ^ here), ("shift", (source - here) % size)):
        constant = np.unique(value)
        if constant.size == 1 and constant[0] != 0:
            amount = int(constant[0])
            if name == "XOR":
                return f"index i holds i XOR {amount}" + (" (halves swapped)" if amount * 2 == size else "")
            return f"index i holds (i + {amount}) modulo {size}"
    if np.array_equal(source, size - 1 - here):
        return "the order is reversed"
    moved = np.flatnonzero(source != here)
    if moved.size == 2:
        return f"{int(moved[0])} and {int(moved[1])} are exchanged"
    shown = ", ".join(f"{int(i)} holds {int(source[i])}" for i in moved[:4])
    return shown + (f" and {moved.size - 4} more" if moved.size > 4 else "")
