# ruff: noqa: E501 - PTX lines are kept whole
"""Programs of a fifth and a sixth adversary that were certified in a schedule which another schedule contradicts: what lanes of
a warp do that a branch has parted, and findings and bytes that nothing compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, TensorMap
from tileproof.emulator.memory import Buffer
from tileproof.spec.machine.descriptors import SmemDescriptor

from tests.emulator.test_certificate_lanes import OUT, STUCK, WARPS, arrive, parted, waits
from tests.emulator.test_certificate_state import product, products
from tests.kit.grid_chains import stream_of
from tests.kit.ptx import Memory, alloc, dealloc, init_barrier, run, wait

NAMES = ["early", "late", "late-newest", "starve:seed=1", *(f"random:seed={seed}" for seed in range(8))]
SCHEDULES = [Schedule.parse(name) for name in NAMES]
# Lanes 0 to 15 wait for a time, so that the others of their warp may run ahead.
HALVES = f"@%p1 bra Z; @!%p2 bra J; {STUCK} J:"
# Likewise lane 0 alone.
FIRST = f"@%p1 bra Z; @!%p12 bra J; {STUCK} J:"
ALL = "setp.eq.u32 %p6, %t, %t;"


def row(memory: Memory, out: Buffer) -> TensorMap:
    return TensorMap.tiled(out, shape=[4, 1], strides=[16], box=[4, 2], dtype=np.uint32)


BYTES = f"""{init_barrier(1024)} {WARPS} setp.lt.u32 %p5, %t, 2; mov.u32 %r3, 9; @%p1 bra B; @!%p5 exit; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [1024], 16; exit;
B: @!%p0 exit; mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], 16; {waits(1024, 0, "V")} mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], 16; {waits(1024, 1, "W")} {OUT} exit;"""
STORE = f"{parted(1)} {FIRST} @%p12 ld.{{0}} %r3, [{{1}}]; st.{{0}} [{{1}}], %r4; {OUT} Z: exit;".replace(
    "bar.sync 0;", "@%p12 st.{0} [{1}], %r8; bar.sync 0;", 2
)
STANDS = f"""{init_barrier(1024, 2)} {WARPS} @%p12 mbarrier.init.shared.b64 [1032], 1; @%p12 st.shared.u32 [1200], %r8; bar.sync 0; mov.u32 %r3, 3; @%p1 bra B;
setp.eq.u32 %p4, %t, 1; setp.lt.u32 %p5, %t, 2; sub.u32 %r20, %t, 5; setp.lt.u32 %p6, %r20, 2; @%p4 ld.shared.u32 %r3, [1200]; @%p6 bra C; @%p5 bra D; exit;
C: {waits(1032, 0, "W")} ld.shared.u32 %r3, [1200]; {OUT} exit; D: ld.shared.u32 %r3, [1200]; {OUT} {arrive(1024)} exit;
B: @!%p0 exit; {arrive(1032)} {waits(1024, 0, "V")} st.shared.u32 [1200], %r4; exit;"""
TOKEN = f"""{parted(32).replace("bar.sync 0;", "mad.lo.u32 %r20, %t, 4, 1280; mov.u32 %r21, 0; st.shared.u32 [%r20], %r21; bar.sync 0;")} {FIRST} {arrive(1032)} st.shared.u32 [%r20], %r4; {arrive(1032)}
K: mbarrier.try_wait.shared::cta.b64 %p15, [1032], %rd1; @!%p15 bra K; ld.shared.u32 %r3, [1280]; {OUT} Z: exit;"""
IDS = f"{parted(1)} {FIRST} mov.u32 %r9, 2; @%p12 mov.u32 %r9, 1; barrier.sync %r9, 64; {OUT} exit; Z: barrier.sync 1, 64; exit;"
BOX = f"""{WARPS} mov.u32 %r7, 0; @!%p0 exit; add.u32 %r20, %r101, 41; mad.lo.u32 %r50, %r101, 128, 1152; st.shared.v4.u32 [%r50], {{%r20, %r20, %r20, %r20}}; fence.proxy.async;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {{%r7, %r7}}], [%r50]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; exit;"""
WARNINGS = "\n".join(
    f"P{k}: mbarrier.try_wait.parity.shared::cta.b64 %p15, [1024], 3; @!%p15 bra P{k};" for k in range(4100)
)
DROPPED = f"{init_barrier(1024)} {WARPS} mov.f32 %f1, 0f3f800000; @%p1 mov.f32 %f1, 0f3f800001; @!%p0 exit;\n{WARNINGS}\nst.global.f32 [%a0+512], %f1; exit;"
AGENTS = f"""mov.u32 %r9, %ctaid.x; mov.u32 %r4, 7; shr.u32 %r101, %t, 5; setp.eq.u32 %p1, %r101, 0; and.b32 %r102, %t, 31; setp.eq.u32 %p0, %r102, 0; @!%p0 exit;
setp.eq.u32 %p2, %r9, 0; @!%p2 bra SECOND; @%p1 st.release.gpu.global.u32 [%a0+768], %r4; exit; SECOND: @%p1 bra B; st.global.u32 [%a0+512], %r4; exit;
B: mov.u32 %r10, 0; LOOP: mbarrier.init.shared.b64 [1024], 1; add.u32 %r10, %r10, 1; setp.eq.u32 %p3, %r10, 65536; @%p3 bra LAST; mbarrier.inval.shared.b64 [1024]; bra LOOP;
LAST: mbarrier.arrive.shared::cta.b64 %rd1, [1024]; {wait(1024)} ld.global.u32 %r3, [%a0+512]; mad.wide.u32 %rd5, %t, 4, %a0; st.global.u32 [%rd5], %r3; exit;"""
USED = f"""{init_barrier(1024)} {alloc(32)} mov.u32 %r3, 0; and.b32 %r102, %t, 31; setp.lt.u32 %p2, %r102, 16; setp.eq.u32 %p12, %t, 0; @%p12 mbarrier.init.shared.b64 [1040], 1; bar.sync 0;
shl.b32 %r50, %r101, 21; add.u32 %r51, %r100, %r50; mov.b32 %r70, 5; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {{%r70}}; tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r60}}, [%r51];
@%p2 bra A; {STUCK}\nadd.u32 %r3, %r60, 1; bra E;\nA: {STUCK}\nadd.u32 %r3, %r60, 2;\nE: tcgen05.wait::ld.sync.aligned; {OUT} {dealloc(32)}"""


HALF = f"""{WARPS} mov.u32 %r7, 0; @!%p0 exit; @%p1 bra B; mov.u32 %r20, 41; mov.u32 %r50, 1152; st.shared.v4.u32 [%r50], {{%r20, %r20, %r20, %r20}}; add.u64 %rd7, %a0, 512; COPY fence.proxy.async;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a1, {{%r7, %r7}}], [%r50]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.wait_all; exit; B: STORE exit;"""
COPY = "cp.async.ca.shared.global [%r50+16], [%rd7], 8; cp.async.commit_group;"
LOOP = f"""{parted(1)} {ALL} @%p1 bra Z; selp.u32 %r60, 0, 1, %p2; mov.u32 %r61, 0; @!%p2 bra J; {STUCK} J:
L: setp.eq.u32 %p7, %r60, %r61; SYNC add.u32 %r61, %r61, 1; setp.lt.u32 %p8, %r61, 2; @%p8 bra L; mov.u32 %r3, 5; {OUT} exit; Z: OTHER exit;"""
A, B = (SmemDescriptor(at, 2048, 128, "none").encode() for at in (10240, 6144))
PRODUCT = f"mov.u64 %rd5, {A}; mov.u64 %rd6, {B}; tcgen05.mma.cta_group::1.kind::f16 [%r100], %rd5, %rd6, %r103, %p3; tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [1024];"
# Rows 0 to 63 of A are written; of the others, whose results nobody reads, warp 1 writes 8 bytes.
PADDING = products(f"""mov.u32 %r1, 0; shl.b32 %r2, %t, 4; add.u32 %r2, %r2, 10240; st.shared.v4.u32 [%r2], {{%r1,%r1,%r1,%r1}}; st.shared.v4.u32 [%r2+2048], {{%r1,%r1,%r1,%r1}}; fence.proxy.async; bar.sync 0;
setp.eq.u32 %p10, %t, 0; setp.eq.u32 %p11, %t, 32; shr.u32 %r101, %t, 5; shl.b32 %r50, %r101, 21; add.u32 %r51, %r100, %r50; @%p11 st.shared.v2.u32 [11264], {{%r1,%r1}}; @!%p10 bra I; {PRODUCT} I: {wait(1024)} tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r3}}, [%r51]; tcgen05.wait::ld.sync.aligned; {OUT} tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;""")
ENDS = f"""{parted(1)} @%p1 bra Z; @%p2 bra A; {STUCK} exit; A: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r3, 5; {OUT} exit;
Z: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; exit;"""


def skipped(instruction: str, other: str = "") -> str:
    """Lanes 0 to 15 execute it, the others skip it and exit; warp 1 executes `other`."""
    return f"{parted(1)} {ALL} {HALVES} {instruction} exit; Z: {other} exit;"


PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "bytes that two lanes deliver in two phases": (BYTES, {}),
    "a store of a warp to the word that its first lane has read": (STORE.format("shared.u32", "1200"), {}),
    "the same in global memory": (STORE.format("global.u32", "%a0+512"), {}),
    "a read that stands for reads of other lanes": (STANDS, {}),
    "arrivals of a warp at an mbarrier of its first lane": (f"{parted(1)} {FIRST} @%p12 mbarrier.init.shared.b64 [1048], 32; {arrive(1048)} {OUT} Z: exit;", {}),
    "waits of a warp for an mbarrier of its first lane": (f"{parted(1)} {FIRST} @%p12 mbarrier.init.shared.b64 [1048], 1; @%p12 {arrive(1048)} {waits(1048, 0, 'W')} {OUT} Z: exit;", {}),
    "two arrivals of a warp": (f"{parted(32)} {FIRST} {arrive(1032)} {arrive(1032)} Z: exit;", {}),
    "two arrivals of a warp and a wait by the token": (TOKEN, {}),
    "lanes that come to several barriers": (IDS, {}),
    "a cluster barrier that lanes skip": (skipped("@%p2 barrier.cluster.arrive.aligned; @%p2 barrier.cluster.wait.aligned;", "barrier.cluster.arrive; barrier.cluster.wait;"), {}),
    "a vote that lanes skip": (skipped("@%p2 vote.sync.ballot.b32 %r3, %p6, 0xffffffff;"), {}),
    "bar.warp.sync that lanes skip": (skipped("@%p2 bar.warp.sync 0xffffffff;"), {}),
    "elect that lanes skip": (skipped("@%p2 elect.sync %r9|%p7, 0xffffffff;"), {}),
    "bar.sync that lanes skip": (skipped("@%p2 bar.sync 1, 64;", "bar.sync 1, 64;"), {}),
    "barrier.sync that lanes skip": (skipped("@%p2 barrier.sync 1, 64;", "bar.sync 1, 64;"), {}),
    "stores of a box whose row outside nobody wrote": (BOX, {"maps": [row]}),
    "stores of such boxes by two clusters": (BOX.replace("add.u32 %r20, %r101, 41", "mov.u32 %r101, %ctaid.x; add.u32 %r20, %r101, 41"), {"maps": [row], "grid": 2, "threads": 32}),
    "a box whose row outside another warp writes in part": (HALF.replace("COPY", "").replace("STORE", "mov.u32 %r50, 1152; st.shared.v2.u32 [%r50+16], {%r7, %r7};"), {"maps": [row]}),
    "a box whose row outside a copy writes in part": (HALF.replace("COPY", COPY).replace("STORE", ""), {"maps": [row]}),
    "a product of rows of which another warp writes a part": (PADDING, {"shared_bytes": 16384}),
    "a vote that lanes skip in one trip of a loop": (LOOP.replace("SYNC", "@%p7 vote.sync.ballot.b32 %r3, %p6, 0xffffffff;").replace("OTHER", ""), {}),
    "bar.sync that lanes skip in one trip of a loop": (LOOP.replace("SYNC", "@%p7 bar.sync 1, 64;").replace("OTHER", "bar.sync 1, 64;"), {}),
    "fence.sc of lanes that have parted": (f"{parted(1)} @%p1 bra Z; setp.lt.u32 %p5, %t, 2; @!%p5 exit; @!%p12 bra J; {STUCK} J: fence.sc.gpu; {OUT} Z: exit;", {}),
    "more warnings than are kept": (DROPPED, {"few": True}),
    "more mbarriers than the race checker distinguishes": (AGENTS, {"grid": 2, "few": True}),
    "halves of a warp that vote each": (f"{parted(1)} mov.u32 %r10, 0xffff0000; @%p2 mov.u32 %r10, 0xffff; {ALL} {HALVES} vote.sync.ballot.b32 %r9, %p6, %r10; Z: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; exit;", {"strict": True}),
    "a vote of half a warp": (f"{parted(1)} {ALL} {HALVES} @%p2 vote.sync.ballot.b32 %r3, %p6, 0xffff; Z: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; exit;", {"strict": True}),
    "registers of tcgen05.ld that lanes use apart": (USED, {"threads": 32}),
}  # fmt: skip


def launched(body: str, schedule: Schedule, **how: Any) -> tuple[RunResult, bytes]:
    """The run, and the array at `%a0`."""
    memory = Memory()
    out = memory.buffer(np.zeros(256, np.uint32))
    makers: list[Callable[[Memory, Buffer], TensorMap]] = how.pop("maps", [])
    how = {"threads": 64, "shared_bytes": 4096} | how
    arguments = [out, *(make(memory, out) for make in makers)]
    return run(body, arguments, memory=memory, races=True, schedule=schedule, **how), out.numpy().tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_is_certified(name: str) -> None:
    body, how = PROGRAMS[name]
    how = dict(how)
    for schedule in SCHEDULES[: 6 if how.pop("few", False) else None]:
        assert not launched(body, schedule, **how)[0].certified, str(schedule)


def test_products_of_several_lanes_are_told_whether_or_not_they_run_together() -> None:
    lanes = f"""setp.lt.u32 %p5, %t, 2; setp.eq.u32 %p9, %t, 1; mov.u32 %r110, %r100; @%p9 mov.u32 %r110, %r102; mov.u32 %r111, 1024; @%p9 mov.u32 %r111, 1032;
    @%p0 mbarrier.init.shared.b64 [1040], 1; bar.sync 0; @!%p5 bra I; @!%p0 bra J; {STUCK} J: {product("", "%r110", 1024).replace("[1024]", "[%r111]")} I: {wait(1024)} {wait(1032)}"""
    for schedule in SCHEDULES:
        result, _ = launched(products(lanes), schedule, shared_bytes=16384)
        assert [f.code for f in result.findings] == ["mma-many-threads"]


def test_a_trigger_is_judged_by_what_its_lane_knows() -> None:
    warps = "shr.u32 %r101, %t, 5; setp.eq.u32 %p14, %r101, 0; setp.eq.u32 %p1, %r101, 1; and.b32 %r102, %t, 31; setp.eq.u32 %p0, %r102, 0; setp.eq.u32 %p12, %t, 0; setp.lt.u32 %p2, %r102, 16; setp.eq.u32 %p3, %r102, 16;"
    allocate = (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 512; ld.shared.u32 %r100, [1088];"
    )
    first = f"""{init_barrier(1024)} {warps} @%p12 mbarrier.init.shared.b64 [1032], 1; bar.sync 0; @%p1 bra B; @%p0 mbarrier.arrive.shared::cta.b64 %rd1, [1032];
    {allocate} bar.warp.sync 0xffffffff; @%p0 mbarrier.arrive.shared::cta.b64 %rd1, [1024]; bar.sync 1, 64; @%p14 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 512; exit;
    B: @!%p2 bra T; {wait(1024)} bra E; T: {wait(1032)} @%p3 griddepcontrol.launch_dependents; E: bar.sync 1, 64; exit;"""
    second = f"shr.u32 %r101, %t, 5; setp.eq.u32 %p14, %r101, 0; @!%p14 exit; {allocate} griddepcontrol.wait; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 512; exit;"
    for schedule in [*SCHEDULES, Schedule.parse("starve:seed=5"), Schedule.parse("random:seed=11")]:
        results, _ = stream_of([first, second], words=512, threads=64, schedule=schedule, shared_bytes=4096)
        assert [result.certified for result in results] == [True, False], str(schedule)


MEET = "bar.warp.sync 0xffffffff;"
TWINS: dict[str, tuple[str, dict[str, Any]]] = {
    "lanes that branch to their end beside an aligned barrier": (ENDS, {"strict": True}),
    "a warp that meets before it stores to one word": (STORE.format("shared.u32", "1200").replace("st.shared.u32 [1200], %r4;", f"{MEET} st.shared.u32 [1200], %r4;"), {}),
    "lanes that never part": (f"{parted(1)} @%p1 bra Z; @%p12 ld.shared.u32 %r3, [1200]; {MEET} st.shared.u32 [1200], %r4; Z: exit;".replace("bar.sync 0;", "@%p12 st.shared.u32 [1200], %r8; bar.sync 0;", 2), {}),
    "bytes that one lane delivers": (BYTES.replace("%t, 2;", "%t, 1;").replace("[1024], 16; exit;", "[1024], 16; exit;").replace(f" mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], 16; {waits(1024, 1, 'W')}", ""), {}),
    "arrivals of a warp that has met": (f"{parted(1)} {FIRST} @%p12 mbarrier.init.shared.b64 [1048], 32; {MEET} {arrive(1048)} {waits(1048, 0, 'W')} {OUT} Z: exit;", {}),
    "parted lanes with words of their own": (f"{parted(1)} mad.lo.u32 %r20, %t, 4, 1280; {FIRST} st.shared.u32 [%r20], %r4; ld.shared.u32 %r3, [%r20]; {OUT} Z: exit;", {}),
    "a vote of each half that comes apart": (f"{parted(1)} {ALL} @%p1 bra Z; @%p2 bra A; vote.sync.ballot.b32 %r3, %p6, 0xffff0000; bra E; A: vote.sync.ballot.b32 %r3, %p6, 0xffff; E: {OUT} Z: exit;", {}),
    "the last box of a tensor, written whole": (BOX.replace("@!%p0 exit;", "@!%p12 exit;"), {"maps": [row]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_right_programs_are_certified(name: str) -> None:
    body, how = TWINS[name]
    runs = [launched(body, schedule, **how) for schedule in SCHEDULES]
    for result, _ in runs:
        assert not result.errors and result.certified, str(result.certificate or result.findings)
    assert len({output for _, output in runs}) == 1


def test_allocations_in_turn_are_told_apart() -> None:
    turns = "mov.u32 %r9, 0; L: tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 32; ld.shared.u32 %r100, [1088]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 33000; @%p1 bra L;"
    result, _ = launched(turns, SCHEDULES[0], threads=32)
    assert not result.errors and result.certified
