"""The bounds cover any order and the tensor core's blocks, are nearly reached, and know exactness."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.spec import numerics
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine import tensor_core
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import grain, round_bf16, round_f32
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES

seeds = st.integers(0, 2**32 - 1)


def bound_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bound of ``a [m, k] @ b [n, k]^T`` in the tensor core."""
    return BOUND.matmul(Bounded(a), BOUND.transpose(Bounded(b))).errors


def exact_matmul_mask(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``bool [m, n]``: elements of ``a [m, k] @ b [n, k]^T`` that f32 accumulates exactly in any order.

    Row i of a consists of multiples of 2^u_i, row j of b of multiples of 2^v_j, so each partial sum is a
    multiple of 2^(u_i + v_j); it fits f32's 24 bits if sum|a b| <= 2^24 units, and f32's range if the unit is
    >= 2^-149.
    """
    a64, b64 = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    unit = unit_of(a64)[:, None] + unit_of(b64)[None, :]
    return fits(alignment(a64) @ alignment(b64).T, unit)


def alignment(x: np.ndarray) -> np.ndarray:
    """|x| as the tensor core's alignment sees it: not below 2^-126 unless it is 0."""
    return np.where(x == 0, 0.0, np.maximum(np.abs(x), numerics.F32_MIN_NORMAL))


def unit_of(rows: np.ndarray) -> np.ndarray:
    finite = np.where(np.isfinite(rows), rows, 0.0)
    return np.asarray(numerics.lowest_bit(finite).min(axis=-1, initial=4096))


def fits(magnitude: np.ndarray, unit: np.ndarray) -> np.ndarray:
    most = np.ldexp(1.0, np.minimum(24 + unit, 1000))
    return np.asarray(magnitude == 0) | (
        (magnitude <= most) & (unit >= -149) & (magnitude <= numerics.F32_MAX)
    )


def truncate_f32(x: np.ndarray) -> np.ndarray:
    """Toward zero to f32, as float64."""
    near = x.astype(np.float32)
    away = np.abs(near.astype(np.float64)) > np.abs(x)
    return np.where(away, np.nextafter(near, np.float32(0)), near).astype(np.float64)


def sum_toward_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a [m, k] @ b [n, k]^T`` by one f32 addition after the other, each toward zero."""
    total = np.zeros((a.shape[0], b.shape[0]))
    for k in range(a.shape[1]):
        total = truncate_f32(total + truncate_f32(np.outer(a[:, k], b[:, k])))
    return total


def bf16(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def wide(rng: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> np.ndarray:
    """bf16 values with exponents spread over [low, high), subnormals among them when low < -126."""
    return bf16(np.ldexp(rng.uniform(-2, 2, shape), rng.integers(low, high, shape)))


@settings(max_examples=200, deadline=None)
@given(
    seeds,
    st.sampled_from([(-4, 4), (-30, 30), (-133, -100), (-133, 40), (-70, -60)]),
    st.sampled_from([1, 16, 80, 576]),
)
def test_bound_covers_every_order_and_the_block_model(seed: int, exponents: tuple[int, int], k: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = wide(rng, (4, k), *exponents), wide(rng, (3, k), *exponents)
    exact, bound = a @ b.T, bound_matmul(a, b)
    order = rng.permutation(k)
    for result in (sum_toward_zero(a[:, order], b[:, order]), tensor_core.matmul(a, b)):
        assert (np.abs(result - exact) <= bound).all()


def test_bound_is_nearly_reached() -> None:
    k = 576
    a, b = np.ones((1, k)), np.full((1, k), bf16(np.array(2.0**-23 * (1 - 2.0**-8))))
    b[0, 0] = 1.0
    error = abs(float((sum_toward_zero(a, b) - a @ b.T)[0, 0]))
    bound = float(bound_matmul(a, b)[0, 0])
    assert 0.98 * bound < error <= bound


def test_subnormal_operands_need_their_alignment_in_the_bound() -> None:
    a, b = np.zeros((1, 16)), np.zeros((1, 16))
    a[0, 0], b[0, 0] = 2.0**-133, 2.0**120
    a[0, 1:], b[0, 1:] = 1.0, 2.0**-32
    error = abs(float(tensor_core.matmul(a, b)[0, 0]) - float((a @ b.T)[0, 0]))
    magnitude = float((np.abs(a) @ np.abs(b).T)[0, 0])
    without = (numerics.gamma(16, numerics.U_F32_RZ) + numerics.gamma(16, numerics.U_F64)) * magnitude
    assert without + 16 * numerics.F32_TINY < error <= float(bound_matmul(a, b)[0, 0])


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(0, 12), st.sampled_from([16, 576]), st.integers(-60, 60))
def test_exact_where_said(seed: int, bits: int, k: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    a = np.ldexp(bf16(rng.integers(-(2**bits), 2**bits + 1, (5, k)).astype(float)), shift)
    b = bf16(rng.integers(-200, 201, (4, k)).astype(float))
    mask = exact_matmul_mask(a, b)
    for result in (sum_toward_zero(a, b), tensor_core.matmul(a, b)):
        assert (result == a @ b.T)[mask].all()
    assert ((bound_matmul(a, b) == 0) == mask).all()


def test_one_unit_too_many_is_not_called_exact() -> None:
    a, b = np.array([[2.0**12, 1.0, 1.0]]), np.array([[2.0**12, 1.0, 0.0]])
    assert not exact_matmul_mask(a, b).all()
    assert sum_toward_zero(a, b)[0, 0] != (a @ b.T)[0, 0]
    assert exact_matmul_mask(a, np.array([[2.0**12, 0.0, 0.0]])).all()
    assert not exact_matmul_mask(np.array([[1.0, 2.0**-80]]), np.array([[1.0, 2.0**-80]])).all()


def test_overflow_leaves_only_its_element_unjudged() -> None:
    a, b = np.full((2, 16), 2.0**63), np.full((1, 16), 2.0**62)
    a[1] = 1.0
    bound = bound_matmul(a, b)
    assert np.isinf(bound[0, 0]) and np.isfinite(bound[1, 0])
    assert np.isinf(bound_matmul(np.full((1, 16), np.nan), b)).all()


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_bf16_rounds_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(200) * np.exp2(rng.integers(-140, 120, 200))
    ties = np.ldexp(257.0 + 2 * rng.integers(0, 100, 50), rng.integers(-100, 100, 50)) / 256
    x = np.concatenate([x, ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)])
    got = round_bf16(x)
    assert (bf16(got) == got).all()
    for step in (-1, 1):
        bits = got.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.int64) + step
        other = bits.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
        assert not (np.abs(other - x) < np.abs(got - x)).any()


def test_double_rounding_would_differ() -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert round_bf16(x)[0] == 1 + 2.0**-7
    assert x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)[0] == 1.0


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from([1e-3, 1.0, 50.0]), st.booleans())
def test_S_bound_covers_fused_and_unfused_and_two_ulp(seed: int, size: float, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    P = round_f32(rng.standard_normal((8, 64)) * size * 24)
    lse = round_f32(np.log2(np.exp2(P * numerics.LOG2_E / 24).sum(1)))
    mask = rng.random(64) < 0.8
    scale = np.float32(1 / 24) * np.float32(numerics.LOG2_E)
    product = P * float(scale) if fused else round_f32(P * float(scale))
    power = np.exp2(round_f32(product - lse[:, None]))
    want = np.where(mask, np.exp2(P * numerics.LOG2_E / 24 - lse[:, None]), 0.0)
    bound = STAGES["S"].bound(P=P, lse=lse, mask=mask, sm_scale=1 / 24)
    for factor in (1 + 2.0**-22, 1 - 2.0**-22):
        found = np.where(mask & (power >= 2.0**-126), power * factor, 0.0)
        assert (np.abs(found - want) <= bound).all()
    assert not bound[:, ~mask].any()
    assert (np.abs(want * (1 + 2.0**-10) - want) > bound)[want > 2.0**-100].all() or size > 1


@pytest.mark.parametrize("error", [2.0, 1.001])
def test_just_outside_is_outside(error: float) -> None:
    rng = np.random.default_rng(0)
    a, b = bf16(rng.standard_normal((3, 64))), bf16(rng.standard_normal((2, 64)))
    bound = bound_matmul(a, b)
    assert (bound > 0).all()
    assert (np.abs((a @ b.T + error * bound) - a @ b.T) > bound).all()


def test_too_many_roundings_are_refused() -> None:
    with pytest.raises(TileproofError):
        numerics.gamma(2**23, numerics.U_F32_RZ)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_grain_is_what_every_value_is_a_multiple_of(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 400, dtype=np.uint64).astype(np.uint32)
    f32 = bits.view(np.float32)
    wide = np.ldexp(rng.standard_normal(200), rng.integers(-300, 300, 200))
    for values in (f32, f32[np.isfinite(f32)].astype(np.float64), wide):
        unit = grain(values)
        finite = np.isfinite(values)
        assert (unit[~finite] == 0).all()
        multiple = values[finite].astype(np.float64) / unit[finite]
        assert (multiple == np.round(multiple)).all() and (multiple % 2 == 1)[multiple != 0].all()
    assert grain(np.zeros(2)).tolist() == [2.0**500] * 2


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 4), st.sampled_from([(-4, 4), (-70, -40), (-149, -100), (30, 60)]))
def test_products_and_sums_in_any_order_stay_inside(
    seed: int, count: int, exponents: tuple[int, int]
) -> None:
    """f32 operands within their errors, any association, any end of the error."""
    rng = np.random.default_rng(seed)
    values = [round_f32(np.ldexp(rng.uniform(-2, 2, 60), rng.integers(*exponents, 60))) for _ in range(count)]
    errors = [np.abs(x) * rng.choice([0.0, 1e-6, 1e-3]) for x in values]
    terms = [Bounded(x, e) for x, e in zip(values, errors, strict=True)]
    product, difference = BOUND.mul(*terms), BOUND.sub(terms[0], terms[1])
    ends = [rng.choice([-0.999, 0.0, 0.999], 60) for _ in values]
    near = [round_f32(x + e * end) for x, e, end in zip(values, errors, ends, strict=True)]
    held = [np.where(np.abs(y - x) <= e, y, x) for x, e, y in zip(values, errors, near, strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        found = [held[i] for i in rng.permutation(count)]
        while len(found) > 1:
            i = int(rng.integers(len(found) - 1))
            found[i : i + 2] = [round_f32(found[i] * found[i + 1])]
        off = np.abs(found[0] - product.value)
        assert (np.isinf(product.errors) | (off <= product.errors)).all()
        off = np.abs(round_f32(held[0] - held[1]) - difference.value)
        assert (np.isinf(difference.errors) | (off <= difference.errors)).all()


def test_zero_times_a_finite_value_is_exact_and_times_an_infinite_one_free() -> None:
    factor = Bounded(np.array([0.0, 0.0, 1.0]))
    other = Bounded(np.array([3.0, 3.0, 3.0]), np.array([1.0, np.inf, np.inf]))
    product = BOUND.mul(factor, other)
    assert product.errors.tolist() == [0.0, np.inf, np.inf]
    assert product.may_be_nan is not None and product.may_be_nan.tolist() == [False, True, True]
