# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""clusterlaunchcontrol: persistent kernels do every tile once, whether claims are refused or granted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Schedule, UnsupportedInstruction

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, clean, codes, run, used, wait

COVERS = "clusterlaunchcontrol.try_cancel clusterlaunchcontrol.query_cancel"

DONE = "mbarrier::complete_tx::bytes"
BAR, SLOT = 1024, 1040
ARRIVE = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{BAR}], 16;"
TRY = f"clusterlaunchcontrol.try_cancel.async.shared::cta.{DONE}.b128 [{SLOT}], [{BAR}];"
# One CTA a cluster, 32 threads; the tile is ctaid.x + 4 * ctaid.y.
PERSISTENT = f"""
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r9, 0;
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [{BAR}], 1; fence.proxy.async; bar.sync 0;
    NEXT:
    @%p0 {ARRIVE}
    @%p0 {TRY}
    mad.lo.u32 %r3, %r2, 4, %r1; mad.lo.u32 %r3, %r3, 32, %t; mad.wide.u32 %rd1, %r3, 4, %a0;
    @!%p0 bra WAIT0; atom.global.add.u32 %r4, [%rd1], 1;
    WAIT0:
    {wait(BAR, "%r9")}
    xor.b32 %r9, %r9, 1;
    ld.shared.b128 %q1, [{SLOT}];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;
    @!%p1 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r1, %r2, %r5, _}}, %q1;
    fence.proxy.async; bar.sync 0;
    bra NEXT;
    END:"""


def grid(body: str, clc: str, schedule: Schedule, **how: Any) -> tuple[np.ndarray, object]:
    memory = Memory()
    tiles = np.zeros((12, 32), np.uint32)
    result = run(
        body,
        [memory.buffer(tiles)],
        memory=memory,
        grid=12,
        resident=1,  # so that a grant claims every other cluster
        shared_bytes=1024,
        schedule=schedule,
        clc=clc,
        **how,
    )
    return tiles[:, 0], result


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 3), Schedule("pct", 4)])
@pytest.mark.parametrize("clc", ["refuse", "grant"])
def test_every_tile_is_done_once(schedule: Schedule, clc: str) -> None:
    tiles, result = grid(PERSISTENT, clc, schedule, races=True)
    clean(result)  # type: ignore[arg-type]
    assert (tiles == 1).all()
    assert result.counters["claimed_clusters"] == (11 if clc == "grant" else 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("schedule", [Schedule("late"), Schedule("random", 1), Schedule("early")])
def test_an_answer_that_is_not_waited_for(schedule: Schedule) -> None:
    body = f"""
    mbarrier.init.shared::cta.b64 [{BAR}], 1; {ARRIVE} {TRY}
    ld.shared.b128 %q1, [{SLOT}]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1; {wait(BAR)}"""
    memory = Memory()
    result = run(body, [], memory=memory, threads=1, shared_bytes=1024, schedule=schedule, races=True)
    assert "race-copy-unwaited" in codes(result)
    if schedule.policy == "late":
        assert {"shared-pending", "clc-response"} <= codes(result)


def test_the_answer_of_a_refusal_has_no_cta_and_is_the_last() -> None:
    ask = f"{ARRIVE} {TRY} {{w}} ld.shared.b128 %q1, [{SLOT}]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;"
    first = f"mbarrier.init.shared::cta.b64 [{BAR}], 1; {ask.format(w=wait(BAR))}"
    for x in ("x", "y", "z"):
        line = f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{x}.b32.b128 %r1, %q1;"
        clean(run(first + line, [], threads=1, shared_bytes=1024))
        chosen = f"{line} @!%p1 mov.u32 %r1, 0; {used('%r1')}"  # as Triton, which reads it first
        clean(run(first + chosen, [], threads=1, shared_bytes=1024))
        assert codes(run(first + line + used("%r1"), [], threads=1, shared_bytes=1024)) == {"clc-response"}
        clean(run(first + "@%p1 " + line, [], threads=1, shared_bytes=1024))
    again = f"{first} fence.proxy.async; {ask.format(w=wait(BAR, 1))}"
    assert codes(run(again, [], threads=1, shared_bytes=1024)) == {"clc-after-refusal"}
    granted = run(again, [], threads=1, grid=5, shared_bytes=1024, clc="grant")
    clean(granted)
    assert granted.counters["claimed_clusters"] == 3  # two by the first, one by the second, none left


@pytest.mark.parametrize("schedule", POLICIES)
def test_multicast_tells_all_ctas_of_the_cluster(schedule: Schedule) -> None:
    body = f"""
    setp.eq.u32 %p0, %t, 0; mov.u32 %r1, %ctaid.x; mov.u32 %r6, %cluster_ctarank; setp.eq.and.u32 %p2, %r6, 0, %p0;
    @%p0 mbarrier.init.shared::cta.b64 [{BAR}], 1; @%p0 {ARRIVE} fence.proxy.async; {CLUSTER_SYNC}
    @%p2 clusterlaunchcontrol.try_cancel.async.shared::cta.{DONE}.multicast::cluster::all.b128 [{SLOT}], [{BAR}];
    {wait(BAR)} ld.shared.b128 %q1, [{SLOT}];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1; mov.u32 %r2, 99;
    @%p1 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, %q1;
    mad.wide.u32 %rd1, %r1, 4, %a0; @%p0 st.global.u32 [%rd1], %r2; {CLUSTER_SYNC}"""
    memory = Memory()
    out = np.full(8, 7, np.uint32)
    clean(
        run(
            body,
            [memory.buffer(out)],
            memory=memory,
            cluster=2,
            grid=8,
            resident=1,
            shared_bytes=1024,
            schedule=schedule,
            clc="grant",
            races=True,
        )
    )
    ran = [c for c in range(4) if out[2 * c] != 7]
    assert (out[::2] == out[1::2]).all() and len(ran) == 2  # each of two clusters took one of the others
    assert sorted([2 * c for c in ran] + [int(out[2 * c]) for c in ran]) == [0, 2, 4, 6]


def test_refusals() -> None:
    with pytest.raises(LaunchError, match="unknown value of clc"):
        run("", [], clc="maybe")
    with pytest.raises(UnsupportedInstruction):
        run("clusterlaunchcontrol.query_cancel.get_first_ctaid.v2.b32.b128 {%r1, %r2}, %q1;")
    misaligned = f"mbarrier.init.shared::cta.b64 [{BAR}], 1; {TRY.replace(f'[{SLOT}]', f'[{SLOT + 8}]')}"
    assert codes(run(misaligned, [], threads=1, shared_bytes=1024)) == {"misaligned"}


@pytest.mark.parametrize("clc", ["refuse", "grant"])
def test_a_launch_that_claims_clusters_is_not_certified(clc: str) -> None:
    _, result = grid(PERSISTENT, clc, Schedule(), races=True)
    certificate = result.certificate  # type: ignore[attr-defined]
    assert not certificate and any("claims a cluster" in doubt.text for doubt in certificate.doubts)
