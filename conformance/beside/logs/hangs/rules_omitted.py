"""Rules about an omitted arrival, by the order of its producer's steps in other k-blocks."""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.beside.logs.hangs.accounts.of_graph import copy_of
from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    barrier_text,
    block_text,
    copy,
)
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.beside.logs.hangs.log import OWN, Actor, LogEvent

_Token = tuple[str, str]  # "wait" or "arrive", barrier


def skipped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that continued past the point where it makes this arrival in its other k-blocks."""
    for edge in graph.edges[root.actor]:
        found = _omitted(graph, root, edge.producer)
        if found is not None:
            return found
    return _in_another_place(graph, root) or _unlike_twin(graph, root) or _skipped_before(graph, root)


def _in_another_place(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An actor's only arrival on the root's barrier, made where it arrives on another one otherwise."""
    known = graph.arrivers(root)
    for actor in sorted(known):
        arrivals = graph.histories[actor].arrivals_on(root.event.barrier)
        others = [item for item in known if item.role != actor.role]
        if (
            len(arrivals) != 1
            or max((len(graph.histories[o].arrivals_on(root.event.barrier)) for o in others), default=0) < 2
        ):
            continue
        steps = graph.histories[actor].tokens
        at = next(at for at, (_, step) in enumerate(steps) if step is arrivals[0])
        if not at:
            continue
        usual = Counter(
            steps[place + 1][0] for place in range(len(steps) - 1)
            if steps[place][0] == steps[at - 1][0] and place + 1 != at
        )  # fmt: skip
        if len(usual) != 1 or next(iter(usual))[0] != "arrive":
            continue
        name, instead = graph.log.name(next(iter(usual))[1]), barrier_text(graph, root)
        odd = arrivals[0]
        what = (
            f"an arrival went to another barrier: {actor} arrived on {instead}{block_text(odd.k)} where it "
            f"arrives on {name} in its other k-blocks, so {instead} completed one phase too many"
        )
        fix = f"{actor}: arrive on {name}{block_text(odd.k)}, not on {instead}"
        return HangCause(
            "wrong-barrier", what, [root.event.line, odd.line], 98, fix, actor, (odd.line, root.event.line)
        )
    return None


