# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Diverged control flow: what every lane computes must be what it would compute alone, and no lane may starve another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule

from tests.kit.ptx import POLICIES, Memory, clean, outputs, run, store

COVERS = "bra exit ret"

LANES = np.arange(32)


@pytest.mark.parametrize("schedule", POLICIES)
def test_nested_ifs(schedule: Schedule) -> None:
    body = f"""
    and.b32 %r1, %t, 1; and.b32 %r2, %t, 2; and.b32 %r3, %t, 4;
    setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0; setp.ne.u32 %p3, %r3, 0;
    mov.u32 %r9, 0;
    @!%p1 bra ELSE1;
      @!%p2 bra ELSE2;
        @!%p3 bra JOIN3; add.u32 %r9, %r9, 100;
        JOIN3: add.u32 %r9, %r9, 10; bra.uni JOIN2;
      ELSE2: add.u32 %r9, %r9, 20;
      JOIN2: add.u32 %r9, %r9, 1; bra.uni JOIN1;
    ELSE1: add.u32 %r9, %r9, 2;
    JOIN1: activemask.b32 %r10; add.u32 %r9, %r9, %r10; {store("%r9")}"""
    want = [(1 + ((100 if t & 4 else 0) + 10 if t & 2 else 20)) if t & 1 else 2 for t in range(32)]
    # All 32 lanes meet at the post-dominator of the outer branch.
    assert (outputs(body, schedule=schedule) == np.array(want) + 0xFFFFFFFF & 0xFFFFFFFF).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_loops_with_a_trip_count_a_lane(schedule: Schedule) -> None:
    body = f"""
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    OUTER: setp.ge.u32 %p1, %r1, %t; @%p1 bra DONE;
      mov.u32 %r3, 0;
      INNER: add.u32 %r2, %r2, 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r1; @%p2 bra INNER;
      add.u32 %r1, %r1, 1; bra.uni OUTER;
    DONE: activemask.b32 %r4; setp.ne.u32 %p3, %r4, -1; @%p3 add.u32 %r2, %r2, 0x1000; {store("%r2")}"""
    assert (outputs(body, schedule=schedule) == [sum(max(1, i) for i in range(t)) for t in range(32)]).all()


@pytest.mark.parametrize("schedule", POLICIES)
def test_early_exit(schedule: Schedule) -> None:
    """Lanes that leave are not waited for: by barriers, member masks of the rest, or the join."""
    body = f"""
    {store("%t")}
    and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; @%p1 exit;
    setp.lt.u32 %p2, %t, 16; @%p2 bra LOW; add.u32 %r5, %t, 100; bra.uni MEET;
    LOW: add.u32 %r5, %t, 200;
    MEET: bar.sync 0; activemask.b32 %r6; setp.ne.u32 %p3, %r6, 0xeeeeeeee; @%p3 trap;
    {store("%r5")}"""
    want = [t if t % 4 == 0 else t + (200 if t < 16 else 100) for t in range(32)]
    assert outputs(body, schedule=schedule).tolist() == want


@pytest.mark.parametrize("schedule", POLICIES)
def test_an_elected_lane_loops_while_31_wait(schedule: Schedule) -> None:
    """The producer idiom: one lane works in a loop of barrier waits, the rest of its warp goes to the end and waits."""
    body = f"""
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [1024], 1; @%p0 mbarrier.init.shared.b64 [1032], 1; bar.sync 0;
    setp.ge.u32 %p1, %t, 32; @%p1 bra CONSUMER;
    elect.sync _|%p2, -1; @!%p2 bra JOIN;
    mov.u32 %r1, 0;
    LOOP: and.b32 %r2, %r1, 1; xor.b32 %r3, %r2, 1;
    W1: mbarrier.try_wait.parity.shared.b64 %p3, [1032], %r3; @!%p3 bra W1;
    st.shared.u32 [1040], %r1; mbarrier.arrive.shared.b64 _, [1024];
    add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 6; @%p4 bra LOOP;
    JOIN: bar.warp.sync 0xffffffff; bra.uni END;
    CONSUMER: mov.u32 %r1, 0; mov.u32 %r5, 0;
    LOOP2: and.b32 %r2, %r1, 1;
    W2: mbarrier.try_wait.parity.shared.b64 %p3, [1024], %r2; @!%p3 bra W2;
    ld.shared.u32 %r4, [1040]; mad.lo.u32 %r5, %r5, 10, %r4;
    bar.warp.sync 0xffffffff; setp.eq.u32 %p5, %t, 32; @%p5 mbarrier.arrive.shared.b64 _, [1032];
    add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 6; @%p4 bra LOOP2;
    sub.u32 %r6, %t, 32; {store("%r5", "%r6")}
    END: bar.sync 0;"""
    assert (outputs(body, schedule=schedule, threads=64, shared_bytes=64) == 12345).all()


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("first", [0, 1])
def test_sides_of_one_warp_talk_through_shared_memory(schedule: Schedule, first: int) -> None:
    """One side spins on a flag that the other sets: independent thread scheduling lets both go on."""
    body = f"""
    .shared .b32 flag[2];
    mov.u32 %r9, 0; st.shared.v2.b32 [flag], {{0, 0}};
    bar.warp.sync -1;
    setp.{"eq" if first else "ne"}.u32 %p1, %t, 5; @%p1 bra A;
    B: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra B;
    st.volatile.shared.u32 [flag+4], 3; mov.u32 %r9, 11; bra.uni MEET;
    A: st.volatile.shared.u32 [flag], 1;
    C: ld.volatile.shared.u32 %r1, [flag+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra C;
    mov.u32 %r9, 22;
    MEET: activemask.b32 %r2; setp.ne.u32 %p3, %r2, -1; @%p3 add.u32 %r9, %r9, 100; {store("%r9")}"""
    side = (LANES == 5) == bool(first)
    assert (
        outputs(body, schedule=schedule, shared_bytes=0, livelock_limit=500_000) == np.where(side, 22, 11)
    ).all()


