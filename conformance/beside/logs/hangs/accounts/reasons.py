"""The cause of a hang by the accounts of a trace."""

from __future__ import annotations

from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.accounts.astray import Astray
from tileproof.conformance.beside.logs.hangs.accounts.copied import Copied
from tileproof.conformance.beside.logs.hangs.accounts.counted import Counted
from tileproof.conformance.beside.logs.hangs.accounts.evidence import LoggedReason
from tileproof.conformance.beside.logs.hangs.accounts.ledger import Blocked
from tileproof.conformance.beside.logs.hangs.accounts.loops import loop_of
from tileproof.conformance.beside.logs.hangs.accounts.omitted import Omitted
from tileproof.conformance.beside.logs.hangs.accounts.together import Together
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep
from tileproof.conformance.beside.logs.hangs.log import Actor


class Reasoner(Omitted, Counted, Copied, Astray, Together):
    """Finds the causes of the blocked waits of a ledger."""

    def reasons(self) -> list[LoggedReason]:
        """All causes found, the best first."""
        found = self.parities() + self.astray()
        for wait in self.blocked:
            found += self._of(wait)
        found += self.instead(found)
        if not found or max(reason.weight for reason in found) < 60:
            found += self._cycles()
        if not found:
            found += self._unknown()
        found = [self.by_loop(reason) or reason for reason in found]
        return sorted(found, key=lambda reason: (-reason.weight, reason.lines[0]))

    def by_loop(self, reason: LoggedReason) -> LoggedReason | None:
        """A missing arrival for a wait in another order, or the reverse, where the log states the order: the
        arrivals that an actor's loop has before the wait at which it stands were made, or not.
        """
        actor, copy, ledger = reason.culprit, reason.copy, self.ledger
        mine = self.waits.get(actor) if actor is not None else None
        if actor is None or mine is None or reason.code not in ("cycle", "skipped-arrive"):
            return None
        here, there = ledger.stem(mine.copy.barrier), ledger.stem(copy.barrier)
        loop = loop_of(self.trace.loops, actor, here, there) if here != there else None
        if loop is None or self.trace.is_cut(actor):
            return None
        lag, order = dict(loop.steps), [name for name, _ in loop.steps]
        rounds = ledger.passes_of(actor).get(ledger.family(mine.copy), 0)
        due = rounds + (order.index(there) < order.index(here)) - lag[there] + lag[here]
        made = ledger.total(actor, copy)
        code = "skipped-arrive" if made < due else "cycle"
        if code == reason.code:
            return None
        what = (
            f"they wait for each other: {actor} waits on {mine.copy} before its arrival on {copy}, which "
            f"{reason.waiter} waits for"
        )
        fix = f"{actor}: arrive on {copy} before the wait on {mine.copy}"
        if made < due:
            what = (
                f"an arrival is missing: {actor} made {made} arrivals on {there}, where the stated "
                f"loop makes {due} before its wait on {mine.copy}"
            )
            fix = f"{actor}: arrive on {there} in every round"
        lines = [mine.step.line, *reason.lines]
        return LoggedReason(code, copy, reason.waiter, what, fix, lines, reason.weight, actor, False)

    def parities(self) -> list[LoggedReason]:
        """The first wait of each actor on each barrier whose phase is out of turn."""
        found = []
        for (actor, copy), steps in self.ledger.waits.items():
            if self.ledger.unprinted_stages(copy) or (self.trace.dump and len(steps) == 1):
                continue
            free = self.ledger.free(copy)
            right = None if self.trace.is_cut(actor) or self.trace.dump else int(free)
            for at, step in enumerate(steps):
                before = steps[at - 1] if at else step
                if at and self._again(actor, before, step):
                    continue  # another thread of the role
                if at and not self._next_round(steps, at):
                    right = None
                if step.phase is not None and right is not None and step.phase not in (right, right + 2):
                    found.append(self._parity(actor, copy, step, right))
                    late = step.turn is None or step.turn >= len(self.ledger.siblings(copy))
                    begins = not late and self._begins_known(actor, copy, bool(right))
                    found[-1].sure &= bool(at) or begins  # else waits before it may be missing
                    break
                right = None if step.phase is None else 1 - step.phase % 2
        for wait in self.blocked if self.trace.dump else ():
            right = self._by_ring(wait)
            if right is not None and wait.step.phase != right:
                found.append(self._parity(wait.actor, wait.copy, wait.step, right))
        for wait in self.blocked:
            if not (self.trace.dump or wait.copy in self.trace.states):
                continue
            done = self.ledger.completed(wait.copy)
            begun = self.ledger.by_states and not wait.passed  # nor is it known whether it begins free
            if done is None or done not in (wait.need, wait.need + begun):
                continue
            if wait.step.phase == done & 1:
                right = 1 - int(wait.step.phase or 0)
                found.append(self._parity(wait.actor, wait.copy, wait.step, right))
        return found

    def _by_ring(self, wait: Blocked) -> int | None:
        """The phase of a wait by its actor's wait on the stage before: it changes at stage 0 only."""
        ledger, ring = self.ledger, self.ledger.siblings(wait.copy)
        if len(ring) < 2 or not ledger.is_ring(wait.copy) or wait.step.phase not in (0, 1):
            return None
        steps = self.trace.steps[wait.actor]
        before = [s for s in steps if s.kind == "wait" and s is not wait.step and s.to[0] in ring]
        if not before or before[-1].phase not in (0, 1):
            return None
        stage, last = ledger.stage(wait.copy), ledger.stage(before[-1].to[0])
        if stage != (last + 1) % len(ring):
            return None
        return before[-1].phase if stage else 1 - int(before[-1].phase or 0)

    def _begins_known(self, actor: Actor, copy: Copy, free: bool) -> bool:
        """Whether not only a barrier's name tells if its first wait needs an arrival: announced bytes do, and
        the first waits on it in other stages, CTAs or roles.
        """
        ledger = self.ledger
        if not free and any(ledger.announced[each] or ledger.copied[each] for each in ledger.siblings(copy)):
            return True
        firsts = [
            steps[0].phase
            for (who, other), steps in ledger.waits.items()
            if ledger.stem(other.barrier) == ledger.stem(copy.barrier)
            and (who, other) != (actor, copy)
            and not self.trace.is_cut(who)
        ]
        return firsts.count(int(free)) > firsts.count(1 - int(free))

    def _again(self, actor: Actor, before: LoggedStep, step: LoggedStep) -> bool:
        """Whether a wait is printed again for the same round: the actor was in no other round since."""
        if step.turn is None or (step.turn, step.phase) != (before.turn, before.phase):
            return False
        some = self.trace.steps[actor]
        since = some[some.index(before) + 1 : some.index(step)]
        return all(each.turn in (step.turn, None) for each in since)

    @staticmethod
    def _next_round(steps: list[LoggedStep], at: int) -> bool:
        """Whether no line of a wait is lost before a wait: rounds go on as they do elsewhere."""
        rounds = [step.turn for step in steps if step.turn is not None]
        if len(rounds) < len(steps) or len(rounds) < 3:
            return True
        apart = [b - a for a, b in pairwise(rounds)]
        rest = {*apart[: at - 1], *apart[at:]}
        return apart[at - 1] >= 0 and (len(rest) != 1 or apart[at - 1] <= min(rest))

    def _parity(self, actor: Actor, copy: Copy, step: LoggedStep, right: int) -> LoggedReason:
        what = (
            f"wrong parity: {actor} waits for phase {step.phase} of {copy}, where its turn is phase {right}"
        )
        fix = f"{actor}: wait for phase {right} of {copy}; flip the phase bit once a turn of the ring"
        blocked = self.waits.get(actor)
        here = blocked is not None and self.ledger.family(blocked.copy) == self.ledger.family(copy)
        return LoggedReason(
            "wrong-parity", copy, actor, what, fix, [step.line], 96 if here else 86, actor, here
        )

    def _of(self, wait: Blocked) -> list[LoggedReason]:
        copy, ledger = wait.copy, self.ledger
        late = ledger.lacks(wait)
        found = self.unequal_bytes(wait, late) or self.in_part(wait)
        if found:
            return found
        for actor in late:
            reason = (
                self._multicast(wait, actor)
                or self.wrong_stage(wait, actor)
                or (self.omitted_by_count if self.trace.dump else self.omitted)(wait, actor)
                or self.whole_round(wait, actor)
                or (self.omitted_by_count(wait, actor) if ledger.by_states else None)
                or self._ended(wait, actor)
            )
            if reason is None or reason.code == "cycle":
                reason = self.unlike_twin(wait, actor) or reason
            if reason is not None:
                found.append(reason)
        if order := self.too_late(wait, late, found):
            found.append(order)
        if not late or (not found and all(actor not in self.waits for actor in late)):
            found += self.counts(wait, late)
        if not ledger.producers(copy):
            found += self.nobody(wait)
        return found

    def _multicast(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        copy, ledger = wait.copy, self.ledger
        mine = ledger.made.get((actor, copy), 0)
        for twin in ledger.twins(copy):
            other = ledger.made.get((actor, twin), 0)
            both = mine > 0 or any(
                ledger.made.get((actor, each), 0)
                and any(ledger.made.get((actor, pair), 0) for pair in ledger.twins(each))
                for each in ledger.copies
            )
            waited = any(ledger.family(each) == ledger.family(twin) for _, each in ledger.waits)
            if other < wait.need or other <= mine:
                continue
            line = self.last_arrival(actor, twin) or self.trace.lines_of[actor]
            what = (
                f"an arrival reached only CTA {twin.owner}: {actor} arrived {other} times on {twin} and "
                f"{mine} times on {copy}"
            )
            astray = not mine and actor.cta == copy.owner
            code = "one-cta" if self.ledger.waiters(twin) and not astray else "wrong-copy"
            weight = 95 if both and waited else 90
            return self.one_cta(wait, actor, what, [line, wait.step.line], weight, waited, code)
        return None

    def _ended(self, wait: Blocked, actor: Actor) -> LoggedReason | None:
        if actor in self.waits:
            return None
        copy = wait.copy
        made = self.ledger.made.get((actor, copy), 0)
        ended = actor in self.trace.ended
        line = self.trace.ended.get(actor, self.trace.lines_of[actor])
        told = "ended" if ended else "printed nothing more"
        what = (
            f"{actor} {told} (line {line}) after {made} arrivals on {copy}, and {wait.actor} waits for "
            f"arrival {wait.need}"
        )
        fix = f"give {actor} and {wait.actor} the same number of rounds"
        code = "k-count" if ended else "producer-stopped"
        sure = ended and not self._one_too_many(actor, copy)
        return LoggedReason(code, copy, wait.actor, what, fix, [line, wait.step.line], 88, actor, sure)

    def _one_too_many(self, actor: Actor, copy: Copy) -> bool:
        """Whether an arrival of an actor on another barrier was not used: perhaps it belongs here."""
        mine = [each for who, each in self.ledger.made if who == actor and each != copy]
        return any((self.ledger.unused(each) or 0) > 0 for each in mine)

    def counts(self, wait: Blocked, late: list[Actor]) -> list[LoggedReason]:
        copy, ledger = wait.copy, self.ledger
        init = ledger.init(copy)
        threads = ledger.threads[copy]
        if not ledger.producers(copy) or late:
            return []
        lines = [
            *(line for actor in sorted(ledger.producers(copy)) if (line := self.last_arrival(actor, copy))),
            wait.step.line,
        ]
        if init and threads < init * wait.need:
            if reason := self._own_cta_only(wait):
                return [reason]
            what = (
                f"too few arrivals on {copy}: a phase needs {init}, and {threads} were made for "
                f"{wait.need} phase{'s' if wait.need > 1 else ''} by all its producers"
            )
            right = max(1, threads // max(1, wait.need))
            fix = f"initialise {copy} with the arrivals of a phase ({right}, not {init}), or add the others"
            # Arrivals on the same barrier of another CTA may be what is missing here.
            sure = not any(ledger.threads[twin] for twin in ledger.twins(copy))
            sure = sure and not ledger.producers(copy) & self.trace.ended.keys()
            sure = sure and bool(ledger.declared(copy))  # else a role that has not come so far may arrive too
            return [LoggedReason("too-few-arrivals", copy, wait.actor, what, fix, lines, 94, None, sure)]
        if init and threads > init * wait.need:
            odd = self._intruder(copy)
            if odd is not None:
                what = f"an arrival went to another barrier: {odd} arrived on {copy}, whose phases run ahead"
                fix = f"{odd}: do not arrive on {copy}"
                return [LoggedReason("wrong-barrier", copy, wait.actor, what, fix, lines, 80, odd, False)]
        what = f"every known producer arrived on {copy}; the phase did not complete"
        fix = f"initialise {copy} with the number of arrivals of a phase"
        return [LoggedReason("too-few-arrivals", copy, wait.actor, what, fix, lines, 60, None, False)]

    def _own_cta_only(self, wait: Blocked) -> LoggedReason | None:
        """Arrivals of a stated role in each CTA on its own CTA's barrier, where a phase needs all."""
        copy, ledger = wait.copy, self.ledger
        if self.trace.shared and not ledger.is_shared(copy):
            return None  # the log states which barriers need the arrivals of all CTAs: not this one
        if ledger.is_stated(copy):
            return None  # nor do its senders, whose CTAs the log states, miss it
        for twin in ledger.twins(copy):
            theirs = [
                actor for actor in self.trace.steps
                if ledger.is_declared(actor, copy) and ledger.made.get((actor, twin), 0) >= wait.need
                and not ledger.made.get((actor, copy))
            ]  # fmt: skip
            width = sum(ledger.each.get((actor, ledger.family(twin)), 1) for actor in theirs)
            if theirs and ledger.threads[copy] + width * wait.need == ledger.init(copy) * wait.need:
                line = self.last_arrival(theirs[0], twin) or self.trace.lines_of[theirs[0]]
                what = (
                    f"an arrival reached only CTA {twin.owner}: {theirs[0]} arrived on {twin}, and a phase "
                    f"of {copy} needs {ledger.init(copy)} arrivals, those of all CTAs"
                )
                return self.one_cta(wait, theirs[0], what, [line, wait.step.line], 94, False)
        return None

    def _intruder(self, copy: Copy) -> Actor | None:
        made = {actor: self.ledger.made.get((actor, copy), 0) for actor in self.ledger.producers(copy)}
        few = [actor for actor, count in made.items() if count == 1]
        return few[0] if len(few) == 1 and len(made) > 1 else None

    def nobody(self, wait: Blocked) -> list[LoggedReason]:
        """A barrier without any arrival: its producer is perhaps the role that the waiter serves."""
        copy, ledger = wait.copy, self.ledger
        what = f"no role ever arrives on {copy}"
        fix = f"have its producer arrive on {copy}, or print that arrival"
        weight = 40 if not wait.passed else 30
        unheard = sorted({str(each) for _, each in ledger.made if not ledger.waiters(each)})
        if unheard:
            what += (
                f"; perhaps another barrier is signalled instead: no role waits on {', '.join(unheard[:4])}"
            )
        for each in sorted(ledger.copies):
            if ledger.stem(each.barrier) == ledger.stem(copy.barrier) and each.owner == copy.owner:
                for actor in ledger.producers(each) & self.waits.keys():
                    stages = {ledger.stage(c) for s in self.trace.steps[actor] for c in s.to}
                    weight -= 5 * (ledger.stage(copy) in stages and actor != wait.actor)
        for actor in sorted(self.trace.steps):
            served = [
                each
                for each in sorted(ledger.copies)
                if actor in ledger.waiters(each)
                and ledger.made.get((wait.actor, each), 0)
                and ledger.passes(actor, each) - ledger.free(each) >= max(1, wait.need)
            ]
            repaid = any(
                actor in ledger.producers(each)
                for each in ledger.copies
                if wait.actor in ledger.waiters(each)
            )
            if actor == wait.actor or not served or repaid:
                continue
            line = self.trace.lines_of[actor]
            blocked = self.waits.get(actor)
            lines = [line, wait.step.line]
            if blocked is not None and self._directly(actor, served[0], wait.need, blocked):
                told = (
                    f"they wait for each other: {actor} passed {served[0]} and waits on {blocked.copy}, and "
                    f"no arrival on {copy}, which {wait.actor} waits for, was made"
                )
                return [LoggedReason("cycle", copy, wait.actor, told, fix, lines, 72, actor)]
            told = (
                f"{what}; {actor} passed {served[0]}, on which {wait.actor} arrives, and may be its producer"
            )
            return [LoggedReason("never-arrived", copy, wait.actor, told, fix, lines, 70, actor)]
        return [LoggedReason("never-arrived", copy, wait.actor, what, fix, [wait.step.line], weight)]

    def _directly(self, actor: Actor, served: Copy, need: int, blocked: Blocked) -> bool:
        """Whether an actor's blocked wait is its first after the one in which it was served."""
        waits = [step for step in self.trace.steps[actor] if step.kind == "wait"]
        on = [at for at, step in enumerate(waits) if step.to[0] == served and step.passed]
        if self.trace.dump or len(on) < max(1, need):
            return self.trace.dump
        return waits[on[max(1, need) - 1] + 1 :][:1] == [blocked.step]

    def _cycles(self) -> list[LoggedReason]:
        """Blocked actors that depend on each other."""
        edges = {
            wait.actor: [actor for actor in self.awaits(wait) if actor in self.waits] for wait in self.blocked
        }
        for start in edges:
            path, seen = [start], {start}
            while edges[path[-1]]:
                then = edges[path[-1]][0]
                if then in seen:
                    ring = path[path.index(then) :]
                    return [self._cycle(ring)]
                seen.add(then)
                path.append(then)
        return []

    def _cycle(self, ring: list[Actor]) -> LoggedReason:
        waits = [self.waits[actor] for actor in ring]
        told = "; ".join(
            f"{wait.actor} waits on {wait.copy} for {then.actor}"
            for wait, then in zip(waits, [*waits[1:], waits[0]], strict=True)
        )
        first = waits[0]
        lines = [wait.step.line for wait in waits]
        fix = f"{ring[1 % len(ring)]}: arrive on {first.copy} before its wait"
        return LoggedReason(
            "cycle", first.copy, first.actor, f"they wait for each other: {told}", fix, lines, 75,
            ring[1 % len(ring)],
        )  # fmt: skip

    def _unknown(self) -> list[LoggedReason]:
        if not self.blocked:
            return []
        wait = self.blocked[0]
        what = f"{wait.actor} waits on {wait.copy}; the lines do not show which arrival is missing"
        fix = "print every arrival with its barrier, and its count (tileproof_log.cuh)"
        return [LoggedReason("lost-lines", wait.copy, wait.actor, what, fix, [wait.step.line], 10)]
