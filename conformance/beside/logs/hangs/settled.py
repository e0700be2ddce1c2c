"""Decisions that need the whole log: ambiguous events, torn and truncated lines, a missing head.

Each function resolves one of these in a log whose records have become events.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from tileproof.conformance.beside.logs.hangs.line_fields import Line
from tileproof.conformance.beside.logs.hangs.log import OWN, PEER, Actor, Kind, Log, LogEvent
from tileproof.conformance.beside.logs.hangs.records import block_of


def resolve_spaced(log: Log, spaced: list[tuple[Line, Actor]], touches: list[LogEvent]) -> None:
    """`P is ready`, `ds ready for WG3`: known barriers whose name is printed as two words."""
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
    """A bare `done` ends a wait if the role waits on that barrier, and is an arrival otherwise."""
    waits = {(event.actor.role, event.barrier) for event in log.events if event.kind == "wait"}
    waited_on = {barrier for _, barrier in waits}
    for event in touches:
        if (event.actor.role, event.barrier) in waits or (event.barrier not in waited_on and not event.loose):
            log.events.append(replace(event, loose=False))
        elif event.barrier in waited_on or event.barrier not in ("full", "empty"):  # words, too
            log.events.append(replace(event, kind="arrive", loose=True))


_STRIDE = 8  # bytes of an mbarrier


def resolve_rings(log: Log) -> None:
    """Consecutive addresses that a role waits on in turn, each in other k-blocks, are stages of a barrier."""
    used: dict[int, dict[Actor, set[int]]] = {}
    for event in log.events:
        if event.barrier.startswith("@0x") and event.kind in ("wait", "done") and event.owner == OWN:
            waiting = used.setdefault(int(event.barrier[1:], 16), {})
            waiting.setdefault(event.actor, set()).add(-1 if event.k is None else event.k)
    moved: dict[str, tuple[str, int]] = {}
    for first in sorted(used):
        if f"@{first:#x}" in moved:
            continue
        ring = [first]
        while ring[-1] + _STRIDE in used and _in_turn(used, [*ring, ring[-1] + _STRIDE]):
            ring.append(ring[-1] + _STRIDE)
        if len(ring) > 1:
            moved |= {f"@{address:#x}": (f"@{first:#x}", stage) for stage, address in enumerate(ring)}
            log.remarks.append(
                f"the addresses {first:#x} to {ring[-1]:#x} are read as {len(ring)} stages of a barrier"
            )
    for event in log.events:
        event.barrier, event.stage = moved.get(event.barrier, (event.barrier, event.stage))


def _in_turn(used: dict[int, dict[Actor, set[int]]], ring: list[int]) -> bool:
    """Whether the same roles wait on these addresses, no role on two of them in one k-block."""
    roles = [{actor.role for actor in used[address]} for address in ring]
    if any(item != roles[0] for item in roles):
        return False
    for actor in {actor for address in ring for actor in used[address]}:
        blocks = [k for address in ring for k in used[address].get(actor, ())]
        if -1 in blocks or len(blocks) != len({*blocks}):
            return False
    return True


def pair_waits(log: Log) -> None:
    """If no line marks the end of a wait, two different lines about a wait are its beginning and end."""
    if any(event.kind == "done" for event in log.events):
        return
    last: dict[Actor, LogEvent] = {}
    ends: list[LogEvent] = []
    begun = 0
    for event in sorted(log.events, key=lambda event: event.line):
        if event.kind != "wait":
            if event.scope == "mbarrier":
                last.pop(event.actor, None)
            continue
        before = last.pop(event.actor, None)
        same = before is not None and _of_wait(before) == _of_wait(event)
        if (
            before is not None
            and same
            and log.lines[before.line - 1].strip() != log.lines[event.line - 1].strip()
        ):
            ends.append(event)
        else:
            begun += 1
            last[event.actor] = event
    if len(ends) < 3 or len(ends) * 2 < begun:
        return
    lines = {event.line for event in ends}
    log.events = [
        event
        for event in log.events
        if not (event.kind == "arrive" and event.line in lines and event.scope != "mbarrier")
    ]
    for event in ends:
        event.kind = "done"
    log.remarks.append(
        "no word marks the end of a wait: the second of two lines about a wait is taken as its end"
    )


def _of_wait(event: LogEvent) -> tuple[object, ...]:
    return event.barrier, event.stage, event.owner, event.k, event.phase


def complete_ends(log: Log, says_owner: bool) -> None:
    """An end that prints no phase, stage or k-block is of the wait before it in its actor. Its CTA is that
    wait's too; with `says_owner` only if it names none.
    """
    last: dict[Actor, LogEvent] = {}
    for event in sorted(log.events, key=lambda entry: entry.line):
        before = last.get(event.actor)
        if event.kind == "done" and before is not None and before.barrier == event.barrier:
            event.phase = before.phase if event.phase is None else event.phase
            event.stage = before.stage if event.stage is None else event.stage
            event.k = before.k if event.k is None else event.k
            event.owner = before.owner if event.owner == OWN or not says_owner else event.owner
        if event.kind == "wait":
            last[event.actor] = event


def resolve_meetings(log: Log) -> None:
    """A barrier without phases and arrivals that several roles of a CTA pass is one of the CTA's threads."""
    if not any(event.kind == "arrive" and event.scope == "mbarrier" for event in log.events):
        return
    of: dict[str, list[LogEvent]] = {}
    for event in log.events:
        of.setdefault(event.barrier, []).append(event)
    for events in of.values():
        plain = all(
            event.kind in ("wait", "done")
            and event.scope == "mbarrier"
            and event.phase is None
            and event.stage is None
            for event in events
        )
        waits = [event for event in events if event.kind == "wait"]
        roles = Counter(cta for _, cta in {(event.actor.role, event.actor.cta) for event in waits})
        ended = any(event.kind == "done" for event in events)
        if plain and ended and roles and max(roles.values()) > 1 and _phases_elsewhere(log):
            for event in events:
                event.scope = "cta"
            _enter(log, waits)


