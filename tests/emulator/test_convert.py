# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""cvt in all its registered forms, against numpy and ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kit import BF16, elementwise
from tileproof.emulator import UnsupportedInstruction
from values import F32_EDGES, crossed, ftz, integer_edges, same_f32

COVERS = "cvt"

INTS = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
SEEDS = st.integers(0, 2**32 - 1)


def kind_of(name: str) -> np.dtype:
    return np.dtype(f"{'i' if name[0] == 's' else 'u'}{int(name[1:]) // 8}")


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("to", INTS)
def test_between_integers(to: str, source: str) -> None:
    (a,) = crossed(integer_edges(kind_of(source)), 1, 1, 256)
    got = elementwise(f"cvt.{to}.{source} d, x0;", [a], kind_of(to))
    assert (got == a.astype(kind_of(to))).all()


def test_a_wider_register_is_extended() -> None:
    a = np.array([0x80, 0x7F, 0xFF, 1], np.uint8)
    got = elementwise("cvt.s8.u8 d, x0;", [a], np.uint32)
    assert got.tolist() == [0xFFFFFF80, 0x7F, 0xFFFFFFFF, 1]
    got = elementwise("cvt.u8.s16 d, x0;", [np.array([-1, 0x180], np.int16)], np.uint64)
    assert got.tolist() == [0xFF, 0x80]
    # Only the low bytes of a wider source count.
    got = elementwise("cvt.s32.s8 d, x0;", [np.array([0x1FF, 0x17F], np.uint32)], np.int32)
    assert got.tolist() == [-1, 127]


def half_way(type_: np.dtype, seed: int) -> np.ndarray:
    """f32 values at, just below and just above the middle of neighbouring 16-bit floats, and edges."""
    bits = np.random.default_rng(seed).integers(
        0, 0x7C00 if type_ == np.float16 else 0x7F80, 128, dtype=np.uint16
    )
    low, high = bits.view(type_).astype(np.float32), (bits + 1).view(type_).astype(np.float32)
    finite = np.isfinite(high)
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)[finite]
    near = [middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))]
    return np.concatenate([*near, *(-n for n in near), F32_EDGES, bits.view(type_).astype(np.float32)])[:1024]


@pytest.mark.parametrize(("name", "type_"), [("bf16", BF16), ("f16", np.dtype(np.float16))])
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_f32_to_half_rounds_to_nearest_even(name: str, type_: np.dtype, seed: int) -> None:
    a = half_way(type_, seed)
    with np.errstate(all="ignore"):
        want = a.astype(type_)
    got = elementwise(f"cvt.rn.{name}.f32 d, x0;", [a], np.uint16)
    nan = np.isnan(a)
    assert (got[nan] == 0x7FFF).all()  # the canonical NaN (PTX ISA 9.7.9.21)
    assert (got[~nan] == want.view(np.uint16)[~nan]).all()
    b = a[::-1].copy()
    pair = elementwise(f"cvt.rn.{name}x2.f32 d, x0, x1;", [a, b], np.uint32)
    assert (pair >> 16 == got).all() and (pair & 0xFFFF == got[::-1]).all()


@pytest.mark.parametrize(("name", "type_"), [("bf16", BF16), ("f16", np.dtype(np.float16))])
def test_half_to_f32_is_exact(name: str, type_: np.dtype) -> None:
    for first in range(0, 65536, 8192):
        bits = np.arange(first, first + 8192, 8, dtype=np.uint16)
        same_f32(
            elementwise(f"cvt.f32.{name} d, x0;", [bits], np.float32), bits.view(type_).astype(np.float32)
        )


@pytest.mark.parametrize("source", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_f32_rounds_to_nearest_even(source: str) -> None:
    (a,) = crossed(integer_edges(kind_of(source)), 1, 2)
    got = elementwise(f"cvt.rn.f32.{source} d, x0;", [a], np.float32)
    want = [np.float32(nearest_even(int(v))) for v in a]
    same_f32(got, np.array(want))


def nearest_even(value: int) -> int:
    drop = max(0, abs(value).bit_length() - 24)
    low, rest = abs(value) >> drop, abs(value) & ((1 << drop) - 1)
    half = 1 << drop >> 1
    low += drop > 0 and (rest > half or (rest == half and low & 1))
    return (low << drop) * (1 if value >= 0 else -1)


def test_s32_to_f16() -> None:
    a = np.array([0, 1, -1, 2047, 2049, 2051, -2049, 65504, 65519, 65520, 70000, -70000, 2**31 - 1], np.int32)
    with np.errstate(over="ignore"):
        want = a.astype(np.float64).astype(np.float16)
    assert (elementwise("cvt.rn.f16.s32 d, x0;", [a], np.float16) == want).all()


def test_f32_to_f64() -> None:
    (a,) = crossed(F32_EDGES, 1, 3)
    numbers = ~np.isnan(a)
    got = elementwise("cvt.f64.f32 d, x0;", [a], np.float64)
    assert (got[numbers] == a[numbers].astype(np.float64)).all() and np.isnan(got[~numbers]).all()
    got = elementwise("cvt.ftz.f64.f32 d, x0;", [a], np.float64)
    assert (got[numbers] == ftz(a)[numbers].astype(np.float64)).all()


@pytest.mark.parametrize(("mode", "to"), [("rzi", "s32"), ("rzi", "u32"), ("rni", "s32")])
def test_f32_to_integer_clamps(mode: str, to: str) -> None:
    (a,) = crossed(F32_EDGES, 1, 4)
    a = np.concatenate([a[:900], np.arange(-31, 31, dtype=np.float32) / 2])
    got = elementwise(f"cvt.{mode}.{to}.f32 d, x0;", [a], kind_of(to))
    info = np.iinfo(kind_of(to))
    with np.errstate(invalid="ignore"):
        rounded = np.trunc(a.astype(np.float64)) if mode == "rzi" else np.rint(a.astype(np.float64))
        want = np.where(np.isnan(rounded), 0, np.clip(rounded, info.min, info.max))
    assert (got == want.astype(np.int64)).all()


@pytest.mark.parametrize("line", ["cvt.sat.u8.s32 d, x0;", "cvt.rz.f32.s32 d, x0;", "cvt.f16.f16 d, x0;", "cvt.f32.s32 d, x0;",
                                  "cvt.rn.satfinite.e4m3x2.f32 d, x0, x0;", "cvt.rpi.s32.f32 d, x0;"])  # fmt: skip
def test_other_conversions_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="cvt"):
        elementwise(line, [np.ones(32, np.uint32)], np.uint32)
