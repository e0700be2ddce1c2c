"""Rules about barriers of threads and of clusters that a participant missed, and about blocked allocations.

PTX ISA: barrier.cta and barrier.cluster release when every participant arrived; tcgen05.alloc blocks until
other CTAs of the SM free their columns.
"""

from __future__ import annotations

from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.cause import HangCause, block_text, copy, ended_by
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Wait

_HELD = 70  # the participant is in another wait before the barrier: what holds it there is the cause


def sync_missing(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A barrier of threads or of the cluster on which some participant did not arrive."""
    if root.event.scope not in ("cta", "cluster"):
        return None
    place = copy(graph, root)
    if (told := graph.log.reports.get(root.event.line)) is not None:
        return _reported(graph, root, told)
    edges = graph.edges[root.actor]
    if not edges:
        return HangCause(
            "sync-missing",
            f"{root.actor} is at {place}, and no line names another participant that has not arrived: the "
            "barrier counts more threads than arrive, or the missing role prints no line",
            [root.event.line],
            84,
            f"compare the threads that reach {place} with the number that it counts",
            None,
            (root.event.line,),
        )
    absent = [edge.producer for edge in edges if edge.producer not in graph.waits_of] or [edges[0].producer]
    history = graph.histories[absent[0]]
    made = len(history.arrivals_on(root.event.barrier))
    need = root.ordinal + 1
    passed = _went_past(graph, root, history)
    how = (
        f"ended (line {history.last_line})"
        if ended_by(graph, history)
        else f"went past it (line {passed})"
        if passed
        else f"printed its last line before it (line {history.last_line})"
    )
    what = (
        f"a participant is missing: {root.actor} is at {place}{block_text(root.event.k)} for the "
        f"{_nth(need)} time, and {absent[0]}, which arrived {made} time{'s' * (made != 1)}, {how}"
    )
    if len(absent) > 1:
        what += f"; also missing: {', '.join(map(str, absent[1:4]))}"
    fix = f"have {absent[0]} reach {place} on every path, or exclude it from the barrier's count"
    last = passed or history.last_line
    held = not passed and absent[0] in graph.waits_of
    weight = _HELD if held else 96
    return HangCause(
        "sync-missing", what, [root.event.line, last], weight, fix, absent[0], (last, root.event.line)
    )


def _reported(graph: WaitGraph, root: Wait, told: str) -> HangCause:
    """What synccheck reports; "Divergent": some threads exited, or never reach this barrier."""
    low = told.lower()
    line = root.event.line
    divergent = "diverg" in low
    what = f"synccheck: {told}: {root.actor} is at {copy(graph, root)}" + (
        ", and other threads that the barrier counts exited or are elsewhere" if divergent else ""
    )
    fix = (
        "let every thread reach the barrier: no return, break or condition on the thread before it; or use a "
        "named barrier with the number of threads that arrive"
        if divergent
        else "compare the barrier's initialisation, thread count and id with the PTX ISA"
    )
    if not divergent:
        return HangCause("sync-misuse", what, [line], 99, fix, None, (line,))
    return HangCause("sync-missing", what, [line], 99, fix, None, (line,))


def _nth(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number if number < 20 else number % 10, 'th') }"


def _went_past(graph: WaitGraph, root: Wait, history: History) -> int:
    """The line at which a participant continued without the barrier, by its other rounds; 0: none."""
    steps, barrier = history.tokens, ("arrive", root.event.barrier)
    follows: dict[tuple[str, str], set[bool]] = {}
    for actor in [history.actor, *graph.peers(history.actor), root.actor]:
        tokens = [token for token, _ in graph.histories[actor].tokens]
        if actor == history.actor or barrier in tokens:
            for first, then in pairwise(tokens):
                follows.setdefault(first, set()).add(then == barrier)
    befores = {first for first, then in follows.items() if True in then}
    if history.arrivals_on(root.event.barrier) == []:  # what comes before it in a loop, too, shows nothing
        befores = {first for first in befores if follows[first] == {True}}
    for at in range(len(steps) - 1):
        token, step = steps[at + 1]
        if steps[at][0] in befores and token != barrier and token[1] != root.event.barrier:
            return (step.event if isinstance(step, Wait) else step).line
    return 0


def alloc_blocked(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An allocation of Tensor Memory that does not return: another holder does not free its columns."""
    if root.event.scope != "tmem":
        return None
    holders = graph.holders(root)
    if not holders:
        return HangCause(
            "alloc-blocked",
            f"tcgen05.alloc of {root.actor} does not return, and no line shows the owner of the columns: "
            "another CTA on the SM, an earlier kernel that did not free them, or an allocation after "
            "relinquish_alloc_permit",
            [root.event.line],
            84,
            "print tcgen05.alloc and tcgen05.dealloc of every CTA; free all columns before a CTA exits",
            None,
            (root.event.line,),
        )
    holder = holders[0]
    history = graph.histories[holder.actor]
    state = "ended without freeing them" if ended_by(graph, history) else "has not freed them"
    what = (
        f"tcgen05.alloc of {root.actor} does not return: {holder.actor} allocated columns (line "
        f"{holder.end}) and {state}"
    )
    fix = f"{holder.actor}: tcgen05.dealloc on every path, or allocate fewer columns"
    lines = [root.event.line, holder.end, history.last_line]
    return HangCause("alloc-blocked", what, lines, 96, fix, holder.actor, (holder.end, root.event.line))
