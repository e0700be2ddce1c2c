# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""TMA beyond plain tiles: im2col, swizzles in wide atoms, types that are converted, NaN fills, reductions, scatter4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule, TensorMap
from tileproof.spec.machine import tma
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.swizzle import swizzle
from tileproof.tools import evidence

from tests.kit.ptx import BF16, POLICIES, Memory, clean, codes, init_barrier, run, wait

COVERS = "cp.async.bulk.prefetch.tensor"

BAR, DATA, DONE = 1024, 2048, "mbarrier::complete_tx::bytes"


def fields_of(m: TensorMap) -> tma.TensorMapFields:
    return tma.TensorMapFields(
        dtype=m.dtype, shape=m.shape, strides=m.strides, box=m.box, element_strides=m.element_strides, swizzle=m.swizzle,
        oob_fill="nan" if m.oob_fill == "nan" else "zero", lower=m.lower, upper=m.upper,
    )  # fmt: skip


def load(m: TensorMap, memory: Memory, copy: str, size: int, schedule: Schedule) -> np.ndarray:
    """The bytes at DATA after a load `copy` (from its dimension on to its operands)."""
    out = memory.empty(size, np.uint8)
    body = f"""
    {init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {size}; @%p0 fence.proxy.async;
    @%p0 cp.async.bulk.tensor.{copy}; {wait(BAR)}
    mov.u32 %r1, %t;
    NEXT: setp.ge.u32 %p1, %r1, {size // 4}; @%p1 bra END;
    mad.lo.u32 %r2, %r1, 4, {DATA}; ld.shared.u32 %r3, [%r2]; mad.wide.u32 %rd1, %r1, 4, %a0; st.global.u32 [%rd1], %r3; add.u32 %r1, %r1, 32; bra NEXT;
    END:"""
    clean(run(body, [out, m], memory=memory, shared_bytes=DATA + size, schedule=schedule, races=True))
    return out.numpy()


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("mode", ["128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"])
def test_swizzles_in_wide_atoms(mode: str, schedule: Schedule) -> None:
    memory = Memory()
    data = np.random.default_rng(1).integers(0, 256, (24, 128), dtype=np.uint8)
    m = TensorMap.tiled(memory.buffer(data), shape=(128, 24), strides=(128,), box=(128, 16), swizzle=mode)
    got = load(m, memory, f"2d.shared::cta.global.{DONE} [{DATA}], [%a1, {{0, 3}}], [{BAR}]", 2048, schedule)
    assert (got == tma.tile_image(fields_of(m), data.ravel(), (0, 3), DATA)).all()


