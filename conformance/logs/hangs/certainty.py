"""How sure an answer is: a verdict, whether the log leaves another reading of the first cause, and what it
should say.

Printed logs lose lines, so a cause that rests on a line that is *not* there (an arrival left out, a role that
stopped) is likely and never certain; one that lines show (another stage, another barrier, a phase out of
turn, numbers of bytes, an arrival that one CTA saw and the other did not) is certain where nothing in the
log is amiss.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tileproof.conformance.logs.hangs.causes import LoggedHang
from tileproof.conformance.logs.hangs.graph import WaitGraph
from tileproof.conformance.logs.hangs.histories import History

Certainty = Literal["certain", "likely", "open", ""]
SHOWN = {
    "wrong-stage": 98,
    "wrong-barrier": 98,
    "wrong-parity": 96,
    "bytes-missing": 99,
    "one-cta": 92,
    "k-count": 93,
}
EXACT = {"skipped-arrive": 97, "too-few-arrivals": 97, "producer-stopped": 85, "cycle": 95}
RIVAL = 88  # the weight from which a second cause is another reading
UNDERSTOOD = 0.5  # of the lines that name an actor or a barrier
SAY = (
    "print one line before each wait, one after it and one after each arrival, with the role, the CTA's "
    "rank, the "
    "barrier, its stage, the phase and the k-block: [mma CTA0] k=3 wait kv_full[1] phase=1 "
    "(tileproof_log.cuh does, docs/explain.md)"
)


@dataclass(frozen=True)
class HangVerdict:
    """`why`: what keeps the answer from being certain, or what the log should say; empty when nothing
    does.
    """

    verdict: str
    certainty: Certainty
    why: tuple[str, ...] = ()


def judged(graph: WaitGraph, hangs: list[LoggedHang]) -> HangVerdict:
    """The verdict of a run and its certainty."""
    log = graph.log
    if not _understood(graph):
        return HangVerdict("unclear", "", ("most lines that speak of barriers are not understood", SAY))
    if hangs and hangs[0].stopped:
        return HangVerdict(
            "hang", "open" if log.head_missing else "likely", ("no role is in a wait that is printed",)
        )
    if graph.verdict != "hang":
        why = (SAY,) if graph.verdict == "unclear" else ()
        if graph.verdict == "no hang seen" and log.half_read:
            return HangVerdict(
                "unclear", "", ("lines that speak of waits name no role and no CTA that is known", SAY)
            )
        return HangVerdict(graph.verdict, "", why)
    doubts = _doubts(graph, hangs)
    if log.merged or log.head_missing:
        return HangVerdict("hang", "open", tuple(doubts))
    first = hangs[0].causes[0]
    shown = SHOWN.get(first.code, 1000) <= first.weight
    if log.exact:  # no line is missing, so that one that is not there was not printed
        shown = shown or EXACT.get(first.code, 1000) <= first.weight
    # Whoever leaves an arrival out then waits in a cycle.
    rest = [cause for cause in hangs[0].causes[1:] if cause.code != "cycle"]
    rival = bool(rest) and rest[0].weight >= RIVAL
    if not shown:
        doubts.append("the cause rests on a line that is not there, and it may have been lost")
    if rival:
        doubts.append("a second cause is as well supported")
    return HangVerdict("hang", "likely" if doubts else "certain", tuple(doubts))


def _understood(graph: WaitGraph) -> bool:
    log = graph.log
    return len(log.events) >= UNDERSTOOD * (len(log.events) + log.half_read)


def _doubts(graph: WaitGraph, hangs: list[LoggedHang]) -> list[str]:
    log, root = graph.log, hangs[0].root
    doubts = []
    if log.merged:
        doubts.append("roles of several CTAs speak under one name")
    elif root.actor.cta < 0 or any(actor.cta < 0 for actor in graph.histories if actor.role):
        doubts.append("no CTA is printed: roles of several CTAs may be merged")
    if log.head_missing:
        doubts.append("the head of the log is missing")
    if log.cut:
        doubts.append("the last line is cut")
    if log.gaps or lost_lines(graph):
        doubts.append("lines are missing in the middle")
    if root.event.phase is None:
        doubts.append("the phase that the root waits for is not printed")
    if any(event.loose for event in log.events if event.barrier == root.event.barrier):
        doubts.append("arrivals on the root's barrier are read from loose wording")
    if (root.actor.role, root.event.barrier) not in graph.done_roles and not graph.roles_done:
        doubts.append("no line tells that a wait ended")
    if sum(hang.root.actor.group == root.actor.group for hang in hangs) > 1:
        doubts.append("other waits have causes of their own")
    return doubts


def lost_lines(graph: WaitGraph) -> bool:
    """Whether a line is missing that must have been printed: of a wait, of its end, or of one round of
    several.
    """
    said = graph.done_roles
    begun = {(event.actor.role, event.barrier) for event in graph.log.events if event.kind == "wait"}
    for history in graph.histories.values():
        for wait in history.waits:
            key = history.actor.role, wait.event.barrier
            if (wait.moved_on and key in said) or (wait.event.kind == "done" and key in begun):
                return True
        if _gaps(history):
            return True
    return False


def _gaps(history: History) -> bool:
    """Whether an actor's k-blocks on one place leave one out."""
    for place in history.places():
        numbers = [wait.event.k for wait in history.on(place)]
        if _uneven(numbers) or _uneven([event.k for event in history.arrivals(place)]):
            return True
    return any(_uneven([event.k for event in some]) for some in history.arrives.values())


def _uneven(numbers: list[int | None]) -> bool:
    steps = {b - a for a, b in pairwise(numbers) if a is not None and b is not None and b > a}
    return len(steps) > 1
