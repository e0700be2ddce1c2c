# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Roundings, saturation, f64, f16, bf16 and mixed arithmetic: every result rounded once from exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import BF16, elementwise
from tests.kit.values import F32_EDGES, crossed, ftz

COVERS = "testp copysign sin cos tanh"
# Mantissa bits, exponent of the smallest normal and of the largest.
FORMATS = {
    np.dtype(np.float32): (23, -126, 127),
    np.dtype(np.float64): (52, -1022, 1023),
    np.dtype(np.float16): (10, -14, 15),
    BF16: (7, -126, 127),
}
F64_EDGES = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        5e-324,
        -5e-324,
        2.0**-1022,
        1.5,
        1 + 2.0**-52,
        1e308,
        -1.7976931348623157e308,
        np.inf,
        -np.inf,
        np.nan,
        2.0**-60,
        3.0,
        1 / 3,
    ]
)
F16_EDGES = np.array(
    [
        0,
        0x8000,
        1,
        0x8001,
        0x3FF,
        0x400,
        0x8400,
        0x3C00,
        0xBC00,
        0x3C01,
        0x3E00,
        0x4248,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E00,
        0x7D01,
        0x0C00,
        0x6400,
    ],
    np.uint16,
).view(np.float16)
BF16_EDGES = np.array(
    [
        0,
        0x8000,
        1,
        0x8001,
        0x7F,
        0x80,
        0x8080,
        0x3F80,
        0xBF80,
        0x3F81,
        0x3FC0,
        0x4049,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
        0x7F81,
        0x0400,
        0x5380,
    ],
    np.uint16,
).view(BF16)


def rounded(value: Fraction, kind: np.dtype, mode: str, zero_negative: bool = False) -> float:
    """The fraction rounded into `kind` ("rn", "rz", "rm", "rp"), overflow included."""
    bits, emin, emax = FORMATS[kind]
    if value == 0:
        return -0.0 if zero_negative else 0.0
    size = abs(value)
    exponent = max(emin, size.numerator.bit_length() - size.denominator.bit_length() - 1)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - bits)
    low = size // unit
    rest = size - low * unit
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and low % 2),
        "rz": False,
        "rm": value < 0 and rest,
        "rp": value > 0 and rest,
    }[mode]
    size = (low + bool(up)) * unit
    sign = -1.0 if value < 0 else 1.0
    if size >= Fraction(2) ** (emax + 1):
        stays = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        return sign * (float((2 - Fraction(2) ** -bits) * Fraction(2) ** emax) if stays else math.inf)
    return sign * float(size)


def exact(op: str, values: list[float], kind: np.dtype, mode: str) -> float:
    """op of the values (IEEE rules for what is not finite), rounded once."""
    with np.errstate(all="ignore"):
        a, b, c = (np.float64(v) for v in [*values, 0.0, 0.0][:3])
        plain = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "fma": lambda: a * b + c, "div": lambda: a / b,
                 "rcp": lambda: 1 / a, "sqrt": lambda: np.sqrt(a)}[op]()  # fmt: skip
    used = {"fma": 3, "rcp": 1, "sqrt": 1}.get(op, 2)
    if not all(map(math.isfinite, values[:used])) or math.isnan(plain):
        return float(plain)
    if op in ("div", "rcp") and values[used - 1] == 0:
        return float(plain)
    f = [Fraction(v) for v in values[:used]]
    if op == "sqrt":
        root = Fraction(math.isqrt(int(f[0] * Fraction(4) ** 1100)), 2**1100)  # cut off far below every unit
        sticky = Fraction(0) if root * root == f[0] else Fraction(1, 2**1101)
        return rounded(root + sticky, kind, mode, math.copysign(1, a) < 0)
    value = {"add": lambda: f[0] + f[1], "sub": lambda: f[0] - f[1], "mul": lambda: f[0] * f[1], "fma": lambda: f[0] * f[1] + f[2],
             "div": lambda: f[0] / f[1], "rcp": lambda: 1 / f[0]}[op]()  # fmt: skip
    if op in ("mul", "div", "rcp"):
        negative = math.copysign(1, float(plain)) < 0
    else:
        first = a * b if op == "fma" else a
        if op == "fma" and f[0] * f[1] != 0:  # no underflow in the sign of an exact product
            first = np.float64(math.copysign(1.0, a) * math.copysign(1.0, b))
        second = c if op == "fma" else -b if op == "sub" else b
        signs = {math.copysign(1, first), math.copysign(1, second)}
        negative = signs == {-1.0} or (len(signs) == 2 and mode == "rm")
    return rounded(value, kind, mode, negative)


