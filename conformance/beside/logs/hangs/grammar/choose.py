"""Selects between reading a log by words and by its own grammar: the reading that explains more lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.grammar.learn import learn
from tileproof.conformance.beside.logs.hangs.log import Actor, Log, LogEvent
from tileproof.conformance.beside.logs.hangs.words import Vocabulary

CLEAR = 0.06  # by which the learned reading must explain more


def learned(log: Log, members: Sequence[tuple[int, str]], known: Vocabulary) -> Log | None:
    """The learned reading of a log, where it explains the lines better than the words do."""
    if log.snapshot or log.exact:
        return None
    by_words = fit(log)
    if by_words > 0.85:
        return None
    other = learn(log.path, log.lines, members, known)
    if other is None or fit(other) < by_words + CLEAR:
        return None
    other.title = log.title
    other.remarks.insert(
        0, "the meaning of the lines was inferred from their order, because their words are unknown"
    )
    return other


def fit(log: Log) -> float:
    """How well a reading explains its lines, from 0 to 1.

    Lines that are read, waits that end at once in their thread, barriers that are both waited on and arrived
    on, and phases that alternate.
    """
    events = log.events
    if not events:
        return 0.0
    strange = sum(line not in log.host for line in log.unread)
    told = {event.line for event in events}
    read = len(told) / max(len(told) + strange + log.half_read, 1)
    of: dict[Actor, list[LogEvent]] = {}
    for event in sorted(events, key=lambda entry: entry.line):
        of.setdefault(event.actor, []).append(event)
    return 0.25 * read + 0.35 * _closed(of) + 0.25 * _served(events) + 0.15 * _named(of)


def _closed(of: dict[Actor, list[LogEvent]]) -> float:
    """The share of waits that end before the thread does anything else, or at which it ends."""
    good = total = 0
    for events in of.values():
        steps = [event for event in events if event.kind in ("wait", "done") or event.scope == "mbarrier"]
        for at, event in enumerate(steps):
            if event.kind == "wait":
                total += 1
                then = steps[at + 1] if at + 1 < len(steps) else None
                good += then is None or (then.kind == "done" and then.barrier == event.barrier)
            elif event.kind == "done" and (at == 0 or steps[at - 1].kind != "wait"):
                total += 1
    return good / total if total else 0.0


def _served(events: Sequence[LogEvent]) -> float:
    """The share of waits on barriers on which something arrives, and of arrivals on barriers waited on."""
    plain = [event for event in events if event.scope == "mbarrier"]
    waited = {event.barrier for event in plain if event.kind == "wait"}
    arrived = {event.barrier for event in plain if event.kind == "arrive"}
    if not plain:
        return 1.0
    counts = Counter(event.barrier for event in plain)
    return sum(counts[barrier] for barrier in waited & arrived) / len(plain)


def _named(of: dict[Actor, list[LogEvent]]) -> float:
    """Whether threads are as few as threads are, and have names."""
    every = sum(map(len, of.values()))
    return sum(len(events) for actor, events in of.items() if actor.role and len(events) > 1) / every
