"""Rows that tiles are added to: which contributions are missing, doubled, or went to other rows or columns.

The deviation of each wrong row is decomposed greedily into whole contributions: the contribution that leaves
the least is subtracted or added until the remainder is within the bound. Rows that agree give the cause.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

ROWS = 24  # wrong rows that are looked at
TERMS = 6  # contributions that may be wrong in a row
CROWD = 16  # contributions to a row, beyond which it says little
AGREE = 0.75  # of the rows must be explained
SHOWN = 3
ROUNDED = 2.0**-20  # of what is added to a row, that a sum in another order may be off by
PART = 64  # columns that a part of a tile is moved by, at least


@dataclass(frozen=True)
class Contribution:
    """What tile row `slot` of one tile adds: to output row `row` (-1: to none), `value` ``[cols]``."""

    slot: int
    row: int
    value: F64


@dataclass(frozen=True)
class _Candidate:
    """A contribution in the wrong columns, or another part of it that may have come there (`shift`)."""

    slot: int
    row: int
    shift: int
    value: F64


def explain_scatter(
    contributions: Sequence[Contribution],
    residual: F64,
    bound: F64,
    wrong: npt.NDArray[np.bool_],
    row_word: str,
) -> str:
    """Words for what went wrong with the contributions; "" if the wrong rows do not agree.

    `residual` is found minus expected and `bound` how large that may be, both ``[rows, cols]``.
    """
    columns = np.flatnonzero(wrong.any(axis=0))
    rows = np.flatnonzero(wrong.any(axis=1))
    odd = ~np.isfinite(residual[rows][:, columns]).all(axis=1)
    if 2 * odd.sum() >= rows.size:
        return "NaN or infinity was added there: values that were not ready, or memory that was reused"
    crowd = Counter(contribution.row for contribution in contributions)
    sizes: dict[int, float] = defaultdict(float)
    for contribution in contributions:
        sizes[contribution.row] += float(np.linalg.norm(contribution.value[columns]))
    rows = np.array([row for row in rows[~odd] if crowd[int(row)] <= CROWD][:ROWS], np.int64)
    if columns.size < 8 or rows.size == 0:
        return ""
    pool = _candidates(contributions, columns)
    matrix = np.stack([candidate.value for candidate in pool])
    norms = (matrix**2).sum(axis=1)
    said: Counter[str] = Counter()
    for row in rows:
        # The sums that were made instead are rounded in f32, also where the correct sums are exact.
        limit = 2 * float(np.linalg.norm(bound[row, columns])) + ROUNDED * sizes[int(row)]
        taken = _taken(matrix, norms, residual[row, columns], limit)
        for text in {_said(pool, taken, int(row), row_word)} if taken else ():
            said[text] += 1
    texts = [text for text, _ in said.most_common() if text]
    if not texts or sum(said[text] for text in texts) < AGREE * rows.size:
        return ""
    return "; ".join(texts[:SHOWN])  # lost in one row, a contribution is found in another


def _candidates(contributions: Sequence[Contribution], columns: npt.NDArray[np.int64]) -> list[_Candidate]:
    pool = [
        _Candidate(contribution.slot, contribution.row, 0, contribution.value[columns])
        for contribution in contributions
    ]
    low, width = int(columns[0]), int(columns[-1] - columns[0]) + 1
    if columns.size == width and width % PART == 0:
        for contribution in contributions:
            for first in range(low % PART, contribution.value.size - width + 1, PART):
                if first != low:
                    value = contribution.value[first : first + width]
                    pool.append(_Candidate(contribution.slot, contribution.row, first - low, value))
    return [
        contribution
        for contribution in pool
        if np.isfinite(contribution.value).all() and contribution.value.any()
    ]


def _taken(matrix: F64, norms: F64, remaining: F64, limit: float) -> dict[int, int]:
    """How often each contribution was counted too much, so that less than `limit` is left; {} if none do."""
    counts: dict[int, int] = {}
    for _ in range(TERMS):
        size = float(np.linalg.norm(remaining))
        if size <= limit:
            return counts
        along = matrix @ remaining
        gain = 2 * np.abs(along) - norms  # what is left gets so much less
        best = int(gain.argmax())
        if gain[best] <= 0:
            return {}
        sign = 1 if along[best] > 0 else -1
        counts[best] = counts.get(best, 0) + sign
        remaining = remaining - sign * matrix[best]
    return counts if float(np.linalg.norm(remaining)) <= limit else {}


def _said(pool: Sequence[_Candidate], taken: dict[int, int], row: int, word: str) -> str:
    """One row's mistake in words that rows with the same mistake share."""
    own = {
        pool[n].slot for n, count in taken.items() if count < 0 and pool[n].row == row and not pool[n].shift
    }
    more = [pool[n] for n, count in taken.items() if count > 0]
    if any(count < 0 and (pool[n].row != row or pool[n].shift) for n, count in taken.items()):
        return ""
    shifts = {contribution.shift for contribution in more if contribution.shift}
    if shifts and all(contribution.row == row for contribution in more) and len(shifts) == 1:
        shift = shifts.pop()
        side = "before" if shift < 0 else "behind"
        return f"those columns hold contributions from {abs(shift)} columns {side}"
    if shifts:
        return "those columns hold another part of the tile's columns"
    if not more:
        return f"the contribution of some {word}s is missing"
    if all(contribution.row == row for contribution in more) and not own:
        return f"the contribution of some {word}s was added twice"
    if not own:
        return f"contributions of {word}s went to wrong rows"
    came = {contribution.slot for contribution in more}
    for step in sorted({slot - min(own) for slot in came}, key=abs):
        if came == {slot + step for slot in own}:
            sign = "-" if step > 0 else "+"
            return f"{word} j's contribution went to the row of {word} j {sign} {abs(step)}"
    return f"contributions of {word}s went to wrong rows"
