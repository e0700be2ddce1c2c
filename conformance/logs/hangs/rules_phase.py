"""Rules about a phase to which every arrival that one could expect was made: parity, bytes, copies, counts.

PTX ISA, mbarrier: an arrival goes to one CTA's copy; a phase ends with the last arrival and the last byte; a
wait for the parity of the phase under way blocks.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tileproof.conformance.logs.hangs.cause import (
    HangCause,
    arrivals,
    barrier_text,
    before_the_log,
    block_text,
    copy,
    passed_elsewhere,
    producers,
    same_round,
    satisfied,
    state,
    went_on_elsewhere,
)
from tileproof.conformance.logs.hangs.graph import WaitGraph
from tileproof.conformance.logs.hangs.histories import History, Wait
from tileproof.conformance.logs.hangs.log import UNKNOWN_CTA, Actor, LogEvent, cta_text


def mask(ctas: set[int]) -> str:
    """A multicast mask of CTA ranks, in binary; in words where the log does not name them."""
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
        what = (
            f"the copy in {where} completed and {copy(graph, root)} did not; no line tells who arrives on it"
        )
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
    if told and not told >> root.actor.cta & 1:
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
    return HangCause("one-cta", what, lines, 50 if local else 92, fix, culprit, show)


def _contrast(graph: WaitGraph, root: Wait, made_by: set[Actor]) -> list[Wait]:
    """Waits in the root's CTA that ended, on other barriers that the same producers alone serve."""
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


def _deviation(waits: list[Wait]) -> Wait | None:
    """The first wait whose phase does not follow the one before it."""
    phases = [wait.event.phase for wait in waits]
    running = any(phase is not None and phase > 1 for phase in phases)
    usual = _usual_step(waits)
    for before, after in pairwise(waits):
        first, then = before.event.phase, after.event.phase
        if first is None or then is None:
            continue
        if before.event.k is not None and after.event.k is not None and after.event.k < before.event.k:
            continue  # another tile or launch: its barriers may be new
        if usual and (after.event.k or 0) - (before.event.k or 0) > usual:
            continue  # a wait between the two is missing
        if then != (first + 1 if running else 1 - first):
            return after
    return None


def _usual_step(waits: list[Wait]) -> int:
    """By how much the k-block rises from wait to wait; 0 where k-blocks do not tell."""
    numbers = [wait.event.k for wait in waits]
    if None in numbers or len(numbers) < 3:
        return 0
    return min((b - a for a, b in pairwise(numbers) if a is not None and b is not None and b > a), default=1)


