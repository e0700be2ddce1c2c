"""Sums of f32 in a plan's order, bit for bit: fused multiply-adds of lanes, and additions between them."""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import LaneOrder

F32 = npt.NDArray[np.float32]


def lane_sums(order: LaneOrder, a: F32, b: F32) -> F32 | None:
    """The sum of ``a b`` of each row, ``[rows]`` of ``[rows, columns]``; None if the columns are not a
    multiple of the lanes' accesses.
    """
    rows, columns = a.shape
    if columns % (order.parts * order.lanes * order.vector):
        return None
    x, y = (operand.reshape(rows, order.parts, -1, order.lanes, order.vector) for operand in (a, b))
    total = np.zeros((rows, order.parts, order.lanes), np.float32)
    for access in range(x.shape[2]):
        for element in range(order.vector):
            total = fused(x[:, :, access, :, element], y[:, :, access, :, element], total)
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return np.asarray(reduce(np.add, np.moveaxis(total[..., 0], 1, 0)), np.float32)


def fused(a: Array, b: Array, c: Array) -> F32:
    """``a b + c`` of f32 numbers, rounded to f32 once.

    The product is exact in float64. Where the sum is not, it is rounded to odd, so that its rounding to f32
    is that of the exact sum (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008).
    """
    product, other = np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64)
    near = product + other
    part = near - product
    rest = (product - (near - part)) + (other - part)
    even = near.view(np.int64) & 1 == 0
    off = np.isfinite(near) & (rest != 0) & even
    odd = np.where(off, np.nextafter(near, np.copysign(np.inf, rest)), near) if off.any() else near
    return odd.astype(np.float32)
