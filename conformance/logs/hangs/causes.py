"""The likeliest causes of a hang, each with the lines of the log that show it, most plausible first.

Each rule looks at one root: a blocked wait that no other blocked wait explains. A rule gives a weight, which
only orders the list; it is not a probability. The rules are what mbarriers can do wrong (PTX ISA, mbarrier):
an arrival on another CTA's copy, another stage or another barrier; one too few; bytes that never come; a wait
for the wrong parity or lapped by two phases; a producer that ended, or that waits for its own consumer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from tileproof.conformance.logs.hangs.graph import LogEdge, Wait, WaitGraph
from tileproof.conformance.logs.hangs.log import Actor, LogEvent

_ENDS = re.compile(
    r"\b(?:exit\w*|finish\w*|end|ended|ends|leav\w+|left|return\w*|complete\w*|done)\b", re.IGNORECASE
)


@dataclass
class HangCause:
    """`code` for machines, `what` in words, `lines` of the log that show it."""

    code: str
    what: str
    lines: list[int]
    weight: int
    also: list[str] = field(default_factory=list)


def causes(graph: WaitGraph) -> list[HangCause]:
    """Causes of the first root, most plausible first; other roots with the same cause are named with it."""
    if not graph.roots:
        return []
    if graph.cycle:
        # Any wait of a cycle could be called the root: the one with the most telling cause is.
        graph.roots.sort(key=lambda root: -of_wait(graph, root)[0].weight if root.actor in graph.cycle else 0)
    found = of_wait(graph, graph.roots[0])
    for other in graph.roots[1:]:
        if other.actor in graph.cycle:
            continue
        best = of_wait(graph, other)[0]
        for cause in found:
            if cause.code == best.code:
                cause.also.append(f"the same for {copy(graph, other)}: {best.what}")
                cause.lines = sorted({*cause.lines, *best.lines})
    return found


def of_wait(graph: WaitGraph, root: Wait) -> list[HangCause]:
    """Causes of one blocked wait."""
    found = [cause for rule in _RULES if (cause := rule(graph, root)) is not None]
    for cause in found:
        cause.lines = sorted(set(cause.lines))
    return sorted(found, key=lambda cause: -cause.weight)


def copy(graph: WaitGraph, wait: Wait) -> str:
    """The copy of the barrier that a wait is about."""
    name, (_, stage) = graph.log.name(wait.event.barrier), wait.place
    index = f"[{stage}]" if stage is not None else ""
    return f"{name}{index}" + (f" in CTA {wait.actor.cta}" if wait.actor.cta >= 0 else "")


def _producers(graph: WaitGraph, wait: Wait) -> list[Actor]:
    return sorted(graph.producers.get((wait.actor.group, wait.event.barrier), set()))


def _arrival(graph: WaitGraph, actor: Actor, wait: Wait) -> LogEvent | None:
    """The arrival of `actor` that `wait` needs, or its last one."""
    arrives = graph.histories[actor].arrives[wait.place]
    at = graph.need(wait) - 1
    return arrives[at] if 0 <= at < len(arrives) else arrives[-1] if arrives else None


def _arrivals(graph: WaitGraph, wait: Wait) -> list[LogEvent]:
    found = (_arrival(graph, actor, wait) for actor in _producers(graph, wait))
    return [event for event in found if event is not None]


def _satisfied(graph: WaitGraph, wait: Wait) -> bool:
    return bool(_arrivals(graph, wait)) and not graph.edges[wait.actor]


def _passed_elsewhere(graph: WaitGraph, wait: Wait) -> list[Wait]:
    """Waits like this one that ended in other CTAs of the cluster; of the same role if any did."""
    found = [
        other
        for actor, history in graph.histories.items()
        if actor.group == wait.actor.group and actor.cta != wait.actor.cta
        for other in history.on(wait.place)
        if other.passed and other.ordinal == wait.ordinal
    ]
    return [other for other in found if other.actor.role == wait.actor.role] or found


def _line(wait: Wait) -> int:
    """The line that shows that a wait ended, or that it began."""
    return wait.done.line if wait.done else wait.moved_on or wait.event.line


def _one_cta(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival (or multicast commit) that reached only one CTA's copy."""
    passed = _passed_elsewhere(graph, root)
    if not passed or graph.edges[root.actor] or graph.need(root) < 1:
        return None
    arrivals = _arrivals(graph, root)
    where = ", ".join(f"CTA {cta}" for cta in sorted({wait.actor.cta for wait in passed}))
    lines = [root.event.line, *(_line(wait) for wait in passed), *(event.line for event in arrivals)]
    if not arrivals:
        what = (
            f"the copy in {where} completed and {copy(graph, root)} did not; no line tells who arrives on it"
        )
        return HangCause("one-cta", f"an arrival reached only one CTA: {what}", lines, 85)
    local = [event.actor for event in arrivals if event.actor.cta == root.actor.cta]
    who = ", ".join(str(event.actor) for event in arrivals)
    what = (
        f"the arrival (or multicast commit) reached only one CTA: {who} arrived, {where} passed the same "
        f"phase, and {copy(graph, root)} never completed it"
    )
    contrast = _contrast(graph, root, {event.actor for event in arrivals})
    if contrast:
        names = ", ".join(dict.fromkeys(graph.log.name(wait.event.barrier) for wait in contrast))
        what += f"; {names}, from the same producer, did reach CTA {root.actor.cta}"
        lines += [_line(wait) for wait in contrast]
    return HangCause("one-cta", what, lines, 50 if local else 92)


