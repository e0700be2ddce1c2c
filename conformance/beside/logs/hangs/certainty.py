"""How certain a diagnosis is: the verdict, whether the log allows another first cause, and what to print.

Printed logs lose lines. A cause inferred from an absent line (a missing arrival, a role that stopped) is
therefore likely, never certain. A cause that present lines show (another stage, another barrier, a phase out
of turn, byte counts, an arrival that reached only some CTAs) is certain if the log is intact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tileproof.conformance.beside.logs.hangs.cause import HangCause
from tileproof.conformance.beside.logs.hangs.causes import LoggedHang
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import History, Wait
from tileproof.conformance.beside.logs.hangs.log import Log, LogEvent

Certainty = Literal["certain", "likely", "open", ""]
SHOWN = {
    "wrong-stage": 98,
    "wrong-barrier": 98,
    "wrong-parity": 96,
    "bytes-missing": 99,
    "one-cta": 92,
}
EXACT = {
    "bytes-missing": 97,
    "skipped-arrive": 97,
    "too-few-arrivals": 97,
    "producer-stopped": 85,
    "cycle": 95,
}
_NUMBERED = re.compile(r"(?:warp|thread|tid|t)[ _]?\d+")
_WARP = re.compile(r"warp|\bw\W{0,2}\d", re.IGNORECASE)
RIVAL = 88  # the weight from which a second cause is another reading
UNDERSTOOD = 0.5  # of the lines that name an actor or a barrier
SAY = (
    "print a line before each wait, after each wait and after each arrival, with the role, the CTA's rank, "
    "the barrier, its stage, the phase and the k-block: [mma CTA0] k=3 wait kv_full[1] phase=1 "
    "(tileproof_log.cuh does, docs/explain.md)"
)


@dataclass(frozen=True)
class HangVerdict:
    """`why`: the reasons why the answer is not certain, or what the log should contain; may be empty."""

    verdict: str
    certainty: Certainty
    why: tuple[str, ...] = ()


def judged(graph: WaitGraph, hangs: list[LoggedHang]) -> HangVerdict:
    """The verdict of a run and its certainty."""
    log = graph.log
    if not _understood(graph):
        return HangVerdict("unclear", "", ("most lines about barriers could not be parsed", SAY))
    if hangs and hangs[0].stopped:
        return HangVerdict(
            "hang", "open" if log.head_missing else "likely", ("no role is in a printed wait",)
        )
    if graph.verdict != "hang":
        why: tuple[str, ...] = (SAY,) if graph.verdict == "unclear" else ()
        if graph.verdict == "no hang seen" and log.half_read:
            return HangVerdict("unclear", "", ("lines about waits name no known role and no known CTA", SAY))
        return HangVerdict(graph.verdict, "", why)
    if log.reports:
        return HangVerdict("hang", "certain")
    if log.snapshot:
        seen = "a snapshot shows where warps stand, not which arrival is missing: print each wait and arrival"
        return HangVerdict("hang", "open", (seen,))
    doubts = _doubts(graph, hangs)
    if log.merged or log.head_missing:
        return HangVerdict("hang", "open", tuple(doubts))
    first = hangs[0].causes[0]
    shown = SHOWN.get(first.code, 1000) <= first.weight
    if log.exact:  # no line is missing: an absent line was never printed
        shown = shown or EXACT.get(first.code, 1000) <= first.weight
    if shown and first.code in _READINGS and (first.code == "one-cta" or not log.exact):
        shown = not _READINGS[first.code](graph, hangs[0].root, first)
    # An actor that skips an arrival then waits in a cycle.
    rest = [cause for cause in hangs[0].causes[1:] if cause.code != "cycle"]
    rival = bool(rest) and rest[0].weight >= RIVAL
    if not shown and first.code == "one-cta" and first.weight < SHOWN["one-cta"]:
        doubts.append(
            "no mask is printed and no earlier phase of this barrier completed: its count may be wrong"
        )
    elif not shown and first.code in _READINGS:
        doubts.append("lines that were lost, or a role that prints none, would explain the hang as well")
    elif not shown:
        doubts.append("the cause is inferred from an absent line, which may have been lost")
    if rival:
        doubts.append("a second cause is equally well supported")
    return HangVerdict("hang", "likely" if doubts else "certain", tuple(doubts))


def _other_producer(graph: WaitGraph, root: Wait, cause: HangCause) -> bool:
    """Whether a role that prints nothing may have made arrivals that reached the waiting CTA before.

    A mask that had the CTA once, and has it no more, shows that the arrival was lost.
    """
    masks = [
        event.to
        for event in sorted(graph.log.events, key=lambda event: event.line)
        if event.kind == "arrive" and event.barrier == root.event.barrier and event.to
        if cause.culprit is None or event.actor == cause.culprit
    ]
    mine = [bool(mask >> root.cta & 1) and mask.bit_count() > 1 for mask in masks] if root.cta >= 0 else []
    return not any(mine) or mine[-1]


def _lost_rounds(graph: WaitGraph, root: Wait, cause: HangCause) -> bool:
    """Whether a wait and its end may have been lost: a role's rounds are not printed, or not evenly apart."""
    actor = cause.culprit or root.actor
    history = graph.histories.get(actor, graph.histories[root.actor])
    waits = [wait.event for wait in history.waits if wait.event.scope == "mbarrier"]
    named = [event for event in waits if event.barrier == root.event.barrier] or waits
    rounds = [event.k for event in named]
    return None in rounds or _uneven(rounds)


