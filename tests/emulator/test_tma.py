# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""TMA tile loads and stores, gather4, scatter4, multicast and cta_group::2, against spec.machine.tma."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule, TensorMap
from tileproof.spec.machine.swizzle import swizzle
from tileproof.spec.machine.tma import TensorMapFields, as_stored, gather4_image, tile_image

from tests.kit.ptx import BF16, CLUSTER_SYNC, POLICIES, Memory, clean, codes, init_barrier, run, wait

COVERS = "cp.async.bulk.tensor cp.reduce.async.bulk.tensor"

BAR, DATA = 1024, 2048  # shared addresses of the mbarrier and of the tile
NAMES = {
    np.dtype(np.uint8): "uint8",
    np.dtype(np.float32): "float32",
    BF16: "bfloat16",
    np.dtype(np.int64): "int64",
}


def dump(count: int, at: int = DATA) -> str:
    """Thread t stores the shared bytes t, t + 128, ... of the tile to `%a0`."""
    return f"""
    mov.u32 %r90, %t;
    DUMP: setp.ge.u32 %p9, %r90, {count}; @%p9 bra DUMPED;
    add.u32 %r91, %r90, {at}; add.u32 %r91, %r91, %own; ld.shared.u8 %r92, [%r91]; cvt.u64.u32 %rd30, %r90; add.u64 %rd30, %rd30, %a0; st.global.u8 [%rd30], %r92;
    add.u32 %r90, %r90, 128; bra.uni DUMP;
    DUMPED:"""


def clear(count: int, at: int = DATA) -> str:
    """All threads write zeros to the tile's bytes."""
    return f"""
    mov.u32 %r90, %t;
    CLEAR: setp.ge.u32 %p9, %r90, {count}; @%p9 bra CLEARED;
    add.u32 %r91, %r90, {at}; add.u32 %r91, %r91, %own; st.shared.u8 [%r91], 0; add.u32 %r90, %r90, 128; bra.uni CLEAR;
    CLEARED: bar.sync 0;"""


def fields_of(m: TensorMap) -> TensorMapFields:
    return TensorMapFields(
        dtype=m.dtype, address=0, shape=m.shape, strides=m.strides, box=m.box, element_strides=m.element_strides,
        swizzle=m.swizzle, oob_fill=m.oob_fill,  # type: ignore[arg-type]
    )  # fmt: skip


def load(m: TensorMap, corner: tuple[int, ...], memory: Memory, size: int, schedule: Schedule, mode: str = "", at: int = DATA,
         dumped: int | None = None) -> np.ndarray:  # fmt: skip
    rank = 2 if mode else len(corner)
    coordinates = ", ".join(map(str, corner))
    count = dumped or size
    body = f"""
    {clear(count, at)} {init_barrier(BAR)}
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {size};
    @%p0 cp.async.bulk.tensor.{rank}d.shared::cta.global{mode or ".tile"}.mbarrier::complete_tx::bytes [{at}], [%a1, {{{coordinates}}}], [{BAR}];
    {wait(BAR)}
    {dump(count, at)}"""
    out = memory.empty(count, np.uint8)
    result = clean(
        run(body, [out, m], memory=memory, threads=128, shared_bytes=at - 1024 + count, schedule=schedule)
    )
    assert result.counters["tma_load_bytes"] == size
    return out.numpy()


