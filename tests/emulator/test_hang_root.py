# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Hangs planted in small kernels: the root must be named, and what only follows from it must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Finding, RunResult, Schedule

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, alloc, clean, dealloc, only, run, wait

A, B, C = 1024 + 16, 1024 + 24, 1024 + 64
ONE = "elect.sync %r3|%p2, -1;"


def init(*barriers: tuple[int, int]) -> str:
    """mbarriers (offset, count), then the CTA meets."""
    lines = [f"@%p0 mbarrier.init.shared::cta.b64 [{offset}], {count};" for offset, count in barriers]
    return "\n".join(
        ["setp.eq.u32 %p0, %t, 0;", *lines, "bar.sync 0;\nshr.u32 %r9, %t, 5;\nsetp.eq.u32 %p1, %r9, 0;\n"]
    )


def arrive(offset: int | str) -> str:
    """One lane of the warp arrives."""
    return f"{ONE} @%p2 mbarrier.arrive.shared::cta.b64 _, [{offset}];"


def launch(body: str, schedule: Schedule, **options: Any) -> RunResult:
    memory = Memory()
    zeros = memory.buffer(np.zeros(4096, np.uint32))
    return run(body, [zeros], memory=memory, schedule=schedule, shared_bytes=8192, **options)


def hang(body: str, schedule: Schedule, **options: Any) -> Finding:
    found = only(launch(body, schedule, **options), "hang")
    assert found.machine.root is not None and str(found.machine.root.message) in str(found)
    return found


def told(found: Finding) -> str:
    """The root in words."""
    assert found.machine.root is not None
    return "\n".join(found.machine.root.lines())


every_schedule = pytest.mark.parametrize("schedule", POLICIES)


@every_schedule
@pytest.mark.parametrize("stuck", [0, 1, 2])
def test_the_place_is_a_thread_that_waits_for_the_root(stuck: int, schedule: Schedule) -> None:
    """One warp waits for an arrival that nobody makes, the others for that warp at the end of the CTA's work."""
    body = f"{init((A, 1))}setp.ne.u32 %p5, %r9, {stuck};\n@%p5 bra MEET;\n{wait(A)}\nMEET: bar.sync 0;"
    at = hang(body, schedule, threads=96).machine
    assert at.warp == stuck and at.instruction.startswith("mbarrier.try_wait")


@every_schedule
def test_one_lane_leaves_a_loop(schedule: Schedule) -> None:
    body = (
        init((A, 32))
        + f"""mov.u32 %r1, 0;
    LOOP: setp.eq.u32 %p3, %t, 9; setp.eq.and.u32 %p4, %r1, LAP, %p3;
    @%p4 bra DONE;
    mbarrier.arrive.shared::cta.b64 _, [{A}];
    and.b32 %r2, %r1, 1;
    {wait(A, "%r2")}
    add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 4; @%p3 bra LOOP;
    DONE: exit;"""
    )
    root = hang(body.replace("LAP", "2"), schedule).machine.root
    assert root is not None and root.kind == "unsatisfiable" and (root.node.offset, root.node.phase) == (A, 2)
    assert "lacks 1 of 32 arrivals" in root.message
    assert "came from lane 9 of warp 0 of CTA 0" in root.evidence[0] and "exited" in root.evidence[0]
    clean(launch(body.replace("LAP", "9"), schedule))


@every_schedule
def test_a_count_that_is_too_high(schedule: Schedule) -> None:
    body = init((A, 3)) + f"{arrive(A)}\n{wait(A)}"
    text = told(hang(body, schedule, threads=64))
    assert "lacks 1 of 3 arrivals" in text and "2 arrivals came" in text and "its count of 3 was set" in text
    clean(launch(body.replace(f"[{A}], 3", f"[{A}], 2"), schedule, threads=64))


@every_schedule
def test_a_producer_that_exits_early(schedule: Schedule) -> None:
    body = (
        init((A, 1), (B, 1))
        + f"""@%p1 bra CONSUMER;
    ld.global.u32 %r4, [%a0]; setp.eq.u32 %p4, %r4, SKIP; @%p4 exit;
    {arrive(A)} exit;
    CONSUMER: {wait(A)}
    {arrive(B)}"""
    )
    found = hang(body.replace("SKIP", "0"), schedule, threads=64)
    assert found.machine.root is not None and found.machine.root.node.offset == A
    assert "no live warp can come to it; warp 1 of CTA 0 exited at line" in told(found)
    clean(launch(body.replace("SKIP", "1"), schedule, threads=64))


