# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""red and atom: every operation and type, vectors, subnormals, NaN, spaces, against Python integers and numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import BF16, CLUSTER_SYNC, Memory, clean, outputs, run, store
from tests.kit.values import integer_edges, same_f32

COVERS = "atom red"

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}
TYPES: dict[str, tuple[str, ...]] = dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")) | {
    "add": ("u32", "s32", "u64")
}
TYPES |= dict.fromkeys(("and", "or", "xor", "exch"), ("b32", "b64")) | {"inc": ("u32",), "dec": ("u32",)}
FORMS = [(op, type_) for op, types in TYPES.items() for type_ in types]


def kind_of(type_: str) -> np.dtype:
    return np.dtype(f"{'i' if type_[0] == 's' else 'u'}{int(type_[1:]) // 8}")


@pytest.mark.parametrize(("op", "type_"), FORMS)
@pytest.mark.parametrize("space", ["global", "shared", ""])
def test_one_cell_a_lane(op: str, type_: str, space: str) -> None:
    """atom returns the old value and leaves the new one; red leaves the same."""
    kind = kind_of(type_)
    edges = integer_edges(kind)
    rng = np.random.default_rng(1)
    cells, values = rng.choice(edges, 32), rng.choice(edges, 32)
    size = kind.itemsize
    reg = "%r" if size == 4 else "%rd"
    bits = f"b{8 * size}"
    where = {
        "global": "mad.wide.u32 %rd30, %t, {s}, %a2;",
        "shared": "mov.u32 %r30, tile; mad.lo.u32 %r30, %t, {s}, %r30;",
        "": "mov.u64 %rd30, tile; cvta.shared.u64 %rd30, %rd30; mad.wide.u32 %rd30, %t, {s}, %rd30;",
    }[space].format(s=size)
    address = "%r30" if space == "shared" else "%rd30"
    body = f"""
    .shared .align 8 .b8 tile[256];
    {where}
    mad.wide.u32 %rd1, %t, {size}, %a2; mad.wide.u32 %rd2, %t, {size}, %a1; mad.wide.u32 %rd3, %t, {size}, %a0;
    ld.global.{bits} {reg}10, [%rd1]; ld.global.{bits} {reg}11, [%rd2];
    {"" if space == "global" else f"st{'.shared' if space else ''}.{bits} [{address}], {reg}10;"}
    atom.relaxed.gpu{"." + space if space else ""}.{op}.{type_} {reg}12, [{address}], {reg}11;
    {"" if op == "exch" else f"red{'.' + space if space else ''}.{op}.{type_} [{address}], {reg}11;"}
    ld{"." + space if space else ""}.{bits} {reg}13, [{address}];
    st.global.{bits} [%rd3], {reg}12; st.global.{bits} [%rd3+{32 * size}], {reg}13;"""
    got = outputs(body, 64, kind, [values, cells.copy()])
    f, mask = OPERATIONS[op], (1 << 8 * size) - 1
    wrap = lambda v: int(np.array([v & mask], f"u{size}").view(kind)[0])  # noqa: E731
    once = [wrap(f(int(a), int(b))) for a, b in zip(cells, values, strict=True)]
    twice = once if op == "exch" else [wrap(f(a, int(b))) for a, b in zip(once, values, strict=True)]
    assert got[:32].tolist() == cells.tolist()
    assert got[32:].tolist() == twice


def test_many_lanes_on_one_cell() -> None:
    body = f"atom.global.add.u32 %r1, [%a1], 3;\nred.global.max.u32 [%a1+4], %t;\n{store('%r1')}"
    cells = np.array([100, 7], np.uint32)
    got = outputs(body, extra=[cells], threads=64, count=64)
    assert sorted(got.tolist()) == [100 + 3 * i for i in range(64)]
    assert cells.tolist() == [100 + 3 * 64, 63]


