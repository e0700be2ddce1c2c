# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Flat bulk copies, bulk reductions and bulk async-groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule, UnsupportedInstruction

from tests.kit.ptx import BF16, CLUSTER_SYNC, POLICIES, Memory, clean, codes, init_barrier, run, wait
from tests.kit.values import same_f32

COVERS = "cp.async.bulk cp.reduce.async.bulk cp.async.bulk.commit_group cp.async.bulk.wait_group cp.async.bulk.prefetch"

BAR = 1024
DONE = "mbarrier::complete_tx::bytes"
FILL = "mad.lo.u32 %r1, %t, 4, 2048; add.u32 %r1, %r1, %own; mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r2, [%rd1]; st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0;"
DUMP = "mad.lo.u32 %r1, %t, 4, 2048; add.u32 %r1, %r1, %own; ld.shared.u32 %r2, [%r1]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r2;"


def stored(lines: str, target: np.ndarray, data: np.ndarray, schedule: Schedule) -> None:
    """512 bytes of data in shared memory at 2048, written by 128 threads; one thread issues the bulk stores of
    `lines` to the target and waits for them.
    """
    memory = Memory()
    body = f"""
    {FILL} setp.eq.u32 %p0, %t, 0; @!%p0 bra END; {lines}
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    args = [memory.buffer(target), memory.buffer(data)]
    clean(run(body, args, memory=memory, threads=128, shared_bytes=2048, schedule=schedule, races=True))


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_global_to_shared(schedule: Schedule, space: str) -> None:
    memory = Memory()
    data = np.arange(128, dtype=np.uint32) * 7
    out = memory.empty(128, np.uint32)
    body = f"""
    {init_barrier(BAR)}
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512;
    @%p0 cp.async.bulk.{space}.global.{DONE} [2048], [%a1], 256, [{BAR}];
    @%p0 cp.async.bulk.{space}.global.{DONE}.L2::cache_hint [2304], [%a1+256], 256, [{BAR}], %rd9;
    {wait(BAR)} {DUMP}"""
    result = clean(
        run(
            body, [out, memory.buffer(data)], memory=memory, threads=128, shared_bytes=2048, schedule=schedule
        )
    )
    assert (out.numpy() == data).all() and result.counters["bulk_bytes"] == 512


@pytest.mark.parametrize("schedule", POLICIES)
def test_shared_to_the_peer(schedule: Schedule) -> None:
    memory = Memory()
    data = np.arange(128, dtype=np.uint32)
    out = memory.empty((2, 128), np.uint32)
    body = f"""
    {init_barrier(BAR)} {FILL} mov.u32 %r20, %cluster_ctarank; add.u32 %r2, %r2, %r20; st.shared.u32 [%r1], %r2;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512; fence.proxy.async; {CLUSTER_SYNC}
    xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, 2560, %r21; mapa.shared::cluster.u32 %r23, {BAR}, %r21;
    @%p0 cp.async.bulk.shared::cluster.shared::cta.{DONE} [%r22], [2048], 512, [%r23];
    {wait(BAR)} {CLUSTER_SYNC}
    mad.wide.u32 %rd31, %r20, 512, %a0; mov.u64 %a0, %rd31; {DUMP.replace("2048", "2560")}"""
    clean(
        run(
            body,
            [out, memory.buffer(data)],
            memory=memory,
            threads=128,
            cluster=2,
            shared_bytes=2560,
            schedule=schedule,
        )
    )
    assert (out.numpy() == np.stack([data + 1, data])).all()


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("add", [False, True])
def test_shared_to_global(schedule: Schedule, add: bool) -> None:
    rng = np.random.default_rng(1)
    values, before = (rng.standard_normal(128).astype(np.float32) for _ in range(2))
    specials = np.array([0x00000001, 0x80000001, 0x7FC12345, 0x7F812345, 0x80000000], np.uint32).view(
        np.float32
    )
    values[:5], before[:5] = 0, specials
    target = before.copy()
    spelling = (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
        if add
        else "cp.async.bulk.global.shared::cta.bulk_group"
    )
    hinted = spelling.replace(".add.f32", ".L2::cache_hint.add.f32") if add else spelling + ".L2::cache_hint"
    stored(f"{spelling} [%a0], [2048], 256; {hinted} [%a0+256], [2304], 256, %rd9;", target, values, schedule)
    with np.errstate(invalid="ignore"):
        same_f32(target, before + values if add else values)
    if add:  # as seen on silicon: subnormals are kept, NaN is canonical, -0 + 0 = +0
        assert target.view(np.uint32)[:5].tolist() == [1, 0x80000001, 0x7FFFFFFF, 0x7FFFFFFF, 0]


@pytest.mark.parametrize("schedule", POLICIES)
def test_wait_group_read_lets_the_source_be_reused(schedule: Schedule) -> None:
    memory = Memory()
    data, target = np.arange(128, dtype=np.uint32), np.zeros(256, np.uint32)
    body = f"""
    {FILL} setp.eq.u32 %p0, %t, 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 512; @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group.read 0; bar.sync 0;
    add.u32 %r2, %r2, 1000; st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0+512], [2048], 512; @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group.read 1; @%p0 cp.async.bulk.wait_group 0;"""
    clean(
        run(
            body,
            [memory.buffer(target), memory.buffer(data)],
            memory=memory,
            threads=128,
            shared_bytes=2048,
            schedule=schedule,
        )
    )
    assert (target == np.concatenate([data, data + 1000])).all()


def test_without_the_wait_late_reads_see_the_new_bytes() -> None:
    memory = Memory()
    data, target = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    body = f"""
    {FILL} setp.eq.u32 %p0, %t, 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 512; @%p0 cp.async.bulk.commit_group; bar.sync 0;
    add.u32 %r2, %r2, 1000; st.shared.u32 [%r1], %r2; bar.sync 0;
    @%p0 cp.async.bulk.wait_group 0;"""
    args = [memory.buffer(target), memory.buffer(data)]
    run(body, args, memory=memory, threads=128, shared_bytes=2048, schedule=Schedule("late"))
    assert (target == data + 1000).all()
    run(body, args, memory=memory, threads=128, shared_bytes=2048, schedule=Schedule("early"))
    assert (target == data).all()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"cp.async.bulk.shared::cta.global.{DONE} [2056], [%a0], 16, [{BAR}];", "misaligned"),
        (f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0+8], 16, [{BAR}];", "misaligned"),
        (f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0], 24, [{BAR}];", "misaligned"),
        (f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0], 0, [{BAR}];", "misaligned"),
        (f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0+512], 16, [{BAR}];", "global-out-of-bounds"),
        (
            f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0], 0xfffffff0, [{BAR}];",
            "shared-out-of-bounds",
        ),
        (f"cp.async.bulk.shared::cta.global.{DONE} [2048], [%a0], 16, [2048];", "mbarrier-uninitialised"),
        (f"cp.async.bulk.shared::cta.global.{DONE} [{BAR}], [%a0], 16, [{BAR}];", "mbarrier-overwritten"),
        (f"cp.async.bulk.shared::cluster.global.{DONE} [2048], [%a0], 16, [0x1000400];", "tma-barrier-cta"),
        (
            f"cp.async.bulk.shared::cluster.shared::cta.{DONE} [0x1000800], [2304], 16, [0x1000400];",
            "shared-uninitialised",
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%a0], [2304], 16;", "shared-uninitialised"),
        (f"cp.async.bulk.global.shared::cta.bulk_group [%a0], [{BAR}], 16;", "mbarrier-read-as-data"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%a0+512], [2048], 1024;", "shared-out-of-bounds"),
    ],
)
def test_misuse(line: str, code: str) -> None:
    memory = Memory()
    body = f"{init_barrier(BAR)}\n{CLUSTER_SYNC}\n@%p0 {line}"
    result = run(
        body, [memory.buffer(np.zeros(512, np.uint8))], memory=memory, cluster=2, shared_bytes=1024 + 512
    )
    assert code in codes(result) and result.findings[0].machine.instruction == line.split()[0]


@pytest.mark.parametrize("line", [f"cp.async.bulk.shared::cta.global.{DONE}.multicast::cluster [2048], [%a0], 16, [{BAR}], 3;",
                                  "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%a0], [2048], 16;",
                                  f"cp.reduce.async.bulk.shared::cluster.shared::cta.{DONE}.add.f32 [2048], [2064], 16, [{BAR}];",
                                  f"cp.async.bulk.shared::cta.shared::cta.{DONE} [2048], [2064], 16, [{BAR}];"])  # fmt: skip
def test_other_copies_are_refused(line: str) -> None:
    memory = Memory()
    with pytest.raises(UnsupportedInstruction):
        run(line, [memory.buffer(np.zeros(512, np.uint8))], memory=memory, shared_bytes=2048)


@pytest.mark.parametrize("schedule", POLICIES)
def test_multicast(schedule: Schedule) -> None:
    """Rank 0 copies to both CTAs; each waits on its own barrier."""
    memory = Memory()
    data, out = np.arange(32, dtype=np.uint32), memory.empty((2, 32), np.uint32)
    body = f"""
    {init_barrier(BAR)} mov.u32 %r20, %cluster_ctarank; setp.eq.and.u32 %p1, %r20, 0, %p0; mov.b16 %h1, 3;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 128; fence.proxy.async; {CLUSTER_SYNC}
    @%p1 cp.async.bulk.shared::cluster.global.{DONE}.multicast::cluster.L2::cache_hint [2048], [%a1], 128, [{BAR}], %h1, %rd9;
    {wait(BAR)} {CLUSTER_SYNC} mad.wide.u32 %rd31, %r20, 128, %a0; mov.u64 %a0, %rd31; {DUMP}"""
    args = [out, memory.buffer(data)]
    clean(run(body, args, memory=memory, cluster=2, shared_bytes=2048, schedule=schedule, races=True))
    assert (out.numpy() == data).all()
    away = body.replace("mov.b16 %h1, 3", "mov.b16 %h1, 5")
    assert "shared-no-such-cta" in codes(
        run(away, args, memory=memory, cluster=2, shared_bytes=2048, schedule=schedule)
    )


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("mask", [0xFFFF, 0x0001, 0x8421, 0x0FF0, 0])
def test_byte_masks(schedule: Schedule, mask: int) -> None:
    data, target = np.arange(128, dtype=np.uint32), np.full(512, 255, np.uint8)
    masked = "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask"
    stored(f"mov.b16 %h1, {mask}; {masked} [%a0], [2048], 512, %rd9, %h1;", target, data, schedule)
    chosen = np.tile([mask >> k & 1 for k in range(16)], 32).astype(bool)
    assert (target == np.where(chosen, data.view(np.uint8), 255)).all()


BITS = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": BF16,
}
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": lambda a, b: np.where(a >= b, 0, a + 1), "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
}  # fmt: skip
REDUCTIONS = [(op, t) for op, types in {"add": "u32 s32 u64 f64 f16 bf16", "min": "u32 s32 u64 s64 f16 bf16", "max": "u32 s32 u64 s64 f16 bf16",
                                        "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "inc": "u32", "dec": "u32"}.items() for t in types.split()]  # fmt: skip


def operands(op: str, type_: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    kind = np.dtype(BITS[type_])
    rng = np.random.default_rng(3)
    count = 512 // kind.itemsize
    if "f" in type_:
        a, b = (rng.standard_normal(count).astype(kind) for _ in range(2))
        a[:2], b[:2] = np.array([0, 6e4], kind), np.array([-1, 6e4], kind)
    else:
        low, high = (0, 8) if op in ("inc", "dec") else (np.iinfo(kind).min, np.iinfo(kind).max)
        a, b = (rng.integers(low, high, count, dtype=kind) for _ in range(2))
    with np.errstate(over="ignore"):
        want = (
            OPERATIONS[op](a.astype(np.float64), b.astype(np.float64)).astype(kind)
            if type_ in ("f16", "bf16")
            else OPERATIONS[op](a, b)
        )
    return a, b, want.astype(kind)


@pytest.mark.parametrize(("op", "type_"), REDUCTIONS)
@pytest.mark.parametrize("schedule", [Schedule("late"), Schedule("random", 1)])
def test_reductions_to_global(op: str, type_: str, schedule: Schedule) -> None:
    before, values, want = operands(op, type_)
    noftz = ".noftz" if op == "add" and type_ in ("f16", "bf16") else ""
    reduce = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{noftz}.{type_}"
    stored(f"{reduce} [%a0], [2048], 512;", before, values, schedule)
    assert before.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("op", "type_"),
    [(op, t) for op, t in REDUCTIONS if t in ("u32", "s32", "b32") or (op, t) == ("add", "u64")],
)
@pytest.mark.parametrize("schedule", POLICIES)
def test_reductions_to_the_peer(op: str, type_: str, schedule: Schedule) -> None:
    before, values, want = operands(op, type_)
    memory = Memory()
    out = memory.empty((2, 128), np.uint32)
    body = f"""
    {init_barrier(BAR)} {FILL} mad.wide.u32 %rd1, %t, 4, %a2; ld.global.u32 %r3, [%rd1]; st.shared.u32 [%r1+512], %r3;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512; fence.proxy.async; {CLUSTER_SYNC}
    mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, 2560, %r21; mapa.shared::cluster.u32 %r23, {BAR}, %r21;
    @%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.{DONE}.{op}.{type_} [%r22], [2048], 512, [%r23];
    {wait(BAR)} {CLUSTER_SYNC} mad.wide.u32 %rd31, %r20, 512, %a0; mov.u64 %a0, %rd31; {DUMP.replace("2048", "2560")}"""
    args = [out, memory.buffer(values.view(np.uint32)), memory.buffer(before.view(np.uint32))]
    clean(
        run(
            body,
            args,
            memory=memory,
            threads=128,
            cluster=2,
            shared_bytes=2560,
            schedule=schedule,
            races=True,
        )
    )
    assert (out.numpy() == want.view(np.uint32)).all()
    unwaited = run(
        body.split("WAIT_")[0] + body[body.rindex(CLUSTER_SYNC) :],
        args,
        memory=memory,
        threads=128,
        cluster=2,
        shared_bytes=2560,
        schedule=schedule,
        races=True,
    )
    assert codes(unwaited) & {"race-copy-unwaited", "race-exit", "access-after-exit"}


def test_a_copy_by_a_whole_warp_is_issued_once_a_lane() -> None:
    """As on silicon: 32 lanes add 32 times; 5 lanes 5 times."""
    for lanes in (32, 5):
        memory = Memory()
        target = np.zeros(4, np.uint32)
        body = f"""
        setp.lt.u32 %p1, %t, {lanes}; setp.eq.u32 %p0, %t, 0; @%p0 st.shared.v4.u32 [2048], {{1, 2, 3, 4}}; fence.proxy.async; bar.warp.sync -1;
        @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a0], [2048], 16;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
        clean(
            run(
                body,
                [memory.buffer(target)],
                memory=memory,
                shared_bytes=2048,
                schedule=Schedule("random", 1),
                races=True,
            )
        )
        assert (target == lanes * np.arange(1, 5)).all()


def test_prefetches_are_checked() -> None:
    memory = Memory()
    args = [memory.buffer(np.zeros(512, np.uint8))]
    line = "cp.async.bulk.prefetch.L2.global [%a0], 512;"
    clean(run(line, args, memory=memory))
    assert codes(run(line.replace("512", "528"), args, memory=memory)) == {"global-out-of-bounds"}
    assert codes(run(line.replace("512", "8"), args, memory=memory)) == {"misaligned"}