def _contrast(graph: WaitGraph, root: Wait, producers: set[Actor]) -> list[Wait]:
    """Waits in the root's CTA that ended, on other barriers that the same producers alone serve."""
    found = []
    for actor, history in graph.histories.items():
        if (actor.group, actor.cta) != (root.actor.group, root.actor.cta):
            continue
        for wait in history.waits:
            made = graph.producers.get((actor.group, wait.event.barrier), set())
            other = wait.event.barrier != root.event.barrier and graph.need(wait) > 0
            if wait.passed and other and made and made <= producers:
                found.append(wait)
    return found[:4]


def _deviation(graph: WaitGraph, history_waits: list[Wait]) -> Wait | None:
    """The first wait whose phase does not follow the one before it."""
    phases = [wait.event.phase for wait in history_waits]
    running = any(phase is not None and phase > 1 for phase in phases)
    for before, after in pairwise(history_waits):
        first, then = before.event.phase, after.event.phase
        if first is None or then is None:
            continue
        if before.event.k is not None and after.event.k is not None and after.event.k < before.event.k:
            continue  # another tile or launch: its barriers may be new
        if then != (first + 1 if running else 1 - first):
            return after
    return None


def _wrong_parity(graph: WaitGraph, root: Wait) -> HangCause | None:
    own = graph.histories[root.actor].on(root.place)
    odd = _deviation(graph, own)
    if odd is not None:
        before = own[own.index(odd) - 1]
        what = (
            f"wrong parity: {root.actor} waits for phase {odd.event.phase} of {copy(graph, root)} "
            f"after phase {before.event.phase}"
        )
        return HangCause("wrong-parity", what, [before.event.line, odd.event.line, root.event.line], 97)
    phase, need = root.event.phase, graph.need(root)
    made = min((graph.made(actor, root.place) for actor in _producers(graph, root)), default=0)
    if phase in (0, 1):
        peers = [w for p in graph.peers(root.actor) for w in graph.histories[p].on(root.place)]
        unlike = [w for w in peers if w.ordinal == root.ordinal and w.event.phase not in (None, phase)]
        if unlike:
            what = (
                f"wrong parity: {root.actor} waits for phase {phase} of {copy(graph, root)} where "
                f"{unlike[0].actor} waits for phase {unlike[0].event.phase}"
            )
            return HangCause("wrong-parity", what, [root.event.line, unlike[0].event.line], 96)
        usual = all(w.event.phase in (None, (graph.need(w) - 1) & 1) for w in own[:-1])
        if usual and made >= max(need, 1) and phase == made & 1 and (need < 1 or phase != (need - 1) & 1):
            what = (
                f"wrong parity: {made} phases of {copy(graph, root)} were arrived on, so a wait for parity "
                f"{1 - phase} would pass; {root.actor} waits for parity {phase}, which is the phase under way"
            )
            lines = [root.event.line, *(event.line for event in _arrivals(graph, root))]
            return HangCause("wrong-parity", what, lines, 94)
    if phase is None and _satisfied(graph, root):
        what = f"wrong parity, perhaps: the log does not say for which phase {root.actor} waits"
        return HangCause("wrong-parity", what, [root.event.line], 45)
    return _parity_elsewhere(graph, root)


def _parity_elsewhere(graph: WaitGraph, root: Wait) -> HangCause | None:
    for actor, history in graph.histories.items():
        for place in dict.fromkeys(wait.place for wait in history.waits):
            odd = _deviation(graph, history.on(place))
            if odd is not None:
                phase = odd.event.phase
                what = f"wrong parity: {actor} waits for phase {phase} of {copy(graph, odd)} out of turn"
                return HangCause("wrong-parity", what, [odd.event.line], 75 if actor != root.actor else 90)
    return None


