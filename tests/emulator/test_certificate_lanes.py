# ruff: noqa: E501 - PTX lines are kept whole
"""Programs of a third adversary that were certified in a schedule which another schedule contradicts: lanes of a
warp that part, announced bytes, fences of several lanes, pairs of CTAs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, TensorMap

from tests.kit.ptx import CLUSTER_SYNC, Memory, init_barrier, run, wait

SCHEDULES = [Schedule.parse(name) for name in ("early", "late")]
SCHEDULES += [Schedule.parse(f"replay:base=early:w0.{w}.{lane}@{step}") for w in (0, 1) for lane in (0, 16) for step in range(6)]  # fmt: skip
SCHEDULES += [Schedule.parse(f"random:seed={seed}") for seed in range(12)]

WARPS = "shr.u32 %r101, %t, 5; and.b32 %r102, %t, 31; setp.eq.u32 %p0, %r102, 0; setp.eq.u32 %p1, %r101, 1; setp.lt.u32 %p2, %r102, 16; setp.eq.u32 %p9, %t, 7777; setp.eq.u32 %p3, %r101, 2; setp.eq.u32 %p12, %t, 0; setp.eq.u32 %p11, %t, 32; setp.eq.u32 %p13, %t, 48; mov.u32 %r8, 1; mov.u32 %r4, 7;"
OUT = "mad.wide.u32 %rd5, %t, 4, %a0; st.global.u32 [%rd5], %r3;"
STUCK = (
    "mbarrier.try_wait.parity.shared::cta.b64 %p14, [1040], 0;"  # parts its lanes from the others of the warp
)
ARRIVE_TX, EXPECT = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], {};",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [1024], {};",
)
COMPLETE = "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [1024], {};"


def arrive(offset: int, count: int = 1) -> str:
    return f"mbarrier.arrive.shared::cta.b64 %rd1, [{offset}], {count};"


def waits(offset: int, phase: int, label: str) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p15, [{offset}], {phase}; @!%p15 bra {label};"


def parted(count: int, init: bool = True) -> str:
    """Mbarriers at 1024, 1032 (`count` arrivals) and 1040, of which nothing ends the first phase of the last."""
    second = f"@%p12 mbarrier.init.shared.b64 [1032], {count};" if init else ""
    return f"{init_barrier(1024)} {WARPS} @%p12 mbarrier.init.shared.b64 [1040], 1; {second} bar.sync 0; mov.u32 %r3, 3;"


ROW = "mov.u32 %r4, 1200; mad.lo.u32 %r4, %t, 4, %r4; st.shared.u32 [%r4], %r3;"
FLAG, BESIDE = "[%a0+512]", "[%a0+516]"
TWO_MASKS = f"""{init_barrier(1024)} {WARPS} @%p12 mbarrier.init.shared.b64 [1032], 1; bar.sync 0; @%p1 bra P;
setp.eq.u32 %p6, %t, %t; mov.u32 %r3, 0; setp.lt.u32 %p3, %t, 2; mov.u32 %r10, 0xc; @%p3 mov.u32 %r10, 3;
setp.gt.u32 %p4, %t, 3; @%p4 bra X; setp.eq.u32 %p5, %t, 0; @%p5 bra A; setp.eq.u32 %p7, %t, 3; @%p7 bra B; @%p9 bra X; bra L;
A: {waits(1024, 0, "WA")} @%p9 bra X; bra L; B: {waits(1032, 0, "WB")} @%p9 bra X; bra L;
L: vote.sync.ballot.b32 %r3, %p6, %r10; {OUT} bra X; P: @%p0 {arrive(1024)} @%p0 {arrive(1032)} X:"""
RELINQUISH = f"""{CLUSTER_SYNC} shr.u32 %r101, %t, 5; setp.eq.u32 %p14, %r101, 0; mov.u32 %r90, %cluster_ctarank; setp.eq.u32 %p5, %r90, 0; setp.eq.u32 %p13, %r101, 1;
@%p14 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [1088], 512; bar.sync 0; {CLUSTER_SYNC} ld.shared.u32 %r100, [1088];
@%p14 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned; @!%p5 bar.sync 1, 64;
@%p13 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r100, 512; {CLUSTER_SYNC} exit;"""
REMOTE = f"""{init_barrier(1024)} {WARPS} mov.u32 %r90, %cluster_ctarank; setp.eq.u32 %p5, %r90, 1; fence.mbarrier_init.release.cluster; mov.u32 %r3, 7; setp.eq.u32 %p11, %t, 16; mov.u32 %r91, 0x1000000;
{CLUSTER_SYNC} @%p5 bra W; @%p2 bra LO;
mad.lo.u32 %r92, %t, 4, %r91; add.u32 %r92, %r92, 1280; mov.u32 %r9, 0; LP: st.shared::cluster.u32 [%r92], %r3; add.u32 %r9, %r9, 1; setp.lt.u32 %p6, %r9, 4200; @%p6 bra LP;
bar.warp.sync 0xffff0000; add.u32 %r93, %r91, 1024; @%p11 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r93]; exit;
LO: mad.lo.u32 %r92, %t, 4, %r91; add.u32 %r92, %r92, 1100; st.shared::cluster.u32 [%r92], %r3; exit;
W: L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p15, [%r91+1024], 0; @!%p15 bra L; exit;"""
WRITTEN = f"""{init_barrier(1024)} {WARPS} mov.u32 %r90, %cluster_ctarank; setp.eq.u32 %p5, %r90, 1; fence.mbarrier_init.release.cluster; mov.u32 %r7, 0; mov.u32 %r3, 5;
{CLUSTER_SYNC} @%p5 bra SECOND; @%p12 mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], 128; {waits(1024, 0, "L")} {OUT} exit;
SECOND: mov.u32 %r50, 0x1000800; mov.u32 %r51, 1024; @%p12 cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r50], [%a1, {{%r7}}], [%r51]; exit;"""
SOURCE = f"""{init_barrier(1024)} {WARPS} mov.u32 %r4, 1; mov.u32 %r5, 5; mov.u32 %r3, 0; fence.mbarrier_init.release.cluster;
@%p12 st.shared.v4.u32 [1280], {{%r5,%r5,%r5,%r5}}; @%p12 st.shared.v4.u32 [1408], {{%r5,%r5,%r5,%r5}}; fence.proxy.async; bar.sync 0; @%p1 bra B;
mov.u32 %r50, 1280; mov.u32 %r51, 1024; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], 16;
@%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r50], [1408], 16, [%r51];
{waits(1024, 0, "L")} bar.sync 2, 64; ld.shared.u32 %r3, [1280]; {OUT} exit; B: ADD bar.sync 2, 64; exit;"""
TENSOR_ADD = "fence.proxy.async; cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [{}, {{{{%r3}}}}], [{}]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; exit;"
MAPS = f"""{WARPS} mov.u32 %r3, 0; mov.u32 %r1, 1; mov.u32 %r7, 0; @%p1 bra B; @!%p0 exit;
st.shared.v4.u32 [1152], {{%r1, %r7, %r7, %r7}}; {TENSOR_ADD.format("%a1", 1152).replace("{{", "{").replace("}}", "}")}
B: @!%p0 exit; st.shared.v4.u32 [1280], {{%r1, %r7, %r7, %r7}}; {TENSOR_ADD.format("%a2", 1280).replace("{{", "{").replace("}}", "}")}"""

PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "arrive.expect_tx of no bytes": (f"{init_barrier(1024, 2)} {WARPS} mov.u32 %r3, 9; @%p1 bra B; @%p3 bra C; @!%p0 exit; {ARRIVE_TX.format(0)} {EXPECT.format(16)} {COMPLETE.format(16)} exit; B: @%p0 {arrive(1024)} exit; C: {wait(1024)} {OUT} exit;", {"threads": 96}),
    "complete_tx by a thread": (f"{init_barrier(1024)} {WARPS} setp.eq.u32 %p4, %r101, 3; mov.u32 %r3, 9; @%p1 bra B; @%p3 bra B; @%p4 bra C; @!%p0 exit; {ARRIVE_TX.format(16)} {EXPECT.format(16)} exit; B: @%p0 {COMPLETE.format(16)} exit; C: {wait(1024)} {OUT} exit;", {"threads": 128}),
    "lanes at barrier.red and barrier.sync": (f"{WARPS} mov.u32 %r3, 0; setp.eq.u32 %p6, %t, %t; setp.eq.u32 %p7, %r102, 31; @%p2 bra B; @%p7 st.shared.u32 [1200], %r102; barrier.sync 1, 32; {OUT} exit; B: @%p0 st.shared.u32 [1300], %r102; barrier.red.popc.u32 %r3, 1, 32, %p6; {OUT} exit;", {"threads": 32}),
    "lanes with two counts": (f"{WARPS} mov.u32 %r3, 5; @%p2 bra B; {ROW} barrier.sync 1, 32; {OUT} exit; B: {ROW} barrier.sync 1, 64; {OUT} exit;", {"threads": 32}),
    "lanes that arrive and lanes that wait": (f"{WARPS} @%p12 st.shared.u32 [1100], %r8; bar.sync 0; mov.u32 %r3, 0; @!%p1 bra Z; @%p2 bra S; barrier.arrive 1, 64; ld.shared.u32 %r3, [1100]; {OUT} exit; S: barrier.sync 1, 64; {OUT} exit; Z: @%p0 st.shared.u32 [1100], %r4; barrier.sync 1, 64; exit;", {}),
    "lanes with two member masks": (TWO_MASKS, {}),
    "a .sync instruction that lanes skip": (parted(2) + f"mov.u32 %r12, 0xffff; setp.eq.u32 %p6, %t, %t; @%p3 bra C; @%p1 bra B; {STUCK} @%p12 {arrive(1024)} exit; B: @!%p2 bra J; {waits(1024, 0, 'L1')} @%p11 {arrive(1032, 2)} J: @%p2 vote.sync.ballot.b32 %r9, %p6, %r12; @%p13 {arrive(1032)} exit; C: {waits(1032, 0, 'L2')} exit;", {"threads": 96}),
    "the init, of the second group of lanes": (parted(0, init=False) + f"@%p1 bra B; {STUCK} @%p12 mbarrier.init.shared.b64 [1032], 32; @%p12 {arrive(1024)} exit; B: @!%p2 bra J; {waits(1024, 0, 'L')} J: {arrive(1032)} {OUT} exit;", {}),
    "the phase of cp.async.mbarrier.arrive, of the second group of lanes": (parted(32) + f"setp.eq.u32 %p10, %t, 64; @%p3 bra C; @%p1 bra B; {STUCK} @%p12 {arrive(1032, 32)} exit; B: @!%p2 bra J; {waits(1024, 0, 'L1')} J: cp.async.mbarrier.arrive.noinc.shared::cta.b64 [1032]; exit; C: {waits(1032, 0, 'L2')} bar.warp.sync 0xffffffff; @%p10 {arrive(1024)} {waits(1032, 1, 'L3')} exit;", {"threads": 96}),
    "an arrival of several lanes after an event of a single lane": (parted(32) + f"@%p1 bra Z; @!%p12 bra J; {STUCK} {arrive(1032, 32)} J: {arrive(1032)} Z: exit;", {}),
    "a release after the read, before the fence": (f"{WARPS} mov.u32 %r3, 0; @%p11 st.release.gpu.global.u32 {FLAG}, %r8; bar.sync 0; @%p1 bra B; @!%p12 bra A; ld.relaxed.gpu.global.u32 %r9, {FLAG}; A: bar.arrive 1, 64; @!%p12 exit; fence.acq_rel.gpu; ld.global.u32 %r3, {BESIDE}; {OUT} exit; B: bar.sync 1, 64; @!%p11 exit; st.global.u32 {BESIDE}, %r4; st.release.gpu.global.u32 {FLAG}, %r8; exit;", {}),
    "a fence of several lanes, released by a single lane": (f"setp.eq.u32 %p12, %t, 0; mov.u32 %r8, 1; @%p12 st.global.u32 {BESIDE}, %r8; @%p12 st.release.gpu.global.u32 {FLAG}, %r8; {parted(1)} setp.eq.u32 %p10, %t, 33; @%p1 bra B; @!%p12 exit; {waits(1032, 0, 'L')} ld.acquire.gpu.global.u32 %r9, {FLAG}; ld.global.u32 %r3, {BESIDE}; {OUT} exit; B: @!%p10 bra J; {STUCK} st.global.u32 {BESIDE}, %r4; J: fence.acq_rel.gpu; @%p11 st.relaxed.gpu.global.u32 {FLAG}, %r4; @%p11 {arrive(1032)} exit;", {}),
    "relinquish and dealloc of a pair": (RELINQUISH, {"cluster": 2}),
    "the exit of the CTA that a copy of a pair writes": (WRITTEN, {"threads": 32, "cluster": 2, "maps": [np.uint32]}),
    "4,096 accesses of another CTA": (REMOTE, {"threads": 32, "cluster": 2, "few": True}),
    "the source of a bulk reduction": (SOURCE.replace("ADD", "@%p0 red.shared.add.u32 [1408], %r4;"), {}),
    "additions by maps of two types": (MAPS, {"maps": [np.uint32, np.uint64]}),
}  # fmt: skip


def launched(body: str, schedule: Schedule, **how: Any) -> tuple[RunResult, bytes]:
    """The run, and the array at `%a0`."""
    memory = Memory()
    start = np.zeros(256, np.uint32)
    start[0] = 0xFFFFFFFF
    out = memory.buffer(start)
    maps = [
        TensorMap.tiled(out, shape=[1024 // size], strides=[], box=[128 // size if "cluster" in how else 16 // size], dtype=dtype)
        for dtype in how.pop("maps", []) if (size := np.dtype(dtype).itemsize)
    ]  # fmt: skip
    how = {"threads": 64, "shared_bytes": 4096} | how
    result = run(body, [out, *maps], memory=memory, races=True, schedule=schedule, **how)
    return result, out.numpy().tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_is_certified(name: str) -> None:
    body, how = PROGRAMS[name]
    how = dict(how)
    for schedule in SCHEDULES[: 4 if how.pop("few", False) else None]:
        assert not launched(body, schedule, **how)[0].certified, str(schedule)


TWINS = {
    "a member mask for all lanes": TWO_MASKS.replace("0xc", "0xf").replace("%r10, 3;", "%r10, 0xf;"),
    "two masks in a warp that is together": f"{WARPS} setp.eq.u32 %p6, %t, %t; mov.u32 %r10, 0xffff0000; @%p2 mov.u32 %r10, 0xffff; vote.sync.ballot.b32 %r3, %p6, %r10; {OUT} exit;",
    "a fence and a release by each lane": f"{WARPS} @%p1 bra B; add.u64 %rd2, %a0, 512; mad.wide.u32 %rd1, %t, 4, %rd2; st.global.u32 [%rd1], %r4; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd1+128], %r8; {arrive(1024)} exit; B: {wait(1024)} exit;".replace(WARPS, f"{init_barrier(1024, 32)} {WARPS}"),
    "bytes that are announced in an open phase": f"{init_barrier(1024)} {WARPS} mov.u32 %r3, 9; @%p1 bra C; @!%p0 exit; {ARRIVE_TX.format(16)} {EXPECT.format(16)} {COMPLETE.format(32)} exit; C: {wait(1024)} {OUT} exit;",
    "a bulk reduction and nobody else at its source": SOURCE.replace("ADD", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_right_programs_are_certified(name: str) -> None:
    runs = [launched(TWINS[name], schedule) for schedule in SCHEDULES[:6]]
    for result, _ in runs:
        assert not result.errors and result.certified, str(result.certificate or result.findings)
    assert len({output for _, output in runs}) == 1
