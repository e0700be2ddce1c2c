"""Wrong gather rows: the kv row from which a column of P (or dP) was computed."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.problems.faults import F64, WrongTile
from tileproof.spec.problems.sparse_mla_bwd.coordinates import COLUMN_TILE
from tileproof.spec.problems.sparse_mla_bwd.inputs import (
    D_V,
    DENSE_ROWS,
    Inputs,
    key_mask,
    selected_rows,
)

SHOWN = 3
I64 = npt.NDArray[np.int64]


def rows_of_kv(inputs: Inputs) -> I64:
    """The kv rows that are candidates: all of them; of a large kv those that some token selects."""
    if inputs.problem.s_kv <= DENSE_ROWS:
        return np.arange(inputs.problem.s_kv)
    return selected_rows(inputs)


def explain_rows(inputs: Inputs, tile: WrongTile, a: F64, b: F64, ctas: int = 1) -> str:
    """Words naming the kv row behind each wrong column of a b^T, `a` [heads, K] and `b` [slots, K] being kv
    rows; "" unless every wrong column is explained.

    A column counts as explained when one kv row (or a zero row), for the whole sum or for one of its column
    tiles, also the same one of each CTA's share, reproduces every head of it. One of NaN alone says nothing
    where kv has rows of NaN or inf.
    """
    width = a.shape[1]
    rows = rows_of_kv(inputs)
    pool = np.zeros((rows.size + 1, width))
    pool[:-1] = inputs.kv[rows, :width].astype(np.float64)
    finite = np.flatnonzero(np.isfinite(pool).all(axis=1))
    odd = np.isnan(tile.found).all(axis=0) & (finite.size <= rows.size)
    numbers = np.append(rows, inputs.problem.s_kv)
    columns = [int(j) for j in np.flatnonzero(tile.wrong.any(axis=0) & ~odd)]
    if not columns:
        return ""
    tiles = [np.arange(width), *(np.arange(k, k + COLUMN_TILE) for k in range(0, width, COLUMN_TILE))]
    share = D_V // ctas
    for k in range(0, share, COLUMN_TILE) if ctas > 1 and share % COLUMN_TILE == 0 else ():
        tiles.append((np.arange(0, D_V, share)[:, None] + np.arange(k, k + COLUMN_TILE)).ravel())
    for part in tiles:
        sources: dict[int, int] = {}
        for j in columns:
            row = _source(inputs, tile, a, b, j, part, pool[finite], numbers[finite])
            if row is None:
                break
            sources[j] = row
        else:
            if all(_is_own(inputs, tile, j, row) for j, row in sources.items()):
                return ""  # the right rows: something else is wrong
            poison = np.flatnonzero(tile.wrong.any(axis=0) & odd)
            more = f"; {poison.size} more slots hold a row of NaN or inf" if poison.size else ""
            return _words(inputs, tile, sources, part, width) + more
    return _other_columns(inputs, tile, a, b, columns)


def _other_columns(inputs: Inputs, tile: WrongTile, a: F64, b: F64, columns: list[int]) -> str:
    """Words when every wrong column has one column tile of its kv row from other columns of that row."""
    own = inputs.indices[tile.coord.group, tile.cols.start + np.array(columns)]
    if not key_mask(inputs)[tile.coord.group, tile.cols.start + np.array(columns)].all():
        return ""
    rows = inputs.kv[own].astype(np.float64)
    width = a.shape[1]
    beyond = np.zeros((len(columns), COLUMN_TILE))  # what a copy fills in behind the last column
    for first, off in itertools.product(range(0, width, COLUMN_TILE), (1, -1, COLUMN_TILE, -COLUMN_TILE)):
        if not 0 <= first + off <= rows.shape[1]:
            continue
        moved = b[columns].copy()
        moved[:, first : first + COLUMN_TILE] = np.concatenate((rows, beyond), 1)[
            :, first + off : first + off + COLUMN_TILE
        ]
        other = BOUND.matmul(Bounded(a), BOUND.transpose(Bounded(moved)))
        with np.errstate(invalid="ignore"):
            if (np.abs(tile.found[:, columns] - other.value) <= other.errors).all():
                where = f"columns {first}..{first + COLUMN_TILE - 1} of {len(columns)} slots"
                return f"{where} are the columns {off:+d} of their kv row: the coordinate of a gather"
    return ""


def explain_poison(inputs: Inputs, tile: WrongTile) -> str:
    """Words when each column that is not finite belongs to a slot that is no key, but names such a kv row; or
    when each belongs to a key whose own row is finite, and other columns are.
    """
    own, mask = inputs.indices[tile.coord.group], key_mask(inputs)[tile.coord.group]
    slots = tile.cols.start + np.flatnonzero(tile.wrong.any(axis=0))
    index = own[slots]
    more = f"; {slots.size - SHOWN} more slots similarly" if slots.size > SHOWN else ""
    if mask[slots].all() and np.isfinite(inputs.kv[index].astype(np.float32)).all():
        if slots.size == tile.found.shape[1] or not np.isnan(tile.found[:, slots - tile.cols.start]).all():
            return ""
        shown = ", ".join(f"{int(s)} (index {int(own[s])})" for s in slots[:SHOWN])
        none = "a kv row that no token selects, or bytes that were never written"
        return f"slots hold NaN or inf instead of their kv row, {none}: {shown}{more}"
    if mask[slots].any() or ((index < 0) | (index >= inputs.problem.s_kv)).any():
        return ""
    if np.isfinite(inputs.kv[index].astype(np.float32)).all(axis=1).any():
        return ""
    shown = "; ".join(
        f"slot {int(s)} (no key, index {int(own[s])}) still holds that row" for s in slots[:SHOWN]
    )
    return f"the NaN or inf of kv rows that no token selects was gathered: {shown}{more}"


def _source(
    inputs: Inputs,
    tile: WrongTile,
    a: F64,
    b: F64,
    j: int,
    part: I64,
    pool: F64,
    candidates: I64,
) -> int | None:
    """The kv row (s_kv: a zero row) of `candidates`, with values `pool`, that, used for `part` of column j,
    gives the values found; None if none does.
    """
    column = tile.found[:, j]
    rows = np.repeat(b[j : j + 1], candidates.size, axis=0)
    rows[:, part] = pool[:, part]
    other = BOUND.matmul(Bounded(a), BOUND.transpose(Bounded(rows)))
    with np.errstate(invalid="ignore"):
        fits = candidates[(np.abs(column[:, None] - other.value) <= other.errors).all(axis=0)]
    if fits.size == 0:
        return None
    # Prefer a row that the token's own slots name, nearest slot first: equal rows are common.
    own = inputs.indices[tile.coord.group]
    near = sorted(range(own.size), key=lambda slot: abs(slot - (tile.cols.start + j)))
    named = [int(own[slot]) for slot in near if own[slot] in fits]
    return named[0] if named else int(fits[0])


def _is_own(inputs: Inputs, tile: WrongTile, j: int, row: int) -> bool:
    slot = tile.cols.start + j
    own, mask = (x[tile.coord.group] for x in (inputs.indices, key_mask(inputs)))
    return bool(mask[slot]) and row == int(own[slot])


def _words(inputs: Inputs, tile: WrongTile, sources: dict[int, int], part: I64, width: int) -> str:
    token, s_kv = tile.coord.group, inputs.problem.s_kv
    own, mask = inputs.indices[token], key_mask(inputs)[token]
    wrong_slots = []
    runs = np.split(part, np.flatnonzero(np.diff(part) > 1) + 1)
    named = " and ".join(f"{run[0]}..{run[-1]}" for run in runs)
    where = "" if part.size == width else f" in columns {named}"
    slots = tile.cols.start + np.array(list(sources))
    off = set((np.array(list(sources.values())) - own[slots]).tolist())
    # A row that other slots name may be theirs: each is reported with its slot.
    others = set(own[mask].tolist())
    alone = len(sources) > 1 and not all(row in others for row in sources.values())
    if len(off) == 1 and alone and mask[slots].all() and s_kv not in sources.values():
        return (
            f"wrong kv row gathered{where}: {len(sources)} slots hold the row of their index {off.pop():+d}"
        )
    for j, row in list(sources.items())[:SHOWN]:
        slot = tile.cols.start + j
        want = f"index {int(own[slot])}" if mask[slot] else f"no key, index {int(own[slot])}"
        if row == s_kv:
            wrong_slots.append(f"slot {slot} ({want}) holds zeros")
            continue
        if row == own[slot] and not mask[slot]:
            wrong_slots.append(f"slot {slot} ({want}) still holds that row")
            continue
        other = [int(s) for s in np.flatnonzero((own == row) & mask)]
        nearest = min(other, key=lambda s: abs(s - slot), default=None)
        whose = f", the row of slot {nearest}" if nearest is not None else ", a row that no slot names"
        wrong_slots.append(f"slot {slot} ({want}) holds kv row {row}{whose}")
    more = f"; {len(sources) - SHOWN} more slots similarly" if len(sources) > SHOWN else ""
    return f"wrong kv row gathered{where}: " + "; ".join(wrong_slots) + more
