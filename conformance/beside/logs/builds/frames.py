"""Instantiation trails: each frame's entity, template arguments and place (EDG, g++, clang)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tileproof.conformance.beside.logs.builds.cpptypes import Type, bindings

DURING = re.compile(r"\bdetected during:?\s*")
FRAME = re.compile(r"\b(?:instantiation of|processing of|generation of|substitution of)\b")
AT = re.compile(
    r"\"?\s*(?:at|based on .* at) line (?P<line>\d+)(?: of (?:\"(?P<quoted>[^\"]+)\"|(?P<file>.+?)))?\s*$"
)
CONTEXTS = re.compile(r"\[\s*\d+ instantiation contexts? not shown\s*\]")
GNU_FRAME = re.compile(
    r"(?P<file>[^\s:]+)(?::(?P<line>\d+))?(?::\d+)?:\s+(?:In (?:instantiation|substitution) of"
    r"|(?:recursively )?required (?:from|by substitution of)|note: in instantiation of[^'\u2018]*)"
    r"\s*(?P<entity>.*)$"
)
QUOTES = "\u2018\u2019'"  # around names, in g++ and clang


@dataclass(frozen=True)
class SourcePlace:
    """A source line; `line` 0: unknown."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Frame:
    """One instantiation: `entity` as printed, `inside` of its `[with ...]`, `place` that requested it."""

    entity: str
    inside: str
    place: SourcePlace | None

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


def edg_frame(text: str, error: SourcePlace | None) -> Frame:
    """The frame that EDG prints as `instantiation of "entity [with ...]" at line N of file`.

    Without `of file` the line is in the file of the error (observed in nvcc 13's output).
    """
    end = AT.search(text)
    place = None
    if end:
        file = end["quoted"] or end["file"] or (error.file if error else "")
        place = SourcePlace(file.strip(), number(end["line"]))
        text = text[: end.start()]
    start = text.find('"')
    body = text[start + 1 :] if start >= 0 else FRAME.sub("", text, count=1).strip()
    return _frame(body.rstrip().removesuffix('"'), place)


def gnu_frame(match: re.Match[str]) -> Frame:
    """The frame of a g++ or clang context line."""
    place = SourcePlace(match["file"], number(match["line"])) if match["line"] else None
    body = match["entity"].strip().removesuffix(":").strip()
    body = re.sub(r"^(?:constexpr|static|template \S+)\s+", "", body.strip(QUOTES + '" '))
    return _frame(body.removesuffix(" requested here").rstrip(QUOTES), place)


def _frame(body: str, place: SourcePlace | None) -> Frame:
    start = body.find("[with ")
    if start < 0:
        return Frame(body.strip(), "", place)
    return Frame(body[:start].strip(), body[start + 6 :].removesuffix("]"), place)


def _without_templates(text: str) -> str:
    """`text` without the contents of angle brackets."""
    if "<" not in text:
        return text
    pieces, depth = [], 0
    for piece in re.split(r"([<>])", text[:20000]):
        if piece == "<":
            depth += 1
        elif piece == ">":
            depth = max(0, depth - 1)
        elif not depth:
            pieces.append(piece)
    return "".join(pieces)


def number(text: str) -> int:
    """A line number, of which only the first digits count when there are too many."""
    return int(text[:9])
