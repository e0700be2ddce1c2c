"""The property: for every generated case and schedule, both builds of a kernel agree with the spec.

Every check begins with the edges; then Hypothesis generates. Hypothesis shrinks what it drew, `smaller`
an edge; the smallest failing case comes back with its findings and the command that replays it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from tileproof.conformance.check.left_out import not_judged
from tileproof.conformance.check.run import KernelUnderTest, RunVerdict, every_fourth, run_case
from tileproof.conformance.check.trials import Trial, verdicts
from tileproof.conformance.drivers.capture import SEEDED, Policy, Schedule
from tileproof.conformance.judge.compare import StageScore
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.problems import draws
from tileproof.conformance.problems.generators import edges, generated, smaller
from tileproof.emulator.coverage import together
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import AnyCase

PolicyChoice = Literal["early", "late", "random", "starve", "pct", "all"]
POLICIES: tuple[Policy, ...] = ("early", "late", "random", "starve", "pct")
SHRINK_SECONDS = 60.0
WAITING = 10.0  # times as long by the clock: a card's process waits and takes no CPU time

Progress = Callable[[int, bool], None]
Seen = dict[Trial, list[Finding]]  # what was wrong with a failing trial, without its causes


class DefectFound(Exception):
    """Raised inside the property so that Hypothesis shrinks; never leaves `check`."""


class _Abort(BaseException):
    """Carries an error past Hypothesis, which would otherwise shrink it as if it were a defect."""


class Stopped(BaseException):
    """Raised by a signal handler: what is known so far is the result."""


class _Deadline:
    """`seconds` of this process's CPU time, or `WAITING` times as many by the clock."""

    def __init__(self, seconds: float) -> None:
        self._cpu, self._wall = time.process_time() + seconds, time.monotonic() + WAITING * seconds

    def past(self) -> bool:
        return time.process_time() > self._cpu or time.monotonic() > self._wall


@dataclass
class Failure:
    """The smallest failing example: its case and schedule, and all that is wrong with it."""

    case: AnyCase
    schedule: Schedule
    findings: list[Finding]
    repeated: bool = True  # whether it failed again when it ran for the report


@dataclass
class Report:
    """The result of a check of one variant; `title` names both in words."""

    kernel: str
    variant: Variant
    title: str
    examples: int = 0
    seconds: float = 0.0
    scores: dict[str, StageScore] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    agreed: int = 0
    again: int = 0  # examples whose production build was launched again, and gave the same outputs
    failure: Failure | None = None
    driver: str = ""
    not_judged: tuple[str, ...] = ()  # what the driver or the kernel does not show, in words
    chosen_schedules: bool = True  # whether the driver takes the schedule of a trial
    interrupted: bool = False  # before all examples had run, or while a failing one was made smaller
    schedules: list[Schedule] = field(default_factory=list)  # of the trials counted
    executed: bytes = b""  # what ran of the production build (tileproof.emulator.coverage)

    def count(self, verdict: RunVerdict, schedule: Schedule) -> None:
        """Adds one trial."""
        self.examples += 1
        self.schedules.append(schedule)
        self.executed = together(one for one in (self.executed, verdict.executed) if one)
        self.agreed += verdict.agreed
        self.again += verdict.again
        for name, score in verdict.scores.items():
            self.scores.setdefault(name, StageScore()).add(score)
        for code, number in verdict.remarks.items():
            self.remarks[code] = self.remarks.get(code, 0) + number


def _report(subject: KernelUnderTest) -> Report:
    plan = subject.plan()
    return Report(
        plan.name,
        subject.variant,
        subject.title(),
        driver=subject.driver.name,
        not_judged=not_judged(plan, subject.driver, subject.probe is not None),
        chosen_schedules="schedules" in subject.driver.capabilities,
    )


