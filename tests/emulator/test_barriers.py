# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Named barriers with counts, and the cluster barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, clean, codes, only, outputs, run, store, used

COVERS = "bar barrier barrier.cluster.arrive barrier.cluster.wait"


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(
    "spelling",
    [
        "bar.sync 0;",
        "bar.cta.sync 3;",
        "barrier.sync 1;",
        "barrier.cta.sync.aligned 2, 128;",
        "bar.sync %r50, %r51;",
    ],
)
def test_sync_publishes_shared_memory(schedule: Schedule, spelling: str) -> None:
    body = f"""
    .shared .b32 tile[128];
    mov.u32 %r50, 5; mov.u32 %r51, 128;
    mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;
    {spelling}
    xor.b32 %r3, %t, 127; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];
    {store("%r4")}"""
    assert (outputs(body, 128, threads=128, schedule=schedule) == np.arange(128) ^ 127).all()


def test_without_the_sync_the_read_is_a_finding() -> None:
    body = """
    .shared .b32 tile[128];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;
    xor.b32 %r3, %t, 127; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];"""
    only(run(body + used("%r4"), threads=128), "shared-uninitialised")


@pytest.mark.parametrize("schedule", POLICIES)
def test_arrive_and_sync_with_a_count(schedule: Schedule) -> None:
    """Warp 0 produces twice, warp 1 consumes: full = barrier 1, empty = barrier 2, 64 threads each."""
    body = f"""
    .shared .b32 cell;
    setp.ge.u32 %p1, %t, 32; @%p1 bra CONSUMER;
    st.shared.u32 [cell], 5; bar.arrive 1, 64; bar.sync 2, 64; st.shared.u32 [cell], 7; barrier.arrive 1, 64; bra.uni END;
    CONSUMER: bar.sync 1, 64; ld.shared.u32 %r1, [cell]; bar.arrive 2, 64; bar.sync 1, 64; ld.shared.u32 %r2, [cell];
    mad.lo.u32 %r1, %r1, 10, %r2; sub.u32 %r3, %t, 32; {store("%r1", "%r3")}
    END:"""
    assert (outputs(body, schedule=schedule, threads=64) == 57).all()


def test_warps_that_exited_are_not_waited_for_without_a_count() -> None:
    body = f"setp.ge.u32 %p1, %t, 32;\n@%p1 exit;\nbar.sync 0;\n{store('%t')}"
    for schedule in POLICIES:
        assert (outputs(body, threads=96, schedule=schedule) == np.arange(32)).all()


def test_a_hang_at_a_named_barrier_names_it() -> None:
    body = "setp.ge.u32 %p1, %t, 32;\n@%p1 exit;\nbar.sync 3, 64;"
    finding = only(run(body, threads=64), "hang")
    assert (
        "named barrier 3: 32 threads of 64" in finding.machine.waiting[0].waits_for
        and finding.machine.waiting[0].warp == 0
    )


def test_bad_operands() -> None:
    assert "ids are 0..15" in only(run("bar.sync 16;"), "barrier-operands").message
    only(run("bar.sync 1, 33;"), "barrier-operands")
    body = "setp.ge.u32 %p1, %t, 32;\n@%p1 bra B;\nbar.sync 1, 64;\nexit;\nB: bar.sync 1, 96;"
    assert "96" in only(run(body, threads=64), "barrier-count-mismatch").message
    clean(run(body.replace("96", "64"), threads=64))


def test_an_aligned_barrier_under_a_partial_predicate() -> None:
    body = "setp.lt.u32 %p1, %t, 9;\n@%p1 bar.sync 0;"
    finding = only(run(body), "aligned-partial")
    assert "0xfffffe00" in finding.message
    clean(run("setp.lt.u32 %p1, %t, 99;\n@%p1 bar.sync 0;"))


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("aligned", ["", ".aligned"])
def test_cluster_barrier_publishes_to_peers(schedule: Schedule, aligned: str) -> None:
    body = f"""
    .shared .b32 word[2];
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %t, 0; mul.lo.u32 %r2, %r1, 11;
    @%p1 st.shared.u32 [word], %r2;
    barrier.cluster.arrive.release{aligned}; barrier.cluster.wait.acquire{aligned};
    add.u32 %r3, %r1, 1; and.b32 %r3, %r3, 3; mov.u32 %r4, word; mapa.shared::cluster.u32 %r5, %r4, %r3; ld.shared::cluster.u32 %r6, [%r5];
    barrier.cluster.arrive.relaxed{aligned}; barrier.cluster.wait{aligned};
    @%p1 mad.wide.u32 %rd39, %r1, 4, %a0; @%p1 st.global.u32 [%rd39], %r6;"""
    assert outputs(body, 4, cluster=4, threads=64, schedule=schedule).tolist() == [11, 22, 33, 0]