def test_what_the_wide_atoms_do() -> None:
    """Line 1: atoms of 32 bytes change in pairs, the flip swaps 8 bytes too; of 64 bytes the two halves change."""
    at = lambda mode: [int(swizzle(mode, 128 + 8 * k) - 128) // 8 for k in range(16)]  # noqa: E731
    assert at("128B_ATOM_32B") == [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11]
    assert at("128B_ATOM_32B_FLIP_8B") == [5, 4, 7, 6, 1, 0, 3, 2, 13, 12, 15, 14, 9, 8, 11, 10]
    assert at("128B_ATOM_64B") == [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]
    for mode in ("128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"):
        addresses = np.arange(2048)
        assert sorted(swizzle(mode, addresses).tolist()) == addresses.tolist()
        assert (swizzle(mode, swizzle(mode, addresses)) == addresses).all()


EDGES = np.array([0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001, 0xC2F6E979], np.uint32)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float32_ftz", "tfloat32", "tfloat32_ftz"])
def test_types_that_a_load_converts(dtype: str) -> None:
    memory = Memory()
    m = TensorMap.tiled(memory.buffer(EDGES.copy()), shape=(16,), strides=(), box=(16,), dtype=dtype)
    got = load(
        m, memory, f"1d.shared::cta.global.{DONE} [{DATA}], [%a1, {{0}}], [{BAR}]", 64, Schedule("late")
    )
    assert (got == tma.tile_image(fields_of(m), EDGES.view(np.uint8), (0,), DATA)).all()
    bits = got.view(np.uint32)
    assert bits[2] == (0 if dtype.startswith("tf") else 1)  # a load of an _ftz type keeps subnormals
    if dtype.startswith("tf"):
        assert (bits & 0x1FFF == 0).all() and bits[6:10].tolist() == [
            0x3F800000,
            0x3F800000,
            0x3F802000,
            0x3F804000,
        ]


@pytest.mark.parametrize("kind", [np.float16, np.float32, BF16])
def test_nan_fills(kind: type) -> None:
    memory = Memory()
    data: np.ndarray = np.arange(32, dtype=np.float32).astype(kind)
    size = data.itemsize
    m = TensorMap.tiled(memory.buffer(data), shape=(24,), strides=(), box=(32,), oob_fill="nan")
    got = load(
        m,
        memory,
        f"1d.shared::cta.global.{DONE} [{DATA}], [%a1, {{-8}}], [{BAR}]",
        32 * size,
        Schedule("random", 1),
    )
    assert (got == tma.tile_image(fields_of(m), data.view(np.uint8), (-8,), DATA)).all()
    values = got.view(kind).astype(np.float64)
    assert np.isnan(values[:8]).all() and (values[8:] == np.arange(24)).all()
    assert (got[: 8 * size].view(np.uint16) == 0x7FF7).all()  # as on a card


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("schedule", POLICIES)
def test_im2col_against_the_specification_and_a_convolution(rank: int, schedule: Schedule) -> None:
    """Padding 1, a filter of 3 taps per dimension, strides 1 and 2: a column is what the convolution multiplies."""
    spatial, channels, pixels = rank - 2, 8, 24
    sizes = (7, 6, 5)[:spatial]
    shape = (16, *sizes, 3)
    rng = np.random.default_rng(rank)
    data = rng.integers(1, 1 << 15, shape[::-1], dtype=np.uint16)
    strides = tuple(int(np.prod(shape[:k])) * 2 for k in range(1, rank))
    for step, origin, offsets in ((1, 0, (0, 1, 2)), (2, 1, (2, 0, 1)), (1, 2, (1, 1, 1))):
        memory = Memory()
        lower, upper = (-1,) * spatial, (-1,) * spatial
        m = TensorMap.im2col(
            memory.buffer(data), shape=shape, strides=strides, lower=lower, upper=upper, channels=channels, pixels=pixels,
            element_strides=(1, *(step,) * spatial, 1), swizzle="none",
        )  # fmt: skip
        corner = (8, *(-1 for _ in range(spatial)), origin)
        offset = offsets[:spatial]
        operands = (
            f"[{DATA}], [%a1, {{{', '.join(map(str, corner))}}}], [{BAR}], {{{', '.join(map(str, offset))}}}"
        )
        got = load(
            m, memory, f"{rank}d.shared::cta.global.im2col.{DONE} {operands}", pixels * channels * 2, schedule
        )
        assert (
            got == tma.im2col_image(fields_of(m), data.reshape(-1).view(np.uint8), corner, offset, DATA)
        ).all()
        # Independently: all windows of the padded images in order, channels 8 to 15 at the filter's tap.
        padded = np.pad(data, [(0, 0), *[(1, 1)] * spatial, (0, 0)])
        taps = padded
        for axis in range(spatial):
            tap, extent = offset[axis], sizes[axis]
            taps = np.take(
                taps, range(tap, tap + extent - 1 + 1, step) if extent else [], axis=rank - 2 - axis
            )
        counts = [len(range(0, size, step)) for size in sizes]
        assert taps.shape[1:-1] == tuple(counts[::-1])
        rows = taps[origin:, ..., 8:].reshape(-1, channels)[:pixels]
        want = got.view(np.uint16).reshape(pixels, channels)
        assert (want[: len(rows)] == rows).all() and (want[len(rows) :] == 0).all()


def test_im2col_stores_and_modes_that_do_not_fit() -> None:
    memory = Memory()
    data = np.zeros((1, 4, 4, 8), np.uint16)
    buffer = memory.buffer(data)
    m = TensorMap.im2col(
        buffer, shape=(8, 4, 4, 1), strides=(16, 64, 256), lower=(0, 0), upper=(0, 0), channels=8, pixels=6
    )
    tile = TensorMap.tiled(buffer, shape=(8, 4, 4, 1), strides=(16, 64, 256), box=(8, 2, 2, 1))
    store = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
    body = f"""
    mad.lo.u32 %r1, %t, 16, {DATA}; add.u32 %r2, %t, 1; st.shared.v4.u32 [%r1], {{%r2, %r2, %r2, %r2}}; fence.proxy.async; bar.sync 0;
    setp.eq.u32 %p0, %t, 0; @!%p0 bra END; {store} [%a0, {{0, 2, 1, 0}}], [{DATA}]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    clean(run(body, [m], memory=memory, shared_bytes=DATA + 512, schedule=Schedule("late"), races=True))
    assert data[0, :, :, 0].tolist() == [[0, 0, 0, 0], [0, 0, 1, 2], [3, 4, 5, 6], [0, 0, 0, 0]]
    assert "tensormap-mode" in codes(run(body, [tile], memory=memory, shared_bytes=DATA + 512))
    assert "tensormap-mode" in codes(
        run(body.replace(".im2col_no_offs", ""), [m], memory=memory, shared_bytes=DATA + 512)
    )


@pytest.mark.parametrize("schedule", POLICIES)
def test_scatter4(schedule: Schedule) -> None:
    """Rows in any order; what lies outside is not written."""
    memory = Memory()
    data = np.zeros((8, 16), np.uint32)
    m = TensorMap.tiled(memory.buffer(data), shape=(16, 8), strides=(64,), box=(8, 1))
    body = f"""
    mad.lo.u32 %r1, %t, 4, {DATA}; st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0; setp.eq.u32 %p0, %t, 0; @!%p0 bra END;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%a0, {{12, 5, -1, 0, 8}}], [{DATA}];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    clean(run(body, [m], memory=memory, shared_bytes=DATA + 128, schedule=schedule, races=True))
    want = np.zeros((8, 16), np.uint32)
    want[5, 12:], want[0, 12:] = [0, 1, 2, 3], [16, 17, 18, 19]
    assert (data == want).all()


