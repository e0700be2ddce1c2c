# ruff: noqa: E501 - PTX lines are kept whole
"""What a tap calls valid: all that the commit publishes, also where its pipeline writes the cells again later."""

from __future__ import annotations

import numpy as np
from tileproof.emulator import Capture, Tap, TmemRegion

from tests.emulator.test_pending_order import (
    AFTER,
    BAR,
    BEFORE,
    COMMIT,
    NARROW,
    PV,
    SCHEDULES,
    ST,
    WAIT_ST,
    B,
)
from tests.kit.ptx import alloc, dealloc, init_barrier, run, wait

AGAIN = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r52], [%r100], {B}, {NARROW}, %p5;"
LAST = COMMIT.replace(f"[{BAR}]", f"[{BAR + 8}]")


def tapped(between: str, schedule: object) -> Capture:
    """P V into columns 32 .. 47, tapped at the commit; `between` is issued after the first commit."""
    body = f"""{init_barrier(BAR + 8)} {init_barrier(BAR)} {alloc(64)}
    and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t; add.u32 %r52, %r100, 32; add.u32 %r53, %r51, 32;
    mad.lo.u32 %r1, %t, 32, 4096; st.shared.v4.b32 [%r1], {{0, 0, 0, 0}}; st.shared.v4.b32 [%r1+16], {{0, 0, 0, 0}}; fence.proxy.async;
    {" ".join(f"mov.b32 %r{60 + i}, 0;" for i in range(8))} {ST} {WAIT_ST} {BEFORE} bar.sync 0; {AFTER}
    {PV} {COMMIT} {between} {LAST} {wait(BAR)} {wait(BAR + 8)} {AFTER} {WAIT_ST} {dealloc(64)}"""
    tap = Tap("o", 0, TmemRegion(32, 16))
    result = run(body, threads=128, shared_bytes=0x3000, schedule=schedule, taps=[tap])
    (record,) = result.captures
    return record


def test_a_later_write_of_the_pipeline_leaves_the_cells_valid() -> None:
    for schedule in SCHEDULES:
        record = tapped(AGAIN, schedule)
        assert record.valid.all() and not np.asarray(record.data).any()


def test_a_write_of_another_pipeline_in_flight_does_not() -> None:
    store = ST.replace("[%r51]", "[%r53]")
    assert not all(tapped(store, schedule).valid.all() for schedule in SCHEDULES)
