"""Rules about the parity of a wait: out of turn, unlike the other CTA's, or of a phase that has passed.

PTX ISA, mbarrier: a wait for the parity of the phase under way blocks.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Literal

from tileproof.conformance.beside.logs.hangs.cause import (
    HangCause,
    arrivals,
    barrier_text,
    block_text,
    copy,
    producers,
    same_round,
    satisfied,
)
from tileproof.conformance.beside.logs.hangs.graph import WaitGraph
from tileproof.conformance.beside.logs.hangs.histories import Wait


def _deviation(waits: list[Wait]) -> Wait | None:
    """The first wait whose phase does not follow the phase of the previous wait."""
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


def _stages_unprinted(graph: WaitGraph, root: Wait) -> Literal["", "perhaps", "certainly"]:
    """Whether the barrier may have stages that the log does not print: each stage has phases of its own.

    Two waits in a row that ended, for one phase, show it; three for alternating phases show the contrary.
    """
    if any(event.stage is not None for event in graph.log.events):
        return ""
    alternate = False
    for history in graph.groups[root.actor.group]:
        waits = history.on(root.place) if history.actor.role == root.actor.role else []
        phases = [wait.event.phase for wait in waits if wait.passed]
        if any(a is not None and a == b for a, b in pairwise(phases)):
            return "certainly"
        alternate |= len(phases) > 2
    return "" if alternate else "perhaps"


def _usual_step(waits: list[Wait]) -> int:
    """The k-block increment from wait to wait; 0 if k-blocks do not show it."""
    numbers = [wait.event.k for wait in waits]
    if None in numbers or len(numbers) < 3:
        return 0
    return min((b - a for a, b in pairwise(numbers) if a is not None and b is not None and b > a), default=1)


def wrong_parity(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A wait for a parity out of turn, unlike the other CTA's, or of the current phase."""
    own = graph.histories[root.actor].on(root.place)
    stages = _stages_unprinted(graph, root)
    odd = _deviation(own) if stages != "certainly" else None
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
        weight = 93 if stages else 97
        return HangCause(
            "wrong-parity", what, lines, weight, fix, root.actor, (before.event.line, odd.event.line)
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
                f"{1 - phase} would pass; {root.actor} waits for parity {phase}, which is the current phase"
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
        what = f"wrong parity, perhaps: the log does not show the phase for which {root.actor} waits"
        fix = f"print the phase with each wait on {barrier_text(graph, root)}"
        return HangCause("wrong-parity", what, [root.event.line], 45, fix, root.actor, (root.event.line,))
    return _fresh_free(graph, root) or _parity_elsewhere(graph, root)


_FREES = re.compile(r"empty|free|avail")


def _fresh_free(graph: WaitGraph, root: Wait) -> HangCause | None:
    """The first wait for an initially free buffer, with parity 0, before any arrival."""
    first = root.ordinal == 0 and root.event.phase == 0 and root.event.k in (None, 0)
    if not first or graph.log.head_missing or not _FREES.search(root.event.barrier):
        return None
    if any(h.arrivals_on(root.event.barrier) for h in graph.groups[root.actor.group]):
        return None
    what = (
        f"wrong parity: {root.actor} waits for phase 0 of {copy(graph, root)} before any arrival on it; "
        "the first wait for a free buffer passes at once with parity 1"
    )
    fix = f"{root.actor}: start with parity 1 on {barrier_text(graph, root)}"
    lines = [root.event.line]
    return HangCause("wrong-parity", what, lines, 91, fix, root.actor, (root.event.line,))


def _parity_by_k(graph: WaitGraph, root: Wait) -> HangCause | None:
    """A wait whose phase is not that of its k-block in the ring, while all other waits on the barrier agree
    with the ring.
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


def same_place_in_time(graph: WaitGraph, wait: Wait, other: Wait) -> bool:
    """As `same_round`, by k-block if both waits have one."""
    if wait.event.k is not None and other.event.k is not None and wait.event.k != other.event.k:
        return False
    known = wait.event.k is not None or not graph.log.head_missing
    return known and same_round(graph, wait, other)


def _parity_elsewhere(graph: WaitGraph, root: Wait) -> HangCause | None:
    for history in graph.groups[root.actor.group]:
        for place in history.places():
            waits = history.on(place)
            odd = _deviation(waits) if not waits or not _stages_unprinted(graph, waits[0]) else None
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
