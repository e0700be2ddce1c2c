# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Exact mode is bit for bit spec.machine.tensor_core; fast mode stays inside the sum of f32 roundings."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import _engine
from tileproof.spec.machine.tensor_core import BF16_EMIN, F16_EMIN, block

from tests.kit.mma import Form, multiply

SEEDS = st.integers(0, 2**32 - 1)
BF16 = np.dtype(ml_dtypes.bfloat16)


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    a, b = np.asarray(got, np.float32).view(np.uint32), np.asarray(want, np.float32).view(np.uint32)
    assert (a == b).all(), f"{(a != b).sum()} differ, first {got[a != b][:3]} != {want[a != b][:3]}"


def operands(kind: str, seed: int, rows: int, type_: np.dtype = BF16) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (rows, 16)
    if kind == "normal":
        return rng.standard_normal(shape).astype(type_)
    if kind == "wide":  # exponents all over, so that alignment truncates and sums cancel
        low, high = (-60, 60) if type_ == BF16 else (-14, 8)
        return (rng.standard_normal(shape) * np.exp2(rng.integers(low, high, shape))).astype(type_)
    if kind == "subnormal":
        return (
            rng.integers(0, 1 << 7 if type_ == BF16 else 1 << 10, shape).astype(np.uint16)
            | rng.integers(0, 2, shape).astype(np.uint16) << 15
        ).view(type_)
    if kind == "bits":
        return rng.integers(0, 2**16, shape, dtype=np.uint64).astype(np.uint16).view(type_)
    sparse = rng.standard_normal(shape).astype(type_)
    sparse[rng.random(shape) < 0.7] = 0
    return sparse


KINDS = ["normal", "wide", "subnormal", "bits", "sparse"]


@pytest.mark.parametrize("type_", ["bf16", "f16"])
@pytest.mark.parametrize(
    ("left", "right"),
    [(k, k) for k in KINDS] + [("subnormal", "wide"), ("bits", "normal"), ("subnormal", "normal")],
)
@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_the_instruction_is_the_model(left: str, right: str, type_: str, seed: int) -> None:
    kind = BF16 if type_ == "bf16" else np.dtype(np.float16)
    form = Form(128, 64, type=type_)
    a, b = operands(left, seed, 128, kind), operands(right, seed + 1, 64, kind)
    rng = np.random.default_rng(seed + 2)
    c = (rng.standard_normal((128, 64)) * np.exp2(rng.integers(-20, 20, (128, 64)))).astype(np.float32)
    c[rng.random(c.shape) < 0.2] = 0
    emin = BF16_EMIN if type_ == "bf16" else F16_EMIN
    with np.errstate(all="ignore"):
        same_bits(multiply(form, a, b, c, mode="exact")[0], block(a, b, c, emin))
        same_bits(multiply(form, a, b, mode="exact")[0], block(a, b, np.zeros_like(c), emin))


def single_dot(c: float, a: list[float], b: list[float]) -> float:
    return _engine.tensor_core_block(c, a + [0.0] * (16 - len(a)), b + [0.0] * (16 - len(b)))


def test_worked_cases_of_the_block() -> None:
    """Values from the definition: 25 fraction bits below the largest exponent, truncation toward zero."""
    tiny = 2.0**-13
    assert single_dot(1.0, [tiny] * 16, [2.0**-12] * 16) == 1 + 2.0**-21  # 16 products of 2^-25 all survive
    assert single_dot(1.0, [tiny] * 16, [2.0**-13] * 16) == 1.0  # 2^-26: each is lost
    assert single_dot(-1.0, [tiny] * 16, [-(2.0**-13)] * 16) == -1.0
    assert single_dot(2.0**24, [1.0], [1.0]) == 2.0**24  # truncated, not rounded to even
    assert single_dot(2.0**24, [3.0], [1.0]) == 2.0**24 + 2
    assert np.signbit(single_dot(-0.0, [], [])) == np.signbit(np.float32(0.0))
    assert single_dot(3e38, [1e19], [1e19]) == np.inf and single_dot(0.0, [2.0**-70], [2.0**-79]) == 2.0**-149


def test_special_values() -> None:
    inf, nan = float("inf"), float("nan")
    cases = [(0.0, [inf], [1.0], inf), (0.0, [inf], [-1.0], -inf), (1.0, [inf, -inf], [1.0, 1.0], nan), (inf, [-inf], [1.0], nan),
             (inf, [1.0], [1.0], inf), (0.0, [nan], [1.0], nan), (nan, [], [], nan), (0.0, [inf], [0.0], nan)]  # fmt: skip
    for c, a, b, want in cases:
        got = np.float32(single_dot(c, a, b))
        assert got == want or (np.isnan(got) and np.isnan(want) and got.view(np.uint32) == 0x7FFFFFFF), (
            c,
            a,
            b,
            got,
        )


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_fast_mode_is_a_sum_in_f32(seed: int) -> None:
    form = Form(128, 64)
    a, b = operands("normal", seed, 128), operands("normal", seed + 1, 64)
    got = multiply(form, a, b, mode="fast")[0].astype(np.float64)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    # 16 additions, each with relative error at most 2^-24 of a partial sum bounded by sum |a b|.
    assert (np.abs(got - a64 @ b64.T) <= 16 * 2.0**-24 * (np.abs(a64) @ np.abs(b64).T)).all()
