"""The values of a drawn problem: classes of q, kv, o and dO, and special values written over them."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import WIDEST
from tileproof.spec.problems.sparse_mla_bwd import coordinates
from tileproof.spec.problems.sparse_mla_bwd.inputs import Problem

# "integers": -3 .. 3. "wide": -255 .. 255, of which all sums of products over d_qk stay exact in f32, while a
# sum that was rounded to 18 bits or fewer differs. "exact", "wide exact": also S, dS, dQ and dKV are exact.
# "mixed": each head and each kv row of a kind of its own.
Values = Literal[
    "zeros", "coordinates", "integers", "exact", "normal", "large", "tiny", "wide", "wide exact", "mixed"
]
# Magnitudes over the rest: 2^6 to 2^12 of a sixteenth of the kv rows, or of the heads of q and dO; 2^-6 to
# 2^6 of each column of q and kv, opposite to each other; 2^-4 to 2^4 of each tensor.
Outliers = Literal["", "rows", "heads", "columns", "tensors"]
VALUES: tuple[Values, ...] = get_args(Values)
OUTLIERS: tuple[Outliers, ...] = get_args(Outliers)

# Magnitudes: the largest P is below 2^12 * 2^12 * 2^10, far under the f32 maximum; tiny products reach f32's
# subnormal range (2^-70 * 2^-66), which the tensor core keeps.
SCALES = {"normal": 1.0, "large": 2.0**10, "tiny": 2.0**-68}
F16_TINY = 2.0**-14  # subnormals of f16, whose range ends above 2^-68

# Coordinate codes span 2^-22 .. 2^22 and their products far more: a small scale keeps S near 1 / keys. With
# "exact" every factor is a power of two. P of "wide" is about 2^19.
SM_SCALES = {"coordinates": 2.0**-64, "exact": 2.0**-3, "wide exact": 2.0**-3, "wide": 2.0**-18}
INTEGER_LSE = ("exact", "wide exact")
# DeepSeek-V3 with a context extended 40 times: 1 / sqrt(192) times mscale^2, mscale = 0.1 ln 40 + 1; and
# 1 / sqrt(128), of a head of 128 columns.
PRODUCTION_SCALES = ((0.1 * math.log(40) + 1) ** 2 / math.sqrt(192), 1 / math.sqrt(128))
# Added to the lse of a head: S becomes so much smaller or larger, down to zero and near the largest f32.
LSE_STEPS = (0.0, 60.0, -60.0, 120.0, -100.0, 140.0, 160.0)
_INTEGERS = {"integers": 3, "wide": WIDEST}


def draw(
    values: Values, outliers: Outliers, p: Problem, rows: Array, rng: np.random.Generator
) -> list[Array]:
    """q, the `rows` of kv, o and dO, in the problem's form."""
    drawn = _class(values, p, rows, rng)
    if not outliers:
        return drawn
    q, kv, o, dO = (np.asarray(x, np.float32) for x in drawn)
    if outliers == "rows":
        kv *= _some(rng, (rows.size, 1))
    elif outliers == "heads":
        factor = _some(rng, (p.s_q, p.h_q, 1))
        q, dO = q * factor, dO * factor
    elif outliers == "columns":
        factor = np.exp2(rng.integers(-6, 7, p.d_qk)).astype(np.float32)
        q, kv = np.asarray(q * factor, np.float32), np.asarray(kv / factor, np.float32)
    else:
        q, kv, o, dO = (
            np.asarray(x * np.float32(2.0 ** int(rng.integers(-4, 5))), np.float32) for x in (q, kv, o, dO)
        )
    return [x.astype(p.dtype) for x in (q, kv, o, dO)]


def _some(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """2^6 to 2^12 in a sixteenth of the places, at least at a single place, and 1 elsewhere."""
    factor = np.where(rng.random(shape) < 1 / 16, np.exp2(rng.integers(6, 13, shape)), 1.0)
    factor[tuple(int(rng.integers(size)) for size in shape)] = 2.0**12
    return factor.astype(np.float32)


def _class(values: Values, p: Problem, rows: Array, rng: np.random.Generator) -> list[Array]:
    shapes = [p.shapes()[name][0] for name in ("q", "kv", "o", "dO")]
    shapes[1] = rows.size, p.d_qk
    if values == "zeros":
        return [np.zeros(shape, dtype=p.dtype) for shape in shapes]
    if values == "coordinates":
        offset, places = int(rng.integers(p.d_qk)), np.arange(p.s_q * p.h_q)
        return [
            coordinates.to_bf16(coordinates.one_hot(p.s_q, p.h_q, p.d_qk, offset)),
            coordinates.to_bf16(coordinates.rows(rows, p.d_qk)),
            coordinates.to_bf16(coordinates.one_hot(p.s_q, p.h_q, p.d_v, offset)),
            coordinates.to_bf16(coordinates.rows(places, p.d_v).reshape(p.s_q, p.h_q, p.d_v)),
        ]
    if values in _INTEGERS:
        largest = _INTEGERS[values]
        return [rng.integers(-largest, largest + 1, shape).astype(p.dtype) for shape in shapes]
    if values == "exact":
        return _exact(p, rows.size, rng, 3, 2)
    if values == "wide exact":
        return _exact(p, rows.size, rng, 255, 63)
    if values == "mixed":
        return [_kinds(shape, rng).astype(p.dtype) for shape in shapes]
    scale = F16_TINY if (values, p.form) == ("tiny", "f16") else SCALES[values]
    return [
        (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(p.dtype) for shape in shapes
    ]


def _kinds(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Rows of zeros, of small integers, of normal and of tiny numbers."""
    x = rng.standard_normal(shape, dtype=np.float32)
    kind = rng.integers(0, 4, (*shape[:-1], 1))
    return np.select([kind == 0, kind == 1, kind == 2], [0 * x, np.rint(2 * x), x], x * np.float32(2.0**-20))


def _exact(p: Problem, rows: int, rng: np.random.Generator, of_q: int, of_kv: int) -> list[Array]:
    """q, `rows` rows of kv, o, dO on which every stage is exact in f32, given an integer lse, and in bf16 too
    where q and kv are small.

    Neighbouring columns of q cancel against equal columns of kv, so that P = 0 and S = 2^-lse; few
    columns of dO are not zero, so that dS keeps 8 bits.
    """
    half = rng.integers(-of_q, of_q + 1, (p.s_q, p.h_q, p.d_qk // 2))
    q = np.stack([half, -half], axis=-1).reshape(p.s_q, p.h_q, p.d_qk)
    kv = np.repeat(rng.integers(-of_kv, of_kv + 1, (rows, p.d_qk // 2)), 2, axis=-1)
    shape = (p.s_q, p.h_q, p.d_v)
    o, dO = rng.integers(-1, 2, shape), rng.integers(-1, 2, shape) * (rng.random(shape) < 1 / 16)
    return [x.astype(np.float32).astype(p.dtype) for x in (q, kv, o, dO)]
