"""Misplaced operands: a part was read or loaded from other rows or columns of the same array.

The array is the problem's operand: the rows of every group and CTA one after another. A
candidate is found by a wrong row in the middle and must then explain nearly all in the same way: those at the
edge of a tile in shared memory read what lies behind it there, those at the edge of the array nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region
from tileproof.conformance.diagnose.faults import COLUMN_TILE, Product
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.faults import F64

AGREE = 0.75  # of the wrong rows must be explained
VECTOR = 8  # elements of a 16-byte access
MIN_ROWS = 6  # wrong rows of one number each, below which many candidates fit by chance
PROBES = 5  # rows that a candidate is tried in first


def explain_moved(
    chain: Chain, tile: StageTile, product: Product, found: F64, bound: F64, region: Region
) -> str:
    """Words for the operand that came from elsewhere; "" when none explains the wrong rows (region[0])."""
    if product.kind not in ("matmul", "rowsum") or (product.kind == "rowsum" and region[0].size < MIN_ROWS):
        return ""
    for side, name in enumerate(product.names):
        if product.kind == "matmul" and side == 1:
            continue  # rows of b are the tile's columns: left to `FaultHypotheses.operand_rows`
        pool, first = _pool(chain, tile, name)
        if pool is not None and np.isfinite(pool).all():
            words = _explained(product, side, pool, first, found, bound, region, chain.tiling.ctas)
            if words:
                return words
    return ""


def _pool(chain: Chain, tile: StageTile, name: str) -> tuple[F64 | None, int]:
    """All rows of an operand, and where those of the tile begin among them."""
    parts, first, rows = [], -1, 0
    for group in chain.problem.groups(chain.inputs, chain.tiling):
        for cta in range(chain.tiling.ctas):
            coord = TileCoord(group, None if tile.coord.cta is None else cta, tile.coord.k_block)
            if tile.coord.k_block is not None:
                if chain.problem.k_blocks(chain.inputs, chain.tiling, group) == 0:
                    continue
                coord = TileCoord(group, coord.cta, 0)
            region = chain.region(tile.stage, coord)
            value: F64 = chain.operands(tile.stage, coord, *region)[name].value
            if (group, coord.cta) == (tile.coord.group, tile.coord.cta):
                first = rows
            parts.append(value)
            rows += value.shape[0]
            if tile.coord.cta is None:
                break
    if first < 0 or len({part.shape[1] for part in parts}) != 1:
        return None, 0
    return np.concatenate(parts), first


I64 = npt.NDArray[np.int64]


def _pieces(length: int, rowsum: bool, ctas: int) -> Iterator[I64]:
    """Columns of the summed axis that one load may bring: all, halves, column tiles; where every CTA loads a
    share of them, the same tile of each.
    """
    columns = np.arange(length)
    yield columns
    widths = [length // 2] if rowsum and length % (2 * VECTOR) == 0 else []
    for width in (*widths, COLUMN_TILE):
        if length % width == 0 and width < length:
            yield from columns.reshape(-1, width)
    whole = 1 << length.bit_length() - 1  # columns beyond are shared out by themselves
    if ctas > 1 and whole % (ctas * COLUMN_TILE) == 0 and whole > ctas * COLUMN_TILE:
        tiles = columns[:whole].reshape(ctas, -1, COLUMN_TILE)
        yield from (tiles[:, n].ravel() for n in range(tiles.shape[1]))


def _explained(
    product: Product, side: int, pool: F64, first: int, found: F64, bound: F64, region: Region, ctas: int
) -> str:
    rows = region[0]
    length, rowsum = pool.shape[1], product.kind == "rowsum"
    flat = pool.ravel()
    for piece in _pieces(length, rowsum, ctas):
        within = piece - piece[0]
        span = int(within[-1]) + 1
        rest = found - (product.value() - product.value(piece))
        own = (first + rows) * length + piece[0]
        unit = VECTOR if rowsum else COLUMN_TILE
        mid = rows.size // 2
        middle = rows[mid]
        # Where that row's elements may begin, in units of one access.
        starts = np.arange(own[mid] % unit, flat.size - span + 1, unit)
        if rowsum and length % VECTOR == 0:
            fits = _fit_chunks(product, side, piece, flat, rest[middle, 0], bound[middle, 0], middle)[
                : starts.size
            ]
        else:
            windows = np.lib.stride_tricks.sliding_window_view(flat, span)[starts][:, within]
            fits = _fit(product, side, piece, windows, rest[middle], bound[middle], middle)
        offs = starts[fits] - own[mid]
        # Of small integers many fit one row by chance.
        hits = np.zeros(offs.size, int)
        for row in np.linspace(0, rows.size - 1, PROBES).astype(int) if rows.size > PROBES else ():
            at = own[row] + offs
            inside = np.flatnonzero((at >= 0) & (at <= flat.size - span))
            read = flat[at[inside][:, None] + within]
            of = rows[row]
            hits[inside] += _fit(product, side, piece, read, rest[of], bound[of], of)
        likely = offs[2 * hits >= PROBES] if rows.size > PROBES else offs
        for off in sorted((int(off) for off in likely if off), key=abs):
            moved = own + off
            fitting = sum(
                bool(_fit(product, side, piece, flat[at + within][None], rest[row], bound[row], row)[0])
                for at, row in zip(moved.tolist(), rows.tolist(), strict=True)
                if 0 <= at <= flat.size - span
            )
            if fitting >= AGREE * rows.size:
                return _words(product.names[side], piece, length, off)
    return ""


def _fit_chunks(
    product: Product, side: int, piece: I64, flat: F64, wanted: float, bound: float, row: int
) -> npt.NDArray[np.bool_]:
    """`_fit` of a sum of one row for every window that begins at an access of 16 bytes."""
    other = (product.b if side == 0 else product.a)[row, piece].reshape(-1, VECTOR)
    at = (piece.reshape(-1, VECTOR)[:, 0] - piece[0]) // VECTOR
    count = flat.size // VECTOR - int(at[-1])
    value, size = np.zeros(count), np.zeros(count)
    for total, chunks, factors in ((value, flat, other), (size, np.abs(flat), np.abs(other))):
        each = factors @ chunks.reshape(-1, VECTOR).T
        for windows, first in zip(each, at.tolist(), strict=True):
            total += windows[first : first + count]
    return np.asarray(np.abs(value - wanted) <= bound + 1e-6 * size)


def _fit(
    product: Product, side: int, piece: I64, windows: F64, wanted: F64, bound: F64, row: int
) -> np.ndarray:
    """Which of the windows ``[n, width]``, in the place of the operand's row, give the wanted row."""
    other = product.b if side == 0 else product.a
    with np.errstate(over="ignore", invalid="ignore"):
        if product.kind == "rowsum":
            value = windows @ other[row, piece]
            size = np.abs(windows) @ np.abs(other[row, piece])
            wanted, bound = wanted[0], bound[0]
            return np.asarray(np.abs(value - wanted) <= bound + 1e-6 * size)
        value = windows @ other[:, piece].T
        size = np.abs(windows) @ np.abs(other[:, piece]).T
        return np.asarray((np.abs(value - wanted) <= bound + 1e-6 * size).all(axis=1))


def _words(name: str, piece: I64, length: int, off: int) -> str:
    down, right = divmod(off + length // 2, length)
    right -= length // 2
    runs = np.split(piece, np.flatnonzero(np.diff(piece) > 1) + 1)
    columns = " and ".join(f"{run[0]}..{run[-1]}" for run in runs)
    where = "" if piece.size == length else f"columns {columns} of "
    distances = [f"{abs(down)} row{'s' if abs(down) > 1 else ''} {'further' if down > 0 else 'before'}"] * (
        down != 0
    )
    distances += [f"{abs(right)} columns {'further' if right > 0 else 'before'}"] * (right != 0)
    return f"{where}operand {name} came from {' and '.join(distances)}: a wrong address or coordinate"
