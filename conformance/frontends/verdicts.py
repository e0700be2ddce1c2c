"""The verdict on what ran in a block, in the gate's contract (`conformance/verdict`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tileproof.conformance.judging.judged_runs import defect_of
from tileproof.conformance.judging.runs import LIMITS
from tileproof.conformance.verdict import contract
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    Defect,
    JudgedProgram,
    OrderOnly,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
)
from tileproof.emulator import Schedule
from tileproof.emulator.causes import by_cause
from tileproof.emulator.schedule import SEEDED

if TYPE_CHECKING:
    from tileproof.conformance.frontends.run import EmulatedLaunch


def verdict(
    launches: Sequence[EmulatedLaunch], schedule: Schedule, races: bool, notes: Sequence[str] = ()
) -> VerdictRecord:
    """The verdict on launches under one schedule. It is never "clean": that asks for other schedules, and for
    values that somebody states.
    """
    found: list[Defect] = []
    for number, one in enumerate(launches, 1):
        for cause in by_cause(f for f in one.result.errors if f.code not in LIMITS):
            defect = defect_of(cause)
            found.append(replace(defect, where=f"launch {number}, {one.kernel}, {defect.where}"))
    limited = [one for one in launches if any(f.code in LIMITS for f in one.findings)]
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
    found: Sequence[Defect], count: int, races: bool, limited: Sequence[EmulatedLaunch]
) -> list[CheckOutcome]:
    reason = "" if count else "nothing was launched"
    if limited:
        reason = f"a launch of {limited[0].kernel} did not end within its limit"
    checks = []
    for name in ("machine", "races"):
        own = [one for one in found if one.check == name]
        why = "they were left out (races=False)" if name == "races" and not races else reason
        outcome: contract.Outcome = "failed" if own else "not run" if why else "passed"
        checks.append(CheckOutcome(name, True, outcome, own[0].message if own else why))
    checks.append(CheckOutcome("values", True, "not run", "a block compares no values: judge(expect) does"))
    checks.append(CheckOutcome("schedules", True, "not run", "one schedule was run: judge() runs others"))
    return checks


def _program(launches: Sequence[EmulatedLaunch]) -> JudgedProgram:
    """Of several kernels the texts one after another are hashed."""
    known = list({(one.launch.ptx, one.launch.entry): one for one in launches}.values())
    names = ", ".join(dict.fromkeys(one.kernel for one in known))
    entries = ", ".join(dict.fromkeys(one.launch.entry for one in known))
    by = "; ".join(dict.fromkeys(one.launch.compiler for one in known))
    return programs.program(names, {}, entries, "".join(one.ptx for one in known), by)


def _covered(launches: Sequence[EmulatedLaunch]) -> tuple[ProgramCoverage | None, tuple[OrderOnly, ...]]:
    """What all launches covered of all entries together."""
    executed: dict[tuple[str, str], list[EmulatedLaunch]] = {}
    for one in launches:
        executed.setdefault((one.launch.ptx, one.launch.entry), []).append(one)
    return programs.covered_together(
        (few[0].launch.module.decode(few[0].launch.entry), [one.result.executed for one in few])
        for few in executed.values()
    )


def _section(
    launches: Sequence[EmulatedLaunch], schedule: Schedule, notes: Sequence[str]
) -> Mapping[str, Any]:
    return {
        "schedule": str(schedule),
        "launches": [
            {"kernel": one.kernel, "grid": list(one.launch.grid), "block": list(one.launch.block)}
            for one in launches
        ],
        "notes": list(notes),
    }