def test_lanes_needed_before_the_join_are_released() -> None:
    """A lane parked at the join arrives at a barrier that the loop of the others waits for: no false hang."""
    body = f"""
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [1024], 1; bar.warp.sync -1;
    setp.eq.u32 %p1, %t, 7; @%p1 bra MEET;
    W: mbarrier.try_wait.parity.shared.b64 %p3, [1024], 0; @!%p3 bra W;
    MEET: @%p1 mbarrier.arrive.shared.b64 _, [1024];
    {store("%t")}"""
    for schedule in POLICIES:
        assert (outputs(body, schedule=schedule, shared_bytes=64) == LANES).all()
    memory = Memory()
    result = run(body, [memory.empty(32, np.uint32)], memory=memory, shared_bytes=64)
    assert clean(result).counters["divergent_releases"] == 1


OPS = st.lists(
    st.tuples(st.sampled_from(["add", "if", "loop"]), st.integers(1, 31), st.integers(1, 7)),
    min_size=1,
    max_size=7,
)


@settings(max_examples=40, deadline=None)
@given(program=OPS, seed=st.integers(0, 1000))
def test_random_structured_programs(program: list[tuple[str, int, int]], seed: int) -> None:
    """Nested ifs and loops on lane bits, interpreted lane by lane in Python, under every policy."""
    lines, closers = ["mov.u32 %r1, %t;"], []
    for n, (kind, a, b) in enumerate(program):
        if kind == "add":
            lines.append(f"mad.lo.u32 %r1, %r1, {b}, {a};")
        elif kind == "if":
            lines.append(f"and.b32 %r2, %t, {a}; setp.eq.u32 %p1, %r2, 0; @%p1 bra J{n};")
            closers.append(f"J{n}:")
        else:
            lines.append(f"and.b32 %r{10 + n}, %t, {b}; L{n}: setp.eq.u32 %p1, %r{10 + n}, 0; @%p1 bra J{n};")
            lines.append(f"sub.u32 %r{10 + n}, %r{10 + n}, 1;")
            closers.append(f"bra.uni L{n}; J{n}:")

    def interpret(t: int) -> int:
        def block(start: int, x: int) -> int:
            for n in range(start, len(program)):
                kind, a, b = program[n]
                if kind == "add":
                    x = (x * b + a) & 0xFFFFFFFF
                elif kind == "if":
                    return block(n + 1, x) if t & a else x
                else:
                    for _ in range(t & b):
                        x = block(n + 1, x)
                    return x
            return x

        return block(0, t)

    body = "\n".join(
        [*lines, *reversed(closers), "activemask.b32 %r3; setp.ne.u32 %p2, %r3, -1; @%p2 trap;", store("%r1")]
    )
    want = [interpret(t) for t in range(32)]
    for schedule in (Schedule("early"), Schedule("random", seed)):
        assert outputs(body, schedule=schedule).tolist() == want


@pytest.mark.parametrize("leave", ["ret;", "ret.uni;", "exit;"])
def test_leaving_under_a_guard(leave: str) -> None:
    body = f"{store('%t')}\nsetp.lt.u32 %p1, %t, 20; @%p1 {leave}\nadd.u32 %r1, %t, 100; {store('%r1')}"
    assert (outputs(body) == np.where(LANES < 20, LANES, LANES + 100)).all()