def test_a_thread_that_arrives_and_exits_stands_for_nobody_else() -> None:
    """Warp 0 of each CTA arrives and exits: the barrier must still wait for warp 1 of both."""
    body = """
    .shared .b32 word;
    setp.lt.u32 %p1, %t, 32; @!%p1 bra ONE;
    barrier.cluster.arrive; exit;
    ONE: mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p2, %r1, 0; @%p2 bra FAST;
    mov.u32 %r2, 0; SLOW: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 30000; @%p3 bra SLOW;
    st.shared.u32 [word], 9;
    FAST: barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r4, word; mapa.shared::cluster.u32 %r5, %r4, 1; ld.shared::cluster.u32 %r6, [%r5]; st.global.u32 [%a0], %r6;
    barrier.cluster.arrive; barrier.cluster.wait;"""
    for schedule in POLICIES:
        assert outputs(body, 1, cluster=2, threads=64, schedule=schedule).tolist() == [9]


def test_cluster_barrier_misuse() -> None:
    only(
        run("barrier.cluster.arrive;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;", cluster=2),
        "cluster-barrier-twice",
    )
    only(run("barrier.cluster.wait;", cluster=2), "cluster-barrier-wait")
    once = "barrier.cluster.arrive; barrier.cluster.wait;"
    only(run(f"{once} barrier.cluster.wait;", cluster=2), "cluster-barrier-wait")
    assert not run(f"{once} {once}", cluster=2).findings
    clean(run(f"{CLUSTER_SYNC}\n{CLUSTER_SYNC}", cluster=2))


PARTED = {
    "one lane works": "setp.eq.u32 %p1, %t, 0; @!%p1 bra OVER; mov.u32 %r2, 1; OVER:",
    "two ways": "setp.lt.u32 %p1, %t, 9; @%p1 bra LOW; mov.u32 %r2, 1; bra.uni MEET; LOW: mov.u32 %r2, 2; MEET:",
    "loops of several lengths": "mov.u32 %r2, 0; AGAIN: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %t; @%p1 bra AGAIN;",
}
TOGETHER = {
    "bar.warp.sync": "bar.warp.sync -1;",
    "bar.sync": "bar.sync 0;",
    "barrier.sync": "barrier.sync 0;",
    "shfl.sync": "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;",
    "elect.sync": "elect.sync %r3|%p2, -1;",
    "both halves, then all": "bar.warp.sync -1; setp.lt.u32 %p1, %t, 32; @!%p1 bra BEHIND; BEHIND:",
}


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("parted", PARTED.values(), ids=PARTED)
def test_an_aligned_cluster_barrier_after_a_branch(parted: str, schedule: Schedule) -> None:
    """An error by the letter alone: no instruction in between makes the lanes wait for one another."""
    for half in ("arrive", "wait"):
        plain = "barrier.cluster.arrive;" if half == "wait" else ""
        body = f"{plain} {parted} barrier.cluster.{half}.aligned; {'' if plain else 'barrier.cluster.wait;'}"
        assert not run(body, cluster=2, schedule=schedule).findings
        findings = run(body, cluster=2, schedule=schedule, strict=True).findings
        assert {(f.code, f.severity) for f in findings} == {("cluster-barrier-parted", "error")}
        assert all(f"barrier.cluster.{half}" in f.message for f in findings)
        assert all("bar.warp.sync" in f.message for f in findings)


@pytest.mark.parametrize("parted", PARTED.values(), ids=PARTED)
@pytest.mark.parametrize("together", TOGETHER.values(), ids=TOGETHER)
def test_an_aligned_cluster_barrier_of_lanes_that_have_met(parted: str, together: str) -> None:
    body = f"{parted} {together} {CLUSTER_SYNC}"
    assert not run(body, cluster=2, threads=64, strict=True).findings


def test_an_aligned_cluster_barrier_of_lanes_that_went_one_way() -> None:
    """Uniform branches, predicates, lanes that have exited, and a barrier without .aligned part nobody."""
    some = "setp.lt.u32 %p1, %t, 9;"
    for body in (
        "setp.lt.u32 %p1, %t, 64; @!%p1 bra OVER; mov.u32 %r2, 1; OVER:",
        f"{some} @%p1 mov.u32 %r2, 1;",
        f"{some} @%p1 exit;",
        f"{some} @%p1 bra LEAVE; bra.uni STAY; LEAVE: exit; STAY:",
    ):
        assert not run(f"{body} {CLUSTER_SYNC}", cluster=2, strict=True).findings
    once = "barrier.cluster.arrive; barrier.cluster.wait;"
    assert not run(f"{PARTED['two ways']} {once}", cluster=2, strict=True).findings
    half = "setp.lt.u32 %p1, %t, 16; @!%p1 bra OVER; bar.warp.sync 0xffff; OVER:"
    assert run(f"{half} {CLUSTER_SYNC}", cluster=2, strict=True).errors