@every_schedule
def test_a_wait_with_the_wrong_parity(schedule: Schedule) -> None:
    body = (
        init((A, 1), (B, 1))
        + f"@%p1 bra CONSUMER;\n{arrive(A)} bar.sync 1, 64; exit;\nCONSUMER: bar.sync 1, 64;\n{wait(A, 'PARITY')}"
    )
    found = hang(body.replace("PARITY", "1"), schedule, threads=64)
    assert "parity 0 would let it pass, parity 1 waits for phase 1" in told(found)
    clean(launch(body.replace("PARITY", "0"), schedule, threads=64))


@every_schedule
def test_bytes_that_nobody_copies(schedule: Schedule) -> None:
    body = (
        init((A, 1))
        + f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{A}], 256;
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0], SIZE, [{A}];
    {wait(A)}"""
    )
    text = told(hang(body.replace("SIZE", "128"), schedule))
    assert (
        "lacks 128 bytes" in text
        and "256 bytes were expected by" in text
        and "128 bytes were delivered by" in text
    )
    more = told(hang(body.replace("SIZE", "512"), schedule))
    assert "256 bytes more came than it expects" in more
    clean(launch(body.replace("SIZE", "256"), schedule))


@every_schedule
def test_bytes_that_went_to_another_barrier(schedule: Schedule) -> None:
    body = (
        init((A, 1), (C, 1))
        + f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{A}], 256;
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0], 256, [TARGET];
    {wait(A)}"""
    )
    text = told(hang(body.replace("TARGET", str(C)), schedule))
    assert f"{C:#x} of CTA 0 has 256 bytes more than it expects, from" in text
    clean(launch(body.replace("TARGET", str(A)), schedule))


@every_schedule
def test_bytes_on_the_wrong_ctas_barrier(schedule: Schedule) -> None:
    """CTA 0 fills the tile of each CTA; the defect sends both to CTA 0's."""
    body = (
        init((A, 1))
        + f"""{CLUSTER_SYNC}
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{A}], 64;
    mov.u32 %r1, %cluster_ctarank; setp.eq.and.u32 %p3, %r1, 0, %p0; @!%p3 bra WAITS;
    mov.u32 %r4, 0;
    NEXT: shl.b32 %r5, RANK, 24; add.u32 %r6, %r5, 4096; add.u32 %r7, %r5, {A};
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [2048], 64, [%r7];
    add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 2; @%p4 bra NEXT;
    WAITS: {wait(A)}
    {CLUSTER_SYNC}"""
    )
    fill = "mad.lo.u32 %r20, %t, 4, 2048; add.u32 %r20, %r20, %own; st.shared.u32 [%r20], %t;"
    body = fill + body
    found = hang(body.replace("RANK", "0"), schedule, cluster=2)
    text = told(found)
    assert found.machine.root is not None and found.machine.root.node.offset == A
    assert (
        "bytes" in text
        and "64 bytes" in text
        and ("more than it expects" in text or "fewer than it expects" in text)
    )
    clean(launch(body.replace("RANK", "%r4"), schedule, cluster=2))


COMMIT = f"""
{{init}}{CLUSTER_SYNC}
mov.u32 %r1, %cluster_ctarank; setp.eq.and.u32 %p3, %r1, 0, %p0; mov.b16 %h1, MASK;
@%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [{A}], %h1;
{{wait}}
{CLUSTER_SYNC}"""


@every_schedule
def test_a_commit_that_reaches_one_cta_only(schedule: Schedule) -> None:
    body = COMMIT.format(init=init((A, 1)), wait=wait(A))
    found = hang(body.replace("MASK", "1"), schedule, cluster=2)
    assert found.machine.root is not None and (
        found.machine.root.node.rank,
        found.machine.root.node.offset,
    ) == (1, A)
    assert "this instruction reached CTA 0 only" in told(found)
    # CTA 0 waits at the cluster barrier: it only follows.
    assert found.machine.graph.node("cluster barrier") and len(found.machine.graph.roots) == 1
    clean(launch(body.replace("MASK", "3"), schedule, cluster=2))


@every_schedule
def test_two_warps_that_wait_for_each_other(schedule: Schedule) -> None:
    body = (
        init((A, 1), (B, 1))
        + f"""@%p1 bra ZERO;
    {wait(A)} {arrive(B)} exit;
    ZERO: {wait(B, "FIRST")} {arrive(A)}"""
    )
    found = hang(body.replace("FIRST", "0"), schedule, threads=64)
    assert (
        found.machine.root is not None
        and found.machine.root.kind == "cycle"
        and found.machine.root.followers == 2
    )
    text = told(found)
    assert f"{A:#x}" in text and f"{B:#x}" in text and "takes parity 1" in text
    clean(launch(body.replace("FIRST", "1"), schedule, threads=64))


