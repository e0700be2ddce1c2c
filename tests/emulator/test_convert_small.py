# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""cvt to and from the formats of 8, 6 and 4 bits, and stochastic rounding, against ml_dtypes and exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.kit.ptx import BF16, elementwise
from tests.kit.values import F32_EDGES, wide_values

COVERS = "cvt"

F8 = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0}


@pytest.mark.parametrize("name", F8)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_to_the_small_types(name: str, relu: str) -> None:
    a = wide_values(1)
    b = a[::-1].copy()
    with np.errstate(all="ignore"):
        clamped = np.clip(a, 0 if relu else -LARGEST[name], LARGEST[name])
        want = clamped.astype(F8[name]).view(np.uint8)
    if relu:
        want = np.where(a <= 0, 0, want)
    want = np.where(np.isnan(a), {"e2m3": 0x1F, "e3m2": 0x1F}.get(name, 0x7F), want)  # largest value, or NaN
    got = elementwise(f"cvt.rn.satfinite{relu}.{name}x2.f32 d, x0, x1;", [a, b], np.uint16)
    assert (got >> 8 == want).all() and (got & 0xFF == want[::-1]).all()
    if name in ("e4m3", "e5m2"):
        with np.errstate(over="ignore"):
            h = a.astype(np.float16)
        two = np.stack([h, h[::-1]], axis=1).view(np.uint32).ravel()
        got = elementwise(f"cvt.rn.satfinite{relu}.{name}x2.f16x2 d, x0;", [two], np.uint16)
        with np.errstate(all="ignore"):
            want = (
                np.clip(h.astype(np.float32), 0 if relu else -LARGEST[name], LARGEST[name])
                .astype(F8[name])
                .view(np.uint8)
            )
        if relu:
            want = np.where(h <= 0, 0, want)
        want = np.where(np.isnan(h), 0x7F, want)
        assert (got & 0xFF == want).all() and (got >> 8 == want[::-1]).all()


@pytest.mark.parametrize("name", F8)
def test_from_the_small_types(name: str) -> None:
    bits = np.arange(256 if name in ("e4m3", "e5m2") else 64, dtype=np.uint16)
    pairs = (bits | bits[::-1] << 8).astype(np.uint16)
    got = elementwise(f"cvt.rn.f16x2.{name}x2 d, x0;", [pairs], np.uint32)
    want = bits.astype(np.uint8).view(F8[name]).astype(np.float16)
    for half, expected in ((got & 0xFFFF, want), (got >> 16, want[::-1])):
        number = ~np.isnan(expected)
        found = half.astype(np.uint16)
        assert (found[number] == expected.view(np.uint16)[number]).all() and (found[~number] == 0x7FFF).all()
    relu = (
        elementwise(f"cvt.rn.relu.f16x2.{name}x2 d, x0;", [pairs], np.uint32)
        .astype(np.uint16)
        .view(np.float16)
    )
    assert (relu[~np.isnan(want)] == np.maximum(want, 0)[~np.isnan(want)]).all() and not np.signbit(
        relu
    ).any()


def test_powers_of_two() -> None:
    bits = np.arange(256, dtype=np.uint16)
    got = elementwise("cvt.rn.bf16x2.ue8m0x2 d, x0;", [(bits | bits[::-1] << 8).astype(np.uint16)], np.uint32)
    want = np.ldexp(1.0, np.arange(255) - 127).astype(BF16).view(np.uint16)
    assert ((got & 0xFFFF)[:255] == want).all() and got[255] & 0xFFFF == 0x7FFF and (got >> 16)[0] == 0x7FFF


