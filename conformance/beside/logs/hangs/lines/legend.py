"""Barriers that are printed as addresses, by a legend of their bases: `full 0x400 2 x 8 B`, `1024 2 full`."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows

STRIDE = 8  # bytes of an mbarrier
STAGES = 64  # more stages than any ring has
RANK = 24  # bits of the window of one CTA
SHARE = 0.5  # of the rows behind the legend have an address of it
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)(?![\w.])")
_RANGE = re.compile(r"(?P<first>\b0[xX][0-9a-fA-F]+)\s*(?:\.\.+|-+>?|\u2013|to)\s*0[xX][0-9a-fA-F]+\b")
_BEHIND = re.compile(r"\s+(?:\((?=[^()]*->)|init\b|count\b|from\b|same\b|arriv)", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_ADDRESS = re.compile(
    r"\[\s*(?P<inner>0[xX][0-9a-fA-F]+|\d{3,})\s*\]|(?<![\w.])(?P<bare>0[xX][0-9a-fA-F]+|\d{3,})(?![\w.])"
)
_COUNTS = re.compile(r"\binit|\bcount|\barriv", re.IGNORECASE)  # a line that states more than an address
_STRIDE = re.compile(r"\b(?:stride|step|every|pitch)\W{0,3}(?P<bytes>0[xX][0-9a-fA-F]+|\d+)", re.IGNORECASE)


class BarrierBase(NamedTuple):
    """The first address of a barrier, with its name and the bytes between its stages."""

    address: int
    name: str
    stride: int


def with_names(lines: Rows) -> Rows:
    """The rows with names and stages in place of addresses, where a legend in front of them has the bases."""
    bases, last = _legend(lines)
    if len(bases) < 2:
        return lines
    hexed = any(re.search(rf"0[xX]0*{bases[0].address:x}\b", text, re.I) for _, text in lines[: last + 1])

    def named(found: re.Match[str]) -> str:
        token = found["inner"] or found["bare"]
        if hexed and token[:2] not in ("0x", "0X"):
            return found[0]
        # The other numbers are masks and sizes.
        return _place(bases, _value(token)) or found[0].replace(token, str(_value(token)))

    rows = [(number, _ADDRESS.sub(named, text)) for number, text in lines[last + 1 :]]
    changed = sum(text != old for (_, text), (_, old) in zip(rows, lines[last + 1 :], strict=True))
    if changed < SHARE * sum(bool(text.strip()) for _, text in rows):
        return lines
    return [(number, text) for number, text in lines[: last + 1] if _COUNTS.search(text)] + rows


def _value(token: str) -> int:
    return int(token, 16) if token[:2] in ("0x", "0X") else int(token)


def _place(bases: list[BarrierBase], address: int) -> str:
    """The barrier and stage of an address, `full[1]`, and its CTA, `@1`, where the address has a rank."""
    rank, low = divmod(address, 1 << RANK)
    at = bisect_right([base.address for base in bases], low) - 1
    if at < 0 or rank >= STAGES:
        return ""
    stage, rest = divmod(low - bases[at].address, bases[at].stride)
    if rest or stage >= STAGES:
        return ""
    return f"{bases[at].name}[{stage}]" + (f"@{rank}" if rank else "")


def _legend(lines: Rows) -> tuple[list[BarrierBase], int]:
    """The bases that lines in front of the events state, in order, and the place of the last such line."""
    shapes: dict[str, list[tuple[int, str, list[str], int]]] = {}
    for at, (_, text) in enumerate(lines[:100]):
        text = _RANGE.sub(r"\g<first>", text)  # of its stages; a barrier without a ring has its address only
        text = _first_part(text)
        words = _names(text)
        numbers = _NUMBER.findall(text)
        said = {verb for word in _WORD.findall(text) if word not in words for verb in verbs(word)}
        if len({*words}) == 1 and numbers and not said & {"wait", "arrive", "copy", "expect"}:
            name = words[0]
            shape = re.sub(r"\s+", " ", _NUMBER.sub("0", text.replace(name, "N"))).strip()
            stride = _STRIDE.search(text)
            shapes.setdefault(shape, []).append(
                (at, name, numbers, _value(stride["bytes"]) if stride else STRIDE)
            )
    if not shapes:
        return [], 0
    rows = max(shapes.values(), key=len)
    width = min(len(numbers) for _, _, numbers, _ in rows)
    # The column of addresses: all differ, and are multiples of 8.
    columns = [[_value(numbers[column]) for _, _, numbers, _ in rows] for column in range(width)]
    good = [
        some for some in columns if len({*some}) == len(some) and not any(value % STRIDE for value in some)
    ]
    good = [some for some in good if max(some) >= 64 and len(some) > 1]
    if not good:
        return [], 0
    by: dict[str, list[tuple[int, int]]] = {}
    for value, (_, name, _, apart) in zip(good[0], rows, strict=True):
        by.setdefault(name, []).append((value, apart))
    bases = [_base(name, sorted(some)) for name, some in by.items()]
    return sorted(base for base in bases if base is not None), rows[-1][0]


def _first_part(text: str) -> str:
    """A line of a legend up to its counts and roles, where its address and name stand in front."""
    front = _BEHIND.split(text, maxsplit=1)[0]
    return front.rstrip(" ,;:") if _names(front) and _NUMBER.search(front) else text


def _names(text: str) -> list[str]:
    """The words of a line that may be the name of a barrier."""
    return [word for word in _WORD.findall(text) if is_state(word) and field(word) != "barrier"]


def _base(name: str, rows: list[tuple[int, int]]) -> BarrierBase | None:
    """The base of a barrier by its row, or by those of its stages; None where they differ in distance."""
    steps = {then - at for (at, _), (then, _) in pairwise(rows)} or {rows[0][1]}
    return BarrierBase(rows[0][0], name, steps.pop()) if len(steps) == 1 else None
