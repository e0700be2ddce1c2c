"""Who waits for whom: what each actor of a log waits for at the end, and whose arrivals that wait lacks.

The n-th wait of an actor on a barrier needs the n-th arrival of each of the barrier's producers in its
cluster (one less when the first wait is for the phase before the first, parity 1 on a fresh mbarrier, which
passes at once: PTX ISA, mbarrier.test_wait). Line order between actors is not trusted: printf keeps it per
thread.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tileproof.conformance.logs.hangs.log import Actor, Log, LogEvent
from tileproof.spec.plan import Barrier, KernelPlan

LATE = 8  # lines by which the order of two actors' lines may be wrong
Place = tuple[str, int | None]  # barrier, stage


@dataclass
class Wait:
    """One wait of an actor; `ordinal` counts its waits on this barrier and stage from 0."""

    event: LogEvent
    ordinal: int
    done: LogEvent | None = None
    moved_on: int = 0  # line at which the actor went on without a done line

    @property
    def actor(self) -> Actor:
        return self.event.actor

    @property
    def place(self) -> Place:
        return self.event.barrier, self.event.stage

    @property
    def passed(self) -> bool:
        return self.done is not None or self.moved_on > 0


@dataclass
class History:
    """What one actor did, in its own order."""

    actor: Actor
    waits: list[Wait] = field(default_factory=list)
    arrives: dict[Place, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    dones: dict[Place, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    _by_place: dict[Place, list[Wait]] = field(default_factory=lambda: defaultdict(list))
    last_line: int = 0
    last_k: int | None = None

    @property
    def blocked(self) -> Wait | None:
        """The wait that it is in, if any."""
        return self.waits[-1] if self.waits and not self.waits[-1].passed else None

    def on(self, place: Place) -> list[Wait]:
        """Its waits on a barrier's stage."""
        return self._by_place.get(place, [])

    def add(self, wait: Wait) -> None:
        """Appends a wait."""
        self.waits.append(wait)
        self._by_place[wait.place].append(wait)


@dataclass(frozen=True)
class LogEdge:
    """`waiter` lacks arrival `need` (from 1) of `producer`, who made `made` and is itself blocked or not."""

    waiter: Actor
    producer: Actor
    made: int
    need: int


