"""A missing arrival, by the counts of a dump, which has no order."""

from __future__ import annotations

from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason, WaitEvidence
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy
from tileproof.conformance.beside.logs.hangs.log import Actor

_NOT_YET = (
    70  # the actor's own wait explains that it has not come so far, and the waiter is not needed for it
)


class Counted(WaitEvidence):
    """By how often an actor passed its barriers and arrived."""

    def in_part(self, wait: Blocked) -> list[LoggedReason]:
        """By the state of a barrier: a part of a phase's arrivals came, and no producer owes the rest."""
        copy, ledger = wait.copy, self.ledger
        state, init = self.trace.states.get(copy), ledger.init(copy)
        pending = state.pending if state is not None else None
        producers = ledger.producers(copy)
        if state is None or not pending or not 0 < pending < init or not producers:
            return []
        width, rest = divmod(init, len(producers))
        if len(producers) > 1 and not rest and pending % width == 0:
            return []  # perhaps the arrival of one of them is missing
        what = f"too few arrivals on {copy}: {init - pending} of {init} came, of {len(producers)} producers"
        right = init - pending
        fix = f"initialise {copy} with the arrivals of a phase ({right}, not {init}), or add the others"
        lines = [state.line, wait.step.line]
        return [LoggedReason("too-few-arrivals", copy, wait.actor, what, fix, lines, 90, None, False)]

    def omitted_by_count(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        """By the counts of a dump: fewer arrivals than the actor's other steps."""
        copy, ledger = wait.copy, self.ledger
        total = ledger.total(actor, copy)
        odd = self._odd_arrival(actor, copy)
        if odd is not None:
            what = f"an arrival went to another barrier: {actor} arrived on {odd}, and not on {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            return LoggedReason(
                "wrong-barrier", copy, wait.actor, what, fix, [wait.step.line], 92, actor, False
            )
        rounds = self._rounds(actor, copy)
        if rounds is None or total >= rounds:
            return None
        lines = [self.trace.lines_of[actor], wait.step.line]
        what = (
            f"an arrival is missing: {actor} arrived {total} times on {copy.barrier}, and passed its other "
            f"barriers {rounds} times"
        )
        fix = f"{actor}: arrive on {copy} in every round"
        mine = self.waits.get(actor)
        elsewhere = mine is not None and ledger.lacks(mine) and not self.depends(mine, wait)
        weight = _NOT_YET if elsewhere else 85
        return LoggedReason("skipped-arrive", copy, wait.actor, what, fix, lines, weight, actor, False)

    def _rounds(self, actor: Actor, copy: Copy) -> int | None:
        """How often an actor should have arrived on a barrier, by its steps on other barriers."""
        ledger = self.ledger
        families = ledger.passes_of(actor)
        blocked = self.waits.get(actor)
        least = list(families.values())
        for who, each in ledger.made:
            if who == actor and ledger.family(each) != ledger.family(copy):
                least.append(ledger.total(actor, each))
        if not least:
            return None
        total = ledger.total(actor, copy)
        if blocked is not None:
            at = families.get(ledger.family(blocked.copy), 0)
            return at if at - total == 1 else None
        near = [count for count in least if count - total == 1]
        return total + 1 if near and len(near) == len([c for c in least if c > 1 or c >= total]) else None

    def _odd_arrival(self, actor: Actor, copy: Copy) -> Copy | None:
        """A barrier on which a dump counts an arrival of the actor that no phase needs."""
        ledger = self.ledger
        for who, other in ledger.made:
            if who != actor or other == copy:
                continue
            if ledger.family(other) == ledger.family(copy):
                ring = ledger.siblings(copy)
                counts = [ledger.made.get((actor, each), 0) for each in ring]
                if max(counts) - min(counts) > 1 and (self._rounds(actor, copy) or 0) <= sum(counts):
                    return other
                continue
            rest = [each for each in ledger.producers(other) if each != actor]
            widths = sum(ledger.each.get((each, ledger.family(other)), 1) for each in [actor, *rest])
            crowded = widths > ledger.init(other) or not ledger.init(other)
            if rest and crowded and all(ledger.program(each) != ledger.program(actor) for each in rest):
                return other
            peers = self.ledger.peers(actor)
            theirs = any(ledger.total(peer, other) for peer in peers)
            if not theirs and any(ledger.total(peer, copy) > ledger.total(actor, copy) for peer in peers):
                return other
        return None
