# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""cvt in all its registered forms, against numpy and ml_dtypes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import UnsupportedInstruction

from tests.emulator.test_alu_rounded import rounded, same
from tests.kit.ptx import BF16, elementwise
from tests.kit.values import F32_EDGES, crossed, ftz, integer_edges, same_f32, wide_values

COVERS = "cvt cvt.pack"

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


@pytest.mark.parametrize(
    "line",
    ["cvt.sat.rn.u8.s32 d, x0;", "cvt.f32.tf32 d, x0;", "cvt.f32.s32 d, x0;", "cvt.rn.e4m3x2.f32 d, x0, x0;", "cvt.rn.f32.f16 d, x0;", "cvt.rni.s32.s32 d, x0;", "cvt.rm.relu.f16.f32 d, x0;"],
)  # fmt: skip
def test_other_conversions_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="cvt"):
        elementwise(line, [np.ones(32, np.uint32)], np.uint32)


NARROW = {"f16": np.dtype(np.float16), "bf16": BF16}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f32_to_half_in_every_direction(name: str, mode: str) -> None:
    kind, a = NARROW[name], half_way(NARROW[name], 9)[:512]
    got = elementwise(f"cvt.{mode}.{name}.f32 d, x0;", [a], np.uint16).view(kind)
    want = [float(v) if not np.isfinite(v) or v == 0 else rounded(Fraction(float(v)), kind, mode) for v in a]
    same(got, want, kind)
    if mode in ("rn", "rz"):
        plain = np.array(want)
        relu = elementwise(f"cvt.{mode}.relu.{name}.f32 d, x0;", [a], np.uint16).view(kind)
        same(relu, list(np.where(np.isnan(plain), plain, np.where(plain > 0, plain, 0.0))), kind)
        pair = elementwise(f"cvt.{mode}.{name}x2.f32 d, x0, x1;", [a, a[::-1].copy()], np.uint32)
        assert (pair >> 16 == got.view(np.uint16)).all() and (
            pair & 0xFFFF == got.view(np.uint16)[::-1]
        ).all()


@pytest.mark.parametrize(("spelling", "ties"), [("rna", "away"), ("rn", "even"), ("rz", "cut")])
def test_tf32(spelling: str, ties: str) -> None:
    (a,) = crossed(F32_EDGES, 1, 11, 256)
    bits = a.view(np.uint32).astype(np.uint64)
    low, kept = bits & 0x1FFF, bits >> 13
    up = {
        "away": low >= 0x1000,
        "even": (low > 0x1000) | ((low == 0x1000) & (kept & 1 == 1)),
        "cut": low < 0,
    }[ties]
    want = np.where(np.isfinite(a), (kept + up) << 13, bits)
    got = elementwise(f"cvt.{spelling}.tf32.f32 d, x0;", [a], np.uint32)
    nan = bits & 0xFFFFE000 if spelling == "rna" else 0x7FFFE000  # as on an H100
    assert (got == np.where(np.isnan(a), nan, want)).all()


@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_floats_to_integers(mode: str, to: str) -> None:
    functions = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    info = np.iinfo(kind_of(to))
    wide_nan = 0 if info.min == 0 else info.min
    for name, kind in (
        ("f16", np.dtype(np.float16)),
        ("f32", np.dtype(np.float32)),
        ("f64", np.dtype(np.float64)),
    ):
        with np.errstate(all="ignore"):
            a = np.concatenate(
                [
                    wide_values(3),
                    (np.arange(-40, 40) / 4).astype(np.float32),
                    np.array([2.0**31, -(2.0**63), 2.0**63, 2.0**64], np.float32),
                ]
            ).astype(kind)
        raw = a.view(f"u{kind.itemsize}")
        got = elementwise(f"cvt.{mode}.{to}.{name} d, x0;", [raw], kind_of(to))
        for value, found in zip(a, got, strict=True):
            if np.isnan(value):
                want = (
                    (1 << (info.bits - 1) if info.min == 0 else wide_nan)
                    if name == "f64" or info.bits == 64
                    else 0
                )
            elif np.isinf(value):
                want = info.max if value > 0 else info.min
            else:
                want = min(max(int(functions[mode](np.float64(value))), info.min), info.max)
            assert int(found) == want, (value, found, want)


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_to_floats(mode: str, source: str) -> None:
    (a,) = crossed(integer_edges(kind_of(source)), 1, 12, 256)
    for name, kind in (
        ("f16", np.dtype(np.float16)),
        ("bf16", BF16),
        ("f32", np.dtype(np.float32)),
        ("f64", np.dtype(np.float64)),
    ):
        if name == "bf16" and source[1:] == "8":  # ptxas takes no bytes here
            continue
        got = elementwise(f"cvt.{mode}.{name}.{source} d, x0;", [a], f"u{kind.itemsize}").view(kind)
        same(got, [rounded(Fraction(int(v)), kind, mode) for v in a], kind)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f64_to_narrower(mode: str) -> None:
    rng = np.random.default_rng(13)
    a = np.concatenate(
        [
            rng.integers(0, 2**64, 128, dtype=np.uint64).view(np.float64),
            rng.standard_normal(256),
            rng.standard_normal(64) * 2.0**-140,
            [0.0, -0.0, np.inf, np.nan],
        ]
    )
    for name, kind in (("f32", np.dtype(np.float32)), ("f16", np.dtype(np.float16)), ("bf16", BF16)):
        got = elementwise(f"cvt.{mode}.{name}.f64 d, x0;", [a], f"u{kind.itemsize}").view(kind)
        same(
            got,
            [
                float(v) if not np.isfinite(v) or v == 0 else rounded(Fraction(float(v)), kind, mode)
                for v in a
            ],
            kind,
        )


