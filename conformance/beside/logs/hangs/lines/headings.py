"""Headings that name the actor of the rows below: `-- cta 0 warp 1 mma: 34 entries`, `[load]`, `mma:`."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, is_state, verbs
from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of

ACTORS = ("warp", "wg", "thread")  # fields that name an actor in a CTA
FEW = 0.3  # of the rows may name an actor of their own
_MARKS = " \t-=#*~+<>[](){}|:"
_DRAWN = re.compile(
    r"^\s*(?:[-=#*~+>]{2,}|#)|[-=#*~+<]{2,}\s*$|:\s*$|:\s+\d+\s+[^\W\d]+\s*$|^\s*\[[^\]]*\]\s*$"
)
_REMARK = re.compile(r"(?<=\w)\s*\([^()]*\)")
_TOKEN = re.compile(r"\d+|[^\W\d]\w*")
_NUMBERED = re.compile(r"(?P<stem>[^\W\d]+(?:_[^\W\d]+)*?)_?(?P<number>\d+)$")
SHORT = {"w": "warp", "c": "cta", "b": "cta"}


class Heading(NamedTuple):
    """A heading: its words and numbers, the fields that have a number, and the words that may be a role."""

    title: str
    fields: frozenset[str]
    words: frozenset[str]

    @property
    def inner(self) -> bool:
        """Whether it names an actor in a CTA, not a CTA only."""
        return bool({*ACTORS} & self.fields or self.words)


def under_headings(lines: Rows) -> Rows:
    """The rows with the heading above them in front; the lines as they are where there are no headings."""
    found = {at: head for at, (_, text) in enumerate(lines) if (head := heading(text)) is not None}
    if not _heads(lines, found):
        return lines
    out: Rows = []
    outer = inner = ""
    for at, (number, text) in enumerate(lines):
        head = found.get(at)
        if head is None:
            before = " ".join(part for part in (outer, inner) if part)
            out.append((number, f"{before}: {text.strip()}" if before and text.strip() else text))
        elif "cta" in head.fields or not head.inner:
            outer, inner = (head.title, "") if not head.inner else ("", head.title)
        else:
            inner = head.title
    return out


def heading(text: str, drawn: bool = True) -> Heading | None:
    """The heading that a line may be; what is in brackets behind its title may be a remark."""
    return _titled(text, drawn) or _titled(_REMARK.sub(" ", text), drawn)


def _titled(text: str, drawn: bool) -> Heading | None:
    """A line that is drawn as a heading, where it must be, with only fields of actors and a few words."""
    if len(text) > 100 or (drawn and not _DRAWN.search(text)):
        return None
    title, _, rest = (
        part.strip(_MARKS) for part in re.sub(r":(?=\s|$)", "\0", text.strip(_MARKS)).partition("\0")
    )
    if len(_TOKEN.findall(rest)) > 5 or any(_speaks(token) for token in _TOKEN.findall(rest)):
        return None
    fields: set[str] = set()
    words: set[str] = set()
    label = ""
    for token in _TOKEN.findall(title):
        numbered = _NUMBERED.match(token)
        stem = numbered["stem"].lower() if numbered else ""
        known = SHORT.get(stem, "") or field(stem) if stem else ""
        if token[0].isdecimal():
            if label not in (*ACTORS, "cta", "group"):
                return None
            fields.add(label)
            label = ""
        elif known in (*ACTORS, "cta", "group"):
            fields.add(known)
        else:
            label = field(token)
            if _speaks(token):
                return None
            if label not in (*ACTORS, "cta", "group", "role"):
                words.add(token.lower())
    if len(words) > 4 or not (fields or 1 <= len(words) <= 2):
        return None
    return Heading(title, frozenset(fields), frozenset(words))


def _speaks(token: str) -> bool:
    """Whether a word tells an event or names a barrier."""
    return bool({*verbs(token)} & {"wait", "arrive"}) or is_state(token)


def _heads(lines: Rows, found: dict[int, Heading]) -> bool:
    """Whether the headings of a log name the actors of its rows: at least two, with rows that name none."""
    if len(found) < 2 or len({head.title for head in found.values()}) < 2:
        return False
    first = min(found)
    rows = [
        (at, text) for at, (_, text) in enumerate(lines) if at > first and at not in found and text.strip()
    ]
    drawn = sum(_DRAWN.search(text) is not None for _, text in rows)
    if first > 0.1 * len(lines) + 3 or len(rows) < 2 * len(found) or 2 * drawn > len(rows):
        return False
    own = 0
    current = found[first]
    needs = {*ACTORS} if any(head.inner for head in found.values()) else {"cta"}
    for at, text in rows:
        current = found.get(at - 1, current)
        words = {token.lower() for token in _TOKEN.findall(text)}
        own += bool(current.words & words) or bool(needs & _named(text))
    acts = sum(bool({"wait", "arrive"} & verbs_of(text)) for _, text in rows)
    return own <= FEW * len(rows) and 2 * acts >= len(rows)


def _named(text: str) -> set[str]:
    """The fields of actors that a row gives a number."""
    tokens = _TOKEN.findall(text)
    some = {field(word) for word, then in pairwise(tokens) if then[0].isdecimal()}
    stems = [found["stem"].lower() for token in tokens if (found := _NUMBERED.match(token))]
    return some | {SHORT.get(stem, "") or field(stem) for stem in stems}
