"""Launches of several streams: what orders them, what does not, and the orders that are run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.judging.judging import JudgeOptions, judge
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.order import StepOrder
from tileproof.conformance.launches.placing import PlacedLaunch
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.emulator import Schedule, prepared
from tileproof.kernels.launch.arguments import PointerArgument, ScalarArgument
from tileproof.kernels.launch.contents import Counting, Filled
from tileproof.kernels.launch.events import BufferRead, EventRecord, EventWait, HostWait
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    PtxText,
)
from tileproof.spec.machine.errors import TileproofError

N = 64
# to[i] = from[i] + 1; counts[0] += 1 by an atomic.
PTX = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry step(.param .u64 to, .param .u64 from) .reqntid 64, 1, 1
{
    .reg .b32 %r<2>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd2];
    add.f32 %f1, %f1, 0f3F800000;
    st.global.f32 [%rd1], %f1;
    ret;
}
.visible .entry count(.param .u64 counts, .param .u32 by) .reqntid 64, 1, 1
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [counts];
    ld.param.u32 %r1, [by];
    red.global.add.u32 [%rd1], %r1;
    ret;
}
"""


def step(to: str, origin: str, stream: int) -> KernelLaunch:
    return KernelLaunch("step", (1,), (N,), (PointerArgument(to), PointerArgument(origin)), stream=stream)


def count(stream: int) -> KernelLaunch:
    return KernelLaunch(
        "count", (1,), (N,), (PointerArgument("counts"), ScalarArgument("u32", 1)), stream=stream
    )


def launch(*steps: Any, **changes: Any) -> LaunchFile:
    buffers = (
        LaunchBuffer("x", "float32", (N,), "input", Counting(0)),
        *(LaunchBuffer(name, "float32", (N,), "scratch", Filled(0)) for name in ("a", "b")),
        LaunchBuffer.output("y", (N,), np.float32, whole=False),
        LaunchBuffer("counts", "uint32", (1,), "inout", Filled(0)),
    )
    made = LaunchFile("streams", (LaunchModule("m", PtxText(PTX)),), buffers, steps)
    return replace(made, **changes)


def judged(made: LaunchFile, y: float | None = 2.0, **options: Any) -> VerdictRecord:
    """Where `y` is a number, y should be x + it, and every count 0."""
    expect = None if y is None else ReferenceFunction(lambda x: {"y": x + y, "counts": np.zeros(1)}, "here")
    return judge(made, expect, JudgeOptions(**{"schedules": 3, "seconds": 30.0, **options}))


def streams(made: VerdictRecord) -> CheckOutcome | None:
    return next((check for check in made.checks if check.name == "streams"), None)


FIRST, LAST = step("a", "x", 1), step("y", "a", 2)
RECORD, WAIT = EventRecord("done", 1), EventWait("done", 2)


@pytest.mark.parametrize(
    "steps",
    [
        (FIRST, RECORD, WAIT, LAST),
        (FIRST, HostWait(), LAST),
        (FIRST, HostWait(stream=1), LAST),
        (FIRST, RECORD, HostWait(event="done"), LAST),
        (FIRST, step("b", "a", 0), LAST),  # the legacy default stream is between them
        (step("a", "x", 0), LAST),
        (FIRST, step("y", "a", 0)),
        (FIRST, BufferWrite("b", Filled(1), 4), LAST),  # the host waits
        (FIRST, RECORD, EventWait("done", 3), EventRecord("more", 3), EventWait("more", 2), LAST),
    ],
)
def test_what_is_ordered_is_clean(steps: tuple[Any, ...]) -> None:
    made = judged(launch(*steps))
    assert made.verdict == "clean", made
    assert streams(made) is None and StepOrder(launch(*steps)).total


@pytest.mark.parametrize(
    "steps",
    [
        (FIRST, LAST),
        (FIRST, RECORD, LAST, WAIT),  # the wait comes too late
        (RECORD, FIRST, WAIT, LAST),  # the event stands for what was before it
        (FIRST, EventRecord("done", 3), WAIT, LAST),  # of another stream
        (FIRST, HostWait(stream=2), LAST),
        (step("a", "x", 0), step("y", "a", 7)),  # stream 7 does not wait for the default stream
        (step("a", "x", 7), step("y", "a", 0)),
    ],
)
def test_a_missing_wait_is_a_race_with_both_launches(steps: tuple[Any, ...]) -> None:
    made = judged(launch(*steps, non_blocking=(7,)))
    races = [finding for finding in made.findings if finding.code == "race-launches"]
    assert made.verdict == "defect" and races, made
    message = races[0].message
    assert "launch 0 of the file (step, stream" in message and "launch 1 of the file (step, stream" in message
    assert {"a"} == {word for word in ("a", "b", "y") if f" of {word}, which" in message}
    told = streams(made)
    assert told is not None and told.outcome == "failed" and told.details["unordered pairs"] >= 1