SPECIALS = np.array([0x00000001, 0x80000001, 0x7FC12345, 0x7F812345, 0x80000000], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "spelling", ["red.global.add.f32 [%rd1], 0f00000000;", "atom.global.add.f32 %r1, [%rd1], 0f00000000;"]
)
def test_adding_zero_in_global_memory_as_on_silicon(spelling: str) -> None:
    cells = SPECIALS.copy()
    clean(
        run(
            f"mad.wide.u32 %rd1, %t, 4, %a0;\n{spelling}",
            [m := (memory := Memory()).buffer(cells)],
            memory=memory,
            threads=5,
        )
    )
    assert cells.view(np.uint32).tolist() == [0, 0, 0x7FFFFFFF, 0x7FFFFFFF, 0] and m.bytes == 20


def test_adding_in_shared_memory_keeps_subnormals() -> None:
    body = f"""
    .shared .b32 cell[32];
    mov.u32 %r1, cell; mad.lo.u32 %r1, %t, 4, %r1;
    st.shared.b32 [%r1], 0x00000005; red.shared.add.f32 [%r1], 0f00000003; ld.shared.b32 %r2, [%r1];
    {store("%r2")}"""
    assert (outputs(body) == 8).all()


@pytest.mark.parametrize("count", [2, 4])
def test_vector_adds(count: int) -> None:
    rng = np.random.default_rng(2)
    cells = rng.standard_normal(32 * count).astype(np.float32)
    values = rng.standard_normal(32 * count).astype(np.float32)
    cells[0], values[0] = np.float32(2.0**-130), np.float32(2.0**-130)  # flushed: 0
    registers = "{" + ", ".join(f"%f{i}" for i in range(count)) + "}"
    memory = Memory()
    table = cells.copy()
    body = f"""
    mad.wide.u32 %rd1, %t, {4 * count}, %a0; mad.wide.u32 %rd2, %t, {4 * count}, %a1;
    ld.global.v{count}.f32 {registers}, [%rd2];
    red.global.add.v{count}.f32 [%rd1], {registers};
    red.relaxed.gpu.global.add.v{count}.f32 [%rd1], {registers};"""
    result = clean(run(body, [memory.buffer(table), memory.buffer(values)], memory=memory))
    want = (cells + values) + values
    want[0] = 0
    same_f32(table, want)
    assert result.counters["atomic_bytes"] == 2 * 32 * 4 * count


def test_exchange_and_add_of_floats() -> None:
    cells = np.array([1.5], np.float32)
    body = "atom.global.exch.b32 %f1, [%a1], 0x40000000;\natom.global.add.f32 %f2, [%a1], 0f3F800000;\nst.global.v2.f32 [%a0], {%f1, %f2};"
    assert outputs(body, 2, np.float32, [cells], threads=1).tolist() == [1.5, 2.0] and cells[0] == 3.0


def test_atomics_on_the_peer() -> None:
    body = f"""
    .shared .b32 word;
    mov.u32 %r1, word; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; st.shared.u32 [word], %r2;
    {CLUSTER_SYNC}
    mapa.shared::cluster.u32 %r5, %r1, %r3; atom.shared::cluster.add.u32 %r6, [%r5], 10; red.shared::cluster.or.b32 [%r5], 32;
    {CLUSTER_SYNC}
    ld.shared.u32 %r7, [word]; mad.lo.u32 %r6, %r6, 256, %r7; {store("%r6", "%r2")}"""
    assert outputs(body, 2, cluster=2, threads=1).tolist() == [256 + (10 | 32), 11 | 32]


@pytest.mark.parametrize("line", ["red.global.add.f16x2 [%a0], %r1;", "red.global.min.f32 [%a0], %f1;", "red.global.add.v8.f32 [%a0], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};",
                                  "red.global.add.v4.u32 [%a0], {%r1, %r2, %r3, %r4};", "red.shared.add.v2.f32 [%a0], {%f1, %f2};", "red.global.cas.b32 [%a0], %r1, %r2;",
                                  "red.global.acquire.add.u32 [%a0], %r1;", "red.global.min.noftz.f16 [%a0], %h1;", "multimem.red.global.add.u32 [%a0], %r1;"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        outputs(line)


HALF = {"f16": np.dtype(np.float16), "bf16": BF16}
HALF_BITS = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0x7F80, 0xFF80, 0x7FC1, 0x3C00, 0x3F80, 0x0080], np.uint16)  # fmt: skip


