"""A launch file's verdict: values, races and schedules, within a budget of time.

Every run is in a process of its own, so that one that crashes is named and what others found is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from tileproof.conformance.judging import reference as references
from tileproof.conformance.judging.causes import explained
from tileproof.conformance.judging.judged_runs import JudgedRun, RunSetup
from tileproof.conformance.judging.record import Outcomes, verdict
from tileproof.conformance.judging.reference import ExpectedOutput, ReferenceFunction
from tileproof.conformance.judging.runs import LaunchRun, RunOptions
from tileproof.conformance.judging.smaller import can_shrink, smaller
from tileproof.conformance.launches.check import contradictions, unset_bytes
from tileproof.conformance.launches.model import CudaSource, LaunchFile
from tileproof.conformance.launches.modules import load
from tileproof.conformance.processes.children import ChildResult, in_child, in_children
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator import Schedule
from tileproof.emulator.explore import EXPLORED, planned
from tileproof.emulator.inspect import EntryInfo
from tileproof.emulator.schedule import Policy
from tileproof.spec.machine.errors import TileproofError

SECONDS = 60.0
SCHEDULES = 100  # at most, however much time is left
BRIEF = 12  # of a launch that is wrong already
TELLING_S, TELLING_PART = 5.0, 0.1  # kept for the start and for putting the verdict together
CAUSE_PART = 0.3  # of the time that is left, for causes of wrong values


@dataclass(frozen=True)
class JudgeOptions:
    """How a launch file is judged. `seconds` of wall time for all of it; compiling comes on top.

    `policies`: the schedules to run, as policies or as whole schedules ("late", "random:seed=7"); () for
    early, late, random and then exploration. `schedules`: how many at most.
    """

    seconds: float = SECONDS
    seed: int = 0
    schedules: int = SCHEDULES
    policies: tuple[str, ...] = ()
    processes: int = 2
    run: RunOptions = field(default_factory=RunOptions)


SMALLER, SMALLER_S = 4, 10.0  # causes that a small schedule is looked for, and seconds of each
Progress = Callable[[str], None]
Interrupts = tuple[type[BaseException], ...]


def judge(
    launch: LaunchFile,
    reference: ReferenceFunction | None = None,
    options: JudgeOptions | None = None,
    *,
    command: Sequence[str] = (),
    progress: Progress = lambda line: None,
    interrupts: Interrupts = (KeyboardInterrupt,),
    first: Callable[[LaunchRun], None] = lambda run: None,
) -> VerdictRecord:
    """The verdict on a launch file. `command`: the words of the command that judges it, for replays; `first`
    is given the first run, with its outputs and captures.

    An exception of `interrupts` ends it with what is known. Bad input is a verdict "error" that names it.
    """
    options = options or JudgeOptions()
    outcomes = Outcomes(launch, options.seed, command, options.run, reference is not None)
    try:
        for _ in _judged(outcomes, launch, reference, options, progress):
            pass
    except interrupts:
        outcomes.interrupted = True
    if outcomes.first is not None:
        first(outcomes.first)
    return verdict(outcomes)


def _judged(
    made: Outcomes,
    launch: LaunchFile,
    reference: ReferenceFunction | None,
    options: JudgeOptions,
    progress: Progress,
) -> Iterator[None]:
    progress("reading the launch file and its modules")
    known: dict[tuple[str, str], EntryInfo] = {}
    began = time.monotonic()
    try:
        wanted = [schedules_of(one, options.seed) for one in options.policies]
        launch = made.launch = references.described(launch, reference) if reference else launch
        made.modules = load(launch)
        made.contradictions = contradictions(launch, made.modules, known)
        made.unset = unset_bytes(launch, made.modules)
    except TileproofError as error:
        made.contradictions = [error]
        return
    made.entries = known
    if made.contradictions or made.refused:
        return
    yield
    if any(isinstance(one.code, CudaSource) for one in launch.modules):
        began = time.monotonic()  # compiling comes on top
    deadline = began + options.seconds - min(TELLING_S, TELLING_PART * options.seconds)
    expected = _expected(made, launch, reference, deadline, progress) if reference else {}
    if made.reference_fault:
        return
    setup = RunSetup(launch, made.modules, options.run, expected)
    plan = [one for few in wanted for one in few] or [
        Schedule("early"), Schedule("late"), Schedule("random", options.seed)
    ]  # fmt: skip
    setup = _first(made, setup, plan[0], deadline, progress)
    yield
    rest = plan[1:]
    _rest(made, setup, rest, options, deadline, progress)
    _explained(made, setup, reference, deadline, progress)
    yield
    if options.policies:
        return
    count = min(BRIEF, options.schedules) if made.is_wrong else options.schedules
    points = max((judged.points for judged in made.log.runs), default=1)
    more = [one for one in planned(count, EXPLORED, options.seed, max(points, 1)) if one not in plan]
    made.planned = len(more)
    _rest(made, setup, more, options, deadline, progress)
    _explained(made, setup, reference, deadline, progress)
    _smaller(made, setup, deadline, progress)


def _smaller(made: Outcomes, setup: RunSetup, deadline: float, progress: Progress) -> None:
    """Small schedules for what only schedules with a seed showed, in the time that is left."""
    wanted = [(s, when) for s, when in made.log.errors() if can_shrink(when)][:SMALLER]
    for number, (signature, when) in enumerate(wanted):
        left = deadline - time.monotonic()
        if left < 1.0:
            return
        seconds = min(SMALLER_S, left / (len(wanted) - number))
        progress(f"a small schedule for {signature}")
        work = partial(smaller, setup, signature, when, seconds / 2)
        done = in_child(work, seconds)
        if done.value is not None:
            made.log.small[signature] = (done.value.schedule, done.value.lines)


def _explained(
    made: Outcomes,
    setup: RunSetup,
    reference: ReferenceFunction | None,
    deadline: float,
    progress: Progress,
) -> None:
    """The causes of wrong values that are not known yet."""
    if reference is None or not set(made.wrong) - set(made.causes):
        return
    left = max(deadline - time.monotonic(), 0.0)
    # What the machine's findings explain needs no other cause than theirs.
    spare = 0.0 if made.machine_errors else min(max(CAUSE_PART * left, 2.0), left)
    explained(made, setup, reference, spare, progress)


def schedules_of(text: str, seed: int) -> list[Schedule]:
    """The schedule that a text names: a policy with the seed, or a whole schedule."""
    if ":" in text:
        return [Schedule.parse(text)]
    made = Schedule(cast(Policy, text), seed)
    made.check()
    return [made]


def _expected(
    made: Outcomes, launch: LaunchFile, reference: ReferenceFunction, deadline: float, progress: Progress
) -> dict[str, ExpectedOutput]:
    progress("the reference")
    left = deadline - time.monotonic()
    done = in_child(lambda: references.evaluate(reference, launch, references.inputs_of(launch)), left)
    if done.value is not None:
        return done.value
    made.reference_fault = done.error or TileproofError(
        "the reference did not return", where=reference.where, found=done.fault
    )
    return {}


def _first(
    made: Outcomes, setup: RunSetup, schedule: Schedule, deadline: float, progress: Progress
) -> RunSetup:
    """Runs the first schedule, whose outputs the later ones must repeat."""
    progress(f"running under {schedule}")
    left = deadline - time.monotonic()
    done = in_child(lambda: setup.run(schedule, left, keep=True), left + 5.0)
    _noted(made, schedule, done)
    judged = done.value
    if judged is None or judged.run is None:
        return setup
    made.first = judged.run
    clean = judged.finished and not judged.run.errors
    return replace(setup, first=judged.run.outputs if clean else {})


def _rest(
    made: Outcomes,
    setup: RunSetup,
    schedules: Sequence[Schedule],
    options: JudgeOptions,
    deadline: float,
    progress: Progress,
) -> None:
    """Runs schedules, several at a time, until they or the time are over."""

    def work(schedule: Schedule) -> Callable[[], JudgedRun]:
        return lambda: setup.run(schedule, max(deadline - time.monotonic(), 0.01))

    waiting: dict[int, ChildResult[JudgedRun]] = {}
    done = noted = 0
    try:
        for number, result in in_children(
            [work(one) for one in schedules], processes=max(options.processes, 1), deadline=deadline
        ):
            waiting[number] = result
            done += 1
            while noted in waiting:  # in the order of the plan, whichever ended first
                _noted(made, schedules[noted], waiting.pop(noted))
                noted += 1
            left = math.ceil(max(deadline - time.monotonic(), 0.0))
            progress(f"{len(made.log.runs)} schedules, {made.found} found, {left} s left")
    finally:
        for number in sorted(waiting):
            _noted(made, schedules[number], waiting[number])
        made.left_out += len(schedules) - done


def _noted(made: Outcomes, schedule: Schedule, done: ChildResult[JudgedRun]) -> None:
    if done.value is not None:
        made.log.add(done.value)
        made.note(done.value)
    elif done.error is not None:
        made.faults.append((schedule, str(done.error), done.error))
    else:
        made.faults.append((schedule, f"the run under {schedule} gave nothing: {done.fault}", None))
