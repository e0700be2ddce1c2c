"""Separates the actors of several CTAs that print under the same name because the log names no CTA.

All of them run the same program, so each prints each line once. Their progress in that program assigns the
lines to actors. The CTA ranks remain unknown: CTA A is the CTA that got furthest, then B, ...
"""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.beside.logs.hangs.log import UNKNOWN_CTA, Actor, Log, LogEvent

MAX_ACTORS = 32  # actors under one name
LOOK_AHEAD = 6  # steps that may be lost

_Step = tuple[str, str, int | None, int | None]


def unmerge(log: Log) -> None:
    """Assign events of roles that several CTAs share to one actor per CTA; no-op if the log names CTAs."""
    if not log.events or any(event.actor.cta >= 0 for event in log.events):
        return
    of: dict[Actor, list[LogEvent]] = {}
    for event in log.events:
        of.setdefault(event.actor, []).append(event)
    copies = {actor: _copies(events) for actor, events in of.items()}
    if max(copies.values()) < 2:
        if any(_twice(events) for events in of.values()) or _said_twice(log):
            log.merged = True
            log.remarks.append(
                "the log names no CTA, and a role prints lines twice: roles of several CTAs are merged, so "
                "the CTA that waits and the CTA whose arrival is missing are unknown"
            )
        return
    for actor, events in of.items():
        parts = _parts(events, copies[actor])
        parts.sort(key=len, reverse=True)
        for rank, part in enumerate(parts):
            for event in part:
                event.actor = Actor(actor.group, actor.role, UNKNOWN_CTA + rank)
    log.notes = [
        (line, actor._replace(cta=UNKNOWN_CTA) if copies.get(actor, 0) == 1 else actor, k)
        for line, actor, k in log.notes
        if copies.get(actor, 0) == 1
    ]
    log.merged = True
    largest = max(copies.values())
    log.remarks.append(
        f"the log names no CTA: the roles of {largest} CTAs are merged, and separated by progress as CTA A "
        f"(furthest) to {chr(ord('A') + min(largest, 26) - 1)}; their ranks are unknown"
    )


def _step(event: LogEvent) -> _Step:
    return event.kind, event.barrier, event.stage, event.k


def _copies(events: list[LogEvent]) -> int:
    """How often a name prints each line: the most frequent count among the early lines."""
    counts = Counter(
        _step(event) for event in events if event.kind in ("done", "arrive") and event.k is not None
    )
    if len(counts) < 2:
        return 1
    largest = max(counts.values())
    shared = sum(count == largest for count in counts.values())
    return largest if 2 <= largest <= MAX_ACTORS and (shared >= 2 or shared * 3 >= len(counts)) else 1


def _twice(events: list[LogEvent]) -> bool:
    """Whether the end of a wait or an arrival is printed twice, or two waits begin at once."""
    told = Counter(
        _step(event) for event in events if event.kind in ("done", "arrive") and event.k is not None
    )
    return any(count > 1 for count in told.values())


def _said_twice(log: Log) -> bool:
    """Whether a role's first line, such as that it started, is printed twice."""
    first: dict[str, str] = {}
    for line, actor, _ in log.notes:
        text = log.lines[line - 1].strip()
        if first.setdefault(actor.role, text) == text and any(
            other != line and log.lines[other - 1].strip() == text
            for other, noted, _ in log.notes
            if noted.role == actor.role
        ):
            return True
        if len(first) > 64:
            break
    return False


def _parts(events: list[LogEvent], copies: int) -> list[list[LogEvent]]:
    if copies == 1:
        return [events]
    program: list[_Step] = []
    at = [0] * copies
    parts: list[list[LogEvent]] = [[] for _ in range(copies)]
    for event in events:
        step = _step(event)
        chosen = _whose(step, program, at, parts)
        if at[chosen] == len(program):
            program.append(step)
            at[chosen] += 1
        else:
            ahead = program[at[chosen] : at[chosen] + LOOK_AHEAD]
            at[chosen] += ahead.index(step) + 1 if step in ahead else 0
        parts[chosen].append(event)
    return [part for part in parts if part]


def _whose(step: _Step, program: list[_Step], at: list[int], parts: list[list[LogEvent]]) -> int:
    """The copy of the actor whose next step this is; copies that lag behind take precedence."""
    order = sorted(range(len(at)), key=lambda number: at[number])
    for distance in range(LOOK_AHEAD):
        for number in order:
            place = at[number] + distance
            if place < len(program) and program[place] == step:
                return number
            if not distance and place == len(program) and _may_follow(step, parts[number]):
                front = number
                if all(program[at[other]] != step for other in order if at[other] < len(program)):
                    return front
    return order[-1]


def _may_follow(step: _Step, part: list[LogEvent]) -> bool:
    """Whether this can be an actor's next step: an actor in a wait can only end the wait."""
    if not part or part[-1].kind != "wait":
        return True
    return step[0] == "done" and step[1:3] == (part[-1].barrier, part[-1].stage)