def test_a_hang_at_the_cluster_barrier() -> None:
    body = f"mov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p1, %r1, 1;\n@%p1 bra W;\n{CLUSTER_SYNC}\nexit;\nW: bar.sync 1, 64;"
    finding = only(run(body, cluster=2), "hang")
    assert (
        len(finding.machine.waiting) == 2
        and "cluster barrier: 32 of 64" in finding.machine.waiting[0].waits_for
    )
    assert [w.cluster_rank for w in finding.machine.waiting] == [0, 1]


def test_phases_are_counted() -> None:
    assert clean(run("bar.sync 0;\nbar.sync 0;", threads=64)).counters["barrier_phases"] == 2
    assert clean(run(CLUSTER_SYNC, cluster=2)).counters["barrier_phases"] == 1
    assert clean(run(CLUSTER_SYNC, [Memory().empty(1, np.uint8)], cluster=1)).counters["barrier_phases"] == 1


def test_a_warp_that_arrives_again_before_its_round_is_complete() -> None:
    """bar.arrive twice in one round: found as such, though the count comes out right."""
    body = "setp.ge.u32 %p1, %t, 32; @%p1 bra ARRIVES; bar.sync 2, 96; bra DONE;\nARRIVES: bar.arrive 2, 96; TWICE\nDONE:"
    for schedule in POLICIES:
        found = only(
            run(body.replace("TWICE", "bar.arrive 2, 96;"), threads=64, schedule=schedule),
            "barrier-arrived-twice",
        )
        assert (
            "warp 1 arrives at named barrier 2 again" in found.message
            and found.machine.instruction == "bar.arrive"
        )
        clean(run(body.replace("TWICE", ""), threads=96, schedule=schedule))


def test_a_warp_waits_behind_its_own_arrival() -> None:
    """FlashAttention-3: the first of two takes turns with a token of its own; the last of all warps that write
    waits for the writes too. Two rounds of each; a round ends before a warp arrives in the next."""
    turns = """mov.u32 %r1, 0; setp.ge.u32 %p1, %t, 32; @%p1 bra SECOND;
    TOKEN
    FIRST: bar.sync 1, 64; ld.shared.u32 %r3, [%r4]; add.u32 %r3, %r3, 1; st.shared.u32 [%r4], %r3; bar.arrive 2, 64;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 2; @%p2 bra FIRST; bra DONE;
    SECOND: bar.sync 2, 64; ld.shared.u32 %r3, [%r4]; add.u32 %r3, %r3, 1; st.shared.u32 [%r4], %r3; bar.arrive 1, 64;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 2; @%p2 bra SECOND;
    DONE:"""
    last = """mad.lo.u32 %r2, %t, 4, 1024; mad.wide.u32 %rd1, %t, 4, %a0; mov.u32 %r1, 0;
    LOOP: st.shared.u32 [%r2], %t; bar.arrive 3, 96; setp.lt.u32 %p1, %t, 32; @%p1 bra OVER;
    bar.sync 3, 96; ld.shared.u32 %r3, [%r2+-128]; st.global.u32 [%rd1+-128], %r3;
    OVER: BACK add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 2; @%p2 bra LOOP;"""
    for schedule in POLICIES:
        how: dict[str, Any] = {"threads": 64, "schedule": schedule, "races": True, "shared_bytes": 256}
        zero = "and.b32 %r4, %t, 31; mad.lo.u32 %r4, %r4, 4, 1024; setp.lt.u32 %p0, %t, 32; @%p0 st.shared.u32 [%r4], 0; bar.sync 0;"
        assert not run(zero + turns.replace("TOKEN", "bar.arrive 1, 64;"), **how).errors
        only(run(zero + turns.replace("TOKEN", ""), **how), "hang")
        memory = Memory()
        out = [memory.empty(32, np.uint32)]
        assert not run(last.replace("BACK", "bar.sync 0;"), out, memory=memory, **how).errors
        assert "barrier-arrived-twice" in codes(run(last.replace("BACK", ""), out, memory=memory, **how))


def test_an_arrival_that_runs_ahead_of_its_round_is_found_by_order() -> None:
    """Whether both arrivals fall into one round depends on the schedule; the race checker does not."""
    body = """setp.ge.u32 %p1, %t, 32; @%p1 bra ARRIVES;
    bar.sync 2, 64; bar.sync 2, 64; bra DONE;
    ARRIVES: bar.arrive 2, 64; BACK bar.arrive 2, 64;
    DONE:"""
    for schedule in POLICIES:
        ahead = run(body.replace("BACK", ""), threads=64, schedule=schedule, races=True)
        assert only(ahead, "barrier-arrived-twice").severity == "error"
        told = body.replace("BACK", "bar.sync 3, 64;").replace(
            "64; bar.sync 2, 64; bra", "64; bar.sync 3, 64; bar.sync 2, 64; bra"
        )
        clean(run(told, threads=64, schedule=schedule, races=True))