def schedules(policy: PolicyChoice) -> st.SearchStrategy[Schedule]:
    """Schedules of one policy, or of all; shrinks towards "early" and seed 0."""
    seeds = st.integers(0, 2**16 - 1)

    def of(one: Policy) -> st.SearchStrategy[Schedule]:
        return seeds.map(lambda seed: Schedule(one, seed)) if one in SEEDED else st.just(Schedule(one))

    return st.one_of(*map(of, POLICIES)) if policy == "all" else of(policy)


def edge_trials(plan: KernelPlan, policy: PolicyChoice, seed: int) -> list[Trial]:
    """The edges under one policy, or each under its own ones."""
    return [
        (edge.case, Schedule(one, seed if one in SEEDED else 0))
        for edge in edges(plan).values()
        for one in POLICIES
        if (one in edge.policies if policy == "all" else one == policy)
    ]


def drawn(plan: KernelPlan, policy: PolicyChoice, seed: int, examples: int) -> list[Trial]:
    """The trials that Hypothesis draws when none fails, in its order."""
    found: list[Trial] = []
    _draw(plan, policy, seed, examples, lambda case, schedule: found.append((case, schedule)))
    return found


def _draw(
    plan: KernelPlan,
    policy: PolicyChoice,
    seed: int,
    examples: int,
    trial: Callable[[AnyCase, Schedule], None],
) -> None:
    draws.run(trial, generated(plan), schedules(policy), examples=examples, seed=seed)


def check(
    subject: KernelUnderTest,
    *,
    examples: int,
    seed: int,
    policy: PolicyChoice = "all",
    progress: Progress = lambda done, shrinking: None,
    shrink_seconds: float = SHRINK_SECONDS,
    jobs: int = 1,
    with_edges: bool = True,
) -> Report:
    """Runs the edges and `examples` generated trials on `jobs` processes, stopping at the first defect and
    shrinking it; the result does not depend on `jobs`.

    Shrinking ends after `shrink_seconds` of this process's CPU time, so that a busy machine shrinks as far,
    at the latest after `WAITING` times as long by the clock; the smallest failing example known by then is
    reported. `KeyboardInterrupt` or `Stopped` end the check, and the report says what is known. A
    TileproofError of the build, the emulator or the inputs passes through: then nothing could be checked.
    """
    plan, report = subject.plan(), _report(subject)
    if not report.chosen_schedules:
        policy = "early"  # one trial per case: the driver takes no schedule
    began = time.monotonic()
    smallest: list[Trial] = []
    seen: Seen = {}

    def tell() -> None:
        progress(report.examples, True)

    try:
        fixed = edge_trials(plan, policy, seed) if with_edges else []
        trials = fixed + drawn(plan, policy, seed, examples)
        number = _first_failing(subject, trials, len(fixed), report, progress, jobs, seen)
        if number is not None:
            smallest.append(trials[number])
            deadline = _Deadline(shrink_seconds)
            if number < len(fixed):
                _shrink_edge(subject, smallest, seen, deadline, tell)
            else:
                passed = set(trials[len(fixed) : number])
                budget = (policy, seed, examples)
                _shrink_drawn(subject, budget, passed, smallest, seen, deadline, tell)
    except (KeyboardInterrupt, Stopped):
        report.interrupted = True
    if smallest:
        explained = run_case(subject, *smallest[-1]).findings
        # What depends on an order that nobody chose may be gone: then what was seen is told.
        report.failure = Failure(*smallest[-1], explained or seen[smallest[-1]], bool(explained))
    report.seconds = time.monotonic() - began
    return report


def _first_failing(
    subject: KernelUnderTest,
    trials: list[Trial],
    edges: int,
    report: Report,
    progress: Progress,
    jobs: int,
    seen: Seen,
) -> int | None:
    """The number of the first trial with a finding; counts every trial up to it, and fills `seen`. All of the
    first `edges` trials and every fourth of the others are launched again under another schedule.
    """

    def again(number: int) -> bool:
        return number < edges or every_fourth(*trials[number])

    for number, verdict in enumerate(verdicts(subject, trials, jobs, again)):
        report.count(verdict, trials[number][1])
        progress(report.examples, False)
        if verdict.findings:
            seen[trials[number]] = verdict.findings
            return number
    return None


