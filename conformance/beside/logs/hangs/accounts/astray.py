"""An arrival on a barrier on which its actor should not arrive."""

from __future__ import annotations

from collections.abc import Iterator

from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason, WaitEvidence
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep
from tileproof.conformance.beside.logs.hangs.log import Actor


class Astray(WaitEvidence):
    """Arrivals that no role needs, where a blocked wait has none."""

    def astray(self) -> list[LoggedReason]:
        """Arrivals on a barrier on which the actor itself waits, twice in a row, or with another role's
        barrier, where a blocked wait has no arrival.
        """
        found = []
        for actor in self.trace.steps if not self.trace.dump else ():
            for step, odd, why in self._strange(actor):
                wait = self._victim(actor, odd, step.count)
                if wait is None:
                    continue
                what = (
                    f"an arrival went to another barrier: {actor} arrived on {odd}, {why}, and its "
                    f"arrival on {wait.copy} is missing"
                )
                fix = f"{actor}: arrive on {wait.copy}, not on {odd}"
                lines = [step.line, wait.step.line]
                found.append(
                    LoggedReason("wrong-barrier", wait.copy, wait.actor, what, fix, lines, 94, actor, False)
                )
                break
        return found

    def instead(self, reasons: list[LoggedReason]) -> list[LoggedReason]:
        """Missing arrivals in whose gap their actor made an arrival that no phase needs."""
        found = []
        for reason in reasons:
            actor, copy = reason.culprit, reason.copy
            if reason.code != "skipped-arrive" or actor is None or self.trace.dump or len(reason.lines) < 3:
                continue
            first, last = reason.lines[0], reason.lines[1]
            if not any(first in (step.line, step.end) for step in self.trace.steps[actor]):
                first = 0  # a line of another actor of the role
            for step, odd, why in self._strange(actor):
                if first <= step.line <= last and odd != copy and (odd not in self.ledger.twins(copy)):
                    what = (
                        f"an arrival went to another barrier: {actor} arrived on {odd}, {why}, and its "
                        f"arrival on {copy} is missing"
                    )
                    fix = f"{actor}: arrive on {copy}, not on {odd}"
                    lines = [step.line, reason.lines[-1]]
                    weight = reason.weight + 1
                    found.append(
                        LoggedReason(
                            "wrong-barrier", copy, reason.waiter, what, fix, lines, weight, actor, False
                        )
                    )
                    break
        return found

    def _strange(self, actor: Actor) -> Iterator[tuple[LoggedStep, Copy, str]]:
        ledger = self.ledger
        again = self.again_in_a_round(actor)
        for step in self.trace.steps[actor]:
            for copy in step.to if step.kind == "arrive" else ():
                role = ledger.program(actor)
                others = [each for each in ledger.producers(copy) if ledger.program(each) != role]
                waits = {ledger.program(each) for each in ledger.waiters(copy)}
                init = ledger.init(copy)
                whole = any(ledger.each.get((each, ledger.family(copy)), 0) == init for each in others)
                shared = any(ledger.made.get((peer, copy)) for peer in ledger.peers(actor))
                declared = ledger.declared(copy)
                if declared and not ledger.is_declared(actor, copy):
                    yield step, copy, f"on which {' and '.join(sorted(declared))} should arrive"
                elif role in waits and not shared and not ledger.is_stated(copy):
                    yield step, copy, "on which it waits itself"
                elif (step, copy) in again:
                    yield step, copy, "a second time in the round"
                elif not declared and init and whole and ledger.made.get((actor, copy), 0) <= 2:
                    yield step, copy, f"on which {others[0]} arrives"
                elif init and step.count > init:
                    yield step, copy, f"whose phase needs {init} arrivals, not {step.count}"
                elif not step.bytes and self._announces(actor, copy):
                    yield step, copy, "without the bytes that it announces there otherwise"

    def _announces(self, actor: Actor, copy: Copy) -> bool:
        """Whether a single arrival of an actor on a barrier announces no bytes."""
        some = [
            step.bytes > 0
            for step in self.trace.steps[actor]
            if step.kind == "arrive" and any(each in self.ledger.siblings(copy) for each in step.to)
        ]
        return len(some) > 1 and some.count(False) == 1

    def _victim(self, actor: Actor, odd: Copy, width: int) -> Blocked | None:
        """The blocked wait that lacks the arrival: no role arrives on its barrier."""
        ledger = self.ledger
        bare = [
            wait
            for wait in self.blocked
            if wait.actor != actor
            and wait.copy != odd
            and ledger.program(actor) not in {ledger.program(each) for each in ledger.waiters(wait.copy)}
            and not ledger.threads[wait.copy]
            and wait.need > 0
        ]
        if not bare:
            bare = [
                wait
                for wait in self.blocked
                if actor in ledger.lacks(wait) and wait.copy != odd and wait.actor != actor
            ]
        fits = []
        for wait in bare:
            init = ledger.init(wait.copy)
            if not init or (init >= width and (width > 1 or init < 32)):
                fits.append(wait)
        same = [wait for wait in fits if ledger.family(wait.copy)[:2] == ledger.family(odd)[:2]]
        mine = self.waits.get(actor)
        near = [wait for wait in fits if mine is not None and wait.actor in ledger.lacks(mine)]
        # who fills the barrier of the odd arrival waits until it is free
        pair = [wait for wait in fits if wait.actor in ledger.producers(odd)]
        some = same or near or pair or fits
        return some[0] if some else None
