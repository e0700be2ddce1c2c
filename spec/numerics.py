"""The constants of the error analysis, each with its source, and its roundings.

No constant here is tuned. Products of two bf16 are exact in f32 (8 x 8 bit significands) unless they fall
below 2^-149; tensor cores and CUDA's default arithmetic (no -ftz) keep subnormals, so underflow costs at most
2^-149 per term. The resulting errors of a stage are in `spec.arithmetic.operations`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

F64 = npt.NDArray[np.float64]

U_F64 = 2.0**-53
U_F32 = 2.0**-24
U_F32_RZ = 2.0**-23
U_BF16 = 2.0**-8
EX2_RELATIVE = 2.0**-22
LG2_ERROR = 2.0**-22
DIV_RELATIVE = 2.0**-22
SQRT_RELATIVE = 2.0**-23
RSQRT_RELATIVE = 2.0**-22.9
TANH_RELATIVE = 2.0**-11
F32_TINY = 2.0**-149
F32_MIN_NORMAL = 2.0**-126
F32_MAX = float(np.finfo(np.float32).max)
BF16_TINY = 2.0**-133
U_F16 = 2.0**-11
F16_TINY = 2.0**-24
F16_MAX = 65504.0
BF16_MAX = (2 - 2.0**-7) * 2.0**127
LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


@dataclass(frozen=True)
class Constant:
    """A constant of the error analysis, its meaning and its source."""

    name: str
    value: str
    meaning: str
    source: str


def power_of_two(x: float) -> str:
    """A number in print, as a power of two."""
    return f"2^{math.log2(x):g}"


CONSTANTS = (
    Constant(
        "U_F32_RZ",
        power_of_two(U_F32_RZ),
        "one f32 addition that may round toward zero, as tensor cores do; one block of 16 products loses at "
        "most 16 * 2^-25 of its largest term and 2^-23 of its result, which 16 such additions cover",
        "Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, arXiv 2512.07004",
    ),
    Constant("U_F32", power_of_two(U_F32), "one f32 operation rounded to nearest", "PTX ISA 9.7.3 (.rn)"),
    Constant(
        "gamma(n, u)",
        "n u / (1 - n u)",
        "relative error of an n-term sum in any order, against sum|a_i b_i|",
        "Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2",
    ),
    Constant(
        "U_BF16",
        power_of_two(U_BF16),
        "conversion to bf16, round to nearest even",
        "PTX ISA 9.7.9.21 (cvt.rn.bf16x2.f32)",
    ),
    Constant(
        "U_F16",
        power_of_two(U_F16),
        "conversion to f16, round to nearest even",
        "PTX ISA 9.7.9.21 (cvt.rn.f16x2.f32)",
    ),
    Constant(
        "EX2_RELATIVE",
        power_of_two(EX2_RELATIVE),
        "ex2.approx.ftz.f32, 2 ulp over the full range (2^-22.75 was observed on an H200)",
        "PTX ISA 9.7.3.21",
    ),
    Constant(
        "LG2_ERROR",
        power_of_two(LG2_ERROR),
        "lg2.approx.ftz.f32: absolute between 1/2 and 2, relative elsewhere",
        "PTX ISA 9.7.3.20",
    ),
    Constant(
        "DIV_RELATIVE",
        power_of_two(DIV_RELATIVE),
        "div.full.f32 and div.approx.f32, 2 ulp",
        "PTX ISA 9.7.3.8",
    ),
    Constant("SQRT_RELATIVE", power_of_two(SQRT_RELATIVE), "sqrt.approx.f32", "PTX ISA 9.7.3.14"),
    Constant("RSQRT_RELATIVE", power_of_two(RSQRT_RELATIVE), "rsqrt.approx.f32", "PTX ISA 9.7.3.16"),
    Constant("TANH_RELATIVE", power_of_two(TANH_RELATIVE), "tanh.approx.f32", "PTX ISA 9.7.3.22"),
    Constant(
        "F32_TINY",
        power_of_two(F32_TINY),
        "an f32 product or sum that underflows, subnormals kept",
        "IEEE 754 binary32",
    ),
    Constant(
        "F32_MIN_NORMAL",
        power_of_two(F32_MIN_NORMAL),
        "a result that is flushed to zero: ex2.approx.ftz, red.add.f32 on global memory; also the least "
        "magnitude with which a nonzero MMA operand counts, as tensor cores align subnormal operands as if "
        "they were 2^-126",
        "PTX ISA 9.7.3.21, 9.7.13.5; Generic_BFMA_TC.m in MATLAB-tensor-core (arXiv 2512.07004)",
    ),
    Constant(
        "U_F64",
        power_of_two(U_F64),
        "the float64 evaluation of the formula that a stage is compared with",
        "IEEE 754",
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


def round_f16(x: Array) -> F64:
    """Nearest f16 (ties to even; overflow to inf; subnormals kept), as float64, rounded once from float64."""
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float64).astype(np.float16).astype(np.float64)


def round_bf16(x: Array) -> F64:
    """Nearest bf16 (ties to even; overflow to inf; subnormals kept), as float64, rounded once from float64.

    ml_dtypes converts float64 to bf16 by way of f32, which rounds twice; rounding to odd in the first step
    keeps the second one right (Boldo and Melquiond, IEEE Trans. Computers 57(4), 2008).
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


def grain(x: Array) -> F64:
    """2^(exponent of the lowest set bit) of each value; 2^500 where it is 0, 0 where it is not finite."""
    array = np.asarray(x)
    if array.dtype == np.float32:
        return _grain_f32(array)
    value = np.asarray(array, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        narrow = value.astype(np.float32)
        if bool((narrow == value).all()):
            return _grain_f32(narrow)
    finite = np.isfinite(value)
    unit = np.ldexp(1.0, np.minimum(lowest_bit(np.where(finite, value, 0.0)), 500))
    return np.where(finite, unit, 0.0)


def _grain_f32(x: npt.NDArray[np.float32]) -> F64:
    bits = np.ascontiguousarray(x).view(np.int32).reshape(x.shape) & 0x7FFFFFFF
    # Without the lowest bit of its significand a value is less by what that bit stands for.
    rest = bits & (bits - 1)
    rest[(bits & 0x7FFFFF) == 0] = 0
    with np.errstate(invalid="ignore"):
        unit: F64 = (bits.view(np.float32) - rest.view(np.float32)).astype(np.float64)
    unit[bits == 0] = 2.0**500
    if bits.size and bits.max() >= 0x7F800000:
        unit[bits >= 0x7F800000] = 0.0
    return unit


def bound_scatter(magnitude: Array, tile_bounds: Array, additions: Array) -> F64:
    """Bound of rows of dKV after `additions` f32 additions each, in any order, to global memory.

    `magnitude` is the sum of |contributions| and `tile_bounds` the sum of their own bounds, both ``[s_kv,
    d_qk]``; `additions` ``[s_kv, 1]`` counts the additions a row receives (k-block occurrences times
    additions per tile).
    """
    total = np.asarray(magnitude, dtype=np.float64) + np.asarray(tile_bounds, dtype=np.float64)
    n = np.asarray(additions, dtype=np.float64)
    if n.size and float(n.max()) * U_F32 >= 1:
        raise TileproofError("too many additions for a bound", where="additions", found=str(int(n.max())))
    relative = n * U_F32 / (1 - n * U_F32) + n * U_F64
    with np.errstate(invalid="ignore"):
        bound = np.asarray(tile_bounds, dtype=np.float64) + relative * total + n * F32_MIN_NORMAL
        return np.where(np.isfinite(bound) & (total + bound <= F32_MAX), bound, np.inf)
