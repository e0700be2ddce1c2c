"""Programs of several streams and of graphs, recorded: the launch file has what orders their work, and what a
program forgot is found.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.conformance.beside.record import launchfile, recorder
from tileproof.conformance.beside.record.programs import build
from tileproof.conformance.judging.judging import JudgeOptions, judge
from tileproof.conformance.launches.order import StepOrder
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.events import BufferRead, EventRecord, EventWait, HostWait
from tileproof.kernels.launch.model import BufferWrite, KernelLaunch, LaunchFile

from tests.kit.paths import ROOT

PROGRAM = ROOT / "tests/kit/recorded/streams.cu"


@pytest.fixture(scope="module")
def program() -> Path:
    return build(PROGRAM).path


@pytest.fixture(scope="module")
def per_thread() -> Path:
    return build(PROGRAM, ("CUDA_API_PER_THREAD_DEFAULT_STREAM",)).path


def recorded(program: Path, what: str, folder: Path, run: bool = True) -> LaunchFile:
    done = recorder.record([str(program), what], run=run, quiet=True)
    assert (done.problem, done.findings, done.failed) == (None, {}, []) and done.exit_code == (not run)
    launchfile.write(done, folder, what)
    return jsonform.read(folder / "launch.json")


def raced(launch: LaunchFile) -> set[str]:
    """What the kernels and copies that race touch: the message of each finding."""
    made = judge(launch, None, JudgeOptions(policies=("early", "late"), seconds=30.0))
    # In another order a launch may read what nobody has written yet.
    assert {finding.code for finding in made.findings} <= {"race-launches", "global-uninitialised"}, made
    found = {finding.message for finding in made.findings if finding.code == "race-launches"}
    assert bool(found) == bool(made.findings), made
    return found


def test_the_steps_of_a_program_of_two_streams(program: Path, tmp_path: Path) -> None:
    launch = recorded(program, "events", tmp_path)
    kinds = [type(step) for step in launch.steps]
    assert kinds == [
        BufferWrite, EventRecord, EventWait, KernelLaunch, EventRecord, EventWait, KernelLaunch, BufferRead,
        HostWait,
    ]  # fmt: skip
    copy, _, waits, first, _, _, second, back, last = launch.steps
    assert isinstance(copy, BufferWrite) and isinstance(first, KernelLaunch)
    assert isinstance(second, KernelLaunch) and isinstance(back, BufferRead)
    assert (copy.stream, first.stream, second.stream, back.stream) == (2, 1, 2, 2)
    assert waits == EventWait("event 1", 1) and last == HostWait(2)
    assert StepOrder(launch).total and not launch.non_blocking
    assert recorded(program, "non-blocking events", tmp_path / "b").non_blocking == (1, 2)


@pytest.mark.parametrize(
    "what",
    ["events", "non-blocking events", "default", "fork made", "fork captured", "fork captured twice"],
)
def test_a_right_program_is_clean(program: Path, tmp_path: Path, what: str) -> None:
    launch = recorded(program, what, tmp_path)
    assert raced(launch) == set()
    assert StepOrder(launch).total == ("fork" not in what)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("events no-wait", ("which st.global.f32", "stream 1", "stream 2")),
        ("events no-copied", ("the host's write", "stream 2")),
        ("events no-back", ("the host's read", "stream 1", "stream 2")),
        ("non-blocking default", ("stream 1", "stream 2")),
        ("fork made no-", ("launch 1 of the file", "launch 2 of the file")),
    ],
)
def test_a_missing_wait_is_found(program: Path, tmp_path: Path, what: str, words: tuple[str, ...]) -> None:
    found = raced(recorded(program, what, tmp_path))
    assert any(all(word in message for word in words) for message in found), found


def test_the_branches_of_a_graph_are_unordered(program: Path, tmp_path: Path) -> None:
    for what in ("fork made", "fork captured"):
        launch = recorded(program, what, tmp_path / what)
        first, second, third = (at for at, step in enumerate(launch.steps) if isinstance(step, KernelLaunch))
        before = StepOrder(launch).before
        assert not before[second] >> first & 1
        assert before[third] >> first & 1 and before[third] >> second & 1


def test_the_default_stream_of_a_thread_orders_nothing(per_thread: Path, tmp_path: Path) -> None:
    """Compiled so, the launch into it is no fence between the two others."""
    found = raced(recorded(per_thread, "default", tmp_path))
    assert any("stream 1" in message and "stream 2" in message for message in found), found
    assert raced(recorded(per_thread, "events", tmp_path / "right")) == set()


def test_without_run_the_order_is_the_same(program: Path, tmp_path: Path) -> None:
    launch = recorded(program, "events", tmp_path / "plain", run=False)
    assert [type(step) for step in launch.steps] == [
        type(step) for step in recorded(program, "events", tmp_path / "run").steps
    ]
