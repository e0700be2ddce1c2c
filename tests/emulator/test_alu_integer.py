# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Integer arithmetic and bit operations against numpy and Python's own integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import elementwise
from tests.kit.values import crossed, integer_edges

COVERS = "add sub mul mad div rem min max neg abs and or xor not shl shr lop3"

TYPES = ["s16", "u16", "s32", "u32", "s64", "u64"]
SEEDS = st.integers(0, 2**32 - 1)


def np_type(name: str) -> np.dtype:
    return np.dtype(f"{'i' if name[0] == 's' else 'u'}{int(name[1:]) // 8}")


def wrapped(values: list[int], kind: np.dtype) -> np.ndarray:
    bits = 8 * kind.itemsize
    return (
        np.array([v & ((1 << bits) - 1) for v in values], dtype=np.uint64)
        .astype(f"u{kind.itemsize}")
        .view(kind)
    )


def expect(function: Callable[..., int], arrays: list[np.ndarray], kind: np.dtype) -> np.ndarray:
    return wrapped([function(*map(int, row)) for row in zip(*arrays, strict=True)], kind)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("op", OPERATIONS)
@settings(max_examples=2, deadline=None)
@given(seed=SEEDS)
def test_two_operands(op: str, type_: str, seed: int) -> None:
    kind = np_type(type_)
    a, b = crossed(integer_edges(kind), 2, seed)
    got = elementwise(f"{op}.{type_} d, x0, x1;", [a, b], kind)
    assert (got == expect(OPERATIONS[op], [a, b], kind)).all()


@pytest.mark.parametrize("type_", TYPES)
def test_mul_hi_and_wide(type_: str) -> None:
    kind = np_type(type_)
    a, b = crossed(integer_edges(kind), 2, 3)
    bits = 8 * kind.itemsize
    assert (
        elementwise(f"mul.hi.{type_} d, x0, x1;", [a, b], kind)
        == expect(lambda x, y: x * y >> bits, [a, b], kind)
    ).all()
    if bits < 64:
        wide = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
        assert (
            elementwise(f"mul.wide.{type_} d, x0, x1;", [a, b], wide)
            == expect(lambda x, y: x * y, [a, b], wide)
        ).all()


@pytest.mark.parametrize("type_", TYPES)
def test_mad(type_: str) -> None:
    kind = np_type(type_)
    a, b, c = crossed(integer_edges(kind), 3, 4)
    got = elementwise(f"mad.lo.{type_} d, x0, x1, x2;", [a, b, c], kind)
    assert (got == expect(lambda x, y, z: x * y + z, [a, b, c], kind)).all()
    if kind.itemsize < 8:
        wide = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
        (w,) = crossed(integer_edges(wide), 1, 5)
        got = elementwise(f"mad.wide.{type_} d, x0, x1, x2;", [a, b, w], wide)
        assert (got == expect(lambda x, y, z: x * y + z, [a, b, w], wide)).all()


@pytest.mark.parametrize("type_", TYPES)
def test_div_and_rem_truncate(type_: str) -> None:
    kind = np_type(type_)
    a, b = crossed(integer_edges(kind), 2, 6)
    b = np.where(b == 0, 1, b).astype(kind)
    assert (elementwise(f"div.{type_} d, x0, x1;", [a, b], kind) == expect(truncated, [a, b], kind)).all()
    want = expect(lambda x, y: x - y * truncated(x, y), [a, b], kind)
    assert (elementwise(f"rem.{type_} d, x0, x1;", [a, b], kind) == want).all()


@pytest.mark.parametrize("type_", ["s16", "s32", "s64"])
def test_neg_and_abs(type_: str) -> None:
    kind = np_type(type_)
    (a,) = crossed(integer_edges(kind), 1, 7)
    assert (elementwise(f"neg.{type_} d, x0;", [a], kind) == expect(lambda x: -x, [a], kind)).all()
    assert (elementwise(f"abs.{type_} d, x0;", [a], kind) == expect(abs, [a], kind)).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitwise(bits: int) -> None:
    kind = np.dtype(f"u{bits // 8}")
    a, b = crossed(integer_edges(kind), 2, 8)
    for op, want in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        assert (elementwise(f"{op}.b{bits} d, x0, x1;", [a, b], kind) == want).all()
    assert (elementwise(f"not.b{bits} d, x0;", [a], kind) == ~a).all()


