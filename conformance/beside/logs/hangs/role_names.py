"""The names of roles as a log prints them: a role's word with the words beside it in all its lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.log import Log
from tileproof.conformance.beside.logs.hangs.words import PREPOSITIONS

ALL = 0.95  # of a role's lines have the words of its name
LINES = 4  # of a role, at least
WORDS = 3  # words on a side
_TOKEN = re.compile(r"\d+|[^\W\d]\w*|[^\w\s]")
_WARP = re.compile(r"(?P<role>.+?)(?P<index> warp \d+)?")
_EVENTS = {"wait", "done", "arrive", "expect", "init", "begin", "not"}


class RoleUse(NamedTuple):
    """A line that names a role: its tokens, and the places of the role's first and last."""

    tokens: Sequence[str]
    first: int
    last: int


class Around(NamedTuple):
    """How many tokens in front of a role's word and behind it belong to its name."""

    before: int = 0
    behind: int = 0


def around(uses: Mapping[str, Sequence[RoleUse]]) -> dict[str, Around]:
    """The words of each role's name around the word by which its lines are known."""
    heads = {role: _fronts(some) for role, some in uses.items()}
    shared = Counter(words[0] for words in heads.values() if words)
    return {
        role: Around(len(heads[role]) if shared[(heads[role] or [""])[0]] < 2 else 0, _behind(some))
        for role, some in uses.items()
    }


def name_roles(log: Log) -> None:
    """Name each role of a log by all its words: `MMA issue warp` where its lines were known by `MMA`."""
    uses: dict[str, list[RoleUse]] = defaultdict(list)
    lines = {event.line: event.actor.role for event in log.events}
    for line, role in lines.items():
        if (use := _use(log.lines[line - 1], role)) is not None:
            uses[role].append(use)
    many = Counter(lines.values())
    named = {role: some for role, some in uses.items() if len(some) >= ALL * many[role]}
    names = _hyphenated(log.lines, many)
    for role, place in around(named).items():
        use, found = named[role][0], _WARP.fullmatch(role)
        before = use.tokens[use.first - place.before : use.first]
        behind = use.tokens[use.last + 1 : use.last + 1 + place.behind]
        if (before or behind) and found is not None:
            words = [*before, *_TOKEN.findall(found["role"]), *behind]
            names[role] = _printed(log.lines, words) + (found["index"] or "")
    if not names or len({names.get(role, role) for role in many}) < len(many):
        return
    log.rename(lambda actor: actor._replace(role=names.get(actor.role, actor.role)))


def _printed(lines: Sequence[str], words: Sequence[str]) -> str:
    """The words of a name with what a log prints between them: a space, a hyphen or nothing."""
    form = re.compile(r"[\s_-]?".join(map(re.escape, words)), re.IGNORECASE)
    found = next((found for line in lines if (found := form.search(line))), None)
    return (found[0] if found is not None else " ".join(words)).lower()


def _hyphenated(lines: Sequence[str], roles: Mapping[str, int]) -> dict[str, str]:
    """The roles that a log prints with hyphens only; the readings take them as one word."""
    parts = {role: _WARP.fullmatch(role) for role in roles if "_" in role}
    text = "\n".join(lines).lower() if parts else ""
    found: dict[str, str] = {}
    for role, part in parts.items():
        name = part["role"] if part is not None else role
        if name not in text and name.replace("_", "-") in text:
            found[role] = name.replace("_", "-") + (part["index"] or "" if part is not None else "")
    return found


def _use(text: str, role: str) -> RoleUse | None:
    """Where a line names a role; None where it does not."""
    found = _WARP.fullmatch(role)
    want = _TOKEN.findall(found["role"] if found is not None else role)
    tokens = _TOKEN.findall(text)
    low = [token.lower() for token in tokens]
    size = len(want)
    at = next((at for at in range(len(low) - size + 1) if low[at : at + size] == want), -1)
    return RoleUse(tokens, at, at + size - 1) if at >= 0 and size else None


def _behind(some: Sequence[RoleUse]) -> int:
    """The words behind a role that all its lines have, up to a sign or to words that differ."""
    if len(some) < LINES:
        return 0
    for size in range(WORDS + 1):
        then = Counter(_token(use, use.last + 1 + size) for use in some)
        token, many = then.most_common(1)[0]
        if many < ALL * len(some) or not _plain(token):
            return size
        if any(_labels(use, use.last + 1 + size) for use in some):
            return size
    return 0


def _fronts(some: Sequence[RoleUse]) -> list[str]:
    """The words in front of a role that all its lines have, the first of them first."""
    found: list[str] = []
    while len(some) >= LINES and len(found) < WORDS:
        token, many = Counter(_token(use, use.first - 1 - len(found)) for use in some).most_common(1)[0]
        if many < ALL * len(some) or not _plain(token) or lexicon.field(token):
            break
        found.insert(0, token)
    return found


def _token(use: RoleUse, at: int) -> str:
    return use.tokens[at].lower() if 0 <= at < len(use.tokens) else ""


def _plain(token: str) -> bool:
    """Whether a word may be of a name: it tells no event and names no barrier."""
    if (
        not token[:1].isalpha()
        or token in PREPOSITIONS
        or re.search(r"\d", token)
        or {*lexicon.verbs(token)} & _EVENTS
        or lexicon.is_state(token)
    ):
        return False
    return lexicon.field(token) in ("", "warp", "wg", "thread", "role")


def _labels(use: RoleUse, at: int) -> bool:
    """Whether a word labels what is behind it: `warp 3`, `state=`."""
    then = _token(use, at + 1)
    return then[:1].isdecimal() or then in ("=", "#") or (then == ":" and _token(use, at + 2)[:1].isdecimal())
