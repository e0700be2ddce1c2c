"""Rules about a producer that owes an arrival: it stopped, left it out, made it elsewhere, or waits in a
cycle.
"""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.logs.hangs.cause import (
    HangCause,
    barrier_text,
    block_text,
    copy,
    ended,
    ended_by,
    idle,
    producers,
)
from tileproof.conformance.logs.hangs.graph import LogEdge, WaitGraph
from tileproof.conformance.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.logs.hangs.log import Actor, LogEvent


def wrong_stage(graph: WaitGraph, root: Wait) -> HangCause | None:
    """As many arrivals as waits, one of them on a stage that nobody waited for again."""
    barrier, stage = root.place
    if stage is None or not graph.edges[root.actor]:
        return None
    waits = [w for w in graph.histories[root.actor].waits if w.event.barrier == barrier]
    for edge in graph.edges[root.actor]:
        history = graph.histories[edge.producer]
        odd = _off_ring(graph, root, edge.producer)
        wanted = _wanted_k(graph, root, history)
        if odd is not None and (wanted is None or odd.k == wanted):
            return _stage_cause(graph, root, edge, odd, f"stage {odd.stage} where its turn is stage {stage}")
        arrives = history.arrivals_on(barrier)
        free = len({w.place for w in waits if graph.free_first(root.actor.group, w.place)})
        if len(arrives) < len(waits) - free or graph.log.head_missing:
            continue
        surplus = [
            e for e in arrives
            if history.arrivals((barrier, e.stage)).index(e)
            >= len(graph.histories[root.actor].on((barrier, e.stage)))
        ]  # fmt: skip
        if surplus and not _ahead(graph, root):
            told = f"stage {surplus[0].stage} once more than anyone waited for it"
            return _stage_cause(graph, root, edge, surplus[0], told)
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
    """The stages of the root's barrier, and what is done on it out of the ring's order, stage = k modulo
    stages.
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
    """The producer's arrival on the wrong stage, where all else on the barrier keeps the ring's order."""
    stages, off = _ring(graph, root)
    if stages < 2 or sum(len(h.arrivals_on(root.event.barrier)) for h in graph.groups[root.actor.group]) < 3:
        return None
    return off[0] if len(off) == 1 and off[0].kind == "arrive" and off[0].actor == producer else None


def _ahead(graph: WaitGraph, root: Wait) -> bool:
    """Whether all keep the ring's order: then more arrivals are the stages that a producer is ahead."""
    stages, off = _ring(graph, root)
    return stages > 1 and not off


def never_arrived(graph: WaitGraph, root: Wait) -> HangCause | None:
    """No line tells of an arrival on the barrier."""
    barrier = root.event.barrier
    if (root.actor.group, barrier) in graph.producers and any(
        graph.histories[actor].arrivals_on(barrier) for actor in graph.producers[root.actor.group, barrier]
    ):
        return None
    group = graph.groups[root.actor.group]
    own = _arrives_for_itself(graph, root)
    if own is not None:
        return own
    elsewhere = any(w.passed and w.event.barrier == barrier for h in group for w in h.waits)
    lines = [root.event.line]
    if graph.log.head_missing:
        what = (
            f"no line that is left tells of an arrival on {graph.log.name(barrier)}: it lies in the "
            f"missing head of the log, "
            "or nobody makes it"
        )
        fix = (
            f"print the whole log (a larger cudaLimitPrintfFifoSize), or look at who arrives on "
            f"{barrier_text(graph, root)}"
        )
        return HangCause("before-the-log", what, lines, 52, fix, None, (root.event.line,))
    what = f"no one ever arrives on {graph.log.name(barrier)}: no line of the log tells of an arrival on it"
    waited = {place[0] for h in group for place in h.places()}
    unheard = [
        event for h in group for place, some in h.arrives.items() if place[0] not in waited for event in some
    ]
    unheard.sort(key=lambda event: event.line)
    fix = f"have its producer arrive on {barrier_text(graph, root)}, or print that arrival"
    if unheard:
        names = ", ".join(dict.fromkeys(graph.log.name(event.barrier) for event in unheard))
        what += f"; perhaps another one is signalled instead: nobody waits for {names}"
        lines += list({event.barrier: event.line for event in unheard}.values())
        fix = f"arrive on {barrier_text(graph, root)} where {names} is signalled now"
    if elsewhere:
        what += " (it was passed before, so its arrivals may not be printed)"
    others = [w for w in graph.roots if w is not root and w.event.barrier != barrier and _unheard(graph, w)]
    others = [w for w in others if w.actor.group == root.actor.group]
    if others:
        told = "; ".join(dict.fromkeys(f"{w.actor} waits on {barrier_text(graph, w)}" for w in others))
        what += f"; nor on the barrier of others that wait ({told}), so they may wait for each other"
        lines += [w.event.line for w in others]
    show = (root.event.line, *(w.event.line for w in others[:1]), *(event.line for event in unheard[:1]))
    return HangCause("never-arrived", what, lines, 60 if elsewhere else 90, fix, None, show)