@pytest.mark.parametrize("type_", TYPES)
def test_shifts_clamp_at_the_width(type_: str) -> None:
    kind = np_type(type_)
    bits = 8 * kind.itemsize
    (a,) = crossed(integer_edges(kind), 1, 9)
    amount = np.resize(
        np.array([0, 1, bits - 1, bits, bits + 1, 255, 256, 2**31, 2**32 - 1, 7], np.uint32), a.shape
    )
    want = expect(lambda x, n: x >> min(n, 127), [a, amount], kind)
    assert (elementwise(f"shr.{type_} d, x0, x1;", [a, amount], kind) == want).all()
    want = expect(lambda x, n: x << n if n < bits else 0, [a, amount], kind)
    assert (elementwise(f"shl.b{bits} d, x0, x1;", [a, amount], kind) == want).all()
    unsigned = a.view(f"u{kind.itemsize}")
    want = expect(lambda x, n: x >> min(n, 127), [unsigned, amount], unsigned.dtype)
    assert (elementwise(f"shr.b{bits} d, x0, x1;", [unsigned, amount], unsigned.dtype) == want).all()


def test_counting_bits() -> None:
    (a,) = crossed(integer_edges(np.uint32), 1, 10)
    values = [int(v) for v in a]
    assert elementwise("popc.b32 d, x0;", [a], np.uint32).tolist() == [v.bit_count() for v in values]
    assert elementwise("clz.b32 d, x0;", [a], np.uint32).tolist() == [32 - v.bit_length() for v in values]
    assert elementwise("brev.b32 d, x0;", [a], np.uint32).tolist() == [
        int(f"{v:032b}"[::-1], 2) for v in values
    ]


@settings(max_examples=10, deadline=None)
@given(table=st.integers(0, 255), seed=SEEDS)
def test_lop3_is_its_table(table: int, seed: int) -> None:
    a, b, c = crossed(integer_edges(np.uint32), 3, seed, 256)
    got = elementwise(f"lop3.b32 d, x0, x1, x2, {table};", [a, b, c], np.uint32)
    # Bit i of the result is bit (a_i, b_i, c_i) of the table (PTX ISA 9.7.8.6).
    want = np.zeros_like(a)
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        want |= (np.uint32(table) >> index & 1) << np.uint32(bit)
    assert (got == want).all()


def test_prmt_selects_bytes_and_signs() -> None:
    rng = np.random.default_rng(11)
    a, b, c = (rng.integers(0, 2**32, 512, dtype=np.uint32) for _ in range(3))
    got = elementwise("prmt.b32 d, x0, x1, x2;", [a, b, c], np.uint32)
    for g, x, y, s in zip(got, a, b, c, strict=True):
        source = int(x).to_bytes(4, "little") + int(y).to_bytes(4, "little")
        picked = [(int(s) >> 4 * k) & 15 for k in range(4)]
        want = bytes((255 if source[p & 7] & 128 else 0) if p & 8 else source[p & 7] for p in picked)
        assert int(g) == int.from_bytes(want, "little")


@pytest.mark.parametrize(
    "line",
    ["mul.lo.f32 d, x0, x1;", "add.ftz.u32 d, x0, x1;", "mul.wide.u64 d, x0, x1;", "mad.wide.s64 d, x0, x1, x1;",
     "add.sat.u32 d, x0, x1;", "add.cc.u16 d, x0, x1;", "mul.u32 d, x0, x1;", "div.rn.s32 d, x0, x1;",
     "min.ftz.s32 d, x0, x1;", "popc.b16 d, x0;", "rem.f32 d, x0, x1;"],
)  # fmt: skip
def test_forms_that_do_not_exist_are_refused(line: str) -> None:
    operand = np.ones(32, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=line.split()[0]):
        elementwise(line, [operand, operand], np.uint32)
