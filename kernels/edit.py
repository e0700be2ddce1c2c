"""Edits of a kernel's text, and planted defects: edits with the finding that must be reported.

A place is named by the tokens that stand there, so that it survives a reformatted source: white space and
comments do not count. Tokens that occur more or less often than the place says are an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from tileproof.spec.machine.errors import TileproofError

ANY = -1
PTX = ""  # the file of a place in the PTX


@dataclass(frozen=True)
class Place:
    """Where an edit goes: the tokens of `text` in `file`, there `count` times (`ANY`: at least once).

    `file` is a kernel's source, relative to its root, a Python module by its dotted name, or PTX. With
    `opcode` it is the instructions of the PTX that begin so and that were made of the last statement of
    `text` in the source `file`; then `text` must be there once and `count` counts instructions, and `part` is
    a regular expression for what of each instruction is replaced (all of it without).
    """

    text: str
    file: str = PTX
    count: int = 1
    opcode: str = ""
    part: str = ""

    @property
    def kind(self) -> Literal["PTX", "source", "module"]:
        """What text the edit changes."""
        if self.opcode or self.file == PTX:
            return "PTX"
        return "source" if "/" in self.file or self.file.endswith((".cu", ".cuh", ".h")) else "module"


@dataclass(frozen=True)
class Edit:
    """`replacement` stands where `place` was; with `part` it may name its groups."""

    place: Place
    replacement: str = ""


@dataclass(frozen=True)
class InStage:
    """`tileproof check` must find it, first in `stage`; `place` says in words which elements are wrong.

    `code`: what is found instead in examples whose values do not show it. `examples` and `policy`: what it
    takes where 100 examples under all schedule policies are too few. `edge`: the edge case that shows it,
    which alone is run where the question is whether the defect is found.
    """

    stage: str
    place: str
    code: str = ""
    examples: int = 0
    policy: Literal["early", "late", "random", "all"] = "all"
    edge: str = ""

    def fits(self, stage: str, code: str) -> bool:
        """Whether a first finding of this stage and code is the expected finding."""
        return stage == self.stage or (bool(self.code) and code == self.code)


@dataclass(frozen=True)
class Reported:
    """What the first error or warning of a launch with race checking must be.

    `second` is how the finding's instruction begins and `first` that of the access before it; `second_at` and
    `first_at` say where they stand: ``file: text`` of a kernel's source, or text of a program's PTX.
    `missing` must be part of the missing edge, each of `says` of the message, or of the root and its
    evidence.
    `severity` is "warning" or "note" where the machine itself calls it no more than that.
    """

    code: str
    second: str = ""
    first: str = ""
    missing: str = ""
    says: tuple[str, ...] = ()
    second_at: str = ""
    first_at: str = ""
    severity: Literal["error", "warning", "note"] = "error"


@dataclass(frozen=True)
class Sizes:
    """The problem that a launch runs on: a token for each entry of `lengths` (None: full length). `f16`: with
    f16 operands, the variant in which alone the defect is wrong.
    """

    d_qk: int = 576
    blocks: int = 3
    lengths: tuple[int | None, ...] = (None,)
    f16: int = 0


@dataclass(frozen=True)
class PlantedDefect:
    """A hand-written defect, used as a negative control: a check must report `expected` for it.

    `target`: the name of a kernel or of a small program. `corpus`: ids of the public bugs that it represents.
    `policy`: the first of early, late, random under which the expected finding appears.
    """

    id: str
    title: str
    corpus: str
    target: str
    edits: tuple[Edit, ...]
    expected: Reported | InStage
    policy: Literal["early", "late", "random"] = "early"
    sizes: Sizes = field(default=Sizes())

    @property
    def classes(self) -> tuple[str, ...]:
        """The corpus ids one by one."""
        return tuple(self.corpus.split())


# ---- tokens

_C = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[A-Za-z_%$]\w*|\d[\w.]*|\S', re.DOTALL)
_PYTHON = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*|\S')


@lru_cache(maxsize=2)  # the defects of a kernel go into the same PTX, and are found by its tokens or lines
def tokens(text: str, python: bool = False) -> tuple[tuple[str, int, int], ...]:
    """(token, start, end) of a text, without comments and white space."""
    pattern = _PYTHON if python else _C
    return tuple(
        (match[0], match.start(), match.end())
        for match in pattern.finditer(text)
        if not match[0].startswith(("#",) if python else ("//", "/*"))
    )


def spans(anchor: str, text: str, python: bool = False) -> list[tuple[int, int]]:
    """Start and end of each occurrence of the anchor's tokens in `text`; those do not overlap."""
    return [(there[0][1], there[-1][2]) for there in _occurrences(anchor, text, python)]


