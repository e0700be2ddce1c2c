"""Groups the lines of compiler output into diagnostics, each with its place, text and instantiation trail.

Forms read: EDG as nvcc prints it (`file(line): error: text`, `detected during: instantiation of "..." at line
N of file`), g++ and clang (`file:line:col: error: text`, `required from`, `requested here`), ptxas, nvlink,
the nvcc driver, the linker, and the CUDA runtime's errors where a program ends with one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from tileproof.conformance.buildlog.cpptypes import Type, bindings

MAX_TEXT = 2000  # characters of a message that are looked at
MAX_JOINED = 400  # lines that a terminal may have made of one


@dataclass(frozen=True)
class Place:
    """A source line; `line` 0: not said."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Frame:
    """One instantiation: `entity` as printed, `inside` the text of its `[with ...]`, `place` that asked for it."""

    entity: str
    inside: str
    place: Place | None

    @cached_property
    def args(self) -> dict[str, Type]:
        """The template arguments by the names of their parameters."""
        return bindings(self.inside)

    @cached_property
    def name(self) -> str:
        """The function's or class's name, without namespaces, arguments and parameters."""
        flat = _without_templates(self.entity)
        head = flat.split("(", 1)[0].strip()
        return head.rsplit("::", 1)[-1].split(" ")[-1]

    @cached_property
    def owner(self) -> str:
        """The class whose member it is, or the last namespace; "" without one."""
        head = _without_templates(self.entity).split("(", 1)[0].strip()
        parts = head.split(" ")[-1].split("::")
        return parts[-2] if len(parts) > 1 else ""


@dataclass
class Diagnostic:
    """One error. `tool`: nvcc, host, ptxas, link, driver or run; `echo`: the source lines that it showed; `line`: its first line
    in the log, from 1.
    """

    tool: str
    severity: str
    place: Place | None
    text: str
    line: int
    frames: list[Frame] = field(default_factory=list)
    echo: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut: bool = False

    @property
    def is_error(self) -> bool:
        """Whether the build failed for it."""
        return "error" in self.severity or self.severity == "fatal"


@dataclass
class Parsed:
    """A log's diagnostics; `warnings` counts those that were left out, `announced` the errors it counts itself;
    `spans` are the lines, from 0, that belong to errors and warnings.
    """

    lines: list[str]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    warnings: int = 0
    announced: int = 0
    commands: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_build_log(self) -> bool:
        """Whether anything in it looks like a build's output."""
        return bool(self.diagnostics or self.warnings or self.announced or self.commands)

    def rest(self) -> str:
        """The text with the lines of errors and warnings left empty."""
        lines = list(self.lines)
        for start, end in self.spans:
            lines[start:end] = [""] * (end - start)
        return "\n".join(lines)


# The mark of an error's place; the file stands before it. So a search stays linear in the length of the line.
_SEVERITY = r"(?P<severity>(?:catastrophic |fatal |internal )?error|warning|remark|note)"
_EDG = re.compile(rf"\((?P<line>\d+)(?:,\s*\d+)?\)\s?:\s{{1,4}}{_SEVERITY}(?:\s#?[\w-]{{1,20}})?\s?:\s*(?P<text>.*)$")
_EDG_LONG = re.compile(rf"\", line (?P<line>\d+)\s?:\s{{1,4}}{_SEVERITY}(?:\s#?[\w-]{{1,20}})?\s?:\s*(?P<text>.*)$")
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
_DRIVER = re.compile(r"(?:^|\s|/)(?P<tool>g\+\+|gcc|c\+\+|cc1plus|clang\+\+|clang)\S*: (?:fatal )?error: (?P<text>.*)$")
_DIED = re.compile(r"(?P<text>'(?P<tool>[\w.+]+)' died (?:due to signal|with status).*)$")
_LINKER = re.compile(r"(?P<text>undefined reference to [`'].*|cannot find -l\S+.*|multiple definition of [`'].*)$")
_RUN = re.compile(
    r"(?P<text>cluster misconfiguration|an illegal instruction was encountered|misaligned address"
    r"|no kernel image is available for execution on the device"
    r"|the provided PTX was compiled with an unsupported toolchain|cudaErrorInvalidClusterSize"
    r"|an illegal memory access was encountered|unspecified launch failure|too many resources requested for launch)"
)
_SPILL = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_PROPERTIES = re.compile(r"Function properties for (?P<entry>\S+)|Compiling entry function '(?P<name>[^']+)'")
_ANNOUNCED = re.compile(r"(?P<count>\d+) errors? detected in the compilation")
_COMMAND = re.compile(
    r"(?:^|\s|/)(?:nvcc|g\+\+|gcc|c\+\+|clang\+\+|ptxas|cmake|cicc)\s+.*\s-|\b(?:ninja|make(?:\[\d+\])?): |Building wheel"
    r"|Building (?:CUDA|CXX) object|running build_ext|Emitting ninja build file|Compiling objects|detected in the compilation"
)

