"""Groups the lines of compiler output into diagnostics, each with its place, text and instantiation trail."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.builds import python_errors
from tileproof.conformance.beside.logs.builds.frames import (
    AT,
    CONTEXTS,
    DURING,
    FRAME,
    GNU_FRAME,
    Frame,
    edg_frame,
    gnu_frame,
)
from tileproof.conformance.beside.logs.builds.messages import (
    LINKER,
    MAX_TEXT,
    RUN,
    Diagnostic,
    may_start,
    starts,
)

MAX_JOINED = 400  # lines that a terminal may have made of one


@dataclass
class Parsed:
    """A log's diagnostics. `warnings`: number of omitted warnings; `announced`: the number of errors that the
    log states; `spans` are the lines, from 0, that belong to errors and warnings.
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


_SPILL = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_PROPERTIES = re.compile(r"Function properties for (?P<entry>\S+)|Compiling entry function '(?P<name>[^']+)'")
_ANNOUNCED = re.compile(r"(?P<count>\d+) errors? detected in the compilation")
_COMMAND = re.compile(
    r"(?:^|\s|/)(?:nvcc|g\+\+|gcc|c\+\+|clang\+\+|ptxas|cmake|cicc)\s+.*\s-|\b(?:ninja|make(?:\[\d+\])?): "
    r"|Building wheel|Building (?:CUDA|CXX) object|running build_ext|Emitting ninja build file"
    r"|Compiling objects|detected in the compilation"
)
_STAR = re.compile(r"\s*\^\s*$|\s*~*\^~*\s*$")
_CARET = re.compile(r"[\s|]*~*\^~*\s*")
_GNU_SOURCE = re.compile(r"\s*\d*\s+\|\s?")


