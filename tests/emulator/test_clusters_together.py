"""Clusters of one grid at once: semaphores between them, their races, and hangs of one among several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import Memory, clean, init_barrier, run, wait

POLICIES = [
    Schedule("early"),
    Schedule("late"),
    *(Schedule("random", seed) for seed in range(6)),
    Schedule("pct", 1, environment=3),
    Schedule("starve", 2, environment=5),
]
ACQUIRE, RELEASE = "ld.acquire.gpu.global.u32", "st.release.gpu.global.u32"
CLUSTERS = 6


def ordered(
    load: str = ACQUIRE, store: str = RELEASE, fence: str = "", last_first: bool = False, **launch: Any
) -> tuple[RunResult, np.ndarray]:
    """Clusters append their number to a list, one after another: each waits for its turn in word 0."""
    memory = Memory()
    flag = memory.buffer(np.zeros(1, np.uint32), name="turn")
    order = memory.buffer(np.zeros(CLUSTERS + 1, np.uint32), name="list")
    turn = f"mov.u32 %r1, %ctaid.x; {f'sub.u32 %r1, {CLUSTERS - 1}, %r1;' if last_first else ''}"
    body = f"""
        {turn}
        setp.ne.u32 %p0, %t, 0;
        @%p0 bra DONE;
    SPIN:
        {load} %r2, [%a0];
        setp.ne.u32 %p1, %r2, %r1;
        @%p1 bra SPIN;
        {fence}
        ld.global.u32 %r3, [%a1];
        add.u32 %r3, %r3, 1;
        st.global.u32 [%a1], %r3;
        mad.wide.u32 %rd1, %r3, 4, %a1;
        mov.u32 %r4, %ctaid.x;
        st.global.u32 [%rd1], %r4;
        add.u32 %r2, %r2, 1;
        {fence}
        {store} [%a0], %r2;
    DONE:
    """
    result = run(body, [flag, order], memory=memory, grid=CLUSTERS, races=True, **launch)
    return result, order.numpy()


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
@pytest.mark.parametrize("last_first", [False, True])
def test_clusters_take_turns(schedule: Schedule, last_first: bool) -> None:
    result, order = ordered(schedule=schedule, last_first=last_first)
    clean(result)
    numbers = list(range(CLUSTERS))
    assert order.tolist() == [CLUSTERS, *(reversed(numbers) if last_first else numbers)]


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_turn_taken_without_an_acquire_or_a_release_is_a_race(schedule: Schedule) -> None:
    relaxed: tuple[dict[str, Any], ...] = (
        {"load": "ld.relaxed.gpu.global.u32"},
        {"store": "st.relaxed.gpu.global.u32"},
    )
    for wrong in relaxed:
        result, _ = ordered(schedule=schedule, **wrong)
        assert "race-clusters" in {f.code for f in result.errors}


def test_a_fence_on_each_side_does_as_well() -> None:
    relaxed: dict[str, Any] = {"load": "ld.relaxed.gpu.global.u32", "store": "st.relaxed.gpu.global.u32"}
    for schedule in POLICIES:
        clean(ordered(**relaxed, fence="fence.acq_rel.gpu;", schedule=schedule)[0])


def test_only_what_was_released_is_ordered() -> None:
    # Cluster 0 writes word 1 before its release, word 2 after it; cluster 1 acquires and reads one of them.
    def read(word: int, schedule: Schedule) -> set[str]:
        memory = Memory()
        flag = memory.buffer(np.zeros(1, np.uint32))
        data = memory.buffer(np.zeros(4, np.uint32))
        body = f"""
            mov.u32 %r1, %ctaid.x;
            setp.ne.u32 %p0, %t, 0;
            @%p0 bra DONE;
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra READER;
            st.global.u32 [%a1+4], 1;
            {RELEASE} [%a0], 1;
            st.global.u32 [%a1+8], 1;
            bra DONE;
        READER:
            {ACQUIRE} %r2, [%a0];
            setp.ne.u32 %p1, %r2, 1;
            @%p1 bra READER;
            ld.global.u32 %r3, [%a1+{4 * word}];
        DONE:
        """
        return {
            f.code
            for f in run(body, [flag, data], memory=memory, grid=2, races=True, schedule=schedule).errors
        }

    for schedule in POLICIES:
        assert read(1, schedule) == set()
        assert read(2, schedule) == {"race-clusters"}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_lock_taken_by_compare_and_swap(schedule: Schedule) -> None:
    memory = Memory()
    lock = memory.buffer(np.zeros(1, np.uint32))
    total = memory.buffer(np.zeros(1, np.uint32))
    body = """
        setp.ne.u32 %p0, %t, 0;
        @%p0 bra DONE;
    SPIN:
        atom.acquire.gpu.global.cas.b32 %r1, [%a0], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra SPIN;
        ld.global.u32 %r2, [%a1];
        add.u32 %r2, %r2, 3;
        st.global.u32 [%a1], %r2;
        atom.release.gpu.global.exch.b32 %r1, [%a0], 0;
    DONE:
    """
    clean(run(body, [lock, total], memory=memory, grid=8, schedule=schedule, races=True))
    assert total.numpy()[0] == 24


def test_clusters_that_cannot_be_resident_together_wait_for_ever() -> None:
    result, _ = ordered(last_first=True, resident=1, livelock_limit=100_000)
    assert [f.code for f in result.errors] == ["livelock"]


def test_the_cluster_that_hangs_is_reported_among_others() -> None:
    # The first cluster waits for a phase that never comes; the others run to their end.
    body = f"""
        mov.u32 %r1, %ctaid.x;
        {init_barrier(1024)}
        setp.ne.u32 %p3, %r1, 0;
        @%p3 bra OUT;
        {wait(1024)}
    OUT:
        mad.wide.u32 %rd1, %r1, 4, %a0;
        st.global.u32 [%rd1], 1;
    """
    for schedule in POLICIES:
        memory = Memory()
        done = memory.buffer(np.zeros(4, np.uint32))
        result = run(body, [done], memory=memory, grid=4, shared_bytes=64, schedule=schedule)
        (finding,) = result.errors
        assert finding.code == "hang" and finding.machine.cta == (0, 0, 0) and finding.machine.root
        assert [w.lanes for w in finding.machine.waiting] == [0xFFFFFFFF]


def test_a_replay_of_several_clusters_does_the_same() -> None:
    for seed in range(4):
        schedule = Schedule("random", seed)
        first, order = ordered(schedule=schedule, record="late")
        again, repeated = ordered(schedule=schedule.replayed(first.decisions, "late"))
        assert order.tolist() == repeated.tolist()
        assert first.counters.warp_instructions == again.counters.warp_instructions


def first_come(schedule: Schedule) -> list[int]:
    """The clusters in the order in which each has counted to 40 in its own word and drawn a ticket."""
    memory = Memory()
    ticket = memory.buffer(np.zeros(1, np.uint32))
    order = memory.buffer(np.full(CLUSTERS, 99, np.uint32))
    own = memory.buffer(np.zeros(CLUSTERS, np.uint32))
    body = """
        mov.u32 %r1, %ctaid.x;
        setp.ne.u32 %p0, %t, 0;
        @%p0 bra DONE;
        mad.wide.u32 %rd1, %r1, 4, %a2;
    COUNT:
        atom.global.add.u32 %r2, [%rd1], 1;
        setp.lt.u32 %p1, %r2, 40;
        @%p1 bra COUNT;
        atom.global.add.u32 %r3, [%a0], 1;
        mad.wide.u32 %rd2, %r3, 4, %a1;
        st.global.u32 [%rd2], %r1;
    DONE:
    """
    run(body, [ticket, order, own], memory=memory, grid=CLUSTERS, schedule=schedule)
    return order.numpy().tolist()  # type: ignore[no-any-return]


def test_starve_holds_back_a_whole_cluster() -> None:
    """Every eighth seed: two or three start together, and one of them moves only when the others are over."""
    numbers = list(range(CLUSTERS))
    assert first_come(Schedule("late")) == numbers
    arrived = {seed: first_come(Schedule("starve", seed)) for seed in range(64)}
    assert all(sorted(order) == numbers for order in arrived.values())
    of_clusters = {seed: order for seed, order in arrived.items() if seed % 8 == 7}
    assert all(order == numbers for seed, order in arrived.items() if seed not in of_clusters)
    assert {len(order[: order.index(0)]) for order in of_clusters.values()} >= {0, 1, 2}
    # Recorded, it is replayed; with one cluster, or as many as one after another, the seed is what it was.
    for seed in (7, 15, 23):
        schedule = Schedule("starve", seed)
        assert schedule.drawn_initial_clusters == 2 + seed // 8 % 2
        assert Schedule.parse(str(schedule)) == schedule


def test_a_starved_cluster_that_others_wait_for_moves() -> None:
    for seed in (7, 15, 23, 31, 39):
        result, order = ordered(schedule=Schedule("starve", seed))
        clean(result)
        assert order.tolist() == [CLUSTERS, *range(CLUSTERS)]


def test_starving_a_cluster_finds_a_turn_that_is_only_hoped_for() -> None:
    """Cluster 1 reads what cluster 0 writes without waiting: right in order, and when only warps starve."""

    def read(schedule: Schedule) -> int:
        memory = Memory()
        word, out = memory.buffer(np.zeros(1, np.uint32)), memory.buffer(np.zeros(1, np.uint32))
        body = """
            mov.u32 %r1, %ctaid.x;
            setp.ne.u32 %p0, %r1, 0;
            @%p0 bra READER;
            st.relaxed.gpu.global.u32 [%a0], 7;
            bra DONE;
        READER:
            ld.relaxed.gpu.global.u32 %r2, [%a0];
            st.global.u32 [%a1], %r2;
        DONE:
        """
        run(body, [word, out], memory=memory, grid=2, threads=1, schedule=schedule)
        return int(out.numpy()[0])

    assert read(Schedule("late")) == 7
    assert {read(Schedule("starve", seed)) for seed in range(64) if seed % 8 != 7} == {7}
    assert {read(Schedule("starve", seed)) for seed in range(7, 64, 8)} == {0, 7}
