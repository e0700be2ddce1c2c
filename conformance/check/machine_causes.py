"""Wrong values that findings of the machine in the same launch explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tileproof.conformance.diagnose.arrays import WEAK
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import source_or_line

if TYPE_CHECKING:
    from tileproof.emulator.codes import Code

# Findings on data that was read or written where or when it should not be.
GROUPS = frozenset(("memory", "copies", "tensor memory", "tensor core", "races"))
VALUES = ("value", "missing")
UNUSED = "uninitialised-unused"


def with_machine(
    findings: Sequence[Finding], stages: Sequence[str], notes: Sequence[Finding] = ()
) -> list[Finding]:
    """The findings, in which a wrong value that no known mistake explains names the machine's finding about
    its own stage's data, or else about an earlier stage's. A finding about a later stage explains nothing.

    `notes`: the machine's notes; a tile that was never written names the reads of data that nothing wrote.
    """
    known = [finding for finding in findings if finding.kind == "machine" and _about_data(finding)]
    unused = [note for note in notes if note.code == UNUSED]
    return [_with_notes(_named(finding, known, list(stages)), unused) for finding in findings]


def _with_notes(finding: Finding, unused: Sequence[Finding]) -> Finding:
    if finding.code != "missing" or not unused:
        return finding
    first = unused[0].machine
    where = source_or_line(first.source, first.ptx_line)
    return replace(finding, evidence=(*finding.evidence, f"{unused[0].message} ({where})"))


def known_code(name: str) -> Code | None:
    """The row of a finding's code; None for codes of values, or if the engine is not built."""
    try:
        from tileproof.emulator.codes import CODES
    except ImportError:
        return None
    return CODES.get(name)


def _about_data(finding: Finding) -> bool:
    code = known_code(finding.code)
    return code is not None and code.group in GROUPS


def _named(finding: Finding, known: Sequence[Finding], stages: list[str]) -> Finding:
    at = finding.problem
    if finding.code not in VALUES or finding.cause not in WEAK or at.stage not in stages:
        return finding
    before = [
        finding
        for finding in known
        if finding.problem.build == at.build and finding.problem.stage in stages[: stages.index(at.stage) + 1]
    ]
    if not before:
        return finding
    nearest = max(before, key=lambda finding: stages.index(finding.problem.stage))
    where = source_or_line(nearest.machine.source, nearest.machine.ptx_line)
    pointer = f"{nearest.code}{' at ' + where if where else ''}: see the machine's finding"
    return replace(finding, cause="; ".join(filter(None, (finding.cause, pointer))))
