"""A cause by the accounts of a trace, and the steps of each role as its rules compare them.

A cause is a code of the explainer (docs/explain.md), the wait to look at, and the actor at fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.conformance.beside.logs.hangs.accounts.arrivers import Family
from tileproof.conformance.beside.logs.hangs.accounts.copiers import owing
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked, Ledger
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep
from tileproof.conformance.beside.logs.hangs.log import Actor

Token = tuple[str, str, int]  # kind, barrier without stage, CTA


@dataclass(eq=False)
class LoggedReason:
    """`copy`: the barrier at fault; `waiter`: who waits on it; `lines`: what shows it; `sure`: the accounts
    leave no other reading.
    """

    code: str
    copy: Copy
    waiter: Actor
    what: str
    fix: str
    lines: list[int]
    weight: int
    culprit: Actor | None = None
    sure: bool = False


class WaitEvidence:
    """The blocked waits of a ledger, and the steps of its actors."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.trace = ledger.trace
        self.blocked = ledger.blocked
        self._tokens: dict[Actor, list[tuple[Token, LoggedStep]]] = {}
        self.waits = {wait.actor: wait for wait in self.blocked}

    def last_arrival(self, actor: Actor, copy: Copy) -> int:
        lines = [s.line for s in self.trace.steps[actor] if copy in s.to and s.kind == "arrive"]
        return lines[-1] if lines else 0

    @staticmethod
    def one_cta(
        wait: Blocked,
        actor: Actor,
        what: str,
        lines: list[int],
        weight: int,
        sure: bool,
        code: str = "one-cta",
    ) -> LoggedReason:
        """An arrival of `actor` that did not reach the CTA whose barrier is waited on."""
        fix = f"{actor}: arrive on {wait.copy} too (a commit with the multicast mask of both CTAs)"
        return LoggedReason(code, wait.copy, wait.actor, what, fix, lines, weight, actor, sure)

    def token_of(self, actor: Actor, kind: str, copy: Copy) -> Token:
        return kind, self.ledger.family(copy)[1], copy.owner if actor.cta >= 0 else -1

    def tokens(self, actor: Actor) -> list[tuple[Token, LoggedStep]]:
        if actor not in self._tokens:
            found: list[tuple[Token, LoggedStep]] = []
            for step in self.trace.steps[actor]:
                if step.kind == "end":
                    found.append((("end", "", 0), step))
                elif step.kind != "copy":
                    found += [(self.token_of(actor, step.kind, copy), step) for copy in step.to]
            self._tokens[actor] = found
        return self._tokens[actor]

    def awaits(self, wait: Blocked) -> list[Actor]:
        """The actors whose arrivals or copies a blocked wait lacks."""
        late = self.ledger.lacks(wait)
        return late + [actor for actor in owing(self.ledger, wait) if actor not in late]

    def depends(self, wait: Blocked, on: Blocked) -> bool:
        """Whether a blocked wait depends, through other blocked actors, on the actor of another blocked
        wait."""
        seen: set[Actor] = set()
        todo = [wait]
        while todo:
            for actor in self.awaits(todo.pop()):
                if actor == on.actor:
                    return True
                if actor not in seen and actor in self.waits:
                    seen.add(actor)
                    todo.append(self.waits[actor])
        return False

    def again_in_a_round(self, actor: Actor, on: Copy | None = None) -> list[tuple[LoggedStep, Copy]]:
        """Arrivals on a barrier that come a second time in a round: a loop repeats a wait between them.

        That is a wait which stands behind the arrival before and in front of it; it is the last in front of
        all other arrivals where these have the same. `on`: of this barrier alone.
        """
        waits: list[Family] = []
        places: dict[Copy, list[tuple[LoggedStep, int]]] = {}  # arrivals, and the waits before each
        for step in self.trace.steps[actor]:
            if step.kind == "wait":
                waits.append(self.ledger.family(step.to[0]))
            elif step.kind == "arrive":
                for copy in {*step.to}:
                    places.setdefault(copy, []).append((step, len(waits)))
        found = []
        for copy, some in places.items() if on is None else [(on, places.get(on, []))]:
            for at in range(1, len(some)):
                (_, first), (step, now) = some[at - 1], some[at]
                before = {*waits[some[at - 2][1] if at > 1 else 0 : first]}
                since = {*waits[first:now]}
                usual = {
                    waits[end - 1] if end else None for other, (_, end) in enumerate(some) if other != at
                }
                odd = len(some) > 2 and len(usual) == 1 and None not in usual and usual.isdisjoint(since)
                other = bool(before) and before.isdisjoint(since)
                if (odd or other or not since) and self._complete(actor, copy, step):
                    found.append((step, copy))
        return found

    def _complete(self, actor: Actor, copy: Copy, step: LoggedStep) -> bool:
        """Whether a phase is complete with an arrival of each of the barrier's producers."""
        ledger = self.ledger
        init, family = ledger.init(copy), ledger.family(copy)
        if not init:
            return step.count == 1 and (len(ledger.siblings(copy)) == 1 or not ledger.is_ring(copy))
        return sum(ledger.each.get((each, family), 1) for each in {actor, *ledger.producers(copy)}) >= init
