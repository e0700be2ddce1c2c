"""Values that carry their own coordinates, so that a misplaced element shows its origin.

kv element (r, d) holds a power-of-two multiple of a 7-bit mantissa that encodes (r, d // 64); q has one
nonzero element per head, in a column that walks through all column tiles as the head grows. P[h, j] is then
one product, exact in f32, and names the kv row, the column tile and a class of the head. o and dO do the same
for delta.

Codes use even exponents of two only: a doubled or halved contribution has an odd exponent and names
nothing, nor does the sum of two codes of the same magnitude; most other sums have too many bits to be a code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

COLUMN_TILE = 64
HEAD_CLASSES = 6
HEAD_STRIDE = 19  # coprime to 512 and 576: every 32 heads visit every column tile
_MANTISSAS = 128  # bf16 has 8 significant bits: 128 .. 255 are its normalised integers
_EXPONENTS = 22  # code exponents 2 * (0 .. 21): 2816 codes
_GROUP = 2 * _EXPONENTS
CODES = _MANTISSAS * _EXPONENTS


@dataclass(frozen=True)
class Coordinate:
    """What a P or delta value names: the code's row, its 64-column tile, and the head modulo 6."""

    row: int
    column_tile: int
    head_class: int


def code(number: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The value of code `number` (0 .. 2815), exactly representable in bf16."""
    mantissa = _MANTISSAS + number % _MANTISSAS
    exponent = 2 * ((number // _MANTISSAS) % _EXPONENTS)
    return np.ldexp(mantissa.astype(np.float64), exponent - 7 - _EXPONENTS)


def rows(numbers: npt.NDArray[np.int64], columns: int) -> npt.NDArray[np.float64]:
    """``[rows, columns]`` codes; row r of `numbers`, column d holds code r * (columns / 64) + d // 64 (modulo
    the number of codes).
    """
    tiles = columns // COLUMN_TILE
    number = numbers[:, None] * tiles + np.arange(columns)[None, :] // COLUMN_TILE
    return code(number % CODES)


def one_hot(tokens: int, heads: int, columns: int, offset: int) -> npt.NDArray[np.float64]:
    """``[tokens, heads, columns]``: head h of token t is nonzero in column (19 h + offset + t) % columns
    only.
    """
    head = np.arange(heads)
    values = np.zeros((tokens, heads, columns))
    sign = np.where(head % 2, -1.0, 1.0)
    group = np.exp2(((head // 2) % 3 - 1) * float(_GROUP))
    for token in range(tokens):
        values[token, head, (HEAD_STRIDE * head + offset + token) % columns] = sign * group
    return values


def decode(value: float, columns: int) -> Coordinate | None:
    """The coordinate that `value` names, None when it is no single code times a head's factor."""
    if value == 0.0 or not math.isfinite(value):
        return None
    fraction, power = math.frexp(abs(value))
    mantissa = fraction * 2 * _MANTISSAS
    exponent = power - 8 + 7 + _EXPONENTS
    group, exponent = divmod(exponent + _GROUP, _GROUP)
    if mantissa != int(mantissa) or exponent % 2 or not 0 <= group <= 2:
        return None
    number = (exponent // 2) * _MANTISSAS + int(mantissa) - _MANTISSAS
    row, tile = divmod(number, columns // COLUMN_TILE)
    return Coordinate(row, tile, int(group) * 2 + (value < 0))


def to_bf16(values: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    """bf16 copy of values that are exactly representable; ValueError otherwise, for then they would name
    nothing.
    """
    rounded = values.astype(np.float32).astype(ml_dtypes.bfloat16)
    if not np.array_equal(rounded.astype(np.float64), values):
        raise ValueError("coordinate codes must be exact in bf16")
    return rounded
