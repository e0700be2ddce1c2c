# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""bar.red, and barriers without .aligned whose lanes arrive apart (PTX ISA 9.7.13.1)."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import POLICIES, clean, only, outputs, run, store

COVERS = "bar barrier"

# A predicate for each thread, and how many are true among 128.
VOTES = {
    "none": "setp.ne.u32 %p1, %t, %t;",
    "all": "setp.eq.u32 %p1, %t, %t;",
    "one": "setp.eq.u32 %p1, %t, 77;",
    "odd": "and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 1;",
    "all but one": "setp.ne.u32 %p1, %t, 33;",
}
TRUE = {"none": 0, "all": 128, "one": 1, "odd": 64, "all but one": 127}


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("spelling", ["bar", "barrier", "bar.cta", "barrier.cta"])
@pytest.mark.parametrize("votes", VOTES)
def test_reductions(schedule: Schedule, spelling: str, votes: str) -> None:
    """Three rounds on one barrier: popc, and, or; every third one of the negated predicate."""
    body = f"""
    {VOTES[votes]}
    {spelling}.red.popc.u32 %r1, 0, %p1;
    {spelling}.red.and.pred %p2, 0, 128, %p1; {spelling}.red.or.pred %p3, 3, %p1;
    {spelling}.red.popc.u32 %r2, 0, !%p1; {spelling}.red.and.pred %p4, 0, !%p1;
    selp.b32 %r3, 1, 0, %p2; selp.b32 %r4, 2, 0, %p3; selp.b32 %r5, 4, 0, %p4;
    or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5; shl.b32 %r3, %r3, 16; shl.b32 %r2, %r2, 8;
    or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; {store("%r1")}"""
    n = TRUE[votes]
    flags = (n == 128) + 2 * (n > 0) + 4 * (n == 0)
    want = n | (128 - n) << 8 | flags << 16
    assert (outputs(body, 128, threads=128, schedule=schedule) == want).all()


def test_lanes_that_exited_do_not_vote() -> None:
    body = f"setp.ge.u32 %p2, %t, 40; @%p2 exit; setp.lt.u32 %p1, %t, 50; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p3, 0, %p1; selp.b32 %r2, 100, 0, %p3; add.u32 %r1, %r1, %r2; {store('%r1')}"
    for schedule in POLICIES:
        assert (outputs(body, 40, threads=64, schedule=schedule) == 140).all()


def test_a_block_that_is_no_multiple_of_a_warp() -> None:
    body = f"setp.lt.u32 %p1, %t, 99; bar.red.and.pred %p2, 0, %p1; selp.b32 %r1, 7, 3, %p2; {store('%r1')}"
    assert (outputs(body, 50, threads=50) == 7).all()


ORDER = """
    .shared .b32 tile[128];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;
    setp.ne.u32 %p1, %t, 5; BARRIER
    xor.b32 %r3, %t, 127; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];"""


def test_it_orders_like_bar_sync() -> None:
    for barrier in ("bar.red.popc.u32 %r9, 0, %p1;", "barrier.red.or.pred %p2, 0, %p1;"):
        clean(run(ORDER.replace("BARRIER", barrier), threads=128, races=True))
    early = ORDER.replace("BARRIER", "bar.red.popc.u32 %r9, 0, %p1; st.shared.u32 [%r2], %r9;")
    only(run(early, threads=128, races=True), "race-unordered")


def test_mixed_with_sync_it_is_a_finding() -> None:
    body = (
        "setp.ge.u32 %p1, %t, 32; @%p1 bra OTHER; bar.red.popc.u32 %r1, 1, 64, %p1; exit; OTHER: {} 1, 64{};"
    )
    clean(run(body.format("bar.red.popc.u32 %r1,", ", %p1"), threads=64))
    for other in ("bar.sync", "bar.arrive"):
        only(run(body.format(other, ""), threads=64), "barrier-mixed")


def test_a_reduction_that_hangs() -> None:
    body = "setp.ge.u32 %p1, %t, 32; @%p1 exit; bar.red.or.pred %p2, 3, 64, %p1;"
    assert (
        "named barrier 3: 32 threads of 64"
        in only(run(body, threads=64), "hang").machine.waiting[0].waits_for
    )


