"""Waits whose result is unused: before a first phase has ended, or for what is known on another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Schedule
from tileproof.emulator.coverage import idle_waits, union

from tests.kit.ptx import POLICIES, Memory, codes, init_barrier, kernel_text, line_of, parsed, run, wait

COVERS = "mbarrier.try_wait"
FULL, EMPTY, DATA = 1024, 1032, 2048
START = f"""{init_barrier(FULL)}
{init_barrier(EMPTY)}
fence.mbarrier_init.release.cluster;
bar.sync 0;
setp.lt.u32 %p1, %t, 32;
setp.eq.u32 %p2, %t, 32;"""
MEET = "bar.warp.sync -1;"
STORE, LOAD = f"@%p0 st.shared.b32 [{DATA}], %t;", f"ld.shared.b32 %r1, [{DATA}];"


def arrive(offset: int, guard: str) -> str:
    return f"{guard} mbarrier.arrive.shared::cta.b64 _, [{offset}];"


def body(producer: str, consumer: str) -> str:
    """Warp 0 produces, warp 1 consumes."""
    return f"{START}\n@!%p1 bra CONSUMER;\n{producer}\nbra END;\nCONSUMER:\n{consumer}\nEND:"


def idle(text: str, schedules: list[Schedule], **launch: Any) -> list[bool]:
    """Whether each wait of the text, in order, is idle in launches without races."""
    results = [
        run(text, threads=64, shared_bytes=0x1000, races=True, schedule=one, **launch) for one in schedules
    ]
    assert all(codes(one) <= {"phase-lapped"} for one in results)
    maps = [False] * len(launch.get("args", ()))
    decoded = parsed(kernel_text(text, maps)).decode("k")
    lines = text.split("\n")
    first = line_of(text, START.split("\n")[0], maps)
    waits = [first + n for n, line in enumerate(lines) if "try_wait" in line]
    found = idle_waits(decoded, union(one.executed for one in results))
    assert found <= set(waits)
    return [number in found for number in waits]


def test_the_first_wait_of_a_ring_is_idle_and_the_later_ones_are_not() -> None:
    producer = (
        wait(EMPTY, 1),
        STORE,
        MEET,
        arrive(FULL, "@%p0"),
        wait(EMPTY, 0),
        STORE,
        arrive(FULL, "@%p0"),
    )
    consumer = (wait(FULL, 0), LOAD, "bar.warp.sync -1;", arrive(EMPTY, "@%p2"), wait(FULL, 1), LOAD)
    text = body("\n".join(producer), "\n".join(consumer))
    assert idle(text, POLICIES) == [True, False, False, False]


def test_a_first_wait_that_the_end_of_the_phase_does_not_come_after_is_not_idle() -> None:
    """Under some schedules the arrival comes first, and the wait is for another phase: they hang."""
    text = body(wait(EMPTY, 1), arrive(EMPTY, "@%p2"))
    random = [Schedule("random", seed) for seed in range(12)]
    hangs = [bool(run(text, threads=64, shared_bytes=0x1000, schedule=one).findings) for one in random]
    assert any(hangs) and not all(hangs)
    assert idle(text, [random[hangs.index(False)]]) == [False]
    assert idle(body(wait(EMPTY, 1), ""), POLICIES) == [True]


@pytest.mark.parametrize("first", [True, False])
def test_what_another_wait_has_told_is_known(first: bool) -> None:
    """The consumer arrives at `EMPTY` before, or behind, what it arrives at `FULL` with."""
    order = (EMPTY, FULL) if first else (FULL, EMPTY)
    arrivals = "\n".join(arrive(one, "@%p2") for one in order)
    stores = f"@%p2 {STORE[5:]}"
    text = body(f"{wait(FULL)}\n{wait(EMPTY)}", f"{stores}\n{arrivals}")
    assert idle(text, POLICIES) == [False, first]


def test_bytes_that_landed_are_news() -> None:
    """The same wait twice: the second says nothing, but where bytes came the first has them seen by it."""
    memory = Memory()
    source = memory.buffer(np.arange(4, dtype=np.uint32))
    copy = (
        f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 16;\n"
        f"@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{DATA}], [%a0], 16, [{FULL}];\n"
    )
    twice = f"{wait(FULL)}\n{wait(FULL)}\n{LOAD}"
    told = idle(body(copy + twice, ""), POLICIES, args=[source], memory=memory)
    assert told == [False, False]
    assert idle(body(twice, f"@%p2 {STORE[5:]}\n{arrive(FULL, '@%p2')}"), POLICIES) == [False, True]
