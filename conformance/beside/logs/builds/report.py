"""The explanation of a build log as data and in words."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tileproof.conformance.beside.logs.builds import diagnostics
from tileproof.conformance.beside.logs.builds.diagnostics import Parsed
from tileproof.conformance.beside.logs.builds.findings import (
    BuildFinding,
    UserSources,
    findings,
    is_library,
    operand_rows,
)
from tileproof.conformance.beside.logs.builds.frames import SourcePlace
from tileproof.conformance.beside.logs.builds.lines import numbered
from tileproof.spec.machine.types import UncheckedObject

WIDTH = 200
MAX_FINDINGS = 100
MAX_CHAINS = 5
MAX_FOLLOWERS = 8


def parse(text: str) -> Parsed:
    """The diagnostics of a log's text."""
    lines = numbered(text)
    return diagnostics.read([line.text for line in lines], [line.first for line in lines])


def explain(parsed: Parsed, log: Path | None = None) -> UncheckedObject:
    """The explanation of a build log, as data. `log`: its path; sources are searched near it.

    `outcome`: "explained" (a cause is known), "not understood" (no cause is known) or "no errors".
     Each finding: code, what, fits, edits, operand, also, message, at, others, callers,
    chains, mma, operands, errors, instantiations, follow, followers, understood.
    """
    sources = UserSources(log)
    found = findings(parsed, sources)
    known = [finding for finding in found if finding.understood]
    return {
        "outcome": "explained" if known else "not understood" if found else "no errors",
        "findings": [_row(finding, sources) for finding in _ordered(found)[:MAX_FINDINGS]],
        "errors": sum(finding.errors + finding.follow for finding in found if finding.diagnostic.is_error),
        "warnings_left_out": parsed.warnings,
        "remarks": _remarks(parsed, found),
        "read": {"lines": sum(bool(line) for line in parsed.lines)},
    }


def _ordered(found: list[BuildFinding]) -> list[BuildFinding]:
    """Understood errors first, then the others, then what only makes the kernel slower."""
    return sorted(
        found, key=lambda build_finding: (not build_finding.diagnostic.is_error, not build_finding.understood)
    )


def _row(finding: BuildFinding, sources: UserSources) -> UncheckedObject:
    cause, evidence = finding.cause, finding.evidence
    return {
        "code": cause.code,
        "operand": cause.operand,
        "what": cause.what,
        "fits": cause.fits,
        "edits": [{"of": what, "code": code} for what, code in cause.edits],
        "also": list(cause.also),
        "message": finding.message[:WIDTH],
        "understood": finding.understood,
        "at": _place(finding.at, sources, finding),
        "others": [_place(place, sources) for place in finding.others],
        "callers": [[_place(place, sources) for place in path] for path in finding.callers],
        "chains": [
            [_place(place, None if is_library(place.file) else sources, finding) for place in chain]
            for chain in finding.chains
        ],
        "library": None if finding.diagnostic.place == finding.at else _place(finding.diagnostic.place, None),
        "mma": evidence.atom,
        "operands": operand_rows(evidence),
        "arguments": finding.arguments,
        "errors": finding.errors,
        "instantiations": len(finding.trails),
        "follow": finding.follow,
        "followers": [
            {"at": _place(place, None), "message": message[:WIDTH]} for place, message in finding.followers
        ],
        "cut": finding.diagnostic.cut,
        "line": finding.diagnostic.line,
    }


def _place(
    place: SourcePlace | None, sources: UserSources | None, finding: BuildFinding | None = None
) -> UncheckedObject | None:
    if place is None:
        return None
    text = sources.line(place) if sources is not None else ""
    if not text and finding is not None and finding.diagnostic.place == place and finding.diagnostic.echo:
        text = finding.diagnostic.echo[0][:WIDTH]
    return {"file": place.file, "line": place.line, "text": text}


def _remarks(parsed: Parsed, found: list[BuildFinding]) -> list[str]:
    remarks = []
    errors = sum(
        build_finding.errors + build_finding.follow
        for build_finding in found
        if build_finding.diagnostic.tool == "nvcc"
    )
    if parsed.announced > errors:
        remarks.append(
            f"the compiler counted {parsed.announced} errors and the log shows {errors} of them: "
            "lines are missing"
        )
    if any(diagnostic.cut for diagnostic in parsed.diagnostics):
        remarks.append("the log ends inside an instantiation trail: the rest is unknown")
    if torn := [diagnostic.line for diagnostic in parsed.diagnostics if diagnostic.mixed]:
        remarks.append(
            f"the output of several compiles is mixed in lines {torn[0]} to {torn[-1]} and after: "
            "later errors may follow from these"
        )
    if len(found) > MAX_FINDINGS:
        remarks.append(f"{len(found) - MAX_FINDINGS} more findings are omitted")
    return remarks


