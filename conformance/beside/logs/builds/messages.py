"""The first lines of diagnostics: source, severity, place and text.

Forms: EDG as nvcc prints it (`file(line): error: text`, `"file", line N: error: text`), g++ and clang
(`file:line:col: error: text`), ptxas, nvlink, the nvcc driver, the linker, and errors of the CUDA runtime
where a program ends with one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.builds.frames import Frame, SourcePlace, number

MAX_TEXT = 2000  # characters of a message that are looked at


@dataclass
class Diagnostic:
    """One error. `tool`: nvcc, host, ptxas, link, driver or run; `echo`: the source lines that it
    showed; `line`: its first line in the log, from 1. `mixed`: another compile wrote into it. `statement`:
    where the statement at the caret begins in its source line (-1: no caret).
    """

    tool: str
    severity: str
    place: SourcePlace | None
    text: str
    line: int
    frames: list[Frame] = field(default_factory=list)
    echo: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut: bool = False
    mixed: bool = False
    statement: int = -1

    @property
    def is_error(self) -> bool:
        """Whether the build failed for it."""
        return "error" in self.severity or self.severity == "fatal"


# The mark of an error's place; the file stands before it. So a search stays linear in the length of the line.
_SEVERITY = r"(?P<severity>(?:catastrophic |fatal |internal )?error|warning|remark|note)"
_EDG = re.compile(
    rf"\((?P<line>\d+)(?:,\s*\d+)?\)\s?:\s{{1,4}}{_SEVERITY}(?:\s#?[\w-]{{1,20}})?\s?:\s*(?P<text>.*)$"
)
_EDG_LONG = re.compile(
    rf"\", line (?P<line>\d+)\s?:\s{{1,4}}{_SEVERITY}(?:\s#?[\w-]{{1,20}})?\s?:\s*(?P<text>.*)$"
)
_GNU = re.compile(rf":(?P<line>\d+):(?:\d+:)?\s{{1,4}}{_SEVERITY}\s?:\s*(?P<text>.*)$")
_FILE = re.compile(r"[^()<>|\"',;]*$")
MAX_PATH = 1000  # characters of a line before the mark in which the file's name is looked for
_PTXAS_LINE = re.compile(
    r"ptxas\s+(?P<file>[^,]+),\s+line\s+(?P<line>\d+);\s+(?P<severity>error|fatal|warning)\s*:\s*(?P<text>.*)$"
)
_TOOL = re.compile(
    r"(?:^|\s)(?P<tool>ptxas|nvlink|nvcc|cicc|cudafe\+\+|fatbinary)\s*(?P<severity>error|fatal|warning|info)\s*:"
    r"\s*(?P<text>.*)$"
)
_DRIVER = re.compile(
    r"(?:^|\s|/)(?P<tool>g\+\+|gcc|c\+\+|cc1plus|clang\+\+|clang)\S*: (?:fatal )?error: (?P<text>.*)$"
)
_DIED = re.compile(r"(?P<text>'(?P<tool>[\w.+]+)' died (?:due to signal|with status).*)$")
LINKER = re.compile(
    r"(?P<text>undefined reference to [`'].*|cannot find -l\S+.*|multiple definition of [`'].*)$"
)
RUN = re.compile(
    r"(?P<text>cluster misconfiguration|an illegal instruction was encountered|misaligned address"
    r"|no kernel image is available for execution on the device"
    r"|the provided PTX was compiled with an unsupported toolchain|cudaErrorInvalidClusterSize"
    r"|an illegal memory access was encountered|unspecified launch failure"
    r"|too many resources requested for launch)"
)


_SIGN = re.compile(
    r"error|fatal|warning|remark|note|died|undefined|cannot find|multiple definition|" + RUN.pattern
)


def may_start(line: str) -> bool:
    """Whether a line has a word that the first line of a diagnostic has; quicker than `starts`."""
    return "error" in line or "fatal" in line or "warning" in line or "note" in line or "remark" in line


def starts(line: str) -> Diagnostic | None:
    """The diagnostic that begins on this line, or None."""
    if not _SIGN.search(line):
        return None
    if match := _PTXAS_LINE.search(line):
        place = SourcePlace(match["file"].strip(), number(match["line"]))
        return Diagnostic("ptxas", match["severity"], place, match["text"].strip()[:MAX_TEXT], 0)
    if match := _EDG.search(line) or _EDG_LONG.search(line) or _GNU.search(line):
        file = _file(line[max(0, match.start() - MAX_PATH) : match.start()])
        if file:
            tool = "host" if match.re is _GNU else "nvcc"
            place = SourcePlace(file, number(match["line"]))
            return Diagnostic(tool, match["severity"], place, match["text"].strip()[:MAX_TEXT], 0)
    if match := _TOOL.search(line):
        tool = {"ptxas": "ptxas", "nvlink": "link"}.get(match["tool"], "driver")
        return Diagnostic(tool, match["severity"], None, match["text"].strip()[:MAX_TEXT], 0)
    if match := _DRIVER.search(line) or _DIED.search(line):
        return Diagnostic("driver", "error", None, match["text"].strip()[:MAX_TEXT], 0)
    if match := LINKER.search(line) or RUN.search(line):
        return Diagnostic(
            "link" if match.re is LINKER else "run", "error", None, match["text"].strip()[:MAX_TEXT], 0
        )
    return None


def _file(before: str) -> str:
    """The file's name at the end of `before`, without the words that a builder put there.

    A name with spaces is kept whole when nothing else stands on the line; otherwise its last word counts.
    """
    found = _FILE.search(before)
    text = found[0].strip() if found else ""
    words = text.split(" ")
    if len(words) > 1 and (
        ": " in text or not re.match(r"[\w./~\\-]*[/\\.]|[A-Za-z]:", words[0]) or " /" in text
    ):
        return words[-1]
    return text
