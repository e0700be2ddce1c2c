"""The checks that a verdict on any case has: instructions, machine, races, schedules."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.spec.machine.certificate import summary
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import headline
from tileproof.spec.machine.types import Json, UncheckedObject

MAX_LINES = 20
CERTIFIED = "certified for all schedules"


def failed_or(name: str, findings: Sequence[Finding], otherwise: CheckOutcome) -> CheckOutcome:
    """A check that failed by the first finding of its name; `otherwise` without any."""
    own = [finding for finding in findings if finding.check == name]
    if own:
        return CheckOutcome(name, True, "failed", headline(own[0]), details=otherwise.details)
    return otherwise


def not_run(name: str, reason: str, fault: str = "", **details: Json) -> CheckOutcome:
    """A required check without a result."""
    return CheckOutcome(name, True, "not run", reason, fault, details=details)


def instructions(refused: Sequence[str]) -> CheckOutcome:
    """Whether the emulator executes every form of the program."""
    reason = "; ".join(refused[:3]) + (f" and {len(refused) - 3} more" if len(refused) > 3 else "")
    details = {"not_executed": list(refused[:MAX_LINES])} if refused else {}
    return CheckOutcome("instructions", True, "unsupported" if refused else "passed", reason, details=details)


_ENDS = {
    "time-limit": "did not end within the time limit",
    "instruction-limit": "did not end within the instruction limit",
    "memory-limit": "exceeds the memory of a launch (memory-limit)",
}


def machine(log: RunLog, findings: Sequence[Finding]) -> CheckOutcome:
    """What the machine finds in what it executes."""
    details: UncheckedObject = {"remarks": dict(log.remarks)} if log.remarks else {}
    if log.failed_runs:
        first = log.failed_runs[0]
        details["faults"] = [failed.text for failed in log.failed_runs]
        if first.error is not None:
            details["errors"] = [first.error.as_dict()]
        reason = f"a run under {first.schedule} failed"
        return failed_or("machine", findings, not_run("machine", reason, first.text, **details))
    limited = [run for run in log.runs[:3] if run.ended_by]
    if limited or not log.runs:
        reason = f"{limited[0].schedule} {_ENDS[limited[0].ended_by]}" if limited else log.stopped
        return failed_or("machine", findings, not_run("machine", reason, **details))
    return failed_or("machine", findings, CheckOutcome("machine", True, "passed", details=details))


def races(log: RunLog, findings: Sequence[Finding], checked: bool) -> CheckOutcome:
    """Whether conflicting accesses are ordered."""
    if not checked:
        return not_run("races", "race checking is disabled (--no-races)")
    whole = any(not run.ended_by for run in log.runs)
    details = {"certificate": summary(run.certificate for run in log.runs)}
    passed = CheckOutcome("races", True, "passed", details=details)
    return failed_or("races", findings, passed if whole else not_run("races", log.stopped))


def schedules(log: RunLog, findings: Sequence[Finding]) -> CheckOutcome:
    """Whether several schedules ran, and their outputs agree; or the runs are certified for all."""
    ended = [run for run in log.runs if not run.ended_by]
    details: UncheckedObject = {"run": len(ended), "planned": log.planned, "skipped": log.skipped_runs}
    if reversals := log.reversed_runs():
        details["reversals"] = reversals
    outcome = CheckOutcome("schedules", True, "passed", details=details)
    some = [s for s in log.causes.values() if len(s.schedules) < len(ended) and not s.anew]
    if log.certified:
        outcome = CheckOutcome("schedules", True, "passed", CERTIFIED, details=details)
    elif len(ended) < 2:
        outcome = not_run("schedules", f"{len(ended)} schedules were run", **details)
    elif some:
        reason = f"they disagree: {len(some)} of {len(log.causes)} findings occur under only some of them"
        outcome = CheckOutcome("schedules", True, "failed", reason, details=details)
    return failed_or("schedules", findings, outcome)