def read(lines: list[str], numbers: list[int] | None = None) -> Parsed:
    """The diagnostics of cleaned `lines`, in their order. Notes belong to their error.

    numbers: of each line in the log, from 1, where some were joined.
    """
    parsed = _Reader(lines).read()
    for diagnostic in parsed.diagnostics if numbers is not None else ():
        diagnostic.line = numbers[diagnostic.line - 1]  # type: ignore[index]
    return parsed


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
        self._part()
        return self._parsed

    def _part(self) -> None:
        """From the first to the last diagnostic that holds the trail of another, takes away all trails.

        nvcc writes each diagnostic at once, so jobs of one make mostly lie one after the other; what joins
        their output line by line, or a pipe that is full, does not.
        """
        found = [diagnostic for diagnostic in self._parsed.diagnostics if diagnostic.tool == "nvcc"]
        torn = [at for at, part in enumerate(found) if part.mixed]
        if not torn:
            return
        start = torn[0]
        while start and not (found[start - 1].frames or found[start - 1].echo):
            start -= 1
        for other in found[start : torn[-1] + 1]:
            other.mixed, other.frames, other.echo, other.notes = True, [], [], []

    def _take(self, at: int) -> int:
        line = self._lines[at]
        low = line.lower()
        if not ("error" in low or "fatal" in low or "warning" in low or "remark" in low):
            self._take_plain(at, line)
            return at + 1
        if (of_python := python_errors.take(self._lines, at)) is not None:
            diagnostic, end = of_python
            diagnostic.line = at + 1
            self._parsed.diagnostics.append(diagnostic)
            self._parsed.spans.append((at, end))
            return end
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
            text = f"{match[0]} in {self._entry or '?'}"
            self._parsed.diagnostics.append(Diagnostic("ptxas", "spill", None, text, at + 1))
        elif match := GNU_FRAME.match(line.strip()):
            self._context.append(gnu_frame(match))
            del self._context[:-200]
        elif match := LINKER.search(line):
            self._parsed.diagnostics.append(
                Diagnostic("link", "error", None, match["text"][:MAX_TEXT], at + 1)
            )
        elif match := RUN.search(line):
            self._parsed.diagnostics.append(
                Diagnostic("run", "error", None, match["text"][:MAX_TEXT], at + 1)
            )
        elif _COMMAND.search(line):
            self._parsed.commands += 1
        elif line.strip() and not line.startswith((" ", "\t")):
            self._context.clear()

    def _body(self, found: Diagnostic, at: int) -> int:
        """Add the following lines of a diagnostic; return the index of the next line."""
        in_trail, note, last, carets = False, False, at, 0
        while at < len(self._lines):
            line = self._lines[at]
            stripped = line.strip()
            started = starts(line) if may_start(line) else None
            if started is not None:
                if started.severity != "note":
                    break
                note = True
                found.notes.append(started.text)
                if (frame := GNU_FRAME.match(stripped)) and "instantiation" in stripped:
                    found.frames.append(gnu_frame(frame))
                at += 1
                continue
            if _ANNOUNCED.search(line) or _PROPERTIES.search(line) or LINKER.search(line) or RUN.search(line):
                break
            during = DURING.search(line)
            if not stripped:
                at += 1
                ended = in_trail or found.echo or not self._more(at)
                if at - last > 3 or (found.tool == "nvcc" and ended):
                    break
                continue
            last = at
            if during or (in_trail and FRAME.search(line)):
                found.mixed = found.mixed or (not note and (carets > 1 or (during is not None and in_trail)))
                in_trail = True
                at = self._frames(found, at, during.end() if during else 0)
                continue
            found.statement = (
                found.statement if in_trail or note else _statement(found, line, self._lines[at - 1])
            )
            carets += found.tool == "nvcc" and not note and re.fullmatch(r"\s+\^\s*", line) is not None
            if found.tool in ("nvcc", "host") and (line[:1].isspace() or _GNU_SOURCE.match(line)):
                lists_types = "argument types are:" in line
                if not (lists_types or in_trail or note or _STAR.fullmatch(line)) and len(found.echo) < 4:
                    found.echo.append(_GNU_SOURCE.sub("", line).strip())
                if lists_types or "candidate" in line:
                    found.notes.append(stripped)
            elif found.tool != "nvcc" or in_trail:
                break
            elif (
                not (found.echo or found.frames or note or _COMMAND.search(line))
                and len(found.text) < MAX_TEXT
            ):
                found.text += line  # the message's own line was broken
            elif (
                len(found.notes) > 60
                or _COMMAND.search(line)
                or stripped.startswith(("FAILED:", "ninja:", "make"))
            ):
                break
            at += 1
        found.cut = at >= len(self._lines) and bool(found.frames) and found.frames[-1].place is None
        return at

    def _more(self, at: int) -> bool:
        """Whether the trail of a diagnostic continues after an empty line."""
        return at < len(self._lines) and DURING.search(self._lines[at]) is not None

    def _frames(self, found: Diagnostic, at: int, skip: int) -> int:
        """One frame from line `at` on, joined again when a terminal broke it; the index after it."""
        text = self._lines[at][skip:]
        at += 1
        if not FRAME.search(text):
            return at
        pieces = [text]
        while not AT.search(pieces[-1]) and at < len(self._lines) and len(pieces) < MAX_JOINED:
            line = self._lines[at]
            if (
                not line.strip()
                or (may_start(line) and starts(line))
                or FRAME.search(line)
                or CONTEXTS.search(line)
            ):
                break
            pieces.append(line)
            at += 1
            # The place may be broken too: it is looked for in the last two pieces together.
            if len(pieces) > 2 and AT.search(pieces[-2] + pieces[-1]):
                break
        text = _joined(pieces)
        found.frames.append(edg_frame(text, found.place))
        return at


def _statement(found: Diagnostic, line: str, source: str) -> int:
    """Where the statement at the caret of `line` begins, in the echoed source line; -1: no caret yet."""
    if found.statement >= 0 or not found.echo or not _CARET.fullmatch(line):
        return found.statement
    begin = 1 + max(map(source[: line.index("^")].rfind, ";{}"))
    return max(begin - source.find(found.echo[0]), 0)


def _joined(pieces: list[str]) -> str:
    """The line that `pieces` were: cut at a fixed width, inside words too, or else between words."""
    widths = {len(piece) for piece in pieces[1:-1]}
    return ("" if len(widths) <= 1 else " ").join(pieces)
