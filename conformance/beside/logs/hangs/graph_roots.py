"""The roots of a wait-for graph: the waits that depend on no other, or a cycle."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.log import Actor


def find_roots(graph: WaitGraph) -> None:
    """Blocked actors that depend on no other, or on each other in a cycle; most dependents first."""
    blocked = graph.waits_of
    reach = {actor: _reach(graph, actor, set(blocked)) for actor in blocked}
    graph.dependents = {actor: set() for actor in blocked}
    for actor, others in reach.items():
        for other in others - {actor}:
            graph.dependents[other].add(actor)
    sinks = [a for a in blocked if all(a in reach[b] for b in reach[a])]

    def rank(actor: Actor) -> tuple[int, int, bool, int, int]:
        wait = blocked[actor].event
        # The missing producer is unknown, so this wait may depend on another.
        unknown = (actor.group, wait.barrier) not in graph.producers
        # In a cycle, it is the allocation that should not depend on others.
        held = wait.scope == "tmem" and actor in reach[actor]
        return (
            not held,
            -len(graph.dependents[actor]),
            unknown,
            wait.k if wait.k is not None else 0,
            wait.line,
        )

    sinks.sort(key=rank)
    graph.roots = [blocked[a] for a in sinks]
    if sinks and sinks[0] in reach[sinks[0]]:
        graph.cycle = _cycle(graph, sinks[0], reach)


def _reach(graph: WaitGraph, start: Actor, blocked: set[Actor]) -> set[Actor]:
    seen: set[Actor] = set()
    todo = [start]
    while todo:
        for edge in graph.edges.get(todo.pop(), ()):
            if edge.producer in blocked and edge.producer not in seen:
                seen.add(edge.producer)
                todo.append(edge.producer)
    return seen


def _cycle(graph: WaitGraph, start: Actor, reach: dict[Actor, set[Actor]]) -> list[Actor]:
    """A shortest cycle through `start`."""
    paths = [[start]]
    seen: set[Actor] = set()
    while paths:
        path = paths.pop(0)
        for edge in graph.edges.get(path[-1], ()):
            if edge.producer == start:
                return path
            if edge.producer in reach and start in reach[edge.producer] and edge.producer not in seen:
                seen.add(edge.producer)
                paths.append([*path, edge.producer])
    return []
