"""The cause of a hang, and texts that all rules share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.conformance.beside.logs.hangs.graph import LogEdge, WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Wait
from tileproof.conformance.beside.logs.hangs.log import Actor, LogEvent, cta_text
from tileproof.conformance.beside.logs.hangs.words import key_of

_ENDS = re.compile(
    r"\b(?:exit\w*|finish\w*|end|ended|ends|leav\w+|left|return\w*|complete\w*|done)\b", re.IGNORECASE
)


_WAITS = re.compile(r"wait|phase|parity|barrier|mbar", re.IGNORECASE)  # what ended is perhaps a wait


@dataclass
class HangCause:
    """`code` for machines, `what` in words, `lines`: the log lines that support it.

    `weight` orders causes; it is not a probability. `fix`: what to change, on one line. `culprit`: the actor
    that should have acted, None if there is none. `show`: the two or three lines that show the cause best.
    """

    code: str
    what: str
    lines: list[int]
    weight: int
    fix: str = ""
    culprit: Actor | None = None
    show: tuple[int, ...] = ()
    copies: str = ""  # where the same hang is seen too
    also: list[str] = field(default_factory=list)


def copy(graph: WaitGraph, wait: Wait) -> str:
    """The CTA's copy of the barrier that a wait tests, in words."""
    where = f" in {cta_text(wait.cta)}" if wait.cta >= 0 and wait.event.scope != "cluster" else ""
    return barrier_text(graph, wait) + where


def barrier_text(graph: WaitGraph, wait: Wait) -> str:
    """The barrier of a wait, with its stage."""
    name, stage = graph.log.name(wait.event.barrier), wait.event.stage
    return name + (f"[{stage}]" if stage is not None else "")


def block_text(k: int | None) -> str:
    """ " (k-block 3)", empty when it is not known."""
    return f" (k-block {k})" if k is not None else ""


def producers(graph: WaitGraph, wait: Wait) -> list[Actor]:
    """The actors that arrive on the barrier that a wait tests, as far as the log shows."""
    return sorted(graph.arrivers(wait))


def arrival(graph: WaitGraph, actor: Actor, wait: Wait) -> LogEvent | None:
    """The arrival of `actor` that `wait` needs, or its last arrival."""
    history = graph.histories[actor]
    by_k = graph.rounds.arrival(wait, history)
    if by_k is not None:
        return by_k
    if graph.rounds.before_the_log(wait, history):
        return None
    arrives = history.arrivals(wait.place)
    at = graph.need(wait) - 1
    return (
        arrives[at]
        if 0 <= at < len(arrives) and not graph.log.head_missing
        else arrives[-1]
        if arrives
        else None
    )


def arrivals(graph: WaitGraph, wait: Wait) -> list[LogEvent]:
    """The arrivals that `wait` needs and that were made."""
    found = (arrival(graph, actor, wait) for actor in producers(graph, wait))
    return [event for event in found if event is not None]


def satisfied(graph: WaitGraph, wait: Wait) -> bool:
    """Whether every arrival that the log leads to expect was made."""
    return bool(arrivals(graph, wait) or before_the_log(graph, wait)) and not graph.edges[wait.actor]


def before_the_log(graph: WaitGraph, wait: Wait) -> list[LogEvent]:
    """The first logged arrival of each producer whose needed arrival would be in the missing head."""
    return [
        graph.histories[actor].arrivals_on(wait.event.barrier)[0]
        for actor in producers(graph, wait)
        if graph.rounds.before_the_log(wait, graph.histories[actor])
    ]


@dataclass(frozen=True)
class BarrierState:
    """Counts for one copy of a barrier: arrivals made, arrivals per phase, bytes announced and copied."""

    arrivals: int
    count: int
    announced: int
    copied: int

    def __str__(self) -> str:
        phases, rest = divmod(self.arrivals, self.count)
        each = f"{self.count} arrival{'s' if self.count > 1 else ''} a phase, {self.arrivals} arrived"
        told = f"{each}: {phases} phases" + (f" and {rest} of {self.count} for the next" if rest else "")
        if self.announced or self.copied:
            told += f"; {self.announced} bytes were announced, {self.copied} copied"
        return told


def state(graph: WaitGraph, wait: Wait) -> BarrierState | None:
    """The state of the copy that `wait` tests; None unless the log shows it exactly."""
    log, cta = graph.log, wait.cta
    barrier, stage = wait.event.barrier, wait.event.stage
    count = log.counts.get((wait.actor.group, cta, barrier, -1 if stage is None else stage), 0)
    if not log.exact or not count or not 0 <= cta < 32:
        return None
    here = [event for event in log.events if event.barrier == barrier and event.stage == stage]
    here = [event for event in here if event.actor.group == wait.actor.group and event.to >> cta & 1]
    made = [event for event in here if event.kind == "arrive"]
    copies = [event for event in here if event.kind == "copy"]
    return BarrierState(
        sum(event.count for event in made),
        count,
        sum(event.size for event in made),
        sum(event.size for event in copies),
    )


def same_round(graph: WaitGraph, wait: Wait, other: Wait) -> bool:
    """Whether two actors' waits are for the same phase."""
    told = wait.event.k is not None and other.event.k is not None
    both = (wait.actor, other.actor)
    if told and all(graph.rounds.rises(graph.histories[actor], wait.place) for actor in both):
        return wait.event.k == other.event.k
    if not graph.log.head_missing:
        return wait.ordinal == other.ordinal
    if told:
        return wait.event.k == other.event.k
    mine = graph.histories[wait.actor].on(wait.place)
    theirs = graph.histories[other.actor].on(other.place)
    # The log may begin in the middle: count from the end.
    return wait.event.phase == other.event.phase and len(mine) - mine.index(wait) == len(
        theirs
    ) - theirs.index(other)


def passed_elsewhere(graph: WaitGraph, wait: Wait) -> list[Wait]:
    """The same wait in other CTAs of the cluster where it ended; preferably waits of the same role."""
    found = [
        other
        for history in graph.groups[wait.actor.group]
        if history.actor.cta != wait.actor.cta
        for other in history.on(wait.place)
        if other.passed and same_round(graph, wait, other)
    ]
    return [other for other in found if other.actor.role == wait.actor.role] or found


def went_on_elsewhere(graph: WaitGraph, wait: Wait) -> list[Wait]:
    """As `passed_elsewhere`, and waits whose successor on the same place shows that they ended."""
    found = passed_elsewhere(graph, wait)
    if found or wait.event.k is None:
        return found
    return [
        other
        for peer in graph.peers(wait.actor)
        for other in graph.histories[peer].on(wait.place)
        if other.event.k is not None and other.event.k > wait.event.k
    ][:1]


def ended(graph: WaitGraph, edge: LogEdge) -> bool:
    """Whether the producer's last line reports that it finished."""
    return ended_by(graph, graph.histories[edge.producer])


def ended_by(graph: WaitGraph, history: History) -> bool:
    """Whether an actor's last line reports that it finished."""
    last = history.last_line
    text = graph.log.lines[last - 1]
    if last not in graph.note_lines or not _ENDS.search(text) or _WAITS.search(text):
        return False
    return not any(key_of(word) in graph.log.names for word in re.findall(r"[^\W\d]\w*", text))


def idle(graph: WaitGraph, root: Wait) -> LogEdge | None:
    """The producer of a missing arrival that is in no wait; a producer that finished takes precedence."""
    found = [edge for edge in graph.edges[root.actor] if edge.producer not in graph.waits_of]
    found.sort(key=lambda edge: not ended(graph, edge))
    return found[0] if found else None
