"""The verdict on a kernel variant that `check` ran over generated problems."""

from __future__ import annotations

from dataclasses import replace

from tileproof.conformance.check.result import Report, scores_as_dict
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
)
from tileproof.spec.machine.finding_text import headline

NAME = "stage conformance"
# Whether the examples covered the program is the gate's question.
UNCOUNTED = ProgramCoverage(0, 0, 0, 0)


def verdict_of(under_test: KernelUnderTest, report: Report, seed: int, replay: str = "") -> VerdictRecord:
    """The record of a report; `replay` is the command that shows its failure again."""
    failure, built = report.failure, under_test.production
    findings = [replace(found, check=NAME, replay=replay) for found in failure.findings] if failure else []
    reason = headline(findings[0]) if findings else "it was interrupted" if report.interrupted else ""
    outcome = CheckOutcome(
        NAME,
        True,
        "failed" if findings else "not run" if report.interrupted else "passed",
        reason,
        details={"examples": report.examples, "stages": scores_as_dict(report.scores)},
    )
    not_judged = [CheckOutcome("not judged", False, "not run", line) for line in report.not_judged]
    seeds: dict[str, list[int]] = {}
    for schedule in report.schedules:
        seeds.setdefault(schedule.policy, []).append(schedule.seed)
    return programs.record(
        programs.program(report.kernel, dict(report.variant.sizes), built.entry, built.ptx),
        seed,
        [outcome, *not_judged],
        findings=findings,
        coverage=UNCOUNTED,
        schedules=[SchedulesRun(policy, len(own), len(set(own))) for policy, own in seeds.items()],
        sections={"driver": report.driver},
        interrupted=report.interrupted,
    )
