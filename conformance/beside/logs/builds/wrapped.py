"""Joins lines that a terminal wrapped, before they are parsed.

A terminal breaks at one width, inside words too: the pieces of a line have that width, but for the last, and
no line of the log is longer. Where the text was copied, spaces at the end of a piece may be lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileproof.conformance.beside.logs.builds.frames import AT

NARROWEST = 20
LOST = 24  # spaces that may be lost at the end of a piece: the longest run inside a message of CuTe's
MAX_PIECES = 2000

# Timestamps of CI and containers, BuildKit's step and seconds, Ninja's and CMake's progress, pip's frame,
# pytest's E, MSBuild's and GNU parallel's job, the name of the stream, Docker Compose's service.
PREFIX = re.compile(
    r"\s*(?:"
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?\s"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s"
    r"|\#\d+\s\d+\.\d+\s"
    r"|\[\s*\d+(?:/\d+|%)\]\s"
    r"|[│┃|╰╭]─?>?\s"
    r"|E\s{3}"
    r"|\d+>(?=[A-Za-z/])"
    r"|\[?std(?:err|out)\]?:?\s"
    r"|[\w.-]+\s+\|\s"
    r")"
)

# What a line of a compiler, a builder or make begins with.
_BEGINS = re.compile(
    r"\s*$|\s{2,}\S|\s*\^|\d+ errors? detected in|(?:cd|make|ninja|ptxas|nvcc|nvlink|FAILED|In file)\b"
    r"|\S+?\(\d+\)\s?: (?:catastrophic |fatal |internal )?(?:error|warning|remark|note)\b"
    r"|[^\s:]+:\d+(?::\d+)?: (?:fatal )?(?:error|warning|note)\b|\S+: In |\[\d+/\d+\]"
)
_FRAME = re.compile(r"(?:^|\s\s|during:?\s)(?:instantiation|processing|generation|substitution) of\b")
_COUNT = re.compile(r'detected in the compilation of "[^"]+"\.$')
_CARET = re.compile(r"\s*(?:\d*\s*\|)?\s*[~^]*\^[~^]*\s*$")


@dataclass(frozen=True)
class JoinedLine:
    """A line, and the numbers (from 1) of its first and last line in the log."""

    text: str
    first: int
    last: int


def unwrap(lines: list[str]) -> list[JoinedLine]:
    """The lines before a terminal wrapped them; unwrapped logs are unchanged."""
    width = _width(lines)
    joined: list[JoinedLine] = []
    at = 0
    while at < len(lines):
        end = _end(lines, at, width) if width else at + 1
        pieces = [piece.ljust(width) for piece in lines[at : end - 1]]
        joined.append(JoinedLine("".join([*pieces, lines[end - 1]]), at + 1, end))
        at = end
    return joined


def _width(lines: list[str]) -> int:
    """The width at which the lines were broken; 0 when nothing speaks for it.

    The longest lines have it and go on in the next: one cannot end there, or several are followed by what
    begins as no line does.
    """
    width = max(map(len, lines), default=0)
    if width < NARROWEST:
        return 0
    full = [
        at
        for at, line in enumerate(lines[:-1])
        if _full(line, lines[at + 1], width) and _goes_on(line, lines[at + 1])
    ]
    return width if len(full) > 1 or any(_open(lines[at]) for at in full) else 0


def _full(line: str, following: str, width: int) -> bool:
    """Whether a line may have been broken at `width`: there, or at a space there that is lost."""
    return len(line) == width or (len(line) == width - 1 and following[:1].strip() != "")


def _end(lines: list[str], at: int, width: int) -> int:
    """The index after the last piece of the line that begins at `at`."""
    text, end = lines[at], at + 1
    while end < len(lines) and end - at < MAX_PIECES:
        piece = lines[end - 1]
        full = _full(piece, lines[end], width)
        if not full and (len(piece) < width - LOST or not _open(text)):
            break
        if not _goes_on(text, lines[end], full):
            break
        text = text.ljust((end - at) * width) + lines[end]
        end += 1
    return end


def _goes_on(text: str, following: str, full: bool = True) -> bool:
    if not following:
        return False
    if _COUNT.search(text):
        return False
    if _CARET.match(text):
        return full and not following.strip("~")
    if text.startswith("ptxas") and re.match(r"\s{1,3}\S", following):
        return full  # its indented lines have four spaces
    if _FRAME.search(text[:200]) and re.match(r"\d*\s*of\s", following):
        return True
    return _open(text) or (full and not _begins(following))


def _begins(line: str) -> bool:
    """Whether a line begins as one of a log does, as it is or behind what a builder puts before each."""
    if _BEGINS.match(line):
        return True
    prefix = PREFIX.match(line)
    return prefix is not None and _BEGINS.match(line, prefix.end()) is not None


def _open(text: str) -> bool:
    """Whether a line cannot end here: a path, a frame without its place, a quote that is not closed."""
    if ("/" in text and not re.search(r"[\s()]", text)) or not text.strip():
        return True
    if re.search(r"(?:error|fatal|warning)\s*$", text):
        return True
    if _FRAME.search(text[:200]):
        place = AT.search(text[-1200:])
        return place is None or "." not in (place["file"] or place["quoted"] or ".")
    message = re.search(r"\berror\s*: (.*)$", text)
    if message is None:
        return False
    without = re.sub(r'"[^"]*"', "", message[1])
    return '"' in without or without.count("'") % 2 == 1
