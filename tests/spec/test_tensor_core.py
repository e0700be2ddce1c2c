"""The block arithmetic against recorded B200 words, and its neighbours that do not match them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.spec.machine import kinds, tensor_core

WORDS = Path(__file__).parent / "data" / "b200_bf16_words.txt"


def recorded() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = [line.split() for line in WORDS.read_text().splitlines() if not line.startswith("#")]
    words = np.array([[int(word, 16) for word in row] for row in rows], dtype=np.uint32)
    operands = (words[:, :32] << 16).view(np.float32)
    return operands[:, :16], operands[:, 16:], words[:, 32].copy().view(np.float32), words[:, 33]


def matches() -> int:
    a, b, c, d = recorded()
    got = [tensor_core.block(a[i : i + 1], b[i : i + 1], c[i : i + 1, None])[0, 0] for i in range(len(d))]
    return int((np.array(got, np.float32).view(np.uint32) == d).sum())


def test_every_recorded_word() -> None:
    assert matches() == len(recorded()[3]) == 200


@pytest.mark.parametrize("extra", [1, 3])
def test_another_number_of_alignment_bits_does_not_match(extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_core, "EXTRA_BITS", extra)
    monkeypatch.setattr(tensor_core, "_FRACTION", 23 + extra)
    assert matches() < 200


def test_two_blocks_of_eight_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, d = recorded()
    monkeypatch.setattr(tensor_core, "K_BLOCK", 8)
    got = [tensor_core.matmul(a[i : i + 1], b[i : i + 1], c[i : i + 1, None])[0, 0] for i in range(len(d))]
    assert (np.array(got, np.float32).view(np.uint32) == d).sum() < 200


def test_worked_values() -> None:
    filled, tiny = np.ones((1, 16)), np.full((1, 16), 2.0**-25)
    carried = np.ones((1, 1), np.float32)
    assert tensor_core.block(filled, tiny, carried).view(np.uint32)[0, 0] == 0x3F800004
    assert tensor_core.block(filled, tiny / 2, carried).view(np.uint32)[0, 0] == 0x3F800000


def scalar_block(a: np.ndarray, b: np.ndarray, c: float) -> float:
    """The same paragraph with exact fractions, one element, finite values."""

    def exponent(x: float) -> int:
        return max(int(np.frexp(x)[1]) - 1, -126)

    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent(x) + exponent(y))
        for x, y in zip(a, b, strict=True)
    ]
    terms.append((Fraction(c), exponent(c)))
    terms = [(value, e) for value, e in terms if value]
    if not terms:
        return 0.0
    unit = Fraction(2) ** (max(-133, *(e for _, e in terms)) - 25)
    total = sum(int(value / unit) for value, _ in terms) * unit
    if not total:
        return 0.0
    top = abs(total)
    e = int(np.frexp(float(top))[1]) - 1
    step = Fraction(2) ** max(e - 23, -149)
    result = int(top / step) * step * (1 if total > 0 else -1)
    return float("inf") * (1 if total > 0 else -1) if abs(result) >= 2**128 else float(result)


@pytest.mark.parametrize("low, high", [(-3, 3), (-20, 20), (-133, -100), (-133, 100), (-70, -60), (60, 64)])
def test_array_form_equals_exact_fractions(low: int, high: int) -> None:
    rng = np.random.default_rng(low + 1000)
    for _ in range(60):
        values = np.ldexp(rng.uniform(-2, 2, (3, 16)), rng.integers(low, high, (3, 16)))
        words = (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        c = np.float32(values[2, 0] * values[1, 1] if abs(low) < 70 else values[2, 0])
        got = tensor_core.block(words[:1], words[1:2], np.full((1, 1), c))[0, 0]
        assert float(got) == scalar_block(words[0], words[1], float(c))


def test_special_values() -> None:
    inf, nan = np.inf, np.nan
    cases = [
        (inf, 1, 0, inf),
        (inf, -1, 5, -inf),
        (inf, 0, 0, nan),
        (nan, 1, 0, nan),
        (1, 1, -inf, -inf),
        (inf, 1, -inf, nan),
    ]
    for x, y, c, want in cases:
        a, b = np.zeros((1, 16)), np.zeros((1, 16))
        a[0, 3], b[0, 3] = x, y
        got = tensor_core.block(a, b, np.full((1, 1), c, np.float32))[0, 0]
        assert (np.isnan(got) and np.isnan(want)) or got == want
    big = np.full((1, 16), 2.0**63)
    assert tensor_core.block(big, 2 * big, np.zeros((1, 1), np.float32))[0, 0] == inf


def test_one_instruction_of_tf32_and_of_f16_with_an_f16_result() -> None:
    """The wider rule against recorded B200 words (data/b200_mma_words.txt)."""
    lines = (WORDS.parent / "b200_mma_words.txt").read_text().splitlines()
    seen = {"tf32": 0, "f16": 0}
    for line in lines:
        kind, *rest = line.split()
        if kind not in seen:
            continue
        width = (np.uint16, np.float16) if kind == "f16" else (np.uint32, np.float32)
        a, b = (
            np.array([int(w, 16) for w in part.split(",")], width[0]).view(width[1])[None]
            for part in rest[:2]
        )
        c, d = (np.array([[int(w, 16)]], np.uint32).view(np.float32) for w in rest[2:4])
        emin: dict[str, Any] = (
            {"a_emin": -14, "b_emin": -14} if kind == "f16" else {"a_emin": -126, "b_emin": -126}
        )
        assert tensor_core.instruction(a, b, c, **emin) == d
        if kind == "f16":
            half = tensor_core.instruction(a, b, c.astype(np.float16), **emin, half=True)
            assert half.astype(np.float16).view(np.uint16) == int(rest[4], 16)
        seen[kind] += 1
    assert min(seen.values()) >= 90


def test_scales_multiply_products_exactly() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-6, 7, (8, 64)), rng.integers(-6, 7, (5, 64))
    sa, sb = 2.0 ** rng.integers(-9, 9, (8, 4)), rng.integers(1, 16, (5, 4)) / 8
    want = (a * np.repeat(sa, 16, axis=1)) @ (b * np.repeat(sb, 16, axis=1)).T
    got = tensor_core.instruction(a, b, np.zeros((8, 5)), a_emin=0, b_emin=0, scale_a=sa, scale_b=sb)
    assert (np.abs(got - want) <= 2.0**-19 * (np.abs(a) @ np.abs(b).T) * 256).all()
    product = tensor_core.instruction(a, b, np.zeros((8, 5)), a_emin=0, b_emin=0)
    assert (product == a @ b.T).all()


def tcgen05_words() -> list[list[str]]:
    lines = (WORDS.parent / "b200_tcgen05_words.txt").read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def decoded(type_: str, words: str) -> np.ndarray:
    """``[1, k]`` f64: elements joined by commas."""
    codes = [int(word, 16) for word in words.split(",")]
    if type_ in ("tf32", "bf16"):
        mask = 0xFFFFE000 if type_ == "tf32" else 0xFFFF0000
        values = (np.array(codes, np.uint32) & np.uint32(mask)).view(np.float32)
    elif type_ == "f16":
        values = np.array(codes, np.uint16).view(np.float16)
    else:
        names = {"e4m3": "float8_e4m3fn", "ue4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
        names |= {"e2m3": "float6_e2m3fn", "e3m2": "float6_e3m2fn", "e2m1": "float4_e2m1fn"}
        names |= {"ue8m0": "float8_e8m0fnu"}
        values = np.array(codes, np.uint8).view(getattr(ml_dtypes, names[type_]))
    return values.astype(np.float64)[None]


@pytest.mark.parametrize("row", tcgen05_words(), ids=lambda row: row[0])
def test_recorded_words_of_tcgen05(row: list[str]) -> None:
    name, a, b, c, scale_a, scale_b, want = row
    if name.startswith("i8"):
        pytest.skip("integers are exact: tests/emulator/test_mma_kinds.py")
    element = "e2m1" if name.startswith("mx") else name
    given: dict[str, Any] = dict.fromkeys(("a_emin", "b_emin"), kinds.EMIN[element])
    if scale_a != "-":
        factor = "ue4m3" if name.endswith("ue4m3") else "ue8m0"
        given |= {"scale_a": decoded(factor, scale_a), "scale_b": decoded(factor, scale_b)}
        given["scale_emin"] = tensor_core.UE4M3_EMIN if factor == "ue4m3" else tensor_core.UE8M0_EMIN
    accumulator = np.array([[int(c, 16)]], np.uint32).view(np.float32)
    got = tensor_core.instruction(decoded(element, a), decoded(element, b), accumulator, **given)
    assert got.view(np.uint32)[0, 0] == int(want, 16)


def test_scaled_e2m1_keeps_35_bits_below_the_largest_factors() -> None:
    """1 - 1 + 2^-e: e up to 35 stays; the 25 bits of the other kinds lose it from 26 on."""
    a, factors, scale = np.zeros((1, 64)), np.ones((1, 64)), np.ones((1, 4))
    a[0, [0, 16, 32]] = 1, -1, 1
    c = np.zeros((1, 1))
    for bits in (25, 26, 35, 36):
        scale[0, 2] = 2.0**-bits
        got = tensor_core.instruction(
            a, factors, c, a_emin=0, b_emin=0, scale_a=scale, scale_b=np.ones((1, 4))
        )
        other = tensor_core.instruction(a * np.repeat(scale, 16, axis=1), factors, c, a_emin=-99, b_emin=0)
        assert got == (2.0**-bits if bits <= 35 else 0) and other == (2.0**-bits if bits <= 25 else 0)
    # within 16 products nothing is lost
    a[:], a[0, :3] = 0, (6, -6, 0.5)
    scale[:] = 1
    assert tensor_core.instruction(
        a, factors, c + 2.0**33, a_emin=0, b_emin=0, scale_a=scale, scale_b=scale
    ) == np.float32(2.0**33)
