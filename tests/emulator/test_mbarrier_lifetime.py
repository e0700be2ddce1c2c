# ruff: noqa: E501 - PTX lines are kept whole
"""mbarrier.init over a copy in flight, and mbarrier.inval before anybody has waited."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.ptx import POLICIES, Memory, clean, codes, init_barrier, only, run, wait

COVERS = ""
BAR = 1024


def launched(body: str, schedule: Schedule, races: bool = False) -> RunResult:
    memory = Memory()
    return run(
        body,
        [memory.buffer(np.zeros(256, np.uint32))],
        memory=memory,
        shared_bytes=2048,
        schedule=schedule,
        races=races,
    )


COPY = "mad.wide.u32 %rd1, %t, 4, %a0; mad.lo.u32 %r2, %t, 4, 2048; cp.async.ca.shared.global [%r2], [%rd1], 4; cp.async.commit_group;"
INIT = "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [2048], 1;"
DONE = "cp.async.wait_group 0; bar.warp.sync -1;"


def test_init_over_a_copy_in_flight() -> None:
    found = set()
    for schedule in POLICIES:
        clean(launched(f"{COPY} {DONE} {INIT}", schedule, races=True))
        found = codes(launched(f"{COPY} {INIT} {DONE}", schedule, races=True))
        assert found & {"shared-write-under-copy", "race-copy-unwaited"}, (schedule, found)
    only(launched(f"{COPY} {INIT} {DONE}", Schedule("late")), "shared-write-under-copy")


BULK = f"{init_barrier(BAR)} @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 256; @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0], 256, [{BAR}];"
INVAL = f"bar.warp.sync -1; @%p0 mbarrier.inval.shared.b64 [{BAR}];"


@pytest.mark.parametrize("schedule", POLICIES)
def test_inval_before_the_wait(schedule: Schedule) -> None:
    clean(launched(f"{BULK} {wait(BAR)} {INVAL}", schedule))
    finding = only(launched(f"{BULK} {INVAL}", schedule), "mbarrier-inval-unwaited")
    assert finding.severity == "error" and finding.machine.instruction.startswith("mbarrier.inval")


@pytest.mark.parametrize("schedule", POLICIES)
def test_inval_after_arrivals_of_threads_needs_no_wait(schedule: Schedule) -> None:
    """The last arrivals of a pipeline that nobody waits for: other barriers order them."""
    clean(launched(f"{init_barrier(BAR)} @%p0 mbarrier.arrive.shared.b64 _, [{BAR}]; {INVAL}", schedule))
