"""Barriers that are printed as addresses, by a legend of their bases: `full 0x400 2 x 8 B`, `1024 2 full`."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field
from tileproof.conformance.beside.logs.hangs.general.rows import Rows
from tileproof.conformance.beside.logs.hangs.lines.entries import (
    LegendEntry,
    entries,
    numbers_of,
    stride_of,
    value_of,
)

STRIDE = 8  # bytes of an mbarrier
STAGES = 64  # more stages than any ring has
RANK = 24  # bits of the window of one CTA
SHARE = 0.5  # of the rows behind the legend have an address of it
_ADDRESS = re.compile(
    r"\[\s*(?P<inner>0[xX][0-9a-fA-F]+|\d{3,})\s*\]|(?<![\w.])(?P<bare>0[xX][0-9a-fA-F]+|\d{3,})(?![\w.])"
)
_DIGITS = re.compile(r"((?:0[xX][0-9a-fA-F]+|\d+))")
_LABEL = re.compile(r"(?P<label>[^\W\d]\w*)\W{0,3}\Z")
_OF_ACTORS = {"thread", "warp", "wg", "cta", "group", "role"}  # a number behind their labels is no address
_COUNTS = re.compile(r"\binit|\bcount|\barriv", re.IGNORECASE)  # a line that states more than an address


class BarrierBase(NamedTuple):
    """The first address of a barrier, with its name and the bytes between its stages."""

    address: int
    name: str
    stride: int


def with_names(lines: Rows) -> Rows:
    """The rows with names and stages in place of addresses, where a legend in front of them has the bases."""
    bases, used, hexed = _legend(lines)
    if len(bases) < 2:
        return lines
    last = max(used)
    bases = _spaced(bases, [text for _, text in lines[last + 1 :]])
    window = bases[0].address >> RANK

    def named(found: re.Match[str]) -> str:
        token = found["inner"] or found["bare"]
        label = _LABEL.search(found.string, 0, found.start())
        if (hexed and token[:2] not in ("0x", "0X")) or (label and field(label["label"]) in _OF_ACTORS):
            return found[0]
        # The other numbers are masks and sizes.
        return _place(bases, window, value_of(token)) or found[0].replace(token, str(value_of(token)))

    rows = [(number, _ADDRESS.sub(named, text)) for number, text in lines[last + 1 :]]
    changed = sum(text != old for (_, text), (_, old) in zip(rows, lines[last + 1 :], strict=True))
    if changed < SHARE * sum(bool(text.strip()) for _, text in rows):
        return lines
    front = enumerate(lines[: last + 1])
    return [row for at, row in front if at not in used or _COUNTS.search(row[1])] + rows


def _place(bases: list[BarrierBase], window: int, address: int) -> str:
    """The barrier and stage of an address, `full[1]`, and its CTA, `@1`, where it is of another."""
    rank = (address >> RANK) - window
    low = address - (rank << RANK)
    at = bisect_right([base.address for base in bases], low) - 1
    if at < 0 or not 0 <= rank < STAGES:
        return ""
    stage, rest = divmod(low - bases[at].address, bases[at].stride)
    if rest or stage >= STAGES:
        return ""
    return f"{bases[at].name}[{stage}]" + (f"@{rank}" if rank else "")


def _legend(lines: Rows) -> tuple[list[BarrierBase], set[int], bool]:
    """The bases that lines in front of the events state, in order, their lines, and whether in base 16."""
    shapes: dict[str, list[tuple[int, LegendEntry, int]]] = {}
    known: set[str] = set()
    stride = 0
    read = [entries(text) for _, text in lines[:100]]
    forms = dict(_form(text, some[0]) for (_, text), some in zip(lines, read, strict=False) if len(some) == 1)
    for at, ((_, text), some) in enumerate(zip(lines, read, strict=False)):
        some = some or _alike(text, forms)
        stated = stride_of(text)
        if not some and any((token["inner"] or token["bare"]) in known for token in _ADDRESS.finditer(text)):
            break  # the first event
        stride = stated if stated and not some else stride
        for entry in some:
            shapes.setdefault(entry.shape, []).append((at, entry, stated or stride))
            known |= {*entry.numbers}
    for rows in sorted(shapes.values(), key=len, reverse=True):
        found = _bases(rows)
        if len(found[0]) > 1:
            return found
    return [], set(), False


def _form(text: str, entry: LegendEntry) -> tuple[re.Pattern[str], str]:
    """The form of an entry's line, with any name and any numbers, and the entry's shape."""
    front, back = ("".join(map(_any_number, _DIGITS.split(part))) for part in text.split(entry.name, 1))
    return re.compile(rf"{front}(?P<name>[^\W\d]\w*){back}"), entry.shape


def _any_number(part: str) -> str:
    return rf"{_DIGITS.pattern}" if _DIGITS.fullmatch(part) else re.escape(part)


def _alike(text: str, forms: dict[re.Pattern[str], str]) -> list[LegendEntry]:
    """The entry of a line that has the form of another entry's line, whatever its name is."""
    found = ((form.fullmatch(text), shape) for form, shape in forms.items())
    named = next(((match["name"], shape) for match, shape in found if match), None)
    return [LegendEntry(named[0], numbers_of(text), named[1])] if named is not None else []


def _bases(rows: list[tuple[int, LegendEntry, int]]) -> tuple[list[BarrierBase], set[int], bool]:
    """The bases that entries of the same shape state, by the column of addresses, which all differ."""
    for column in range(min(len(entry.numbers) for _, entry, _ in rows)):
        # Each CTA may print the same legend.
        once = {(entry.name, value_of(entry.numbers[column])): apart for _, entry, apart in rows}
        values = [value for _, value in once]
        if len({*values}) < len(values) or any(value % STRIDE for value in values) or max(values) < 64:
            continue
        by: dict[str, list[tuple[int, int]]] = {}
        for (name, value), apart in once.items():
            by.setdefault(name, []).append((value, apart))
        bases = [_base(name, sorted(some)) for name, some in by.items()]
        hexed = any(entry.numbers[column][:2] in ("0x", "0X") for _, entry, _ in rows)
        return sorted(base for base in bases if base is not None), {at for at, _, _ in rows}, hexed
    return [], set(), False


def _base(name: str, rows: list[tuple[int, int]]) -> BarrierBase | None:
    """The base of a barrier by its row, or by those of its stages; None where they differ in distance."""
    steps = {then - at for (at, _), (then, _) in pairwise(rows)} or {rows[0][1]}
    return BarrierBase(rows[0][0], name, steps.pop()) if len(steps) == 1 else None


def _spaced(bases: list[BarrierBase], rows: list[str]) -> list[BarrierBase]:
    """The bases with the bytes between stages, where none are stated, that all addresses of the rows have."""
    seen = {value_of(found["inner"] or found["bare"]) for text in rows for found in _ADDRESS.finditer(text)}
    starts = [base.address for base in bases]
    offsets = [
        address - starts[at]
        for address in seen
        if (at := bisect_right(starts, address) - 1) >= 0
        and not bases[at].stride
        and address - starts[at] < STAGES * STRIDE
    ]
    step = gcd(*(offset for offset in offsets if not offset % STRIDE)) or STRIDE
    return [base if base.stride else base._replace(stride=step) for base in bases]
