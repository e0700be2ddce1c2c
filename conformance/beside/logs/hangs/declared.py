"""What the lines in front of a log's first event state of each barrier: its count, its roles, its CTA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from tileproof.conformance.beside.logs.hangs.accounts.arrivers import unnumbered
from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.log import Log, LogEvent

_NUMBER = re.compile(
    r"(?<![\w.])(?:(?P<label>[^\W\d]+)[ _]?)?[x\u00d7*+=:\[(# ]*(?P<value>\d{1,4})(?![\w.]*\d)"
)
_WORD = re.compile(r"[^\W\d]+")
_ALL = re.compile(  # CTAs of a cluster, all of them
    r"both|all ctas|cluster|peer|cross|remote|multicast|beide|ambos|ambas|las dos|les deux|entrambi"
    r"|\u043e\u0431\u043e\u0438\u0445|\u043e\u0431\u0430|\u4e24|\u5169|\u8de8|\u4e21|\uc591\ucabd",
    re.IGNORECASE,
)
_ONE = re.compile(r"(?:cta|rank|block|leader)[ _]?#?(?P<cta>\d{1,3})(?!\d)|(?P<leader>leader)", re.IGNORECASE)
_WAITS = re.compile(r"\b\w*wait\w*\s*[=:]\s*\S+", re.IGNORECASE)  # who waits, not who arrives


@dataclass
class Declared:
    """A line about a barrier. `count`: arrivals of a phase, 0 where the line states none."""

    line: int
    barrier: str
    count: int = 0
    roles: list[str] = field(default_factory=list)
    owner: int = -1
    shared: bool = False


def working(log: Log) -> list[LogEvent]:
    """The events of roles that wait, or that act behind the first wait: others are lines that state barriers,
    or a logger's words.
    """
    first = first_wait(log)
    acting = {event.actor for event in log.events if event.line > first or event.kind in ("wait", "done")}
    return [event for event in log.events if event.actor in acting]


def first_wait(log: Log) -> int:
    """The line of the first wait."""
    return min((event.line for event in log.events if event.kind in ("wait", "done")), default=0)


def declared(log: Log) -> list[Declared]:
    """The barriers that the lines in front of the first wait state."""
    events = working(log)
    first = min((event.line for event in events), default=0)
    names = {log.name(event.barrier): event.barrier for event in events if event.scope == "mbarrier"}
    rings: dict[str, int] = {}
    for event in events:
        if event.stage is not None:
            rings[event.barrier] = max(rings.get(event.barrier, 0), event.stage + 1)
    roles = {event.actor.role for event in events if event.actor.role}
    roles |= {unnumbered(role) for role in roles}
    spelled = [name for name in names if len(name) > 1 and not name.startswith("@")]
    if not spelled or not roles:
        return []
    spellings = {name.lower(): name for name in spelled}
    named = {each.lower(): each for each in roles}
    barrier = _any(spelled)
    role = _any([each for each in roles if len(each) > 1])
    found = []
    for number, text in enumerate(log.lines[: first - 1], 1):
        for name, rest in _parts(text, barrier):
            key = spellings.get(name.lower(), name)
            said = [each[0].lower() for each in role.finditer(_WAITS.sub(" ", rest))]
            whose = [named[word] for word in said if word in named]
            count = _count(rest, rings.get(names.get(key, ""), 1))
            if count or whose:
                place = _ONE.search(role.sub(" ", rest))
                owner = -1 if place is None else int(place["cta"] or 0)
                shared = bool(_ALL.search(rest))
                found.append(Declared(number, key, count, whose, owner, shared))
    return found


def _any(words: list[str]) -> re.Pattern[str]:
    some = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{some})(?!\w)", re.IGNORECASE)


def _parts(text: str, barrier: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Each barrier of a line, with the text up to the next."""
    hits = list(barrier.finditer(text))
    for hit, then in zip_longest(hits, hits[1:]):
        if hit is not None:
            yield hit[0], text[hit.end() : then.start() if then is not None else len(text)]


def _count(rest: str, ring: int) -> int:
    """The arrivals of a phase: the number that a word for them names, else that beside the stages."""
    plain: list[int] = []
    staged = False
    for hit in _NUMBER.finditer(rest):
        value = int(hit["value"])
        after = rest[hit.end() :]
        label = (hit["label"] or "").lower()
        then = _WORD.match(after.lstrip(" _")) if after[:1] in (" ", "_", "") else None
        unit = then[0].lower() if then is not None else ""
        if _means(label, "count") or _means(unit, "arrive"):
            return value
        other = lexicon.field(label)
        if other == "stage" or lexicon.field(unit) == "stage" or (value == ring and not staged):
            staged = True
        elif other in ("", "count") and lexicon.field(unit) != "bytes" and unit != "b":
            plain.append(value)
    return plain[0] if plain else 0


def _means(word: str, what: str) -> bool:
    if not word:
        return False
    parts = [word, *lexicon.split(word)]
    return any(
        lexicon.field(part) == "count" or (what == "arrive" and "arrive" in lexicon.verbs(part))
        for part in parts
    ) or (what == "count" and "arrive" in lexicon.verbs(word))
