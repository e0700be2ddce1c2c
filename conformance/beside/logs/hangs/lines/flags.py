"""A flag that tells whether a row is of a wait's beginning or of its end: `done=0` and then `done=1`."""

from __future__ import annotations

import re
from collections import Counter

from tileproof.conformance.beside.logs.hangs.general.lexicon import field
from tileproof.conformance.beside.logs.hangs.general.rows import Rows

SHARE = 0.95  # of the ends come behind their beginnings
FEWEST = 2  # ends
_FLAG = re.compile(
    r"(?P<quote>\"?)(?<![\w.])(?P<label>[^\W\d]\w*)(?P=quote)\s*[=:]\s*(?P<value>0|1|false|true|no|yes)(?![\w.])",
    re.IGNORECASE,
)
_OTHER = re.compile(r"(?<![\w.])(?P<label>[^\W\d]\w*)\"?\s*[=:]\s*(?!0*1?(?![\w.]))\d")  # 2 and above
_LARGE = re.compile(r"\d{3,}")  # times differ
_SET = {"1", "true", "yes"}


def _flags_of(text: str) -> list[tuple[str, re.Match[str]]]:
    """The labels of a row that have 0 or 1 once; a comment names both."""
    found = [(each["label"].lower(), each) for each in _FLAG.finditer(text)]
    labels = [label for label, _ in found]
    return [(label, each) for label, each in found if labels.count(label) == 1]


def with_flags(lines: Rows) -> Rows:
    """The rows with `begin` and `done` in place of a flag: a row with 1 repeats an open row with 0."""
    open_: set[tuple[str, str]] = set()
    ends: Counter[str] = Counter()
    good: Counter[str] = Counter()
    polls: Counter[str] = Counter()
    others: set[str] = set()
    for _, text in lines:
        others |= {found["label"].lower() for found in _OTHER.finditer(text)}
        for label, found in _flags_of(text):
            key = label, _LARGE.sub("", text[: found.start()] + text[found.end() :])
            if found["value"].lower() in _SET:
                ends[label] += 1
                good[label] += key in open_
                open_.discard(key)
            else:
                polls[label] += key in open_
                open_.add(key)
    flags = {
        label
        for label, many in ends.items()
        if many >= FEWEST and good[label] >= SHARE * many and not polls[label]
        if label not in others and field(label) == ""
    }
    if not flags:
        return lines

    def told(found: re.Match[str]) -> str:
        if found["label"].lower() not in flags:
            return found[0]
        word = "done" if found["value"].lower() in _SET else "begin"
        return f'"event_state": "{word}"' if found["quote"] else word

    return [(number, _FLAG.sub(told, text)) for number, text in lines]
