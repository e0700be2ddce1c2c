"""Entries of legends of addresses: a line's name and address, or several pairs of them: `a=0x400 b=0x410`."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state, verbs

_HEX = re.compile(r"(?<![\w.])0[xX][0-9a-fA-F]+(?![\w.])")
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)(?![\w.])")
_RANGE = re.compile(r"(?P<first>\b0[xX][0-9a-fA-F]+)\s*(?:\.\.+|-+>?|\u2013|to)\s*0[xX][0-9a-fA-F]+\b")
_BEHIND = re.compile(r"\s+(?:\((?=[^()]*->)|init\b|count\b|from\b|same\b|arriv)", re.IGNORECASE)
_WORD = re.compile(r"(?<!\w)[^\W\d]\w*")
_INDEX = r"(?:\[\d+\]|[.#]\d+)?"
_NAMED = re.compile(rf"(?P<name>(?<!\w)(?!(?:at|is)\b)[^\W\d]\w*){_INDEX}")
_LINK = re.compile(r"\s*(?:=>?|:|-+>|@|\bat\b)[\s&]*|\s+(?:is|at)\s+")
_ACTS = {"wait", "arrive", "copy", "expect"}
_BYTES = r"(?P<bytes{}>0[xX][0-9a-fA-F]+|\d+)"
_STRIDE = re.compile(
    rf"\b(?:stride|step|every|pitch)\W{{0,3}}{_BYTES.format(1)}"
    rf"|(?<!\w){_BYTES.format(2)}\s*\*\s*[^\W\d]|(?<!\w){_BYTES.format(3)}\s*(?:B|bytes)\s+(?:apart|per)\b",
    re.IGNORECASE,
)


class LegendEntry(NamedTuple):
    """A barrier's name in a legend, the numbers beside it, and the text that its neighbours share."""

    name: str
    numbers: list[str]
    shape: str


def entries(text: str) -> list[LegendEntry]:
    """The entries of a line; none where it tells an event."""
    text = _RANGE.sub(r"\g<first>", text)  # of its stages; a barrier without a ring has its address only
    parts = _pairs(text)
    found = [entry for part in parts if (entry := _entry(_first_part(part), len(parts) > 1)) is not None]
    return found if len(found) == len(parts) else []


def stride_of(text: str) -> int:
    """The bytes between the stages of a barrier that a line states; 0 where it states none."""
    found = _STRIDE.search(text)
    return value_of(found[found.lastindex or 0]) if found is not None else 0


def numbers_of(text: str) -> list[str]:
    """The addresses of a line; where it has none in base 16, all its numbers."""
    return _HEX.findall(text) or _NUMBER.findall(text)


def value_of(number: str) -> int:
    """The value of a number in base 10 or, behind 0x, in base 16."""
    return int(number, 16) if number[:2] in ("0x", "0X") else int(number)


def _pairs(text: str) -> list[str]:
    """The parts of a line that each have an address and the name that is nearest to it."""
    spots = [(found.start(), found.end()) for found in _HEX.finditer(text)]
    if len(spots) < 2:
        return [text]
    ends = [0, *(end for _, end in spots), len(text)]
    starts = [*(start for start, _ in spots), len(text)]
    before = [_joined(text[ends[at] : start], front=True) for at, (start, _) in enumerate(spots)]
    behind = [_joined(text[end : starts[at + 1]], front=False) for at, (_, end) in enumerate(spots)]
    if min(*before, *behind) < 0 and min(before) < 1 and min(behind) < 1:
        return [text]
    if (min(behind), sum(behind)) > (min(before), sum(before)):
        return [text[start:then] for start, then in pairwise(starts)]
    return [text[start:then] for start, then in pairwise([*ends[:-2], len(text)])]


def _joined(gap: str, *, front: bool) -> int:
    """How closely a name is beside an address, by what is between: 2 a sign, 1 a space, 0 a list's comma."""
    names = [*_NAMED.finditer(gap)]
    if not names:
        return -1
    between = gap[names[-1].end() :] if front else gap[: names[0].start()]
    if _LINK.fullmatch(between):
        return 2
    if re.fullmatch(r"[\s\[({]*", between):
        return 1 if "(" not in between or front else -1
    return 0 if re.fullmatch(r"[\s,;|]+", between) else -1


def _entry(text: str, paired: bool) -> LegendEntry | None:
    address = _HEX.search(text)
    name = _name(text, address, paired)
    numbers = numbers_of(text)
    if not name or not numbers:
        return None
    words = [word for word in _WORD.findall(text) if not _is_name(word) and (word != name or address is None)]
    if _ACTS & {verb for word in words for verb in verbs(word)}:
        return None
    if address is None:
        shape = text.replace(name, "N")
    else:
        at = text.index(name)
        first, last = min(at, address.start()), max(at + len(name), address.end())
        shape = re.sub(rf"\bN{_INDEX}", "N", text[first:last].replace(name, "N"))
    return LegendEntry(name, numbers, re.sub(r"\s+", " ", _NUMBER.sub("0", shape)).strip())


def _name(text: str, address: re.Match[str] | None, paired: bool) -> str:
    """The only word of a state; else, and in a list of pairs, the word beside the address."""
    words = {word for word in _WORD.findall(text) if _is_name(word)}
    if len(words) == 1 and not paired:
        return words.pop()
    if address is None:
        return ""
    before, behind = text[: address.start()], text[address.end() :]
    front, back = _joined(before, front=True), _joined(behind, front=False)
    if max(front, back) < 1:
        return ""
    beside = [*_NAMED.finditer(before)][-1] if front >= back else next(_NAMED.finditer(behind))
    return "" if verbs(beside["name"]) or field(beside["name"]) else beside["name"]


def _first_part(text: str) -> str:
    """An entry up to its counts and roles, where its address and name stand in front."""
    front = _BEHIND.split(text, maxsplit=1)[0]
    address = _HEX.search(front)
    tied = address and (
        _joined(front[: address.start()], front=True) == 2
        or _joined(front[address.end() :], front=False) == 2
    )
    named = tied or any(map(_is_name, _WORD.findall(front)))
    return front.rstrip(" ,;:") if named and _NUMBER.search(front) else text


def _is_name(word: str) -> bool:
    """Whether a word may be the name of a barrier."""
    return is_state(word) and field(word) != "barrier"
