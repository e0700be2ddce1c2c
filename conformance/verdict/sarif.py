"""Verdicts as SARIF 2.1.0 (OASIS, errata 01), the format of code scanning: a run per verdict, a result per
finding.

A rule is a finding's code. Places are relative to the folder in which a source was found, so that they do not
name this machine. Fingerprints hold only what does not change between two runs on the same sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator.codes import CODES
from tileproof.spec.machine.finding import OTHER_CODES, VALUE_CODES, Finding, MachinePlace
from tileproof.spec.machine.finding_causes import inline_chain, key
from tileproof.spec.machine.finding_text import headline, place, root
from tileproof.spec.machine.types import JsonObject

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
PTX_ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
FINGERPRINT = "tileproofFinding/v1"
UNPUBLISHED = ("waiting", "graph")  # of the machine's place: the verdict's JSON has them
ELSEWHERE = ("code", "message", "severity", "count")  # in fields that SARIF has for them
_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?$")


def text(records: Sequence[VerdictRecord], folders: Sequence[Path] = ()) -> str:
    """The SARIF log of `records`; `folders` are searched for the sources that findings name by file name."""
    sources = _Sources(folders)
    log = {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [_run(record, sources) for record in records],
    }
    return json.dumps(jsonform.dump(log), indent=1, allow_nan=False) + "\n"


class _Sources:
    """Paths of sources below some folders, relative to the working directory, else to the folder."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder.resolve() for folder in folders]

    def uri(self, name: str) -> str:
        """The path of a file below the first folder that has it (the shallowest there), else its name."""
        name = name.replace("\\", "/").rsplit("/", 1)[-1]
        return quote(self._paths.get(name, name))

    @cached_property
    def _paths(self) -> dict[str, str]:
        """The paths by file name; hidden folders and builds hold no sources."""
        found: dict[str, str] = {}
        here = Path.cwd()
        for folder in self._folders:
            for path, folders, names in os.walk(folder):
                folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "build")
                base = here if Path(path).is_relative_to(here) else folder
                at = Path(path).relative_to(base)
                for name in names:
                    if name not in found or len(at.parts) < found[name].count("/"):
                        found[name] = (at / name).as_posix()
        return found


def _run(record: VerdictRecord, sources: _Sources) -> JsonObject:
    codes = list(dict.fromkeys(finding.code for finding in record.findings))
    program = record.program
    variant = [f"{name}={size}" for name, size in program.variant.items()]
    return {
        "tool": {
            "driver": {
                "name": "Tileproof",
                "version": record.tool.version,
                "rules": [_rule(code, record.findings) for code in codes],
            }
        },
        "automationDetails": {"id": "/".join(["tileproof", program.kernel, *variant, ""])},
        "invocations": [_invocation(record)],
        "results": [
            _result(finding, record, codes.index(finding.code), sources) for finding in record.findings
        ],
        "columnKind": "utf16CodeUnits",
        "properties": {
            "verdict": record.verdict,
            "entry": program.entry,
            "ptxSha256": program.ptx_sha256,
            "seed": record.seed,
            "checks": {check.name: check.outcome for check in record.checks},
        },
    }


def _rule(code: str, findings: Sequence[Finding]) -> JsonObject:
    sections = {finding.machine.isa_section for finding in findings if finding.code == code} - {""}
    known = CODES.get(code)
    meaning = known.meaning if known else {**VALUE_CODES, **OTHER_CODES}.get(code, code.replace("-", " "))
    rule: JsonObject = {
        "id": code,
        "shortDescription": {"text": f"{meaning[:1].upper()}{meaning[1:]}."},
        "defaultConfiguration": {"level": known.severity if known else "error"},
        "properties": {"isaSections": sorted(sections)},
    }
    return rule | ({"helpUri": PTX_ISA} if known else {})