APART = """
    .shared .b32 tile[64];
    mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t;
    and.b32 %r9, %t, 3; setp.eq.u32 %p1, %r9, 1;
    ARRIVE
    xor.b32 %r3, %t, 63; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];"""


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(
    "arrive",
    [
        "@%p1 barrier.sync 0; @!%p1 barrier.sync 0;",
        "@%p1 bra ONE; barrier.sync 0, 64; bra BOTH; ONE: add.u32 %r8, %r9, 1; barrier.sync 0, 64; BOTH:",
        "@!%p1 barrier.cta.sync 2; @%p1 barrier.cta.sync 2;",
    ],
)
def test_lanes_of_a_warp_arrive_apart(schedule: Schedule, arrive: str) -> None:
    """Each lane waits for all of its warp and of the others, and then sees what they wrote."""
    body = APART.replace("ARRIVE", arrive) + store("%r4")
    got = outputs(body, 64, threads=64, schedule=schedule, races=True)
    assert (got == np.arange(64) ^ 63).all()


def test_aligned_they_must_come_together() -> None:
    body = APART.replace("ARRIVE", "@%p1 barrier.sync.aligned 0; @!%p1 barrier.sync.aligned 0;")
    only(run(body, threads=64), "aligned-partial")


@pytest.mark.parametrize("schedule", POLICIES)
def test_votes_that_come_apart(schedule: Schedule) -> None:
    body = f"""
    and.b32 %r9, %t, 3; setp.eq.u32 %p1, %r9, 1; setp.lt.u32 %p2, %t, 45;
    @%p1 barrier.red.popc.u32 %r1, 0, %p2; @!%p1 barrier.red.popc.u32 %r1, 0, !%p2;
    {store("%r1")}"""
    t = np.arange(64)
    want = int(np.where(t % 4 == 1, t < 45, t >= 45).sum())
    assert (outputs(body, 64, threads=64, schedule=schedule) == want).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_lanes_that_exit_are_not_waited_for(schedule: Schedule) -> None:
    body = f"setp.lt.u32 %p1, %t, 9; @%p1 barrier.sync 0; @!%p1 exit; {store('%t')}"
    assert (outputs(body, 9, threads=32, schedule=schedule) == np.arange(9)).all()


def test_part_of_a_warp_that_arrives_alone_hangs() -> None:
    """Lane 0 of warp 1 never comes: it spins on a flag that is set behind the barrier."""
    body = """
    .shared .b32 flag;
    setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [flag], 0; bar.sync 1;
    setp.eq.u32 %p2, %t, 32; @%p2 bra SPIN;
    barrier.sync 0, 64; @%p1 st.shared.u32 [flag], 1; bra.uni END;
    SPIN: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p3, %r1, 0; @%p3 bra SPIN;
    barrier.sync 0, 64;
    END:"""
    result = run(body, threads=64, livelock_limit=20_000)
    finding = result.findings[0]
    assert finding.code in ("hang", "livelock")
    clean(
        run(
            body.replace("barrier.sync 0, 64; @%p1 st", "@%p1 st").replace(
                "SPIN;\n    barrier.sync 0, 64;", "SPIN;"
            ),
            threads=64,
        )
    )


@pytest.mark.parametrize("schedule", POLICIES)
def test_arrivals_apart(schedule: Schedule) -> None:
    """A producer whose lanes arrive apart with .arrive, a consumer that waits for all of them."""
    body = f"""
    .shared .b32 tile[32];
    mov.u32 %r1, tile; setp.ge.u32 %p1, %t, 32; @%p1 bra CONSUMER;
    mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t; setp.lt.u32 %p2, %t, 7;
    @%p2 barrier.arrive 1, 64; @!%p2 barrier.arrive 1, 64; bra.uni END;
    CONSUMER: barrier.sync 1, 64; sub.u32 %r4, 63, %t; mad.lo.u32 %r2, %r4, 4, %r1; ld.shared.u32 %r3, [%r2];
    sub.u32 %r5, %t, 32; {store("%r3", "%r5")}
    END:"""
    assert (outputs(body, 32, threads=64, schedule=schedule, races=True) == np.arange(32)[::-1]).all()
