"""A weak store raises a flag that strong loads poll: a warning; what the flag should order still races."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.ptx import POLICIES, codes, run

every_schedule = pytest.mark.parametrize("schedule", POLICIES, ids=str)
FLAG = """
mov.u32 %r90, %ctaid.x;
setp.ne.u32 %p0, %t, 0;
@%p0 bra DONE;
setp.ne.u32 %p1, %r90, 0;
@%p1 bra READER;
BEFORE
STORE
bra DONE;
READER:
LOAD
setp.ne.u32 %p2, %r2, 1;
@%p2 bra READER;
AFTER
DONE:
"""
STORE, LOAD = "st.global.wt.u32 [%a0], 1;", "ld.volatile.global.u32 %r2, [%a0];"


def polled(
    schedule: Schedule,
    *,
    store: str = STORE,
    load: str = LOAD,
    before: str = "",
    after: str = "",
    cluster: int = 2,
    strict: bool = False,
) -> RunResult:
    memory = Memory()
    flag, datum = memory.buffer(np.zeros(2, np.uint32)), memory.buffer(np.zeros(1, np.uint32))
    body = (
        FLAG.replace("STORE", store).replace("LOAD", load).replace("BEFORE", before).replace("AFTER", after)
    )
    return run(
        body,
        [flag, datum],
        memory=memory,
        cluster=cluster,
        grid=2,
        races=True,
        resident=2,
        schedule=schedule,
        strict=strict,
    )


@every_schedule
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("load", [LOAD, "ld.relaxed.gpu.global.u32 %r2, [%a0];"])
def test_a_flag_that_orders_nothing_is_a_warning(schedule: Schedule, cluster: int, load: str) -> None:
    assert codes(polled(schedule, cluster=cluster, load=load)) == {"race-weak-flag"}
    assert not polled(schedule, cluster=cluster, load=load).errors
    assert {f.code for f in polled(schedule, cluster=cluster, strict=True).errors} == {"race-weak-flag"}


@every_schedule
@pytest.mark.parametrize("cluster", [1, 2])
def test_what_the_flag_should_order_is_an_error(schedule: Schedule, cluster: int) -> None:
    result = polled(
        schedule,
        cluster=cluster,
        before="st.global.u32 [%a1], 7;\nfence.acq_rel.gpu;",
        after="fence.acq_rel.gpu;\nld.global.u32 %r3, [%a1];",
    )
    assert {f.code for f in result.errors} == {"race-unordered" if cluster == 2 else "race-clusters"}


@every_schedule
@pytest.mark.parametrize(
    ("store", "load"),
    [
        (STORE, "ld.global.u32 %r2, [%a0];"),  # neither is strong: the loop may read one value for ever
        ("mov.u64 %rd9, 1;\nst.global.u64 [%a0], %rd9;", LOAD),  # of two sizes (PTX ISA 8.7.2)
        (STORE, "ld.relaxed.cta.global.u32 %r2, [%a0];"),  # whose scope has not the other CTA
        (STORE, "atom.relaxed.gpu.global.exch.b32 %r2, [%a0], 2;"),  # a write too
    ],
    ids=["weak load", "sizes", "scope", "atomic"],
)
def test_other_races_stay_errors(schedule: Schedule, store: str, load: str) -> None:
    assert {f.code for f in polled(schedule, store=store, load=load).errors} == {"race-unordered"}
