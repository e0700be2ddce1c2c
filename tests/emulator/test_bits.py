# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Bit fields, carries, bytes and packed halves: the pseudo-code of PTX ISA 9.7.1, 9.7.2 and 9.7.9.7 in Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kit.ptx import elementwise, outputs, store
from tests.kit.values import crossed, integer_edges

COVERS = "bfe bfi shf addc subc madc mul24 mad24 sad popc clz bfind brev prmt dp4a dp2a fns szext bmsk cnot vabsdiff2 vabsdiff4"
COUNT = 512


def kind(type_: str) -> np.dtype:
    return np.dtype(f"{'i' if type_[0] == 's' else 'u'}{int(type_.lstrip('bsu')) // 8}")


def inputs(*types: str, seed: int = 1) -> list[np.ndarray]:
    return [crossed(integer_edges(kind(t)), 2, seed + k, COUNT)[k % 2] for k, t in enumerate(types)]


def small(top: int, seed: int = 3) -> np.ndarray:
    """Amounts around the edges of a width, some beyond a byte."""
    rng = np.random.default_rng(seed)
    return np.where(
        rng.random(COUNT) < 0.9, rng.integers(0, top + 4, COUNT), rng.integers(0, 2**32, COUNT)
    ).astype(np.uint32)


def check(line: str, given: list[np.ndarray], out: str, function) -> None:  # type: ignore[no-untyped-def]
    got = elementwise(line, given, kind(out))
    bits = 8 * kind(out).itemsize
    for i in range(COUNT):
        want = function(*(int(v[i]) for v in given)) & ((1 << bits) - 1)
        assert int(got[i]) & ((1 << bits) - 1) == want, (line, [int(v[i]) for v in given], int(got[i]), want)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
def test_bfe(type_: str) -> None:
    msb = int(type_[1:]) - 1

    def bfe(a: int, b: int, c: int) -> int:
        pos, length = b & 255, c & 255
        sign = 0 if type_[0] == "u" or length == 0 else a >> min(pos + length - 1, msb) & 1
        return sum(
            (a >> (pos + i) & 1 if i < length and pos + i <= msb else sign) << i for i in range(msb + 1)
        )

    check(f"bfe.{type_} d, x0, x1, x2;", [*inputs(type_), small(msb), small(msb, 4)], type_, bfe)


@pytest.mark.parametrize("type_", ["b32", "b64"])
def test_bfi(type_: str) -> None:
    msb = int(type_[1:]) - 1

    def bfi(a: int, b: int, c: int, d: int) -> int:
        pos, length = c & 255, d & 255
        for i in range(length):
            if pos + i <= msb:
                b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return b

    check(f"bfi.{type_} d, x0, x1, x2, x3;", [*inputs(type_, type_), small(msb), small(msb, 4)], type_, bfi)


