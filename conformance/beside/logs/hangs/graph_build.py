"""Builds the wait-for graph of a log: producers of each barrier, and the arrivals that each wait lacks."""

from __future__ import annotations

from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.graph import LATE, LogEdge, WaitGraph
from tileproof.conformance.beside.logs.hangs.graph_roots import find_roots
from tileproof.conformance.beside.logs.hangs.histories import Wait, histories_of
from tileproof.conformance.beside.logs.hangs.log import Actor, Log
from tileproof.spec.plan import Barrier, KernelPlan


def build(log: Log, plan: KernelPlan | None = None) -> WaitGraph:
    """The graph of a log; with a plan, its producers are known even where none logged an arrival."""
    says_done = {(e.actor.role, e.barrier) for e in log.events if e.kind == "done"}
    histories = histories_of(log, says_done)
    says_wait = any(event.kind == "wait" for event in log.events)
    graph = WaitGraph(log, plan, histories, bool(says_done), says_wait)
    graph.blocked = [wait for history in histories.values() if (wait := history.blocked)]
    for event in log.events:
        if event.kind == "arrive":
            graph.producers.setdefault((event.actor.group, event.barrier), set()).add(event.actor)
    if plan is not None:
        _add_plan_producers(graph, plan)
    if not log.head_missing and not _dumped(log) and _passed_for_nothing(graph):
        log.head_missing = True
        log.remarks.append(
            "lines are missing at the beginning (a wait ended before any arrival that it needed): the "
            "diagnosis uses the last known states, not phase counts"
        )
    for wait in graph.blocked:
        graph.edges[wait.actor] = _lacking(graph, wait)
    find_roots(graph)
    return graph


def _dumped(log: Log) -> bool:
    """Whether a log lists actor after actor: lines have no order between actors."""
    actors = [event.actor for event in sorted(log.events, key=lambda event: event.line)]
    changes = sum(before != after for before, after in pairwise(actors))
    return changes + 1 == len({*actors}) > 1


def _passed_for_nothing(graph: WaitGraph) -> bool:
    """Whether the first wait on some barrier, which needs an arrival, ended before its producers made any."""
    for history in graph.histories.values():
        for place in history.places():
            first = history.on(place)[0]
            known = graph.producers.get((history.actor.group, place[0]), set())
            made = [event for actor in known for event in graph.histories[actor].arrivals(place)]
            if first.done is None or first.event.phase == 1 or not made or graph.need(first) < 1:
                continue
            if min(event.line for event in made) > first.done.line + LATE // 2:
                return True
    return False


def plan_role(plan: KernelPlan, actor: Actor) -> str:
    """The plan's role of an actor that the log calls by its name, warpgroup or warp; "" when none."""
    words = actor.role.lower().split()
    for role in plan.roles:
        if role.name.lower() == actor.role.lower():
            return role.name
    number = int(words[-1]) if words[0] == "warp" and words[-1].isdigit() else -1
    if words[0].startswith("wg") and words[0][2:].isdigit():
        number = int(words[-1]) if len(words) == 3 else 4 * int(words[0][2:])
    for role in plan.roles:
        if role.first_warp <= number < role.first_warp + role.warps:
            return role.name
    return ""


def _plan_producers(plan: KernelPlan, barrier: Barrier) -> list[str]:
    said = barrier.producers
    named = [role.name for role in plan.roles if role.name in said.replace(",", " ").split()]
    if named or not any(word in said for word in ("TMA", "gather4")):
        return named
    return [role.name for role in plan.roles if any(word in role.does for word in ("TMA", "gather"))][:1]


def _add_plan_producers(graph: WaitGraph, plan: KernelPlan) -> None:
    names = {barrier.name.replace("_", "").lower(): barrier for barrier in plan.barriers}
    for wait in graph.blocked:
        barrier = names.get(wait.event.barrier)
        key = wait.actor.group, wait.event.barrier
        if barrier is None or key in graph.producers:
            continue
        roles = _plan_producers(plan, barrier)
        found = {h.actor for h in graph.groups[wait.actor.group] if plan_role(plan, h.actor) in roles}
        if found:
            graph.producers[key] = found


def _lacking(graph: WaitGraph, wait: Wait) -> list[LogEdge]:
    """The producers whose arrival this wait lacks: its own CTA's first, others if all of those arrived."""
    if wait.event.scope == "tmem":
        return [LogEdge(wait.actor, holder.actor, 0, 1) for holder in graph.holders(wait)]
    if wait.event.scope != "mbarrier":
        need = wait.ordinal + 1
        made = {
            participant: len(graph.histories[participant].arrivals_on(wait.event.barrier))
            for participant in graph.participants(wait)
        }
        return [LogEdge(wait.actor, actor, made[actor], need) for actor in sorted(made) if made[actor] < need]
    late = {actor for actor in graph.producers_of(wait) if graph.lacks(wait, actor)}
    own = {actor for actor in late if actor.cta == wait.actor.cta}
    both = graph.leads(wait.actor) or _plan_says_both(graph, wait)
    if own and not both:
        needless = {
            actor
            for actor in own
            if not graph.histories[actor].arrivals_on(wait.event.barrier) and _not_needed(graph, wait, actor)
        }
        late = own - needless or late - needless
    else:
        late -= {actor for actor in late - own if not both and _not_needed(graph, wait, actor)}
    return [_edge(graph, wait, actor) for actor in sorted(late)]


def _edge(graph: WaitGraph, wait: Wait, producer: Actor) -> LogEdge:
    made = graph.made(producer, wait.place)
    need = graph.need(wait)
    return LogEdge(wait.actor, producer, made, need if need > made else made + 1)


def _plan_says_both(graph: WaitGraph, wait: Wait) -> bool:
    if graph.plan is None:
        return False
    said = [b.producers for b in graph.plan.barriers if b.name.replace("_", "").lower() == wait.event.barrier]
    return any("each CTA" in sentence or "both CTAs" in sentence for sentence in said)


def _not_needed(graph: WaitGraph, wait: Wait, producer: Actor) -> bool:
    """Whether the waiter once passed this barrier clearly before that arrival of `producer`."""
    passed = any(event.passed for event in graph.histories[wait.actor].on(wait.place))
    if graph.log.head_missing and not passed and producer.cta != wait.actor.cta:
        return True
    arrivals = graph.histories[producer].arrivals(wait.place)
    for earlier in graph.histories[wait.actor].on(wait.place):
        if earlier.done is None or graph.rounds.needs_none(earlier, graph.histories[producer]):
            continue
        by_k = graph.rounds.arrival(earlier, graph.histories[producer])
        if by_k is not None:
            if by_k.line > earlier.done.line + LATE:
                return True
            continue
        count = graph.need(earlier)
        if count < 1 or graph.log.head_missing:
            continue
        if len(arrivals) < count or arrivals[count - 1].line > earlier.done.line + LATE:
            return True
    return False