def _lapped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Two phases went by: the parity waited for is again that of the phase under way."""
    need = graph.need(root)
    made = min((graph.made(actor, root.place) for actor in _producers(graph, root)), default=0)
    if need < 1 or made < need + 1 or graph.edges[root.actor] or (made - need) % 2 == 0:
        return None
    if root.event.phase is not None and root.event.phase != (need - 1) & 1:
        return None
    arrives = [
        event.line for a in _producers(graph, root) for event in graph.histories[a].arrives[root.place]
    ]
    what = (
        f"{root.actor} was lapped: it waits for arrival {need} on {copy(graph, root)}, but {made} were made, "
        "so the parity it waits for is that of the phase under way"
    )
    return HangCause("lapped", what, [root.event.line, *arrives[need - 1 :]], 86)


def _wrong_stage(graph: WaitGraph, root: Wait) -> HangCause | None:
    barrier, stage = root.place
    if stage is None or not graph.edges[root.actor]:
        return None
    waits = [w for w in graph.histories[root.actor].waits if w.event.barrier == barrier]
    for edge in graph.edges[root.actor]:
        arrives = [
            event for place, some in graph.histories[edge.producer].arrives.items()
            if place[0] == barrier for event in some
        ]  # fmt: skip
        free = len({w.place for w in waits if graph.free_first(root.actor.group, w.place)})
        if len(arrives) < len(waits) - free:
            continue
        arrives.sort(key=lambda event: event.line)
        surplus = [
            e for e in arrives
            if graph.histories[edge.producer].arrives[barrier, e.stage].index(e)
            >= len(graph.histories[root.actor].on((barrier, e.stage)))
        ]  # fmt: skip
        if surplus:
            what = (
                f"wrong stage: {root.actor} waits for stage {stage} of {graph.log.name(barrier)}, and "
                f"{edge.producer} arrived on stage {surplus[0].stage} once more than anyone waited for it"
            )
            return HangCause("wrong-stage", what, [root.event.line, surplus[0].line], 98)
    return None


def _never_arrived(graph: WaitGraph, root: Wait) -> HangCause | None:
    barrier = root.event.barrier
    if any(
        e.barrier == barrier and e.kind == "arrive"
        for e in graph.log.events
        if e.actor.group == root.actor.group
    ):
        return None
    elsewhere = any(
        w.passed and w.event.barrier == barrier for h in graph.histories.values() for w in h.waits
    )
    what = f"no one ever arrives on {graph.log.name(barrier)}: no line of the log tells of an arrival on it"
    lines = [root.event.line]
    waited = {event.barrier for event in graph.log.events if event.kind != "arrive"}
    unheard = [e for e in graph.log.events if e.kind == "arrive" and e.barrier not in waited]
    if unheard:
        names = ", ".join(dict.fromkeys(graph.log.name(event.barrier) for event in unheard))
        what += f"; perhaps another one is signalled instead: nobody waits for {names}"
        lines += list({event.barrier: event.line for event in unheard}.values())
    if elsewhere:
        what += " (it was passed before, so its arrivals may not be printed)"
    return HangCause("never-arrived", what, lines, 60 if elsewhere else 90)


def _cycle(graph: WaitGraph, root: Wait) -> HangCause | None:
    if root.actor not in graph.cycle:
        return None
    waits = {wait.actor: wait for wait in graph.blocked}
    members = graph.cycle
    steps = [
        f"{actor} waits on {copy(graph, waits[actor])} for {members[(at + 1) % len(members)]}"
        for at, actor in enumerate(members)
    ]
    what = "they wait for each other: " + "; ".join(steps)
    return HangCause("cycle", what, [waits[actor].event.line for actor in members], 95)


def _skipped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A producer that went to its own wait without an arrival that it used to make before that wait."""
    waits = {wait.actor: wait for wait in graph.blocked}
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
                arrives = graph.histories[edge.producer].arrives[root.place]
                what = (
                    f"an arrival was left out: {edge.producer} went on to wait on "
                    f"{copy(graph, blocked)} without arrival {now + 1} on {copy(graph, root)}, which "
                    f"{model.actor} made before its wait at "
                    f"line {model.event.line}"
                )
                lines = [root.event.line, blocked.event.line, *(event.line for event in arrives[-1:])]
                return HangCause("skipped-arrive", what, lines, 97)
    return None


def _before(graph: WaitGraph, producer: Actor, root: Wait, wait: Wait) -> int:
    arrives = graph.histories[producer].arrives[root.place]
    return sum(event.line < wait.event.line for event in arrives)


def _ended(graph: WaitGraph, edge: LogEdge) -> bool:
    last = graph.histories[edge.producer].last_line
    return bool(_ENDS.search(graph.log.lines[last - 1]))