def test_saturated_conversions() -> None:
    for source in ("s32", "u64", "s64"):
        (a,) = crossed(integer_edges(kind_of(source)), 1, 14, 256)
        for to in INTS:
            info, given = np.iinfo(kind_of(to)), np.iinfo(kind_of(source))
            if info.min <= given.min and info.max >= given.max:  # nothing to clamp: no such form
                continue
            got = elementwise(f"cvt.sat.{to}.{source} d, x0;", [a], kind_of(to))
            assert [int(v) for v in got] == [min(max(int(v), info.min), info.max) for v in a]
    (b,) = crossed(F32_EDGES, 1, 15, 256)
    got = elementwise("cvt.sat.f32.f32 d, x0;", [b], np.float32)
    assert (got == np.clip(np.where(np.isnan(b), 0, b), 0, 1)).all() and not np.signbit(got).any()
    got = elementwise("cvt.ftz.f32.f32 d, x0;", [b], np.float32)
    same_f32(got, ftz(b))


def test_whole_numbers_stay_floats() -> None:
    a = wide_values(16)
    for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        same_f32(elementwise(f"cvt.{mode}.f32.f32 d, x0;", [a], np.float32), function(a))


_FLOATS = np.array(
    [0, -0.0, np.nan, np.inf, -np.inf, 65504, 65519.996, 65520, -65520, 1e-40, -1e-40, 3.4e38, -3.4e38, 3.3895314e38,
     3.3961776e38, -3.3961776e38, 1.0009765625, 1.00048828125, 1e-7, -1e-7, 6e-8, 2.0, -2.5, 1.00390625, 1.01171875, 1 / 3],
    np.float32,
)  # fmt: skip


def _nearest_or_cut(x: np.ndarray, kind: np.dtype, cut: bool) -> np.ndarray:
    """x in a 16-bit type, as float64 there is no overflow of: to the nearest, or toward zero."""
    y = x.astype(kind)
    if not cut:
        return y
    large = np.abs(y.astype(np.float64)) > np.abs(x.astype(np.float64))
    return np.where(large, (y.view(np.uint16) - 1).view(kind), y).astype(kind)


@pytest.mark.parametrize("rounding", ["rn", "rz"])
@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("packed", [False, True])
def test_satfinite_of_16_bits(rounding: str, relu: str, name: str, packed: bool) -> None:
    """Infinity and what would become it are the largest value with its sign; a NaN stays a NaN."""
    kind = np.dtype(np.float16) if name == "f16" else BF16
    most = float(ml_dtypes.finfo(kind).max)
    with np.errstate(over="ignore", invalid="ignore"):
        want = _nearest_or_cut(_FLOATS, kind, rounding == "rz").astype(np.float64)
        want = np.where(np.isnan(_FLOATS), np.nan, np.clip(want, -most, most))
        want = np.where(relu and np.signbit(want) & ~np.isnan(want), 0.0, want).astype(kind).view(np.uint16)
    want[np.isnan(_FLOATS)] = 0x7FFF
    op = f"cvt.{rounding}.satfinite{relu}.{name}"
    if packed:
        got = elementwise(
            f"cvt.{rounding}.satfinite{relu}.{name}x2.f32 d, x0, x1;", [_FLOATS, _FLOATS[::-1]], np.uint32
        )
        assert (got >> 16 == want).all() and (got & 0xFFFF == want[::-1]).all()
    else:
        assert (elementwise(f"{op}.f32 d, x0;", [_FLOATS], np.uint16) == want).all()


