"""Rules about a producer whose arrival is missing: it never arrives, it stopped, or it waits in a cycle."""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    barrier_text,
    block_text,
    copy,
    ended,
    ended_by,
    idle,
    producers,
)
from tileproof.conformance.beside.logs.hangs.graph import LogEdge, WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Wait


def cycle(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Actors that wait for each other in a cycle."""
    if root.actor not in graph.cycle:
        return None
    waits = graph.waits_of
    members = graph.cycle
    steps = [
        f"{actor} waits on {copy(graph, waits[actor])} for {members[(at + 1) % len(members)]}"
        for at, actor in enumerate(members)
    ]
    what = "they wait for each other: " + "; ".join(steps)
    lines = [waits[actor].event.line for actor in members]
    first = members[0]
    fix = f"{first}: arrive for {members[-1]} before the wait on {barrier_text(graph, waits[first])}"
    return HangCause("cycle", what, lines, 95, fix, None, tuple(lines[:3]))


# --- a producer that waits for nothing


def k_count(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The producer made fewer arrivals and is in no wait: it printed that it finished, or the other CTA's
    producer made more arrivals.
    """
    edge = idle(graph, root)
    if edge is None or (edge.made == 0 and not ended(graph, edge)):
        return None
    history = graph.histories[edge.producer]
    made = history.arrivals(root.place)
    what = (
        f"k-block counts differ: {root.actor} waits for arrival {edge.need} on {copy(graph, root)}"
        f"{block_text(root.event.k)}, and {edge.producer} made {edge.made}"
    )
    lines = [root.event.line, *(event.line for event in made[-1:]), history.last_line]
    more = [p for p in graph.peers(edge.producer) if graph.made(p, root.place) > edge.made]
    if more:
        what += f", while {more[0]} made {graph.made(more[0], root.place)}"
        lines.append(graph.histories[more[0]].arrivals(root.place)[edge.made].line)
    said = ended(graph, edge)
    fix = f"give {edge.producer} and {root.actor} the same number of k-blocks"
    between = _stopped_between(graph, root, edge)
    whole = bool(history.steps) and _at_round_end(history)
    weight = (93 if whole else 90) if said else 40 if between else 86 if whole else 62
    return HangCause("k-count", what, lines, weight, fix, edge.producer, (history.last_line, root.event.line))


def _at_round_end(history: History) -> bool:
    """Whether its last step is the last step of each of its rounds: a step that came once, after several
    rounds, may stand in place of another.
    """
    steps = history.tokens
    last = steps[-1][0]
    nexts = Counter(steps[at + 1][0] for at in range(len(steps) - 1) if steps[at][0] == last)
    first = steps[0][0]
    rounds = sum(step[0] == first for step in steps)
    return last[0] == "arrive" and (set(nexts) == {first} if nexts else rounds == 1)


def _stopped_between(graph: WaitGraph, root: Wait, edge: LogEdge) -> bool:
    """Whether its last step was, in earlier rounds, always followed by this arrival or by another step."""
    history = graph.histories[edge.producer]
    return bool(history.steps) and isinstance(history.steps[-1], Wait)


def stopped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The producer's arrival is missing, and its last line is not a wait."""
    edge = idle(graph, root)
    if edge is None:
        return _stopped_first(graph, root)
    history = graph.histories[edge.producer]
    what = (
        f"{edge.producer} stopped, or is in a wait that is not printed: its arrival {edge.need} on "
        f"{copy(graph, root)} is missing, and its last line is not a wait"
    )
    last = history.last_line
    fix = (
        f"look at what {edge.producer} does after line {last}: it must arrive on "
        f"{barrier_text(graph, root)}{block_text(root.event.k)}"
    )
    weight = 58 if ended(graph, edge) else 85
    return HangCause(
        "producer-stopped", what, [root.event.line, last], weight, fix, edge.producer, (last, root.event.line)
    )


def _stopped_first(graph: WaitGraph, root: Wait) -> HangCause | None:
    """No actor has arrived on the barrier, and a role stopped within its first round: it may be the
    producer.
    """
    if graph.edges[root.actor] or any(
        graph.histories[actor].arrivals_on(root.event.barrier) for actor in producers(graph, root)
    ):
        return None
    found = [history for history in graph.groups[root.actor.group] if stopped_midway(graph, history)]
    found = [group for group in found if group.actor.cta == root.actor.cta] or found
    if len({group.actor.role for group in found}) != 1:
        return None
    actor, last = found[0].actor, found[0].last_line
    what = (
        f"{actor} stopped, or is in a wait that is not printed: it passed a wait (line {last}) and printed "
        f"nothing more, no other role stopped, and no role has arrived on {copy(graph, root)}"
    )
    fix = (
        f"look at what {actor} does after line {last}: the arrival on {barrier_text(graph, root)} is missing"
    )
    return HangCause(
        "producer-stopped", what, [root.event.line, last], 92, fix, actor, (last, root.event.line)
    )


def stopped_midway(graph: WaitGraph, history: History) -> bool:
    """Whether it is in no wait, and its last step was to pass a wait that an arrival usually follows.

    "Usually": in its other rounds, or in those of the role's other CTAs; without other rounds, any passed
    wait counts.
    """
    if not history.steps or history.actor in graph.waits_of or not isinstance(history.steps[-1], Wait):
        return False
    if _said_end(graph, history):
        return False
    last = history.steps[-1].token
    follows = set()
    for actor in [history.actor, *graph.peers(history.actor)]:
        steps = graph.histories[actor].tokens
        follows |= {steps[at + 1][0][0] for at in range(len(steps) - 1) if steps[at][0] == last}
        if actor != history.actor and steps and steps[-1][0] == last and len(steps) >= len(history.steps):
            follows.add("end")
    return "end" not in follows


def owed_after(graph: WaitGraph, history: History) -> str | None:
    """The barrier on which an actor, in its other rounds, arrives after the wait that it passed last."""
    last = history.tokens[-1][0]
    for actor in [history.actor, *graph.peers(history.actor)]:
        steps = graph.histories[actor].tokens
        for at in range(len(steps) - 1):
            if steps[at][0] == last and steps[at + 1][0][0] == "arrive":
                return steps[at + 1][0][1]
    return None


def _said_end(graph: WaitGraph, history: History) -> bool:
    return ended_by(graph, history)
