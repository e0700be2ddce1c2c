"""Rows that tiles are added to, element by element: additions that are missing in some columns, and the
place that received them.

One instruction of a thread adds one element of a tile's row. Where its address or its value is wrong, some
columns of one tile row are missing in their row and found in another row, or in other columns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.scattered import Contribution

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

ROWS = 24  # wrong rows that are looked at, those with the fewest contributions
CROWD = 16  # contributions to a row, beyond which an element says little
AGREE = 0.75  # of the elements must be explained
MIN_ELEMENTS = 8  # elements
ROUNDED = 2.0**-22  # of what is added to an element, that another sum in f32 may be off by
SHOWN = 3


@dataclass
class _Seen:
    """Elements ``(contribution, column)`` that are missing in their row; those that arrived elsewhere:
    ``(contribution, column, row, column there)``; and those that were added twice.
    """

    lost: list[tuple[int, int]] = field(default_factory=list)
    came: list[tuple[int, int, int, int]] = field(default_factory=list)
    twice: list[tuple[int, int]] = field(default_factory=list)
    elements: int = 0
    known: int = 0


@dataclass(frozen=True)
class _Pool:
    """All contributions: the rows they are added to, their values, and those of each row."""

    rows: I64
    values: F64
    of_row: dict[int, I64]

    @staticmethod
    def of(contributions: Sequence[Contribution]) -> _Pool:
        rows = np.array([contribution.row for contribution in contributions], np.int64)
        by_row: dict[int, list[int]] = defaultdict(list)
        for n, row in enumerate(rows.tolist()):
            by_row[row].append(n)
        of_row = {row: np.array(own, np.int64) for row, own in by_row.items()}
        return _Pool(rows, np.stack([contribution.value for contribution in contributions]), of_row)


def explain_additions(
    contributions: Sequence[Contribution],
    residual: F64,
    bound: F64,
    wrong: npt.NDArray[np.bool_],
    row_word: str,
) -> str:
    """Words for additions that went elsewhere; "" when they do not explain the wrong elements.

    `residual` is found minus expected and `bound` how large that may be, both ``[rows, cols]``.
    """
    if not contributions:
        return ""
    pool = _Pool.of(contributions)
    if not np.isfinite(pool.values).all():
        return ""
    crowd = {row: own.size for row, own in pool.of_row.items()}
    rows = [int(row) for row in np.flatnonzero(wrong.any(axis=1)) if 0 < crowd.get(int(row), 0) <= CROWD]
    seen = _Seen()
    for row in sorted(rows, key=lambda row: crowd[row])[:ROWS]:
        columns = np.flatnonzero(wrong[row] & np.isfinite(residual[row]))
        _look(pool, row, columns, residual[row, columns], bound[row, columns], seen)
    if seen.elements < MIN_ELEMENTS or seen.known < AGREE * seen.elements or not (seen.lost or seen.came):
        return ""
    return _described(contributions, pool, seen, row_word)


def _look(pool: _Pool, row: int, columns: I64, remaining: F64, bound: F64, seen: _Seen) -> None:
    """The simplest change that explains each wrong element of a row."""
    own = pool.of_row[row]
    here = pool.values[own][:, columns]
    limit = 2 * bound + ROUNDED * (np.abs(here).sum(axis=0) + np.abs(remaining))
    seen.elements += columns.size
    open_ = np.ones(columns.size, bool)

    def settle(fits: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
        """(Candidate, element) of the open elements that one candidate ``[n, elements]`` fits."""
        hit = fits.any(axis=0) & open_
        open_[hit] = False
        seen.known += int(hit.sum())
        return [(int(fits[:, at].argmax()), int(at)) for at in np.flatnonzero(hit)]

    seen.lost += [(int(own[n]), int(columns[at])) for n, at in settle(np.abs(remaining + here) <= limit)]
    seen.twice += [(int(own[n]), int(columns[at])) for n, at in settle(np.abs(remaining - here) <= limit)]
    for lost in (None, *range(own.size)):  # what came, alone or in the place of one of its own
        rest = remaining if lost is None else remaining + here[lost]
        found = [
            (n, int(columns[at]), at) for n, at in settle(np.abs(rest - pool.values[:, columns]) <= limit)
        ]
        found += _of_other_columns(pool, own, columns, rest, limit, open_, seen)
        for n, column, at in found:
            seen.came.append((n, column, row, int(columns[at])))
            if lost is not None:
                seen.lost.append((int(own[lost]), int(columns[at])))


def _of_other_columns(
    pool: _Pool, own: I64, columns: I64, rest: F64, limit: F64, open_: npt.NDArray[np.bool_], seen: _Seen
) -> list[tuple[int, int, int]]:
    """(Contribution, its column, element) of the open elements that hold another column of their own row."""
    found = []
    flat = pool.values[own]
    for at in np.flatnonzero(open_):
        fits = np.argwhere(np.abs(flat - rest[at]) <= limit[at])
        if len(fits):
            n, column = fits[np.abs(fits[:, 1] - columns[at]).argmin()]
            found.append((int(own[n]), int(column), int(at)))
            open_[at] = False
            seen.known += 1
    return found


def _described(contributions: Sequence[Contribution], pool: _Pool, seen: _Seen, word: str) -> str:
    """The additions that are missing or doubled, by tile rows and columns, and where they went."""
    said = []
    for kind, elements in (("missing", seen.lost), ("made twice", seen.twice)):
        if elements:
            slots = sorted({contributions[n].slot for n, _ in elements})
            columns = sorted({column for _, column in elements})
            said.append(f"additions of {_listed(word, slots)} to {_columns(columns)} are {kind}")
    if seen.came:
        said.append(_went(contributions, pool, seen, word))
    return "; ".join(said)


def _went(contributions: Sequence[Contribution], pool: _Pool, seen: _Seen, word: str) -> str:
    tiles = np.cumsum(
        [
            n == 0 or contribution.slot <= contributions[n - 1].slot
            for n, contribution in enumerate(contributions)
        ]
    )
    slots = {
        (int(tiles[n]), contribution.row): contribution.slot for n, contribution in enumerate(contributions)
    }
    moved = Counter(there - column for _, column, _, there in seen.came if there != column)
    if 2 * moved.total() > len(seen.came):
        shift, often = moved.most_common(1)[0]
        if often < AGREE * len(seen.came):
            return f"contributions of other columns of the same {word}s were added there"
        where = "before" if shift < 0 else "further"
        return f"they were made {abs(shift)} column{'s' if abs(shift) > 1 else ''} {where}"
    targets = [slots.get((int(tiles[n]), row)) for n, _, row, _ in seen.came]
    sources = sorted({contributions[n].slot for n, *_ in seen.came})
    known = sorted({target for target in targets if target is not None})
    if None in targets:
        return f"those of {_listed(word, sources)} went to rows of other tiles"
    rows = "rows" if len(known) > 1 else "row"
    return f"those of {_listed(word, sources)} went to the {rows} of {_listed(word, known)}"


def _listed(word: str, numbers: Sequence[int]) -> str:
    if len(numbers) > SHOWN:
        return f"{len(numbers)} {word}s ({numbers[0]}..{numbers[-1]})"
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _columns(columns: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for column in columns:
        if runs and runs[-1][1] == column - 1:
            runs[-1][1] = column
        else:
            runs.append([column, column])
    if len(runs) > SHOWN:
        return f"{len(columns)} columns from {columns[0]} to {columns[-1]}"
    return "columns " + ", ".join(f"{low}..{high}" if low < high else str(low) for low, high in runs)
