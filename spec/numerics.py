"""Rounding and error bounds: how far a correct kernel's stage may lie from the float64 formula, per element.

Every bound is assume-guarantee: it takes the stage's own inputs as the kernel had them, and covers that
stage's rounding alone. No constant here is tuned: `CONSTANTS` lists each with its source. Products of two
bf16 are exact in f32 (8 x 8 bit significands) unless they fall below 2^-149; tensor cores and CUDA's default
arithmetic (no -ftz) keep subnormals, so underflow costs at most 2^-149 a term.

Where every partial sum is exact whatever the order (`exact_matmul_mask`) the bound is 0. Where an
intermediate may exceed the f32 range the bound is +inf, for that element only: infinity and any finite value
are then both honest outcomes. It is +inf also where the stage's inputs are not finite (an earlier stage is to
blame). The float64 evaluation of the formula itself is part of each bound (U_F64 terms).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd import stages
from tileproof.spec.problems.sparse_mla_bwd.inputs import Array

F64 = npt.NDArray[np.float64]

U_F64 = 2.0**-53
U_F32 = 2.0**-24
U_F32_RZ = 2.0**-23
U_BF16 = 2.0**-8
EX2_RELATIVE = 2.0**-22
F32_TINY = 2.0**-149
F32_MIN_NORMAL = 2.0**-126
F32_MAX = float(np.finfo(np.float32).max)
BF16_TINY = 2.0**-133
BF16_MAX = (2 - 2.0**-7) * 2.0**127
LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Constant:
    """One constant of the error analysis, what it stands for, and who says so."""

    name: str
    value: str
    meaning: str
    source: str


CONSTANTS = (
    Constant(
        "U_F32_RZ",
        "2^-23",
        "one f32 addition that may round toward zero, as tensor cores do; one block of 16 products loses at "
        "most 16 * 2^-25 of its largest term and 2^-23 of its result, which 16 such additions cover",
        "Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, arXiv 2512.07004",
    ),
    Constant("U_F32", "2^-24", "one f32 operation rounded to nearest", "PTX ISA 9.7.3 (.rn)"),
    Constant(
        "gamma(n, u)",
        "n u / (1 - n u)",
        "relative error of an n-term sum in any order, against sum|a_i b_i|",
        "Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2",
    ),
    Constant(
        "U_BF16", "2^-8", "conversion to bf16, round to nearest even", "PTX ISA 9.7.9.21 (cvt.rn.bf16x2.f32)"
    ),
    Constant(
        "EX2_RELATIVE",
        "2^-22",
        "ex2.approx.ftz.f32, 2 ulp over the full range (2^-22.75 was seen on an H200)",
        "PTX ISA 9.7.3.21",
    ),
    Constant(
        "F32_TINY", "2^-149", "an f32 product or sum that underflows, subnormals kept", "IEEE 754 binary32"
    ),
    Constant(
        "F32_MIN_NORMAL",
        "2^-126",
        "a result that is flushed to zero: ex2.approx.ftz, red.add.f32 on global memory; also the least "
        "magnitude with which a nonzero MMA operand counts, as tensor cores align subnormal operands as if "
        "they were 2^-126",
        "PTX ISA 9.7.3.21, 9.7.13.5; Generic_BFMA_TC.m in MATLAB-tensor-core (arXiv 2512.07004)",
    ),
    Constant(
        "U_F64", "2^-53", "the float64 evaluation of the formula that a stage is compared with", "IEEE 754"
    ),
)

_ZERO_UNIT = 4096  # exponent of the lowest set bit of 0: larger than any real one


def gamma(n: int, u: float) -> float:
    """n u / (1 - n u), the relative error constant of n roundings (Higham, section 3.1); needs n u < 1."""
    if n * u >= 1:
        raise TileproofError(
            "too many roundings for a bound", where="gamma", expected="n * u < 1", found=f"{n} * {u}"
        )
    return n * u / (1 - n * u)


def round_f32(x: Array) -> F64:
    """Nearest f32 (ties to even; overflow to inf; subnormals kept), as float64."""
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def round_bf16(x: Array) -> F64:
    """Nearest bf16 (ties to even; overflow to inf; subnormals kept), as float64, rounded once from float64.

    ml_dtypes converts float64 to bf16 by way of f32, which rounds twice; rounding to odd in the first step
    keeps the second one honest (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008).
    """
    return _round_to_odd_f32(np.asarray(x, dtype=np.float64)).astype(ml_dtypes.bfloat16).astype(np.float64)


def _round_to_odd_f32(x: F64) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        near = x.astype(np.float32)
    finite = np.isfinite(near)
    inexact = finite & (near.astype(np.float64) != x)
    toward_zero = np.where(
        inexact & (np.abs(near.astype(np.float64)) > np.abs(x)), np.nextafter(near, 0), near
    )
    bits = np.ascontiguousarray(toward_zero, dtype=np.float32).view(np.uint32)
    return np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32)


def lowest_bit(x: Array) -> npt.NDArray[np.int64]:
    """Exponent of the lowest set bit of each finite value (6 -> 1, 0.75 -> -2); 4096 for zero."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=np.float64))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    low = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, _ZERO_UNIT, low + exponent - 53).astype(np.int64)


