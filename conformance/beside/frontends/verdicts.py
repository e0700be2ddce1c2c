"""The verdict on the launches of a block, in the gate's contract (`conformance/verdict`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tileproof.conformance.judging.machine import finding_of
from tileproof.conformance.verdict import contract
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    JudgedProgram,
    OrderOnly,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
)
from tileproof.emulator import Schedule
from tileproof.emulator.causes import by_cause
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import LIMITS
from tileproof.spec.machine.schedule import SEEDED
from tileproof.spec.machine.types import JsonValue

if TYPE_CHECKING:
    from tileproof.conformance.beside.frontends.run import EmulatedLaunch


def verdict(
    launches: Sequence[EmulatedLaunch], schedule: Schedule, races: bool, notes: Sequence[str] = ()
) -> VerdictRecord:
    """The verdict on launches under a single schedule. It is never "clean": that requires other schedules and
    expected values.
    """
    found: list[Finding] = []
    for number, launch in enumerate(launches, 1):
        for cause in by_cause(f for f in launch.result.errors if f.code not in LIMITS):
            made = finding_of(cause)
            found.append(replace(made, machine=replace(made.machine, launch=number, kernel=launch.kernel)))
    limited = [launch for launch in launches if any(f.code in LIMITS for f in launch.findings)]
    checks = _checks(found, len(launches), races, limited)
    coverage, only = _covered(launches)
    seeds = int(schedule.policy in SEEDED and bool(launches))
    return programs.record(
        _program(launches),
        schedule.seed,
        checks,
        findings=found,
        coverage=coverage,
        order_only=only,
        schedules=[SchedulesRun(schedule.policy, len(launches), seeds)] if launches else (),
        sections={"block": _section(launches, schedule, notes)},
    )


def _checks(
    found: Sequence[Finding], count: int, races: bool, limited: Sequence[EmulatedLaunch]
) -> list[CheckOutcome]:
    reason = "" if count else "nothing was launched"
    if limited:
        reason = f"a launch of {limited[0].kernel} did not end within its limit"
    checks = []
    for name in ("machine", "races"):
        own = [finding for finding in found if finding.check == name]
        why = "race checking is disabled (races=False)" if name == "races" and not races else reason
        outcome: contract.Outcome = "failed" if own else "not run" if why else "passed"
        checks.append(CheckOutcome(name, True, outcome, own[0].message if own else why))
    checks.append(CheckOutcome("values", True, "not run", "a block compares no values: judge(expect) does"))
    checks.append(CheckOutcome("schedules", True, "not run", "one schedule was run: judge() runs others"))
    return checks


def _program(launches: Sequence[EmulatedLaunch]) -> JudgedProgram:
    """The hash of the concatenated texts of all kernels."""
    known = list({(launch.launch.ptx, launch.launch.entry): launch for launch in launches}.values())
    names = ", ".join(dict.fromkeys(run.kernel for run in known))
    entries = ", ".join(dict.fromkeys(run.launch.entry for run in known))
    by = "; ".join(dict.fromkeys(run.launch.compiler for run in known))
    return programs.program(names, {}, entries, "".join(run.ptx for run in known), by)


def _covered(launches: Sequence[EmulatedLaunch]) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
    """The merged coverage of all launches over all entries."""
    executed: dict[tuple[str, str], list[EmulatedLaunch]] = {}
    for launch in launches:
        executed.setdefault((launch.launch.ptx, launch.launch.entry), []).append(launch)
    return programs.total_coverage(
        (few[0].launch.module.decode(few[0].launch.entry), [run.result.executed for run in few])
        for few in executed.values()
    )


def _section(
    launches: Sequence[EmulatedLaunch], schedule: Schedule, notes: Sequence[str]
) -> Mapping[str, JsonValue]:
    return {
        "schedule": str(schedule),
        "launches": [
            {"kernel": launch.kernel, "grid": list(launch.launch.grid), "block": list(launch.launch.block)}
            for launch in launches
        ],
        "notes": list(notes),
    }