def _enter(log: Log, events: list[LogEvent]) -> None:
    """Make each wait among `events` an arrival too, just before."""
    entered = {id(event) for event in events if event.kind == "wait"}
    log.events = [
        made
        for event in log.events
        for made in ((replace(event, kind="arrive"), event) if id(event) in entered else (event,))
    ]


def _phases_elsewhere(log: Log) -> bool:
    waits = [event for event in log.events if event.kind == "wait" and event.scope == "mbarrier"]
    return 2 * sum(event.phase is not None for event in waits) > len(waits)


def resolve_targets(log: Log) -> None:
    """The CTA of `peer`, and the CTA that an arrival without a target reaches: its own, where others of the
    same barrier name theirs. Without any arrival on the cluster barrier, a wait there is an arrival too.
    """
    marked = {
        (event.actor.group, event.barrier) for event in log.events if event.kind == "arrive" and event.to
    }
    for event in log.events:
        cta = event.actor.cta
        if event.owner == PEER:
            event.owner = cta ^ 1 if cta >= 0 else OWN
        if event.to == PEER:
            event.to = 1 << (cta ^ 1) if 0 <= cta < 63 else 0
        elif not event.to and 0 <= cta < 63 and (event.actor.group, event.barrier) in marked:
            event.to = 1 << cta if event.kind in ("arrive", "copy") else 0
    _join_copies(log)
    cluster = [event for event in log.events if event.scope == "cluster"]
    if not any(event.kind == "arrive" for event in cluster):
        _enter(log, cluster)


def _join_copies(log: Log) -> None:
    """Arrivals in a row that differ in their CTA only are one arrival that reaches several CTAs."""
    last: dict[Actor, LogEvent] = {}
    joined: set[int] = set()
    for event in log.events:
        before = last.get(event.actor)
        if (
            before is not None
            and before.kind == event.kind == "arrive"
            and _of_wait(before) == _of_wait(event)
            and event.to
            and before.to
            and not before.to & event.to
        ):
            before.to |= event.to
            joined.add(id(event))
        else:
            last[event.actor] = event
    log.events = [event for event in log.events if id(event) not in joined]


def check_cut(log: Log, spellings: dict[str, Counter[str]]) -> None:
    """The last line of a log without a line end: drop its event if it has fewer fields than others."""
    last = len(log.lines)
    names = Counter(event.barrier for event in log.events)
    tail = [event for event in log.events if event.line == last]
    for event in tail:
        longer = [key for key in names if key.startswith(event.barrier) and key != event.barrier]
        alike = [item for item in log.events if item.barrier == event.barrier and item is not event]
        unstaged = event.stage is None and alike and all(item.stage is not None for item in alike)
        if (names[event.barrier] == 1 and longer) or unstaged:
            log.events.remove(event)
            if names[event.barrier] == 1:
                spellings.pop(event.barrier, None)
            log.unread.append(last)
    log.cut = True
    log.remarks.append(f"the last line, {last}, has no line end: it may be truncated")


def drop_torn_actors(log: Log) -> None:
    """Drop the few events without a CTA if nearly all events have one: their lines are torn."""
    events = log.events
    without = [event for event in events if event.actor.cta < 0]
    if without and len(without) <= 0.1 * len(events):
        log.unread += [event.line for event in without]
        log.events = [event for event in events if event.actor.cta >= 0]
        log.notes = [note for note in log.notes if note[1].cta >= 0]


def drop_partial_stages(log: Log) -> None:
    """Ignore the stages of a barrier if only some of its lines have one; a few lines without are torn."""
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


# Prompts, rules, `name: value`, interrupts and tracebacks.
_HOST = re.compile(
    r"^\S*[$#] \S|^[=*_-]{5,}$|^[A-Za-z][\w ./()-]{0,40}[:=]\s*\S|^\^C|^Traceback|^File \"|^KeyboardInterrupt"
)


def keep_host(log: Log) -> None:
    """Keep as the host's lines those before the kernel's first line, and known forms after its last."""
    device = [event.line for event in log.events] + [line for line, _, _ in log.notes]
    if device:
        first, last = min(device), max(device)
        log.host = {
            line
            for line in log.host
            if line < first or (line > last and _HOST.search(log.lines[line - 1].strip()))
        }


def look_at_head(log: Log) -> None:
    """Whether the first lines are missing: the device's printf buffer keeps the newest."""
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
            other for item, other in blocks.items() if item.role == actor.role and item.group == actor.group
        ]
        if k > min(twins) + 1 and first[actor].kind != "wait":
            log.head_missing = True
    if log.head_missing:
        log.remarks.append(
            f"the head of the log is missing (it begins at k-block {min(blocks.values())}; the device's "
            "printf buffer keeps the newest lines): the diagnosis uses last known states, not phase counts"
        )