@pytest.mark.parametrize("way", ["l", "r"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_shf(way: str, mode: str) -> None:
    def shf(a: int, b: int, c: int) -> int:
        n = min(c, 32) if mode == "clamp" else c & 31
        return b << n | a >> (32 - n) if way == "l" else b << (32 - n) | a >> n

    check(f"shf.{way}.{mode}.b32 d, x0, x1, x2;", [*inputs("b32", "b32"), small(34)], "b32", shf)


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains(bits: int) -> None:
    """Sums, differences and products of twice the width, made of halves."""
    full = (1 << bits) - 1
    a, b, c, d = crossed(integer_edges(np.dtype(f"u{bits // 8}")), 2, 5, COUNT) + crossed(
        integer_edges(np.dtype(f"u{bits // 8}")), 2, 6, COUNT
    )
    wide = [
        [int(low) | int(high) << bits for low, high in zip(p, q, strict=True)] for p, q in ((a, c), (b, d))
    ]
    for name, sign in (("add", 1), ("sub", -1)):
        low = elementwise(f"{name}.cc.u{bits} d, x0, x1;", [a, b], a.dtype)
        high = elementwise(
            f".reg .b{bits} t; {name}.cc.u{bits} t, x0, x1; {name}c.u{bits} d, x2, x3;", [a, b, c, d], a.dtype
        )
        out = elementwise(
            f".reg .b{bits} t; {name}.cc.u{bits} t, x0, x1; {name}c.cc.s{bits} t, x2, x3; mov.b{bits} t, 0; {name}c.u{bits} d, t, t;",
            [a, b, c, d],
            a.dtype,
        )
        for i in range(COUNT):
            value = wide[0][i] + sign * wide[1][i]
            assert (int(low[i]), int(high[i])) == (value & full, value >> bits & full)
            assert int(out[i]) == (value >> (2 * bits) & full)
    low = elementwise(f"mad.lo.cc.u{bits} d, x0, x1, x2;", [a, b, c], a.dtype)
    high = elementwise(
        f".reg .b{bits} t; mad.lo.cc.u{bits} t, x0, x1, x2; madc.hi.u{bits} d, x0, x1, x3;",
        [a, b, c, d],
        a.dtype,
    )
    last = elementwise(
        f".reg .b{bits} t; mad.hi.cc.u{bits} t, x0, x1, x3; madc.lo.cc.u{bits} d, x0, x1, x2; addc.u{bits} d, d, 0;",
        [a, b, c, d],
        a.dtype,
    )
    for i in range(COUNT):
        value = int(a[i]) * int(b[i]) + (int(c[i]) | int(d[i]) << bits)
        assert (int(low[i]), int(high[i])) == (value & full, value >> bits & full)
        first = (int(a[i]) * int(b[i]) >> bits) + int(d[i])
        second = (int(a[i]) * int(b[i]) & full) + int(c[i]) + (first >> bits)
        assert int(last[i]) == (second + (second >> bits)) & full


def test_each_lane_has_its_own_carry() -> None:
    body = f"add.cc.u32 %r1, %t, 0xfffffff0; setp.lt.u32 %p1, %t, 24; @%p1 add.cc.u32 %r1, 0, 0; addc.u32 %r2, 0, 0; {store('%r2')}"
    assert outputs(body).tolist() == [0] * 24 + [1] * 8


@pytest.mark.parametrize("part", ["lo", "hi"])
@pytest.mark.parametrize("type_", ["u32", "s32"])
def test_of_24_bits(part: str, type_: str) -> None:
    def cut(v: int) -> int:
        v &= 0xFFFFFF
        return v - (1 << 24) if type_ == "s32" and v >> 23 else v

    def mul(a: int, b: int) -> int:
        return cut(a) * cut(b) >> (16 if part == "hi" else 0)

    values = inputs(type_, type_, type_)
    check(f"mul24.{part}.{type_} d, x0, x1;", values[:2], type_, mul)
    check(f"mad24.{part}.{type_} d, x0, x1, x2;", values, type_, lambda a, b, c: mul(a, b) + c)
    if part == "hi" and type_ == "s32":
        check(
            "mad24.hi.sat.s32 d, x0, x1, x2;",
            values,
            type_,
            lambda a, b, c: min(max(mul(a, b) + c, -(2**31)), 2**31 - 1),
        )


def test_saturating_integers() -> None:
    a, b, c = inputs("s32", "s32", "s32")

    def clamp(v: int) -> int:
        return min(max(v, -(2**31)), 2**31 - 1)

    check("add.sat.s32 d, x0, x1;", [a, b], "s32", lambda p, q: clamp(p + q))
    check("sub.sat.s32 d, x0, x1;", [a, b], "s32", lambda p, q: clamp(p - q))
    check("mad.hi.sat.s32 d, x0, x1, x2;", [a, b, c], "s32", lambda p, q, r: clamp((p * q >> 32) + r))


@pytest.mark.parametrize("type_", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_sad_and_mad_hi(type_: str) -> None:
    bits = int(type_[1:])
    values = inputs(type_, type_, type_)
    check(f"sad.{type_} d, x0, x1, x2;", values, type_, lambda a, b, c: c + abs(a - b))
    check(f"mad.hi.{type_} d, x0, x1, x2;", values, type_, lambda a, b, c: (a * b >> bits) + c)


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits: int) -> None:
    values = inputs(f"u{bits}")
    check(f"popc.b{bits} d, x0;", values, "u32", lambda a: a.bit_count())
    check(f"clz.b{bits} d, x0;", values, "u32", lambda a: bits - a.bit_length())
    check(f"brev.b{bits} d, x0;", values, f"u{bits}", lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    check(f"cnot.b{bits} d, x0;", values, f"u{bits}", lambda a: int(a == 0))
    for sign in "su":
        given = inputs(f"{sign}{bits}")
        check(f"bfind.{sign}{bits} d, x0;", given, "u32", lambda a: (a if a >= 0 else ~a).bit_length() - 1)
        check(
            f"bfind.shiftamt.{sign}{bits} d, x0;",
            given,
            "u32",
            lambda a: bits - n if (n := (a if a >= 0 else ~a).bit_length()) else -1,
        )


_PERMUTED = {  # d's most significant byte first, as in the table of the ISA
    "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"), "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"), "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
}  # fmt: skip


@pytest.mark.parametrize("mode", _PERMUTED)
def test_prmt_modes(mode: str) -> None:
    def prmt(a: int, b: int, c: int) -> int:
        source = a | b << 32
        return int("".join(f"{source >> 8 * int(n) & 255:02x}" for n in _PERMUTED[mode][c & 3]), 16)

    check(f"prmt.b32.{mode} d, x0, x1, x2;", [*inputs("b32", "b32"), small(9)], "b32", prmt)


def signed(value: int, bits: int, is_signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed and value >> (bits - 1) else value


@pytest.mark.parametrize("a_type", ["s32", "u32"])
@pytest.mark.parametrize("b_type", ["s32", "u32"])
def test_dot_products(a_type: str, b_type: str) -> None:
    values = inputs("u32", "u32", "u32")

    def four(a: int, b: int, c: int) -> int:
        return c + sum(
            signed(a >> 8 * k, 8, a_type == "s32") * signed(b >> 8 * k, 8, b_type == "s32") for k in range(4)
        )

    check(f"dp4a.{a_type}.{b_type} d, x0, x1, x2;", values, "u32", four)
    for part, first in (("lo", 0), ("hi", 2)):

        def two(a: int, b: int, c: int, first: int = first) -> int:
            return c + sum(
                signed(a >> 16 * k, 16, a_type == "s32") * signed(b >> 8 * (k + first), 8, b_type == "s32")
                for k in range(2)
            )

        check(f"dp2a.{part}.{a_type}.{b_type} d, x0, x1, x2;", values, "u32", two)


def test_fns() -> None:
    def fns(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else -1
        step, left, pos = (1 if offset > 0 else -1), abs(offset) - 1, base
        while 0 <= pos < 32:
            if mask >> pos & 1:
                if left == 0:
                    return pos
                left -= 1
            pos += step
        return -1

    rng = np.random.default_rng(9)
    given = [
        rng.integers(0, 2**32, COUNT, dtype=np.uint32),
        rng.integers(0, 32, COUNT, dtype=np.uint32),
        rng.integers(-6, 7, COUNT).astype(np.int32),
    ]
    check("fns.b32 d, x0, x1, x2;", given, "u32", fns)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks(mode: str) -> None:
    (a,), n, m = inputs("u32"), small(34), small(34, 8)

    def szext(value: int, bits: int, is_signed: bool) -> int:
        if mode == "clamp" and bits >= 32:
            return value
        bits &= 31
        return signed(value, bits, is_signed) if bits else 0

    for sign in "su":
        check(
            f"szext.{mode}.{sign}32 d, x0, x1;",
            [a, n],
            "u32",
            lambda v, b, sign=sign: szext(v, b, sign == "s"),
        )

    def bmsk(at: int, width: int) -> int:
        if mode == "wrap":
            at, width = at & 31, width & 31
        elif at >= 32:
            return 0
        return sum(1 << i for i in range(at, min(32, at + width)))

    check(f"bmsk.{mode}.b32 d, x0, x1;", [n, m], "u32", bmsk)


def test_pairs_of_16_bits() -> None:
    a, b = inputs("u32", "u32")

    def both(function, is_signed: bool):  # type: ignore[no-untyped-def]
        def run(p: int, q: int) -> int:
            return sum(
                (function(signed(p >> 16 * k, 16, is_signed), signed(q >> 16 * k, 16, is_signed)) & 0xFFFF)
                << 16 * k
                for k in range(2)
            )

        return run

    for sign in "su":
        check(f"add.{sign}16x2 d, x0, x1;", [a, b], "u32", both(lambda p, q: p + q, False))
        for op, function in (("min", min), ("max", max)):
            check(f"{op}.{sign}16x2 d, x0, x1;", [a, b], "u32", both(function, sign == "s"))
    for op, function in (("min", min), ("max", max)):
        check(
            f"{op}.relu.s16x2 d, x0, x1;", [a, b], "u32", both(lambda p, q, f=function: max(0, f(p, q)), True)
        )
        check(
            f"{op}.relu.s32 d, x0, x1;", inputs("s32", "s32"), "s32", lambda p, q, f=function: max(0, f(p, q))
        )


@pytest.mark.parametrize("tail", ["", ".sat", ".add"])
@pytest.mark.parametrize("types", ["u32.u32.u32", "s32.s32.s32", "u32.s32.u32"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_absolute_differences_of_lanes(lanes: int, types: str, tail: str) -> None:
    to, a_type, b_type = types.split(".")
    width = 32 // lanes

    def lane(value: int, at: int, signed: bool) -> int:
        part = value >> width * at & (1 << width) - 1
        return part - (1 << width) if signed and part >> width - 1 else part

    def differences(a: int, b: int, c: int) -> int:
        each = [abs(lane(a, k, a_type == "s32") - lane(b, k, b_type == "s32")) for k in range(lanes)]
        if tail == ".add":
            return c + sum(each)
        if tail == ".sat":
            each = [min(d, (1 << width - (to == "s32")) - 1) for d in each]
        return sum((d & (1 << width) - 1) << width * k for k, d in enumerate(each))

    line = f"vabsdiff{lanes}.{types}{tail} d, x0, x1, x2;"
    check(line, inputs("u32", "u32", "u32"), "u32", differences)