@dataclass
class WaitGraph:
    """Histories, the blocked waits and what each lacks."""

    log: Log
    plan: KernelPlan | None
    histories: dict[Actor, History]
    says_done: bool
    says_wait: bool
    blocked: list[Wait] = field(default_factory=list)
    edges: dict[Actor, list[LogEdge]] = field(default_factory=dict)
    producers: dict[tuple[int, str], set[Actor]] = field(default_factory=dict)
    roots: list[Wait] = field(default_factory=list)
    cycle: list[Actor] = field(default_factory=list)
    dependents: dict[Actor, set[Actor]] = field(default_factory=dict)
    _free: dict[tuple[int, Place], int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """ "hang", "no hang seen", or "unclear" when the log prints one side of its waits only."""
        if not self.blocked:
            return "no hang seen" if self.says_wait else "unclear"
        return "hang" if self.says_done or self.edges_between else "unclear"

    @property
    def edges_between(self) -> bool:
        """Whether some blocked wait lacks an arrival."""
        return any(self.edges.values())

    def free_first(self, group: int, place: Place) -> int:
        """1 when the first wait on `place` needs no arrival, because it is for the phase before the first."""
        if (group, place) not in self._free:
            self._free[group, place] = self._free_first(group, place)
        return self._free[group, place]

    def _free_first(self, group: int, place: Place) -> int:
        mine = [h for a, h in self.histories.items() if a.group == group]
        firsts = [
            waits[0].event.phase for h in mine if (waits := h.on(place)) and waits[0].event.phase is not None
        ]
        if firsts:
            return int(sum(phase == 1 for phase in firsts) > len(firsts) / 2)
        # Without phases: more waits passed than arrivals were made, on this stage or another of the barrier.
        for stage in {one for h in mine for barrier, one in h.arrives if barrier == place[0]}:
            at = place[0], stage
            made = max((len(h.arrives[at]) for h in mine if at in h.arrives), default=0)
            if made and max(sum(wait.passed for wait in h.on(at)) for h in mine) > made:
                return 1
        return 0

    def need(self, wait: Wait) -> int:
        """How many arrivals of each producer `wait` needs."""
        return wait.ordinal + 1 - self.free_first(wait.actor.group, wait.place)

    def made(self, actor: Actor, place: Place) -> int:
        """How often `actor` arrived on `place`."""
        return len(self.histories[actor].arrives[place]) if actor in self.histories else 0

    def peers(self, actor: Actor) -> list[Actor]:
        """The same role in the cluster's other CTAs."""
        return [a for a in self.histories if (a.group, a.role) == (actor.group, actor.role) and a != actor]

    def leads(self, actor: Actor) -> bool:
        """Whether the role logs barriers in this CTA only, while others of the cluster do so in several."""
        busy = {a.cta for a, h in self.histories.items() if a.group == actor.group and _busy(h)}
        own = {a.cta for a in [actor, *self.peers(actor)] if _busy(self.histories[a])}
        return len(busy) > 1 and own == {actor.cta}


def _busy(history: History) -> bool:
    return bool(history.waits or any(history.arrives.values()))


def build(log: Log, plan: KernelPlan | None = None) -> WaitGraph:
    """The graph of a log; with a plan, its producers are known even where none logged an arrival."""
    says_done = {(e.actor.role, e.barrier) for e in log.events if e.kind == "done"}
    histories = _histories(log, says_done)
    says_wait = any(event.kind == "wait" for event in log.events)
    graph = WaitGraph(log, plan, histories, bool(says_done), says_wait)
    graph.blocked = [wait for history in histories.values() if (wait := history.blocked)]
    for event in log.events:
        if event.kind == "arrive":
            graph.producers.setdefault((event.actor.group, event.barrier), set()).add(event.actor)
    if plan is not None:
        _add_plan_producers(graph, plan)
    for wait in graph.blocked:
        graph.edges[wait.actor] = _lacking(graph, wait)
    _find_roots(graph)
    return graph


def _histories(log: Log, says_done: set[tuple[str, str]]) -> dict[Actor, History]:
    histories: dict[Actor, History] = {}
    counts: dict[tuple[Actor, Place], int] = defaultdict(int)
    before: dict[Actor, LogEvent] = {}
    steps: list[tuple[int, Actor, LogEvent | None, int | None]] = [
        *((event.line, event.actor, event, event.k) for event in log.events),
        *((line, actor, None, k) for line, actor, k in log.notes if actor.role),
    ]
    steps.sort(key=lambda step: step[0])
    for line, actor, event, k in steps:
        history = histories.setdefault(actor, History(actor))
        history.last_line, history.last_k = line, k if k is not None else history.last_k
        open_wait = history.blocked
        if event is None:
            if open_wait and (actor.role, open_wait.event.barrier) not in says_done:
                open_wait.moved_on = line
            continue
        if event.kind == "wait":
            if open_wait and _same(open_wait.event, event, says_done):
                continue
            if open_wait:
                open_wait.moved_on = line
            place = event.barrier, event.stage
            history.add(Wait(event, counts[actor, place]))
            counts[actor, place] += 1
        elif event.kind == "done":
            _done(history, open_wait, event, counts)
        else:
            if open_wait:
                open_wait.moved_on = line
            # A warp whose lanes all print says one arrival many times.
            last = before.get(actor)
            if last is None or (last.kind, last.barrier, last.stage, last.k, last.phase) != (
                "arrive", event.barrier, event.stage, event.k, event.phase
            ) or event.k is None:  # fmt: skip
                history.arrives[event.barrier, event.stage].append(event)
        before[actor] = event
    return histories


def _same(first: LogEvent, again: LogEvent, says_done: set[tuple[str, str]]) -> bool:
    """Whether `again` is the same wait said once more, as spinning loops do."""
    if (first.barrier, first.stage, first.k, first.phase) != (
        again.barrier,
        again.stage,
        again.k,
        again.phase,
    ):
        return False
    return first.k is not None or first.phase is not None or (first.actor.role, first.barrier) in says_done


def _done(
    history: History, open_wait: Wait | None, event: LogEvent, counts: dict[tuple[Actor, Place], int]
) -> None:
    place = event.barrier, event.stage
    history.dones[place].append(event)
    if open_wait and open_wait.place == place:
        open_wait.done = event
        return
    if open_wait:
        open_wait.moved_on = event.line
    # Passed without a line before the wait.
    repeated = history.waits and history.waits[-1].done and history.waits[-1].done.k == event.k
    if repeated and history.waits[-1].place == place and event.k is not None:
        return
    history.add(Wait(event, counts[history.actor, place], done=event))
    counts[history.actor, place] += 1


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
        found = {a for a in graph.histories if a.group == wait.actor.group and plan_role(plan, a) in roles}
        if found:
            graph.producers[key] = found


def _lacking(graph: WaitGraph, wait: Wait) -> list[LogEdge]:
    """The producers whose arrival this wait lacks: those of its CTA first, others when those have arrived."""
    need = graph.need(wait)
    found = graph.producers.get((wait.actor.group, wait.event.barrier), set())
    late = {a for a in found if graph.made(a, wait.place) < need}
    own = {a for a in late if a.cta == wait.actor.cta}
    both = graph.leads(wait.actor) or _plan_says_both(graph, wait)
    if own and not both:
        late = own
    else:
        late -= {a for a in late - own if not both and _not_needed(graph, wait, a)}
    return [LogEdge(wait.actor, a, graph.made(a, wait.place), need) for a in sorted(late)]


def _plan_says_both(graph: WaitGraph, wait: Wait) -> bool:
    if graph.plan is None:
        return False
    said = [b.producers for b in graph.plan.barriers if b.name.replace("_", "").lower() == wait.event.barrier]
    return any("each CTA" in one or "both CTAs" in one for one in said)


def _not_needed(graph: WaitGraph, wait: Wait, producer: Actor) -> bool:
    """Whether the waiter once passed this barrier clearly before that arrival of `producer`."""
    arrivals = graph.histories[producer].arrives[wait.place]
    for earlier in graph.histories[wait.actor].on(wait.place):
        count = graph.need(earlier)
        if earlier.done is None or count < 1:
            continue
        if len(arrivals) < count or arrivals[count - 1].line > earlier.done.line + LATE:
            return True
    return False


def _find_roots(graph: WaitGraph) -> None:
    """Blocked actors that depend on no other, or on each other in a cycle; most dependents first."""
    blocked = {wait.actor: wait for wait in graph.blocked}
    reach = {actor: _reach(graph, actor, set(blocked)) for actor in blocked}
    graph.dependents = {a: {b for b in blocked if a in reach[b] and b != a} for a in blocked}
    sinks = [a for a in blocked if all(a in reach[b] for b in reach[a])]

    def rank(actor: Actor) -> tuple[int, bool, int, int]:
        wait = blocked[actor].event
        # Who would have arrived is unknown, so this wait may be behind another one.
        unknown = (actor.group, wait.barrier) not in graph.producers
        return -len(graph.dependents[actor]), unknown, wait.k if wait.k is not None else 0, wait.line

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
