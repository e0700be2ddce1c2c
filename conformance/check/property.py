"""The property: for every generated case and schedule, both builds of a kernel agree with the spec.

Hypothesis generates and shrinks; the smallest failing case comes back with its findings and the command that
replays it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from tileproof.conformance.check.run import Subject, Verdict, run_trial
from tileproof.conformance.drivers.capture import Policy, Schedule
from tileproof.conformance.judge.compare import StageScore
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.problems import draws
from tileproof.conformance.problems.generators import AnyCase, generated
from tileproof.kernels.variant import Variant

PolicyChoice = Literal["early", "late", "random", "all"]
POLICIES: tuple[Policy, ...] = ("early", "late", "random")
SHRINK_SECONDS = 60.0

Progress = Callable[[int, bool], None]


class DefectFound(Exception):
    """Raised inside the property so that Hypothesis shrinks; never leaves `check`."""


class _Abort(BaseException):
    """Carries an error past Hypothesis, which would otherwise shrink it as if it were a defect."""


@dataclass
class Failure:
    """The smallest failing example: its case and schedule, and all that is wrong with it."""

    case: AnyCase
    schedule: Schedule
    findings: list[Finding]


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
    failure: Failure | None = None

    def count(self, verdict: Verdict) -> None:
        """Adds one trial."""
        self.examples += 1
        self.agreed += verdict.agreed
        for name, score in verdict.scores.items():
            self.scores.setdefault(name, StageScore()).add(score)
        for code, number in verdict.remarks.items():
            self.remarks[code] = self.remarks.get(code, 0) + number


def schedules(policy: PolicyChoice) -> st.SearchStrategy[Schedule]:
    """Schedules of one policy, or of all; shrinks towards "early" and seed 0."""
    seeds = st.integers(0, 2**16 - 1)
    fixed: dict[str, st.SearchStrategy[Schedule]] = {
        "early": st.just(Schedule("early")),
        "late": st.just(Schedule("late")),
        "random": seeds.map(lambda seed: Schedule("random", seed)),
    }
    return st.one_of(*fixed.values()) if policy == "all" else fixed[policy]


def check(
    subject: Subject,
    *,
    examples: int,
    seed: int,
    policy: PolicyChoice = "all",
    progress: Progress = lambda done, shrinking: None,
    shrink_seconds: float = SHRINK_SECONDS,
) -> Report:
    """Runs `examples` generated trials, stopping at the first defect and shrinking it.

    Shrinking ends after `shrink_seconds` of this process's CPU time, so that a busy machine shrinks as far;
    the smallest failing example known by then is reported. A TileproofError of the build, the emulator or the
    inputs passes through: then nothing could be checked.
    """
    plan = subject.plan()
    report = Report(plan.name, subject.variant, subject.title())
    failures: dict[tuple[AnyCase, Schedule], list[Finding]] = {}
    last: list[tuple[AnyCase, Schedule]] = []
    deadline = float("inf")
    began = time.monotonic()

    def trial(case: AnyCase, schedule: Schedule) -> None:
        nonlocal deadline
        key = (case, schedule)
        if key not in failures:
            if time.process_time() > deadline:
                return
            try:
                # Shrinking asks only whether a case fails: what caused it is told of the last one.
                verdict = run_trial(subject, case, schedule, explain=False)
            except Exception as error:
                raise _Abort from error
            if not failures:
                report.count(verdict)
            progress(report.examples, bool(failures))
            if not verdict.findings:
                return
            deadline = min(deadline, time.process_time() + shrink_seconds)
            failures[key] = verdict.findings
        last[:] = [key]
        raise DefectFound

    try:
        draws.run(trial, generated(plan), schedules(policy), examples=examples, seed=seed)
    except _Abort as abort:
        assert abort.__cause__ is not None
        raise abort.__cause__ from None
    except DefectFound:
        # The last failing call that Hypothesis makes is the replay of the smallest example.
        case, schedule = last[0]
        report.failure = Failure(case, schedule, run_trial(subject, case, schedule).findings)
    report.seconds = time.monotonic() - began
    return report


def replay(subject: Subject, case: AnyCase, schedule: Schedule) -> Report:
    """The report of one given trial."""
    report = Report(subject.plan().name, subject.variant, subject.title())
    began = time.monotonic()
    verdict = run_trial(subject, case, schedule)
    report.count(verdict)
    if verdict.findings:
        report.failure = Failure(case, schedule, verdict.findings)
    report.seconds = time.monotonic() - began
    return report


def as_dict(report: Report, command: str = "") -> dict[str, Any]:
    """The report for `--json`."""
    result: dict[str, Any] = {
        "kernel": report.kernel,
        "variant": dict(report.variant.sizes),
        "verdict": "defect" if report.failure else "pass",
        "examples": report.examples,
        "seconds": round(report.seconds, 3),
        "stages": {
            name: {
                "tiles": score.tiles,
                "elements": score.elements,
                "exact_elements": score.exact,
                "worst_error_over_bound": score.worst,
                "elements_without_bound": score.unbounded,
            }
            for name, score in report.scores.items()
        },
        "tiles_equal_in_both_builds": report.agreed,
        "remarks": report.remarks,
    }
    if report.failure:
        result["case"] = report.failure.case.as_json()
        result["schedule"] = {"policy": report.failure.schedule.policy, "seed": report.failure.schedule.seed}
        result["findings"] = [finding.as_dict() for finding in report.failure.findings]
        result["replay"] = command
    return result
