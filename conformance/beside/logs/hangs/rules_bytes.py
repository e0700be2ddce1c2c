"""Rules about a phase that lacks bytes: fewer bytes were copied than its arrival announced."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    arrivals,
    barrier_text,
    before_the_log,
    block_text,
    copy,
    producers,
    satisfied,
    state,
)
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.beside.logs.hangs.log import OWN, Actor, LogEvent


def bytes_missing(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The arrival announced bytes, and the phase did not complete."""
    if not satisfied(graph, root):
        return None
    exact = state(graph, root)
    if exact is not None and exact.announced == exact.copied:
        return None
    made = arrivals(graph, root) or before_the_log(graph, root)
    told = [event for event in made if event.bytes]
    planned = 0
    if graph.plan is not None:
        barriers = [b for b in graph.plan.barriers if b.name.replace("_", "").lower() == root.event.barrier]
        planned = max((b.tx_bytes for b in barriers), default=0)
    if not told and not planned:
        return None
    short = _short(graph, root)
    if short is not None:
        return short
    sizes = [event.size for event in told if event.size]
    announced = f"its arrival announces {sizes[-1]} bytes" if sizes else "its arrival announces bytes"
    expects = f"the plan expects {planned} bytes" if planned else announced
    what = (
        f"bytes never arrived: {made[-1].actor} arrived on {copy(graph, root)}, {expects}, and the phase "
        "did not complete: a copy was not issued, was issued on another barrier, or had fewer bytes"
    )
    lines = [root.event.line, *(event.line for event in made)]
    size = f" {planned or sizes[-1]}" if planned or sizes else " the announced"
    fix = (
        f"issue copies of{size} bytes on {barrier_text(graph, root)}, or expect fewer; print each "
        f"copy's bytes to see which"
    )
    culprit = told[-1].actor if told else made[-1].actor
    return HangCause(
        "bytes-missing", what, lines, 88, fix, culprit, (culprit_line(told or made), root.event.line)
    )


def culprit_line(events: list[LogEvent]) -> int:
    """The line of the last of these events."""
    return events[-1].line


def _short(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The cause by announced and issued byte counts, if the log has both."""
    for actor in producers(graph, root):
        history = graph.histories[actor]
        need = arrivals_of(graph, actor, root)
        if need is None or not need.size:
            continue
        issued = [
            event
            for event in history.copies.get(root.place._replace(owner=OWN), [])
            if _belongs(history, root.place, need, event)
        ]
        if not issued and not any(history.copies.values()):
            continue
        if any(not event.size for event in issued) or not _usual(history, root):
            continue
        total = sum(event.size for event in issued)
        if total == need.size:
            continue
        where = f"{copy(graph, root)}{block_text(need.k)}"
        what = f"bytes differ: {actor} announced {need.size} bytes on {where} and issued copies of {total}"
        less = need.size - total
        what += f": {less} never arrive" if less > 0 else f", {-less} more than the phase can take"
        fix = f"{actor}: expect {total} bytes on {barrier_text(graph, root)}, or issue copies of {need.size}"
        if not total:
            fix = (
                f"{actor}: issue the copy of {need.size} bytes on "
                f"{barrier_text(graph, root)}{block_text(need.k)}"
            )
        lines = [root.event.line, need.line, *(event.line for event in issued)]
        return HangCause(
            "bytes-missing",
            what,
            lines,
            99 if issued else 97,  # a copy's line may be lost
            fix,
            actor,
            (need.line, *(e.line for e in issued[:1]), root.event.line),
        )
    return None


def _usual(history: History, root: Wait) -> bool:
    """Whether the copies of this actor's other arrivals on the barrier have the bytes that were announced.

    Otherwise the log does not print every copy, and bytes that are not printed are not missing.
    """
    kept = broken = 0
    for place, events in history.arrives.items():
        if place.barrier != root.event.barrier:
            continue
        for event in events:
            copies = history.copies.get(place, [])
            total = sum(item.size for item in copies if _belongs(history, place, event, item))
            kept += total == event.size
            broken += total != event.size
    return broken <= 1 or kept > 2 * broken


def arrivals_of(graph: WaitGraph, actor: Actor, root: Wait) -> LogEvent | None:
    """The arrival of a producer that the root needs."""
    found = [event for event in arrivals(graph, root) if event.actor == actor]
    return found[0] if found else None


def _belongs(history: History, place: Place, need: LogEvent, event: LogEvent) -> bool:
    """Whether a copy belongs to the arrival's phase: same k-block, or between the neighbouring arrivals."""
    if event.k is not None and need.k is not None:
        return bool(event.k == need.k)
    every = history.arrivals(place)
    at = every.index(need)
    after = every[at + 1].line if at + 1 < len(every) else 1 << 60
    return bool(need.line <= event.line < after)
