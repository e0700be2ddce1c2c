"""The property: for every generated case and schedule, both builds of a kernel agree with the spec.

A check first runs the edge cases, then problems drawn by Hypothesis. Hypothesis shrinks drawn problems,
`smaller` edge cases; the smallest failing case is returned with its findings and the command that replays it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Literal, TypedDict, Unpack

from hypothesis import strategies as st
from tileproof.conformance.cases import draws
from tileproof.conformance.cases.generators import edges, generated, smaller
from tileproof.conformance.check.not_judged import not_judged
from tileproof.conformance.check.result import Failure, Report
from tileproof.conformance.check.run import KernelUnderTest, every_fourth, run_case
from tileproof.conformance.check.runs import Again, Ahead, Run, judged_runs
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import SEEDED, Policy, Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import AnyCase

PolicyChoice = Literal["early", "late", "random", "starve", "pct", "all"]
POLICIES: tuple[Policy, ...] = ("early", "late", "random", "starve", "pct")
SHRINK_SECONDS = 60.0
WAITING = 10.0  # times as long by the clock: a card's process waits and takes no CPU time

Progress = Callable[[int, bool], None]
Seen = dict[Run, list[Finding]]  # what was wrong with a failing run, without its causes


class CheckBudget(TypedDict):
    """Which runs a check has: keywords of `check`."""

    examples: int
    seed: int
    policy: PolicyChoice
    with_edges: bool


class DefectFound(Exception):
    """Raised inside the property so that Hypothesis shrinks; never leaves `check`."""


class _Abort(BaseException):
    """Carries an error past Hypothesis, which would otherwise shrink it as if it were a defect."""


class _Ended(BaseException):
    """The time for shrinking is over: Hypothesis would continue to draw cases that are not run."""


class _Deadline:
    """`seconds` of this process's CPU time, or `WAITING` times as many by the clock."""

    def __init__(self, seconds: float) -> None:
        self._cpu, self._wall = time.process_time() + seconds, time.monotonic() + WAITING * seconds

    def past(self) -> bool:
        return time.process_time() > self._cpu or time.monotonic() > self._wall


def _report(under_test: KernelUnderTest) -> Report:
    plan = under_test.plan()
    return Report(
        plan.name,
        under_test.variant,
        under_test.title(),
        driver=under_test.driver.name,
        not_judged=not_judged(plan, under_test.driver, under_test.probe is not None),
        chosen_schedules="schedules" in under_test.driver.capabilities,
    )


def schedules(policy: PolicyChoice) -> st.SearchStrategy[Schedule]:
    """Schedules of one policy, or of all; shrinks towards "early" and seed 0."""
    seeds = st.integers(0, 2**16 - 1)

    def of(policy: Policy) -> st.SearchStrategy[Schedule]:
        return (
            seeds.map(lambda seed: Schedule(policy, seed)) if policy in SEEDED else st.just(Schedule(policy))
        )

    return st.one_of(*map(of, POLICIES)) if policy == "all" else of(policy)


def edge_runs(plan: KernelPlan, policy: PolicyChoice, seed: int, only: str = "") -> list[Run]:
    """The edge cases, or that of a name, under one policy, or each under its own policies."""
    known = edges(plan)
    if only and only not in known:
        raise TileproofError(
            f"{plan.name} has no such edge case", where="edge", expected=", ".join(known), found=only
        )
    return [
        (edge.case, Schedule(name, seed if name in SEEDED else 0))
        for edge in ([known[only]] if only else known.values())
        for name in POLICIES
        if (name in edge.policies if policy == "all" else name == policy)
    ]


@lru_cache(maxsize=16)
def drawn(plan: KernelPlan, policy: PolicyChoice, seed: int, examples: int) -> tuple[Run, ...]:
    """The runs that Hypothesis draws when none fails, in its order."""
    found: list[Run] = []
    _draw(plan, policy, seed, examples, lambda case, schedule: found.append((case, schedule)))
    return tuple(found)


def _draw(
    plan: KernelPlan,
    policy: PolicyChoice,
    seed: int,
    examples: int,
    run: Callable[[AnyCase, Schedule], None],
) -> None:
    draws.run(run, generated(plan), schedules(policy), examples=examples, seed=seed)