@every_schedule
def test_followers_are_distinguished_from_the_root(schedule: Schedule) -> None:
    """Warp 0 misses its arrival of round 2; warp 1 waits for it, warps 2 and 3 wait for warp 1."""
    body = (
        init((A, 1), (B, 1))
        + f"""mov.u32 %r1, 0; setp.eq.u32 %p5, %r9, 1;
    LOOP: and.b32 %r2, %r1, 1;
    @%p1 bra ZERO; @%p5 bra ONE; bra OTHERS;
    ZERO: setp.eq.u32 %p6, %r1, ROUND; @%p6 bra NEXT;
    {arrive(A)} bra NEXT;
    ONE: {wait(A, "%r2")} {arrive(B)} bra NEXT;
    OTHERS: {wait(B, "%r2")}
    NEXT: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p7, %r1, 4; @%p7 bra LOOP;"""
    )
    found = hang(body.replace("ROUND", "2"), schedule, threads=128)
    assert found.machine.root is not None
    assert (found.machine.root.node.offset, found.machine.root.node.phase, found.machine.root.followers) == (
        A,
        2,
        4,
    )
    assert "came from lane 0 of warp 0" in told(found)
    clean(launch(body.replace("ROUND", "9"), schedule, threads=128))


@every_schedule
def test_a_named_barrier_that_counts_too_many(schedule: Schedule) -> None:
    body = "bar.sync 3, COUNT;"
    text = told(hang(body.replace("COUNT", "96"), schedule, threads=64))
    assert "named barrier 3 of CTA 0 has 64 of 96 threads" in text and "the count is wrong" in text
    clean(launch(body.replace("COUNT", "64"), schedule, threads=64))


@every_schedule
def test_a_warp_that_exits_before_a_named_barrier(schedule: Schedule) -> None:
    body = "shr.u32 %r9, %t, 5;\nbar.sync 3, 64;\nsetp.eq.u32 %p1, %r9, GONE;\n@%p1 exit;\nbar.sync 3, 64;"
    text = told(hang(body.replace("GONE", "1"), schedule, threads=64))
    assert "warp 1 of CTA 0, which came the time before, exited at line" in text
    clean(launch(body.replace("GONE", "7"), schedule, threads=64))


@every_schedule
def test_a_named_barrier_behind_an_mbarrier(schedule: Schedule) -> None:
    """Warp 0 never arrives: warp 1 waits at the mbarrier, warp 0 at the named barrier behind it."""
    body = init((A, 1)) + f"@%p1 bra MEET;\n{wait(A)}\nMEET: bar.sync 2, 64;"
    found = hang(body, schedule, threads=64)
    assert (
        found.machine.root is not None
        and found.machine.root.node.id == f"mbarrier 0.{A:#x}"
        and found.machine.root.followers == 2
    )


@every_schedule
def test_the_cluster_barrier_waits_for_a_cta_that_waits_elsewhere(schedule: Schedule) -> None:
    body = (
        init((A, 1))
        + f"""mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p3, %r1, STUCK; @!%p3 bra MEET;
    {wait(A)}
    MEET: {CLUSTER_SYNC}"""
    )
    found = hang(body.replace("STUCK", "1"), schedule, cluster=2, threads=64)
    assert found.machine.root is not None and (
        found.machine.root.node.rank,
        found.machine.root.node.offset,
    ) == (1, A)
    assert found.machine.root.followers == 4 and "nothing has ever arrived at it" in told(found)
    clean(launch(body.replace("STUCK", "7"), schedule, cluster=2, threads=64))


@every_schedule
def test_tensor_memory_that_is_never_freed(schedule: Schedule) -> None:
    again = "@%p14 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1152], COLUMNS;"
    found = hang(alloc(512) + again.replace("COLUMNS", "32"), schedule, threads=64)
    assert found.machine.root is not None and found.machine.root.node.kind == "TMEM"
    text = told(found)
    assert "columns 0-511 were allocated by warp 0 of CTA 0 at line" in text
    assert "no live warp of the CTA comes to a tcgen05.dealloc" in text
    freed = alloc(256) + again.replace("COLUMNS", "256") + "\nld.shared.u32 %r102, [1152];" + dealloc(256)
    assert "hang" not in {f.code for f in launch(freed, schedule, threads=64).findings}