def exact_matmul_mask(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """``bool [m, n]``: elements of ``a [m, k] @ b [n, k]^T`` that f32 accumulates exactly in any order.

    Row i of a consists of multiples of 2^u_i, row j of b of multiples of 2^v_j, so each partial sum is a
    multiple of 2^(u_i + v_j); it fits f32's 24 bits if sum|a b| <= 2^24 units, and f32's range if the unit is
    >= 2^-149.
    """
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    unit = _unit(a64)[:, None] + _unit(b64)[None, :]
    return _fits(_alignment(a64) @ _alignment(b64).T, unit)


def is_exact_matmul(a: Array, b: Array) -> bool:
    """Whether every element of ``a [m, k] @ b [n, k]^T`` is exact in f32 (see `exact_matmul_mask`)."""
    return bool(exact_matmul_mask(a, b).all())


def _alignment(x: F64) -> F64:
    """|x| as the tensor core's alignment sees it: not below 2^-126 unless it is 0."""
    return np.where(x == 0, 0.0, np.maximum(np.abs(x), F32_MIN_NORMAL))


def _unit(rows: F64) -> npt.NDArray[np.int64]:
    finite = np.where(np.isfinite(rows), rows, 0.0)
    return np.asarray(lowest_bit(finite).min(axis=-1, initial=_ZERO_UNIT))


def _fits(magnitude: F64, unit: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    most = np.ldexp(1.0, np.minimum(24 + unit, 1000))
    return np.asarray(magnitude == 0) | ((magnitude <= most) & (unit >= -149) & (magnitude <= F32_MAX))


def _finish(bound: F64, largest: F64) -> F64:
    """Bound +inf where a value of magnitude `largest` may overflow f32, or where something is not finite."""
    return np.where(np.isfinite(bound) & (largest <= F32_MAX), bound, np.inf)


def _sum_bound(magnitude: F64, exact: npt.NDArray[np.bool_], n: int, u: float) -> F64:
    bound = (gamma(n, u) + gamma(n, U_F64)) * magnitude + n * F32_TINY
    return np.where(exact, 0.0, _finish(bound, magnitude + bound))


def bound_matmul(a: Array, b: Array, u: float = U_F32_RZ) -> F64:
    """``[m, n]``: bound of ``a [m, k] @ b [n, k]^T`` of bf16 values accumulated in f32 in unknown order.

    ``(gamma(k, u) + gamma(k, U_F64)) sum|a b| + k 2^-149``, nonzero |a| and |b| counted as 2^-126 at least; 0
    where exact.
    """
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = _alignment(a64) @ _alignment(b64).T
        return _sum_bound(magnitude, exact_matmul_mask(a64, b64), a64.shape[-1], u)


def bound_delta(o: Array, dO: Array) -> F64:
    """``[...]``: bound of ``sum(o * dO, axis=-1)``, f32 additions rounded to nearest in any order.

    ``(gamma(d_v, U_F32) + gamma(d_v, U_F64)) sum|o dO| + d_v 2^-149``; 0 where exact.
    """
    o64, do64 = np.asarray(o, dtype=np.float64), np.asarray(dO, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        magnitude = np.abs(o64 * do64).sum(axis=-1)
        exact = _fits(magnitude, _unit(o64) + _unit(do64))
        return _sum_bound(magnitude, exact, o64.shape[-1], U_F32)


def bound_P(q: Array, k: Array) -> F64:
    """``[h, j]``: bound of P = q k^T; q ``[h, d_qk]``, k ``[j, d_qk]`` with zero rows where no key.

    `bound_matmul` over d_qk with U_F32_RZ.
    """
    return bound_matmul(q, k)


def bound_dP(dO: Array, v: Array) -> F64:
    """``[h, j]``: bound of dP = dO v^T; dO ``[h, d_v]``, v ``[j, d_v]``.

    `bound_matmul` over d_v with U_F32_RZ.
    """
    return bound_matmul(dO, v)


def bound_S(P: Array, lse: Array, mask: Array, sm_scale: float, *, operand: bool = False) -> F64:
    """``[h, j]``: bound of S in f32, or of its bf16 operand copy; P ``[h, j]``, lse ``[h]``, mask ``[j]``.

    ``S (2^off - 1 + EX2_RELATIVE) + 2^-126`` with off the error of the exponent, which passes at most 5
    roundings on the product (sm_scale, log2(e), their product, the product with P, the difference) and one on
    lse; then ex2.approx. Slots that are no key are 0 exactly.
    """
    p, shift = np.asarray(P, dtype=np.float64), np.asarray(lse, dtype=np.float64)[:, None]
    key = np.broadcast_to(np.asarray(mask, dtype=bool)[None, :], p.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.abs(p) * sm_scale * LOG2_E
        off = (gamma(5, U_F32) + gamma(6, U_F64)) * product + gamma(2, U_F32) * np.abs(shift) + F32_MIN_NORMAL
        exact = np.exp2(p * sm_scale * LOG2_E - shift)
        bound = exact * (np.expm1(off * math.log(2.0)) * (1 + EX2_RELATIVE) + EX2_RELATIVE) + F32_MIN_NORMAL
        largest = np.maximum(exact + bound, np.maximum(product, np.abs(shift)) * (1 + gamma(5, U_F32)))
        bound = _finish(bound, largest)
        if operand:
            bound = _bf16_copy(exact, bound)
    return np.where(key, bound, 0.0)


def bound_dS(S: Array, dP: Array, delta: Array, sm_scale: float, *, operand: bool = True) -> F64:
    """``[h, j]``: bound of dS = S (dP - delta) sm_scale as bf16 operand (or in f32); S, dP ``[h, j]``, delta
    ``[h]``.

    Four f32 roundings (sm_scale, difference, two products in any order); a product may underflow before the
    last one. S is 0 where the slot is no key, so dS is 0 there, exactly.
    """
    s, dp = np.asarray(S, dtype=np.float64), np.asarray(dP, dtype=np.float64)
    scale = abs(float(sm_scale))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(dp - np.asarray(delta, dtype=np.float64)[:, None])
        value = np.abs(s) * difference * scale
        factor = np.maximum(np.maximum(np.abs(s), difference), max(scale, 1.0))
        bound = (gamma(4, U_F32) + gamma(4, U_F64)) * value + F32_TINY * (1 + factor)
        pairs = np.maximum(np.maximum(np.abs(s) * difference, difference * scale), np.abs(s) * scale)
        bound = _finish(bound, np.maximum(np.maximum(pairs, difference), value) * (1 + gamma(4, U_F32)))
        if operand:
            bound = _bf16_copy(value, bound)
    return np.where((s == 0) & np.isfinite(difference), 0.0, bound)


def _bf16_copy(value: F64, bound: F64) -> F64:
    """Bound after one more RNE conversion to bf16 of a value that `bound` already holds for."""
    most = np.abs(value) + bound
    return np.where(most <= BF16_MAX, bound + U_BF16 * most + BF16_TINY / 2, np.inf)


def bound_dQ(dS: Array, k: Array, *, out: bool = True) -> F64:
    """``[h, d_qk]``: bound of dQ = dS k over all k-blocks; dS ``[h, n]`` bf16, k ``[n, d_qk]``, n all the
    slots walked.

    `bound_matmul` over the slots with U_F32_RZ. `out` adds the one bf16 rounding of the output; without it
    the bound is that of the f32 accumulator.
    """
    ds, rows = np.asarray(dS, dtype=np.float64), np.asarray(k, dtype=np.float64)
    if ds.shape[-1] == 0:
        return np.zeros((ds.shape[0], rows.shape[-1]))
    bound = bound_matmul(ds, rows.T)
    if not out:
        return bound
    with np.errstate(invalid="ignore", over="ignore"):
        value = ds @ rows
        return np.where((bound == 0) & (round_bf16(value) == value), 0.0, _bf16_copy(value, bound))


def bound_dKV(S: Array, dO: Array, dS: Array, q: Array) -> F64:
    """``[j, d_qk]``: bound of one tile's dKV contribution; S, dS ``[h, j]`` bf16, dO ``[h, d_v]``, q ``[h,
    d_qk]``.

    S^T dO and dS^T q are taken as one sum of 2 h products in unknown order (they share an accumulator).
    """
    s, ds = np.asarray(S, dtype=np.float64), np.asarray(dS, dtype=np.float64)
    do64, q64 = np.asarray(dO, dtype=np.float64), np.asarray(q, dtype=np.float64)
    d_v = do64.shape[-1]
    both = np.concatenate([s, ds]).T, np.concatenate([do64, q64[:, :d_v]]).T
    rope = bound_matmul(ds.T, q64[:, d_v:].T)
    return np.concatenate([bound_matmul(*both), rope], axis=1)


def bound_scatter(magnitude: Array, tile_bounds: Array, additions: Array) -> F64:
    """Bound of rows of dKV after `additions` f32 additions each, in any order, to global memory.

    `magnitude` is the sum of |contributions| and `tile_bounds` the sum of their own bounds, both ``[s_kv,
    d_qk]``; `additions` ``[s_kv, 1]`` counts the additions a row receives (k-block occurrences times
    additions a tile).
    """
    total = np.asarray(magnitude, dtype=np.float64) + np.asarray(tile_bounds, dtype=np.float64)
    n = np.asarray(additions, dtype=np.float64)
    if n.size and float(n.max()) * U_F32 >= 1:
        raise TileproofError("too many additions for a bound", where="additions", found=str(int(n.max())))
    relative = n * U_F32 / (1 - n * U_F32) + n * U_F64
    with np.errstate(invalid="ignore"):
        bound = np.asarray(tile_bounds, dtype=np.float64) + relative * total + n * F32_MIN_NORMAL
        return _finish(bound, total + bound)


BOUNDS: Mapping[str, Callable[..., F64]] = MappingProxyType(
    {
        "delta": bound_delta,
        "P": bound_P,
        "S": bound_S,
        "dP": bound_dP,
        "dS": bound_dS,
        "dQ": bound_dQ,
        "dKV": bound_dKV,
    }
)


def bound(stage_name: str, **inputs: Any) -> F64:
    """The bound of stage `stage_name`; keyword arguments as the stage's own ``bound_<stage>`` takes them."""
    function = BOUNDS[stages.stage(stage_name).name]
    try:
        inspect.signature(function).bind(**inputs)
    except TypeError as error:
        raise TileproofError(
            f"wrong inputs for the bound of {stage_name}",
            where=f"bound({stage_name!r})",
            expected=", ".join(inspect.signature(function).parameters),
            found=", ".join(inputs) or "none",
            do=str(error),
        ) from None
    return function(**inputs)