@st.composite
def tilings(draw: st.DrawFn) -> dict[str, Any]:
    """A tensor of rank 1 to 5, a box that may leave it on any side, a swizzle that fits."""
    kind = draw(st.sampled_from(list(NAMES)))
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.sampled_from(["none", "32B", "64B", "128B", "128B_ATOM_32B"]))
    most = {"none": 64, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}[swizzle]
    row = draw(st.integers(1, most // 16)) * 16 // kind.itemsize
    shape = (draw(st.integers(1, 40)), *(draw(st.integers(1, 6)) for _ in range(rank - 1)))
    box = (row, *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    steps = (1, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    corner = tuple(draw(st.integers(-b - 1, s + 1)) for b, s in zip(box, shape, strict=True))
    corner = (corner[0] * kind.itemsize // 16 * 16 // kind.itemsize, *corner[1:])
    strides, extent = [], -(-shape[0] * kind.itemsize // 16) * 16
    for s in shape[1:]:
        strides.append(extent)
        extent = extent * s + 16 * draw(st.integers(0, 1))
    fill = draw(st.sampled_from(["zero", "nan"])) if kind == BF16 else "zero"
    return {"kind": kind, "shape": shape, "strides": strides, "box": box, "element_strides": steps, "swizzle": swizzle, "oob_fill": fill,
                "corner": corner, "bytes": extent + 1024, "offset": draw(st.sampled_from([0, 16, 64]))}  # fmt: skip


def make(t: dict[str, Any], memory: Memory, fresh: bool = False) -> tuple[TensorMap, np.ndarray]:
    raw = np.random.default_rng(5).integers(0, 256, t["bytes"], dtype=np.uint8)
    buffer = memory.buffer(raw)
    m = TensorMap.tiled(
        buffer, dtype=t["kind"], shape=t["shape"], strides=t["strides"], box=t["box"],
        element_strides=t["element_strides"], swizzle=t["swizzle"], oob_fill=t["oob_fill"], offset=t["offset"],
    )  # fmt: skip
    return m, raw


@settings(max_examples=80, deadline=None)
@given(t=tilings(), policy=st.sampled_from(POLICIES), at=st.sampled_from([DATA, DATA + 128, DATA + 384]))
def test_tile_load(t: dict[str, Any], policy: Schedule, at: int) -> None:
    memory = Memory()
    m, raw = make(t, memory)
    fields = fields_of(m)
    size = -(-fields.box_bytes // fields.row_bytes * fields.pitch // 128) * 128
    got = load(m, t["corner"], memory, fields.box_bytes, policy, at=at, dumped=size)
    want = placed(fields, raw[t["offset"] :], t["corner"], at)
    assert (got == want).all()
    spec = tile_image(fields, raw[t["offset"] :], t["corner"], at)
    assert (got[: spec.size] == spec).all() and not got[spec.size :].any()


def placed(fields: TensorMapFields, memory: np.ndarray, corner: tuple[int, ...], at: int) -> np.ndarray:
    """The box in its 128-byte lines, zeros where a swizzled box leaves parts of its last line alone."""
    linear = tile_image(replace(fields, swizzle="none"), memory, corner)
    rows = linear.reshape(-1, fields.row_bytes)
    pitched = np.zeros((len(rows), fields.pitch), np.uint8)
    pitched[:, : fields.row_bytes] = rows
    image = np.zeros(-(-pitched.size // 128) * 128, np.uint8)
    image[swizzle(fields.swizzle, at + np.arange(pitched.size, dtype=np.int64)) - at] = pitched.ravel()
    return image


@settings(max_examples=60, deadline=None)
@given(t=tilings(), policy=st.sampled_from(POLICIES), add=st.booleans())
def test_tile_store_and_reduce(t: dict[str, Any], policy: Schedule, add: bool) -> None:
    """A store writes what a load of the same box would read back, in whole units of 16 bytes; .add adds."""
    add = add and t["kind"] == np.float32
    t = t | {"corner": tuple(max(0, c) for c in t["corner"])}
    memory = Memory()
    m, raw = make(t, memory)
    fields = as_stored(fields_of(m))
    size = -(-fields.box_bytes // fields.row_bytes * fields.pitch // 128) * 128
    if add:
        raw[...] = np.frombuffer(
            np.random.default_rng(6).standard_normal(-(-raw.size // 4)).astype(np.float32).tobytes(), np.uint8
        )[: raw.size]
    tile = (
        np.random.default_rng(7)
        .standard_normal(-(-size // 4))
        .astype(np.float32)
        .view(np.uint8)[:size]
        .copy()
    )
    before = raw.copy()
    coordinates = ", ".join(map(str, t["corner"]))
    spelling = (
        "cp.reduce.async.bulk.tensor.{r}d.global.shared::cta.add.tile"
        if add
        else "cp.async.bulk.tensor.{r}d.global.shared::cta.tile"
    )
    body = f"""
    mov.u32 %r90, %t;
    FILL: setp.ge.u32 %p9, %r90, {size}; @%p9 bra FILLED;
    cvt.u64.u32 %rd30, %r90; add.u64 %rd30, %rd30, %a0; ld.global.u8 %r92, [%rd30]; add.u32 %r91, %r90, {DATA}; st.shared.u8 [%r91], %r92;
    add.u32 %r90, %r90, 128; bra.uni FILL;
    FILLED: fence.proxy.async; bar.sync 0;
    setp.ne.u32 %p0, %t, 0; @%p0 bra DONE;
    {spelling.format(r=len(t["corner"]))}.bulk_group [%a1, {{{coordinates}}}], [{DATA}];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    DONE:"""
    result = clean(
        run(
            body,
            [memory.buffer(tile), m],
            memory=memory,
            threads=128,
            shared_bytes=1024 + size,
            schedule=policy,
            allow=["tma-store-tail"],
        )
    )
    inner, extent = t["corner"][0], t["shape"][0]
    past = inner < extent < fields.shape[0] and inner + t["box"][0] > extent
    assert {f.code for f in result.allowed} == ({"tma-store-tail"} if past else set())
    want = before.copy()
    # Place by the model: the image of a tensor whose bytes are their own addresses shows where each box byte lies.
    plain = replace(fields, oob_fill="zero")
    index = np.arange(raw.size - t["offset"])
    planes = [
        placed(plain, (index >> 8 * k & 255).astype(np.uint8), t["corner"], DATA).astype(np.int64)
        for k in range(3)
    ]
    inside = placed(plain, np.ones(index.size, np.uint8), t["corner"], DATA) == 1
    where = (planes[0] | planes[1] << 8 | planes[2] << 16) + t["offset"]
    if add:
        cells = where[inside].reshape(-1, 4)[:, 0]
        values = tile[inside].view(np.float32)
        for cell, value in zip(cells, values, strict=True):
            want[cell : cell + 4] = np.frombuffer(
                (before[cell : cell + 4].view(np.float32) + value).tobytes(), np.uint8
            )
    else:
        want[where[inside]] = tile[inside]
    assert (raw == want).all()
    assert result.counters["tma_store_bytes"] == int(inside.sum())


def test_a_store_below_zero_is_an_illegal_instruction_and_a_load_is_filled() -> None:
    memory = Memory()
    m = TensorMap.tiled(memory.buffer(np.zeros((4, 8), np.float32)), shape=(8, 4), strides=(32,), box=(4, 2))
    store = f"""
    {clear(128)} fence.proxy.async; bar.sync 0;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {{0, CORNER}}], [{DATA}];
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"""
    out = memory.empty(16, np.uint8)
    for corner, expected in ((3, set()), (9, set()), (-1, {"tma-coordinate"})):
        body = "setp.eq.u32 %p0, %t, 0;" + store.replace("CORNER", str(corner))
        result = run(body, [out, m], memory=memory, threads=128, shared_bytes=1024 + 128)
        assert {f.code for f in result.findings} == expected
    assert not load(m, (0, -2), memory, 32, Schedule("late")).any()


@pytest.mark.parametrize(
    ("corner", "written", "errors"),
    [
        ((0, 4), (), set()),
        ((0, 2), range(16), set()),
        ((4, 0), [w for w in range(32) if w % 8 < 4], set()),
        ((0, 3), (), {"shared-uninitialised"}),
        ((0, 2), range(15), {"shared-uninitialised"}),
        ((4, 0), [w for w in range(24) if w % 8 < 4], {"shared-uninitialised"}),
    ],
)
@pytest.mark.parametrize("operation", ["cp.async", "cp.reduce.async"])
def test_what_a_store_leaves_out_need_not_be_written(
    corner: tuple[int, int], written: Collection[int], errors: set[str], operation: str
) -> None:
    """A box of 4 rows of 8 words whose end lies outside the tensor; `written` are words of the box."""
    memory = Memory()
    m = TensorMap.tiled(memory.buffer(np.zeros((4, 8), np.float32)), shape=(8, 4), strides=(32,), box=(8, 4))
    add = ".add" if "reduce" in operation else ""
    body = f"""
    mov.u32 %r1, {sum(1 << word for word in written)}; shr.u32 %r1, %r1, %t; and.b32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0; mad.lo.u32 %r2, %t, 4, {DATA}; @%p1 st.shared.u32 [%r2], %t;
    fence.proxy.async; bar.warp.sync -1; setp.eq.u32 %p0, %t, 0;
    @%p0 {operation}.bulk.tensor.2d.global.shared::cta{add}.bulk_group [%a0, {{{corner[0]}, {corner[1]}}}], [{DATA}];
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"""
    for policy in POLICIES:
        result = run(body, [m], memory=memory, shared_bytes=2048, schedule=policy)
        assert codes(result) == errors | {"uninitialised-unused"}
        unwaited = body.replace("cp.async.bulk.wait_group 0;", "mov.u32 %r3, 0;")
        late = run(unwaited, [m], memory=memory, shared_bytes=2048, schedule=policy)
        assert errors | {"uninitialised-unused"} <= codes(late) <= codes(result) | {"bulk-store-at-exit"}


@pytest.mark.parametrize("direction", ["load", "store", "gather4"])
@pytest.mark.parametrize(("column", "right"), [(8, True), (16, True), (4, False), (-1, False)])
def test_an_innermost_coordinate_off_16_bytes_is_an_illegal_instruction(
    direction: str, column: int, right: bool
) -> None:
    memory = Memory()
    m = TensorMap.tiled(
        memory.buffer(np.zeros((10, 96), np.uint16).view(BF16)), shape=(96, 10), strides=(192,),
        box=(8, 1), swizzle="none",
    )  # fmt: skip
    rows = ", 0, 1, 2, 3" if direction == "gather4" else ", 0"
    mode = ".tile::gather4" if direction == "gather4" else ""
    copy = (
        f"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {{{column}{rows}}}], [{DATA}];\n"
        "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"
        if direction == "store"
        else f"cp.async.bulk.tensor.2d.shared::cta.global{mode}.mbarrier::complete_tx::bytes [{DATA}], "
        f"[%a1, {{{column}{rows}}}], [{BAR}];\n{wait(BAR)}"
    )
    size = 64 if direction == "gather4" else 16
    body = f"""
    {clear(128)} {init_barrier(BAR)} fence.proxy.async; bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {0 if direction == "store" else size};
    @%p0 {copy}"""
    out = memory.empty(16, np.uint8)
    result = run(body, [out, m], memory=memory, threads=128, shared_bytes=1024 + 128)
    assert ({f.code for f in result.errors} == set()) == right
    if not right:
        assert {f.code for f in result.errors} == {"tma-coordinate"}


ROWS = [(0, 1, 2, 3), (9, 0, 9, 4), (-1, 5, 10, 1), (2**31 - 1, -(2**31), 3, 3)]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_ATOM_32B"])
@pytest.mark.parametrize("schedule", POLICIES[:2])
def test_gather4(rows: tuple[int, int, int, int], swizzle: str, schedule: Schedule) -> None:
    memory = Memory()
    table = np.random.default_rng(8).integers(0, 2**16, (10, 96), dtype=np.uint16)
    columns = {"none": 64, "32B": 16, "64B": 32, "128B": 64, "128B_ATOM_32B": 64}[swizzle]
    m = TensorMap.tiled(
        memory.buffer(table.view(BF16)), shape=(96, 10), strides=(192,), box=(columns, 1), swizzle=swizzle
    )
    for column, at in ((0, DATA), (48, DATA + 512), (-8, DATA)):
        got = load(m, (column, *rows), memory, 8 * columns, schedule, ".tile::gather4", at)
        want = gather4_image(fields_of(m), table.view(np.uint8).ravel(), column, rows, at)
        assert (got == want).all()


def test_scatter4_writes_four_rows() -> None:
    memory = Memory()
    table = np.zeros((10, 64), np.uint16)
    m = TensorMap.tiled(memory.buffer(table), shape=(64, 10), strides=(128,), box=(32, 1))
    body = """
    mov.u32 %r1, 2048; mad.lo.u32 %r1, %t, 2, %r1; add.u32 %r2, %t, 1; st.shared.u16 [%r1], %r2; fence.proxy.async; bar.sync 0;
    setp.ne.u32 %p0, %t, 0; @%p0 bra DONE;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%a0, {16, 7, -1, 2, 10}], [2048];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    DONE:"""
    for schedule in POLICIES:
        table[...] = 0
        clean(run(body, [m], memory=memory, threads=128, shared_bytes=2048, schedule=schedule))
        want = np.zeros_like(table)
        want[7, 16:48], want[2, 16:48] = np.arange(1, 33), np.arange(65, 97)
        assert (table == want).all()


PAIR = """
mov.u32 %r20, %cluster_ctarank;
"""


@pytest.mark.parametrize("schedule", POLICIES)
def test_multicast_reaches_every_named_cta(schedule: Schedule) -> None:
    memory = Memory()
    data = np.random.default_rng(9).integers(0, 256, 256, dtype=np.uint8)
    m = TensorMap.tiled(memory.buffer(data), shape=(256,), strides=(), box=(256,))
    out = memory.empty((4, 256), np.uint8)
    body = f"""
    {init_barrier(BAR)} {PAIR} setp.ne.u32 %p2, %r20, 2;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 256; {CLUSTER_SYNC}
    setp.eq.u32 %p1, %r20, 1; and.pred %p1, %p1, %p0;
    @%p1 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [{DATA}], [%a1, {{0}}], [{BAR}], 0xb;
    setp.eq.u32 %p3, %r20, 2; @%p3 bra SKIP;
    {wait(BAR)}
    mad.wide.u32 %rd31, %r20, 256, %a0; mov.u64 %a0, %rd31; {dump(256)}
    SKIP: {CLUSTER_SYNC}"""
    clean(run(body, [out, m], memory=memory, cluster=4, threads=128, shared_bytes=2048, schedule=schedule))
    assert (out.numpy()[[0, 1, 3]] == data).all() and not out.written()[2].any()


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("multicast", [False, True])
def test_cta_group_2_signals_the_even_cta(schedule: Schedule, multicast: bool) -> None:
    """Both CTAs of each pair load their own half; the bytes of both complete the even CTA's barrier."""
    memory = Memory()
    data = np.random.default_rng(10).integers(0, 256, 256, dtype=np.uint8)
    m = TensorMap.tiled(memory.buffer(data), shape=(256,), strides=(), box=(128,))
    out = memory.empty((4, 128), np.uint8)
    mask = "mov.u32 %r21, 1; shl.b32 %r21, %r21, %r20; cvt.u16.u32 %h1, %r21;"
    words, extra = (".multicast::cluster.cta_group::2", ", %h1") if multicast else (".cta_group::2", "")
    body = f"""
    {init_barrier(BAR)} {PAIR} {mask} {CLUSTER_SYNC}
    and.b32 %r22, %r20, 1; setp.eq.u32 %p1, %r22, 0; and.pred %p2, %p1, %p0;
    @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 256; {CLUSTER_SYNC}
    shl.b32 %r23, %r20, 24; add.u32 %r23, %r23, {BAR}; and.b32 %r23, %r23, 0xFEFFFFFF; mul.lo.u32 %r24, %r22, 128;
    shl.b32 %r25, %r20, 24; add.u32 %r25, %r25, {DATA};
    @%p0 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{words} [%r25], [%a1, {{%r24}}], [%r23]{extra};
    @!%p1 bra ODD;
    {wait(BAR)}
    ODD: {CLUSTER_SYNC}
    mad.wide.u32 %rd31, %r20, 128, %a0; mov.u64 %a0, %rd31; {dump(128)}
    {CLUSTER_SYNC}"""
    clean(run(body, [out, m], memory=memory, cluster=4, threads=128, shared_bytes=2048, schedule=schedule))
    assert (out.numpy().reshape(2, 256) == data).all()
