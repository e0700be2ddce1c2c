"""Rows of codes, `3 1 0 2` under `cta role bar ev` or `role=1 ev=2`, in the words of the log's legends."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of
from tileproof.conformance.beside.logs.hangs.lines.codes import Codes, Meaning, legends

SHARE = 0.8  # of the rows have codes
MANY = 16  # bytes that a copy has at least
KNOWN = 0.9  # of the cells of a column are codes of its legend
_EMPTY = re.compile(r"-*|\.|none|null|n/a", re.IGNORECASE)
_PAIR = re.compile(
    r"(?<![\w.])[\"']?(?P<key>[^\W\d]\w*)[\"']?\s*[=:]\s*"
    r"(?P<code>0[xX][0-9a-fA-F]+|\d{1,3})(?![\w.])"
)
_ITEM = r"[^\W\d][\w.:/]*"
_MARKS = (",", "\t", "|", ";", "")


class Columns(NamedTuple):
    """The names of columns, the place of their line, and the function that separates a row into cells."""

    names: list[str]
    at: int
    cells: Callable[[str], list[str]]


def with_meanings(lines: Rows) -> Rows:
    """The rows with names in place of codes, where a legend tells what happens."""
    some, used = legends(lines)
    if not some:
        return lines
    for columns in _headers(lines, some):
        rows = _table(lines, columns, some, used)
        if rows:
            return rows
    return _keys(lines, some, used)


def _headers(lines: Rows, some: list[Codes]) -> list[Columns]:
    """The lines that may name columns: a legend is of some name, and several are fields."""
    found = []
    for at, (_, text) in enumerate(lines[:-6]):
        for mark in _MARKS:
            between = rf"\s*{re.escape(mark)}\s*" if mark else r"\s+"
            items = re.search(rf"{_ITEM}(?:{between}{_ITEM}){{3,}}", text)
            if items is None:
                continue
            names = [name.strip() for name in (items[0].split(mark) if mark else items[0].split())]
            parts = [part for name in names for part in _parted(name)]
            known = sum(bool(field(part)) or any(codes.is_of(part) for codes in some) for part in parts)
            if known >= 3 and 2 * known >= len(parts):
                found.append(Columns(names, at, partial(_cells, mark=mark)))
    return found


def _parted(name: str) -> list[str]:
    return re.split(r"[.:/]", name)


def _cells(text: str, mark: str) -> list[str]:
    return [cell.strip() for cell in text.strip().strip("|").split(mark)] if mark else text.split()


def _table(lines: Rows, columns: Columns, some: list[Codes], used: set[int]) -> Rows:
    """The rows of a table under its header; none where it is no table of codes."""
    width = len(columns.names)
    rows = [columns.cells(text)[:width] for _, text in lines[columns.at + 1 :]]
    full = [row for row in rows if len(row) == width]
    if len(full) < max(4, SHARE * len(rows)):
        return []
    by: dict[int, dict[int, Codes]] = {}
    for at, name in enumerate(columns.names):
        for place, part in enumerate(_parted(name)):
            parts = [_parts(row[at], name)[place : place + 1] for row in full]
            said = [cell[0] for cell in parts if cell and not _EMPTY.fullmatch(cell[0])]
            fits = [
                codes
                for codes in some
                if said and sum(codes.of(cell) is not None for cell in said) >= KNOWN * len(said)
            ]
            named = [codes for codes in fits if codes.is_of(part)]
            lettered = [codes for codes in fits if all(cell[:1].isalpha() for cell in said) and codes.title]
            if named or lettered:
                by.setdefault(at, {})[place] = (named or lettered)[0]
    if not any(codes.speaks for each in by.values() for codes in each.values()):
        return []
    masks = _masks(lines, columns)
    counts = {at for at in range(width) if at not in by and _counts([row[at] for row in full])}
    out = [line for at, line in enumerate(lines[: columns.at]) if at not in used]
    for at, (number, text) in enumerate(lines[columns.at + 1 :], columns.at + 1):
        cells = columns.cells(text)
        if at in used:
            continue
        if len(cells) < width:
            out.append((number, text))
            continue
        out.append((number, _told(columns.names, cells, by, masks, counts)))
    return out


def _counts(cells: list[str]) -> bool:
    """Whether a column counts the rows, or has their times: it rises in each."""
    numbers = [int(cell) for cell in cells if cell.isdecimal()]
    rises = all(a < b for a, b in pairwise(numbers))
    return len(numbers) == len(cells) and rises


def _parts(cell: str, name: str) -> list[str]:
    """The parts of a cell of a column of several names, `b1.0` of `bar.stage`."""
    parts = re.split(r"[.:/]", cell)
    return parts if len(parts) == len(_parted(name)) else [cell]


def _told(
    names: list[str], cells: list[str], by: dict[int, dict[int, Codes]], masks: set[str], counts: set[int]
) -> str:
    means = [
        (at, codes.of(part))
        for at, each in by.items()
        for place, codes in each.items()
        for part in _parts(cells[at], names[at])[place : place + 1]
        if codes.speaks
    ]
    called = {each.column: each.field for _, each in means if each is not None and each.column}
    said = {verb for _, each in means if each is not None for verb in verbs_of(each.name)}
    out = []
    for at, (name, cell) in enumerate(zip(names, cells, strict=False)):
        for place, (key, part) in enumerate(zip(_parted(name), _parts(cell, name), strict=False)):
            codes = by.get(at, {}).get(place)
            meaning = codes.of(part) if codes is not None else None
            if _EMPTY.fullmatch(part) or (codes is None and field(key) == "ignored"):
                continue
            if meaning is not None and codes is not None:
                out.append(_named(key, part, codes, meaning))
            elif at in counts:
                continue
            elif field(key) in ("owner", "target", "mask") and (key in masks or part[:2] == "0x"):
                out.append(f"cta_mask={hex(int(part)) if part.isdecimal() else part}")
            else:
                out.append(f"{called.get(key) or _argument(key, part, said)}={part}")
    return " ".join([*out, *cells[len(names) :]])


def _named(key: str, code: str, codes: Codes, meaning: Meaning) -> str:
    """What a code means: bare where it tells what happens; warps of the same role with their numbers."""
    if codes.speaks:
        return meaning.name
    known = field(key) or field(codes.title)
    if known in ("warp", "thread", "wg"):
        several = sum(each.name == meaning.name for each in codes.names.values()) > 1
        return f"role={meaning.name}" + (f" {known}={code}" if several else "")
    states = sum(is_state(each.name) for each in codes.names.values())
    return f"{'bar' if known == 'barrier' or 2 * states > len(codes.names) else key}={meaning.name}" + (
        f" bar_cta={meaning.cta}" if meaning.cta else ""
    )


def _argument(key: str, cell: str, said: set[str]) -> str:
    """The name of an argument whose meaning depends on the call: a parity, bytes, or arrivals."""
    if field(key) or not cell.isdecimal():
        return key
    if "wait" in said and cell in ("0", "1"):
        return "parity"
    if said & {"copy", "expect"} and int(cell) >= MANY:
        return "bytes"
    return "count" if "arrive" in said and "wait" not in said else key


def _masks(lines: Rows, columns: Columns) -> set[str]:
    """The columns that a line in front calls masks, and not also ranks."""
    found = set()
    for _, text in lines[: columns.at]:
        for name in columns.names:
            said = re.search(rf"(?<!\w){re.escape(name)}\s*[=:]\s*(?P<rest>.*)", text)
            if said is not None and "mask" in said["rest"] and "rank" not in said["rest"]:
                found.add(name)
    return found


def _keys(lines: Rows, some: list[Codes], used: set[int]) -> Rows:
    """Rows of `key=code` with the names of their codes, where most rows have keys of legends."""
    values: dict[str, list[str]] = {}
    rest = [(at, text) for at, (_, text) in enumerate(lines) if at not in used]
    for _, text in rest:
        for pair in _PAIR.finditer(text):
            values.setdefault(pair["key"], []).append(pair["code"])
    by: dict[str, Codes] = {}
    for key, cells in values.items():
        fits = [c for c in some if c.is_of(key) and all(c.of(cell) is not None for cell in cells)]
        if fits:
            by[key] = fits[0]
    speaking = {key for key, codes in by.items() if codes.speaks}
    coded = [{pair["key"] for pair in _PAIR.finditer(text)} for _, text in rest]
    acting, of_legends = (sum(bool(keys & some) for keys in coded) for some in (speaking, {*by}))
    if acting < 4 or 2 * of_legends < len(rest):
        return lines

    def named(pair: re.Match[str]) -> str:
        codes = by.get(pair["key"])
        meaning = codes.of(pair["code"]) if codes is not None else None
        if codes is None or meaning is None:
            return pair[0]
        return _named(pair["key"], pair["code"], codes, meaning)

    return [(number, _PAIR.sub(named, text)) for at, (number, text) in enumerate(lines) if at not in used]
