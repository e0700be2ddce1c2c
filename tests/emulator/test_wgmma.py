# ruff: noqa: E501 - case tables are kept whole
"""Values of wgmma.mma_async and wgmma.mma_async.sp: every type, shape, layout and operand form against float64 and against spec.machine."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule
from tileproof.spec.machine import wgmma
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.wgmma import WarpgroupDescriptor

from tests.kit.ptx import POLICIES, clean, only
from tests.kit.wgmma import D_DTYPES, DTYPES, Wgmma, multiply

COVERS = "wgmma.mma_async wgmma.mma_async.sp"
SWIZZLES = tuple(wgmma.SWIZZLES)
TYPES = (
    ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"), ("e4m3", "e5m2", "f16"),
    ("e5m2", "e4m3", "f32"), ("e5m2", "e5m2", "f16"), ("s8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "s8", "s32"), ("u8", "u8", "s32"), ("b1", "b1", "s32"),
)  # fmt: skip


@st.composite
def forms(draw: Any) -> Wgmma:
    a, b, d = draw(st.sampled_from(TYPES))
    majors = st.sampled_from(("K", "MN") if a in ("f16", "bf16") else ("K",))
    registers = draw(st.booleans())
    floats = a not in ("s8", "u8", "b1")
    return Wgmma(
        n=draw(st.sampled_from(wgmma.COLUMNS if floats else wgmma.INTEGER_COLUMNS)), type=a, b_type=b, d_type=d,
        a_in_registers=registers, a_major="K" if registers else draw(majors), b_major=draw(majors),
        a_swizzle=draw(st.sampled_from(SWIZZLES)), b_swizzle=draw(st.sampled_from(SWIZZLES)),
        negate_a=floats and draw(st.booleans()), negate_b=floats and draw(st.booleans()),
        saturate=a in ("s8", "u8") and draw(st.booleans()),
    )  # fmt: skip


def small(form: Wgmma, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Integers that every type holds, so that all sums are exact."""
    a, b = (
        rng.integers(*((0, 2) if t == "b1" else (0, 4) if t[0] == "u" else (-3, 4)), (rows, form.k))
        for rows, t in zip((64, form.n), form.types, strict=True)
    )
    return a, b


