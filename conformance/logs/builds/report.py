"""The explanation of a build log as data and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tileproof.conformance.logs.builds import diagnostics
from tileproof.conformance.logs.builds.diagnostics import Parsed
from tileproof.conformance.logs.builds.findings import BuildFinding, UserSources, findings, operand_rows
from tileproof.conformance.logs.builds.frames import SourcePlace
from tileproof.conformance.logs.builds.lines import numbered

WIDTH = 200
MAX_FINDINGS = 100


def parse(text: str) -> Parsed:
    """The diagnostics of a log's text."""
    lines = numbered(text)
    return diagnostics.read([line.text for line in lines], [line.first for line in lines])


def explain(parsed: Parsed, log: Path | None = None) -> dict[str, Any]:
    """What a build log tells, as data. `log`: where it lies, near which sources are looked for.

    `verdict`: "explained" (some cause is known), "not understood" (there are errors, and none is known) or
    "no errors". Each finding: code, what, fits, edits, operand, also, message, at, others, callers, mma,
    operands, errors, instantiations, follow, understood.
    """
    sources = UserSources(log)
    found = findings(parsed, sources)
    known = [one for one in found if one.understood]
    return {
        "verdict": "explained" if known else "not understood" if found else "no errors",
        "findings": [_row(one, sources) for one in _ordered(found)[:MAX_FINDINGS]],
        "errors": sum(one.errors + one.follow for one in found if one.diagnostic.is_error),
        "warnings_left_out": parsed.warnings,
        "remarks": _remarks(parsed, found),
        "read": {"lines": sum(bool(line) for line in parsed.lines)},
    }


def _ordered(found: list[BuildFinding]) -> list[BuildFinding]:
    """Understood errors first, then the others, then what only makes the kernel slower."""
    return sorted(found, key=lambda one: (not one.diagnostic.is_error, not one.understood))


def _row(one: BuildFinding, sources: UserSources) -> dict[str, Any]:
    cause, evidence = one.cause, one.evidence
    return {
        "code": cause.code,
        "operand": cause.operand,
        "what": cause.what,
        "fits": cause.fits,
        "edits": [{"of": what, "code": code} for what, code in cause.edits],
        "also": list(cause.also),
        "message": one.message[:WIDTH],
        "understood": one.understood,
        "at": _place(one.at, sources, one),
        "others": [_place(place, sources) for place in one.others],
        "callers": [[_place(place, sources) for place in path] for path in one.callers],
        "library": None if one.diagnostic.place == one.at else _place(one.diagnostic.place, None),
        "mma": evidence.atom,
        "operands": operand_rows(evidence),
        "arguments": one.arguments,
        "errors": one.errors,
        "instantiations": len(one.trails),
        "follow": one.follow,
        "cut": one.diagnostic.cut,
        "line": one.diagnostic.line,
    }


def _place(
    place: SourcePlace | None, sources: UserSources | None, one: BuildFinding | None = None
) -> dict[str, Any] | None:
    if place is None:
        return None
    text = sources.line(place) if sources is not None else ""
    if not text and one is not None and one.diagnostic.place == place and one.diagnostic.echo:
        text = one.diagnostic.echo[0][:WIDTH]
    return {"file": place.file, "line": place.line, "text": text}


def _remarks(parsed: Parsed, found: list[BuildFinding]) -> list[str]:
    remarks = []
    errors = sum(one.errors + one.follow for one in found if one.diagnostic.tool == "nvcc")
    if parsed.announced > errors:
        remarks.append(
            f"the compiler counted {parsed.announced} errors and the log shows {errors} of them: "
            "lines are missing"
        )
    if any(one.cut for one in parsed.diagnostics):
        remarks.append("the log ends inside an instantiation trail: what stood after it is not known")
    if len(found) > MAX_FINDINGS:
        remarks.append(f"{len(found) - MAX_FINDINGS} more findings are left out")
    return remarks


def text(result: dict[str, Any]) -> str:
    """The explanation in words."""
    out: list[str] = []
    for number, row in enumerate(result["findings"], 1):
        out += [*_finding_lines(number, row), ""]
    if not result["findings"]:
        out += ["NO ERRORS: no compiler, assembler or linker error is in this log.", ""]
    elif result["verdict"] == "not understood":
        out += ["NOT UNDERSTOOD: no rule knows these errors; what could be read of them is above.", ""]
    out += [f"Remark: {remark}." for remark in result["remarks"]]
    tail = f"Read {result['read']['lines']} lines with text: {_count(result['errors'], 'error')}"
    if result["warnings_left_out"]:
        tail += f", {_count(result['warnings_left_out'], 'warning')} left out"
    return "\n".join([*out, tail + "."])


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _finding_lines(number: int, row: dict[str, Any]) -> list[str]:
    head = f"{number}. {row['code']}" + (f" ({row['operand']})" if row["operand"] else "")
    lines = [f"{head}: {row['what']}"]
    if row["fits"]:
        lines.append(f"   fits:   {row['fits']}")
    for number, edit in enumerate(row["edits"]):
        lines.append(f"   {'' if number else 'write:':<8}{edit['of']}: {edit['code']}")
    lines += [f"   also:   {also}" for also in row["also"]]
    if row["at"]:
        lines += _place_lines("at", row["at"])
    for path in row["callers"][:5]:
        for place in path:
            lines += _place_lines("from", place)
    for place in row["others"][:5]:
        lines += _place_lines("and", place)
    if len(row["others"]) > 5:
        lines.append(f"   and:    {len(row['others']) - 5} more places")
    if len(row["callers"]) > 5:
        lines.append(f"   from:   {len(row['callers']) - 5} more places")
    if row["mma"]:
        lines.append(f"   MMA:    {row['mma']}")
    lines += [f"   {one['operand']}:      {one['text']}" for one in row["operands"]]
    lines += [f"   given:  {argument}" for argument in row["arguments"]]
    lines.append(f"   said:   {row['message']}" if row["message"] != row["what"] else "")
    if row["library"]:
        lines.append(f"           {row['library']['file']}:{row['library']['line']}")
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
    if row["cut"]:
        lines.append("   cut:    the trail is not complete")
    return [line for line in lines if line]


def _place_lines(label: str, place: dict[str, Any]) -> list[str]:
    where = f"{place['file']}:{place['line']}" if place["line"] else place["file"]
    lines = [f"   {label + ':':<8}{where}"]
    return [*lines, f"           {place['text']}"] if place["text"] else lines
