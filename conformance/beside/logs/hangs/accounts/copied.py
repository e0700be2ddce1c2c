"""A phase whose bytes differ: those announced for it, and those copied."""

from __future__ import annotations

from collections import Counter

from tileproof.conformance.beside.logs.hangs.accounts.copiers import doubtful, owing
from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason, WaitEvidence
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy
from tileproof.conformance.beside.logs.hangs.log import Actor

_DOUBTFUL = 80  # other causes come first


class Copied(WaitEvidence):
    """By the bytes of a blocked wait's barrier."""

    def unequal_bytes(self, wait: Blocked, late: list[Actor]) -> list[LoggedReason]:
        copy, ledger = wait.copy, self.ledger
        state = self.trace.states.get(copy)
        if state is not None and state.tx_left is not None:
            lack = state.tx_left
            if not lack or state.pending not in (0, None):
                return []
        else:
            lack = ledger.announced[copy] - ledger.copied[copy]
            if lack == 0 or not ledger.copied or not ledger.announced[copy] or (late and lack > 0):
                return []
            if lack > 0 and (owe := owing(ledger, wait)):
                return [reason for actor in owe if (reason := self._copier_ended(wait, actor))]
        told: Counter[Actor] = Counter()
        for actor, steps in self.trace.steps.items():
            for step in steps:
                if copy in step.to and step.kind in ("arrive", "copy"):
                    told[actor] += step.bytes if step.kind == "arrive" else -step.bytes
        if lack < 0 and late and not any(told[actor] < 0 for actor in late):
            return []  # others copied ahead of its announcement
        who = next((actor for actor, less in told.items() if less), None)
        if who is not None and lack < 0 and told[who] < 0:
            line = self.trace.lines_of[who]
            what = f"an arrival is missing: {who} copied {-lack} bytes to {copy} and did not announce them"
            fix = f"{who}: arrive on {copy} with the bytes of its copies"
            lines = [line, wait.step.line]
            return [LoggedReason("skipped-arrive", copy, wait.actor, what, fix, lines, 97, who, False)]
        who = who or next(iter(sorted(ledger.producers(copy))), None)
        last = [s.line for a in ledger.producers(copy) for s in self.trace.steps[a] if copy in s.to]
        what = f"bytes differ on {copy}: {abs(lack)} bytes that were announced were not copied"
        if lack < 0:
            what = f"bytes differ on {copy}: {-lack} bytes more were copied than announced"
        fix = f"{who}: announce on {copy} exactly the bytes that its copies write"
        lines = [*last[-2:], wait.step.line]
        sure, weight = state is not None or self._all_copies(copy), 97
        if lack > 0 and doubtful(ledger, wait):
            sure, weight = False, _DOUBTFUL
        return [LoggedReason("bytes-missing", copy, wait.actor, what, fix, lines, weight, who, sure)]

    def _copier_ended(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        """An actor that ended, or printed nothing more, in front of its copies for the awaited phase."""
        if actor in self.waits:
            return None
        ended = actor in self.trace.ended
        line = self.trace.ended.get(actor, self.trace.lines_of[actor])
        told = "ended" if ended else "printed nothing more"
        what = f"{actor} {told} (line {line}) before its copies to {wait.copy} that {wait.actor} waits for"
        fix = f"give {actor} and {wait.actor} the same number of rounds"
        code = "k-count" if ended else "producer-stopped"
        lines = [line, wait.step.line]
        return LoggedReason(code, wait.copy, wait.actor, what, fix, lines, 88, actor, False)

    def _all_copies(self, copy: Copy) -> bool:
        """Whether no line of a copy is missing: as many for each announcement as on the other stages."""
        shares = {}
        for each in self.ledger.siblings(copy):
            kinds = [step.kind for steps in self.trace.steps.values() for step in steps if each in step.to]
            if told := kinds.count("arrive"):
                shares[each] = kinds.count("copy") / told
        return shares.get(copy) == max(shares.values(), default=None)
