"""A cause by the accounts of a trace, and the steps of each role as its rules compare them.

A cause is a code of the explainer (docs/explain.md), the wait to look at, and the actor at fault.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def depends(self, wait: Blocked, on: Blocked) -> bool:
        """Whether a blocked wait depends, through other blocked actors, on the actor of another blocked
        wait."""
        seen: set[Actor] = set()
        todo = [wait]
        while todo:
            for actor in self.ledger.lacks(todo.pop()):
                if actor == on.actor:
                    return True
                if actor not in seen and actor in self.waits:
                    seen.add(actor)
                    todo.append(self.waits[actor])
        return False
