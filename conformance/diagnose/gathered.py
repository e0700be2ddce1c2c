"""Operands of a product with misplaced pieces that differ from row to row: lanes' addresses, the registers
of a fragment.

If the tile has as many columns as the sum has terms, each row of an operand can be solved for. Each of
its vectors is compared with those of both operands; the nearest must give the found row within its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region
from tileproof.conformance.diagnose.faults import Product
from tileproof.spec.problems.faults import F64

VECTORS = (8, 2)  # 16-bit elements of 16 bytes, of a register
AGREE = 0.75  # of the wrong rows must be explained
MIN_ROWS = 4  # wrong rows
WORST = 1e5  # condition of the other operand, beyond which nothing can be solved
MAX_VECTORS = 1 << 13  # vectors of a pool
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Pool:
    """Vectors of the operands, and which operand's, row and number each is; the last is zero: operand -1."""

    vectors: F64
    which: I64

    @staticmethod
    def of(own: F64, other: F64, size: int) -> _Pool:
        parts, which = [], []
        for n, operand in enumerate((own, other)):
            row, vector = np.indices((operand.shape[0], operand.shape[1] // size)).reshape(2, -1)
            parts.append(operand.reshape(-1, size))
            which.append(np.stack([np.full(row.size, n), row, vector], axis=1))
        return _Pool(
            np.concatenate([*parts, np.zeros((1, size))]),
            np.concatenate([*which, np.array([[-1, 0, 0]])]).astype(np.int64),
        )


def explain_gathered(product: Product, found: F64, bound: F64, region: Region) -> str:
    """Words for the operand's rows in the wrong rows or columns of a product; "" if they are not vectors of
    the operands.
    """
    if product.kind != "matmul" or not np.isfinite(found).all():
        return ""
    for side in (0, 1):
        own, other = (product.a, product.b) if side == 0 else (product.b, product.a)
        seen, limit = (found, bound) if side == 0 else (found.T, bound.T)
        for size in VECTORS:
            words = _explained(own, other, seen, limit, region[side], size)
            if words:
                return f"operand {product.names[side]}: {words}"
    return ""


def _explained(own: F64, other: F64, found: F64, bound: F64, rows: I64, size: int) -> str:
    length = own.shape[1]
    if length > other.shape[0] or length % size or rows.size < MIN_ROWS or own.size // size > MAX_VECTORS:
        return ""
    if not np.isfinite(bound[rows]).all() or len(np.unique(own.reshape(-1, size), axis=0)) * size < own.size:
        return ""  # vectors that stand twice have no place
    low, high = np.linalg.svd(other, compute_uv=False)[[-1, 0]]
    if low * WORST <= high:
        return ""
    inverse = np.linalg.pinv(other)
    solved = found[rows] @ inverse.T
    noise = np.sqrt((bound[rows] ** 2) @ (inverse.T**2)) + 1e-12
    pool = _Pool.of(own, other, size)
    taken = np.stack(
        [
            _nearest(pool.vectors, solved[:, k : k + size], noise[:, k : k + size])
            for k in range(0, length, size)
        ],
        axis=1,
    )
    read = pool.vectors[taken].reshape(rows.size, length)
    slack = 2 * bound[rows] + 1e-6 * (np.abs(read) @ np.abs(other).T)
    fits = (np.abs(read @ other.T - found[rows]) <= slack).all(axis=1)
    if fits.sum() < max(MIN_ROWS, AGREE * rows.size):
        return ""
    return _words(rows[fits], pool.which[taken[fits]], size)


def _nearest(vectors: F64, solved: F64, noise: F64) -> I64:
    """The nearest vector to each solved vector, in units of its noise."""
    weight = 1 / noise**2
    apart = weight @ (vectors**2).T - 2 * (weight * solved) @ vectors.T
    nearest: I64 = np.argmin(apart, axis=1)
    return nearest


def _words(rows: I64, which: I64, size: int) -> str:
    """What was read, `which` ``[rows, vectors, (operand, row, vector)]``."""
    number = np.arange(which.shape[1])
    operand, row, vector = np.moveaxis(which, 2, 0)
    moved = (operand != 0) | (row != rows[:, None]) | (vector != number)
    if not moved.any():
        return ""
    how = f"{int(moved.sum())} of {moved.size} vectors of {size} columns"
    if (operand[moved] == -1).all():
        return f"{how} were zero"
    known = moved & (operand == 0)
    if not known.any():
        return f"{how} were those of the other operand: a wrong address"
    n, k = (int(x) for x in np.argwhere(known)[0])
    down, right = (row - rows[:, None])[known], (vector - number)[known]
    if not down.any():
        kind = "other columns of the same rows"
    elif not right.any():
        kind = f"rows {int(down[0]):+d}" if len(set(down.tolist())) == 1 else "other rows in the same columns"
    else:
        kind = "other rows and columns"
    first, there = size * k, size * int(vector[n, k])
    example = (
        f"row {int(rows[n])}, columns {first}..{first + size - 1} are those of row {int(row[n, k])}, "
        f"columns {there}..{there + size - 1}"
    )
    return f"{how} were read in {kind} ({example}): a wrong address, layout or register"
