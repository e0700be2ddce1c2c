"""Reads a build log and strips what builders, terminals and installers add to its lines."""

from __future__ import annotations

import re
from dataclasses import replace

from tileproof.conformance.beside.logs.builds.wrapped import PREFIX, JoinedLine, unwrap

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>]")
_GAP = re.compile(r"[ \t]{64,}")
_BREAK = re.compile(r"\r\n|\n|\r|\x0b|\x0c")


def clean(text: str) -> list[str]:
    """The lines of `text` without colours, control characters and prefixes, joined where a terminal broke."""
    return [line.text for line in numbered(text)]


def numbered(text: str) -> list[JoinedLine]:
    """As `clean`, with the numbers of the lines of `text` that each was."""
    return [replace(line, text=_clean(line.text)) for line in unwrap(_BREAK.split(_ANSI.sub("", text)))]


def _clean(line: str) -> str:
    if "\x00" in line or "\x08" in line or "\ufeff" in line:
        line = line.replace("\x00", "").replace("\x08", "").replace("\ufeff", "")
    for _ in range(4):
        found = PREFIX.match(line)
        if not found or _is_source(line, found.end()):
            break
        line = line[found.end() :]
    return _GAP.sub(" " * 8, line)


_GCC_SOURCE = re.compile(r"\s*\d*\s*\|\s")


def _is_source(line: str, end: int) -> bool:
    """Whether the prefix found is g++'s margin, `  12 | code`, and not a builder's."""
    return _GCC_SOURCE.match(line[: end + 1]) is not None