def _idle(graph: WaitGraph, root: Wait) -> LogEdge | None:
    """The lacking producer that waits for nothing; one that said it ended goes first."""
    blocked = {wait.actor for wait in graph.blocked}
    idle = [edge for edge in graph.edges[root.actor] if edge.producer not in blocked]
    idle.sort(key=lambda edge: not _ended(graph, edge))
    return idle[0] if idle else None


def _k_count(graph: WaitGraph, root: Wait) -> HangCause | None:
    edge = _idle(graph, root)
    if edge is None or edge.made == 0:
        return None
    history = graph.histories[edge.producer]
    arrives = history.arrives[root.place]
    k = f" (k-block {root.event.k})" if root.event.k is not None else ""
    what = (
        f"k-block counts differ: {root.actor} waits for arrival {edge.need} on {copy(graph, root)}{k}, and "
        f"{edge.producer} made {edge.made}"
    )
    lines = [root.event.line, arrives[-1].line, history.last_line]
    more = [p for p in graph.peers(edge.producer) if graph.made(p, root.place) > edge.made]
    if more:
        what += f", while {more[0]} made {graph.made(more[0], root.place)}"
        lines.append(graph.histories[more[0]].arrives[root.place][edge.made].line)
    return HangCause("k-count", what, lines, 93 if _ended(graph, edge) else 62)


def _stopped(graph: WaitGraph, root: Wait) -> HangCause | None:
    edge = _idle(graph, root)
    if edge is None:
        return None
    history = graph.histories[edge.producer]
    what = (
        f"{edge.producer} stopped, or waits in a place that prints nothing: it owes arrival {edge.need} on "
        f"{copy(graph, root)}, and its last line tells of no wait"
    )
    return HangCause(
        "producer-stopped", what, [root.event.line, history.last_line], 58 if _ended(graph, edge) else 85
    )


def _bytes(graph: WaitGraph, root: Wait) -> HangCause | None:
    if not _satisfied(graph, root):
        return None
    told = [event for event in _arrivals(graph, root) if event.bytes]
    planned = 0
    if graph.plan is not None:
        planned = max(
            (
                b.tx_bytes
                for b in graph.plan.barriers
                if b.name.replace("_", "").lower() == root.event.barrier
            ),
            default=0,
        )
    if not told and not planned:
        return None
    arrivals = _arrivals(graph, root)
    expects = f"the plan expects {planned} bytes" if planned else "its arrival announces bytes"
    what = (
        f"bytes never came: {arrivals[-1].actor} arrived on {copy(graph, root)}, {expects}, and the phase "
        "did not complete: a copy was not issued, was issued on another barrier, or brought fewer bytes"
    )
    return HangCause("bytes-missing", what, [root.event.line, *(event.line for event in arrivals)], 88)


def _wrong_copy(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival that was meant for another CTA's copy and stayed in its own."""
    if not _satisfied(graph, root) or _passed_elsewhere(graph, root):
        return None
    remote = [event for event in _arrivals(graph, root) if event.actor.cta != root.actor.cta]
    if not remote:
        return None
    what = (
        f"an arrival went to the wrong copy: {remote[0].actor} arrived, perhaps on its own CTA's copy "
        f"and not on {copy(graph, root)}"
    )
    local = len(remote) < len(_arrivals(graph, root))
    lines = [root.event.line, *(event.line for event in remote)]
    weight = 87 if not local else 60 if graph.leads(root.actor) else 54
    return HangCause("wrong-copy", what, lines, weight)


def _too_few(graph: WaitGraph, root: Wait) -> HangCause | None:
    if not _satisfied(graph, root):
        return None
    arrivals = _arrivals(graph, root)
    what = (
        f"the barrier counts more arrivals than were made: every producer that the log names has arrived on "
        f"{copy(graph, root)} for this phase, or the arrival came before the barrier was initialised"
    )
    return HangCause("too-few-arrivals", what, [root.event.line, *(event.line for event in arrivals)], 55)


def _lost(graph: WaitGraph, root: Wait) -> HangCause | None:
    what = (
        f"lines are missing: {root.actor} had passed {copy(graph, root)}, or the arrival was made, and the "
        "line that tells of it was lost when the run was killed"
    )
    return HangCause("lost-lines", what, [root.event.line, len(graph.log.lines)], 10)


_RULES: tuple[Callable[[WaitGraph, Wait], HangCause | None], ...] = (
    _wrong_stage,
    _skipped,
    _wrong_parity,
    _cycle,
    _k_count,
    _one_cta,
    _never_arrived,
    _wrong_copy,
    _bytes,
    _lapped,
    _stopped,
    _too_few,
    _lost,
)
