# ruff: noqa: E501 - PTX lines are kept whole
"""Programs of a fourth adversary in which a certified run and another schedule had different findings or values:
late passes of barriers, waits that time out, many producers, reductions by clusters in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, TensorMap

from tests.emulator.test_certificate_lanes import OUT, WARPS, arrive, launched, parted, waits
from tests.kit.ptx import Memory, init_barrier, run, wait

SCHEDULES = [Schedule.parse(name) for name in ("early", "late", "late-newest")]
SCHEDULES += [Schedule.parse(f"replay:base=early:w{rank}.{w}.{lane}@{step}") for rank in (0, 1) for w in (0, 1, 2) for lane in (0, 16) for step in range(8)]  # fmt: skip
SCHEDULES += [Schedule.parse(f"{policy}:seed={seed}") for policy in ("random", "starve") for seed in range(8)]

MORE = [Schedule.parse(f"random:seed={seed}") for seed in range(36, 48)]
RELAXED = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
LATE = f"""{WARPS} mov.u32 %r3, 0; mov.u32 %r4, 5; @%p12 st.shared.u32 [1280], %r8; bar.sync 0; @%p1 bra B; @%p3 bra C;
@%p0 st.shared.u32 [1280], %r4; bar.sync 1, 64; bar.sync 2, 64; bar.sync 1, 64; bar.sync 1, 64; {OUT} exit;
B: bar.sync 1, 64; ld.shared.u32 %r3, [1280]; {OUT} exit; C: bar.sync 2, 64; bar.sync 1, 64; bar.sync 1, 64; {OUT} exit;"""
IN_FLIGHT = f"""{init_barrier(1024)} {WARPS} fence.mbarrier_init.release.cluster; mov.u32 %r90, %cluster_ctarank; setp.eq.u32 %p5, %r90, 1; mov.u32 %r3, 4; mov.u32 %r50, 1280; mov.u32 %r51, 1024; mov.u32 %r91, 0; mapa.shared::cluster.u32 %r50, %r50, %r91; mapa.shared::cluster.u32 %r51, %r51, %r91;
{CLUSTER} @%p5 bra B; @%p0 st.shared.v4.u32 [1280], {{%r4,%r4,%r4,%r4}}; bar.warp.sync -1; {RELAXED} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [1024], BYTES; {RELAXED} {RELAXED} {waits(1024, 0, "L")} ld.shared.u32 %r3, [1280]; {OUT} {RELAXED} exit;
B: {RELAXED} @%p0 COPY {RELAXED} {RELAXED} {RELAXED} exit;"""
STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r50], %r3, [%r51];"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r50], [%a0+512], 16, [%r51];"
PRODUCERS = f"""setp.eq.u32 %p12, %t, 0; @%p12 mbarrier.init.shared.b64 [1024], 640; bar.sync 0; {WARPS} setp.eq.u32 %p13, %t, 992;
@%p13 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [1024], 16; @%p13 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [1024], 16;
{f"@%p0 {arrive(1024)} " * 20} bar.sync 0; @%p12 mbarrier.inval.shared.b64 [1024]; exit;"""
ALONE = f"""{init_barrier(1024)} {WARPS} mov.u32 %r3, 3; @%p3 bra T; barrier.sync 1, 64; @%p12 {arrive(1024)} barrier.sync 1, 96; {OUT} exit;
T: @%p2 bra LO; {wait(1024)} exit; LO: mad.lo.u32 %r5, %t, 4, 1280; st.shared.u32 [%r5], %r3; barrier.sync 1, 96; {OUT} exit;"""
TIMEOUT = "mbarrier.try_wait.parity.shared::cta.b64 %p14, [1040], 0;"

PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a named barrier passed two rounds late": (LATE, {"threads": 96}),
    "st.async in flight over two relaxed rounds": (IN_FLIGHT.replace("BYTES", "4").replace("COPY", STORE), {"threads": 32, "cluster": 2}),
    "a bulk copy in flight over two relaxed rounds": (IN_FLIGHT.replace("BYTES", "16").replace("COPY", BULK), {"threads": 32, "cluster": 2}),
    "five waits in turn that time out": (parted(1) + f"{TIMEOUT * 5} {OUT} exit;", {}),
    "more producers than are listed": (PRODUCERS, {"threads": 1024, "few": True}),
    "lanes that come to a barrier while others exit": (ALONE, {"threads": 96}),
}  # fmt: skip
CERTIFIED = {
    name
    for name in PROGRAMS
    if name not in ("more producers than are listed", "lanes that come to a barrier while others exit")
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_schedules_have_the_findings_and_values_of_a_certified_run(name: str) -> None:
    body, how = PROGRAMS[name]
    how = dict(how)
    schedules = SCHEDULES[:3] + SCHEDULES[-16:-8] if how.pop("few", False) else [*SCHEDULES, *MORE]
    runs = [launched(body, schedule, **how) for schedule in schedules]
    assert any(result.certified for result, _ in runs) == (name in CERTIFIED)
    assert len({(frozenset(f.code for f in result.findings), out) for result, out in runs}) == 1


def test_an_instruction_reduces_by_maps_of_two_types_in_clusters_in_turn() -> None:
    add = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [{}, {{{{%r3}}}}], [1152]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    by_register, by_first = (add.format(at).replace("{{", "{").replace("}}", "}") for at in ("%rd7", "%a1"))
    body = f"""mov.u32 %r1, 1; mov.u32 %r7, 0; setp.eq.u32 %p0, %t, 0; mov.u32 %r90, %ctaid.x; setp.eq.u32 %p5, %r90, 1; @!%p0 exit;
    st.shared.v4.u32 [1152], {{%r1,%r7,%r7,%r7}}; fence.proxy.async; @%p5 bra B; mov.u32 %r9, 0; mov.u32 %r3, 0; mov.b64 %rd7, %a1;
    L: {by_register} add.u32 %r9, %r9, 1; mov.u32 %r3, 32; mov.b64 %rd7, %a2; setp.lt.u32 %p6, %r9, 2; @%p6 bra L; exit;
    B: mov.u32 %r3, 64; {by_first} exit;"""
    for policy in ("early", "late", "late-newest", "random:seed=4"):
        memory = Memory()
        start = np.zeros(256, np.uint32)
        start[64] = 0xFFFFFFFF
        out = memory.buffer(start)
        maps = [
            TensorMap.tiled(out, shape=[1024 // size], strides=[], box=[16 // size], dtype=dtype)
            for dtype, size in ((np.uint32, 4), (np.uint64, 8))
        ]
        result: RunResult = run(
            body, [out, *maps], memory=memory, threads=32, shared_bytes=4096, cluster=1, grid=2, resident=1,
            races=True, schedule=Schedule.parse(policy),
        )  # fmt: skip
        assert not result.errors and not result.certified
