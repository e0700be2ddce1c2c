# ruff: noqa: E501 - PTX lines are kept whole
"""Thousands of st.async in flight: all arrive, in every policy, and each costs what one of a few costs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tileproof.emulator import Schedule

from tests.kit.ptx import CLUSTER_SYNC, Memory, clean, init_barrier, run, wait

COVERS = "st.async"

BAR, DATA = 1024, 2048
POLICIES = (
    Schedule("late"),
    Schedule("late-newest"),
    *(Schedule("late-random", seed) for seed in range(3)),
    *(Schedule("random", seed) for seed in range(4)),
    *(Schedule("starve", seed) for seed in range(8)),
    *(Schedule("pct", seed) for seed in range(2)),
)


def flood(rounds: int, schedule: Schedule) -> float:
    """Each of 32 threads sends 4 bytes to the peer `rounds` times before anybody waits. CPU seconds."""
    rows = 128 * rounds
    body = f"""
    {init_barrier(BAR)} mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1;
    mapa.shared::cluster.u32 %r22, {DATA}, %r21; mapa.shared::cluster.u32 %r23, {BAR}, %r21; shl.b32 %r1, %t, 2; add.u32 %r24, %r22, %r1;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {rows}; fence.proxy.async; {CLUSTER_SYNC}
    mad.lo.u32 %r5, %r20, 1000, %t; mov.u32 %r6, {rounds};
    SEND: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r24], %r5, [%r23];
    add.u32 %r24, %r24, 128; add.u32 %r5, %r5, 7; sub.u32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0; @%p1 bra SEND;
    {wait(BAR)}
    add.u32 %r7, %r1, {DATA}; add.u32 %r7, %r7, %own; mov.u32 %r6, {rounds};
    mad.lo.u32 %r8, %r20, {32 * rounds}, %t; mad.wide.u32 %rd1, %r8, 4, %a0;
    TAKE: ld.shared.u32 %r9, [%r7]; st.global.u32 [%rd1], %r9; add.u32 %r7, %r7, 128; add.u64 %rd1, %rd1, 128;
    sub.u32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0; @%p1 bra TAKE;
    {CLUSTER_SYNC}"""
    memory = Memory()
    out = memory.empty((2, rounds, 32), np.uint32)
    began = time.process_time()
    result = clean(
        run(body, [out], memory=memory, cluster=2, shared_bytes=2048 + rows, schedule=schedule, races=True)
    )
    took = time.process_time() - began
    assert result.counters.async_operations == 64 * rounds
    ranks, sent, lanes = np.ogrid[:2, :rounds, :32]
    assert (out.numpy() == (1 - ranks) * 1000 + 7 * sent + lanes).all()
    return took


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_all_arrive_in_every_policy(schedule: Schedule) -> None:
    flood(40, schedule)


@pytest.mark.parametrize("schedule", [Schedule("late"), Schedule("random", 3), Schedule("pct", 0)], ids=str)
def test_the_cost_of_one_does_not_grow_with_their_number(schedule: Schedule) -> None:
    few, many = 50, 400
    flood(few, schedule)  # parses and decodes
    once = min(flood(few, schedule) for _ in range(3))
    more = min(flood(many, schedule) for _ in range(2))
    # 8 times as many; where each completion goes over all that are in flight it takes 64 times as long.
    assert more < 24 * once, (once, more)
