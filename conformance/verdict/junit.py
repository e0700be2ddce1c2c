"""Verdicts as JUnit XML: a suite per kernel variant or launch file, a test per check."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from tileproof.conformance.verdict.contract import RELEASE, CheckOutcome, VerdictRecord, named_check
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import lines

NO_TIMES: Mapping[str, float] = {}
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2


def text(
    records: Sequence[VerdictRecord],
    release: Sequence[CheckOutcome] = (),
    name: str = "tileproof",
    times: Mapping[str, float] = NO_TIMES,
) -> str:
    """The document; `release`: checks of no kernel; `times`: seconds of checks by `contract.named_check`. A
    check that was not run is an error when required, else skipped.
    """
    root = ElementTree.Element("testsuites", name=name)
    for record in records:
        _suite(root, record.label, record.checks, record.findings, record.why, times)
    if release:
        _suite(root, RELEASE, release, (), (), times)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(
    root: ElementTree.Element,
    name: str,
    checks: Sequence[CheckOutcome],
    findings: Sequence[Finding],
    why: Sequence[str],
    times: Mapping[str, float],
) -> None:
    cases = []
    seconds = [times.get(named_check(name, check.name), 0.0) for check in checks]
    for check, took in zip(checks, seconds, strict=True):
        case = ElementTree.Element(
            "testcase", classname=_clean(name), name=_clean(check.name), time=f"{took}"
        )
        kind = _kind(check)
        if kind:
            reason = check.fault or check.reason or check.outcome
            child = ElementTree.SubElement(case, kind, message=_clean(f"{check.outcome}: {reason}"))
            own = [finding for finding in findings if finding.check == check.name]
            child.text = _clean("\n\n".join("\n".join(lines(finding)) for finding in own))
        cases.append(case)
    # What makes a verdict incomplete without a check of its own: what never ran.
    uncovered = [line for line in why if "never ran" in line]
    coverage = ElementTree.Element("testcase", classname=_clean(name), name="coverage", time="0")
    if uncovered:
        child = ElementTree.SubElement(coverage, "error", message=_clean(uncovered[0]))
        child.text = _clean("\n".join(uncovered))
    cases += [coverage] if findings or why or name != RELEASE else []
    count = {
        tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")
    }
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=_clean(name),
        tests=str(len(cases)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
        time=f"{sum(seconds):.3f}",
    )
    suite.extend(cases)


def _kind(check: CheckOutcome) -> str:
    if check.outcome == "passed":
        return ""
    if check.outcome == "failed":
        return "failure"
    return "error" if check.fault or check.required else "skipped"


def _clean(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return _NO_XML.sub("?", text)
