"""The machine's findings of a run as a verdict shows them: errors by cause, and remarks."""

from __future__ import annotations

from dataclasses import replace

from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_causes import Cause, by_cause
from tileproof.spec.machine.run_result import LIMITS, RunResult

RACE = "race-"
MAX_PLACES = 6


def machine_findings(run: RunResult) -> tuple[list[Finding], dict[str, int]]:
    """(errors, a finding for each cause; "severity code: message" of all other causes)."""
    errors: list[Finding] = []
    remarks = {f"left out: {limit}": 1 for limit in run.limited}
    for allowed, findings in ((False, run.findings), (True, run.allowed)):
        for cause in by_cause(finding for finding in findings if finding.code not in LIMITS):
            if cause.severity == "error" and not allowed:
                errors.append(finding_of(cause))
            else:
                severity = "allowed" if allowed else cause.severity
                remarks[f"{severity} {cause.code}: {cause.sample.message}"] = 1
    return errors, remarks


def finding_of(cause: Cause) -> Finding:
    """The first finding of a cause, for the check "races" or "machine", with the places of the others."""
    sample = cause.sample
    more = cause.places[1:]
    shown = ", ".join(more[:MAX_PLACES]) + (", ..." if len(more) > MAX_PLACES else "")
    return replace(
        sample,
        check=check_of(sample),
        count=cause.count,
        evidence=(
            *sample.evidence,
            *(() if sample.machine.root else map(str, sample.machine.waiting)),
            *((f"also at {shown}",) if more else ()),
        ),
    )


def check_of(finding: Finding) -> str:
    """The check that a machine finding belongs to."""
    return "races" if finding.code.startswith(RACE) else "machine"