def _shrink_edge(
    subject: KernelUnderTest,
    smallest: list[Trial],
    seen: Seen,
    deadline: _Deadline,
    progress: Callable[[], None],
) -> None:
    """Appends ever simpler failing trials to `smallest`, and their findings to `seen`."""
    shrinking = True
    while shrinking:
        shrinking = False
        case, schedule = smallest[-1]
        early = [(case, Schedule("early"))] if schedule.policy != "early" else []
        for trial in [*early, *((one, schedule) for one in smaller(subject.plan(), case))]:
            if deadline.past():
                return
            progress()
            if wrong := run_case(subject, *trial, explain=False).findings:
                smallest.append(trial)
                seen[trial] = wrong
                shrinking = True
                break


def _shrink_drawn(
    subject: KernelUnderTest,
    budget: tuple[PolicyChoice, int, int],
    passed: set[Trial],
    smallest: list[Trial],
    seen: Seen,
    deadline: _Deadline,
    progress: Callable[[], None],
) -> None:
    """Draws up to the failing trial, which Hypothesis then shrinks; appends to `smallest` and `seen`."""
    failing = {smallest[-1]}
    plan = subject.plan()

    def trial(case: AnyCase, schedule: Schedule) -> None:
        key = (case, schedule)
        if key in passed:
            return
        if key not in failing:
            if deadline.past():
                return
            progress()
            try:
                # Shrinking asks only whether a case fails: what caused it is told of the last one.
                wrong = run_case(subject, case, schedule, explain=False).findings
            except Exception as error:
                raise _Abort from error
            if not wrong:
                passed.add(key)
                return
            failing.add(key)
            seen[key] = wrong
        # The last failing call that Hypothesis makes is the replay of the smallest example.
        smallest.append(key)
        raise DefectFound

    policy, seed, examples = budget
    try:
        _draw(plan, policy, seed, examples, trial)
    except _Abort as abort:
        assert abort.__cause__ is not None
        raise abort.__cause__ from None
    except DefectFound:
        pass


def replay(subject: KernelUnderTest, case: AnyCase, schedule: Schedule) -> Report:
    """The report of one given trial."""
    report = _report(subject)
    began = time.monotonic()
    verdict = run_case(subject, case, schedule)
    report.count(verdict, schedule)
    if verdict.findings:
        report.failure = Failure(case, schedule, verdict.findings)
    report.seconds = time.monotonic() - began
    return report


def scores_as_dict(report: Report) -> dict[str, dict[str, Any]]:
    """What was compared of each stage, and how near its worst element came to its bound."""
    return {
        name: {
            "tiles": score.tiles,
            "elements": score.elements,
            "exact_elements": score.exact,
            "worst_error_over_bound": score.worst,
            "elements_without_bound": score.unbounded,
        }
        for name, score in report.scores.items()
    }


def as_dict(report: Report, command: str = "") -> dict[str, Any]:
    """The report for `--json`."""
    result: dict[str, Any] = {
        "kernel": report.kernel,
        "variant": dict(report.variant.sizes),
        "driver": report.driver,
        "verdict": "defect" if report.failure else "interrupted" if report.interrupted else "pass",
        "examples": report.examples,
        "interrupted": report.interrupted,
        "seconds": round(report.seconds, 3),
        "stages": scores_as_dict(report),
        "tiles_equal_in_both_builds": report.agreed,
        "launched_again": report.again,
        "remarks": report.remarks,
        "not_judged": list(report.not_judged),
    }
    if report.failure:
        result["case"] = report.failure.case.as_json()
        if report.chosen_schedules:
            schedule = report.failure.schedule
            result["schedule"] = {"policy": schedule.policy, "seed": schedule.seed}
        result["findings"] = [finding.as_dict() for finding in report.failure.findings]
        result["replay"] = command
        result["repeated"] = report.failure.repeated
    return result
