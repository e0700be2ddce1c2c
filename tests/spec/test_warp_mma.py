# ruff: noqa: E501 - case tables are kept whole
"""mma.sync's arithmetic against recorded B200 words, and neighbours that do not match them; its fragments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tileproof.spec.machine import warp_mma
from tileproof.spec.machine.errors import TileproofError

WORDS = Path(__file__).parent / "data" / "b200_mma_words.txt"
KINDS = {
    "f16": np.dtype(np.float16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
Dot = Callable[[np.ndarray, np.ndarray, float, str, str], np.float32]


def row(line: str) -> tuple[np.ndarray, np.ndarray, np.float32, np.float32, np.float32 | None]:
    type_, a, b, c, d, *half = line.split()
    kind = KINDS[type_]

    def bits(text: str, of: np.dtype) -> np.ndarray:
        return np.array([int(x, 16) for x in text.split(",")], f"u{of.itemsize}").view(of).astype(np.float32)

    single = np.dtype(np.float32)
    h = bits(half[0], np.dtype(np.float16))[0] if half else None
    return bits(a, kind), bits(b, kind), bits(c, single)[0], bits(d, single)[0], h


def matches(type_: str, d_type: str, dot: Dot = warp_mma.dot) -> tuple[int, int]:
    """(words equal to the recorded words, words)."""
    lines = [line for line in WORDS.read_text().splitlines() if line.startswith(type_ + " ")]
    right = 0
    for a, b, c, d, half in map(row, lines):
        want = d if d_type == "f32" else half
        start = c if d_type == "f32" else np.float32(np.float16(c))
        right += int(dot(a, b, float(start), type_, d_type) == want)
    return right, len(lines)


@pytest.mark.parametrize(("type_", "d_type"), [("f16", "f32"), ("f16", "f16"), ("tf32", "f32"), ("e4m3", "f32"),
                                               ("e4m3", "f16"), ("e5m2", "f32"), ("e5m2", "f16")])  # fmt: skip
def test_every_recorded_word(type_: str, d_type: str) -> None:
    assert matches(type_, d_type) == (100, 100)


def test_f8_in_one_aligned_sum_with_the_accumulator_does_not_match() -> None:
    def together(a: np.ndarray, b: np.ndarray, c: float, type_: str, d_type: str) -> np.float32:
        return warp_mma.block(a, b, c, "f16", d_type)

    for type_ in ("e4m3", "e5m2"):
        assert all(matches(type_, d, together)[0] < 90 for d in ("f32", "f16"))


def test_f8_in_halves_does_not_match_in_f16() -> None:
    def halves(a: np.ndarray, b: np.ndarray, c: float, type_: str, d_type: str) -> np.float32:
        order = np.concatenate([np.arange(0, 32, 2), np.arange(1, 32, 2)])
        return warp_mma.dot(a[order], b[order], c, type_, d_type)

    assert matches("e4m3", "f16", halves)[0] < 90


def test_f16_results_are_rounded_once() -> None:
    def twice(a: np.ndarray, b: np.ndarray, c: float, type_: str, d_type: str) -> np.float32:
        value = warp_mma.block(a, b, c, type_, "f32")
        cut = (value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return np.float32(cut)

    assert matches("f16", "f16", twice)[0] < 90


@pytest.mark.parametrize(("m", "k", "type_"), [(16, 8, "f16"), (16, 16, "bf16"), (16, 8, "tf32"), (16, 32, "s8"),
                                               (8, 16, "u8"), (16, 64, "s4"), (16, 16, "f64"), (8, 4, "f64")])  # fmt: skip
def test_each_element_has_one_place(m: int, k: int, type_: str) -> None:
    e = warp_mma.per_register(type_)
    d_type = {"s": "s32", "u": "s32"}.get(type_[0], "f64" if type_ == "f64" else "f32")
    na, nb, nd = warp_mma.registers(m, k, type_, d_type)
    a = {warp_mma.a_place(m, type_, lane, r, j) for lane in range(32) for r in range(na) for j in range(e)}
    b = {warp_mma.b_place(type_, lane, r, j) for lane in range(32) for r in range(nb) for j in range(e)}
    d = {warp_mma.d_place(d_type, lane, r) for lane in range(32) for r in range(nd)}
    assert a == {(x, y) for x in range(m) for y in range(k)} and len(a) == 32 * na * e
    assert b == {(x, y) for x in range(k) for y in range(8)} and d == {
        (x, y) for x in range(m) for y in range(8)
    }


def test_worked_places() -> None:
    """Examples of the ISA's formulas: m16n8k16 of f16, a4 of lane 5; m16n8k32 of e4m3, b5 of lane 5."""
    assert warp_mma.a_place(16, "f16", 5, 2, 0) == (1, 10) and warp_mma.a_place(16, "f16", 5, 1, 1) == (9, 3)
    assert warp_mma.b_place("e4m3", 5, 1, 1) == (21, 1) and warp_mma.d_place("f32", 5, 3) == (9, 3)
    assert warp_mma.d_place("f16", 5, 1, 1) == (9, 3)


def test_a_type_that_it_does_not_know() -> None:
    with pytest.raises(TileproofError, match="operand type"):
        warp_mma.per_register("e2m1")


def test_what_is_not_finite() -> None:
    finite = np.ones(16)
    infinite = np.where(np.arange(16) == 3, np.inf, 1.0)
    assert warp_mma.dot(finite, infinite, 0.0, "f16") == np.inf
    assert np.isnan(warp_mma.dot(infinite, np.where(np.arange(16) == 3, 0.0, 1.0), 0.0, "f16"))
    assert np.isnan(warp_mma.dot(finite, infinite, -np.inf, "f16"))
    assert warp_mma.dot(60000 * finite, finite, 0.0, "f16", "f16") == np.inf
