"""Selects between the reading of a log by words and the general reading: the reading that explains more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.read import read_general
from tileproof.conformance.beside.logs.hangs.grammar.choose import fit
from tileproof.conformance.beside.logs.hangs.log import OWN, Log

CLEAR = 0.02  # by which the general reading must explain more, where it finds no more fields
MUCH = 0.1  # by which it must explain more, and find more events, where the order of rows tells waits
NAMED = 0.05  # by which the general reading may explain less, where only it has the names of actors
_NUMBER = re.compile(r"(?:warp|wg|thread)? ?\d*", re.IGNORECASE)
KNOWN = 0.85  # the fit of the words from which the order of lines is not asked


def better(log: Log, members: Sequence[tuple[int, str]]) -> Log | None:
    """The general reading of a log, where it explains more lines, or more fields of them, than `log` does."""
    if log.snapshot or log.exact:
        return None
    other = read_general(log.path, log.lines, members)
    if other is None or 2 * sum(bool(event.actor.role) for event in other.events) <= len(other.events):
        return None  # it found no events, or not who made them
    if 2 * len(other.events) < len(log.events):
        return None
    more = fit(other) - fit(log)
    fuller = more > MUCH and len(other.events) > (1 + MUCH) * len(log.events)
    if other.ordered and fit(log) > KNOWN and 2 * len(log.events) > len(other.events) and not fuller:
        return None
    if (
        more >= -NAMED
        and _named(other) > _named(log) + MUCH
        and 10 * len(other.events) >= 9 * len(log.events)
    ):
        other.title = log.title
        return other  # a role's name is the actor, where it is printed, not the index of its threads
    if more <= CLEAR and (more, _fields(other) - _fields(log)) <= (0, 0):
        return None
    if more <= CLEAR and (more < 0 or _fields(other) < _fields(log)):
        return None
    other.title = log.title
    return other


def _named(log: Log) -> float:
    """The share of events whose actor has a name: not the number of a warp or of threads, and no label."""
    roles = [event.actor.role for event in log.events]
    named = sum(_NUMBER.fullmatch(role) is None and lexicon.field(role) != "role" for role in roles)
    return named / max(1, len(roles))


def _fields(log: Log) -> int:
    """How many fields of its events a reading found."""
    return sum(
        (event.owner != OWN) + bool(event.to) + bool(event.size) + (event.phase is not None)
        + (event.stage is not None) + (event.k is not None)
        for event in log.events
    )  # fmt: skip
