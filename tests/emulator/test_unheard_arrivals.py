"""Arrivals that no wait can observe: no wait comes after them, or beside them under another schedule."""

from __future__ import annotations

from typing import Any

import pytest
from tileproof.emulator import Schedule
from tileproof.emulator.coverage import unheard_arrivals, union

from tests.emulator.test_idle_waits import EMPTY, FULL, LOAD, MEET, START, STORE, arrive, body
from tests.kit.ptx import POLICIES, codes, kernel_text, line_of, parsed, run, wait

COVERS = "mbarrier.arrive tcgen05.commit"


def unheard(text: str, schedules: list[Schedule] = POLICIES, **launch: Any) -> list[bool]:
    """Whether each arrival of the text, in order, is unheard in clean launches with races."""
    results = [
        run(text, threads=64, shared_bytes=0x1000, races=True, schedule=one, **launch) for one in schedules
    ]
    # A commit that nobody waits for is a remark of its own.
    assert all(codes(one) <= {"race-commit-exit", "phase-lapped", "phase-lapped-lanes"} for one in results)
    decoded = parsed(kernel_text(text)).decode("k")
    first = line_of(text, START.split("\n")[0])
    lines = [first + n for n, line in enumerate(text.split("\n")) if "arrive" in line]
    found = unheard_arrivals(decoded, union(one.executed for one in results))
    return [number in found for number in lines]


def test_the_last_release_of_a_ring_is_unheard_and_the_others_are_not() -> None:
    turn = (wait(FULL, 0), LOAD, "bar.warp.sync -1;", arrive(EMPTY, "@%p2"))
    again = (wait(FULL, 1), LOAD, "bar.warp.sync -1;", arrive(EMPTY, "@%p2"))
    producer = (
        wait(EMPTY, 1),
        STORE,
        MEET,
        arrive(FULL, "@%p0"),
        wait(EMPTY, 0),
        STORE,
        arrive(FULL, "@%p0"),
    )
    text = body("\n".join(producer), "\n".join(turn + again))
    assert unheard(text) == [False, False, False, True]


def test_an_arrival_that_a_wait_before_it_may_come_after_is_heard() -> None:
    """The wait is for the phase before: in these launches it comes first, under others behind the arrival."""
    text = body(wait(EMPTY, 1), arrive(EMPTY, "@%p2"))
    random = [Schedule("random", seed) for seed in range(12)]
    hangs = [bool(run(text, threads=64, shared_bytes=0x1000, schedule=one).findings) for one in random]
    first = [random[hangs.index(False)]]
    assert unheard(text, schedules=first) == [False]
    order = f"{wait(EMPTY, 1)}\n{arrive(FULL, '@%p0')}"
    assert unheard(body(order, f"{wait(FULL)}\n{arrive(EMPTY, '@%p2')}")) == [False, True]


@pytest.mark.parametrize("tested", [True, False])
def test_a_wait_anywhere_behind_it_hears_it(tested: bool) -> None:
    """Also one of another phase of the barrier, and one by the same thread."""
    both = "\n".join(arrive(EMPTY, "@%p2") for _ in range(2))
    text = body("", both + (f"\n{wait(EMPTY, 1)}" if tested else ""))
    assert unheard(text) == [not tested] * 2


@pytest.mark.parametrize("waited", [True, False])
def test_commits_and_arrivals_of_copies(waited: bool) -> None:
    lines = (
        f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{FULL}];",
        f"@%p0 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{EMPTY}];",
    )
    tail = f"\n{wait(FULL)}\n{wait(EMPTY)}"
    text = body("\n".join(lines).replace("@%p0", "@%p3") + (tail if waited else ""), "")
    text = text.replace("@!%p1 bra CONSUMER;", "setp.eq.u32 %p3, %t, 0;\n@!%p1 bra CONSUMER;")
    assert unheard(text, POLICIES if waited else POLICIES[:1]) == [not waited] * 2