def _arrives_for_itself(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Someone arrives on the barrier that it then waits on, and nobody on the root's."""
    for wait in graph.blocked:
        history = graph.histories[wait.actor]
        own = history.arrivals(wait.place)
        others = graph.producers.get((wait.actor.group, wait.event.barrier), set()) - {wait.actor}
        if (
            wait.actor.group != root.actor.group
            or not own
            or wait is root
            or others & set(graph.peers(wait.actor))
        ):
            continue
        name, instead = barrier_text(graph, root), barrier_text(graph, wait)
        what = (
            f"an arrival went to another barrier: {wait.actor} arrives on {instead} and then waits on it "
            f"itself, and no "
            f"one ever arrives on {name}"
        )
        fix = f"{wait.actor}: arrive on {name}{block_text(own[-1].k)}, not on {instead}"
        lines = [own[-1].line, wait.event.line, root.event.line]
        return HangCause("wrong-barrier", what, lines, 98, fix, wait.actor, tuple(lines))
    return None


def _unheard(graph: WaitGraph, wait: Wait) -> bool:
    return (wait.actor.group, wait.event.barrier) not in graph.producers


def cycle(graph: WaitGraph, root: Wait) -> HangCause | None:
    """They wait for each other."""
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


# --- an arrival that was left out, by the order in which its producer does things in its other rounds

_Token = tuple[str, str]  # "wait" or "arrive", barrier


def _tokens(history: History) -> list[tuple[_Token, Wait | LogEvent]]:
    return history.tokens


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
    steps = _tokens(history)
    firsts = {before for before, _ in around}
    usual = _usual_next(graph, producer)
    wanted = _wanted_k(graph, root, history)
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
        steps = _tokens(graph.histories[actor])
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
        steps = _tokens(graph.histories[actor])
        weight = 1 if actor == producer else 2
        for at in range(len(steps) - 1):
            counts[steps[at][0], steps[at + 1][0]] += weight
    return {pair for pair, count in counts.items() if count > 1}


def _wanted_k(graph: WaitGraph, root: Wait, history: History) -> int | None:
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


# --- a producer that waits for nothing


def k_count(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The producer made fewer arrivals and waits for nothing: it said that it ended, or the other CTA's made
    more.
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
    weight = 93 if said else 40 if between else 86 if history.steps and _at_round_end(history) else 62
    return HangCause("k-count", what, lines, weight, fix, edge.producer, (history.last_line, root.event.line))


def _at_round_end(history: History) -> bool:
    """Whether the last thing it did is what it does at the end of each of its rounds."""
    steps = _tokens(history)
    last = steps[-1][0]
    nexts = Counter(steps[at + 1][0] for at in range(len(steps) - 1) if steps[at][0] == last)
    first = steps[0][0]
    return last[0] == "arrive" and (not nexts or set(nexts) == {first})


def _stopped_between(graph: WaitGraph, root: Wait, edge: LogEdge) -> bool:
    """Whether its last step is one after which it always made this arrival, or did something else, before."""
    history = graph.histories[edge.producer]
    return bool(history.steps) and isinstance(history.steps[-1], Wait)


def stopped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The producer owes an arrival and its last line tells of no wait."""
    edge = idle(graph, root)
    if edge is None:
        return _stopped_first(graph, root)
    history = graph.histories[edge.producer]
    what = (
        f"{edge.producer} stopped, or waits in a place that prints nothing: it owes arrival {edge.need} on "
        f"{copy(graph, root)}, and its last line tells of no wait"
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
    """Nobody arrived on the barrier yet, and a role stopped within its first round: it may be the one to do
    so.
    """
    if graph.edges[root.actor] or any(
        graph.histories[actor].arrivals_on(root.event.barrier) for actor in producers(graph, root)
    ):
        return None
    found = [history for history in graph.groups[root.actor.group] if stopped_midway(graph, history)]
    found = [one for one in found if one.actor.cta == root.actor.cta] or found
    if len({one.actor.role for one in found}) != 1:
        return None
    actor, last = found[0].actor, found[0].last_line
    what = (
        f"{actor} stopped, or waits in a place that prints nothing: it passed a wait (line {last}) and did "
        f"nothing more, "
        f"nobody else stopped, and nobody has arrived on {copy(graph, root)} yet"
    )
    fix = (
        f"look at what {actor} does after line {last}: the arrival on {barrier_text(graph, root)} is missing"
    )
    return HangCause(
        "producer-stopped", what, [root.event.line, last], 92, fix, actor, (last, root.event.line)
    )


def stopped_midway(graph: WaitGraph, history: History) -> bool:
    """Whether it waits for nothing, and the last that it did was to pass a wait which it follows by an
    arrival.

    In its other rounds, or in those of the role's other CTAs; where there are none, any passed wait is one.
    """
    if not history.steps or history.actor in graph.waits_of or not isinstance(history.steps[-1], Wait):
        return False
    if _said_end(graph, history):
        return False
    last = ("wait", history.steps[-1].event.barrier)
    follows = set()
    for actor in [history.actor, *graph.peers(history.actor)]:
        steps = _tokens(graph.histories[actor])
        follows |= {steps[at + 1][0][0] for at in range(len(steps) - 1) if steps[at][0] == last}
        if actor != history.actor and steps and steps[-1][0] == last and len(steps) >= len(history.steps):
            follows.add("end")
    return "end" not in follows


def owed_after(graph: WaitGraph, history: History) -> str | None:
    """The barrier on which an actor arrives next, in its other rounds, after the wait that it passed last."""
    last = _tokens(history)[-1][0]
    for actor in [history.actor, *graph.peers(history.actor)]:
        steps = _tokens(graph.histories[actor])
        for at in range(len(steps) - 1):
            if steps[at][0] == last and steps[at + 1][0][0] == "arrive":
                return steps[at + 1][0][1]
    return None


def _said_end(graph: WaitGraph, history: History) -> bool:
    return ended_by(graph, history)
