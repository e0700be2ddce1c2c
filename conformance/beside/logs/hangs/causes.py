"""The likeliest causes of a hang, each with the lines of the log that show it, most plausible first.

Each rule looks at one root: a blocked wait that no other blocked wait explains. A rule gives a weight, which
only orders the list; it is not a probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tileproof.conformance.beside.logs.hangs import (
    rules_accounts,
    rules_bytes,
    rules_omitted,
    rules_phase,
    rules_producer,
    rules_stage,
    rules_sync,
)
from tileproof.conformance.beside.logs.hangs.cause import HangCause, barrier_text, copy
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import Wait
from tileproof.conformance.beside.logs.hangs.log import Actor

__all__ = ["HangCause", "LoggedHang", "causes", "copy", "hangs"]


@dataclass
class LoggedHang:
    """A hang: its root, its causes, and the other roots that have the same first cause."""

    root: Wait
    causes: list[HangCause]
    others: list[Wait] = field(default_factory=list)
    stopped: bool = False  # nobody is in a wait: `root` is what a role that stopped owes


def causes(graph: WaitGraph) -> list[HangCause]:
    """The causes of the first hang, most plausible first; a cause names the other roots that share it."""
    found = hangs(graph)
    return found[0].causes if found else []


def hangs(graph: WaitGraph) -> list[LoggedHang]:
    """The independent hangs of a log, each with its causes. Roots with the same first cause and culprit are
    the same hang.
    """
    if not graph.roots:
        halt = stalled(graph) if graph.says_wait and graph.says_done else None
        return [halt] if halt else []
    if graph.cycle:
        # Any wait of a cycle could be the root: take the wait with the most specific cause.
        graph.roots.sort(key=lambda root: -of_wait(graph, root)[0].weight if root.actor in graph.cycle else 0)
    judged = _evident(graph) + [(root, of_wait(graph, root)) for root in graph.roots]
    judged = _by_known_producers(graph, judged)
    made: list[LoggedHang] = []
    for root, found in judged:
        hang = next((logged_hang for logged_hang in made if _same(graph, logged_hang, root, found[0])), None)
        if hang is None:
            made.append(LoggedHang(root, found))
            continue
        if root.actor in graph.cycle:
            continue
        hang.others.append(root)
        for cause in hang.causes:
            if cause.code == found[0].code:
                cause.also.append(f"the same for {copy(graph, root)}: {found[0].what}")
                cause.lines = sorted({*cause.lines, *found[0].lines})
    return _folded(made)


def _folded(made: list[LoggedHang]) -> list[LoggedHang]:
    """Merge equal hangs of several clusters (or CTAs)."""
    kinds: dict[tuple[object, ...], list[LoggedHang]] = {}
    for hang in made:
        event, first = hang.root.event, hang.causes[0]
        blamed_role = first.culprit.role if first.culprit is not None else ""
        key = (event.actor.role, event.barrier, event.stage, event.k, event.phase, first.code, blamed_role)
        kinds.setdefault(key, []).append(hang)
    for alike in kinds.values():
        if len(alike) > 1:
            alike[0].causes[0].copies = _places([hang.root.actor for hang in alike[1:]])
    return [alike[0] for alike in kinds.values()]


def _places(actors: list[Actor]) -> str:
    clusters = list(dict.fromkeys(actor.group for actor in actors))
    if len(clusters) == len(actors):
        names = [f"cluster {group}" for group in clusters]
    else:
        names = [str(actor) for actor in actors]
    if len(names) > 8:
        return f"{len(names)} other places: {', '.join(names[:6])}, ... {names[-1]}"
    return ", ".join(names)


EVIDENT = 97  # the weight of an action that is wrong whatever else happened


def _evident(graph: WaitGraph) -> list[tuple[Wait, list[HangCause]]]:
    """Waits that are not roots, because their producer is blocked too, but that an evidently wrong action of
    that producer caused.
    """
    roots = set(map(id, graph.roots))
    judged = [
        (wait, of_wait(graph, wait))
        for wait in graph.blocked
        if id(wait) not in roots and graph.edges[wait.actor]
    ]
    return [(wait, found) for wait, found in judged if found[0].weight >= EVIDENT]


def _by_known_producers(
    graph: WaitGraph, judged: list[tuple[Wait, list[HangCause]]]
) -> list[tuple[Wait, list[HangCause]]]:
    """Roots whose barrier has a producer in the log; other roots only if their cluster has no such root."""
    known = [each for each in judged if each[1][0].weight >= 50 and not _without_producer(graph, *each)]
    covered = {root.actor.group for root, _ in known}
    rest = [entry for entry in judged if entry not in known and entry[0].actor.group not in covered]
    rest.sort(key=lambda entry: -entry[1][0].weight)
    strong = [entry for entry in known if entry[1][0].weight >= 80]
    return [*strong, *(entry for entry in known if entry not in strong), *rest]


def _without_producer(graph: WaitGraph, root: Wait, found: list[HangCause]) -> bool:
    """Whether the first cause is that nobody arrives, or a cycle that the log shows in part."""
    return found[0].code in ("never-arrived", "cycle") and not graph.arrivers(root)


def stalled(graph: WaitGraph) -> LoggedHang | None:
    """If no actor is in a wait: a role that stopped in the middle of a k-block while others went further."""
    for history in graph.histories.values():
        if not rules_producer.stopped_midway(graph, history):
            continue
        owed = rules_producer.owed_after(graph, history)
        last = history.steps[-1]
        if owed is None or not isinstance(last, Wait):
            continue
        k = history.last_k
        ahead = [h for h in graph.groups[history.actor.group] if k is not None and (h.last_k or 0) > k]
        if not ahead:
            continue
        event = replace(last.event, barrier=owed)
        root = Wait(event, last.ordinal, last.done)
        name = barrier_text(graph, root)
        what = (
            f"{history.actor} stopped, or is in a wait that is not printed: it passed a wait (line "
            f"{history.last_line}) "
            f"and did not make the arrival on {name} that follows in its other rounds, while "
            f"{ahead[0].actor} continued"
        )
        fix = (
            f"look at what {history.actor} does after line {history.last_line}: the arrival on "
            f"{name} is missing"
        )
        lines = [history.last_line, ahead[0].last_line]
        cause = HangCause("producer-stopped", what, sorted(lines), 85, fix, history.actor, tuple(lines))
        return LoggedHang(root, [cause], stopped=True)
    return None


def _same(graph: WaitGraph, hang: LoggedHang, root: Wait, first: HangCause) -> bool:
    """Whether a root is another symptom of a hang that is already listed."""
    mine = hang.causes[0]
    if hang.root.actor.group != root.actor.group:
        return False
    if root.actor in graph.cycle and hang.root.actor in graph.cycle:
        return True
    if mine.culprit is not None and mine.culprit == first.culprit:
        return True
    return mine.code == first.code


def of_wait(graph: WaitGraph, root: Wait) -> list[HangCause]:
    """Causes of one blocked wait."""
    if graph.log.snapshot and not graph.log.reports:
        return [_standing(graph, root)]
    rules = _RULES if root.event.scope == "mbarrier" else _SYNC_RULES
    found = [cause for rule in rules if (cause := rule(graph, root)) is not None]
    for cause in found:
        cause.lines = sorted(set(cause.lines))
    return sorted(found, key=lambda cause: -cause.weight)


def _standing(graph: WaitGraph, root: Wait) -> HangCause:
    """Of a snapshot: where the warps stand."""
    waits = sorted(graph.blocked, key=lambda wait: wait.actor)
    places = [f"{wait.actor} on {copy(graph, wait)}" for wait in waits]
    more = f" and {len(places) - 8} more" if len(places) > 8 else ""
    what = f"{len(places)} warps wait: {', '.join(places[:8])}{more}; nothing shows which arrival is missing"
    fix = "print each wait and each arrival (tileproof_log.cuh), and explain that log"
    return HangCause("snapshot", what, [wait.event.line for wait in waits], 50, fix, None, (root.event.line,))


_SYNC_RULES: tuple[Callable[[WaitGraph, Wait], HangCause | None], ...] = (
    rules_sync.sync_missing,
    rules_sync.alloc_blocked,
    rules_phase.lost,
)
_RULES: tuple[Callable[[WaitGraph, Wait], HangCause | None], ...] = (
    rules_stage.wrong_stage,
    rules_omitted.skipped,
    rules_accounts.parity,
    rules_producer.cycle,
    rules_producer.k_count,
    rules_phase.one_cta,
    rules_accounts.astray,
    rules_accounts.nobody,
    rules_phase.wrong_copy,
    rules_bytes.bytes_missing,
    rules_phase.lapped,
    rules_producer.stopped,
    rules_accounts.counts,
    rules_phase.lost,
)
