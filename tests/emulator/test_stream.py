# ruff: noqa: E501 - PTX lines are kept whole
"""Grids of one stream in flight together: griddepcontrol.wait and launch_dependents (PTX ISA 9.7.12.12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, Stream
from tileproof.spec.machine.schedule import POLICIES

from tests.kit.ptx import ELECT, Memory, Module, TensorMap, clean, init_barrier, kernel_text, parsed, wait

COVERS = "griddepcontrol"

SCHEDULES = [Schedule(p, s) for p in POLICIES if p != "replay" for s in (0, 1)]  # type: ignore[arg-type]
WAIT = "griddepcontrol.wait;"
TRIGGER = "griddepcontrol.launch_dependents;"
OWN = "mad.wide.u32 %rd1, %t, 4, %a0; mad.wide.u32 %rd2, %t, 4, %a1; mad.wide.u32 %rd3, %t, 4, %a2;"
FILL = "add.u32 %r1, %t, 100; st.global.u32 [%rd1], %r1;"  # x = 100 + thread
COPY = "ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;"  # y = x
THREADS = 64


class Chain:
    """Launches over x (poisoned), y and z (zeros), 64 words each; every launch after the first is programmatic."""

    def __init__(self, schedule: Schedule, *bodies: str, programmatic: bool = True, **how: Any) -> None:
        memory = Memory()
        self.x = memory.empty(THREADS, np.uint32, name="x")
        self.y = memory.buffer(np.zeros(THREADS, np.uint32), name="y")
        self.z = memory.buffer(np.zeros(THREADS, np.uint32), name="z")
        stream = Stream(memory)
        self.results: list[RunResult] = []
        for n, body in enumerate(bodies):
            module = parsed(kernel_text(OWN + body, [False] * 3, name=f"k{n}"))
            self.results.append(
                stream.launch(
                    module, f"k{n}", programmatic=programmatic and n > 0, grid=(1,), block=(THREADS,),
                    args=[self.x, self.y, self.z], schedule=schedule, **how,
                )
            )  # fmt: skip

    @property
    def last(self) -> RunResult:
        return self.results[-1]


def racy(result: RunResult) -> None:
    assert {f.code for f in result.errors} == {"race-grids"}, result.errors


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
class TestReader:
    @pytest.mark.parametrize("primary", [TRIGGER + FILL, FILL + TRIGGER])
    def test_without_the_wait_it_is_found_and_reads_poison(self, primary: str, schedule: Schedule) -> None:
        chain = Chain(schedule, primary, COPY)
        clean(chain.results[0])
        racy(chain.last)
        (found,) = chain.last.errors
        assert found.count == THREADS and found.machine.race is not None
        assert " of x, which st.global.u32 at PTX line" in found.message and " of k0," in found.message
        assert "missing: griddepcontrol.wait before it" in found.message
        assert (found.machine.race.instruction, found.machine.race.buffer, found.machine.race.writes) == (
            "st.global.u32",
            "x",
            True,
        )
        assert (chain.y.numpy() == 0xFFFFFFFF).all()

    def test_with_the_wait_it_is_clean(self, schedule: Schedule) -> None:
        chain = Chain(schedule, TRIGGER + FILL, WAIT + COPY)
        clean(chain.last)
        assert (chain.y.numpy() == 100 + np.arange(THREADS)).all()

    def test_a_wait_after_the_read_is_too_late(self, schedule: Schedule) -> None:
        racy(Chain(schedule, TRIGGER + FILL, COPY + WAIT).last)

    def test_a_primary_that_does_not_trigger_completes_first(self, schedule: Schedule) -> None:
        chain = Chain(schedule, FILL, COPY)
        clean(chain.last)
        assert (chain.y.numpy() == 100 + np.arange(THREADS)).all()

    def test_an_ordinary_launch_follows_the_whole_primary(self, schedule: Schedule) -> None:
        clean(Chain(schedule, TRIGGER + FILL, COPY, programmatic=False).last)

    def test_reading_what_the_primary_only_read_is_clean(self, schedule: Schedule) -> None:
        clean(Chain(schedule, TRIGGER + "ld.global.u32 %r1, [%rd2];", "ld.global.u32 %r1, [%rd2];").last)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("primary", ["ld.global.u32 %r1, [%rd2];", "st.global.u32 [%rd2], 7;"])
def test_a_write_over_what_the_primary_read_or_wrote(primary: str, schedule: Schedule) -> None:
    write = "st.global.u32 [%rd2], 8;"
    chain = Chain(schedule, TRIGGER + primary, write)
    racy(chain.last)
    assert chain.last.errors[0].machine.race is not None
    assert chain.last.errors[0].machine.race.writes == ("st" in primary)
    clean(Chain(schedule, TRIGGER + primary, WAIT + write).last)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_only_the_bytes_in_common(schedule: Schedule) -> None:
    half = "setp.lt.u32 %p1, %t, 32; @%p1 st.global.u32 [%rd2], 7;"
    clean(Chain(schedule, TRIGGER + half, "setp.ge.u32 %p1, %t, 32; @%p1 st.global.u32 [%rd2], 8;").last)
    racy(Chain(schedule, TRIGGER + half, "setp.eq.u32 %p1, %t, 31; @%p1 st.global.u8 [%rd2+3], 8;").last)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_atomics_on_both_sides(schedule: Schedule) -> None:
    add = "red.global.add.u32 [%rd2], 1;"
    chain = Chain(schedule, TRIGGER + add, add)
    clean(chain.last)
    assert (chain.y.numpy() == 2).all()
    racy(Chain(schedule, TRIGGER + "st.global.u32 [%rd2], 1;" + add, add).last)
    racy(Chain(schedule, TRIGGER + add, "ld.global.u32 %r1, [%rd2];").last)


ONE = f"{ELECT} @%p0 griddepcontrol.wait;"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
class TestWhoKnows:
    def test_one_thread_waits_and_a_barrier_tells_the_others(self, schedule: Schedule) -> None:
        chain = Chain(schedule, TRIGGER + FILL, ONE + "bar.sync 0;" + COPY)
        clean(chain.last)
        assert (chain.y.numpy() == 100 + np.arange(THREADS)).all()

    def test_one_thread_waits_and_nobody_tells_the_others(self, schedule: Schedule) -> None:
        racy(Chain(schedule, TRIGGER + FILL, ONE + COPY).last)
        racy(Chain(schedule, TRIGGER + FILL, "bar.sync 0;" + ONE + COPY).last)

    def test_a_warp_barrier_tells_its_lanes_only(self, schedule: Schedule) -> None:
        told = ONE + "bar.warp.sync 0xffffffff;"
        racy(Chain(schedule, TRIGGER + FILL, told + COPY).last)  # the other warp
        clean(Chain(schedule, TRIGGER + FILL, told + "setp.ge.u32 %p1, %t, 32; @%p1 exit;" + COPY).last)

    def test_a_cluster_barrier(self, schedule: Schedule) -> None:
        after = "barrier.cluster.wait.aligned;" + COPY
        clean(
            Chain(
                schedule, TRIGGER + FILL, ONE + "bar.warp.sync -1; barrier.cluster.arrive.aligned;" + after
            ).last
        )
        racy(
            Chain(
                schedule,
                TRIGGER + FILL,
                ONE + "bar.warp.sync -1; barrier.cluster.arrive.relaxed.aligned;" + after,
            ).last
        )

    def test_an_mbarrier(self, schedule: Schedule) -> None:
        start = init_barrier(1024)
        arrive = f"{ELECT} @%p0 mbarrier.arrive.shared::cta.b64 _, [1024];"
        told = start + ONE + arrive + wait(1024) + COPY
        clean(Chain(schedule, TRIGGER + FILL, told, shared_bytes=64).last)
        late = start + arrive + wait(1024) + ONE + COPY
        racy(Chain(schedule, TRIGGER + FILL, late, shared_bytes=64).last)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("waits", ["before", "after the issue", "never"])
def test_a_copy_counts_at_its_issue(waits: str, schedule: Schedule) -> None:
    """A TMA load of x by one thread; the others read shared memory."""
    memory = Memory()
    x = memory.empty(THREADS, np.uint32, name="x")
    y = memory.empty(THREADS, np.uint32, name="y")
    stream = Stream(memory)
    fill = parsed(kernel_text(f"mad.wide.u32 %rd1, %t, 4, %a0; {TRIGGER} {FILL}", [False]))
    stream.launch(fill, "k", grid=(1,), block=(THREADS,), args=[x], schedule=schedule)
    body = f"""{init_barrier(1280)}
    {"@%p0 griddepcontrol.wait;" if waits == "before" else ""}
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [1280], 256;
    @%p0 cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [1024], [%a1, {{0}}], [1280];
    {WAIT if waits == "after the issue" else ""}
    {wait(1280)}
    shl.b32 %r1, %t, 2; ld.shared.u32 %r2, [%r1+1024]; mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %r2;"""
    load = parsed(kernel_text(body, [False, True]))
    map_ = TensorMap.tiled(x, shape=(THREADS,), strides=(), box=(THREADS,))
    result = stream.launch(
        load, "k", programmatic=True, grid=(1,), block=(THREADS,), args=[y, map_], shared_bytes=512, schedule=schedule,
    )  # fmt: skip
    if waits == "before":
        clean(result)
        assert (y.numpy() == 100 + np.arange(THREADS)).all()
    else:
        racy(result)
        assert "cp.async.bulk.tensor" in result.errors[0].machine.instruction
        assert (y.numpy() == 0xFFFFFFFF).all()


@pytest.mark.parametrize("schedule", SCHEDULES[:4], ids=str)
class TestThreeGrids:
    def test_each_waits(self, schedule: Schedule) -> None:
        chain = Chain(schedule, TRIGGER + FILL, TRIGGER + WAIT + COPY, WAIT + COPY)
        for result in chain.results:
            clean(result)

    def test_the_one_between_never_waits(self, schedule: Schedule) -> None:
        """It may complete before the first does, so that the third one's wait does not cover the first."""
        other = TRIGGER + "st.global.u32 [%rd3], 1;"
        chain = Chain(schedule, TRIGGER + FILL, other, WAIT + COPY)
        clean(chain.results[1])
        racy(chain.last)
        assert "in the grids between the two" in chain.last.errors[0].message
        clean(Chain(schedule, TRIGGER + FILL, WAIT + other, WAIT + COPY).last)

    def test_the_one_between_triggers_after_its_wait(self, schedule: Schedule) -> None:
        other = "st.global.u32 [%rd3], 1;"
        clean(Chain(schedule, TRIGGER + FILL, WAIT + TRIGGER + other, COPY).last)
        racy(Chain(schedule, TRIGGER + FILL, TRIGGER + WAIT + other, COPY).last)


def test_outside_a_stream_both_do_nothing() -> None:
    memory = Memory()
    x = memory.empty(THREADS, np.uint32)
    module = Module.from_ptx(kernel_text(f"{WAIT} {TRIGGER} mad.wide.u32 %rd1, %t, 4, %a0; {FILL}", [False]))
    clean(module.launch("k", grid=(1,), block=(THREADS,), args=[x], memory=memory))
    assert (x.numpy() == 100 + np.arange(THREADS)).all()


def test_the_number_of_a_launch() -> None:
    """%gridid counts the launches of a stream; one alone is the first (PTX ISA 10.10)."""
    number = "mov.u64 %rd4, %gridid; cvt.u32.u64 %r1, %rd4; st.global.u32 [%rd2], %r1;"
    chain = Chain(Schedule("early"), FILL, FILL, number, programmatic=False)
    assert (chain.y.numpy() == 3).all()
    memory = Memory()
    y = memory.empty(THREADS, np.uint32)
    body = f"mad.wide.u32 %rd2, %t, 4, %a0; {number}"
    module = Module.from_ptx(kernel_text(body, [False]))
    clean(module.launch("k", grid=(1,), block=(THREADS,), args=[y], memory=memory))
    assert (y.numpy() == 1).all()
