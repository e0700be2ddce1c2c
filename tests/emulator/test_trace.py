"""The trace of a launch: what is recorded, in what order, and the two forms it is written in."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, RunResult, Schedule, TensorMap

from tests.kit.ptx import POLICIES, Memory, clean, run, wait

FULL = 1024 + 16  # dynamic shared memory begins at 1024
BODY = f"""
setp.eq.u32 %p0, %t, 0; setp.lt.u32 %p1, %t, 32;
@%p0 mbarrier.init.shared::cta.b64 [{FULL}], 1;
bar.sync 0;
@!%p0 bra WAITS;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [{FULL}], 256;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [2048], [%a0, {{0}}], [{FULL}];
WAITS: bra AGAIN;
AGAIN: {wait(FULL)}
bar.sync 1, 64;"""


def traced(schedule: Schedule = POLICIES[0], body: str = BODY, **options: Any) -> RunResult:
    memory = Memory()
    x = memory.buffer(np.arange(64, dtype=np.float32))
    map_ = TensorMap.tiled(x, shape=(64,), strides=(), box=(64,))
    options = {"trace": True, **options}
    return run(body, [map_], memory=memory, threads=64, shared_bytes=4096, schedule=schedule, **options)


@pytest.mark.parametrize("schedule", POLICIES)
def test_the_life_of_a_tile(schedule: Schedule) -> None:
    trace = clean(traced(schedule)).trace
    assert trace is not None and not trace.note
    events = list(trace)
    on_barrier = [e for e in events if e.barrier == FULL - 1024 and e.object == "mbarrier"]
    kinds = [e.kind for e in on_barrier if e.kind not in ("wait", "pass")]
    assert kinds == ["expect", "arrive", "deliver", "phase"]
    by = {e.kind: e for e in on_barrier}
    assert (by["expect"].value, by["arrive"].value, by["deliver"].value, by["phase"].phase) == (
        256,
        1,
        256,
        0,
    )
    assert (by["phase"].warp, by["phase"].lane) == (0, 0)  # the lane whose copy completed it
    issue, done = (next(e for e in events if e.kind == f"tma-{what}") for what in ("issue", "complete"))
    assert issue.op == done.op and issue.engine == "TMA load" and "cp.async.bulk.tensor" in issue.instruction
    assert events.index(issue) < events.index(by["deliver"]) < events.index(done)
    passes = [e for e in on_barrier if e.kind == "pass"]
    assert {e.warp for e in passes} == {0, 1} and all(
        events.index(e) > events.index(by["phase"]) for e in passes
    )
    assert sum(e.lanes.bit_count() for e in passes) == 64
    assert {e.ptx_line > 0 for e in events} == {True}
    assert [e.time for e in events] == sorted(e.time for e in events)


@pytest.mark.parametrize("schedule", POLICIES)
def test_every_wait_is_over_once(schedule: Schedule) -> None:
    trace = clean(traced(schedule)).trace
    assert trace is not None
    open_: set[tuple[int, int]] = set()
    for e in trace:
        if e.kind == "wait":
            assert (e.warp, e.lane) not in open_
            open_.add((e.warp, e.lane))
        elif e.kind == "pass":
            open_.discard((e.warp, e.lane))
    assert not open_
    exits = [e for e in trace if e.kind == "exit"]
    assert sum(e.lanes.bit_count() for e in exits) == 64


def test_off_by_default_and_changes_nothing() -> None:
    plain, with_trace = traced(trace=False), traced()
    assert plain.trace is None
    assert plain.counters == with_trace.counters and plain.findings == with_trace.findings


def test_the_trace_is_a_function_of_the_schedule() -> None:
    first, second, other = (traced(Schedule("random", seed)).trace for seed in (5, 5, 6))
    assert first is not None and second is not None and other is not None
    assert list(first) == list(second)
    assert list(first) != list(other)


def test_a_cap_is_reported() -> None:
    trace = traced(trace_limit=5).trace
    assert trace is not None and len(trace) == 5 and trace.dropped > 0
    assert f"{trace.dropped} later events are left out" in trace.note and trace.note in trace.to_text()
    assert trace.note == trace.to_chrome()["otherData"]["note"]  # type: ignore[index]
    with pytest.raises(LaunchError, match="trace_limit is not a count"):
        traced(trace_limit=-1)


def test_chrome_format() -> None:
    trace = clean(traced(Schedule("late"))).trace
    assert trace is not None
    chrome = json.loads(json.dumps(trace.to_chrome()))
    events = chrome["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and {"pid", "tid", "ts", "name"} <= set(e) for e in slices)
    tracks = {e["args"]["name"]: (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {"warp 0", "warp 1", "TMA"} == set(tracks)
    (copy,) = [e for e in slices if e["name"] == "TMA load"]
    assert (copy["pid"], copy["tid"]) == tracks["TMA"] and copy["dur"] > 0
    waits = [e for e in slices if e["name"].startswith("wait mbarrier 0x10 phase 0")]
    assert waits and {(e["pid"], e["tid"]) for e in waits} <= {tracks["warp 0"], tracks["warp 1"]}
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["CTA 0,0,0"]


def test_a_wait_that_is_never_over() -> None:
    """The planted hang: the copy brings 256 of 512 bytes expected."""
    result = traced(body=BODY.replace(f"[{FULL}], 256", f"[{FULL}], 512"))
    assert {f.code for f in result.findings} == {"hang"} and result.trace is not None
    names = [e["name"] for e in result.trace.to_chrome()["traceEvents"]]  # type: ignore[attr-defined]
    assert any("never over" in name for name in names)
    assert "phase" not in {e.kind for e in result.trace if e.object == "mbarrier" and e.barrier == 16}


def test_text() -> None:
    trace = clean(traced()).trace
    assert trace is not None
    lines = trace.to_text().splitlines()
    assert len(lines) == len(trace)
    (line,) = [line for line in lines if "deliver" in line]
    assert "CTA 0,0,0, warp 0 lane 0" in line and "256 bytes to mbarrier 0x10 phase 0 at line" in line


def test_arrivals_at_another_cta_name_it() -> None:
    body = f"""
    setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [{FULL}], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %r1, %cluster_ctarank; setp.eq.and.u32 %p1, %r1, 0, %p0; mov.u32 %r2, {FULL + (1 << 24)};
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
    setp.eq.u32 %p2, %r1, 1; @!%p2 bra MEET;
    {wait(FULL)}
    MEET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    trace = clean(run(body, threads=32, cluster=2, shared_bytes=64, trace=True)).trace
    assert trace is not None
    (arrival,) = [e for e in trace if e.kind == "arrive" and e.object == "mbarrier"]
    assert (arrival.rank, arrival.to_rank) == (0, 1) and "of rank 1" in trace.to_text()
    assert [e.rank for e in trace if e.kind == "pass" and e.object == "mbarrier"] == [1]
    assert sum(e.kind == "arrive" and e.object == "cluster barrier" for e in trace) == 4