KINDS = {
    "uint32": np.uint32,
    "int32": np.int32,
    "uint64": np.uint64,
    "int64": np.int64,
    "float16": np.float16,
    "bfloat16": BF16,
    "float32": np.float32,
}
ALLOWED = {
    "add": "uint32 int32 uint64 float16 bfloat16 float32", "min": "uint32 int32 uint64 int64 float16 bfloat16", "max": "uint32 int32 uint64 int64 float16 bfloat16",
    "and": "uint32 int32 uint64", "or": "uint32 int32 uint64", "xor": "uint32 int32 uint64", "inc": "uint32", "dec": "uint32",
}  # fmt: skip
NUMPY = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


CARD = evidence.read_text("2026-11-24-h100-tensor-reductions.txt.xz").splitlines()[2:]


@pytest.mark.parametrize("line", CARD, ids=[line.partition(":")[0].replace(" ", "-") for line in CARD])
def test_reductions_as_seen_on_a_card(line: str) -> None:
    """benchmarks/silicon/tensor_reductions.cu: the same bytes, or a finding for an illegal instruction."""
    (op, dtype), what = line.partition(":")[0].split(), line.partition(": ")[2].split()
    n = np.arange(256)
    before, values = np.where(n % 8 == 1, 0x3C, n % 2), np.where(n % 8 == 1, 0x38, n // 8 % 4)
    result, target = reduced(op, dtype, before.astype(np.uint8), values.astype(np.uint8))
    if what[0] != "ok":
        assert what[-3:] == ["instruction", "was", "encountered"] and codes(result) == {"tensormap-type"}
        return
    clean(result)
    shown = [data[:16].tobytes().hex() for data in (before.astype(np.uint8), values.astype(np.uint8), target)]
    assert shown == what[2::2]


def reduced(op: str, dtype: str, before: np.ndarray, values: np.ndarray) -> tuple[Any, np.ndarray]:
    """The result of a launch that reduces 256 bytes of values into `before` through a map, and its target."""
    memory, target = Memory(), before.copy()
    count = 2048 // int("".join(filter(str.isdigit, dtype)))  # "bfloat16" has 16 bits
    m = TensorMap.tiled(memory.buffer(target), shape=(count,), strides=(), box=(count,), dtype=dtype)
    body = f"""
    mad.wide.u32 %rd1, %t, 8, %a1; mad.lo.u32 %r1, %t, 8, {DATA}; ld.global.u64 %rd2, [%rd1]; st.shared.u64 [%r1], %rd2; fence.proxy.async; bar.sync 0;
    setp.eq.u32 %p0, %t, 0; @!%p0 bra END; cp.reduce.async.bulk.tensor.1d.global.shared::cta.{op}.tile.bulk_group [%a0, {{0}}], [{DATA}];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    result = run(
        body,
        [m, memory.buffer(values)],
        memory=memory,
        shared_bytes=DATA + 256,
        schedule=Schedule("random", 2),
        races=True,
    )
    return result, target


@pytest.mark.parametrize("op", list(ALLOWED))
@pytest.mark.parametrize("dtype", list(KINDS))
def test_reductions_in_the_type_of_the_map(op: str, dtype: str) -> None:
    kind = np.dtype(KINDS[dtype])
    rng = np.random.default_rng(7)
    count = 256 // kind.itemsize
    before, values = (
        (rng.standard_normal(count) * 100).astype(kind)
        if "float" in dtype
        else rng.integers(0, 9, count).astype(kind)
        for _ in range(2)
    )
    result, target = reduced(op, dtype, before, values)
    if dtype not in ALLOWED[op].split():
        assert codes(result) == {"tensormap-type"}
        return
    clean(result)
    if op in NUMPY:
        wide = before.astype(np.float32), values.astype(np.float32)
        want = (
            NUMPY[op](*wide).astype(kind) if dtype in ("float16", "bfloat16") else NUMPY[op](before, values)
        )
    else:
        want = (
            np.where(before >= values, 0, before + 1)
            if op == "inc"
            else np.where((before == 0) | (before > values), values, before - 1)
        )
    assert target.tobytes() == want.astype(kind).tobytes()


def test_prefetches_check_the_map() -> None:
    memory = Memory()
    m = TensorMap.tiled(memory.buffer(np.zeros((8, 16), np.uint32)), shape=(16, 8), strides=(64,), box=(8, 1))
    clean(run("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%a0, {0, 0}];", [m], memory=memory))
    clean(
        run(
            "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%a0, {0, 0, 1, 2, 3}];",
            [m],
            memory=memory,
        )
    )
    assert codes(run("cp.async.bulk.prefetch.tensor.3d.L2.global [%a0, {0, 0, 0}];", [m], memory=memory)) == {
        "tensormap-rank"
    }


def test_the_driver_s_arguments_by_number() -> None:
    memory = Memory()
    buffer = memory.buffer(np.zeros((8, 64), np.float16))
    arguments: dict[str, Any] = {
        "data_type": 6,
        "address": buffer.address,
        "global_dim": (64, 8),
        "global_strides": (128,),
        "box_dim": (64, 4),
        "element_strides": (1, 1),
    }
    for number, name in enumerate(
        ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
    ):
        if number in (1, 2):
            continue
        made = TensorMap.of_driver(**arguments, swizzle=number, l2_promotion=2, oob_fill=1)
        assert made == TensorMap.tiled(
            buffer, shape=(64, 8), strides=(128,), box=(64, 4), swizzle=name, oob_fill="nan"
        )
    for name, value in (
        ("data_type", 14),  # strides and box are not those of a padded type
        ("data_type", 16),
        ("interleave", 1),
        ("swizzle", 7),
        ("oob_fill", 2),
        ("l2_promotion", 4),
        ("box_dim", (300, 4)),
    ):
        with pytest.raises(TileproofError, match="tensor map"):
            TensorMap.of_driver(**(arguments | {name: value}))