@pytest.mark.parametrize("rounding", ["rna", "rn", "rz"])
def test_satfinite_of_tf32(rounding: str) -> None:
    bits = _FLOATS.view(np.uint32).astype(np.uint64)
    add: Any = {"rna": 0x1000, "rn": 0xFFF + (bits >> 13 & 1), "rz": 0}[rounding]
    want = (bits + add) & 0xFFFFE000
    want = np.where(want & 0x7FFFFFFF >= 0x7F800000, want & 0x80000000 | 0x7F7FE000, want)
    nan = (bits & 0xFFFFE000) - 0x2000 if rounding == "rna" else 0x7FFFE000  # as on an H100, and in its code
    want = np.where(np.isnan(_FLOATS), nan, want)
    got = elementwise(f"cvt.{rounding}.satfinite.tf32.f32 d, x0;", [_FLOATS], np.uint32)
    assert (got == want).all()


def test_bf16_with_ftz_flushes_its_source() -> None:
    got = elementwise("cvt.rp.ftz.bf16.f32 d, x0;", [np.array([1e-40, -1e-40, 1e-37], np.float32)], np.uint16)
    kept = elementwise("cvt.rp.bf16.f32 d, x0;", [np.array([1e-40, -1e-40, 1e-37], np.float32)], np.uint16)
    assert got.tolist() == [0, 0x8000, kept[2]] and kept[0] > 0


@pytest.mark.parametrize(
    ("mode", "function"),
    [("", None), (".rni", np.rint), (".rzi", np.trunc), (".rmi", np.floor), (".rpi", np.ceil)],
)
def test_bf16_to_bf16_and_wider(mode: str, function: object) -> None:
    bits = np.arange(0, 65536, 65, dtype=np.uint16)
    x = bits.view(BF16).astype(np.float64)
    number = ~np.isnan(x)
    got = elementwise(f"cvt{mode}.bf16.bf16 d, x0;", [bits], np.uint16).view(BF16).astype(np.float64)
    want = function(x) if callable(function) else x
    assert (got[number] == want[number]).all() and np.isnan(got[~number]).all()
    assert (np.signbit(got[number]) == np.signbit(x[number])).all()
    if not mode:
        wide = elementwise("cvt.f64.bf16 d, x0;", [bits], np.float64)
        assert (wide[number] == x[number]).all() and np.isnan(wide[~number]).all()


@pytest.mark.parametrize("type_", ["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"])
def test_pack(type_: str) -> None:
    a, b, c = crossed(integer_edges(np.int32), 3, 9, 1024)
    width = int(type_[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if type_[0] == "s" else (0, (1 << width) - 1)
    mask = (1 << width) - 1
    two = (np.clip(a, low, high) & mask).astype(np.uint64) << width | (np.clip(b, low, high) & mask).astype(
        np.uint64
    )
    if width == 16:
        got = elementwise(f"cvt.pack.sat.{type_}.s32 d, x0, x1;", [a, b], np.uint32)
        assert (got == two).all()
        return
    got = elementwise(f"cvt.pack.sat.{type_}.s32.b32 d, x0, x1, x2;", [a, b, c], np.uint32)
    assert (got == (two | c.view(np.uint32).astype(np.uint64) << 2 * width) & 0xFFFFFFFF).all()


def test_what_an_h200_showed() -> None:
    """docs/evidence, 2026-11-28-h200-forms-card."""
    nan = np.array([np.nan, -np.nan, 300, -300])
    assert elementwise("cvt.rpi.s8.f64 d, x0;", [nan], np.uint16).tolist() == [0xFF80, 0xFF80, 127, 0xFF80]
    assert elementwise("cvt.rni.u8.f64 d, x0;", [nan], np.uint16).tolist() == [0x80, 0x80, 255, 0]
    assert elementwise("cvt.rni.s16.f64 %r1, x0; mov.u32 d, %r1;", [nan], np.uint32)[0] == 0xFFFF8000
    small = np.array([0x17, 0x80000017], np.uint32)
    for flush in ("", ".ftz"):
        assert elementwise(f"cvt.rp{flush}.f16.f32 d, x0;", [small], np.uint16).tolist() == [1, 0x8000]
        assert elementwise(f"cvt.rm{flush}.f16.f32 d, x0;", [small], np.uint16).tolist() == [0, 0x8001]
    assert elementwise("cvt.rp.ftz.bf16.f32 d, x0;", [small], np.uint16).tolist() == [0, 0x8000]
    bits = np.array([0x7F81, 0xFFC1, 0x7F80], np.uint16)
    for rounding in ("", ".rn", ".rz", ".rm", ".rp"):
        got = elementwise(f"cvt{rounding}.f32.bf16 d, x0;", [bits], np.uint32)
        assert got.tolist() == [0x7F810000, 0xFFC10000, 0x7F800000]