@every_schedule
def test_a_warp_that_a_barrier_lapped(schedule: Schedule) -> None:
    """Warp 0 waits for phase 0, then sleeps through phases 1 and 2: its wait for phase 1 meets phase 3."""
    body = (
        init((A, 1))
        + f"""@%p1 bra SLOW;
    {arrive(A)} bar.sync 1, 64; {arrive(A)} LAP bar.sync 1, 64; exit;
    SLOW: {wait(A, 0)} bar.sync 1, 64; bar.sync 1, 64; {wait(A, 1)}"""
    )
    found = hang(body.replace("LAP", arrive(A)), schedule, threads=64)
    root = found.machine.root
    assert root is not None and root.kind == "lapped" and root.node.warp == 0
    assert "waits for phase 1" in root.message and "went on to phase 3" in root.message
    clean(launch(body.replace("LAP", ""), schedule, threads=64))


@every_schedule
def test_a_stage_of_a_ring_is_passed_over(schedule: Schedule) -> None:
    """Two stages; the producer skips stage 0 of its third round and goes on with stage 1."""
    body = (
        init((A, 1), (B, 1))
        + f"""mov.u32 %r1, 0;
    LOOP: and.b32 %r2, %r1, 1; shl.b32 %r4, %r2, 3; add.u32 %r4, %r4, {A}; shr.u32 %r5, %r1, 1; and.b32 %r5, %r5, 1;
    @%p1 bra CONSUMER;
    setp.eq.u32 %p6, %r1, ROUND; @%p6 bra NEXT;
    {arrive("%r4")} bra NEXT;
    CONSUMER: {wait("%r4", "%r5")}
    NEXT: add.u32 %r1, %r1, 1; setp.lt.u32 %p7, %r1, 6; @%p7 bra LOOP;"""
    )
    body = body.replace("NEXT: add", "NEXT: bar.sync 0; add")  # keeps the producer from lapping the consumer
    found = hang(body.replace("ROUND", "4"), schedule, threads=64)
    assert found.machine.root is not None and (
        found.machine.root.node.offset,
        found.machine.root.node.phase,
    ) == (A, 2)
    assert found.machine.root.followers == 2 and "lane 0 of warp 1" in told(found)
    clean(launch(body.replace("ROUND", "9"), schedule, threads=64))


def test_a_bulk_wait_is_not_blamed() -> None:
    """All bulk copies complete: a warp behind wait_group 0 goes on, and the hang is elsewhere."""
    body = (
        init((A, 1))
        + f"""st.shared.u32 [2048], %t; st.shared.u32 [2052], %t; st.shared.u32 [2056], %t; st.shared.u32 [2060], %t;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%a0], [2048], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    {wait(A)}"""
    )
    for schedule in POLICIES:
        found = hang(body, schedule)
        assert found.machine.root is not None and found.machine.root.node.offset == A
        assert all("bulk" not in node.what for node in found.machine.graph.nodes)


@every_schedule
def test_lanes_that_wait_for_their_own_warp(schedule: Schedule) -> None:
    """Lane 0 waits at an mbarrier; the others wait for it at a .sync instruction."""
    body = init((A, 1)) + f"@!%p0 bra MEET;\n{wait(A)}\nMEET: bar.warp.sync -1;"
    found = hang(body, schedule)
    assert (
        found.machine.root is not None
        and found.machine.root.node.offset == A
        and found.machine.root.followers == len(found.machine.waiting)
    )


def test_a_warp_that_polls_is_found_as_well() -> None:
    """test_wait never suspends: the launch is a livelock, with the same root as the hang."""
    body = (
        init((A, 2))
        + f"{arrive(A)}\nSPIN: mbarrier.test_wait.parity.shared::cta.b64 %p5, [{A}], 0;\n@!%p5 bra SPIN;"
    )
    found = only(launch(body, Schedule("early"), livelock_limit=20_000), "livelock")
    assert (
        found.machine.root is not None
        and found.machine.root.node.offset == A
        and "lacks 1 of 2 arrivals" in found.machine.root.message
    )


def test_a_warp_that_polls_memory_spins() -> None:
    body = "SPIN: ld.volatile.global.u32 %r1, [%a0];\nsetp.eq.u32 %p5, %r1, 0;\n@%p5 bra SPIN;"
    found = only(launch(body, Schedule("early"), livelock_limit=20_000), "livelock")
    assert (
        found.machine.root is not None
        and found.machine.root.kind == "spin"
        and found.machine.root.node.warp == 0
    )


def test_the_graph_is_data() -> None:
    body = init((A, 1)) + f"@%p1 bra MEET;\n{wait(A)}\nMEET: bar.sync 2, 64;"
    graph = hang(body, Schedule("early"), threads=64).machine.graph
    pairs = {(edge.waiter, edge.needs) for edge in graph.edges}
    assert ("warp 0.0", "named barrier 0.2") in pairs and ("named barrier 0.2", "warp 0.1") in pairs
    assert ("warp 0.1", f"mbarrier 0.{A:#x}") in pairs
    assert graph.node("warp 0.1").ptx_line > 0
