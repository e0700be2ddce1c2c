"""The verdict on a case from its runs."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.judging.case import Case
from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import CheckOutcome, SchedulesRun, VerdictRecord
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import SEEDED


def verdict(case: Case, log: RunLog, seed: int, command: Sequence[str]) -> VerdictRecord:
    """The verdict on what is known. `command`: the words that judge the case again."""
    findings = log.findings(command, case.order)
    coverage, order_only = case.covered(log)
    return programs.record(
        case.program,
        seed,
        list(case.checks(log, findings)),
        findings=findings,
        coverage=coverage,
        order_only=order_only,
        schedules=_schedules_run(log),
        sections=case.sections(log),
        interrupted=log.interrupted,
    )


def refused(name: str, seed: int, error: TileproofError) -> VerdictRecord:
    """The verdict where there is not even a launch file, or its reference cannot be read."""
    check = CheckOutcome(
        "launch file", True, "not run", error.what, str(error), details={"errors": [error.as_dict()]}
    )
    return programs.record(programs.program(name, {}, "", ""), seed, [check])


def _schedules_run(log: RunLog) -> tuple[SchedulesRun, ...]:
    seeds: dict[str, list[int]] = {}
    for run in log.runs:
        seeds.setdefault(run.schedule.policy, []).append(run.schedule.seed)
    return tuple(
        SchedulesRun(policy, len(own), len(set(own)) if policy in SEEDED else 0)
        for policy, own in seeds.items()
    )
