# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Flat bulk copies, bulk reductions and bulk async-groups."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kit import CLUSTER_SYNC, POLICIES, Memory, clean, codes, init_barrier, run, wait
from tileproof.emulator import Schedule, UnsupportedInstruction
from values import same_f32

COVERS = "cp.async.bulk cp.reduce.async.bulk cp.async.bulk.commit_group cp.async.bulk.wait_group"

BAR = 1024
DONE = "mbarrier::complete_tx::bytes"
FILL = "mad.lo.u32 %r1, %t, 4, 2048; mad.wide.u32 %rd1, %t, 4, %a1; ld.global.u32 %r2, [%rd1]; st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0;"
DUMP = "mad.lo.u32 %r1, %t, 4, 2048; ld.shared.u32 %r2, [%r1]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r2;"


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
    memory = Memory()
    target = before.copy()
    spelling = (
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
        if add
        else "cp.async.bulk.global.shared::cta.bulk_group"
    )
    body = f"""
    {FILL} setp.eq.u32 %p0, %t, 0; @!%p0 bra END;
    {spelling} [%a0], [2048], 256; {spelling.replace(".add.f32", ".L2::cache_hint.add.f32") if add else spelling + ".L2::cache_hint"} [%a0+256], [2304], 256, %rd9;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    clean(
        run(
            body,
            [memory.buffer(target), memory.buffer(values)],
            memory=memory,
            threads=128,
            shared_bytes=2048,
            schedule=schedule,
        )
    )
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
    assert code in codes(result) and result.findings[0].instruction == line.split()[0]


@pytest.mark.parametrize("line", [f"cp.async.bulk.shared::cluster.global.{DONE}.multicast::cluster [2048], [%a0], 16, [{BAR}], 3;",
                                  "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%a0], [2048], 16;",
                                  "cp.async.bulk.prefetch.L2.global [%a0], 16;"])  # fmt: skip
def test_other_copies_are_refused(line: str) -> None:
    memory = Memory()
    with pytest.raises(UnsupportedInstruction):
        run(line, [memory.buffer(np.zeros(512, np.uint8))], memory=memory, shared_bytes=2048)
