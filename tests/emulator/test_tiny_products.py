"""Products whose sums are subnormal are computed apart, for speed, with the same bits at every level."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import _engine
from tileproof.emulator.products import F32, products

LEVELS = ("v2", "v3", "v4")
COLUMNS = 70
LIMIT = 2.0**-127


def rounded(x: np.ndarray) -> F32:
    return np.asarray((x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))


def drawn(rng: np.random.Generator, rows: int, k: int) -> tuple[F32, F32, F32]:
    """c [rows, COLUMNS], a [rows, k], b [k, COLUMNS]: products near 2^-137, and up to 2^-131;
    zeros of both signs, subnormal operands; c subnormal, near the limit, or so large that it keeps its value.
    """
    about = rng.choice((-68.5, -68.5, -66.5, -75.0, -90.0))
    a = rounded(rng.standard_normal((rows, k)) * 2.0 ** (about + rng.choice((0, 0, 60, -58))))
    b = rounded(rng.standard_normal((k, COLUMNS)) * 2.0**about)
    a = np.where(rng.random(a.shape) < 0.2, np.copysign(np.float32(0), a), a)
    b = np.where(rng.random(COLUMNS) < 0.3, np.copysign(np.float32(0), b), b)
    c = rng.standard_normal((rows, COLUMNS)) * np.exp2(rng.choice((-137.0, -148.0, -128.5), COLUMNS))
    c = np.where(rng.random(c.shape) < 0.3, np.copysign(0, c), c)
    large = rng.choice(np.array([1.5, -(2.0**-100), 2.0**-99, -3e38, LIMIT, -LIMIT]), c.shape)
    c = np.where(rng.random(c.shape) < rng.choice((0.0, 0.3)), large, c).astype(np.float32)
    if rng.random() < 0.1:
        c[0, :3] = np.inf, -np.inf, np.nan
    return c, a, b


@pytest.mark.parametrize("level", LEVELS)
def test_tiny_sums_have_the_bits_of_the_plain_loop(level: str) -> None:
    rng, subnormal = np.random.default_rng(3), 0
    for _ in range(400):
        c, a, b = (x.ravel().tolist() for x in drawn(rng, 1, 16))
        got, want = (_engine.product_fast(level, c, a, b, plain) for plain in (False, True))
        if got is None or want is None:
            pytest.skip(f"this processor has no x86-64-{level}")
        bits, expected = (np.array(x, np.float32).view(np.uint32) for x in (got, want))
        np.testing.assert_array_equal(bits, expected)
        subnormal += int(((expected & 0x7FFFFFFF) - 1 < 0x7FFFFF).sum())
    assert subnormal > 5000


def test_rows_together_have_the_bits_of_each() -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        c, a, b = drawn(rng, 9, 48)
        want = c.copy()
        for row, k in np.ndindex(9, 3):
            some = slice(16 * k, 16 * k + 16)
            args = want[row].tolist(), a[row, some].tolist(), b[some].ravel().tolist()
            want[row] = _engine.product_fast("v2", *args, True)
        np.testing.assert_array_equal(products(c, a, b).view(np.uint32), want.view(np.uint32))


def test_the_sign_of_a_zero_is_that_of_the_sum() -> None:
    """A sum that is rounded to zero keeps its sign, and the bits compared above show it."""
    for sign in (1.0, -1.0):
        got = _engine.product_fast("v2", [0.0], [0.0] * 15 + [2.0**-70], [0.0] * 15 + [sign * 2.0**-90])
        assert got == [0] and np.signbit(got[0]) == (sign < 0)
