"""The race checker's clocks against a plain table of ticks, by agent and lane; and its store of accesses."""

from __future__ import annotations

import random
import threading
from collections import defaultdict

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult
from tileproof.emulator._engine import Clock

from tests.kit.ptx import ELECT, init_barrier, run, wait

ALL = 0xFFFFFFFF
SEVERAL, WHOLE = 126, 127  # engine/race_clock.hpp
AGENTS = (1, 2, 3, 1 << 16 | 1)  # the last of another cluster
Table = dict[int, list[int]]


def table() -> Table:
    return defaultdict(lambda: [0] * 32)


def lanes_of(lanes: int) -> list[int]:
    return [lane for lane in range(32) if lanes >> lane & 1]


def some_lanes(draw: random.Random) -> int:
    """Lanes as kernels have them: one, often the first; halves; all; any."""
    single = 1 << draw.choice((0, 0, draw.randrange(32)))
    return draw.choice((single, single, 0xFFFF, 0xFFFF0000, ALL, ALL ^ single, draw.randint(1, ALL)))


def agree(draw: random.Random, clock: Clock, ticks: Table) -> None:
    for agent in AGENTS:
        lanes, lane = some_lanes(draw), draw.randrange(32)
        mine = ticks[agent]
        for tick in {1, *mine, max(mine) + 1}:
            if not tick:
                continue
            assert clock.covers(agent, tick, lane, lanes) == (mine[lane] >= tick)
            assert clock.covers(agent, tick, SEVERAL, lanes) == all(mine[k] >= tick for k in lanes_of(lanes))
            assert clock.covers(agent, tick, WHOLE, lanes) == (max(mine) >= tick)
            if min(mine) < tick:
                assert clock.covers_other_lanes(agent, tick) == (max(mine) >= tick)


@pytest.mark.parametrize("seed", range(8))
def test_clocks_are_tables_of_ticks(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        clocks, tables = [Clock() for _ in range(3)], [table() for _ in range(3)]
        now = 1
        for _ in range(draw.randint(5, 40)):
            k, other = draw.sample(range(3), 2)
            what = draw.random()
            if what < 0.6:
                agent, lanes, tick = draw.choice(AGENTS), some_lanes(draw), draw.randint(max(1, now - 4), now)
                clocks[k].advance(agent, lanes, tick)
                for lane in lanes_of(lanes):
                    tables[k][agent][lane] = max(tables[k][agent][lane], tick)
                now += 1
            elif what < 0.95:
                clocks[k].join(clocks[other])
                for agent in AGENTS:
                    both = zip(tables[k][agent], tables[other][agent], strict=True)
                    tables[k][agent] = [max(pair) for pair in both]
            else:
                clocks[k] = Clock(clocks[other])
                tables[k] = table() | {agent: list(tables[other][agent]) for agent in AGENTS}
            agree(draw, clocks[k], tables[k])


def loads(count: int, found: list[RunResult]) -> None:
    """A launch of `count` accesses before a bulk copy, whose bytes a thread then writes over unordered."""
    memory = Memory()
    x = memory.buffer(np.zeros(64, np.uint32), "x")
    body = f"""{init_barrier(1280)}
    mov.u32 %r1, 0; mov.u32 %r2, 1024;
    LOOP: st.shared.u32 [%r2], %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {count}; @%p1 bra LOOP;
    {ELECT} @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [1280], 16;
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [1040], [%a0], 16, [1280];
    {wait(1280)}
    ld.shared.u32 %r3, [1040]; st.shared.u32 [1056], %r3;"""
    found.append(
        run(body, [x], memory=memory, threads=1, shared_bytes=512, races=True, instruction_limit=10**7)
    )


@pytest.mark.parametrize("count", [*range(4080, 4096), 9000])
def test_the_store_of_accesses_grows(count: int) -> None:
    """In a thread without pages of an earlier launch; an access that is copied may be the last that fits."""
    found: list[RunResult] = []
    thread = threading.Thread(target=loads, args=(count, found))
    thread.start()
    thread.join()
    assert not found[0].errors, found[0].errors[0]
    assert found[0].certified