def _unlike_twin(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that made the same steps as its role in another CTA, which went on with this arrival."""
    if graph.log.head_missing:
        return None
    arrival = "arrive", root.event.barrier
    for edge in graph.edges[root.actor]:
        steps = _without_memory(graph.histories[edge.producer])
        mine = [token for token, _ in steps]
        for twin in graph.peers(edge.producer):
            its = [token for token, _ in _without_memory(graph.histories[twin])]
            at = its.index(arrival) if arrival in its else 0
            if at and arrival not in mine and len(mine) > at and mine[:at] == its[:at]:
                return _skip_cause(graph, root, edge.producer, steps[at - 1][1], steps[at][1], None)
    return None


def _without_memory(history: History) -> list[tuple[_Token, Wait | LogEvent]]:
    """An actor's steps but those for Tensor Memory, which one CTA may allocate for both."""
    events = [(step.event if isinstance(step, Wait) else step) for _, step in history.tokens]
    return [item for item, event in zip(history.tokens, events, strict=True) if event.scope != "tmem"]


def _omitted(graph: WaitGraph, root: Wait, producer: Actor) -> HangCause | None:
    history = graph.histories[producer]
    around = _surroundings(graph, root, producer)
    if not around:
        return None
    steps = history.tokens
    firsts = {before for before, _ in around}
    usual = _usual_next(graph, producer)
    always = _always_before(graph, root, producer)
    nexts = {after for _, after in around}
    wanted = wanted_k(graph, root, history)
    made = [
        at
        for at, (_, step) in enumerate(steps)
        if isinstance(step, LogEvent) and _at(step) == root.place._replace(owner=OWN)
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
        later = any(token == ("arrive", root.event.barrier) for token, _ in steps[at + 1 :])
        if before[0] in always and later:  # otherwise it may do so after the wait in which it is
            natural = isinstance(after[1], Wait) or after[0] in nexts or after[1].scope != "mbarrier"
            natural = natural or (None not in (wanted, _k_of(after[1])) and _k_of(after[1]) != wanted)
            if natural:  # an arrival on a barrier of threads or of the cluster replaces none on an mbarrier
                return _skip_cause(graph, root, producer, before[1], after[1], None)
            return _skip_cause(graph, root, producer, before[1], None, after[1])  # type: ignore[arg-type]
        if isinstance(after[1], LogEvent) and (before[0], after[0]) not in usual:
            follows = steps[at + 1][0] if at + 1 < len(steps) else None
            if after[1].scope == "mbarrier" and (follows is None or (before[0], follows) in around):
                return _skip_cause(graph, root, producer, before[1], None, after[1])
    return None


def waited_for(graph: WaitGraph, arrival: LogEvent) -> bool:
    """Whether each arrival on the place of this one let a wait there end, so that none is one too many."""
    unused = graph.accounts.ledger.unused(copy_of(graph.log, arrival))
    return unused is not None and unused <= 0


def _at(event: LogEvent) -> Place:
    return Place(event.barrier, event.stage)


def _surroundings(
    graph: WaitGraph, root: Wait, producer: Actor
) -> dict[tuple[_Token, _Token | None], set[int | None]]:
    """(step before, step after) of each arrival on the barrier by the producer's role: k of the step before,
    less that of the arrival (None: unknown).
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


def _always_before(graph: WaitGraph, root: Wait, producer: Actor) -> set[_Token]:
    """The steps that the producer's role follows with this arrival every time, twice at least, but once."""
    follows: dict[_Token, Counter[bool]] = {}
    for actor in [producer, *graph.peers(producer)]:
        steps = graph.histories[actor].tokens
        for at in range(len(steps) - 1):
            follows.setdefault(steps[at][0], Counter())[
                steps[at + 1][0] == ("arrive", root.event.barrier)
            ] += 1
    return {token for token, count in follows.items() if count[True] > 1 and count[False] == 1}


def _k_of(step: Wait | LogEvent) -> int | None:
    return (step.event if isinstance(step, Wait) else step).k


def _usual_next(graph: WaitGraph, producer: Actor) -> set[tuple[_Token, _Token]]:
    """Pairs of steps that follow each other more than once, or in another CTA."""
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
    """Whether `before` may belong to the k-block whose arrival the root needs."""
    k = _k_of(before[1])
    apart = {item for (first, _), some in around.items() if first == before[0] for item in some}
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
    action = before.event if isinstance(before, Wait) else before
    end = before.end if isinstance(before, Wait) else before.line
    place = graph.log.name(action.barrier) + (f"[{action.stage}]" if action.stage is not None else "")
    did, at = ("passed", "wait") if isinstance(before, Wait) else ("arrived on", "arrival")
    if instead is not None and waited_for(graph, instead):
        after, instead = instead, None
    if instead is not None:
        name = graph.log.name(instead.barrier)
        what = (
            f"an arrival went to another barrier: {producer} arrived on {name}{block_text(instead.k)} "
            f"where it arrives on {barrier_text(graph, root)} in its other k-blocks"
        )
        fix = f"{producer}: arrive on {barrier_text(graph, root)}{block_text(instead.k)}, not on {name}"
        lines = [root.event.line, instead.line, *(event.line for event in made[-1:])]
        return HangCause(
            "wrong-barrier", what, lines, 99, fix, producer, (end, instead.line, root.event.line)
        )
    assert after is not None
    line = (after.event if isinstance(after, Wait) else after).line
    what = (
        f"an arrival is missing: {producer} {did} {place}{block_text(action.k)} and continued (line "
        f"{line}) without the arrival on {copy(graph, root)} that its role makes there"
    )
    fix = f"{producer}: arrive on {barrier_text(graph, root)} after the {at} on {place}{block_text(action.k)}"
    lines = [root.event.line, end, line, *(event.line for event in made[-1:])]
    return HangCause("skipped-arrive", what, lines, 97, fix, producer, (end, line, root.event.line))


def _skipped_before(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that reached its own wait with fewer arrivals than in its other k-blocks."""
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
                    f"an arrival is missing: {edge.producer} continued to its wait on "
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
