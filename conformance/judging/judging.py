"""A case's verdict: values, races and schedules, within a budget of time.

Every run has its own process, so that a run that crashes is reported and the findings of others are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from tileproof.conformance.judging.case import Case, Progress
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.launch_case import LaunchCase
from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.judging.record import verdict
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions
from tileproof.conformance.processes.children import ChildResult, in_child, in_children
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator import Schedule
from tileproof.emulator.explore import EXPLORED, planned
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Policy

SECONDS = 60.0
SCHEDULES = 100  # at most, however much time is left
BRIEF = 12  # of a case that is wrong already
REPORT_SECONDS, REPORT_SHARE = 5.0, 0.1  # reserved for start-up and for writing the verdict
CAUSE_PART = 0.3  # of the time that is left, for causes of wrong values
REVERSALS = 8  # schedules in which two events come the other way, at most
SMALLER, SMALLER_S = 4, 10.0  # causes that a small schedule is looked for, and seconds of each
GRACE_S = 5.0  # that a run may take beyond its limit to report it

Ran = TypeVar("Ran", bound=JudgedRun | None)
Interrupts = tuple[type[BaseException], ...]


@dataclass(frozen=True)
class JudgeOptions:
    """How a case is judged. `seconds` of wall time for all runs, without compilation.

    `policies`: the schedules to run, as policies or as whole schedules ("late", "random:seed=7"); () for
    early, late, random and then exploration. `schedules`: how many at most. `processes`: runs at a time, each
    in a process of its own; 0 runs them in this process. `sample`: run more schedules of a certified launch
    too. `run` is of launch files.
    """

    seconds: float = SECONDS
    seed: int = 0
    schedules: int = SCHEDULES
    policies: tuple[str, ...] = ()
    processes: int = 2
    run: RunOptions = field(default_factory=RunOptions)
    sample: bool = False


def judge(
    launch: LaunchFile,
    reference: ReferenceFunction | None = None,
    options: JudgeOptions | None = None,
    *,
    command: Sequence[str] = (),
    progress: Progress = lambda line: None,
    interrupts: Interrupts = (KeyboardInterrupt,),
    first: Callable[[RunResult], None] = lambda run: None,
) -> VerdictRecord:
    """The verdict on a launch file: `judge_case` of its case."""
    options = options or JudgeOptions()
    case = LaunchCase(launch, reference, options.run)
    return judge_case(case, options, command=command, progress=progress, interrupts=interrupts, first=first)


def judge_case(
    case: Case,
    options: JudgeOptions,
    *,
    command: Sequence[str] = (),
    progress: Progress = lambda line: None,
    interrupts: Interrupts = (KeyboardInterrupt,),
    first: Callable[[RunResult], None] = lambda run: None,
) -> VerdictRecord:
    """The verdict on a case. `command`: the words of the command that judges it, for replays; `first` takes
    the result of the first run where the case keeps it.

    An exception of `interrupts` ends it with what is known. Bad input is a verdict "error" that names it.
    """
    log = RunLog()
    try:
        _judge(case, log, options, progress)
    except interrupts:
        log.interrupted = True
    if log.first is not None:
        first(log.first)
    return verdict(case, log, options.seed, command)


def _judge(case: Case, log: RunLog, options: JudgeOptions, progress: Progress) -> None:
    progress("reading the case")
    began = time.monotonic()
    try:
        wanted = [schedule for text in options.policies for schedule in schedules_of(text, options.seed)]
        case.prepare()
    except TileproofError as error:
        case.errors.append(error)
    if case.errors or case.refused:
        return
    if case.compiles:
        began = time.monotonic()
    deadline = began + options.seconds - min(REPORT_SECONDS, REPORT_SHARE * options.seconds)
    if not case.expect(deadline, progress):
        return
    plan = wanted or case.first_schedules(options.seed)[: options.schedules]
    log.planned = len(plan)
    _first(case, log, plan[0], options, deadline, progress)
    _anew(case, log, plan[0], options, deadline, progress)
    if not (options.sample or options.policies) and case.certified(log):
        log.planned, log.certified = len(log.runs), True
        _explain(case, log, deadline, progress)
        return
    reversing = [] if options.policies else [Schedule.parse(text) for text in log.reversals()][:REVERSALS]
    log.planned += len(reversing)
    _rest(case, log, [*reversing, *plan[1:]], options, deadline, progress)
    _explain(case, log, deadline, progress)
    if options.policies:
        return
    count = min(BRIEF, options.schedules) if log.is_wrong else options.schedules
    points = max((run.points for run in log.runs), default=1)
    more = [
        schedule
        for schedule in planned(count, EXPLORED, options.seed, max(points, 1))
        if schedule not in plan
    ]
    more = more[: max(count - len(plan), 0)]
    log.planned += len(more)
    _rest(case, log, more, options, deadline, progress)
    _explain(case, log, deadline, progress)
    _smaller(case, log, deadline, progress)


def _smaller(case: Case, log: RunLog, deadline: float, progress: Progress) -> None:
    """Small schedules for what only schedules with a seed showed, in the time that is left."""
    wanted = [seen for seen in log.causes.values() if case.shrinks(seen)][:SMALLER]
    for number, seen in enumerate(wanted):
        remaining = deadline - time.monotonic()
        if remaining < 1.0:
            return
        seconds = min(SMALLER_S, remaining / (len(wanted) - number))
        progress(f"a small schedule for {seen.finding.code}")
        seen.small = in_child(partial(case.smaller, seen, seconds / 2), seconds).value


def _explain(case: Case, log: RunLog, deadline: float, progress: Progress) -> None:
    """The causes of wrong values that are not known yet."""
    remaining = max(deadline - time.monotonic(), 0.0)
    case.explain(log, min(max(CAUSE_PART * remaining, 2.0), remaining), progress)


def schedules_of(text: str, seed: int) -> list[Schedule]:
    """The schedule that a text names: a policy with the seed, or a whole schedule."""
    if ":" in text:
        return [Schedule.parse(text)]
    made = Schedule(cast(Policy, text), seed)
    made.check()
    return [made]


def _first(
    case: Case, log: RunLog, schedule: Schedule, options: JudgeOptions, deadline: float, progress: Progress
) -> None:
    """Run the first schedule, whose outputs the later schedules must repeat."""
    progress(f"running under {schedule}")
    remaining = deadline - time.monotonic()
    run = partial(case.run, schedule, remaining, True)
    done = in_child(run, remaining + GRACE_S) if options.processes else _here(run)
    log.note(schedule, done)
    if done.value is not None:
        log.first = done.value.result
        case.repeat(done.value)


def _anew(
    case: Case, log: RunLog, schedule: Schedule, options: JudgeOptions, deadline: float, progress: Progress
) -> None:
    """Runs the first schedule with other inputs, where the first run came to its end."""
    remaining = deadline - time.monotonic()
    if not log.finished or remaining <= 0:
        return
    progress("running with other inputs")
    run = partial(case.anew, schedule, remaining)
    done = in_child(run, remaining + GRACE_S) if options.processes else _here(run)
    log.note_anew(schedule, done)


def _here(run: Callable[[], Ran]) -> ChildResult[Ran]:
    """A run in this process, which a crash would end."""
    try:
        return ChildResult(value=run())
    except TileproofError as error:
        return ChildResult(error=error)


def _runs(
    work: Sequence[Callable[[], JudgedRun]], processes: int, deadline: float
) -> Iterator[tuple[int, ChildResult[JudgedRun]]]:
    """(number, result) of each run as it ends, until the deadline."""
    if processes:
        yield from in_children(work, processes=processes, deadline=deadline)
        return
    for number, run in enumerate(work):
        if time.monotonic() >= deadline:
            return
        yield number, _here(run)


def _rest(
    case: Case,
    log: RunLog,
    schedules: Sequence[Schedule],
    options: JudgeOptions,
    deadline: float,
    progress: Progress,
) -> None:
    """Runs schedules, several at a time, until they or the time are over."""

    def work(schedule: Schedule) -> Callable[[], JudgedRun]:
        return lambda: case.run(schedule, max(deadline - time.monotonic(), 0.01), False)

    waiting: dict[int, ChildResult[JudgedRun]] = {}
    done = noted = 0
    try:
        for number, result in _runs([work(schedule) for schedule in schedules], options.processes, deadline):
            waiting[number] = result
            done += 1
            while noted in waiting:  # in the order of the plan, whichever ended first
                log.note(schedules[noted], waiting.pop(noted))
                noted += 1
            remaining = math.ceil(max(deadline - time.monotonic(), 0.0))
            progress(f"{len(log.runs)} schedules, {len(log.causes)} found, {remaining} s left")
    finally:
        for number in sorted(waiting):
            log.note(schedules[number], waiting[number])
        log.skipped_runs += len(schedules) - done
