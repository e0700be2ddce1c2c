"""The text of the source lines that findings name, from the sources of the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tileproof.spec.machine.finding import Finding

SECTION = "source lines"  # of a verdict: file:line -> text
_PLACE = re.compile(r"([\w.+-]+\.(?:cuh?|cpp|hpp|h|py)):(\d+)")


def source_lines(findings: Iterable[Finding], sources: Mapping[str, str]) -> dict[str, str]:
    """Text of each line that the findings name, by "file:line". A file name that several of the kernel's
    sources have is left out, as is a line that the file does not have.
    """
    named: dict[str, list[str]] = {}
    for path in sources:
        named.setdefault(path.rpartition("/")[2], []).append(path)
    found = {}
    for finding in findings:
        at, race = finding.machine, finding.machine.race
        texts = (at.source, race.source if race else "", *finding.evidence)
        for name, number in (match.groups() for text in texts for match in _PLACE.finditer(text)):
            paths = named.get(name, ())
            lines = sources[paths[0]].splitlines() if len(paths) == 1 else []
            if 0 < int(number) <= len(lines):
                found[f"{name}:{number}"] = lines[int(number) - 1].strip()
    return dict(sorted(found.items()))


def places(text: str) -> list[str]:
    """Each "file:line" that a text names, once."""
    return list(dict.fromkeys(match[0] for match in _PLACE.finditer(text)))