def _invocation(record: VerdictRecord) -> JsonObject:
    """Whether the tool could judge; each reason that is no finding is a notification."""
    reported = {f"{finding.check}: {headline(finding)}" for finding in record.findings}
    level = "error" if record.verdict == "error" else "warning"
    return {
        "executionSuccessful": record.verdict != "error",
        "exitCode": record.exit_code,
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": reason}} for reason in record.why if reason not in reported
        ],
    }


def _result(finding: Finding, record: VerdictRecord, rule: int, sources: _Sources) -> JsonObject:
    machine, logical = finding.machine, _logical(finding, record)
    after = finding.message if root(finding) else finding.cause
    words = [headline(finding), *(part for part in (place(finding), after) if part)]
    result: JsonObject = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "kind": "fail",
        "message": {"text": "\n".join(words)},
        "locations": [_location(machine.source, machine.ptx_line, record, sources, logical)],
        "partialFingerprints": {FINGERPRINT: fingerprint(finding, record.program.kernel)},
        "occurrenceCount": max(finding.count, 1),
        "properties": _properties(finding),
    }
    related = list(_related(machine, record, sources))
    return result | ({"relatedLocations": related} if related else {})


def _location(
    source: str, ptx_line: int, record: VerdictRecord, sources: _Sources, logical: list[JsonObject]
) -> JsonObject:
    """The source line, else the line of the PTX; without either the kernel alone."""
    made: JsonObject = {"logicalLocations": logical} if logical else {}
    name, line = _split(inline_chain(source)[0])
    if not name and ptx_line:
        name, line = f"{record.program.kernel}.ptx", ptx_line
    if name:
        physical: JsonObject = {"artifactLocation": {"uri": sources.uri(name)}}
        made["physicalLocation"] = physical | ({"region": {"startLine": line}} if line else {})
    return made


def _split(source: str) -> tuple[str, int]:
    found = _LINE.match(source)
    return (found["file"], int(found["line"])) if found else (source, 0)


def _logical(finding: Finding, record: VerdictRecord) -> list[JsonObject]:
    """The kernel, the stage, or the output of a launch file, and the k-block."""
    at = finding.problem
    parts = [(finding.machine.kernel or record.program.entry or record.program.kernel, "function")]
    parts += [(at.stage or at.array or at.tile, "stage")] if at.stage or at.array or at.tile else []
    parts += [(f"k-block {at.k_block}", "k-block")] if at.k_block is not None else []
    names = [name for name, _ in parts]
    return [
        {"name": name, "kind": kind, "fullyQualifiedName": "/".join(names[: number + 1])}
        for number, (name, kind) in enumerate(parts)
    ]


def _related(machine: MachinePlace, record: VerdictRecord, sources: _Sources) -> Iterator[JsonObject]:
    """The earlier access of a race, and the callers of an inlined line."""
    race = machine.race
    if race is not None and (race.source or race.ptx_line):
        at = _location(race.source, race.ptx_line, record, sources, [])
        yield {"id": 1, "message": {"text": f"earlier access: {race}"}, **at}
    callers = inline_chain(machine.source)[1]
    for number, caller in enumerate(callers.split(", ") if callers else [], 2):
        at = _location(caller, 0, record, sources, [])
        yield {"id": number, "message": {"text": "inlined here"}, **at}


def fingerprint(finding: Finding, kernel: str) -> str:
    """The finding's name in every run on the same sources: no values, schedules, CTAs or counts."""
    at = finding.problem
    parts = [kernel, *key(finding), at.stage, at.array, at.tile, at.build, finding.check]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _properties(finding: Finding) -> JsonObject:
    """All other fields of the finding, those that are set."""
    data = jsonform.dump(finding)
    blank = jsonform.dump(Finding("", ""))
    for side in ("machine", "problem"):
        own = {name: value for name, value in data[side].items() if value != blank[side][name]}
        data[side] = {name: value for name, value in own.items() if name not in UNPUBLISHED}
    rest = {name: value for name, value in data.items() if value != blank[name] and value != {}}
    return {name: value for name, value in rest.items() if name not in ELSEWHERE}