_DURING = re.compile(r"\bdetected during:?\s*")
_FRAME = re.compile(r"\b(?:instantiation of|processing of|generation of|substitution of)\b")
_AT = re.compile(r"\"?\s*(?:at|based on .* at) line (?P<line>\d+)(?: of (?:\"(?P<quoted>[^\"]+)\"|(?P<file>.+?)))?\s*$")
_CONTEXTS = re.compile(r"\[\s*\d+ instantiation contexts? not shown\s*\]")
_GNU_FRAME = re.compile(
    r"(?P<file>[^\s:]+)(?::(?P<line>\d+))?(?::\d+)?:\s+(?:In (?:instantiation|substitution) of"
    r"|(?:recursively )?required (?:from|by substitution of)|note: in instantiation of[^'‘]*)"
    r"\s*(?P<entity>.*)$"
)
_STAR = re.compile(r"\s*\^\s*$|\s*~*\^~*\s*$")


def read(lines: list[str]) -> Parsed:
    """The diagnostics of cleaned `lines`, in their order. Warnings are counted; notes belong to their error."""
    return _Reader(lines).read()


class _Reader:
    """Walks over the lines once; each diagnostic takes the lines that belong to it."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._parsed = Parsed(lines)
        self._context: list[Frame] = []
        self._entry = ""

    def read(self) -> Parsed:
        at = 0
        while at < len(self._lines):
            at = self._take(at)
        return self._parsed

    def _take(self, at: int) -> int:
        line = self._lines[at]
        low = line.lower()
        if not ("error" in low or "fatal" in low or "warning" in low or "remark" in low):
            self._take_plain(at, line)
            return at + 1
        found = starts(line)
        if found is None:
            self._take_plain(at, line)
            if match := _ANNOUNCED.search(line):
                self._parsed.announced += int(match["count"])
            return at + 1
        found.line = at + 1
        found.frames, self._context = self._context, []
        end = self._body(found, at + 1)
        self._parsed.spans.append((at, end))
        if found.is_error or found.severity == "spill":
            self._parsed.diagnostics.append(found)
        else:
            self._parsed.warnings += 1
        return end

    def _take_plain(self, at: int, line: str) -> None:
        if match := _PROPERTIES.search(line):
            self._entry = match["entry"] or match["name"]
        if (match := _SPILL.search(line)) and (int(match["stores"]) or int(match["loads"])):
            text = f"{match['stores']} bytes spill stores, {match['loads']} bytes spill loads in {self._entry or '?'}"
            self._parsed.diagnostics.append(Diagnostic("ptxas", "spill", None, text, at + 1))
        elif match := _GNU_FRAME.match(line.strip()):
            self._context.append(gnu_frame(match))
            del self._context[:-200]
        elif match := _LINKER.search(line):
            self._parsed.diagnostics.append(Diagnostic("link", "error", None, match["text"][:MAX_TEXT], at + 1))
        elif match := _RUN.search(line):
            self._parsed.diagnostics.append(Diagnostic("run", "error", None, match["text"][:MAX_TEXT], at + 1))
        elif _COMMAND.search(line):
            self._parsed.commands += 1
        elif line.strip() and not line.startswith((" ", "\t")):
            self._context.clear()

    def _body(self, found: Diagnostic, at: int) -> int:
        """Takes the lines after a diagnostic's first one that are its own; returns the next line's index."""
        in_trail, note, last = False, False, at
        while at < len(self._lines):
            line = self._lines[at]
            stripped = line.strip()
            started = starts(line) if _may_start(line) else None
            if started is not None:
                if started.severity != "note":
                    break
                note = True
                found.notes.append(started.text)
                if (frame := _GNU_FRAME.match(stripped)) and "instantiation" in stripped:
                    found.frames.append(gnu_frame(frame))
                at += 1
                continue
            if _ANNOUNCED.search(line) or _PROPERTIES.search(line) or _LINKER.search(line) or _RUN.search(line):
                break
            during = _DURING.search(line)
            if not stripped:
                if found.tool == "nvcc" and (in_trail or found.echo or not self._more(at + 1)):
                    at += 1
                    break
                at += 1
                if at - last > 3:
                    break
                continue
            last = at
            if during or (in_trail and _FRAME.search(line)):
                in_trail = True
                at = self._frames(found, at, during.end() if during else 0)
                continue
            if found.tool in ("nvcc", "host") and (line[:1].isspace() or _GNU_SOURCE.match(line)):
                if not in_trail and not note and len(found.echo) < 4 and not _STAR.fullmatch(line):
                    found.echo.append(_GNU_SOURCE.sub("", line).strip())
                if "argument types are:" in line or "candidate" in line:
                    found.notes.append(stripped)
            elif found.tool != "nvcc" or in_trail:
                break
            elif not (found.echo or found.frames or note or _COMMAND.search(line)) and len(found.text) < MAX_TEXT:
                found.text += line  # the message's own line was broken
            elif len(found.notes) > 60 or _COMMAND.search(line) or stripped.startswith(("FAILED:", "ninja:", "make")):
                break
            at += 1
        found.cut = at >= len(self._lines) and bool(found.frames) and found.frames[-1].place is None
        return at

    def _more(self, at: int) -> bool:
        """Whether the trail of a diagnostic goes on after an empty line."""
        return at < len(self._lines) and _DURING.search(self._lines[at]) is not None

    def _frames(self, found: Diagnostic, at: int, skip: int) -> int:
        """One frame from line `at` on, joined again when a terminal broke it; the index after it."""
        text = self._lines[at][skip:]
        at += 1
        if not _FRAME.search(text):
            return at
        pieces = [text]
        while not _AT.search(pieces[-1]) and at < len(self._lines) and len(pieces) < MAX_JOINED:
            line = self._lines[at]
            if not line.strip() or (_may_start(line) and starts(line)) or _FRAME.search(line) or _CONTEXTS.search(line):
                break
            pieces.append(line)
            at += 1
            # The place may be broken too: it is looked for in the last two pieces together.
            if len(pieces) > 2 and _AT.search(pieces[-2] + pieces[-1]):
                break
        text = _joined(pieces)
        found.frames.append(edg_frame(text, found.place))
        return at


_GNU_SOURCE = re.compile(r"\s*\d*\s+\|\s?")


def _joined(pieces: list[str]) -> str:
    """The line that `pieces` were: cut at a fixed width, inside words too, or else between words."""
    widths = {len(piece) for piece in pieces[1:-1]}
    return ("" if len(widths) <= 1 else " ").join(pieces)


_SIGN = re.compile(r"error|fatal|warning|remark|note|died|undefined|cannot find|multiple definition|" + _RUN.pattern)


def _may_start(line: str) -> bool:
    return "error" in line or "fatal" in line or "warning" in line or "note" in line or "remark" in line


def starts(line: str) -> Diagnostic | None:
    """The diagnostic that begins on this line, or None."""
    if not _SIGN.search(line):
        return None
    if match := _PTXAS_LINE.search(line):
        place = Place(match["file"].strip(), _number(match["line"]))
        return Diagnostic("ptxas", match["severity"], place, match["text"].strip()[:MAX_TEXT], 0)
    if match := _EDG.search(line) or _EDG_LONG.search(line) or _GNU.search(line):
        file = _file(line[max(0, match.start() - MAX_PATH) : match.start()])
        if file:
            tool = "host" if match.re is _GNU else "nvcc"
            place = Place(file, _number(match["line"]))
            return Diagnostic(tool, match["severity"], place, match["text"].strip()[:MAX_TEXT], 0)
    if match := _TOOL.search(line):
        tool = {"ptxas": "ptxas", "nvlink": "link"}.get(match["tool"], "driver")
        return Diagnostic(tool, match["severity"], None, match["text"].strip()[:MAX_TEXT], 0)
    if match := _DRIVER.search(line) or _DIED.search(line):
        return Diagnostic("driver", "error", None, match["text"].strip()[:MAX_TEXT], 0)
    if match := _LINKER.search(line) or _RUN.search(line):
        return Diagnostic("link" if match.re is _LINKER else "run", "error", None, match["text"].strip()[:MAX_TEXT], 0)
    return None


def _file(before: str) -> str:
    """The file's name at the end of `before`, without the words that a builder put there.

    A name with spaces is kept whole when nothing else stands on the line; otherwise its last word counts.
    """
    found = _FILE.search(before)
    text = found[0].strip() if found else ""
    words = text.split(" ")
    if len(words) > 1 and (": " in text or not re.match(r"[\w./~\\-]*[/\\.]|[A-Za-z]:", words[0]) or " /" in text):
        return words[-1]
    return text


def _number(text: str) -> int:
    return int(text[:9])


def edg_frame(text: str, error: Place | None) -> Frame:
    """The frame that EDG prints as `instantiation of "entity [with ...]" at line N of file`.

    Without `of file` the line is in the file of the error (seen in nvcc 13's output).
    """
    end = _AT.search(text)
    place = None
    if end:
        file = end["quoted"] or end["file"] or (error.file if error else "")
        place = Place(file.strip(), _number(end["line"]))
        text = text[: end.start()]
    start = text.find('"')
    body = text[start + 1 :] if start >= 0 else _FRAME.sub("", text, count=1).strip()
    return _frame(body.rstrip().removesuffix('"'), place)


def gnu_frame(match: re.Match[str]) -> Frame:
    """The frame of a g++ or clang context line."""
    place = Place(match["file"], _number(match["line"])) if match["line"] else None
    body = match["entity"].strip().removesuffix(":").strip()
    body = re.sub(r"^(?:constexpr|static|template \S+)\s+", "", body.strip("‘’'\" "))
    return _frame(re.sub(r"[’'] requested here$|[’']$", "", body), place)


def _frame(body: str, place: Place | None) -> Frame:
    start = body.find("[with ")
    if start < 0:
        return Frame(body.strip(), "", place)
    return Frame(body[:start].strip(), body[start + 6 :].removesuffix("]"), place)


def _without_templates(text: str) -> str:
    """`text` without what stands in angle brackets; operators of comparison do not occur in entities' names."""
    if "<" not in text:
        return text
    kept, depth = [], 0
    for piece in re.split(r"([<>])", text[:20000]):
        if piece == "<":
            depth += 1
        elif piece == ">":
            depth = max(0, depth - 1)
        elif not depth:
            kept.append(piece)
    return "".join(kept)
