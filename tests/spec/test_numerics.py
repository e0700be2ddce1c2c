"""The bounds cover any order and the tensor core's blocks, are nearly reached, and know exactness."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.spec import numerics
from tileproof.spec.machine import tensor_core
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import bound_matmul, exact_matmul_mask, is_exact_matmul, round_bf16, round_f32

seeds = st.integers(0, 2**32 - 1)


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
    assert not is_exact_matmul(a, b)
    assert sum_toward_zero(a, b)[0, 0] != (a @ b.T)[0, 0]
    assert is_exact_matmul(a, np.array([[2.0**12, 0.0, 0.0]]))
    assert not is_exact_matmul(np.array([[1.0, 2.0**-80]]), np.array([[1.0, 2.0**-80]]))


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
    bound = numerics.bound_S(P, lse, mask, 1 / 24)
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


def test_dispatcher_names_what_it_wants() -> None:
    with pytest.raises(TileproofError, match="unknown stage"):
        numerics.bound("Q")
    with pytest.raises(TileproofError, match="wrong inputs") as caught:
        numerics.bound("P", q=1)
    assert caught.value.expected == "q, k"
    with pytest.raises(TileproofError):
        numerics.gamma(2**23, numerics.U_F32_RZ)
