"""Rules of the accounts (accounts/), which both readers share, for a root of the wait-for graph."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs import rules_phase
from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason
from tileproof.conformance.beside.logs.hangs.cause import HangCause, barrier_text, satisfied
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import Wait

_FIRST = 91  # at most, for a first wait: only its barrier's name, or other waits, tell its phase
_UNSTAGED = 93  # at most, where stages may exist that are not printed
_ELSEWHERE = 75  # another role's wait
_NOBODY = 90  # no arrival on a barrier
_COUNTED = 97  # the count of a phase is printed, and every arrival too
_PERHAPS = 60  # the barrier was passed before: its arrivals may not be printed


def parity(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A wait for a phase out of turn: the root's, else one of its cluster."""
    found = [reason for reason in graph.accounts.parities() if reason.waiter.group == root.actor.group]
    found.sort(key=lambda reason: reason.waiter != root.actor)
    for reason in found[:1]:
        waits = graph.accounts.ledger.waits[reason.waiter, reason.copy]
        ceiling = _FIRST if reason.lines[0] == waits[0].line else 100
        if not graph.accounts.ledger.stages_shown(reason.copy):
            ceiling = min(ceiling, _UNSTAGED)
        if reason.waiter != root.actor:
            ceiling = _ELSEWHERE
        return _cause(reason, min(ceiling, reason.weight), root)
    if root.event.phase is None and satisfied(graph, root):
        what = f"wrong parity, perhaps: the log does not say for which phase {root.actor} waits"
        fix = f"print the phase with each wait on {barrier_text(graph, root)}"
        return HangCause("wrong-parity", what, [root.event.line], 45, fix, root.actor, (root.event.line,))
    return None


def counts(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Every known producer arrived, and the phase did not complete."""
    if not satisfied(graph, root):
        return None
    if head := rules_phase.before_the_head(graph, root):
        return head
    wait = graph.accounts.waits.get(root.actor)
    found = graph.accounts.counts(wait, []) if wait is not None else []  # the graph knows who arrived
    if wait is None or not found:
        return None
    shown = found[0].sure and not graph.accounts.ledger.lacks(wait)
    return _cause(found[0], _COUNTED if shown else min(_PERHAPS, found[0].weight), root)


def nobody(graph: WaitGraph, root: Wait) -> HangCause | None:
    """No role ever arrives on the barrier; without the log's head, the lines may be there."""
    if graph.log.head_missing and not graph.arrivers(root):
        name = barrier_text(graph, root)
        what = (
            f"no line reports an arrival on {name}: it is in the missing head of the log, or no role makes it"
        )
        fix = f"print the whole log (a larger cudaLimitPrintfFifoSize), or look at who arrives on {name}"
        lines = [root.event.line]
        return HangCause("before-the-log", what, lines, 52, fix, None, (root.event.line,))
    wait = graph.accounts.waits.get(root.actor)
    if wait is None or graph.arrivers(root):
        return None
    found = graph.accounts.nobody(wait)
    passed = any(
        each.passed
        for (_, copy), some in graph.accounts.ledger.waits.items()
        for each in some
        if copy[:2] == wait.copy[:2]
    )
    return _cause(found[0], _PERHAPS if passed else _NOBODY, root) if found else None


def astray(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival on a barrier on which its actor has none to make, where the root has no arrival."""
    if graph.arrivers(root):
        return None
    found = [reason for reason in graph.accounts.astray() if reason.waiter == root.actor]
    return _cause(found[0], found[0].weight, root) if found else None


def _cause(reason: LoggedReason, weight: int, root: Wait) -> HangCause:
    lines = sorted({*reason.lines, root.event.line} - {0})
    return HangCause(
        reason.code, reason.what, lines, weight, reason.fix, reason.culprit, tuple(reason.lines[:3])
    )
