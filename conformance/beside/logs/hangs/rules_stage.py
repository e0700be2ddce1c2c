"""Rules about a ring of stages: an arrival on a stage whose turn it is not."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    barrier_text,
    block_text,
)
from tileproof.conformance.beside.logs.hangs.graph import LogEdge, WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.beside.logs.hangs.log import Actor, LogEvent
from tileproof.conformance.beside.logs.hangs.rules_omitted import wanted_k

SEVERAL = 2  # more arrivals than these show which stage's turn it is


def wrong_stage(graph: WaitGraph, root: Wait) -> HangCause | None:
    """As many arrivals as waits, one of them on a stage that no wait needs."""
    barrier, stage = root.event.barrier, root.event.stage
    if stage is None:
        return None
    blocked = graph.accounts.waits.get(root.actor)
    if blocked is not None and not graph.accounts.ledger.is_ring(blocked.copy):
        return None  # stages that are used in the same round are not turns of a ring
    if not graph.edges[root.actor]:
        return _early(graph, root)
    waits = [w for w in graph.histories[root.actor].waits if w.event.barrier == barrier]
    for edge in graph.edges[root.actor]:
        history = graph.histories[edge.producer]
        odd = _off_ring(graph, root, edge.producer)
        wanted = wanted_k(graph, root, history)
        if odd is not None and (wanted is None or odd.k == wanted):
            return _stage_cause(graph, root, edge, odd, f"stage {odd.stage} where stage {stage} is next")
        turned = _turns(history, barrier)
        astray = [event for event, turn in turned if event.stage != turn]
        if len(astray) == 1 and len(turned) > SEVERAL and (astray[0], stage) in turned:
            told = f"stage {astray[0].stage}, where it had waited for stage {stage}"
            return _stage_cause(graph, root, edge, astray[0], told)
        if turned and not astray:
            continue  # it arrived on each stage that it waited for: a further arrival is of its own round
        arrives = history.arrivals_on(barrier)
        free = len({w.place for w in waits if graph.free_first(root.actor.group, w.place)})
        if len(arrives) < len(waits) - free or graph.log.head_missing:
            continue
        surplus = [
            e for e in arrives
            if history.arrivals(Place(barrier, e.stage)).index(e)
            >= len(graph.histories[root.actor].on(root.place._replace(stage=e.stage)))
        ]  # fmt: skip
        if surplus and not _ahead(graph, root):
            told = f"stage {surplus[0].stage} once more than any role waited for it"
            return _stage_cause(graph, root, edge, surplus[0], told)
    return None


def _turns(history: History, barrier: str) -> list[tuple[LogEvent, int | None]]:
    """An actor's arrivals on a barrier, each with the stage of another ring that it waited for before it."""
    stages: dict[str, set[int | None]] = {}
    for wait in history.waits:
        stages.setdefault(wait.event.barrier, set()).add(wait.event.stage)
    rings = [name for name, some in stages.items() if name != barrier and len(some - {None}) > 1]
    if len(rings) != 1:
        return []
    waits = [wait.event for wait in history.waits if wait.event.barrier == rings[0]]
    arrives = history.arrivals_on(barrier)
    before = [[wait for wait in waits if wait.line < event.line][-1:] for event in arrives]
    return [(event, some[0].stage) for event, some in zip(arrives, before, strict=True) if some]


def _early(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival of another stage's turn that completed one more phase of this stage, so that its parity is
    again that of the current phase.
    """
    for actor in sorted(graph.arrivers(root)):
        odd = _off_ring(graph, root, actor)
        if odd is None or odd.stage != root.event.stage or odd.k is None:
            continue
        if root.event.k is not None and odd.k <= root.event.k:
            continue
        stages, _ = _ring(graph, root)
        name = barrier_text(graph, root)
        what = (
            f"wrong stage: {actor} arrived on {name} in k-block {odd.k}, whose turn is stage "
            f"{odd.k % stages}; {name} completed one phase too many, and {root.actor} waits for a parity "
            "that is again current"
        )
        fix = f"{actor}: arrive on {graph.log.name(root.event.barrier)}[{odd.k % stages}]{block_text(odd.k)}"
        lines = [odd.line, root.event.line]
        return HangCause("wrong-stage", what, lines, 98, fix, actor, (odd.line, root.event.line))
    return None


def _stage_cause(graph: WaitGraph, root: Wait, edge: LogEdge, odd: LogEvent, told: str) -> HangCause:
    name = graph.log.name(root.event.barrier)
    what = (
        f"wrong stage: {root.actor} waits for stage {root.event.stage} of {name}, and "
        f"{edge.producer} arrived on {told}"
    )
    fix = (
        f"{edge.producer}: arrive on {barrier_text(graph, root)}{block_text(odd.k)}, not on "
        f"{name}[{odd.stage}]"
    )
    lines = [root.event.line, odd.line]
    return HangCause("wrong-stage", what, lines, 98, fix, edge.producer, (odd.line, root.event.line))


def _ring(graph: WaitGraph, root: Wait) -> tuple[int, list[LogEvent]]:
    """The number of stages of the root's barrier, and the events out of the ring's order (stage = k modulo
    stages).
    """
    told: list[LogEvent] = []
    for history in graph.groups[root.actor.group]:
        told += history.arrivals_on(root.event.barrier)
        told += [wait.event for wait in history.waits if wait.event.barrier == root.event.barrier]
    known = [
        (event.k, event.stage, event) for event in told if event.k is not None and event.stage is not None
    ]
    stages = max((stage for _, stage, _ in known), default=0) + 1
    off = [event for k, stage, event in known if k % stages != stage]
    return stages, off if len(known) == len(told) else told


def _off_ring(graph: WaitGraph, root: Wait, producer: Actor) -> LogEvent | None:
    """The producer's arrival on the wrong stage, if all other events on the barrier keep the ring's order."""
    stages, off = _ring(graph, root)
    if stages < 2 or sum(len(h.arrivals_on(root.event.barrier)) for h in graph.groups[root.actor.group]) < 3:
        return None
    return off[0] if len(off) == 1 and off[0].kind == "arrive" and off[0].actor == producer else None


def _ahead(graph: WaitGraph, root: Wait) -> bool:
    """Whether all events keep the ring's order: then surplus arrivals are stages that a producer is ahead."""
    stages, off = _ring(graph, root)
    return stages > 1 and not off