def e2m1(values: np.ndarray) -> np.ndarray:
    """e2m1 patterns of f32 values by ml_dtypes, clamped; a NaN is the largest value (PTX ISA 9.7.9.21)."""
    with np.errstate(all="ignore"):
        bits = np.clip(values, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return np.where(np.isnan(values), 7, bits & 15)


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_to_e2m1(relu: str) -> None:
    a = wide_values(3)
    b = a[::-1].copy()
    want = np.where(bool(relu) & (a <= 0), 0, e2m1(a))
    code = "{{.reg .b8 t; cvt.rn.satfinite{}.e2m1x2.{} t, {}; cvt.u16.u8 d, t;}}"
    got = elementwise(code.format(relu, "f32", "x0, x1"), [a, b], np.uint16)
    assert (got == want << 4 | want[::-1]).all()
    with np.errstate(over="ignore"):
        h = a.astype(np.float16)
    two = np.stack([h, h[::-1]], axis=1).view(np.uint32).ravel()
    want = np.where(bool(relu) & (h <= 0), 0, e2m1(h.astype(np.float32)))
    got = elementwise(code.format(relu, "f16x2", "x0"), [two], np.uint16)
    assert (got == want[::-1] << 4 | want).all()


def test_from_e2m1() -> None:
    """Every byte, moved into its 8-bit register in the ways that compilers write."""
    bits = np.arange(256, dtype=np.uint16)
    value = (np.arange(16, dtype=np.uint8)).view(ml_dtypes.float4_e2m1fn).astype(np.float16)
    for relu in ("", ".relu"):
        number = np.where(np.signbit(value), np.float16(0), value) if relu else value
        want = number[bits >> 4].view(np.uint16).astype(np.uint32) << 16 | number[bits & 15].view(np.uint16)
        for move in (
            "cvt.u8.u16 t, x0;",
            "mov.b16 {t, u}, x0;",
            "mov.b32 x1, {x0, x0}; mov.b32 {u, v, t, w}, x1;",
        ):
            code = f"{{.reg .b8 t, u, v, w; .reg .b32 x1; {move} cvt.rn{relu}.f16x2.e2m1x2 d, t;}}"
            assert (elementwise(code, [bits], np.uint32) == want).all(), move


def test_bytes_make_a_word() -> None:
    """Four e2m1x2 in one register, as CUTLASS packs eight values; a literal byte."""
    a = np.array([0.5, -1.5, 6.0, -0.0], np.float32)
    code = """{.reg .b8 t<4>; cvt.rn.satfinite.e2m1x2.f32 t0, x0, 0f3F800000; cvt.rn.satfinite.e2m1x2.f32 t1, x0, x0;
              mov.b32 d, {t0, t1, 7, t0};}"""
    low = e2m1(a).astype(np.uint32)
    want = (low << 4 | 2) | (low << 4 | low) << 8 | 7 << 16 | (low << 4 | 2) << 24
    assert (elementwise(code, [a], np.uint32) == want).all()


def test_bytes_in_memory() -> None:
    code = """{.reg .b8 t; .reg .b64 p; .shared .b8 room[64]; mov.u64 p, room; cvt.u64.u32 %rd30, %t; add.u64 p, p, %rd30;
              cvt.u8.u16 t, x0; st.shared.b8 [p], t; ld.shared.b8 t, [p]; cvt.s16.s8 d, t;}"""
    a = np.array([0, 1, 127, 128, 255], np.uint16)
    assert (elementwise(code, [a], np.int16) == a.astype(np.uint8).view(np.int8)).all()


def power_code(x: float, up: bool, finite: bool) -> int:
    """ue8m0 of |x|: exact arithmetic. Overflow and infinity are the NaN, or the largest power with .satfinite."""
    if np.isnan(x):
        return 255
    most = 254 if finite else 255
    if np.isinf(x):
        return most
    code, left = 0, Fraction(abs(float(x)))
    while code < 255 and Fraction(2) ** (code + 1 - 127) <= left:
        code += 1
    if up and left > Fraction(2) ** (code - 127):
        code += 1
    return min(code, most)


@pytest.mark.parametrize("rounding", ["rz", "rp"])
@pytest.mark.parametrize("finite", ["", ".satfinite"])
def test_to_powers_of_two(rounding: str, finite: str) -> None:
    powers = np.ldexp(1.0, np.arange(-149, 128)).astype(np.float32)
    near = [np.nextafter(powers, np.float32(0)), np.nextafter(powers, np.float32(np.inf))]
    a = np.concatenate([powers[::3], -near[0][1::3], near[1][2::3], F32_EDGES])
    want = np.array([power_code(x, rounding == "rp", bool(finite)) for x in a], np.uint16)
    code = f"cvt.{rounding}{finite}.ue8m0x2"
    got = elementwise(f"{code}.f32 d, x0, x1;", [a, a[::-1].copy()], np.uint16)
    assert (got == want << 8 | want[::-1]).all()
    half = a.view(np.uint32) >> 16  # cut to bf16
    b = (half << 16).astype(np.uint32).view(np.float32)
    want = np.array([power_code(x, rounding == "rp", bool(finite)) for x in b], np.uint16)
    got = elementwise(f"{code}.bf16x2 d, x0;", [(half | half[::-1] << 16).astype(np.uint32)], np.uint16)
    assert (got == want[::-1] << 8 | want).all()


def test_powers_of_two_as_seen_on_a_card() -> None:
    """Cases that were published from a B200: at and around 2^-127, infinity, what overflows."""
    a = np.array([0x00400000, 0x007FFFFF, 0x7F800000, 0x7F7FFFFF, 0xC0400000], np.uint32).view(np.float32)
    for spelling, want in (
        ("rz", [0, 0, 255, 254, 128]),
        ("rp", [0, 1, 255, 255, 129]),
        ("rz.satfinite", [0, 0, 254, 254, 128]),
        ("rp.satfinite", [0, 1, 254, 254, 129]),
    ):
        assert (elementwise(f"cvt.{spelling}.ue8m0x2.f32 d, x0, x0;", [a], np.uint16) >> 8).tolist() == want


STOCHASTIC = {
    # mantissa bits, least exponent, largest finite value, bits of the result, random bits of each source
    "f16": (10, -14, 65504.0, 16, 13), "bf16": (7, -126, float(ml_dtypes.finfo(BF16).max), 16, 16),
    "e4m3": (3, -6, 448.0, 8, 16), "e5m2": (2, -14, 57344.0, 8, 16), "e2m3": (3, 0, 7.5, 8, 16),
    "e3m2": (2, -2, 28.0, 8, 16), "e2m1": (1, 0, 6.0, 4, 16),
}  # fmt: skip
KINDS = {"f16": np.dtype(np.float16), "bf16": BF16, **F8, "e2m1": ml_dtypes.float4_e2m1fn}


def drawn(name: str, word: int, k: int) -> int:
    """The random bits of source k of a conversion to `name` (PTX ISA 9.7.9.21)."""
    if name in ("f16", "bf16"):
        half = word >> 16 if k == 0 else word & 0xFFFF
        return half & 0x1FFF if name == "f16" else half
    byte = [word >> 8 * n & 0xFF for n in range(4)]
    high, low = k < 2, k & 1
    pair = [byte[3], byte[2]] if high else [byte[1], byte[0]]
    if name == "e2m1":
        pair = [byte[3], byte[1]] if high else [byte[2], byte[0]]
    value = pair[0] << 8 | pair[1]
    return value if low else int(f"{value:016b}"[::-1], 2)


def stochastic(name: str, x: float, random: int, finite: bool, relu: bool) -> float:
    """x rounded toward zero, or away from it where the cut fraction and the random bits carry: exact arithmetic."""
    mantissa, least, most, _, bits = STOCHASTIC[name]
    small = name in ("e2m1", "e2m3", "e3m2")
    if np.isnan(x):
        return most if small else np.nan
    if relu and (x < 0 or x == 0):
        return 0.0
    if np.isinf(x):
        return float(np.copysign(most if finite else np.inf, x))
    exponent = max(int(np.frexp(abs(x))[1]) - 1, least) if x else least
    unit = Fraction(2) ** (exponent - mantissa)
    kept, cut = divmod(Fraction(abs(float(x))), unit)
    if (cut / unit) * 2**bits // 1 + random >= 2**bits:
        kept += 1
    value = float(kept * unit)
    if value > most:
        value = most if finite else np.inf
    return float(np.copysign(value, x))


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize(
    ("name", "finite"),
    [(name, ".satfinite") for name in STOCHASTIC] + [("f16", ""), ("bf16", "")],  # four-packs ask for it
)
def test_stochastic(name: str, finite: str, relu: str) -> None:
    _, _, _, width, _ = STOCHASTIC[name]
    count = 32 // width if width == 8 else 4 if width == 4 else 2
    rng = np.random.default_rng(width)
    a = np.concatenate(
        [wide_values(5), np.float32(STOCHASTIC[name][2]) * np.array([0.999, 1.0, 1.001], np.float32)]
    )
    words = rng.integers(0, 2**32, len(a), dtype=np.uint32)
    words[::7], words[1::7] = 0, 0xFFFFFFFF
    sources = [np.roll(a, k).copy() for k in range(count)]
    given = ", ".join(f"x{k}" for k in range(count))
    given = f"{{{given}}}" if count == 4 else given
    kind = np.uint16 if count * width == 16 else np.uint32
    code = f"cvt.rs{relu}{finite}.{name}x{count}.f32 d, {given}, x{count};"
    got = elementwise(code, [*sources, words], kind)
    for k in range(count):
        want = np.array(
            [
                stochastic(name, float(x), drawn(name, int(w), k), bool(finite), bool(relu))
                for x, w in zip(sources[k], words, strict=True)
            ]
        )
        field = (got >> (count - 1 - k) * width & (1 << width) - 1).astype(
            np.uint16 if width == 16 else np.uint8
        )
        found = field.view(KINDS[name]).astype(np.float64)
        nan = np.isnan(want)
        assert (np.isnan(found) == nan).all()
        assert (found[~nan] == want[~nan]).all() and (np.signbit(found[~nan]) == np.signbit(want[~nan])).all()


def test_stochastic_carries_as_seen_on_a_card() -> None:
    """Cases that were published from a B200: 1 + m/65536 of a unit of e4m3 carries when m and the random bits reach it."""
    m = np.array([0, 1, 1, 0x8000, 0x8000, 0xFFFF, 0xFFFF], np.uint32)
    random = np.array([0xFFFF, 0xFFFE, 0xFFFF, 0x7FFF, 0x8000, 1, 0], np.uint32)
    a = (0x3F800000 | m << 4).view(np.float32)
    got = elementwise(
        "cvt.rs.satfinite.e4m3x4.f32 d, {0f00000000, 0f00000000, 0f00000000, x0}, x1;", [a, random], np.uint32
    )
    assert got.tolist() == [0x38, 0x38, 0x39, 0x38, 0x39, 0x39, 0x38]
