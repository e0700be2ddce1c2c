"""Rules about an arrival that was left out, by the order of what its producer does in its other rounds."""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.logs.hangs.cause import (
    HangCause,
    barrier_text,
    block_text,
    copy,
)
from tileproof.conformance.logs.hangs.graph import WaitGraph
from tileproof.conformance.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.logs.hangs.log import Actor, LogEvent

_Token = tuple[str, str]  # "wait" or "arrive", barrier


def skipped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that went on past the place where it makes this arrival in its other rounds."""
    for edge in graph.edges[root.actor]:
        found = _left_out(graph, root, edge.producer)
        if found is not None:
            return found
    return _skipped_before(graph, root)


def _left_out(graph: WaitGraph, root: Wait, producer: Actor) -> HangCause | None:
    history = graph.histories[producer]
    around = _surroundings(graph, root, producer)
    if not around:
        return None
    steps = history.tokens
    firsts = {before for before, _ in around}
    usual = _usual_next(graph, producer)
    wanted = wanted_k(graph, root, history)
    made = [
        at for at, (_, step) in enumerate(steps) if isinstance(step, LogEvent) and _at(step) == root.place
    ]
    # What lies before the last arrival on this place is of an earlier round.
    for at in range(len(steps) - 1, max(made, default=0), -1):
        before, after = steps[at - 1], steps[at]
        if before[0] not in firsts or after[0] == ("arrive", root.event.barrier):
            continue
        if isinstance(before[1], Wait) and not before[1].passed:
            continue
        if not _of_the_round(root, before, wanted, around):
            continue
        if (before[0], after[0]) in around and (before[0], after[0]) not in usual:
            # What follows the arrival in other rounds follows at once.
            return _skip_cause(graph, root, producer, before[1], after[1], None)
        if isinstance(after[1], LogEvent) and (before[0], after[0]) not in usual:
            follows = steps[at + 1][0] if at + 1 < len(steps) else None
            if follows is None or (before[0], follows) in around:
                return _skip_cause(graph, root, producer, before[1], None, after[1])
    return None


def _at(event: LogEvent) -> Place:
    return event.barrier, event.stage


def _surroundings(
    graph: WaitGraph, root: Wait, producer: Actor
) -> dict[tuple[_Token, _Token | None], set[int | None]]:
    """(step before, step after) of each arrival on the barrier by the producer's role: k of the step before,
    less that of the arrival (None: not told).
    """
    found: dict[tuple[_Token, _Token | None], set[int | None]] = {}
    for actor in [producer, *graph.peers(producer)]:
        steps = graph.histories[actor].tokens
        for at in range(1, len(steps)):
            token, step = steps[at]
            if token == ("arrive", root.event.barrier):
                mine, other = _k_of(step), _k_of(steps[at - 1][1])
                apart = None if mine is None or other is None else other - mine
                after = steps[at + 1][0] if at + 1 < len(steps) else None
                found.setdefault((steps[at - 1][0], after), set()).add(apart)
    return found


def _k_of(step: Wait | LogEvent) -> int | None:
    return (step.event if isinstance(step, Wait) else step).k


def _usual_next(graph: WaitGraph, producer: Actor) -> set[tuple[_Token, _Token]]:
    """Pairs of steps that follow each other often: more than once, or in another CTA."""
    counts: Counter[tuple[_Token, _Token]] = Counter()
    for actor in [producer, *graph.peers(producer)]:
        steps = graph.histories[actor].tokens
        weight = 1 if actor == producer else 2
        for at in range(len(steps) - 1):
            counts[steps[at][0], steps[at + 1][0]] += weight
    return {pair for pair, count in counts.items() if count > 1}


def wanted_k(graph: WaitGraph, root: Wait, history: History) -> int | None:
    """The k-block of the arrival that the root needs."""
    lag = graph.rounds.lag(root, history)
    return None if lag is None or root.event.k is None else root.event.k - lag


def _of_the_round(
    root: Wait,
    before: tuple[_Token, Wait | LogEvent],
    wanted: int | None,
    around: dict[tuple[_Token, _Token | None], set[int | None]],
) -> bool:
    """Whether `before` belongs to the round whose arrival the root needs, as far as the log tells."""
    k = _k_of(before[1])
    apart = {one for (first, _), some in around.items() if first == before[0] for one in some}
    if wanted is not None and k is not None and len(apart) == 1 and None not in apart:
        return k - next(iter(apart)) == wanted  # type: ignore[operator]
    stage = before[1].event.stage if isinstance(before[1], Wait) else before[1].stage
    if root.event.stage is not None and stage is not None:
        return bool(stage == root.event.stage)
    return True


def _skip_cause(
    graph: WaitGraph,
    root: Wait,
    producer: Actor,
    before: Wait | LogEvent,
    after: Wait | LogEvent | None,
    instead: LogEvent | None,
) -> HangCause:
    history = graph.histories[producer]
    made = history.arrivals(root.place)
    deed = before.event if isinstance(before, Wait) else before
    end = before.end if isinstance(before, Wait) else before.line
    place = graph.log.name(deed.barrier) + (f"[{deed.stage}]" if deed.stage is not None else "")
    did, at = ("passed", "wait") if isinstance(before, Wait) else ("arrived on", "arrival")
    if instead is not None:
        name = graph.log.name(instead.barrier)
        what = (
            f"an arrival went to another barrier: {producer} arrived on {name}{block_text(instead.k)} "
            f"where it arrives "
            f"on {barrier_text(graph, root)} in its other rounds"
        )
        fix = f"{producer}: arrive on {barrier_text(graph, root)}{block_text(instead.k)}, not on {name}"
        lines = [root.event.line, instead.line, *(event.line for event in made[-1:])]
        return HangCause(
            "wrong-barrier", what, lines, 99, fix, producer, (end, instead.line, root.event.line)
        )
    assert after is not None
    line = (after.event if isinstance(after, Wait) else after).line
    what = (
        f"an arrival was left out: {producer} {did} {place}{block_text(deed.k)} and went on (line {line}) "
        f"without "
        f"the arrival on {copy(graph, root)} that it makes there in other rounds"
    )
    fix = f"{producer}: arrive on {barrier_text(graph, root)} after the {at} on {place}{block_text(deed.k)}"
    lines = [root.event.line, end, line, *(event.line for event in made[-1:])]
    return HangCause("skipped-arrive", what, lines, 97, fix, producer, (end, line, root.event.line))


def _skipped_before(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that went to its own wait with fewer arrivals than it used to have made by then."""
    if graph.log.head_missing:
        return None
    waits = graph.waits_of
    for edge in graph.edges[root.actor]:
        blocked = waits.get(edge.producer)
        if blocked is None:
            continue
        now = _before(graph, edge.producer, root, blocked)
        models = [w for w in graph.histories[edge.producer].on(blocked.place) if w is not blocked]
        models += [
            w for p in graph.peers(edge.producer) for w in graph.histories[p].on(blocked.place)
            if w.ordinal == blocked.ordinal
        ]  # fmt: skip
        for model in models:
            usual = _before(graph, model.actor, root, model) + blocked.ordinal - model.ordinal
            if now < usual:
                made = graph.histories[edge.producer].arrivals(root.place)
                what = (
                    f"an arrival was left out: {edge.producer} went on to wait on "
                    f"{copy(graph, blocked)} without arrival {now + 1} on {copy(graph, root)}, which "
                    f"{model.actor} made before its wait at "
                    f"line {model.event.line}"
                )
                fix = (
                    f"{edge.producer}: arrive on {barrier_text(graph, root)} before the wait on "
                    f"{copy(graph, blocked)}"
                )
                lines = [root.event.line, blocked.event.line, *(event.line for event in made[-1:])]
                return HangCause(
                    "skipped-arrive",
                    what,
                    lines,
                    84,
                    fix,
                    edge.producer,
                    (blocked.event.line, root.event.line),
                )
    return None


def _before(graph: WaitGraph, producer: Actor, root: Wait, wait: Wait) -> int:
    return sum(event.line < wait.event.line for event in graph.histories[producer].arrivals(root.place))
