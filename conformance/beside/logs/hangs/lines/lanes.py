"""Tables with a column for each actor, a row of which fills few cells: each behind its column's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of

MARKS = ("|", "\u2502", "\u2551", "\u00a6", "\t", ";", ",")
SHARE = 0.85  # of the rows fill few cells
DENSE = 0.6  # of the rows fill a column of all actors, such as the time
FEW = 2  # cells that a row fills beside those columns
_DRAWN = re.compile(r"[\s|+:=_.\-\u2500-\u257f]*")
_EMPTY = re.compile(r"[\s.\-_:|\u00b7\u2500-\u257f]*")  # what draws the line of an actor that does nothing
_GAP = re.compile(r"\s{2,}")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?\s?(?:[num]?s)?")

Cells = list[str]


class Lanes(NamedTuple):
    """A header, the place of its line, and the function that separates a row into its cells."""

    names: Cells
    at: int
    cells: Callable[[str], Cells]


def by_lane(lines: Rows) -> Rows:
    """Each filled cell of a table of actors as a row, behind the name of its column."""
    for lanes in _headers(lines):
        shared = _shared(lanes, lines)
        if shared is not None:
            return lines[: lanes.at] + _told(lanes, lines, shared)
    return lines


def _headers(lines: Rows) -> list[Lanes]:
    """The lines that may be the header of a table: cells between marks, or far apart from each other."""
    found = []
    for at, (_, text) in enumerate(lines[: len(lines) // 2]):
        for mark in MARKS:
            names = _between(text, mark)
            if len(names) >= 3 and _names(names):
                found.append(Lanes(names, at, partial(_between, mark=mark)))
        starts = [0, *(gap.end() for gap in _GAP.finditer(text.rstrip()) if gap.start())]
        names = [part.strip() for part in _GAP.split(text.strip())]
        if len(names) >= 3 and len(starts) == len(names) and _names(names):
            found.append(Lanes(names, at, partial(_under, starts=starts)))
    return found[:40]


def _names(names: Cells) -> bool:
    """Whether cells may name actors: all differ, most have letters, none tells a wait."""
    some = [name for name in names if re.search(r"[^\W\d]", name)]
    plain = all(len(name) < 40 and not re.search(r"[=(\[{]", name) for name in names)
    return plain and len({*some}) == len(some) >= len(names) - 1 and "wait" not in verbs_of(" ".join(some))


def _between(text: str, mark: str) -> Cells:
    if mark not in text:
        return []
    body = text.strip() if mark != "\t" else text
    body = body[1:] if body[:1] == mark == text.strip()[:1] and mark in "|\u2502\u2551\u00a6" else body
    body = body[:-1] if body[-1:] == mark and mark in "|\u2502\u2551\u00a6" else body
    return [cell.strip() for cell in body.split(mark)]


def _under(text: str, starts: list[int]) -> Cells:
    """The parts of a row under the words of a header; none where a part begins under no word."""
    cells = [""] * len(starts)
    for at, part in enumerate(re.finditer(r"\S(?:.*?\S)??(?=\s{2,}|$)", text)):
        if part.start() not in starts and at:
            return []
        lane = starts.index(part.start()) if part.start() in starts else 0
        cells[lane] = part[0]
    return cells


def _shared(lanes: Lanes, lines: Rows) -> set[int] | None:
    """The columns that all actors share; None where the rows fill more than a few of the others."""
    rows = [lanes.cells(text) for _, text in lines[lanes.at + 1 :] if not _DRAWN.fullmatch(text)]
    if len(rows) < 6:
        return None
    width = len(lanes.names)
    some = [[not _EMPTY.fullmatch(cell) for cell in row] for row in rows if 1 < len(row) <= width + 1]
    filled = [sum(row[at] for row in some if at < len(row)) for at in range(width)]
    shared = {at for at in range(width) if filled[at] > DENSE * len(rows)}
    used = [at for at in range(width) if filled[at] and at not in shared]
    few = sum(1 <= sum(row[at] for at in used if at < len(row)) <= FEW for row in some)
    alone = sum(sum(row[at] for at in used if at < len(row)) == 1 for row in some)
    if len(used) < 2 or few < SHARE * len(rows) or 2 * alone < len(rows) or len(shared) > 3:
        return None
    # What a row tells is in its cell, not in a column of all rows.
    speaks = sum(
        any(re.search(r"[^\W\d]", row[at]) for at in used if at < len(row) and row[at]) for row in rows
    )
    acts = {verb for row in rows for at in used if at < len(row) for verb in verbs_of(row[at])}
    return shared if speaks >= SHARE * len(rows) and (acts or any(map(_signed, rows))) else None


def _signed(row: Cells) -> bool:
    """Whether a cell begins with a sign, which a legend may explain."""
    return any(re.match(r"[^\w\s]{1,3}[^\W\d]", cell) for cell in row)


def _told(lanes: Lanes, lines: Rows, shared: set[int]) -> Rows:
    out: Rows = []
    for number, text in lines[lanes.at + 1 :]:
        if _DRAWN.fullmatch(text) or lanes.cells(text) == lanes.names:
            continue
        cells = lanes.cells(text)
        full = [
            (at, cell) for at, cell in enumerate(cells) if at not in shared and not _EMPTY.fullmatch(cell)
        ]
        if len(cells) < 2 or not full or full[-1][0] >= len(lanes.names):
            out.append((number, text))
            continue
        common = " ".join(
            f"{lanes.names[at]}={cell}"
            for at, cell in enumerate(cells)
            if at in shared and _tells(lanes.names[at], cell)
        )
        out += [(number, f"{lanes.names[at]}: {cell} {common}".rstrip()) for at, cell in full]
    return out


def _tells(name: str, cell: str) -> bool:
    """Whether a cell of all actors is more than a time."""
    return bool(cell) and not (_NUMBER.fullmatch(cell) and field(name) in ("", "ignored", "thread"))
