"""Reads a build log and takes from its lines what builders, terminals and installers put around them."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>]")
_GAP = re.compile(r"[ \t]{64,}")
_BREAK = re.compile(r"\r\n|\n|\r|\x0b|\x0c")

# Timestamps of CI and containers, BuildKit's step and seconds, Ninja's and CMake's progress, pip's frame,
# pytest's E, MSBuild's and GNU parallel's job, the name of the stream, Docker Compose's service.
_PREFIX = re.compile(
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


def clean(text: str) -> list[str]:
    """The lines of `text` without colours, control characters and prefixes.

    Space at their ends stays: where a terminal broke a line, it was inside.
    """
    return [_clean(line) for line in _BREAK.split(_ANSI.sub("", text))]


def _clean(line: str) -> str:
    if "\x00" in line or "\x08" in line or "\ufeff" in line:
        line = line.replace("\x00", "").replace("\x08", "").replace("\ufeff", "")
    for _ in range(4):
        found = _PREFIX.match(line)
        if not found or _is_source(line, found.end()):
            break
        line = line[found.end() :]
    return _GAP.sub(" " * 8, line)


_GCC_SOURCE = re.compile(r"\s*\d*\s*\|\s")


def _is_source(line: str, end: int) -> bool:
    """Whether the prefix found is g++'s margin, `  12 | code`, and not a builder's."""
    return _GCC_SOURCE.match(line[: end + 1]) is not None
