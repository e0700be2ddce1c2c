"""Reads verdicts of an older schema version into the fields of the next version.

Version 1 had flat findings with a rendered place (`where`) and the known coordinates; version 2 has
`Finding`. In the section `mutation`, version 2 called the outcome of a mutant `verdict`; version 3 calls it
`outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import named_check
from tileproof.spec.machine.finding import Finding, MachinePlace, ProblemPlace
from tileproof.spec.machine.types import UncheckedObject

# From each older version to the next: the data of a file, without its version number.
Upgrades = Mapping[int, Callable[[UncheckedObject], UncheckedObject]]

_SAME = (
    "check", "code", "message", "expected", "found", "bound", "wrong", "elements", "pattern", "cause",
    "count", "replay",
)  # fmt: skip
_MACHINE = ("isa_section", "instruction", "ptx_line", "source")


def _finding(finding: UncheckedObject) -> UncheckedObject:
    """A finding of version 1. Its rendered place is kept in words; the earlier access and the missing edge of
    a race, which had no other fields, become evidence.
    """
    old = dict(finding)
    where, coordinates = old.pop("where"), old.pop("coordinates")
    facts = [old.pop("source_before"), old.pop("missing")]
    labelled = zip(("before it: ", "missing: "), facts, strict=True)
    evidence = [f"{label}{fact}" for label, fact in labelled if fact] + old.pop("evidence")
    machine = jsonform.dump(MachinePlace()) | {name: old.pop(name) for name in _MACHINE}
    stage = old.pop("stage")
    problem = jsonform.dump(ProblemPlace(words=where)) | coordinates | {"stage": stage}
    same = {name: old.pop(name) for name in _SAME}
    new = {"machine": machine, "problem": problem, "evidence": evidence}
    # A field that version 1 did not have stays, and the reader refuses it by name.
    return jsonform.dump(Finding("", "")) | same | new | old


def verdict_from_1(data: UncheckedObject) -> UncheckedObject:
    """A verdict of version 1 as version 2."""
    findings = [_finding(finding) for finding in data["findings"]]
    return data | {"schema_version": 2, "findings": findings, "checks": _untimed(data["checks"])}


def verdict_from_2(data: UncheckedObject) -> UncheckedObject:
    """A verdict of version 2 as version 3."""
    sections = dict(data["sections"])
    if part := sections.get("mutation"):
        sections["mutation"] = part | {
            name: [_with_outcome(row) for row in part[name]]
            for name in ("survivors", "equivalents")
            if name in part
        }
    return data | {"schema_version": 3, "sections": sections}


def _with_outcome(row: UncheckedObject) -> UncheckedObject:
    return {"outcome" if name == "verdict" else name: value for name, value in row.items()}


def _untimed(checks: list[UncheckedObject]) -> list[UncheckedObject]:
    """Checks without their seconds, which version 2 keeps apart."""
    return [{name: value for name, value in check.items() if name != "seconds"} for check in checks]


def _times(data: UncheckedObject) -> dict[str, float]:
    """The seconds of all checks of an evidence of version 1, as version 2 names them."""
    times = {named_check("", check["name"]): check["seconds"] for check in data["checks"]}
    for kernel in data["kernels"]:
        program = kernel["program"]
        sizes = ",".join(f"{name}={value}" for name, value in sorted(program["variant"].items()))
        label = f"{program['kernel']} {sizes}".strip()
        times |= {named_check(label, check["name"]): check["seconds"] for check in kernel["checks"]}
    return times


def evidence_from_1(data: UncheckedObject) -> UncheckedObject:
    """The gate's evidence of version 1 as version 2: its verdicts were of version 1."""
    times = _times(data)
    return data | {
        "schema_version": 2,
        "kernels": [verdict_from_1(kernel) for kernel in data["kernels"]],
        "checks": _untimed(data["checks"]),
        "run": {"began": "", "seconds": sum(times.values()), "machine": "", "checks": times},
    }


def evidence_from_2(data: UncheckedObject) -> UncheckedObject:
    """The gate's evidence of version 2 as version 3."""
    return data | {"schema_version": 3, "kernels": [verdict_from_2(kernel) for kernel in data["kernels"]]}


VERDICT: Upgrades = {1: verdict_from_1, 2: verdict_from_2}
EVIDENCE: Upgrades = {1: evidence_from_1, 2: evidence_from_2}
