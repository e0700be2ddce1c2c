# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""A launch is a function of its inputs, policy and seed; correct kernels give the same outputs under every schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule

from tests.kit.mma import Form, multiply
from tests.kit.ptx import Memory, clean, init_barrier, run, wait

ALL = [Schedule(policy, seed) for policy in ("early", "late", "random") for seed in (0, 1, 2**63 + 5)]  # type: ignore[arg-type]


def pipeline(schedule: Schedule) -> tuple[bytes, RunResult]:
    """Two warps through two buffers of bulk copies: order matters, values must not."""
    memory = Memory()
    data = np.arange(1024, dtype=np.uint32)
    out = memory.empty(1024, np.uint32)
    body = f"""
    {init_barrier(1024)} @%p0 mbarrier.init.shared.b64 [1032], 1; @%p0 mbarrier.init.shared.b64 [1040], 64; @%p0 mbarrier.init.shared.b64 [1048], 64; bar.sync 0;
    mov.u32 %r1, 0; mov.u32 %r10, 0;
    LOOP: and.b32 %r2, %r1, 1; shr.u32 %r3, %r1, 1; and.b32 %r3, %r3, 1; xor.b32 %r4, %r3, 1;
    mad.lo.u32 %r5, %r2, 8, 1024; mad.lo.u32 %r6, %r2, 256, 2048; mad.wide.u32 %rd1, %r1, 256, %a1;
    @!%p0 bra USE;
    {wait("%r5+16", "%r4")}
    mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 256;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 256, [%r5];
    USE: {wait("%r5", "%r3")}
    mad.lo.u32 %r7, %t, 4, %r6; ld.shared.u32 %r8, [%r7]; mul.lo.u32 %r8, %r8, 3;
    mad.wide.u32 %rd2, %r1, 256, %a0; mad.wide.u32 %rd2, %t, 4, %rd2; st.global.u32 [%rd2], %r8;
    mbarrier.arrive.shared.b64 _, [%r5+16];
    add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 16; @%p1 bra LOOP;"""
    result = clean(
        run(body, [out, memory.buffer(data)], memory=memory, threads=64, shared_bytes=2048, schedule=schedule)
    )
    assert (out.numpy() == 3 * data).all()
    return out.numpy().tobytes(), result


@pytest.mark.parametrize("schedule", ALL)
def test_the_same_schedule_twice(schedule: Schedule) -> None:
    first, second = pipeline(schedule), pipeline(schedule)
    assert first[0] == second[0] and dict(first[1].counters) == dict(second[1].counters)
    form = Form(256, 64, 2)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((256, 16)), rng.standard_normal((64, 16))
    once, twice = (multiply(form, a, b, schedule=schedule) for _ in range(2))
    assert (once[0] == twice[0]).all() and dict(once[2].counters) == dict(twice[2].counters)


def test_different_schedules_give_the_same_outputs_by_different_ways() -> None:
    results = [pipeline(schedule) for schedule in ALL]
    assert len({data for data, _ in results}) == 1
    # Work is the same; how long warps spun is not: the seeds really change the order.
    assert len({r.counters["barrier_phases"] for _, r in results}) == 1
    assert len({r.counters["warp_instructions"] for _, r in results}) > 2


def test_findings_are_the_same_twice() -> None:
    body = "ld.shared.u32 %r1, [1024];\nld.shared.u32 %r2, [1028];\nbar.sync 1, 96;"
    for schedule in ALL:
        first, second = (run(body, threads=64, shared_bytes=64, schedule=schedule).findings for _ in range(2))
        assert first == second and len(first) == 3