def _once(graph: WaitGraph, root: Wait, cause: HangCause) -> bool:
    """Whether the arrival on another barrier is the only one there, as after the last round of a tile."""
    lines = {*cause.lines, *cause.show}
    strange = [event for event in graph.log.events if event.line in lines and event.kind == "arrive"]
    others = {event.barrier for event in strange} - {root.event.barrier}
    count = Counter(event.barrier for event in graph.log.events if event.kind == "arrive")
    return any(count[barrier] < 2 for barrier in others)


# Other readings that printed lines leave open, by cause.
_READINGS: dict[str, Callable[[WaitGraph, Wait, HangCause], bool]] = {
    "one-cta": _other_producer,
    "wrong-parity": _lost_rounds,
    "wrong-barrier": _once,
}


def _is_thread(event: LogEvent) -> bool:
    return bool(_NUMBERED.fullmatch(event.actor.role))


def _prints_warps(log: Log) -> bool:
    """Whether the lines of events print warps: else a warp is a thread's number divided by 32."""
    return all(_WARP.search(log.lines[event.line - 1]) for event in log.events if _is_thread(event))


def _understood(graph: WaitGraph) -> bool:
    log = graph.log
    return len(log.events) >= UNDERSTOOD * (len(log.events) + log.half_read)


def _doubts(graph: WaitGraph, hangs: list[LoggedHang]) -> list[str]:
    log, root = graph.log, hangs[0].root
    doubts = []
    if log.inferred:
        doubts.append("the meaning of the lines was inferred from their order")
    if log.merged:
        doubts.append("roles of several CTAs print under the same name")
    elif root.actor.cta < 0 or any(actor.cta < 0 for actor in graph.histories if actor.role):
        doubts.append("no CTA rank is printed: roles of several CTAs may be merged")
    if log.head_missing:
        doubts.append("the head of the log is missing")
    if log.cut:
        doubts.append("the last line is truncated")
    if log.half_read:
        doubts.append(f"{log.half_read} lines about barriers could not be parsed")
    if log.gaps or lost_lines(graph):
        doubts.append("lines are missing in the middle")
    if root.event.barrier.startswith("@") and graph.plan is None:
        doubts.append("barriers are addresses: these lines do not have their names")
    if graph.plan is None and any(map(_is_thread, log.events)) and not _prints_warps(log):
        doubts.append("roles are numbers of threads: these lines do not have their names")
    if any(remark.startswith("no word marks the end of a wait") for remark in log.remarks):
        doubts.append("no word marks the end of a wait")
    if root.event.phase is None:
        doubts.append("the phase of the root's wait is not printed")
    first = hangs[0].causes[0]
    shown = {*first.lines, *first.show}
    if any(e.loose for e in log.events if e.barrier == root.event.barrier or e.line in shown):
        doubts.append("events on the root's barrier or of the cause were inferred from vague wording")
    if (root.actor.role, root.event.barrier) not in graph.done_roles and not graph.roles_done:
        doubts.append("no line is printed when a wait ends")
    if sum(hang.root.actor.group == root.actor.group for hang in hangs) > 1:
        doubts.append("other waits have causes of their own")
    return doubts


def lost_lines(graph: WaitGraph) -> bool:
    """Whether a line that must have been printed is missing: a wait, its end, or one k-block of a series."""
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
    """Whether an actor's k-blocks on a place have a gap."""
    for place in history.places():
        numbers = [wait.event.k for wait in history.on(place)]
        if _uneven(numbers) or _uneven([event.k for event in history.arrivals(place)]):
            return True
    return any(_uneven([event.k for event in some]) for some in history.arrives.values())


def _uneven(numbers: list[int | None]) -> bool:
    steps = {b - a for a, b in pairwise(numbers) if a is not None and b is not None and b > a}
    return len(steps) > 1
