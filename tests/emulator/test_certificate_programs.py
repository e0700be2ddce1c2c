# ruff: noqa: E501 - PTX lines are kept whole
"""Programs of an adversary that were certified in a schedule which another schedule contradicts, until their
order was demanded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import Memory, init_barrier, run, wait

SCHEDULES = [Schedule.parse(f"replay:base=early:w0.{warp}.0@{step}") for warp in (0, 1) for step in (0, 1)]
SCHEDULES += [Schedule.parse("replay:base=late:w0.1.0@1"), Schedule.parse("replay:base=early:w0.0.1@0")]
SCHEDULES += [Schedule.parse(f"starve:seed={seed}") for seed in range(1, 8)]
WARPS = "shr.u32 %r101, %t, 5; setp.eq.u32 %p2, %r101, 1; setp.eq.u32 %p4, %t, 32; setp.eq.u32 %p0, %t, 0;"
OUT = "mad.wide.u32 %rd5, %t, 4, %a0; st.global.u32 [%rd5], %r3;"
WAIT, ARRIVE = "barrier.cluster.wait;", "barrier.cluster.arrive.relaxed;"
INIT = "@%p0 mbarrier.init.shared.b64 [1024], 1;"
ARRIVED = "mbarrier.arrive.shared::cta.b64 %rd1, [1024];"
INVAL = "mbarrier.inval.shared::cta.b64 [1024];"

PROGRAMS = {
    "rows of additions, then a store": f"{WARPS} and.b32 %r1, %t, 31; mad.wide.u32 %rd1, %r1, 4, %a0; mov.u32 %r4, 0x3F800000; mov.b32 %f1, %r4; mov.u32 %r2, 0; @%p2 bra B; red.global.add.f32 [%rd1], %f1; exit; B: red.global.add.f32 [%rd1], %f1; st.global.u32 [%rd1], %r2;",
    "lanes of a warp of which some have waited at a relaxed cluster barrier": f"{WARPS} mov.u32 %r1, 0; mov.u32 %r2, 5; @%p0 st.shared.u32 [1100], %r1; bar.sync 0; setp.lt.u32 %p5, %t, 48; @%p2 bra B; @%p0 st.shared.u32 [1100], %r2; {ARRIVE} {WAIT} exit; B: @%p5 bra C; {ARRIVE} {WAIT} exit; C: {ARRIVE} ld.shared.u32 %r3, [1100]; {WAIT} {OUT} exit;",
    "elect.sync after a lane has exited": f"{init_barrier(1024, 2)} {WARPS} mov.u32 %r1, 3; mov.u32 %r2, 7; setp.eq.u32 %p5, %t, 31; @%p4 st.shared.u32 [1100], %r1; @%p4 {ARRIVED} bar.sync 0; @%p2 bra W; @%p5 bra L; mov.u32 %r9, 0x7fffffff; elect.sync %r10|%p9, %r9; @%p0 {ARRIVED} exit; L: st.shared.u32 [1100], %r2; {ARRIVED} exit; W: {wait(1024)} ld.shared.u32 %r3, [1100]; {OUT} exit;",
    "mbarrier.inval and a store to its bytes": f"{init_barrier(1024)} {WARPS} mov.u32 %r2, 7; @%p2 bra B; @%p0 {INVAL} bar.sync 1, 64; exit; B: @%p4 st.shared.v2.u32 [1024], {{%r2, %r2}}; bar.sync 1, 64; ld.shared.u32 %r3, [1024]; {OUT} exit;",
    "mbarrier.inval in no order with the init": f"{WARPS} @%p2 bra B; {INIT} exit; B: @%p4 {INVAL} exit;",
    "a wait with an unused result in no order with the init": f"{WARPS} @%p2 bra B; {INIT} exit; B: mbarrier.test_wait.parity.shared::cta.b64 %p13, [1024], 0; exit;",
}  # fmt: skip


def agrees(launch: Any) -> bool:
    """Whether a certified run of the launch has the finding codes and the values of all others."""
    certified, outcomes = False, set()
    for schedule in SCHEDULES:
        memory = Memory()
        out = memory.buffer(np.zeros(64, np.uint32))
        result = launch(out, memory, schedule)
        certified |= result.certified
        outcomes.add((frozenset(each.code for each in result.findings), out.numpy().tobytes()))
    return not certified or len(outcomes) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    def launch(out: Any, memory: Memory, schedule: Schedule) -> Any:
        return run(PROGRAMS[name], [out], memory=memory, threads=64, shared_bytes=2048, races=True, schedule=schedule)  # fmt: skip

    assert agrees(launch)


REFUSED = {
    "lanes of one store of which the second has not waited": (
        f"{init_barrier(1024)} {WARPS} mov.u32 %r2, 5; setp.eq.u32 %p5, %t, 33; @%p0 st.shared.u32 [1100], %r2; bar.sync 0; @%p2 bra W; @%p0 ld.shared.u32 %r3, [1100]; @%p0 {ARRIVED} {OUT} exit; W: @!%p4 bra S; {wait(1024)} S: or.pred %p6, %p4, %p5; @%p6 st.shared.u32 [1100], %r2; exit;",
        "write the same bytes in no order",
    ),
    "discard": ("discard.global.L2 [%a0], 128; exit;", "discard, after which its bytes are undefined"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_that_no_schedule_here_contradicts_is_refused(name: str) -> None:
    body, why = REFUSED[name]
    memory = Memory()
    out = memory.buffer(np.zeros(64, np.uint32))
    result = run(body, [out], memory=memory, threads=64, shared_bytes=2048, races=True)
    assert not result.errors and not result.certified and result.certificate is not None
    assert any(why in doubt.text for doubt in result.certificate.doubts)


@pytest.mark.parametrize("apart", [True, False])
def test_lanes_of_one_copy_to_one_address(apart: bool) -> None:
    memory = Memory()
    source = memory.buffer(np.arange(64, dtype=np.uint32))
    to = "mad.lo.u32 %r1, %t, 16, 1024;" if apart else "and.b32 %r1, %t, 30; mad.lo.u32 %r1, %r1, 16, 1024;"
    body = f"{to} mad.wide.u32 %rd1, %t, 16, %a0; setp.lt.u32 %p1, %t, 16; @%p1 cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.wait_all;"
    result = run(body, [source], memory=memory, threads=32, shared_bytes=2048, races=True)
    assert result.certified == apart
    assert {f.code for f in result.findings} == (set() if apart else {"race-unordered"})
