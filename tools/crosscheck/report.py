"""Reading sentryward's report (docs/output-json.md of 0.1.1): the verdict, and the place of its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from tileproof.spec.machine.types import Json, UncheckedObject

OpinionOutcome = Literal["fine", "error", "no opinion"]
PASSES = ("race_free", "verified")
FINDS = ("not_wellsynced", "potential_race", "invalid_lifecycle")
CHECKS = ("synchronization", "memory")
SHOWN = 3


def outcome_of(report: Mapping[str, Json]) -> OpinionOutcome:
    """Fine: the result is a pass and both checks passed. Error: the result is a finding, or a check failed.

    All else is no opinion: unsupported, refused input, out of time or memory, a failure of the tool.
    """
    result, checks = report["result"], report["checks"]
    if result in FINDS or any(checks.get(name) == "failed" for name in CHECKS):
        return "error"
    if result in PASSES and all(checks.get(name) == "passed" for name in CHECKS):
        return "fine"
    return "no opinion"


def kinds_of(report: Mapping[str, Json]) -> tuple[str, ...]:
    """The result and the codes of the diagnostics, each once."""
    codes = (str(diagnostic.get("code", "")) for diagnostic in report["diagnostics"])
    return tuple(dict.fromkeys([str(report["result"]), *codes]))


def lines_of(report: Mapping[str, Json], ptx: str) -> tuple[str, ...]:
    """The diagnostics in words, one line per kind and instruction, then the evidence with its PTX lines."""
    source = ptx.splitlines()
    diagnostics = [dict(diagnostic) for diagnostic in report["diagnostics"]]
    return (*_grouped(diagnostics, source), *_races(report, source), *_rejection(report, source))


def remarks_of(report: Mapping[str, Json]) -> tuple[str, ...]:
    """The assumptions that the analysis used, and its warnings."""
    used = [
        str(assumption.get("label", assumption.get("key", "")))
        for assumption in report.get("assumptions") or []
        if isinstance(assumption, Mapping) and assumption.get("triggered")
    ]
    warnings = report.get("warning_count") or 0
    said = (f"it assumes: {', '.join(used)}",) if used else ()
    return said + ((f"{warnings} warnings of its own",) if warnings else ())


def _grouped(diagnostics: list[UncheckedObject], source: list[str]) -> list[str]:
    """One line a code, message and instruction; how often, and the first place."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for diagnostic in diagnostics:
        lines = _ptx_lines(diagnostic)
        opcodes = list(dict.fromkeys(_opcode(source, line) for line in lines)) or [""]
        key = (
            str(diagnostic.get("code", "")),
            str(diagnostic.get("message", "")),
            " and ".join(filter(None, opcodes)),
        )
        places.setdefault(key, []).extend(lines[:2] or [0])
    found = []
    for (code, message, opcode), lines in places.items():
        known = sorted({line for line in lines if line})
        where = ", ".join(map(str, known[:SHOWN]))
        where += f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        parts = [code, message if message != code else "", opcode]
        text = ": ".join(part for part in parts if part)
        found.append(f"{text} (PTX line {where})" if where else text)
    return found


def _ptx_lines(value: Json) -> list[int]:
    """The PTX lines that a diagnostic names, in its order; its keys for them differ by kind."""
    if isinstance(value, Mapping):
        own = [
            number
            for key, number in value.items()
            if key in ("line", "ptx_line") and isinstance(number, int) and number > 0
        ]
        nested = [line for part in value.values() for line in _ptx_lines(part)]
        return list(dict.fromkeys([*own, *nested]))
    if isinstance(value, list):
        return list(dict.fromkeys(line for part in value for line in _ptx_lines(part)))
    return []


def _opcode(source: list[str], line: int, column: int = 1) -> str:
    """The instruction's name at a 1-based PTX line and column, without its predicate."""
    words = source[line - 1][column - 1 :].split() if 0 < line <= len(source) else []
    words = words[1:] if words and words[0].startswith("@") else words
    return words[0].rstrip(";") if words and words[0][0].isalpha() else ""


def _races(report: Mapping[str, Json], source: list[str]) -> Iterator[str]:
    """The two accesses of each race witness."""
    witnesses = report.get("races") or []
    for witness in witnesses[:SHOWN]:
        sides = [_access(witness.get(side) or {}, source) for side in ("first", "second")]
        space = (witness.get("region") or {}).get("address_space", "")
        yield f"{space} memory: {sides[0]} and {sides[1]}".strip()
    if len(witnesses) > SHOWN:
        yield f"and {len(witnesses) - SHOWN} more pairs"


def _access(side: Mapping[str, Json], source: list[str]) -> str:
    place = side.get("location") or {}
    line, column = place.get("line", 0), place.get("column", 1)
    by = _opcode(source, line, column)
    return f"{side.get('mode', 'access')} by {by} (PTX line {line}, thread {side.get('actor')})"


def _rejection(report: Mapping[str, Json], source: list[str]) -> Iterator[str]:
    """Where a broken synchronisation showed: the events that its rejection names, by their PTX lines."""
    rejection = report.get("rejection")
    if not isinstance(rejection, Mapping):
        return
    places = {event.get("event"): event.get("line") for event in report.get("source_events") or []}
    for key in ("event", "issue", "initialization", "effect"):
        line = places.get(rejection.get(key))
        if line:
            yield f"{key}: {_opcode(source, line)} (PTX line {line})"
    # What is blocked first in each thread is what it waits at; what follows only follows.
    blocked = (rejection.get("blocked") or {}).get("events") or []
    starts = [
        e for before, e in zip([None, *blocked], blocked, strict=False) if before is None or e != before + 1
    ]
    lines = list(dict.fromkeys(line for e in starts if (line := places.get(e))))
    for line in lines[:SHOWN]:
        yield f"blocked: {_opcode(source, line)} (PTX line {line})"
