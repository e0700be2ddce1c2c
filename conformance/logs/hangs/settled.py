"""What only the whole log tells: half-said events, torn and cut lines, a missing head.

Each function settles one of these in a log whose records have become events.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tileproof.conformance.logs.hangs.line import Line
from tileproof.conformance.logs.hangs.log import Actor, Kind, Log, LogEvent
from tileproof.conformance.logs.hangs.records import block_of


def resolve_spaced(log: Log, spaced: list[tuple[Line, Actor]], touches: list[LogEvent]) -> None:
    """`P is ready`, `ds ready for WG3`: known barriers whose name is said in two words."""
    known = {event.barrier for event in log.events} | {event.barrier for event in touches}
    for line, actor in spaced:
        for key, mode in line.spaced:
            if key in known and mode:
                kind: Kind = "done" if mode == "is" else "arrive"
                log.events.append(
                    LogEvent(
                        line.number,
                        actor,
                        kind,
                        key,
                        None,
                        block_of(line),
                        line.fields.get("phase"),
                        loose=True,
                    )
                )


def resolve_touches(log: Log, touches: list[LogEvent]) -> None:
    """A bare `done` ends a wait of roles that wait there; a role that never does has arrived."""
    waits = {(event.actor.role, event.barrier) for event in log.events if event.kind == "wait"}
    waited_on = {barrier for _, barrier in waits}
    for event in touches:
        if (event.actor.role, event.barrier) in waits or (event.barrier not in waited_on and not event.loose):
            log.events.append(replace(event, loose=False))
        else:
            log.events.append(replace(event, kind="arrive", loose=True))


def check_cut(log: Log, spellings: dict[str, Counter[str]]) -> None:
    """The last line of a log without a line end: an event of it that says less than others is taken back."""
    last = len(log.lines)
    names = Counter(event.barrier for event in log.events)
    tail = [event for event in log.events if event.line == last]
    for event in tail:
        longer = [key for key in names if key.startswith(event.barrier) and key != event.barrier]
        alike = [one for one in log.events if one.barrier == event.barrier and one is not event]
        unstaged = event.stage is None and alike and all(one.stage is not None for one in alike)
        if (names[event.barrier] == 1 and longer) or unstaged:
            log.events.remove(event)
            if names[event.barrier] == 1:
                spellings.pop(event.barrier, None)
            log.unread.append(last)
    log.cut = True
    log.remarks.append(f"line {last}, the last one, has no end: it may have been cut")


def drop_torn_actors(log: Log) -> None:
    """A few events that name no CTA, where nearly all do, are of torn lines."""
    events = log.events
    without = [event for event in events if event.actor.cta < 0]
    if without and len(without) <= 0.1 * len(events):
        log.unread += [event.line for event in without]
        log.events = [event for event in events if event.actor.cta >= 0]
        log.notes = [note for note in log.notes if note[1].cta >= 0]


def drop_partial_stages(log: Log) -> None:
    """A barrier whose lines give a stage only sometimes is followed without stages; a few that give none
    are torn.
    """
    events = log.events
    every = Counter(event.barrier for event in events)
    without = Counter(event.barrier for event in events if event.stage is None)
    torn = {barrier for barrier, count in without.items() if count <= 0.1 * every[barrier]}
    partial = {barrier for barrier, count in without.items() if count < every[barrier]} - torn
    if torn:
        log.unread += [event.line for event in events if event.stage is None and event.barrier in torn]
        events = [event for event in events if event.stage is not None or event.barrier not in torn]
    for event in events:
        if event.barrier in partial:
            event.stage = None
    log.events = events


def look_at_head(log: Log) -> None:
    """Whether the first lines are gone: the device's printf buffer keeps the newest."""
    first: dict[Actor, LogEvent] = {}
    blocks: dict[Actor, int] = {}
    for event in log.events:
        first.setdefault(event.actor, event)
        if event.k is not None:
            blocks.setdefault(event.actor, event.k)
    begun = {(event.actor.role, event.barrier) for event in log.events if event.kind == "wait"}
    ends = [
        event
        for event in first.values()
        if event.kind == "done" and (event.actor.role, event.barrier) in begun
    ]
    later = [k for k in blocks.values() if k > 1]
    begun_late = sum(k > 0 for k in blocks.values()) * 2 > len(blocks) > 1
    if blocks and (min(blocks.values()) > 1 or begun_late or (ends and later) or len(ends) * 2 > len(first)):
        log.head_missing = True
    # A role of one CTA that begins where the same role of another does not.
    for actor, k in blocks.items():
        twins = [
            other for one, other in blocks.items() if one.role == actor.role and one.group == actor.group
        ]
        if k > min(twins) + 1 and first[actor].kind != "wait":
            log.head_missing = True
    if log.head_missing:
        log.remarks.append(
            f"the head of the log is missing (it begins at k-block {min(blocks.values())}; the "
            f"device's printf "
            "buffer keeps the newest lines): the last known states count, not the numbers of phases"
        )
