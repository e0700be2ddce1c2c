"""A missing arrival, by its role's other actors: one omits it, or all of them make it too late."""

from __future__ import annotations

from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason, WaitEvidence
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.log import Actor


class Together(WaitEvidence):
    """An omission may be of one actor; an order is of all actors of a role."""

    def unlike_twin(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        """An actor that stands in the same wait as another of its role, which made the arrival."""
        ledger, mine = self.ledger, self.waits.get(actor)
        if mine is None or self.trace.dump:
            return None
        for twin in ledger.fellows(actor):
            its = self.waits.get(twin)
            if (
                its is None
                or twin.group != actor.group
                or ledger.family(its.copy)[1] != ledger.family(mine.copy)[1]
            ):
                continue
            done = ledger.total(twin, wait.copy) - ledger.total(actor, wait.copy)
            same = ledger.passes_of(twin) == ledger.passes_of(actor) or its.copy == mine.copy
            if twin.cta == actor.cta and same and its.passed == mine.passed and done == 1:
                what = (
                    f"an arrival is missing: {actor} and {twin} wait on {mine.copy} (line {mine.step.line}), "
                    f"and only {twin} arrived on {wait.copy} before"
                )
                fix = f"{actor}: arrive on {wait.copy} before its wait on {mine.copy}, as {twin} does"
                lines = [self.last_arrival(twin, wait.copy), mine.step.line, wait.step.line]
                return LoggedReason("skipped-arrive", wait.copy, wait.actor, what, fix, lines, 96, actor)
        return None

    def too_late(self, wait: Blocked, late: list[Actor], found: list[LoggedReason]) -> LoggedReason | None:
        """Arrivals that all actors of a role lack, while they wait for what the waiter is needed for: they
        wait before they arrive.
        """
        if self.trace.dump or self.ledger.by_states or any(each.code != "skipped-arrive" for each in found):
            return None
        for actor in [each.culprit for each in found if each.culprit is not None]:
            mine = self.waits.get(actor)
            if mine is None or mine is wait or not self.depends(mine, wait):
                continue
            role = self.ledger.common(actor)
            some = [each for each in late if self.ledger.common(each) == role]
            others = [each for each in self.ledger.fellows(actor) if each in self.ledger.producers(wait.copy)]
            if {*others} - {*some}:
                continue  # another actor of the role made it: this one omitted it
            if self._stops_at(actor, wait) and len(some) > 1:
                what = (
                    f"they wait for each other: {actor} waits on {mine.copy} before its arrival on "
                    f"{wait.copy}, which {wait.actor} waits for"
                )
                fix = f"{actor}: arrive on {wait.copy} before the wait on {mine.copy}"
                lines = [mine.step.line, wait.step.line]
                weight = 1 + max(each.weight for each in found)
                return LoggedReason("cycle", wait.copy, wait.actor, what, fix, lines, weight, actor)
        return None

    def _stops_at(self, actor: Actor, wait: Blocked) -> bool:
        """Whether the missing arrival is an actor's next on a ring, and it left out none before."""
        ledger = self.ledger
        size = len(ledger.siblings(wait.copy))
        stages = [
            ledger.stage(to)
            for step in self.trace.steps[actor]
            for to in step.to
            if step.kind == "arrive" and ledger.family(to) == ledger.family(wait.copy)
        ]
        stages.append(ledger.stage(wait.copy))
        return size == 1 or all((then - first) % size == 1 for first, then in pairwise(stages))
