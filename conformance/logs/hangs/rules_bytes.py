"""Rules about a phase that lacks bytes: announced by its arrival, and not all copied."""

from __future__ import annotations

from tileproof.conformance.logs.hangs.cause import (
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
from tileproof.conformance.logs.hangs.graph import WaitGraph
from tileproof.conformance.logs.hangs.histories import History, Wait
from tileproof.conformance.logs.hangs.log import Actor, LogEvent


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
        f"bytes never came: {made[-1].actor} arrived on {copy(graph, root)}, {expects}, and the phase "
        "did not complete: a copy was not issued, was issued on another barrier, or brought fewer bytes"
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
    """The line of the last of some events."""
    return events[-1].line


def _short(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Announced and issued bytes, in numbers, where the log tells both."""
    for actor in producers(graph, root):
        history = graph.histories[actor]
        need = arrivals_of(graph, actor, root)
        if need is None or not need.size:
            continue
        issued = [
            event for event in history.copies.get(root.place, []) if _belongs(history, root, need, event)
        ]
        if not issued and not any(history.copies.values()):
            continue
        total = sum(event.size for event in issued)
        if total == need.size:
            continue
        where = f"{copy(graph, root)}{block_text(need.k)}"
        what = f"bytes differ: {actor} announced {need.size} bytes on {where} and issued copies of {total}"
        less = need.size - total
        what += f": {less} never come" if less > 0 else f", {-less} more than the phase can take"
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
            99,
            fix,
            actor,
            (need.line, *(e.line for e in issued[:1]), root.event.line),
        )
    return None


def arrivals_of(graph: WaitGraph, actor: Actor, root: Wait) -> LogEvent | None:
    """The arrival of one producer that the root needs."""
    found = [event for event in arrivals(graph, root) if event.actor == actor]
    return found[0] if found else None


def _belongs(history: History, root: Wait, need: LogEvent, event: LogEvent) -> bool:
    """Whether a copy is of the arrival's phase: of its k-block, or between it and its neighbours."""
    if event.k is not None and need.k is not None:
        return bool(event.k == need.k)
    every = history.arrivals(root.place)
    at = every.index(need)
    after = every[at + 1].line if at + 1 < len(every) else 1 << 60
    return bool(need.line <= event.line < after)