def test_both_orders_are_run_and_give_values() -> None:
    """Two chains side by side, each in its stream, meet again; early and late run them in another order."""
    steps = (
        step("a", "x", 1), step("b", "x", 2), EventRecord("b", 2), EventWait("b", 1), step("y", "a", 1),
    )  # fmt: skip
    order = StepOrder(launch(*steps))
    assert order.under(Schedule("early")) == [0, 1, 4] and order.under(Schedule("late")) == [1, 0, 4]
    assert {tuple(order.under(Schedule("random", seed))) for seed in range(8)} == {(0, 1, 4), (1, 0, 4)}
    made = judged(launch(*steps))
    assert made.verdict == "clean", made
    told = streams(made)
    assert told is not None and told.details == {"unordered pairs": 1, "orders": 2}
    outcome = streams(judged(launch(*steps), policies=("early",)))
    assert outcome is not None and outcome.outcome == "not run"


def test_the_last_writer_is_that_of_the_order() -> None:
    made = launch(step("y", "x", 1), step("y", "a", 2))
    modules = load(made)
    early, late = (run_once(made, modules, Schedule(policy), RunOptions()) for policy in ("early", "late"))
    assert (early.outputs["y"].values == 1).all() and (late.outputs["y"].values == np.arange(N) + 1).all()
    assert {finding.code for run in (early, late) for finding in run.findings} == {"race-launches"}


def test_atomics_of_two_streams_do_not_race() -> None:
    made = judged(launch(count(1), count(2), step("y", "x", 1)), y=None)
    assert not made.findings and streams(made) is not None


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((step("a", "x", 1), BufferRead("a", 4 * N, stream=2)), "the host's read reads byte 0 of a"),
        ((BufferWrite("a", Filled(1), 8, 4, stream=2), LAST, step("y", "a", 1)), "the host's write"),
        ((step("y", "x", 1), BufferCopy("y", "b", 4, 4, 0, stream=2)), "the host's copy reads byte 4 of y"),
        ((LAST, BufferWrite("a", Filled(1), 4, stream=1)), "the host's write writes byte 0 of a"),
        ((LAST, BufferFree("a", stream=1)), "the host's free writes byte 0 of a"),
        ((BufferWrite("a", Filled(1), 4, stream=1), BufferRead("a", 4, stream=2), LAST), "the host's write"),
    ],
)
def test_copies_of_other_streams_race_too(steps: tuple[Any, ...], words: str) -> None:
    made = judged(launch(*steps), y=None)
    assert any(words in finding.message for finding in made.findings if finding.code == "race-launches"), made
    joined = tuple(item for step in steps for item in (step, HostWait()))
    assert not [
        finding for finding in judged(launch(*joined), y=None).findings if finding.code == "race-launches"
    ]


def test_copies_of_other_bytes_do_not() -> None:
    steps = (BufferWrite("b", Filled(1), 8, 4, stream=2), BufferRead("b", 4, stream=3), step("y", "x", 1))
    made = judged(launch(*steps), y=1.0)
    assert made.verdict == "clean", made


MEETING = """
.visible .entry meet(.param .u64 counts, .param .u32 all) .reqntid 32, 1, 1
{
    .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [counts];
    ld.param.u32 %r1, [all];
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra DONE;
    red.release.gpu.global.add.u32 [%rd1], 1;
WAIT:
    ld.acquire.gpu.global.u32 %r3, [%rd1];
    setp.lt.u32 %p2, %r3, %r1;
    @%p2 bra WAIT;
DONE:
    ret;
}
"""


def test_a_cooperative_grid_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four CTAs that wait for each other, on a device that runs two of a plain grid at a time."""
    monkeypatch.setattr(prepared, "PROCESSORS", 2)
    meet = KernelLaunch("meet", (4,), (32,), (PointerArgument("counts"), ScalarArgument("u32", 4)))
    for cooperative, codes in ((True, set()), (False, {"livelock"})):
        made = launch(replace(meet, cooperative=cooperative))
        made = replace(made, modules=(LaunchModule("m", PtxText(PTX + MEETING)),))
        placed = PlacedLaunch(made, load(made))
        (result,) = placed.run(lambda number, step: {"livelock_limit": 20_000})
        assert {finding.code for finding in result.findings} == codes


def test_what_no_stream_can_be_is_refused() -> None:
    with pytest.raises(TileproofError, match=r"(?s)no such event.*'never'"):
        launch(FIRST, EventWait("never", 2))
    with pytest.raises(TileproofError, match="legacy default stream"):
        launch(FIRST, non_blocking=(0,))