def _occurrences(anchor: str, text: str, python: bool = False) -> list[tuple[tuple[str, int, int], ...]]:
    wanted = tuple(token for token, _, _ in tokens(anchor, python))
    here = tokens(text, python)
    found: list[tuple[tuple[str, int, int], ...]] = []
    start = 0
    while wanted and start <= len(here) - len(wanted):
        there = here[start : start + len(wanted)]
        if here[start][0] == wanted[0] and tuple(token for token, _, _ in there) == wanted:
            found.append(there)
            start += len(wanted)
        else:
            start += 1
    return found


def lines_at(owner: str, file: str, anchor: str, text: str) -> range:
    """The 1-based lines of the last statement of `anchor`, which must occur once in `text`."""
    found = _occurrences(anchor, text)
    if len(found) != 1:
        raise stale(owner, file, 1, anchor, len(found))
    there = found[0]
    first, depth = 0, 0
    for n, (token, _, _) in enumerate(there[:-1]):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token in ";{}" and depth <= 0:
            first = n + 1
    return range(text.count("\n", 0, there[first][1]) + 1, text.count("\n", 0, there[-1][2]) + 2)


def stale(owner: str, where: str, expected: int, what: str, found: int) -> TileproofError:
    """The error of an anchor that occurs another number of times."""
    return TileproofError(
        "the planted defect does not fit the text",
        where=f"defect {owner}, {where or 'PTX'}",
        expected=f"{'some' if expected == ANY else expected} occurrence(s) of {what!r}",
        found=str(found),
        do="update the defect's anchor",
    )


# ---- applying


def apply(owner: str, edit: Edit, text: str) -> str:
    """`text` with an edit of a place without opcode; TileproofError unless the place is there."""
    place = edit.place
    found = spans(place.text, text, place.kind == "module")
    if not found or (len(found) != place.count and place.count != ANY):
        raise stale(owner, place.file, place.count, place.text, len(found))
    for start, end in reversed(found):
        text = text[:start] + edit.replacement + text[end:]
    return text


def in_sources(owner: str, edits: Sequence[Edit], sources: Mapping[str, str]) -> dict[str, str]:
    """The changed sources (path -> text) of the edits that go into sources."""
    changed: dict[str, str] = {}
    for edit in edits:
        file = edit.place.file
        if edit.place.kind != "source":
            continue
        if file not in sources:
            raise TileproofError(
                "the planted defect's source does not exist",
                where=f"defect {owner}",
                expected=", ".join(sources),
                found=file,
            )
        changed[file] = apply(owner, edit, changed.get(file, sources[file]))
    return changed


def in_ptx(owner: str, edits: Sequence[Edit], ptx: str, sources: Mapping[str, str], prefix: str) -> str:
    """The PTX with the edits that go into it; `prefix` is what its source paths begin with."""
    for edit in edits:
        if edit.place.kind == "PTX":
            ptx = (
                _instructions(owner, edit, ptx, sources, prefix)
                if edit.place.opcode
                else apply(owner, edit, ptx)
            )
    return ptx


_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)


@lru_cache(maxsize=2)
def lines_of(ptx: str) -> tuple[frozenset[tuple[str, int]], ...]:
    """For each line of the PTX the source lines that it was made of, those of its callers included."""
    files = {int(number): path for number, path in _FILE.findall(ptx)}
    chains: dict[tuple[int, ...], frozenset[tuple[str, int]]] = {}
    here: frozenset[tuple[str, int]] = frozenset()
    found = []
    for line in ptx.split("\n"):
        if match := _LOC.match(line):
            numbers = [int(part) if part else 0 for part in match.groups()]
            own = frozenset({(files.get(numbers[0], ""), numbers[1])})
            here = own | chains.get(tuple(numbers[3:6]), frozenset()) if match[4] else own
            chains[tuple(numbers[:3])] = here
        found.append(here)
    return tuple(found)


def _instructions(owner: str, edit: Edit, ptx: str, sources: Mapping[str, str], prefix: str) -> str:
    place = edit.place
    if place.file not in sources:
        raise stale(owner, place.file, 1, place.file, 0)
    made_of = {(prefix + place.file, n) for n in lines_at(owner, place.file, place.text, sources[place.file])}
    lines, chains = ptx.split("\n"), lines_of(ptx)
    opcode = re.compile(rf"^\s*(?:@!?%\w+\s+)?{re.escape(place.opcode)}")
    hits = [
        n
        for n, (line, chain) in enumerate(zip(lines, chains, strict=True))
        if made_of & chain and opcode.match(line)
    ]
    if not hits or (len(hits) != place.count and place.count != ANY):
        raise stale(owner, f"{place.file}:{place.text}", place.count, place.opcode, len(hits))
    for n in hits:
        if place.part:
            lines[n], seen = re.subn(place.part, edit.replacement, lines[n])
            if seen != 1:
                raise stale(owner, f"PTX line {n + 1}", 1, place.part, seen)
        else:
            lines[n] = edit.replacement
    return "\n".join(lines)
