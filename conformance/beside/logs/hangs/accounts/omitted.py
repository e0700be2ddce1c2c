"""An arrival that is missing, went to another barrier, or comes after a wait that needs it."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason, Token, WaitEvidence
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep
from tileproof.conformance.beside.logs.hangs.log import Actor


class Omitted(WaitEvidence):
    """By the order of an actor's steps in its other rounds, or in its role's other actors."""

    def wrong_stage(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        """An arrival on a stage out of the ring's order."""
        copy, ledger = wait.copy, self.ledger
        ring = ledger.siblings(copy)
        if self.trace.dump or len(ring) < 2 or not ledger.is_ring(copy):
            return None
        mine = [
            (each, step)
            for step in self.trace.steps[actor]
            if step.kind == "arrive"
            for each in step.to
            if each in ring
        ]
        for at, ((before, prior), (odd, step)) in enumerate(pairwise(mine)):
            turn = (ledger.stage(before) + 1) % len(ring)
            if ledger.stage(odd) == turn:
                continue
            then = ledger.stage(mine[at + 2][0]) if at + 2 < len(mine) else -1
            turns = [each.turn for _, each in mine[max(0, at - 1) : at + 2]]
            known = [each for each in turns if each is not None]
            jump = len(known) == 3 and known[2] - known[1] > known[1] - known[0]
            omits = then == (ledger.stage(odd) + 1) % len(ring) and then != (turn + 1) % len(ring)
            paired = self._pairing(actor, prior, before), self._pairing(actor, step, odd)
            if None not in paired:
                omits = paired[0] == paired[1]
            if len(ring) > 2 and ledger.stage(odd) == ledger.stage(before):
                omits = jump = False  # more than one arrival would have to be missing
            if turn != ledger.stage(copy):
                return None
            walks = len({each for each, _ in mine}) > 1  # else its stage may be one of its own
            if omits or jump:
                what = (
                    f"an arrival is missing: {actor} arrived on {before} and then on {odd}, without {copy} "
                    "between them"
                )
                fix = f"{actor}: arrive on {copy} between them"
                lines = [prior.line, step.line, wait.step.line]
                sure = walks and not self._may_come_late(wait, actor)
                return LoggedReason("skipped-arrive", copy, wait.actor, what, fix, lines, 95, actor, sure)
            what = f"wrong stage: {actor} arrived on {odd}, where the turn is {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            lines = [step.line, wait.step.line]
            return LoggedReason("wrong-stage", copy, wait.actor, what, fix, lines, 96, actor, walks)
        return None

    def _pairing(self, actor: Actor, step: LoggedStep, copy: Copy) -> int | None:
        """The stage of an arrival less that of the wait before it on a ring of the same size."""
        ledger = self.ledger
        size = len(ledger.siblings(copy))
        steps = self.trace.steps[actor]
        for each in reversed(steps[: steps.index(step)]):
            if each.kind == "wait" and len(ledger.siblings(each.to[0])) == size:
                return (ledger.stage(copy) - ledger.stage(each.to[0])) % size
        return None

    def omitted(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        copy = wait.copy
        want = self.token_of(actor, "arrive", copy)
        mine = self.tokens(actor)
        late = self.ledger.lacks(wait)
        peers = [peer for peer in self.ledger.peers(actor) if peer not in late]
        made = [at for at, (token, step) in enumerate(mine) if token == want and copy in step.to]
        last = made[-1] if made else 0
        own = self._until_behind(mine, last, want)
        others = [[self._as_mine(actor, peer, token) for token, _ in self.tokens(peer)] for peer in peers]
        follows: dict[Token, Counter[bool]] = {}
        pairs: Counter[tuple[Token, Token]] = Counter()
        around: set[tuple[Token, Token]] = set()
        if self.ledger.is_ring(copy) and not made:  # another stage may show where the arrival stands
            first = next((at for at, (token, _) in enumerate(mine) if token == want), None)
            own = self._until_behind(mine, first, want) if first is not None else []
            last = first or 0
        for plain in [own, *others] if own else others:
            for at, pair in enumerate(pairwise(plain)):
                if pair[1] == want:
                    rest = (each for each in plain[at + 2 :] if each[:2] != want[:2])  # not of a multicast
                    around.update((pair[0], each) for each in islice(rest, 1))
                if plain is own and at >= last:
                    continue
                follows.setdefault(pair[0], Counter())[pair[1] == want] += 1
                pairs[pair] += 1
        for at in range(last + 1, len(mine)):
            before, after = mine[at - 1], mine[at]
            if after[0] == want or (before[1].kind == "wait" and not before[1].passed):
                continue
            count = follows.get(before[0], Counter())
            always = count[True] > 0 and count[False] == 0
            tied = count[True] > 0 and (before[0], after[0]) in around and not pairs[before[0], after[0]]
            mine_ = self.waits.get(actor)
            last_ = mine_ is not None and after[1] is mine_.step and not pairs[before[0], after[0]]
            odd = count[True] > 0 and last_ and self.depends(mine_, wait)  # type: ignore[arg-type]
            twice = count[True] > 0 and after[0] == before[0] and not pairs[before[0], after[0]]
            if twice and (doubled := self._doubled(wait, actor, before[1], after[1])):
                return doubled
            if not (always or tied or odd) or not self._stage_fits(before[1], copy, mine[: last + 1], want):
                continue
            return self._gap(wait, actor, at, mine, pairs, around)
        return None

    def _doubled(
        self, wait: Blocked, actor: Actor, first: LoggedStep, then: LoggedStep
    ) -> LoggedReason | None:
        """An arrival on the barrier before, once more, where the missing one comes behind it otherwise."""
        if then.kind != "arrive" or first is then:
            return None
        copy, odd = wait.copy, then.to[-1]
        what = f"an arrival went to another barrier: {actor} arrived on {odd} where it arrives on {copy}"
        fix = f"{actor}: arrive on {copy}, not on {odd}"
        lines = [then.line, wait.step.line]
        return LoggedReason("wrong-barrier", copy, wait.actor, what, fix, lines, 95, actor, False)

    @staticmethod
    def _until_behind(mine: list[tuple[Token, LoggedStep]], at: int, want: Token) -> list[Token]:
        """The steps up to the step behind an arrival, or behind the other CTAs' of a multicast."""
        behind = at + 1
        while behind < len(mine) and mine[behind][0][:2] == want[:2]:
            behind += 1
        return [token for token, _ in mine[: behind + 1]]

    def whole_round(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        """An actor that waits again where it began a round before, and made no arrival in that round; the
        waiter is needed for its own wait to end.

        Not where it waits for a free buffer: it may take the next one before it hands over the last.
        """
        mine, ledger = self.waits.get(actor), self.ledger
        if self.trace.dump or not ledger.made or mine is None or ledger.free(mine.copy):
            return None
        if not self.depends(mine, wait):
            return None
        begun = [
            step
            for each in ledger.siblings(mine.copy)
            for step in ledger.waits.get((actor, each), ())
            if step.passed
        ]
        made = ledger.total(actor, wait.copy)
        if not begun or made >= len(begun):
            return None
        ahead = [copy for who, copy in ledger.made if who == actor and (ledger.unused(copy) or 0) > 1]
        if ahead and not ledger.by_states:
            odd = min(ahead)
            what = (
                f"an arrival went to another barrier: {actor} arrived on {odd} beyond what waits used, and "
                f"its arrival on {wait.copy} is missing"
            )
            fix = f"{actor}: arrive on {wait.copy}, not on {odd}"
            lines = [self.last_arrival(actor, odd), wait.step.line]
            return LoggedReason("wrong-barrier", wait.copy, wait.actor, what, fix, lines, 80, actor, False)
        last = max(begun, key=lambda step: step.line)
        what = (
            f"an arrival is missing: {actor} passed {last.to[0]} and waits for {mine.copy} again (line "
            f"{mine.step.line}), without an arrival on {wait.copy} in between"
        )
        fix = f"{actor}: arrive on {wait.copy} in every round"
        lines = [last.end or last.line, mine.step.line, wait.step.line]
        return LoggedReason("skipped-arrive", wait.copy, wait.actor, what, fix, lines, 80, actor, False)

    def _as_mine(self, actor: Actor, peer: Actor, token: Token) -> Token:
        """A peer's step as the actor would make it: on its own CTA's barrier."""
        kind, name, cta = token
        return (kind, name, actor.cta) if cta == peer.cta and kind == "wait" else token

    def _stage_fits(
        self, before: LoggedStep, copy: Copy, made: list[tuple[Token, LoggedStep]], want: Token
    ) -> bool:
        """Whether a gap is in the round of the missing arrival, by the stage of the step before."""
        stage = self.ledger.stage
        if not before.to or stage(copy) < 0 or stage(before.to[0]) < 0:
            return True
        shifts = {
            stage(each.to[0]) - stage(prior.to[0])
            for (_, prior), (token, each) in pairwise(made)
            if token == want and prior.to and each.to and stage(prior.to[0]) >= 0
        }
        return len(shifts) != 1 or stage(copy) - stage(before.to[0]) in shifts

    def _gap(
        self,
        wait: Blocked,
        actor: Actor,
        at: int,
        mine: list[tuple[Token, LoggedStep]],
        pairs: Counter[tuple[Token, Token]],
        around: set[tuple[Token, Token]],
    ) -> LoggedReason:
        copy = wait.copy
        (first, before), (token, step) = mine[at - 1], mine[at]
        done = before.end or before.line
        place = before.to[0] if before.to else "its start"
        if token[0] == "arrive" and not pairs[first, token] and (first, token) not in around:
            odd = step.to[-1]
            elsewhere = any(then == token and before != first for (before, _), (then, _) in pairwise(mine))
            usual = elsewhere and not self.again_in_a_round(actor, odd)
            if usual:  # it may be the arrival that it makes there in each round
                return self._skipped(wait, actor, mine[at - 1], step, False)
            what = f"an arrival went to another barrier: {actor} arrived on {odd} where it arrives on {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            lines = [step.line, wait.step.line]
            owed = self.ledger.is_declared(actor, odd) and not self.again_in_a_round(actor, odd)
            return LoggedReason("wrong-barrier", copy, wait.actor, what, fix, lines, 95, actor, not owed)
        blocked = self.waits.get(actor)
        open_ = blocked is not None and not self.ledger.producers(blocked.copy)
        if blocked is not None and step is blocked.step and (open_ or self.depends(blocked, wait)):
            others = [each for each in self.ledger.peers(actor) if each.cta == actor.cta]
            alone = any(each not in self.ledger.lacks(wait) for each in others)
            if alone and (reason := self.whole_round(wait, actor)):
                return reason  # another warp of the role made its arrival
            what = (
                f"they wait for each other: {actor} waits on {blocked.copy} before its arrival on {copy}, "
                f"which {wait.actor} waits for"
            )
            fix = f"{actor}: arrive on {copy} before the wait on {blocked.copy}"
            lines = [done, step.line, wait.step.line]
            return LoggedReason("cycle", copy, wait.actor, what, fix, lines, 94, actor)
        if before.kind == "arrive" and {*before.to} & {*self.ledger.twins(copy)}:
            what = f"an arrival reached only {place}: {actor} arrives on {copy} too in other rounds"
            return self.one_cta(wait, actor, what, [before.line, wait.step.line], 95, True)
        late = (blocked is not None and step is blocked.step) or self._may_come_late(wait, actor)
        return self._skipped(wait, actor, mine[at - 1], step, not late)

    def _may_come_late(self, wait: Blocked, actor: Actor) -> bool:
        """Whether a missing arrival may stand behind the wait of its actor, which depends on it."""
        blocked = self.waits.get(actor)
        return blocked is not None and (blocked is wait or self.depends(blocked, wait))

    @staticmethod
    def _skipped(
        wait: Blocked, actor: Actor, first: tuple[Token, LoggedStep], step: LoggedStep, sure: bool
    ) -> LoggedReason:
        before = first[1]
        place = before.to[0] if before.to else "its start"
        what = (
            f"an arrival is missing: {actor} passed {place} and continued (line {step.line}) without the "
            f"arrival on {wait.copy} that it makes there in other rounds"
        )
        fix = f"{actor}: arrive on {wait.copy} after {place}"
        lines = [before.end or before.line, step.line, wait.step.line]
        return LoggedReason("skipped-arrive", wait.copy, wait.actor, what, fix, lines, 93, actor, sure)
