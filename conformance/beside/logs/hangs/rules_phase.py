"""Rules about a phase with all its expected arrivals that did not complete: copies, multicasts, counts.

PTX ISA, mbarrier: an arrival goes to one CTA's copy; a phase ends with the last arrival and the last byte.
"""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    arrivals,
    barrier_text,
    before_the_log,
    block_text,
    copy,
    passed_elsewhere,
    producers,
    satisfied,
    went_on_elsewhere,
)
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import Wait
from tileproof.conformance.beside.logs.hangs.log import UNKNOWN_CTA, Actor, LogEvent, cta_text


def mask(ctas: set[int]) -> str:
    """A multicast mask of CTA ranks, in binary; in words if the log does not name the ranks."""
    if any(cta >= UNKNOWN_CTA for cta in ctas):
        return "of every CTA of the cluster"
    return f"0b{sum(1 << cta for cta in ctas if 0 <= cta < 16):b}"


def one_cta(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival (or multicast commit) that reached only one CTA's copy."""
    passed = went_on_elsewhere(graph, root)
    if not passed or graph.edges[root.actor] or (graph.need(root) < 1 and not graph.log.head_missing):
        return None
    made = arrivals(graph, root)
    where = ", ".join(cta_text(cta) for cta in sorted({wait.actor.cta for wait in passed}))
    lines = [root.event.line, *(wait.end for wait in passed), *(event.line for event in made)]
    ctas = {root.actor.cta, *(wait.actor.cta for wait in passed)}
    if not made:
        what = f"the copy in {where} completed and {copy(graph, root)} did not; no line names its producer"
        fix = (
            f"commit on {barrier_text(graph, root)} with multicast mask {mask(ctas)}: "
            f"{cta_text(root.actor.cta)} is not signalled"
        )
        return HangCause(
            "one-cta",
            f"an arrival reached only one CTA: {what}",
            lines,
            85,
            fix,
            None,
            (passed[0].end, root.event.line),
        )
    local = [event.actor for event in made if event.actor.cta == root.actor.cta]
    who = ", ".join(str(event.actor) for event in made)
    what = (
        f"the arrival (or multicast commit) reached only one CTA: {who} arrived, {where} passed the same "
        f"phase, and {copy(graph, root)} never completed it"
    )
    contrast = _contrast(graph, root, {event.actor for event in made})
    if contrast:
        names = ", ".join(dict.fromkeys(graph.log.name(wait.event.barrier) for wait in contrast))
        what += f"; {names}, from the same producer, did reach {cta_text(root.actor.cta)}"
        lines += [wait.end for wait in contrast]
    culprit = made[-1].actor
    told = made[-1].to
    if not made[-1].reaches(root.actor.cta):
        what += f"; it was made with mask {told:#b}"
        return HangCause(
            "one-cta",
            what,
            lines,
            99,
            f"{culprit}: arrive on {barrier_text(graph, root)}{block_text(made[-1].k)} with mask "
            f"{mask(ctas | {culprit.cta})}, not {told:#b}: CTA {root.actor.cta} is not signalled",
            culprit,
            (made[-1].line, passed[0].end, root.event.line),
        )
    fix = (
        f"commit on {barrier_text(graph, root)} with multicast mask {mask(ctas | {culprit.cta})} "
        f"(or arrive on each CTA's copy): {cta_text(root.actor.cta)} is not signalled by {culprit}"
    )
    show = (made[-1].line, passed[0].end, root.event.line)
    # Without an earlier phase of this copy, its count may be wrong instead.
    counted = any(wait.passed and graph.need(wait) > 0 for wait in graph.histories[root.actor].on(root.place))
    weight = 50 if local else 92 if counted or graph.log.exact else 90
    return HangCause("one-cta", what, lines, weight, fix, culprit, show)


def _contrast(graph: WaitGraph, root: Wait, made_by: set[Actor]) -> list[Wait]:
    """Waits in the root's CTA that ended, on other barriers with exactly the same producers."""
    found = []
    for history in graph.groups[root.actor.group]:
        actor = history.actor
        if actor.cta != root.actor.cta:
            continue
        for wait in history.waits:
            made = graph.producers.get((actor.group, wait.event.barrier), set())
            other = wait.event.barrier != root.event.barrier and graph.need(wait) > 0
            if wait.passed and other and made and made <= made_by:
                found.append(wait)
                if len(found) == 4:
                    return found
    return found


def wrong_copy(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival intended for another CTA's copy that reached the copy of its own CTA."""
    if not satisfied(graph, root) or passed_elsewhere(graph, root):
        return None
    stray = _astray(graph, root)
    if stray is not None:
        where = ", ".join(f"CTA {cta}" for cta in range(32) if stray.to >> cta & 1)
        what = (
            f"an arrival went to the wrong copy: {stray.actor} arrived on {barrier_text(graph, root)} of "
            f"{where}, on which no role waits, and {root.actor} waits on {copy(graph, root)}"
        )
        fix = f"{stray.actor}: arrive on {copy(graph, root)} (mapa, shared::cluster), not on {where}"
        lines = [stray.line, root.event.line]
        return HangCause("wrong-copy", what, lines, 95, fix, stray.actor, (stray.line, root.event.line))
    made = arrivals(graph, root)
    remote = [event for event in made if event.actor.cta != root.actor.cta]
    if not remote:
        return None
    what = (
        f"an arrival went to the wrong copy: {remote[0].actor} arrived, perhaps on its own CTA's copy "
        f"and not on {copy(graph, root)}"
    )
    local = len(remote) < len(made)
    lines = [root.event.line, *(event.line for event in remote)]
    worked = any(wait.passed and graph.need(wait) > 0 for wait in graph.histories[root.actor].on(root.place))
    weight = 87 if not local else 61 if graph.leads(root.actor) and not worked else 50
    fix = (
        f"{remote[0].actor}: arrive on {cta_text(root.actor.cta)}'s copy of "
        f"{barrier_text(graph, root)} (mapa, shared::cluster)"
    )
    return HangCause(
        "wrong-copy", what, lines, weight, fix, remote[0].actor, (remote[0].line, root.event.line)
    )


def _astray(graph: WaitGraph, root: Wait) -> LogEvent | None:
    """An arrival that names other CTAs than the root's, on whose copies of the barrier no role waits."""
    group = graph.groups[root.actor.group]
    waited = {wait.cta for h in group for wait in h.waits if wait.event.barrier == root.event.barrier}
    for history in group:
        for event in history.arrivals(root.place):
            if event.to and not any(event.reaches(cta) for cta in waited):
                return event
    return None


def before_the_head(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The arrival that the root lacks would be in the missing head of the log."""
    early = before_the_log(graph, root)
    if not early or arrivals(graph, root):
        return None
    who = early[0].actor
    what = (
        f"the arrival that {copy(graph, root)} lacks would be in the missing head of the log: {who} "
        "continued past it, so either it was made and the phase lacks something else, or it is missing"
    )
    fix = (
        f"print the whole log (a larger cudaLimitPrintfFifoSize), or look at the arrival of {who} "
        f"on {barrier_text(graph, root)}{block_text(root.event.k)}"
    )
    lines = [root.event.line, early[0].line]
    return HangCause("before-the-log", what, lines, 60, fix, who, (early[0].line, root.event.line))


def lapped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Two phases have passed: the parity waited for is again that of the current phase."""
    need = graph.need(root)
    made = min((graph.made(actor, root.place) for actor in producers(graph, root)), default=0)
    if (
        graph.log.head_missing
        or need < 1
        or made < need + 1
        or graph.edges[root.actor]
        or (made - need) % 2 == 0
    ):
        return None
    if root.event.phase is not None and root.event.phase != (need - 1) & 1:
        return None
    told = [event.line for a in producers(graph, root) for event in graph.histories[a].arrivals(root.place)]
    what = (
        f"{root.actor} was lapped: it waits for arrival {need} on {copy(graph, root)}, but {made} were made, "
        "so the parity it waits for is that of the current phase"
    )
    fix = (
        f"have the producer wait until {root.actor} has consumed a phase of "
        f"{barrier_text(graph, root)} before it completes the next"
    )
    return HangCause(
        "lapped", what, [root.event.line, *told[need - 1 :]], 86, fix, None, (root.event.line, told[-1])
    )


def lost(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Lost lines, which are always possible."""
    what = (
        f"lines are missing: {root.actor} had passed {copy(graph, root)}, or the arrival was made, and the "
        "line that reports it was lost when the run was killed"
    )
    fix = "flush the log (cudaDeviceSynchronize with a larger cudaLimitPrintfFifoSize) and read it again"
    return HangCause(
        "lost-lines", what, [root.event.line, len(graph.log.lines)], 10, fix, None, (root.event.line,)
    )
