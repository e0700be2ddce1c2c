# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""f32 arithmetic: rounding, subnormals, NaN rules, packed pairs and the approximations, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import elementwise
from tests.kit.values import F32_EDGES, crossed, ftz, same_f32

COVERS = "fma ex2 lg2 rsqrt sqrt rcp"

SEEDS = st.integers(0, 2**32 - 1)
# An f32 sum, difference, product or quotient rounded from float64 is the correctly rounded one (53 >= 2*24+2).
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div.rn": np.divide}


def in_f64(function: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return function(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize("flush", ["", ".ftz"])
@pytest.mark.parametrize("op", BINARY)
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_one_rounding(op: str, flush: str, seed: int) -> None:
    a, b = crossed(F32_EDGES, 2, seed)
    got = elementwise(f"{op}{flush}.f32 d, x0, x1;", [a, b], np.float32)
    want = ftz(in_f64(BINARY[op], ftz(a), ftz(b))) if flush else in_f64(BINARY[op], a, b)
    same_f32(got, want)


def exact_fma(a: float, b: float, c: float) -> np.float32:
    """a*b+c rounded once, by exact rational arithmetic."""
    from fractions import Fraction

    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value == 0:
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    exponent = max(-149, math.frexp(float(abs(value)) or 2.0**-149)[1] - 24)
    # The true exponent may differ by one from the float's: round at the finer of the candidates that still fits.
    for e in (exponent - 1, exponent, exponent + 1):
        unit = Fraction(2) ** max(e, -149)
        scaled = value / unit
        if abs(scaled) < 2**24:
            rounded = round(scaled)  # Fraction rounds half to even
            if abs(rounded) <= 2**24:
                with np.errstate(over="ignore"):
                    return np.float32(math.copysign(float(abs(rounded) * unit), value))
    raise AssertionError("no exponent")


@pytest.mark.parametrize("flush", ["", ".ftz"])
def test_fma_rounds_once(flush: str) -> None:
    a, b, c = crossed(F32_EDGES, 3, 21, 512)
    got = elementwise(f"fma.rn{flush}.f32 d, x0, x1, x2;", [a, b, c], np.float32)
    x, y, z = (ftz(a), ftz(b), ftz(c)) if flush else (a, b, c)
    want = np.array([exact_fma(float(p), float(q), float(r)) for p, q, r in zip(x, y, z, strict=True)])
    same_f32(got, ftz(want) if flush else want)


def test_fma_differs_from_two_roundings() -> None:
    a = np.array([1 + 2**-12], np.float32)
    c = np.array([-(1 + 2**-11)], np.float32)
    got = elementwise("fma.rn.f32 d, x0, x0, x1;", [a, c], np.float32)
    assert got[0] == 2.0**-24  # the product's last bit, lost by a separate multiplication
    assert elementwise("mul.f32 d, x0, x0;\nadd.f32 d, d, x1;", [a, c], np.float32)[0] == 0


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("flush", ["", ".ftz"])
def test_pairs_are_two_operations(op: str, flush: str) -> None:
    a, b, c = (v.reshape(-1, 2).copy().view(np.uint64).ravel() for v in crossed(F32_EDGES, 3, 5, 1024))
    operands = "x0, x1, x2" if op == "fma" else "x0, x1"
    spelling = f"fma.rn{flush}" if op == "fma" else f"{op}{flush}"
    pairs = elementwise(f"{spelling}.f32x2 d, {operands};", [a, b, c], np.uint64).view(np.float32)
    split = [v.view(np.float32) for v in (a, b, c)]
    want = elementwise(f"{spelling}.f32 d, {operands};", split, np.float32)
    same_f32(pairs, want)
    assert len(np.unique(pairs.view(np.uint32))) > 100


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("flush", ["", ".ftz"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_min_and_max(op: str, flush: str, nan: str) -> None:
    a, b = crossed(F32_EDGES, 2, 31)
    got = elementwise(f"{op}{flush}{nan}.f32 d, x0, x1;", [a, b], np.float32)
    x, y = (ftz(a), ftz(b)) if flush else (a, b)
    # Without .NaN the number wins over a NaN; -0 < +0 (PTX ISA 9.7.3.11).
    want = []
    for p, q in zip(x, y, strict=True):
        if np.isnan(p) or np.isnan(q):
            want.append(
                np.float32("nan") if nan or (np.isnan(p) and np.isnan(q)) else q if np.isnan(p) else p
            )
        else:
            key = [(float(v), not np.signbit(v), v) for v in (p, q)]
            want.append((min(key) if op == "min" else max(key))[2])
    same_f32(got, np.array(want))
    both = np.isnan(x) & np.isnan(y)
    assert both.any() and (got.view(np.uint32)[both] == 0x7FFFFFFF).all()


def test_neg_and_abs_change_the_sign_bit_only() -> None:
    (a,) = crossed(F32_EDGES, 1, 41)
    bits = a.view(np.uint32)
    numbers = ~np.isnan(a)
    got = elementwise("neg.f32 d, x0;", [a], np.float32).view(np.uint32)
    assert (got[numbers] == (bits ^ 0x80000000)[numbers]).all()
    got = elementwise("abs.f32 d, x0;", [a], np.float32).view(np.uint32)
    assert (got[numbers] == (bits & 0x7FFFFFFF)[numbers]).all()
    same_f32(elementwise("neg.ftz.f32 d, x0;", [a], np.float32), -ftz(a))
    same_f32(elementwise("abs.ftz.f32 d, x0;", [a], np.float32), np.abs(ftz(a)))


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the exact value."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(exact)
        return np.abs(got.astype(np.float64) - exact) / np.exp2(np.maximum(exponent - 24, -149))


@pytest.mark.parametrize(
    ("spelling", "exact", "low", "high", "bound"),
    [
        ("ex2.approx", np.exp2, -125.0, 127.0, 2.0),  # PTX ISA 9.7.3.21
        ("lg2.approx", np.log2, 2.0, 1e30, 2.0),
        ("rsqrt.approx", lambda v: 1 / np.sqrt(v), 1e-30, 1e30, 2.0),
        ("sqrt.approx", np.sqrt, 1e-30, 1e30, 1.0),
        ("rcp.approx", lambda v: 1 / v, 1e-30, 1e30, 1.0),
        ("sqrt.rn", np.sqrt, 1e-30, 1e30, 0.5),
        ("rcp.rn", lambda v: 1 / v, 1e-30, 1e30, 0.5),
    ],
)
def test_approximations_stay_inside_their_error(spelling, exact, low, high, bound) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(51)
    a = rng.uniform(low, high, 1024) if low < 0 else np.exp(rng.uniform(np.log(low), np.log(high), 1024))
    a = a.astype(np.float32)
    for flush in ("", ".ftz"):
        got = elementwise(f"{spelling}{flush}.f32 d, x0;", [a], np.float32)
        assert ulps(got, exact(a.astype(np.float64))).max() <= bound


def test_special_values_of_the_approximations() -> None:
    a = np.array([np.inf, -np.inf, 0.0, -0.0, -1.0, np.nan, 128.0, -149.0, -150.0, 2.0**-127], np.float32)
    got = elementwise("ex2.approx.ftz.f32 d, x0;", [a], np.float32)
    same_f32(got, np.array([np.inf, 0, 1, 1, 0.5, np.nan, np.inf, 0, 0, 1], np.float32))
    got = elementwise("ex2.approx.f32 d, x0;", [a], np.float32)
    assert got.view(np.uint32)[7] == 1 and got[8] == 0  # seen on silicon: ex2 without ftz gives subnormals
    got = elementwise("lg2.approx.f32 d, x0;", [a], np.float32)
    same_f32(got[:6], np.array([np.inf, np.nan, -np.inf, -np.inf, np.nan, np.nan], np.float32))
    got = elementwise("rcp.approx.ftz.f32 d, x0;", [a], np.float32)
    same_f32(got[[0, 1, 2, 3, 9]], np.array([0.0, -0.0, np.inf, -np.inf, np.inf], np.float32))
    got = elementwise("rsqrt.approx.ftz.f32 d, x0;", [a], np.float32)
    same_f32(got[[0, 2, 3, 4, 9]], np.array([0.0, np.inf, -np.inf, np.nan, np.inf], np.float32))
    got = elementwise("sqrt.approx.ftz.f32 d, x0;", [a], np.float32)
    same_f32(got[[0, 2, 3, 4, 9]], np.array([np.inf, 0.0, -0.0, np.nan, 0.0], np.float32))
    for spelling in ("div.full.f32", "div.approx.f32"):
        same_f32(
            elementwise(f"{spelling} d, x0, x1;", [a[:3], np.full(3, 4, np.float32)], np.float32), a[:3] / 4
        )


@pytest.mark.parametrize("line", ["add.rna.f32 d, x0, x1;", "add.relu.f32 d, x0, x1;", "fma.f32 d, x0, x1, x1;", "tanh.f32 d, x0;",
                                  "fma.rn.relu.f32 d, x0, x1, x1;", "ex2.f32 d, x0;"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    operand = np.ones(32, np.float32)
    with pytest.raises(UnsupportedInstruction, match=line.split()[0]):
        elementwise(line, [operand, operand], np.float32)
