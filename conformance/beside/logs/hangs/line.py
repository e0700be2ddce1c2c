"""Reads the lines of a log; each kind of line is parsed once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileproof.conformance.beside.logs.hangs.line_fields import Line
from tileproof.conformance.beside.logs.hangs.line_parser import parse
from tileproof.conformance.beside.logs.hangs.rewrite import NO_WORDS, Words, plain
from tileproof.conformance.beside.logs.hangs.words import ROLES, VERBS, Vocabulary

# Numbers by themselves, which a template leaves open; 0 and 1 stay, since a phase is told by being one of
# them.
_NUMBER = re.compile(r"(?<!\w)(?!0[xX]|[01](?!\d))(\d+)")
_STAND_IN = 8_000_000_000
_TEMPLATES = 100_000


@dataclass(eq=False)
class LineKind:
    """The common form of lines that differ in numbers only.

    `fields` are (name, sign, place of its number), `clauses` (clause, "stage" or "barrier", place). `plan` is
    for who makes events of such lines.
    """

    pattern: Line
    fields: tuple[tuple[str, int, int], ...]
    clauses: tuple[tuple[int, str, int], ...]
    plan: object = None


class LineReader:
    """Parses lines, each kind of line once: lines that differ only in numbers are of the same kind."""

    def __init__(self, known: Vocabulary, words: Words = NO_WORDS) -> None:
        self._known, self._words = known, words
        self._seen: dict[str, LineKind] = {}

    def kind(self, text: str) -> tuple[LineKind, list[str]]:
        """The kind of a line, and its pieces: at odd places the numbers that the kind leaves open."""
        parts = _NUMBER.split(text)
        if len(parts) > 41:
            return LineKind(self._parse(text), (), ()), parts
        key = "\0".join(parts[::2])
        kind = self._seen.get(key)
        if kind is None:
            kind = self._kind(parts)
            if len(self._seen) < _TEMPLATES:
                self._seen[key] = kind
        return kind, parts

    def speaks(self, word: str) -> bool:
        """Whether a text contains a verb, a role, or a word that the user defined."""
        low = word.strip(".,;()").lower()
        return low in VERBS or low in ROLES or low in self._words.single or not low.isascii()

    def line(self, text: str) -> Line:
        """The fields of one line."""
        return self.filled(*self.kind(text))

    @staticmethod
    def filled(kind: LineKind, parts: list[str]) -> Line:
        """A line of a kind with its numbers."""
        pattern, fields, clauses = kind.pattern, kind.fields, kind.clauses
        line = Line(
            0, dict(pattern.fields), pattern.role, [clause.copy() for clause in pattern.clauses],
            pattern.spaced, pattern.bytes, pattern.said, pattern.indented,
        )  # fmt: skip
        for name, sign, at in fields:
            line.fields[name] = sign * int(parts[at])
        for number, what, at in clauses:
            if what == "stage":
                line.clauses[number].stage = int(parts[at])
            else:
                line.clauses[number].barrier = line.clauses[number].barrier.replace(
                    str(_STAND_IN + at), parts[at]
                )
        return line

    def _parse(self, text: str) -> Line:
        return parse(plain(self._words.translate(text)), self._known)

    def _kind(self, parts: list[str]) -> LineKind:
        """The line with a number of its own in each open place, and where those come out."""
        text = "".join(str(_STAND_IN + at) if at & 1 else part for at, part in enumerate(parts))
        line = self._parse(text)
        fields = tuple(
            (name, 1 if value > 0 else -1, abs(value) - _STAND_IN)
            for name, value in line.fields.items()
            if 0 < abs(value) - _STAND_IN < len(parts)
        )
        clauses: list[tuple[int, str, int]] = []
        for number, clause in enumerate(line.clauses):
            if clause.stage is not None and 0 < clause.stage - _STAND_IN < len(parts):
                clauses.append((number, "stage", clause.stage - _STAND_IN))
            for found in re.findall(r"8\d{9}", clause.barrier):
                if 0 < int(found) - _STAND_IN < len(parts):
                    clauses.append((number, "barrier", int(found) - _STAND_IN))
        return LineKind(line, fields, tuple(clauses))
