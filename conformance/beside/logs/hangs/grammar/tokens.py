"""Words and numbers of a line, without a meaning: each number has the word before it as its label."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.words import FIELDS, NEEDS_SIGN

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    rf"0[xX][0-9a-fA-F]+|0[bB][01]+(?!\w)|[{_WIDE}]+|(?:(?![{_WIDE}])[^\W\d])(?:(?![{_WIDE}])\w)*|\d+|[^\w\s]"
)
_NUMBERED = re.compile(r"([^\W\d]+?)_?(\d+)$")
_NOISY = 0.7  # of a label's values that occur once: a clock or a count of spins


class LogToken(NamedTuple):
    """A word (`value` None), a number or a sign."""

    text: str
    value: int | None
    word: bool


@dataclass(eq=False)
class Said:
    """A line: its words, and its numbers by label. `items` compare two lines: words, and label=value."""

    number: int
    tokens: list[LogToken]
    words: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    items: frozenset[str] = frozenset()


def said(members: Sequence[tuple[int, str]]) -> list[Said]:
    """The lines that have a word and a number, or share their words with such lines."""
    lines = [Said(number, _tokens(text)) for number, text in members if text.strip()]
    split = _families(lines)
    for line in lines:
        line.tokens = [part for token in line.tokens for part in _parts(token, split)]
        _label(line)
    _number(lines)
    return lines


def _tokens(text: str) -> list[LogToken]:
    return [_token(text) for text in _TOKEN.findall(text)]


def _token(text: str) -> LogToken:
    if text[0].isdecimal():
        low = text.lower()
        return LogToken(text, int(low, 0) if low[:2] in ("0x", "0b") else int(text), False)
    return LogToken(text, None, text[0].isalpha() or text[0] == "_")


def _families(lines: list[Said]) -> set[str]:
    """Words such as `cta` of `cta0` and `cta1`: no other word occurs in their place."""
    stems: dict[str, set[str]] = defaultdict(set)
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for line in lines:
        shape = ["#" if token.value is not None else token.text for token in line.tokens]
        for at, token in enumerate(line.tokens):
            if token.word and at < 60:
                found = _NUMBERED.match(token.text)
                stem = f"{found[1]}#" if found else token.text
                if found:
                    stems[found[1]].add(found[2])
                after = shape[at + 1] if at + 1 < len(shape) else ""
                places[str(at), shape[at - 1] if at else "", after].add(stem)
    mixed = {stem for there in places.values() if len(there) > 1 for stem in there}
    return {
        stem
        for stem, numbers in stems.items()
        if (stem.lower().replace("_", "") in FIELDS and stem.lower() not in NEEDS_SIGN - {"w", "t", "p"})
        or (len(numbers) > 1 and f"{stem}#" not in mixed)
    }


def _parts(token: LogToken, split: set[str]) -> list[LogToken]:
    found = _NUMBERED.match(token.text) if token.word else None
    if found is None or found[1] not in split:
        return [token]
    return [LogToken(found[1], None, True), LogToken(found[2], int(found[2]), False)]


def _label(line: Said) -> None:
    """Give each number the word before it as its label; a further number of a label has its place too."""
    last = ""
    counts: Counter[str] = Counter()
    for token in line.tokens:
        if token.word:
            last = token.text.lower()
            line.words.append(token.text)
        elif token.value is not None:
            counts[last] += 1
            label = last if counts[last] == 1 else f"{last}/{counts[last]}"
            line.numbers[label] = token.value
            line.texts[label] = token.text


def _number(lines: list[Said]) -> None:
    """The items of each line; clocks and counts, whose values occur once, are equal to each other."""
    values: dict[str, Counter[int]] = defaultdict(Counter)
    for line in lines:
        for label, value in line.numbers.items():
            values[label][value] += 1
    noise = {
        label
        for label, counts in values.items()
        if len(counts) > 3 and sum(count == 1 for count in counts.values()) > _NOISY * sum(counts.values())
    }
    for line in lines:
        line.numbers = {label: value for label, value in line.numbers.items() if label not in noise}
        line.items = frozenset(
            [word.lower() for word in line.words]
            + [f"{label}={value}" for label, value in line.numbers.items()]
        )
