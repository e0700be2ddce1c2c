"""The tensor core's loops are compiled for several levels of the processor: all give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from tileproof.emulator import _engine

LEVELS = ("v2", "v3", "v4")
COLUMNS = 93  # groups of every width, and a rest
HUGE, TINY = 2.0**127, 2.0**-133
EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, np.nan, 2.0**-126, TINY, -TINY, HUGE, -HUGE], np.float32)


def operands(seed: int, edges: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c [n] f32, a [16] and b [16, n] bf16 values; with `edges`, a third of them zeros, extremes and NaN."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int, bf16: bool) -> np.ndarray:
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-60, 60, shape)).astype(np.float32)
        if edges:
            x = np.where(rng.random(shape) < 0.3, rng.choice(EDGES, shape), x)
        return (x.view(np.uint32) & 0xFFFF0000).view(np.float32) if bf16 else x

    return draw(COLUMNS, bf16=False), draw(16, bf16=True), draw(16, COLUMNS, bf16=True)


def bits(values: list[float]) -> np.ndarray:
    """f32 bits; a NaN is a NaN."""
    x = np.array(values, np.float32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), x.view(np.uint32))


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("level", LEVELS[1:])
def test_levels_agree(level: str, edges: bool) -> None:
    for seed in range(200):
        c, a, b = (x.ravel().tolist() for x in operands(seed, edges))
        base, wide = _engine.product_fast("v2", c, a, b), _engine.product_fast(level, c, a, b)
        assert base is not None
        if wide is None:
            pytest.skip(f"this processor has no x86-64-{level}")
        np.testing.assert_array_equal(bits(wide), bits(base))


def nearest(x: Fraction) -> np.float32:
    """The f32 nearest to x, ties to even, from its neighbours."""
    near = np.float32(float(x))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(candidates, key=lambda v: (abs(Fraction(float(v)) - x), int(v.view(np.uint32)) & 1))


@pytest.mark.parametrize("level", LEVELS)
def test_each_step_is_rounded_once(level: str) -> None:
    """c + a * b of one product against rational arithmetic."""
    rng = np.random.default_rng(7)
    c = rng.integers(1 << 23, 1 << 24, COLUMNS).astype(np.float32)
    a, b = np.zeros(16, np.float32), np.zeros((16, COLUMNS), np.float32)
    a[0] = np.float32(1 + 2.0**-7)
    b[0] = np.ldexp(1 + rng.integers(0, 128, COLUMNS) / 128, -rng.integers(1, 40, COLUMNS)).astype(np.float32)
    b[0] *= rng.choice([-1, 1], COLUMNS).astype(np.float32)
    got = _engine.product_fast(level, c.tolist(), a.tolist(), b.ravel().tolist())
    if got is None:
        pytest.skip(f"this processor has no x86-64-{level}")
    want = [
        nearest(Fraction(float(c[j])) + Fraction(float(a[0])) * Fraction(float(b[0, j])))
        for j in range(COLUMNS)
    ]
    np.testing.assert_array_equal(bits(got), bits([float(v) for v in want]))


@pytest.mark.parametrize("level", LEVELS)
def test_two_roundings_would_differ(level: str) -> None:
    """(1 + 2^-12)^2 + 2^-60 lies above a tie of f32; in double it would be the tie, and go down."""
    side = [float(1 + 2.0**-12)] + [0.0] * 15
    got = _engine.product_fast(level, [2.0**-60], side, side)
    if got is None:
        pytest.skip(f"this processor has no x86-64-{level}")
    assert got == [1 + 2.0**-11 + 2.0**-23]


@pytest.mark.parametrize("level", LEVELS)
def test_the_environment_lowers_the_choice(level: str) -> None:
    """A level that is wished for or a lower one: the block arithmetic gives the same value."""
    code = (
        "from tileproof.emulator import _engine as e; print(e.tensor_core_block(1.5, [2.0] * 16, [0.5] * 16))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TILEPROOF_LEVEL": level},
    )
    assert done.stdout.strip() == "17.5", done.stderr
