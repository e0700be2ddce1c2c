"""Tables with the times of each call in two columns: a row begins a call, and ends it where it has an end."""

from __future__ import annotations

import csv
import re

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, lasts

MARKS = (",", ";", "\t", "|")
SHARE = 0.8  # of the lines are rows of the table
APART = 0.5  # of the times differ
_TIME = re.compile(r"\d+(?:\.\d+)?")
_OPEN = re.compile(r"[^\d]*|-1")  # an end that has not come
_NAME = re.compile(r"[^\W\d][\w .()-]{0,24}")


def with_both_times(lines: Rows) -> Rows:
    """The rows of such a table as `name=cell`, each wait that ended followed by its end."""
    for at, (_, text) in enumerate(lines[:40]):
        for mark in MARKS:
            names = _cells(text, mark)
            if len(names) < 4 or not all(_NAME.fullmatch(name) for name in names):
                continue
            rows = [(number, text, _cells(text, mark)) for number, text in lines[at + 1 :]]
            table = [cells for _, _, cells in rows if len(cells) == len(names)]
            times = _times(table) if len(table) >= max(4, SHARE * len(rows)) else None
            if times is not None:
                return lines[:at] + _told(names, rows, times)
    return lines


def _cells(text: str, mark: str) -> list[str]:
    body = text.strip().strip("|") if mark == "|" else text
    return [cell.strip() for cell in next(csv.reader([body], delimiter=mark, skipinitialspace=True), [])]


def _times(table: list[list[str]]) -> tuple[int, int] | None:
    """The columns of the times: all rows have the first, and where the second is a number it is not less."""
    columns = [*zip(*table, strict=True)]
    starts = [
        at
        for at, cells in enumerate(columns)
        if all(_TIME.fullmatch(cell) for cell in cells) and len({*cells}) > APART * len(cells)
    ]
    for first in starts:
        for second, cells in enumerate(columns):
            if second == first or not all(_TIME.fullmatch(cell) or _OPEN.fullmatch(cell) for cell in cells):
                continue
            ended = [
                (float(a), float(b)) for a, b in zip(columns[first], cells, strict=True) if _TIME.fullmatch(b)
            ]
            later = sum(a < b for a, b in ended)
            steady = all(a <= b for a, b in ended) and 4 * later > len(table) and 2 * len(ended) > len(table)
            # Both are times of the same clock.
            if steady and max(b for _, b in ended) <= 2 * max(float(cell) for cell in columns[first]):
                return first, second
    return None


def _told(names: list[str], rows: list[tuple[int, str, list[str]]], times: tuple[int, int]) -> Rows:
    out: Rows = []
    for number, text, cells in rows:
        if len(cells) != len(names):
            out.append((number, text))
            continue
        row = " ".join(
            _pair(name, cell)
            for at, (name, cell) in enumerate(zip(names, cells, strict=True))
            if cell and at not in times
        )
        out.append((number, row))
        if _TIME.fullmatch(cells[times[1]]) and lasts(row):
            out.append((number, f"{row} done"))
    return out


def _pair(name: str, cell: str) -> str:
    """A cell behind the name of its column; bare where it is a call."""
    called = not field(name) and (verbs(cell) or re.search(r"[^\W\d]", cell))
    return cell if called or verbs(name) else f"{name.replace(' ', '_')}={cell.replace(',', '+')}"