def text(result: UncheckedObject) -> str:
    """The explanation in words."""
    folder = common_folder(result)
    out: list[str] = [f"Files below {folder}", ""] if folder else []
    for number, row in enumerate(result["findings"], 1):
        out += [*_finding_lines(number, row, folder), ""]
    if not result["findings"]:
        out += ["NO ERRORS: the log has no compiler, assembler or linker error.", ""]
    elif result["outcome"] == "not understood":
        out += ["NOT UNDERSTOOD: no rule matches these errors; the parts that could be read are above.", ""]
    out += [f"Remark: {remark}." for remark in result["remarks"]]
    tail = f"Read {result['read']['lines']} lines with text: {_count(result['errors'], 'error')}"
    if result["warnings_left_out"]:
        tail += f", {_count(result['warnings_left_out'], 'warning')} left out"
    return "\n".join([*out, tail + "."])


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _finding_lines(number: int, row: UncheckedObject, folder: str) -> list[str]:
    head = f"{number}. {row['code']}" + (f" ({row['operand']})" if row["operand"] else "")
    lines = [f"{head}: {row['what']}"]
    if row["fits"]:
        lines.append(f"   fits:   {row['fits']}")
    for number, edit in enumerate(row["edits"]):
        lines.append(f"   {'' if number else 'write:':<8}{edit['of']}: {edit['code']}")
    lines += [f"   also:   {also}" for also in row["also"]]
    lines += _chain_lines(row["chains"], folder)
    if row["mma"]:
        lines.append(f"   MMA:    {row['mma']}")
    lines += [f"   {operand['operand']}:      {operand['text']}" for operand in row["operands"]]
    lines += [f"   given:  {argument}" for argument in row["arguments"]]
    lines.append(f"   said:   {row['message']}" if row["message"] != row["what"] else "")
    counts = []
    if row["errors"] > 1:
        counts.append(
            f"{row['errors']} errors"
            + (f" from {row['instantiations']} instantiations" if row["instantiations"] > 1 else "")
        )
    if row["follow"]:
        counts.append(
            f"{_count(row['follow'], 'error')} that {'follows' if row['follow'] == 1 else 'follow'} from it"
        )
    if counts:
        lines.append(f"   count:  {', '.join(counts)}")
    lines += _follower_lines(row, folder)
    if row["cut"]:
        lines.append("   cut:    the trail is not complete")
    return [line for line in lines if line]


def _follower_lines(row: UncheckedObject, folder: str) -> list[str]:
    """The errors that follow, so that none is hidden if it has a cause of its own."""
    lines = []
    for number, error in enumerate(row["followers"][:MAX_FOLLOWERS]):
        where = f"{short_path(error['at']['file'], folder)}:{error['at']['line']}: " if error["at"] else ""
        lines.append(f"   {'' if number else 'follow:':<8}{where}{error['message']}")
    more = len(row["followers"]) - MAX_FOLLOWERS
    return [*lines, f"           and {more} more messages"] if more > 0 else lines


def _chain_lines(chains: list[list[UncheckedObject]], folder: str) -> list[str]:
    """Each instantiation chain, the user's outermost line first."""
    lines = []
    for chain in chains[:MAX_CHAINS]:
        for number, place in enumerate(chain):
            file = short_path(place["file"], folder)
            where = f"{file}:{place['line']}" if place["line"] else file
            lines.append(f"   {'' if number else 'chain:':<8}{where}")
            lines += [f"             {place['text']}"] if place["text"] else []
    if len(chains) > MAX_CHAINS:
        lines.append(f"   chain:  {len(chains) - MAX_CHAINS} more chains")
    return lines


_INCLUDED = re.compile(r"^.*/(?=(?:cute|cutlass|torch|ATen|c10|cccl|cuda)/)|^.*/include/")


def short_path(file: str, folder: str) -> str:
    """A library's file as it is included, a user's without the folder that all of them lie in."""
    if is_library(file):
        return _INCLUDED.sub("", file, count=1)
    return file.removeprefix(folder) if folder else file


def common_folder(result: UncheckedObject) -> str:
    """The common folder, with its last slash, of all user files with an absolute path."""
    files = {place["file"] for row in result["findings"] for chain in row["chains"] for place in chain}
    own = {file for file in files if file.startswith("/") and not is_library(file)}
    folder = os.path.commonpath([os.path.dirname(file) for file in own]) if len(own) > 1 else ""
    return f"{folder}/" if len(folder) > 1 else ""