def wrong_parity(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A wait for a parity out of turn, unlike the other CTA's, or of the phase under way."""
    own = graph.histories[root.actor].on(root.place)
    odd = _deviation(own)
    here = f"{barrier_text(graph, root)}{block_text(root.event.k)}"
    if odd is not None:
        before = own[own.index(odd) - 1]
        what = (
            f"wrong parity: {root.actor} waits for phase {odd.event.phase} of {copy(graph, root)} "
            f"after phase {before.event.phase}"
        )
        fix = (
            f"flip the phase bit of {root.actor} after every wait on {barrier_text(graph, root)} "
            f"(once a turn of the ring)"
        )
        lines = [before.event.line, odd.event.line, root.event.line]
        return HangCause(
            "wrong-parity", what, lines, 97, fix, root.actor, (before.event.line, odd.event.line)
        )
    phase, need = root.event.phase, graph.need(root)
    made = min((graph.made(actor, root.place) for actor in producers(graph, root)), default=0)
    if phase in (0, 1):
        peers = [w for p in graph.peers(root.actor) for w in graph.histories[p].on(root.place)]
        unlike = [
            w for w in peers if same_place_in_time(graph, w, root) and w.event.phase not in (None, phase)
        ]
        if unlike:
            what = (
                f"wrong parity: {root.actor} waits for phase {phase} of {copy(graph, root)} where "
                f"{unlike[0].actor} waits for phase {unlike[0].event.phase}"
            )
            fix = f"{root.actor}: wait for phase {unlike[0].event.phase} of {here}, as {unlike[0].actor} does"
            lines = [root.event.line, unlike[0].event.line]
            return HangCause(
                "wrong-parity", what, lines, 96, fix, root.actor, (unlike[0].event.line, root.event.line)
            )
        usual = all(w.event.phase in (None, (graph.need(w) - 1) & 1) for w in own[:-1])
        counted = not graph.log.head_missing
        if (
            counted
            and usual
            and made >= max(need, 1)
            and phase == made & 1
            and (need < 1 or phase != (need - 1) & 1)
        ):
            what = (
                f"wrong parity: {made} phases of {copy(graph, root)} were arrived on, so a wait for parity "
                f"{1 - phase} would pass; {root.actor} waits for parity {phase}, which is the phase under way"
            )
            events = arrivals(graph, root)
            lines = [root.event.line, *(event.line for event in events)]
            fix = f"{root.actor}: wait for parity {1 - phase} of {here}"
            return HangCause(
                "wrong-parity", what, lines, 94, fix, root.actor, (events[-1].line, root.event.line)
            )
        by_k = _parity_by_k(graph, root)
        if by_k is not None:
            return by_k
    if phase is None and satisfied(graph, root):
        what = f"wrong parity, perhaps: the log does not say for which phase {root.actor} waits"
        fix = f"print the phase with each wait on {barrier_text(graph, root)}"
        return HangCause("wrong-parity", what, [root.event.line], 45, fix, root.actor, (root.event.line,))
    return _fresh_free(graph, root) or _parity_elsewhere(graph, root)


_FREES = re.compile(r"empty|free|avail")


def _fresh_free(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The first wait for a buffer that is free from the start, for parity 0, and nobody arrived yet."""
    first = root.ordinal == 0 and root.event.phase == 0 and root.event.k in (None, 0)
    if not first or graph.log.head_missing or not _FREES.search(root.event.barrier):
        return None
    if any(h.arrivals_on(root.event.barrier) for h in graph.groups[root.actor.group]):
        return None
    what = (
        f"wrong parity: {root.actor} waits for phase 0 of {copy(graph, root)} before anyone arrived on it; "
        "the first wait for a free buffer passes at once with parity 1"
    )
    fix = f"{root.actor}: begin with parity 1 on {barrier_text(graph, root)}"
    lines = [root.event.line]
    return HangCause("wrong-parity", what, lines, 91, fix, root.actor, (root.event.line,))


def _parity_by_k(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A wait whose phase is not the one that its k-block has in the ring, as all other waits on the barrier
    have.
    """
    k, stage = root.event.k, root.event.stage
    every = [
        wait
        for history in graph.groups[root.actor.group]
        if history.actor.role == root.actor.role
        for wait in history.waits
        if wait.event.barrier == root.event.barrier and wait is not root
    ]
    told = [(w.event.k, w.event.stage, w.event.phase) for w in every]
    if k is None or stage is None or any(None in one or one[2] not in (0, 1) for one in told):
        return None
    stages = max([stage, *(one[1] or 0 for one in told)]) + 1
    ring = all((one[0] or 0) % stages == one[1] for one in told) and k % stages == stage
    offsets = {((one[0] or 0) // stages + (one[2] or 0)) & 1 for one in told}
    if not ring or len(offsets) != 1 or stages < 2:
        return None
    right = (k // stages + next(iter(offsets))) & 1
    if right == root.event.phase:
        return None
    what = (
        f"wrong parity: {root.actor} waits for phase {root.event.phase} of "
        f"{copy(graph, root)}{block_text(k)}, where its "
        f"other k-blocks give phase {right}"
    )
    fix = f"{root.actor}: wait for phase {right} of {barrier_text(graph, root)}{block_text(k)}"
    other = every[-1].event.line
    weight = 97 if len(told) > 1 else 93
    return HangCause(
        "wrong-parity", what, [root.event.line, other], weight, fix, root.actor, (other, root.event.line)
    )


def same_place_in_time(graph: WaitGraph, one: Wait, other: Wait) -> bool:
    """As `same_round`, by k-block where both tell it."""
    if one.event.k is not None and other.event.k is not None and one.event.k != other.event.k:
        return False
    known = one.event.k is not None or not graph.log.head_missing
    return known and same_round(graph, one, other)


def _parity_elsewhere(graph: WaitGraph, root: Wait) -> HangCause | None:
    for history in graph.groups[root.actor.group]:
        for place in history.places():
            odd = _deviation(history.on(place))
            if odd is not None:
                phase = odd.event.phase
                what = (
                    f"wrong parity: {history.actor} waits for phase {phase} of {copy(graph, odd)} out of turn"
                )
                weight = 75 if history.actor != root.actor else 90
                fix = f"flip the phase bit of {history.actor} after every wait on {barrier_text(graph, odd)}"
                return HangCause(
                    "wrong-parity", what, [odd.event.line], weight, fix, history.actor, (odd.event.line,)
                )
    return None


def lapped(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Two phases went by: the parity waited for is again that of the phase under way."""
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
        "so the parity it waits for is that of the phase under way"
    )
    fix = (
        f"have the producer wait until {root.actor} has taken a phase of "
        f"{barrier_text(graph, root)} before it makes the next"
    )
    return HangCause(
        "lapped", what, [root.event.line, *told[need - 1 :]], 86, fix, None, (root.event.line, told[-1])
    )


def bytes_missing(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The arrival announced bytes, and the phase did not complete."""
    if not satisfied(graph, root):
        return None
    exact = state(graph, root)
    if exact is not None and exact.announced == exact.copied:
        return None
    made = arrivals(graph, root) or before_the_log(graph, root)
    told = [event for event in made if event.bytes]
    planned = 0
    if graph.plan is not None:
        barriers = [b for b in graph.plan.barriers if b.name.replace("_", "").lower() == root.event.barrier]
        planned = max((b.tx_bytes for b in barriers), default=0)
    if not told and not planned:
        return None
    short = _short(graph, root)
    if short is not None:
        return short
    sizes = [event.size for event in told if event.size]
    announced = f"its arrival announces {sizes[-1]} bytes" if sizes else "its arrival announces bytes"
    expects = f"the plan expects {planned} bytes" if planned else announced
    what = (
        f"bytes never came: {made[-1].actor} arrived on {copy(graph, root)}, {expects}, and the phase "
        "did not complete: a copy was not issued, was issued on another barrier, or brought fewer bytes"
    )
    lines = [root.event.line, *(event.line for event in made)]
    size = f" {planned or sizes[-1]}" if planned or sizes else " the announced"
    fix = (
        f"issue copies of{size} bytes on {barrier_text(graph, root)}, or expect fewer; print each "
        f"copy's bytes to see which"
    )
    culprit = told[-1].actor if told else made[-1].actor
    return HangCause(
        "bytes-missing", what, lines, 88, fix, culprit, (culprit_line(told or made), root.event.line)
    )


def culprit_line(events: list[LogEvent]) -> int:
    """The line of the last of some events."""
    return events[-1].line


def _short(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Announced and issued bytes, in numbers, where the log tells both."""
    for actor in producers(graph, root):
        history = graph.histories[actor]
        need = arrivals_of(graph, actor, root)
        if need is None or not need.size:
            continue
        issued = [
            event for event in history.copies.get(root.place, []) if _belongs(history, root, need, event)
        ]
        if not issued and not any(history.copies.values()):
            continue
        total = sum(event.size for event in issued)
        if total == need.size:
            continue
        where = f"{copy(graph, root)}{block_text(need.k)}"
        what = f"bytes differ: {actor} announced {need.size} bytes on {where} and issued copies of {total}"
        less = need.size - total
        what += f": {less} never come" if less > 0 else f", {-less} more than the phase can take"
        fix = f"{actor}: expect {total} bytes on {barrier_text(graph, root)}, or issue copies of {need.size}"
        if not total:
            fix = (
                f"{actor}: issue the copy of {need.size} bytes on "
                f"{barrier_text(graph, root)}{block_text(need.k)}"
            )
        lines = [root.event.line, need.line, *(event.line for event in issued)]
        return HangCause(
            "bytes-missing",
            what,
            lines,
            99,
            fix,
            actor,
            (need.line, *(e.line for e in issued[:1]), root.event.line),
        )
    return None


def arrivals_of(graph: WaitGraph, actor: Actor, root: Wait) -> LogEvent | None:
    """The arrival of one producer that the root needs."""
    found = [event for event in arrivals(graph, root) if event.actor == actor]
    return found[0] if found else None


def _belongs(history: History, root: Wait, need: LogEvent, event: LogEvent) -> bool:
    """Whether a copy is of the arrival's phase: of its k-block, or between it and its neighbours."""
    if event.k is not None and need.k is not None:
        return bool(event.k == need.k)
    every = history.arrivals(root.place)
    at = every.index(need)
    after = every[at + 1].line if at + 1 < len(every) else 1 << 60
    return bool(need.line <= event.line < after)


def wrong_copy(graph: WaitGraph, root: Wait) -> HangCause | None:
    """An arrival that was meant for another CTA's copy and stayed in its own."""
    if not satisfied(graph, root) or passed_elsewhere(graph, root):
        return None
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


def too_few(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Every known producer arrived."""
    if not satisfied(graph, root):
        return None
    made = arrivals(graph, root)
    early = before_the_log(graph, root)
    if early and not made:
        return _before(graph, root, early)
    what = (
        f"the barrier counts more arrivals than were made: every producer that the log names has arrived on "
        f"{copy(graph, root)} for this phase, or the arrival came before the barrier was initialised"
    )
    exact = state(graph, root)
    if exact is not None and exact.arrivals % exact.count:
        what = f"too few arrivals on {copy(graph, root)}: {exact}"
        less = exact.count - exact.arrivals % exact.count
        fix = (
            f"initialise {barrier_text(graph, root)} in CTA {root.actor.cta} with the arrivals that come a "
            f"phase, not {exact.count}, or have the missing {less} made"
        )
        lines = [root.event.line, *(event.line for event in made)]
        show = (*(event.line for event in made[:2]), root.event.line)
        return HangCause("too-few-arrivals", what, lines, 97, fix, None, show)
    count = len(made)
    fix = (
        f"initialise {barrier_text(graph, root)} with the count of arrivals that come "
        f"({count} {'is' if count == 1 else 'are'} logged a phase), or have all its producers arrive"
    )
    lines = [root.event.line, *(event.line for event in made)]
    weight = 60 if all(wait is root for wait in graph.histories[root.actor].on(root.place)) else 55
    return HangCause(
        "too-few-arrivals",
        what,
        lines,
        weight,
        fix,
        None,
        (*(event.line for event in made[:2]), root.event.line),
    )


def _before(graph: WaitGraph, root: Wait, early: list[LogEvent]) -> HangCause:
    who = early[0].actor
    what = (
        f"the arrival that {copy(graph, root)} waits for would stand in the missing head of the log: {who} "
        f"went past it, so "
        "it made it and the phase lacks something else, or it left it out"
    )
    fix = (
        f"print the whole log (a larger cudaLimitPrintfFifoSize), or look at the arrival of {who} "
        f"on {barrier_text(graph, root)}{block_text(root.event.k)}"
    )
    lines = [root.event.line, early[0].line]
    return HangCause("before-the-log", what, lines, 60, fix, who, (early[0].line, root.event.line))


def lost(graph: WaitGraph, root: Wait) -> HangCause | None:
    """Always possible."""
    what = (
        f"lines are missing: {root.actor} had passed {copy(graph, root)}, or the arrival was made, and the "
        "line that tells of it was lost when the run was killed"
    )
    fix = "flush the log (cudaDeviceSynchronize with a larger cudaLimitPrintfFifoSize) and read it again"
    return HangCause(
        "lost-lines", what, [root.event.line, len(graph.log.lines)], 10, fix, None, (root.event.line,)
    )
