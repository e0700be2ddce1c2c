"""The cause of a hang by the accounts of a trace.

A cause is a code of the explainer (docs/explain.md), the wait to look at, and the actor at fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.log import Actor
from tileproof.conformance.beside.logs.hangs.template.ledger import Blocked, Ledger, role_of
from tileproof.conformance.beside.logs.hangs.template.trace import Copy, Step

Token = tuple[str, str, int]  # kind, barrier without stage, CTA


@dataclass(eq=False)
class Reason:
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


class Reasoner:
    """Finds the causes of the blocked waits of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.trace = ledger.trace
        self.blocked = ledger.blocked
        self._cache: dict[Actor, list[tuple[Token, Step]]] = {}
        self.waits = {wait.actor: wait for wait in self.blocked}

    def reasons(self) -> list[Reason]:
        """All causes found, the best first."""
        found = self._parities() + self._astray()
        for wait in self.blocked:
            found += self._of(wait)
        if not found or max(reason.weight for reason in found) < 60:
            found += self._cycles()
        if not found:
            found += self._unknown()
        return sorted(found, key=lambda reason: (-reason.weight, reason.lines[0]))

    # --- a wait for the wrong phase

    def _parities(self) -> list[Reason]:
        found = []
        ledger = self.ledger
        for (actor, copy), steps in ledger.waits.items():
            if self.trace.dump:
                continue
            first = int(ledger.free(copy)) if not self.trace.headless else None
            for at, step in enumerate(steps):
                if step.phase is None:
                    continue
                if first is None or (at == 0 and steps[0].line and self._begins_late(actor, copy)):
                    first = step.phase
                right = (first + at) & 1
                if step.phase not in (right, right + 2):
                    found.append(self._parity(actor, copy, step, right))
                    break
        for wait in self.blocked:
            if not self.trace.dump:
                continue
            done = ledger.completed(wait.copy)
            if done is not None and done == wait.need and wait.step.phase == done & 1 and not self._odd(wait):
                right = 1 - int(wait.step.phase or 0)
                found.append(self._parity(wait.actor, wait.copy, wait.step, right))
        return found

    def _begins_late(self, actor: Actor, copy: Copy) -> bool:
        """Whether the first lines of an actor are missing: its first step is the end of a wait."""
        steps = self.trace.steps[actor]
        return self.trace.headless and bool(steps)

    def _parity(self, actor: Actor, copy: Copy, step: Step, right: int) -> Reason:
        what = f"wrong parity: {actor} waits for phase {step.phase} of {copy}, where its turn is phase {right}"
        fix = f"{actor}: wait for phase {right} of {copy}; flip the phase bit once a turn of the ring"
        blocked = self.waits.get(actor)
        here = blocked is not None and self.ledger.family(blocked.copy) == self.ledger.family(copy)
        return Reason("wrong-parity", copy, actor, what, fix, [step.line], 96 if here else 86, actor, here)

    # --- what a blocked wait lacks

    def _of(self, wait: Blocked) -> list[Reason]:
        copy, ledger = wait.copy, self.ledger
        late = ledger.lacks(wait)
        found = self._bytes(wait, late)
        if found:
            return found
        for actor in late:
            reason = (
                self._multicast(wait, actor)
                or self._wrong_stage(wait, actor)
                or self._omitted(wait, actor)
                or self._ended(wait, actor)
            )
            if reason is not None:
                found.append(reason)
        if not late or (not found and all(actor not in self.waits for actor in late)):
            found += self._counts(wait, late)
        if not ledger.producers(copy):
            found += self._nobody(wait)
        return found

    def _bytes(self, wait: Blocked, late: list[Actor]) -> list[Reason]:
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
        told: Counter[Actor] = Counter()
        for actor, steps in self.trace.steps.items():
            for step in steps:
                if copy in step.to and step.kind in ("arrive", "copy"):
                    told[actor] += step.bytes if step.kind == "arrive" else -step.bytes
        who = next((actor for actor, less in told.items() if less), None)
        if who is not None and lack < 0 and told[who] < 0:
            line = self.trace.lines_of[who]
            what = f"an arrival was left out: {who} copied {-lack} bytes to {copy} and did not announce them"
            fix = f"{who}: arrive on {copy} with the bytes of its copies"
            lines = [line, wait.step.line]
            return [Reason("skipped-arrive", copy, wait.actor, what, fix, lines, 97, who, True)]
        who = who or next(iter(sorted(ledger.producers(copy))), None)
        last = [s.line for a in ledger.producers(copy) for s in self.trace.steps[a] if copy in s.to]
        what = f"bytes differ on {copy}: {abs(lack)} bytes that were announced were not copied"
        if lack < 0:
            what = f"bytes differ on {copy}: {-lack} bytes more were copied than announced"
        fix = f"{who}: announce on {copy} exactly the bytes that its copies write"
        lines = [*last[-2:], wait.step.line]
        return [Reason("bytes-missing", copy, wait.actor, what, fix, lines, 97, who, True)]

    def _multicast(self, wait: Blocked, actor: Actor) -> Reason | None:
        copy, ledger = wait.copy, self.ledger
        mine = ledger.made.get((actor, copy), 0)
        for twin in ledger.twins(copy):
            other = ledger.made.get((actor, twin), 0)
            both = mine > 0 or any(
                ledger.made.get((actor, one), 0)
                and any(ledger.made.get((actor, pair), 0) for pair in ledger.twins(one))
                for one in ledger.copies
            )
            waited = any(ledger.family(one) == ledger.family(twin) for _, one in ledger.waits)
            if other < wait.need or other <= mine:
                continue
            line = self._last(actor, twin) or self.trace.lines_of[actor]
            what = (
                f"an arrival reached only CTA {twin.owner}: {actor} arrived {other} times on {twin} and "
                f"{mine} times on {copy}"
            )
            fix = f"{actor}: arrive on {copy} too (a commit with the multicast mask of both CTAs)"
            weight = 95 if both and waited else 90
            code = "one-cta" if self.ledger.waiters(twin) else "wrong-copy"
            return Reason(
                code, copy, wait.actor, what, fix, [line, wait.step.line], weight, actor, waited
            )
        return None

    def _last(self, actor: Actor, copy: Copy) -> int:
        lines = [s.line for s in self.trace.steps[actor] if copy in s.to and s.kind == "arrive"]
        return lines[-1] if lines else 0

    # --- an arrival that was left out

    def _token(self, actor: Actor, kind: str, copy: Copy) -> Token:
        return kind, self.ledger.family(copy)[1], copy.owner if actor.cta >= 0 else -1

    def _tokens(self, actor: Actor) -> list[tuple[Token, Step]]:
        if actor not in self._cache:
            found: list[tuple[Token, Step]] = []
            for step in self.trace.steps[actor]:
                if step.kind == "end":
                    found.append((("end", "", 0), step))
                elif step.kind != "copy":
                    found += [(self._token(actor, step.kind, copy), step) for copy in step.to]
            self._cache[actor] = found
        return self._cache[actor]

    def _wrong_stage(self, wait: Blocked, actor: Actor) -> Reason | None:
        """An arrival on a stage out of the ring's order."""
        copy, ledger = wait.copy, self.ledger
        ring = ledger.siblings(copy)
        if self.trace.dump or len(ring) < 2 or not ledger.is_ring(copy):
            return None
        mine = [
            (one, step)
            for step in self.trace.steps[actor]
            if step.kind == "arrive"
            for one in step.to
            if one in ring
        ]
        for at, ((before, prior), (odd, step)) in enumerate(pairwise(mine)):
            turn = (ledger.stage(before) + 1) % len(ring)
            if ledger.stage(odd) == turn:
                continue
            then = ledger.stage(mine[at + 2][0]) if at + 2 < len(mine) else -1
            late = None not in (step.k, prior.k) and at > 0 and mine[at - 1][1].k is not None
            jump = late and step.k - prior.k > prior.k - mine[at - 1][1].k  # type: ignore[operator]
            left_out = then == (ledger.stage(odd) + 1) % len(ring) and then != (turn + 1) % len(ring)
            paired = self._pairing(actor, prior, before), self._pairing(actor, step, odd)
            if None not in paired:
                left_out = paired[0] == paired[1]
            if turn != ledger.stage(copy):
                return None
            if left_out or jump:
                what = (
                    f"an arrival was left out: {actor} arrived on {before} and then on {odd}, without {copy} "
                    "between them"
                )
                fix = f"{actor}: arrive on {copy} between them"
                lines = [prior.line, step.line, wait.step.line]
                return Reason("skipped-arrive", copy, wait.actor, what, fix, lines, 95, actor, True)
            what = f"wrong stage: {actor} arrived on {odd}, where the turn is {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            lines = [step.line, wait.step.line]
            return Reason("wrong-stage", copy, wait.actor, what, fix, lines, 96, actor, True)
        return None

    def _pairing(self, actor: Actor, step: Step, copy: Copy) -> int | None:
        """The stage of an arrival less that of the wait before it on a ring of the same size."""
        ledger = self.ledger
        size = len(ledger.siblings(copy))
        steps = self.trace.steps[actor]
        for one in reversed(steps[: steps.index(step)]):
            if one.kind == "wait" and len(ledger.siblings(one.to[0])) == size:
                return (ledger.stage(copy) - ledger.stage(one.to[0])) % size
        return None

    def _omitted(self, wait: Blocked, actor: Actor) -> Reason | None:
        if self.trace.dump:
            return self._omitted_by_count(wait, actor)
        copy = wait.copy
        want = self._token(actor, "arrive", copy)
        mine = self._tokens(actor)
        late = self.ledger.lacks(wait)
        peers = [peer for peer in self.ledger.peers(actor) if peer not in late]
        made = [at for at, (token, step) in enumerate(mine) if token == want and copy in step.to]
        last = made[-1] if made else 0
        own = [token for token, _ in mine[: last + 2]]
        others = [[self._as_mine(actor, peer, token) for token, _ in self._tokens(peer)] for peer in peers]
        follows: dict[Token, Counter[bool]] = {}
        pairs: Counter[tuple[Token, Token]] = Counter()
        around: set[tuple[Token, Token]] = set()
        if self.ledger.is_ring(copy) and not made:  # another stage may show where the arrival stands
            first = next((at for at, (token, _) in enumerate(mine) if token == want), None)
            own = [token for token, _ in mine[: first + 2]] if first is not None else []
            last = first or 0
        for plain in [own, *others] if own else others:
            for at, pair in enumerate(pairwise(plain)):
                if pair[1] == want and at + 2 < len(plain):
                    around.add((pair[0], plain[at + 2]))
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
            odd = count[True] > 0 and last_ and self._depends(mine_, wait)  # type: ignore[arg-type]
            if not (always or tied or odd) or not self._stage_fits(before[1], copy, mine[: last + 1], want):
                continue
            return self._gap(wait, actor, at, mine, pairs, around)
        return None

    def _as_mine(self, actor: Actor, peer: Actor, token: Token) -> Token:
        """A peer's step as the actor would make it: on its own CTA's barrier."""
        kind, name, cta = token
        return (kind, name, actor.cta) if cta == peer.cta and kind == "wait" else token

    def _stage_fits(self, before: Step, copy: Copy, made: list[tuple[Token, Step]], want: Token) -> bool:
        """Whether a gap is in the round of the missing arrival, by the stage of the step before."""
        stage = self.ledger.stage
        if not before.to or stage(copy) < 0 or stage(before.to[0]) < 0:
            return True
        shifts = {
            stage(one.to[0]) - stage(prior.to[0])
            for (_, prior), (token, one) in pairwise(made)
            if token == want and prior.to and one.to and stage(prior.to[0]) >= 0
        }
        return len(shifts) != 1 or stage(copy) - stage(before.to[0]) in shifts

    def _gap(
        self,
        wait: Blocked,
        actor: Actor,
        at: int,
        mine: list[tuple[Token, Step]],
        pairs: Counter[tuple[Token, Token]],
        around: set[tuple[Token, Token]],
    ) -> Reason:
        copy = wait.copy
        (first, before), (token, step) = mine[at - 1], mine[at]
        done = before.end or before.line
        place = before.to[0] if before.to else "its start"
        if token[0] == "arrive" and not pairs[first, token] and (first, token) not in around:
            odd = step.to[-1]
            what = f"an arrival went to another barrier: {actor} arrived on {odd} where it arrives on {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            lines = [step.line, wait.step.line]
            return Reason("wrong-barrier", copy, wait.actor, what, fix, lines, 95, actor, True)
        blocked = self.waits.get(actor)
        open_ = blocked is not None and not self.ledger.producers(blocked.copy)
        if blocked is not None and step is blocked.step and (open_ or self._depends(blocked, wait)):
            what = (
                f"they wait for each other: {actor} waits on {blocked.copy} before its arrival on {copy}, "
                f"which {wait.actor} waits for"
            )
            fix = f"{actor}: arrive on {copy} before the wait on {blocked.copy}"
            lines = [done, step.line, wait.step.line]
            return Reason("cycle", copy, wait.actor, what, fix, lines, 94, actor)
        what = (
            f"an arrival was left out: {actor} passed {place} and continued (line {step.line}) without the "
            f"arrival on {copy} that it makes there in other rounds"
        )
        fix = f"{actor}: arrive on {copy} after {place}"
        lines = [done, step.line, wait.step.line]
        return Reason("skipped-arrive", copy, wait.actor, what, fix, lines, 93, actor, True)

    def _skips_round(self, mine: list[tuple[Token, Step]], at: int) -> bool:
        """Whether the step at a place is a wait of a later round than comes next."""
        token, step = mine[at]
        before = [one for other, one in mine[:at] if other == token]
        if step.k is not None and before and before[-1].k is not None:
            steps = [b.k - a.k for a, b in pairwise(before) if a.k is not None and b.k is not None]
            usual = max(steps, default=1)
            return step.k - before[-1].k > usual
        stages = [one.to[0].stage for one in before]
        if len(stages) > 1 and step.to[0].stage >= 0:
            size = max(stages) + 1
            return size > 1 and (stages[-1] + 1) % size != step.to[0].stage
        return False

    def _omitted_by_count(self, wait: Blocked, actor: Actor) -> Reason | None:
        """By the counts of a dump: fewer arrivals than the actor's other steps."""
        copy, ledger = wait.copy, self.ledger
        total = ledger.total(actor, copy)
        ended = actor in self.trace.ended
        blocked = self.waits.get(actor)
        stage = ledger.siblings(copy)
        odd = self._odd_arrival(actor, copy)
        if odd is not None:
            what = f"an arrival went to another barrier: {actor} arrived on {odd}, and not on {copy}"
            fix = f"{actor}: arrive on {copy}, not on {odd}"
            return Reason(
                "wrong-barrier", copy, wait.actor, what, fix, [wait.step.line], 92, actor, False
            )
        rounds = self._rounds(actor, copy)
        if rounds is None or total >= rounds:
            return None
        lines = [self.trace.lines_of[actor], wait.step.line]
        if blocked is not None and not ended and self._depends(blocked, wait) and len(stage) <= 1:
            pass
        what = (
            f"an arrival was left out: {actor} arrived {total} times on {copy.barrier}, and passed its other "
            f"barriers {rounds} times"
        )
        fix = f"{actor}: arrive on {copy} in every round"
        return Reason("skipped-arrive", copy, wait.actor, what, fix, lines, 85, actor, False)

    def _rounds(self, actor: Actor, copy: Copy) -> int | None:
        """How often an actor should have arrived on a barrier, by its steps on other barriers."""
        ledger = self.ledger
        families: dict[tuple[int, str, int], int] = {}
        for (who, one), count in self.trace.passed.items():
            if who == actor:
                key = ledger.family(one)
                families[key] = families.get(key, 0) + count
        blocked = self.waits.get(actor)
        least = list(families.values())
        for (who, one), count in ledger.made.items():
            if who == actor and ledger.family(one) != ledger.family(copy):
                least.append(ledger.total(actor, one))
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
        for (who, other), count in ledger.made.items():
            if who != actor or other == copy:
                continue
            if ledger.family(other) == ledger.family(copy):
                ring = ledger.siblings(copy)
                counts = [ledger.made.get((actor, one), 0) for one in ring]
                if max(counts) - min(counts) > 1:
                    return other
                continue
            rest = [one for one in ledger.producers(other) if one != actor]
            if rest and all(role_of(one) != role_of(actor) for one in rest):
                return other
            peers = self.ledger.peers(actor)
            if peers and not any(ledger.total(peer, other) for peer in peers):
                if any(ledger.total(peer, copy) > ledger.total(actor, copy) for peer in peers):
                    return other
        return None

    def _depends(self, wait: Blocked, on: Blocked) -> bool:
        """Whether a blocked wait depends, through other blocked actors, on the actor of another one."""
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

    # --- an arrival on a barrier that is not the actor's

    def _astray(self) -> list[Reason]:
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
                    f"an arrival went to another barrier: {actor} arrived on {odd}, {why}, and its arrival on "
                    f"{wait.copy} is missing"
                )
                fix = f"{actor}: arrive on {wait.copy}, not on {odd}"
                lines = [step.line, wait.step.line]
                found.append(
                    Reason("wrong-barrier", wait.copy, wait.actor, what, fix, lines, 94, actor, False)
                )
                break
        return found

    def _strange(self, actor: Actor) -> Iterator[tuple[Step, Copy, str]]:
        ledger = self.ledger
        since: dict[Copy, Step] = {}
        for step in self.trace.steps[actor]:
            if step.kind == "wait":
                since.clear()
            if step.kind != "arrive":
                continue
            for copy in step.to:
                others = [one for one in ledger.producers(copy) if role_of(one) != role_of(actor)]
                waits = {role_of(one) for one in ledger.waiters(copy)}
                init = ledger.init(copy)
                if role_of(actor) in waits:
                    yield step, copy, "on which it waits itself"
                elif copy in since and not ledger.is_ring(copy):
                    yield step, copy, "a second time in the round"
                elif copy in since and len(ledger.siblings(copy)) == 1 and step.count == 1 and init < 2:
                    yield step, copy, "a second time in the round"
                elif others and init and any(ledger.each.get((o, ledger.family(copy)), 0) == init for o in others):
                    if ledger.made.get((actor, copy), 0) <= 2:
                        yield step, copy, f"on which {others[0]} arrives"
                elif init and step.count > init:
                    yield step, copy, f"whose phase needs {init} arrivals, not {step.count}"
                since[copy] = step

    def _victim(self, actor: Actor, odd: Copy, width: int) -> Blocked | None:
        """The blocked wait that lacks the arrival: no role arrives on its barrier."""
        ledger = self.ledger
        bare = [
            wait
            for wait in self.blocked
            if wait.actor != actor
            and wait.copy != odd
            and role_of(actor) not in {role_of(one) for one in ledger.waiters(wait.copy)}
            and not ledger.threads[wait.copy]
            and wait.need > 0
        ]
        if not bare:
            bare = [
                wait
                for wait in self.blocked
                if actor in ledger.lacks(wait) and wait.copy != odd and wait.actor != actor
            ]
        fits = [
            wait for wait in bare
            if not ledger.init(wait.copy) or (ledger.init(wait.copy) >= width and (width > 1 or ledger.init(wait.copy) < 32))
        ]  # fmt: skip
        same = [wait for wait in fits if ledger.family(wait.copy)[:2] == ledger.family(odd)[:2]]
        mine = self.waits.get(actor)
        near = [wait for wait in fits if mine is not None and wait.actor in ledger.lacks(mine)]
        some = same or near or fits
        return some[0] if some else None

    # --- roles that ended, counts, cycles

    def _ended(self, wait: Blocked, actor: Actor) -> Reason | None:
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
        return Reason(code, copy, wait.actor, what, fix, [line, wait.step.line], 88, actor, ended)

    def _odd(self, wait: Blocked) -> bool:
        return False

    def _counts(self, wait: Blocked, late: list[Actor]) -> list[Reason]:
        copy, ledger = wait.copy, self.ledger
        init = ledger.init(copy)
        threads = ledger.threads[copy]
        if not ledger.producers(copy) or late:
            return []
        lines = [
            *(line for actor in sorted(ledger.producers(copy)) if (line := self._last(actor, copy))),
            wait.step.line,
        ]
        if init and threads < init * wait.need:
            what = (
                f"too few arrivals on {copy}: a phase needs {init}, and {threads} were made for "
                f"{wait.need} phase{'s' if wait.need > 1 else ''} by all its producers"
            )
            fix = f"initialise {copy} with the arrivals of a phase ({max(1, threads // max(1, wait.need))})"
            return [Reason("too-few-arrivals", copy, wait.actor, what, fix, lines, 94, None, True)]
        if init and threads > init * wait.need:
            odd = self._intruder(copy)
            if odd is not None:
                what = f"an arrival went to another barrier: {odd} arrived on {copy}, whose phases run ahead"
                fix = f"{odd}: do not arrive on {copy}"
                return [Reason("wrong-barrier", copy, wait.actor, what, fix, lines, 80, odd, False)]
        what = f"every known producer arrived on {copy}; the phase did not complete"
        fix = f"initialise {copy} with the number of arrivals of a phase"
        return [Reason("too-few-arrivals", copy, wait.actor, what, fix, lines, 60, None, False)]

    def _intruder(self, copy: Copy) -> Actor | None:
        made = {actor: self.ledger.made.get((actor, copy), 0) for actor in self.ledger.producers(copy)}
        few = [actor for actor, count in made.items() if count == 1]
        return few[0] if len(few) == 1 and len(made) > 1 else None

    def _nobody(self, wait: Blocked) -> list[Reason]:
        """A barrier without any arrival: its producer is perhaps the role that the waiter serves."""
        copy, ledger = wait.copy, self.ledger
        what = f"no role ever arrives on {copy}"
        fix = f"have its producer arrive on {copy}, or print that arrival"
        weight = 40 if not wait.passed else 30
        for one in sorted(ledger.copies):
            if ledger.stem(one.barrier) == ledger.stem(copy.barrier) and one.owner == copy.owner:
                for actor in ledger.producers(one) & self.waits.keys():
                    stages = {ledger.stage(c) for s in self.trace.steps[actor] for c in s.to}
                    weight -= 5 * (ledger.stage(copy) in stages and actor != wait.actor)
        for actor in sorted(self.trace.steps):
            served = [
                one
                for one in sorted(ledger.copies)
                if actor in ledger.waiters(one)
                and ledger.made.get((wait.actor, one), 0)
                and ledger.passes(actor, one) - ledger.free(one) >= max(1, wait.need)
            ]
            repaid = any(
                actor in ledger.producers(one) for one in ledger.copies if wait.actor in ledger.waiters(one)
            )
            if actor == wait.actor or not served or repaid:
                continue
            line = self.trace.lines_of[actor]
            blocked = self.waits.get(actor)
            lines = [line, wait.step.line]
            if blocked is not None and self._directly(actor, served[0], wait.need, blocked):
                told = (
                    f"they wait for each other: {actor} passed {served[0]} and waits on {blocked.copy}, and no "
                    f"arrival on {copy}, which {wait.actor} waits for, was made"
                )
                return [Reason("cycle", copy, wait.actor, told, fix, lines, 72, actor)]
            told = f"{what}; {actor} passed {served[0]}, on which {wait.actor} arrives, and may be its producer"
            return [Reason("never-arrived", copy, wait.actor, told, fix, lines, 70, actor)]
        return [Reason("never-arrived", copy, wait.actor, what, fix, [wait.step.line], weight)]

    def _directly(self, actor: Actor, served: Copy, need: int, blocked: Blocked) -> bool:
        """Whether an actor's blocked wait is its first after the one in which it was served."""
        waits = [step for step in self.trace.steps[actor] if step.kind == "wait"]
        on = [at for at, step in enumerate(waits) if step.to[0] == served and step.passed]
        if self.trace.dump or len(on) < max(1, need):
            return self.trace.dump
        return waits[on[max(1, need) - 1] + 1 :][:1] == [blocked.step]

    def _cycles(self) -> list[Reason]:
        """Blocked actors that depend on each other."""
        edges = {
            wait.actor: [actor for actor in self.ledger.lacks(wait) if actor in self.waits]
            for wait in self.blocked
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

    def _cycle(self, ring: list[Actor]) -> Reason:
        waits = [self.waits[actor] for actor in ring]
        told = "; ".join(
            f"{wait.actor} waits on {wait.copy} for {then.actor}"
            for wait, then in zip(waits, [*waits[1:], waits[0]], strict=True)
        )
        first = waits[0]
        lines = [wait.step.line for wait in waits]
        fix = f"{ring[1 % len(ring)]}: arrive on {first.copy} before its wait"
        return Reason(
            "cycle", first.copy, first.actor, f"they wait for each other: {told}", fix, lines, 75,
            ring[1 % len(ring)],
        )  # fmt: skip

    def _unknown(self) -> list[Reason]:
        if not self.blocked:
            return []
        wait = self.blocked[0]
        what = f"{wait.actor} waits on {wait.copy}; the lines do not show which arrival is missing"
        fix = "print every arrival with its barrier, and its count (tileproof_log.cuh)"
        return [Reason("lost-lines", wait.copy, wait.actor, what, fix, [wait.step.line], 10)]

