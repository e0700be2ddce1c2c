# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""red and atom: every operation and type, vectors, subnormals, NaN, spaces, against Python integers and numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ptx_kit import CLUSTER_SYNC, Memory, clean, outputs, run, store
from tileproof.emulator import UnsupportedInstruction
from values import integer_edges, same_f32

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
TYPES = dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64")) | {"add": ("u32", "s32", "u64")}
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


@pytest.mark.parametrize("line", ["atom.global.cas.b32 %r1, [%a0], 0, 1;", "red.global.add.f16x2 [%a0], %r1;", "red.global.min.f32 [%a0], %f1;",
                                  "atom.global.add.v4.f32 %r1, [%a0], {%f1, %f2, %f3, %f4};", "red.global.add.v4.u32 [%a0], {%r1, %r2, %r3, %r4};",
                                  "red.global.add.noftz.bf16x2 [%a0], %r1;", "multimem.red.global.add.u32 [%a0], %r1;"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        outputs(line)