def same(got: np.ndarray, want: list[float], kind: np.dtype) -> None:
    """Bit for bit, any NaN equal to any."""
    with np.errstate(over="ignore"):
        expected = np.array(want, np.float64).astype(kind)
    nan = np.isnan(expected.astype(np.float64))
    assert (np.isnan(got.astype(np.float64)) == nan).all()
    bits = f"u{kind.itemsize}"
    different = (got.view(bits) != expected.view(bits)) & ~nan
    assert not different.any(), (np.nonzero(different)[0][:4], got[different][:4], expected[different][:4])


def flushed(values: np.ndarray, flush: bool) -> np.ndarray:
    return ftz(values) if flush else values


@pytest.mark.parametrize("flush", ["", ".ftz"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"])
def test_f32(op: str, mode: str, flush: str) -> None:
    inputs = crossed(F32_EDGES, 3, 61, 256)
    count = {"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}.get(op, 2)
    names = ", ".join(f"x{k}" for k in range(count))
    got = elementwise(f"{op}.{mode}{flush}.f32 d, {names};", inputs, np.float32)
    kind = np.dtype(np.float32)
    sources = [flushed(v, bool(flush)) for v in inputs]
    want = [
        exact("fma" if op == "mad" else op, [float(v[i]) for v in sources], kind, mode) for i in range(256)
    ]
    with np.errstate(over="ignore"):
        want = list(flushed(np.array(want, np.float64).astype(np.float32), bool(flush)).astype(np.float64))
    same(got, want, kind)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_pairs_with_a_rounding_are_two_operations(op: str, mode: str) -> None:
    inputs = crossed(F32_EDGES, 3, 62, 512)
    pairs = [v.reshape(-1, 2).copy().view(np.uint64).ravel() for v in inputs]
    names = ", ".join(f"x{k}" for k in range(3 if op == "fma" else 2))
    for flush in ("", ".ftz"):
        got = elementwise(f"{op}.{mode}{flush}.f32x2 d, {names};", pairs, np.uint64).view(np.float32)
        want = elementwise(f"{op}.{mode}{flush}.f32 d, {names};", inputs, np.float32)
        assert (got.view(np.uint32) == want.view(np.uint32)).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"])
def test_f64(op: str, mode: str) -> None:
    inputs = crossed(F64_EDGES, 3, 63, 256)
    count = {"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}.get(op, 2)
    names = ", ".join(f"x{k}" for k in range(count))
    got = elementwise(f"{op}.{mode}.f64 d, {names};", inputs, np.float64)
    kind = np.dtype(np.float64)
    same(
        got,
        [exact("fma" if op == "mad" else op, [float(v[i]) for v in inputs], kind, mode) for i in range(256)],
        kind,
    )


def test_saturation() -> None:
    a, b = crossed(F32_EDGES, 2, 64, 256)
    for mode in ("", ".rz", ".rm.ftz"):
        plain = elementwise(f"add{mode}.f32 d, x0, x1;", [a, b], np.float32)
        got = elementwise(f"add{mode}.sat.f32 d, x0, x1;", [a, b], np.float32)
        want = np.clip(np.where(np.isnan(plain), 0, plain), 0, 1) + np.float32(0)
        assert (got.view(np.uint32) == want.view(np.uint32)).all()


HALF = [("f16", np.dtype(np.float16), F16_EDGES), ("bf16", BF16, BF16_EDGES)]


@pytest.mark.parametrize(("name", "kind", "edges"), HALF)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_halves(op: str, name: str, kind: np.dtype, edges: np.ndarray) -> None:
    bits = [v.view(np.uint16) for v in crossed(edges.view(np.uint16), 3, 65, 512)]
    inputs = [b.view(kind) for b in bits]
    names = ", ".join(f"x{k}" for k in range(3 if op == "fma" else 2))
    got = elementwise(f"{op}.rn.{name} d, {names};", bits, np.uint16)
    want = [exact(op, [float(v[i]) for v in inputs], kind, "rn") for i in range(512)]
    same(got.view(kind), want, kind)
    assert (got[np.isnan(np.array(want))] == 0x7FFF).all()
    pairs = [b.reshape(-1, 2).copy().view(np.uint32).ravel() for b in bits]
    packed = elementwise(f"{op}.rn.{name}x2 d, {names};", pairs, np.uint32)
    assert (packed.view(np.uint16) == got).all()
    if op == "fma":
        relu = elementwise(f"fma.rn.relu.{name} d, {names};", bits, np.uint16)
        negative = (got >> 15 == 1) & (got & 0x7FFF <= (0x7C00 if name == "f16" else 0x7F80))
        assert (relu == np.where(negative, 0, got)).all()


def test_f16_flush_and_saturation() -> None:
    bits = [v.view(np.uint16) for v in crossed(F16_EDGES.view(np.uint16), 2, 66, 512)]

    def zero(v: np.ndarray) -> np.ndarray:
        return np.where(v & 0x7C00 == 0, v & 0x8000, v).astype(np.uint16)

    for op in ("add", "sub", "mul"):
        plain = elementwise(f"{op}.f16 d, x0, x1;", [zero(b) for b in bits], np.uint16)
        got = elementwise(f"{op}.ftz.f16 d, x0, x1;", bits, np.uint16)
        assert (got == zero(plain)).all()
        sat = elementwise(f"{op}.sat.f16 d, x0, x1;", bits, np.uint16).view(np.float16)
        full = elementwise(f"{op}.f16 d, x0, x1;", bits, np.uint16).view(np.float16)
        assert (sat == np.clip(np.where(np.isnan(full), 0, full), 0, 1)).all() and not np.signbit(sat).any()


@pytest.mark.parametrize(("name", "kind", "edges"), HALF)
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f32_with_halves(op: str, mode: str, name: str, kind: np.dtype, edges: np.ndarray) -> None:
    """`fma.rn.f32.bf16` and the like: bf16 or f16 sources, one rounding to f32."""
    bits = [v.view(np.uint16) for v in crossed(edges.view(np.uint16), 2, 67, 256)]
    (c,) = crossed(F32_EDGES, 1, 68, 256)
    halves = bits if op == "fma" else bits[:1]
    names = ", ".join(f"x{k}" for k in range(len(halves) + 1))
    got = elementwise(f"{op}.{mode}.f32.{name} d, {names};", [*halves, c], np.float32)
    rows = [[*(float(b.view(kind)[i]) for b in halves), float(c[i])] for i in range(256)]
    same(got, [exact(op, row, np.dtype(np.float32), mode) for row in rows], np.dtype(np.float32))


def extreme(op: str, a: float, b: float, nan: bool, xorsign: bool) -> float:
    """The pseudo-code of PTX ISA 9.7.3.11."""
    sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if xorsign:
        a, b = abs(a), abs(b)
    if math.isnan(a) or math.isnan(b):
        both = math.isnan(a) and math.isnan(b)
        d = math.nan if nan or both else b if math.isnan(a) else a
    else:
        pick = min if op == "min" else max
        d = pick([(v, math.copysign(1, v)) for v in (a, b)])[0] if a == b else pick(a, b)
    return math.copysign(d, -1 if sign else 1) if xorsign and not math.isnan(d) else d


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("sign", ["", ".xorsign.abs"])
def test_extremes(op: str, nan: str, sign: str) -> None:
    cases = [
        ("f32", np.dtype(np.float32), F32_EDGES),
        *HALF,
        *([("f64", np.dtype(np.float64), F64_EDGES)] if not nan + sign else []),
    ]
    for name, kind, edges in cases:
        raw = f"u{kind.itemsize}"
        a, b = crossed(edges.view(raw), 2, 69, 512)
        got = elementwise(f"{op}{nan}{sign}.{name} d, x0, x1;", [a, b], raw)
        x, y = a.view(kind), b.view(kind)
        same(
            got.view(kind),
            [extreme(op, float(x[i]), float(y[i]), bool(nan), bool(sign)) for i in range(512)],
            kind,
        )
        if kind.itemsize == 2:
            two = [v.reshape(-1, 2).copy().view(np.uint32).ravel() for v in (a, b)]
            assert (
                elementwise(f"{op}{nan}{sign}.{name}x2 d, x0, x1;", two, np.uint32).view(np.uint16) == got
            ).all()


@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_three(op: str) -> None:
    inputs = crossed(F32_EDGES, 3, 70, 512)
    for nan in ("", ".NaN"):
        for absolute in ("", ".abs"):
            got = elementwise(f"{op}{nan}{absolute}.f32 d, x0, x1, x2;", inputs, np.float32)
            rows = [[float(abs(v[i]) if absolute else v[i]) for v in inputs] for i in range(512)]
            want = [extreme(op, extreme(op, p, q, bool(nan), False), r, bool(nan), False) for p, q, r in rows]
            same(got, want, np.dtype(np.float32))


@pytest.mark.parametrize(("name", "kind", "edges"), [*HALF, ("f64", np.dtype(np.float64), F64_EDGES)])
def test_signs(name: str, kind: np.dtype, edges: np.ndarray) -> None:
    raw = np.dtype(f"u{kind.itemsize}")
    a, b = crossed(edges.view(raw), 2, 71, 256)
    top = raw.type(1 << (8 * raw.itemsize - 1))
    # As on a card, a NaN of 16 bits gives the canonical NaN, a NaN of f64 keeps its sign and becomes quiet.
    nan = np.isnan(a.view(kind).astype(np.float64))
    of_nan = a | raw.type(1 << 51) if name == "f64" else raw.type(~top)
    assert (elementwise(f"neg.{name} d, x0;", [a], raw) == np.where(nan, of_nan, a ^ top)).all()
    assert (elementwise(f"abs.{name} d, x0;", [a], raw) == np.where(nan, of_nan, a & ~top)).all()
    if name == "f64":
        got = elementwise("copysign.f64 d, x0, x1;", [a, b], raw)
        assert (got == (a & top) | (b & ~top)).all()


def test_testp_and_copysign() -> None:
    a, b = crossed(F32_EDGES, 2, 72, 256)
    got = elementwise("copysign.f32 d, x0, x1;", [a, b], np.uint32)
    assert (got == (a.view(np.uint32) & 0x80000000) | (b.view(np.uint32) & 0x7FFFFFFF)).all()
    tiny = {np.dtype(np.float32): 2.0**-126, np.dtype(np.float64): 2.0**-1022}
    for name, x in (("f32", a), ("f64", crossed(F64_EDGES, 1, 73, 256)[0])):
        low = tiny[x.dtype]
        classes = {
            "finite": np.isfinite(x), "infinite": np.isinf(x), "number": ~np.isnan(x), "notanumber": np.isnan(x),
            "normal": np.isfinite(x) & ((np.abs(x) >= low) | (x == 0)), "subnormal": (x != 0) & (np.abs(x) < low),
        }  # fmt: skip
        for what, want in classes.items():
            got = elementwise(f"testp.{what}.{name} %p1, x0; selp.b32 d, 1, 0, %p1;", [x], np.uint32)
            assert (got == want).all(), what


@pytest.mark.parametrize(
    ("name", "function", "limit"),
    [("sin", np.sin, 2.0**-20.5), ("cos", np.cos, 2.0**-20.5), ("tanh", np.tanh, 2.0**-11)],
)
def test_functions_stay_inside_their_error(name: str, function, limit: float) -> None:  # type: ignore[no-untyped-def]
    a = np.random.default_rng(74).uniform(-3.1, 3.1, 512).astype(np.float32)
    for flush in ("",) if name == "tanh" else ("", ".ftz"):
        got = elementwise(f"{name}.approx{flush}.f32 d, x0;", [a], np.float32)
        assert np.abs(got - function(a.astype(np.float64))).max() <= limit
    special = elementwise(
        f"{name}.approx.f32 d, x0;", [np.array([np.inf, np.nan, -0.0], np.float32)], np.float32
    )
    if name == "tanh":
        assert special[0] == 1 and np.signbit(special[2])
    else:
        assert np.isnan(special[0])
    assert np.isnan(special[1])


@pytest.mark.parametrize(("name", "kind"), [("f16", np.dtype(np.float16)), ("bf16", BF16)])
def test_half_functions(name: str, kind: np.dtype) -> None:
    a = np.random.default_rng(75).uniform(-8, 8, 512).astype(kind)
    for op, function, flush in (("ex2", np.exp2, ".ftz" if name == "bf16" else ""), ("tanh", np.tanh, "")):
        got = elementwise(f"{op}.approx{flush}.{name} d, x0;", [a.view(np.uint16)], np.uint16).view(kind)
        assert (got == function(a.astype(np.float64)).astype(kind)).all()


def test_gross_approximations_of_f64() -> None:
    a = np.exp(np.random.default_rng(76).uniform(-300, 300, 256))
    for name, want in (("rcp.approx.ftz", 1 / a), ("rsqrt.approx.ftz", 1 / np.sqrt(a))):
        got = elementwise(f"{name}.f64 d, x0;", [a], np.float64)
        assert (np.abs(got / want - 1) < 2.0**-18).all() and (got.view(np.uint64) & 0xFFFFFFFF == 0).all()
    got = elementwise("rsqrt.approx.f64 d, x0;", [a], np.float64)
    assert (np.abs(got * np.sqrt(a) - 1) < 2.0**-51).all()


@pytest.mark.parametrize(("name", "kind", "edges"), [*HALF, ("f64", np.dtype(np.float64), F64_EDGES)])
def test_comparisons(name: str, kind: np.dtype, edges: np.ndarray) -> None:
    raw = np.dtype(f"u{kind.itemsize}")
    a, b = crossed(edges.view(raw), 2, 77, 512)
    x, y = a.view(kind).astype(np.float64), b.view(kind).astype(np.float64)
    nan = np.isnan(x) | np.isnan(y)
    tests = {
        "eq": x == y,
        "ne": (x != y) & ~nan,
        "lt": x < y,
        "ge": x >= y,
        "equ": (x == y) | nan,
        "gtu": (x > y) | nan,
        "num": ~nan,
        "nan": nan,
    }
    for compare, want in tests.items():
        got = elementwise(
            f"setp.{compare}.{name} %p1|%p2, x0, x1; selp.b32 d, 1, 0, %p1; @%p2 add.u32 d, d, 2;",
            [a, b],
            np.uint32,
        )
        assert (got == np.where(want, 1, 2)).all(), compare
    if name != "f64":
        pairs = [v.reshape(-1, 2).copy().view(np.uint32).ravel() for v in (a, b)]
        got = elementwise(
            f"setp.lt.{name}x2 %p1|%p2, x0, x1; selp.b32 d, 1, 0, %p1; @%p2 add.u32 d, d, 2;",
            pairs,
            np.uint32,
        )
        want = tests["lt"].reshape(-1, 2)
        assert (got == want[:, 0] + 2 * want[:, 1]).all()
        both = f"setp.ne.u32 %p1, x0, x0; setp.lt.or.{name}x2 %p1|%p2, x0, x1, !%p1; selp.b32 d, 1, 0, %p1; @%p2 add.u32 d, d, 2;"
        assert (elementwise(both, pairs, np.uint32) == 3).all()


@pytest.mark.parametrize(
    "line",
    ["add.rz.f16 d, x0, x1;", "fma.rz.bf16 d, x0, x1, x1;", "add.sat.bf16 d, x0, x1;", "add.ftz.f64 d, x0, x1;", "add.sat.f32x2 d, x0, x1;", "fma.f16 d, x0, x1, x1;", "mul.f32.bf16 d, x0, x1;",
     "fma.rn.oob.f16 d, x0, x1, x1;", "max.ftz.bf16 d, x0, x1;", "min.xorsign.f32 d, x0, x1;", "ex2.approx.bf16 d, x0;", "tanh.approx.ftz.f32 d, x0;", "sqrt.approx.f64 d, x0;", "mad.f32 d, x0, x1, x1;"],
)  # fmt: skip
def test_what_is_refused(line: str) -> None:
    operand = np.ones(32, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=line.split(".")[0]):
        elementwise(line, [operand, operand], np.uint32)