def half_reference(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """uint16 bits of an f16 or bf16 operation; NaN is 0x7fff, min and max prefer numbers and order the zeros."""
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if op == "add":
            out = (x + y).astype(a.dtype).view(np.uint16)
            return np.where(np.isnan(x + y), 0x7FFF, out).astype(np.uint16)
        low = (x < y) | ((x == y) & np.signbit(x))
        first = np.isnan(y) | (~np.isnan(x) & (low if op == "min" else ~low | ((x == y) & ~np.signbit(x))))
        first &= ~(np.isnan(x) & ~np.isnan(y))
        if op == "max":
            first = np.where(x == y, ~np.signbit(x), first)
        out = np.where(first, a.view(np.uint16), b.view(np.uint16))
    return np.where(np.isnan(x) & np.isnan(y), 0x7FFF, out).astype(np.uint16)


HALF_FORMS = [
    (type_, op, count)
    for type_ in ("f16", "bf16", "f16x2", "bf16x2")
    for op in ("add", "min", "max")
    for count in ((1, 2, 4) if "x2" in type_ else (1, 2, 4, 8))
    if count > 1 or op == "add"
]


@pytest.mark.parametrize(("type_", "op", "count"), HALF_FORMS)
def test_vectors_of_halves(type_: str, op: str, count: int) -> None:
    """A lane's vector is as many elements; every pair of edge values, and random ones."""
    kind = HALF[type_.removesuffix("x2")]
    width = count * (2 if "x2" in type_ else 1)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 1 << 16, 32 * width).astype(np.uint16) for _ in range(2))
    grid = np.stack(np.meshgrid(HALF_BITS, HALF_BITS), -1).reshape(-1, 2)[: 32 * width]
    a[: len(grid)], b[: len(grid)] = grid[:, 0], grid[:, 1]
    register = "%r" if "x2" in type_ else "%h"
    names = lambda first: ", ".join(f"{register}{first + k}" for k in range(count))  # noqa: E731
    braces = (lambda text: "{" + text + "}") if count > 1 else (lambda text: text)
    bits = "b32" if "x2" in type_ else "b16"
    vector = f".v{count}" if count > 1 else ""
    size = 2 * width
    loads = " ".join(f"ld.global.{bits} {register}{k}, [%rd2+{k * size // count}];" for k in range(count))
    stores = " ".join(
        f"st.global.{bits} [%rd3+{k * size // count}], {register}{20 + k};" for k in range(count)
    )
    body = f"""
    mad.wide.u32 %rd1, %t, {size}, %a1; mad.wide.u32 %rd2, %t, {size}, %a2; mad.wide.u32 %rd3, %t, {size}, %a0;
    {loads} atom.global.{op}.noftz{vector}.{type_} {braces(names(20))}, [%rd1], {braces(names(0))}; {stores}
    red.relaxed.gpu.global.{op}.noftz{vector}.{type_} [%rd1], {braces(names(0))};"""
    cells = a.copy()
    old = outputs(body, 32 * width, np.uint16, [cells, b])
    once = half_reference(op, a.view(kind), b.view(kind))
    assert old.tolist() == a.tolist()
    assert cells.tolist() == half_reference(op, once.view(kind), b.view(kind)).tolist()


def test_vectors_return_old_values_and_may_drop_some() -> None:
    cells = np.arange(4, dtype=np.float32)
    body = """
    mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000;
    atom.global.add.v4.f32 {%f1, _, %f0, %f3}, [%a1], {%f0, %f1, 0f40400000, %f1};
    st.global.v4.f32 [%a0], {%f1, %f0, %f3, %f3};"""
    assert outputs(body, 4, np.float32, [cells], threads=1).tolist() == [0, 2, 3, 3]
    assert cells.tolist() == [1, 3, 5, 5]


def test_doubles_keep_subnormals_and_invalid_sums_have_a_sign() -> None:
    rng = np.random.default_rng(3)
    values, cells = rng.standard_normal(32), rng.standard_normal(32)
    values[:4], cells[:4] = [5e-324, np.inf, -0.0, np.inf], [5e-324, 1.0, -0.0, -np.inf]
    table, expected = cells.copy(), cells + np.where(np.arange(32) == 3, 0, values)
    expected.view(np.uint64)[3] = 0xFFF8000000000000  # on every processor
    body = f"""
    mad.wide.u32 %rd1, %t, 8, %a1; mad.wide.u32 %rd2, %t, 8, %a2; ld.global.f64 %fd1, [%rd2];
    atom.global.add.f64 %fd2, [%rd1], %fd1; mov.b64 %rd3, %fd2; {store("%rd3", type_="b64")}"""
    old = outputs(body, 32, np.float64, [table, values])
    assert (old == cells).all() and table.tobytes() == expected.tobytes()