def check(
    under_test: KernelUnderTest,
    *,
    examples: int,
    seed: int,
    policy: PolicyChoice = "all",
    progress: Progress = lambda done, shrinking: None,
    shrink_seconds: float = SHRINK_SECONDS,
    jobs: int = 1,
    with_edges: bool = True,
    ahead: Ahead | None = None,
    explain: bool = True,
    edge: str = "",
) -> Report:
    """Runs the edges and `examples` generated runs on `jobs` processes, stopping at the first defect and
    shrinking it; the result does not depend on `jobs`, nor on the processes of `ahead`, which several checks
    share.

    Shrinking ends after `shrink_seconds` of this process's CPU time, so that a busy machine shrinks as far,
    at the latest after `WAITING` times as long by the clock; the smallest failing example known by then is
    reported. `KeyboardInterrupt` or `Stopped` end the check; the report has the results so far. A
    TileproofError of the build, the emulator or the inputs is raised: then nothing could be checked.
    Without `explain` a failure has no causes, and its run is not launched again to find them. With `edge`
    the edge case of that name is all that runs.
    """
    plan, report = under_test.plan(), _report(under_test)
    policy = _taken(under_test, policy)
    began = time.monotonic()
    smallest: list[Run] = []
    seen: Seen = {}

    def show_progress() -> None:
        progress(report.examples, True)

    try:
        runs, edges = _planned(
            plan, policy=policy, seed=seed, examples=examples, with_edges=with_edges, edge=edge
        )
        coming = (
            ahead.judged_runs(under_test)
            if ahead
            else judged_runs(under_test, runs, jobs, _again(runs, edges))
        )
        number = _first_failing(runs, coming, report, progress, seen)
        if number is not None:
            smallest.append(runs[number])
            deadline = _Deadline(shrink_seconds)
            if number < edges:
                _shrink_edge(under_test, smallest, seen, deadline, show_progress)
            else:
                passed = set(runs[edges:number])
                budget = (policy, seed, examples)
                _shrink_drawn(under_test, budget, passed, smallest, seen, deadline, show_progress)
    except (KeyboardInterrupt, Stopped):
        report.interrupted = True
    if smallest:
        explained = run_case(under_test, *smallest[-1]).findings if explain else []
        # A finding that depends on an order that nobody chose may be gone: then the first run's is reported.
        again = bool(explained) or not explain
        report.failure = Failure(*smallest[-1], explained or seen[smallest[-1]], again)
    report.seconds = time.monotonic() - began
    return report


def shared_ahead(
    under_tests: Sequence[KernelUnderTest],
    jobs: int,
    **budget: Unpack[CheckBudget],
) -> Ahead:
    """The processes for the checks of several kernels with these budgets."""

    def plan(under_test: KernelUnderTest) -> tuple[Sequence[Run], Again]:
        own: CheckBudget = {**budget, "policy": _taken(under_test, budget["policy"])}
        runs, edges = _planned(under_test.plan(), **own)
        return runs, _again(runs, edges)

    return Ahead(under_tests, plan, jobs)


def _planned(
    plan: KernelPlan, *, policy: PolicyChoice, seed: int, examples: int, with_edges: bool, edge: str = ""
) -> tuple[list[Run], int]:
    """The runs of a check, and how many of the first runs are edge cases; `edge`: of that edge case alone."""
    if edge:
        only = edge_runs(plan, policy, seed, edge)
        return only, len(only)
    fixed = edge_runs(plan, policy, seed) if with_edges else []
    return [*fixed, *drawn(plan, policy, seed, examples)], len(fixed)


def _taken(under_test: KernelUnderTest, policy: PolicyChoice) -> PolicyChoice:
    """ "early", one run per case, where the driver takes no schedule."""
    return policy if "schedules" in under_test.driver.capabilities else "early"


def _again(runs: Sequence[Run], edges: int) -> Again:
    """All of the first `edges` runs and every fourth of the others are launched again under another
    schedule.
    """
    return lambda number: number < edges or every_fourth(*runs[number])


def _first_failing(
    runs: list[Run],
    coming: Generator[JudgedRun],
    report: Report,
    progress: Progress,
    seen: Seen,
) -> int | None:
    """The number of the first run with a finding; counts every run up to it, and fills `seen`."""
    with closing(coming):
        for number, run in enumerate(coming):
            report.count(run, runs[number][1])
            progress(report.examples, False)
            if run.findings:
                seen[runs[number]] = run.findings
                return number
    return None


def _shrink_edge(
    under_test: KernelUnderTest,
    smallest: list[Run],
    seen: Seen,
    deadline: _Deadline,
    progress: Callable[[], None],
) -> None:
    """Appends ever simpler failing runs to `smallest`, and their findings to `seen`."""
    shrinking = True
    while shrinking:
        shrinking = False
        case, schedule = smallest[-1]
        early = [(case, Schedule("early"))] if schedule.policy != "early" else []
        for run in [*early, *((simpler, schedule) for simpler in smaller(under_test.plan(), case))]:
            if deadline.past():
                return
            progress()
            if wrong := run_case(under_test, *run, explain=False).findings:
                smallest.append(run)
                seen[run] = wrong
                shrinking = True
                break


def _shrink_drawn(
    under_test: KernelUnderTest,
    budget: tuple[PolicyChoice, int, int],
    passed: set[Run],
    smallest: list[Run],
    seen: Seen,
    deadline: _Deadline,
    progress: Callable[[], None],
) -> None:
    """Draws up to the failing run, which Hypothesis then shrinks; appends to `smallest` and `seen`."""
    failing = {smallest[-1]}
    plan = under_test.plan()

    def run(case: AnyCase, schedule: Schedule) -> None:
        key = (case, schedule)
        if key in passed:
            return
        if key not in failing:
            if deadline.past():
                raise _Ended
            progress()
            try:
                # Shrinking asks only whether a case fails: the cause is searched for the last case.
                wrong = run_case(under_test, case, schedule, explain=False).findings
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
        _draw(plan, policy, seed, examples, run)
    except _Abort as abort:
        assert abort.__cause__ is not None
        raise abort.__cause__ from None
    except (DefectFound, _Ended):
        pass


def replay(under_test: KernelUnderTest, case: AnyCase, schedule: Schedule) -> Report:
    """The report of one given run."""
    report = _report(under_test)
    began = time.monotonic()
    run = run_case(under_test, case, schedule)
    report.count(run, schedule)
    if run.findings:
        report.failure = Failure(case, schedule, run.findings)
    report.seconds = time.monotonic() - began
    return report