def exact_sum(form: Wgmma, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return c + (-1) ** (form.negate_a + form.negate_b) * (a.astype(np.int64) @ b.T.astype(np.int64))


@settings(max_examples=60, deadline=None)
@given(form=forms(), seed=st.integers(0, 2**32 - 1), mode=st.sampled_from(["fast", "exact"]), schedule=st.sampled_from(POLICIES), adds=st.booleans())  # fmt: skip
def test_every_form_multiplies(form: Wgmma, seed: int, mode: str, schedule: Schedule, adds: bool) -> None:
    rng = np.random.default_rng(seed)
    a, b = small(form, rng)
    c = rng.integers(-9, 10, (64, form.n)) if adds else np.zeros((64, form.n), np.int64)
    got, result = multiply(form, a, b, c if adds else None, mma=mode, schedule=schedule, races=True)
    clean(result)
    assert (got.astype(np.float64) == exact_sum(form, a, b, c)).all()


@settings(max_examples=40, deadline=None)
@given(form=forms(), seed=st.integers(0, 2**32 - 1), mode=st.sampled_from(["fast", "exact"]), selector=st.integers(0, 1))  # fmt: skip
def test_every_sparse_form_multiplies(form: Wgmma, seed: int, mode: str, selector: int) -> None:
    if form.type != "b1":
        multiply_sparse(form, np.random.default_rng(seed), selector, mode)


def multiply_sparse(form: Wgmma, rng: np.random.Generator, selector: int, mode: str) -> None:
    form = dataclasses.replace(form, selector=0 if form.k == 32 else selector)
    # K-major without a row of 64 bytes: B needs a wider swizzle than 32 bytes.
    if form.b_major == "K" and form.b_swizzle == "32B":
        form = dataclasses.replace(form, b_swizzle="64B")
    legal = (
        (0x4, 0xE) if form.type == "tf32" else (0x1, 0x2, 0x3, 0x4, 0x6, 0x7, 0x8, 0x9, 0xB, 0xC, 0xD, 0xE)
    )
    nibbles = rng.choice(np.array(legal), (64, form.k if form.type == "tf32" else form.k // 2))
    a, b = (
        rng.integers(0 if t[0] == "u" else -3, 4, (rows, width))
        for rows, width, t in ((64, form.k, form.type), (form.n, form.depth, form.types[1]))
    )
    dense = np.zeros((64, form.depth), np.int64)
    np.put_along_axis(dense, wgmma.sparse_columns(form.type, nibbles), a, axis=1)
    got, result = multiply(form, a, b, nibbles=nibbles, mma=mode, races=True)
    clean(result)
    assert (got.astype(np.float64) == exact_sum(form, dense, b, np.zeros((64, form.n), np.int64))).all()


FP8 = tuple((a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16"))


@pytest.mark.slow  # every spelling, for tools/card; the quick tests draw from the same forms
@pytest.mark.parametrize(("a", "b", "d"), [*(t for t in TYPES if t not in FP8), *FP8])
def test_every_spelling_multiplies(a: str, b: str, d: str) -> None:
    for n in wgmma.COLUMNS if d != "s32" else wgmma.INTEGER_COLUMNS:
        for saturate in (False, True) if a in ("s8", "u8") else (False,):
            form, rng = Wgmma(n, a, b, d, saturate=saturate), np.random.default_rng(n)
            values = small(form, rng)
            c = rng.integers(-9, 10, (64, n))
            got, result = multiply(form, *values, c, mma="exact")
            clean(result)
            assert (got.astype(np.float64) == exact_sum(form, *values, c)).all()
            if a != "b1":
                multiply_sparse(form, rng, n // 8 % 2, "exact")


@pytest.mark.parametrize("nibble", [0x0, 0x5, 0xA, 0xF])
def test_metadata_that_names_a_column_twice(nibble: int) -> None:
    form = Wgmma(8, selector=0)
    nibbles = np.full((64, 8), 0x4)
    nibbles[37, 5] = nibble
    _, result = multiply(form, np.full((64, 16), 1), np.full((8, 32), 1), nibbles=nibbles)
    assert "two distinct columns" in only(result, "mma-operands").message


def drawn(rng: np.random.Generator, shape: tuple[int, int], type_: str, kind: str) -> np.ndarray:
    if kind == "bits":
        size = np.dtype(DTYPES[type_]).itemsize
        return rng.integers(0, 256, (shape[0], shape[1] * size)).astype(np.uint8).view(DTYPES[type_])
    spread = {"bf16": 40, "tf32": 40, "f16": 10, "e4m3": 4, "e5m2": 8}[type_] if kind == "wide" else 1
    scale = np.exp2(rng.integers(-spread, spread, shape))
    return np.asarray((rng.standard_normal(shape) * scale).astype(DTYPES[type_]))


@pytest.mark.parametrize(("a_type", "b_type", "d_type"), [t for t in TYPES if t[2] != "s32"])
@pytest.mark.parametrize("kind", ["ordinary", "wide", "bits"])
def test_exact_mode_is_the_model(a_type: str, b_type: str, d_type: str, kind: str) -> None:
    rng = np.random.default_rng([ord(kind[0]), len(a_type), len(b_type)])
    form = Wgmma(24, a_type, b_type, d_type)
    a, b = (drawn(rng, (rows, form.k), t, kind) for rows, t in ((64, a_type), (24, b_type)))
    if a_type == "tf32":  # the low 13 bits do not count
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    c = (rng.standard_normal((64, 24)) * np.exp2(rng.integers(-8, 8, (64, 24)))).astype(D_DTYPES[d_type])
    got, result = multiply(form, a, b, c, mma="exact")
    clean(result)
    with np.errstate(all="ignore"):
        want = wgmma.product(a, b, c, a_type, b_type, d_type == "f16").astype(D_DTYPES[d_type])
    bits = np.uint16 if d_type == "f16" else np.uint32
    if d_type == "f16":  # the bits of a NaN do not pass through f32
        assert (np.isnan(got) == np.isnan(want)).all()
        got, want = np.nan_to_num(got, nan=0), np.nan_to_num(want, nan=0)
    assert (np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(want).view(bits)).all()


def test_worked_words_of_fp8() -> None:
    """13 bits are kept below the largest exponent, in the products and in the accumulator; toward zero."""
    form = Wgmma(8, "e4m3")
    a, b = np.zeros((64, 32)), np.zeros((8, 32))
    a[:, 0], b[:, 0] = 1, 1
    for c, want in (
        (2.0**-13, 1 + 2.0**-13),
        (2.0**-14, 1.0),
        (-(2.0**-14), 1.0),
        (4097.0, 4098.0),
        (2.0**14, 2.0**14),
    ):
        got, _ = multiply(form, a, b, np.full((64, 8), c), mma="exact")
        assert (got == want).all(), (c, got[0, 0])


@given(start=st.integers(0, 0x3FFF), lbo=st.integers(0, 0x3FFF), sbo=st.integers(0, 0x3FFF), swizzle=st.sampled_from(SWIZZLES), base=st.integers(0, 7))  # fmt: skip
def test_descriptors_survive(start: int, lbo: int, sbo: int, swizzle: str, base: int) -> None:
    made = WarpgroupDescriptor(16 * start, 16 * lbo, 16 * sbo, swizzle, base)
    assert WarpgroupDescriptor.decode(made.encode()) == made


@pytest.mark.parametrize("word", [-1, 1 << 64, *(1 << bit for bit in (14, 15, 30, 31, 46, 47, 48, 52, 61))])
def test_reserved_bits_of_a_descriptor(word: int) -> None:
    with pytest.raises(TileproofError):
        WarpgroupDescriptor.decode(word)


def test_worked_words_of_descriptors() -> None:
    assert WarpgroupDescriptor(0x4000, 16, 1024).encode() == 0x4000004000010400
    with pytest.raises(TileproofError):
        WarpgroupDescriptor(0x4001, 16, 1024).encode()