@pytest.mark.parametrize("bits", [16, 32, 64, 128])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_compare_and_swap(bits: int, space: str) -> None:
    """Even lanes find what they expect and swap; odd lanes leave the cell alone. All get the old bytes."""
    size = bits // 8
    rng = np.random.default_rng(7)
    cells, new = (rng.integers(0, 256, (32, size), dtype=np.uint8) for _ in range(2))
    expected = cells.copy()
    expected[1::2, -1] ^= 1
    register = {16: "%h", 32: "%r", 64: "%rd", 128: "%q"}[bits]
    base = 10 if bits < 128 else 0
    r = [f"{register}{base + k}" for k in range(4)]
    at, setup = "[%rd1]", ""
    if space == "shared":
        setup = f"mov.u32 %r5, tile; mad.lo.u32 %r5, %t, {size}, %r5; st.shared.b{bits} [%r5], {r[0]};"
        at = "[%r5]"
    body = f"""
    .shared .align 16 .b8 tile[512];
    mad.wide.u32 %rd1, %t, {size}, %a1; mad.wide.u32 %rd2, %t, {size}, %a2; mad.wide.u32 %rd3, %t, {size}, %a3; mad.wide.u32 %rd4, %t, {size}, %a0;
    ld.global.b{bits} {r[0]}, [%rd1]; ld.global.b{bits} {r[1]}, [%rd2]; ld.global.b{bits} {r[2]}, [%rd3]; {setup}
    atom.acq_rel.gpu.{space}.cas.b{bits} {r[3]}, {at}, {r[1]}, {r[2]};
    ld.{space}.b{bits} {r[0]}, {at}; st.global.b{bits} [%rd4], {r[3]}; st.global.b{bits} [%rd4+{32 * size}], {r[0]};"""
    got = outputs(body, (64, size), np.uint8, [cells.copy(), expected, new])
    assert (got[:32] == cells).all()
    assert (got[32::2] == new[::2]).all() and (got[33::2] == cells[1::2]).all()


def test_a_lock_by_compare_and_swap() -> None:
    """Every thread adds under a spin lock; without the lock's acquire the plain additions race."""
    body = """
    mov.u32 %r9, 0;
    AGAIN:
    setp.ne.u32 %p2, %r9, 0; @%p2 bra DONE;
    atom.acquire.gpu.global.cas.b32 %r1, [%a1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;
    ld.global.u32 %r2, [%a0]; add.u32 %r2, %r2, 1; st.global.u32 [%a0], %r2;
    atom.release.gpu.global.exch.b32 %r3, [%a1], 0; mov.u32 %r9, 1; bra AGAIN;
    DONE:"""
    for text, found in (
        (body, set()),
        (body.replace("atom.acquire.gpu", "atom.relaxed.gpu"), {"race-unordered"}),
    ):
        memory = Memory()
        total = np.zeros(1, np.uint32)
        result = run(
            text,
            [memory.buffer(total), memory.buffer(np.zeros(1, np.uint32))],
            memory=memory,
            threads=64,
            races=True,
        )
        assert {f.code for f in result.errors} == found and total[0] == 64


def test_exchange_of_16_bytes() -> None:
    cells = np.arange(4, dtype=np.uint32)
    body = """
    mov.b64 %rd1, 0x0000000200000001; mov.b64 %rd2, 0x0000000400000003; mov.b128 %q1, {%rd1, %rd2};
    atom.global.exch.b128 %q2, [%a1], %q1; st.global.b128 [%a0], %q2;"""
    assert outputs(body, 4, np.uint32, [cells], threads=1).tolist() == [0, 1, 2, 3] and cells.tolist() == [
        1,
        2,
        3,
        4,
    ]
