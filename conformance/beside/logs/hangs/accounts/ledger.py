"""Accounts of a trace: arrivals, phases and bytes of each barrier, and what each blocked wait lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.accounts.arrivers import Arrivers, Family, role_of
from tileproof.conformance.beside.logs.hangs.accounts.loops import StatedLoop, stated_loops
from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LoggedStep, LogTrace
from tileproof.conformance.beside.logs.hangs.log import Actor

_STAGE = re.compile(r"(?<=.)[_.+#]?\d+$")
_ADDRESS = re.compile(r"^@|0x[0-9a-f]+$|^\d+$", re.IGNORECASE)  # a barrier's, or its number: it has no stage


# Names of a free and of a filled buffer decide where a role's first waits alone would be wrong.
_FREES = re.compile(
    r"empty|free|drain|consum|releas|finish|frei|leer|vide|libre|vac[ií]o|vuoto|liber|空", re.IGNORECASE
)
_FILLS = re.compile(
    r"full|fill|ready|rdy|arriv|post|scaled|rescaled|voll|bereit|skaliert|plein|pret|llen|listo|pieno|pront|满",
    re.IGNORECASE,
)


@dataclass(eq=False)
class Blocked:
    """A wait that did not end. `need`: phases that must have completed for it to pass."""

    actor: Actor
    step: LoggedStep
    passed: int
    need: int

    @property
    def copy(self) -> Copy:
        return self.step.to[0]


@dataclass
class Ledger(Arrivers):
    """The accounts of `trace`."""

    trace: LogTrace
    made: dict[tuple[Actor, Copy], int] = field(default_factory=dict)  # arrivals, each of some threads
    threads: Counter[Copy] = field(default_factory=Counter)
    waits: dict[tuple[Actor, Copy], list[LoggedStep]] = field(default_factory=dict)
    announced: Counter[Copy] = field(default_factory=Counter)
    copied: Counter[Copy] = field(default_factory=Counter)
    each: dict[tuple[Actor, Family], int] = field(default_factory=dict)  # threads of one arrival
    by_states: bool = False  # arrivals are not printed: those of completed phases

    def __post_init__(self) -> None:
        trace = self.trace
        for actor, steps in trace.steps.items():
            for step in steps:
                for copy in step.to:
                    if step.kind == "wait":
                        self.waits.setdefault((actor, copy), []).append(step)
                    elif step.kind == "arrive" and not trace.dump:
                        self.made[actor, copy] = self.made.get((actor, copy), 0) + 1
                        self.threads[copy] += step.count
                        self.announced[copy] += step.bytes
                        key = actor, self.family(copy)
                        self.each[key] = max(step.count, self.each.get(key, 1))
                    elif step.kind == "copy":
                        self.copied[copy] += step.bytes
        for (actor, copy), count in self.made.items():
            self.made[actor, copy] = -(-count // trace.merged.get(actor, 1))
        for (_, copy), count in trace.arrived.items():
            if count:
                self.threads[copy] += count
        for (_, copy), size in trace.announced.items():
            self.announced[copy] += size
        for (_, copy), size in trace.landed.items():
            self.copied[copy] += size
        for (actor, copy), count in trace.arrived.items():
            if count:
                width = self._width(actor, copy)
                self.each[actor, self.family(copy)] = width
                self.made[actor, copy] = count // width

        if trace.states and trace.feeds and not self.made:
            self._made_by_states()

    def _made_by_states(self) -> None:
        """The arrivals of each barrier's only producer, by its completed phases: they are not printed."""
        for copy, state in self.trace.states.items():
            init = self.init(copy)
            if state.completed is None or not init:
                continue
            here = init - state.pending if state.pending is not None else 0
            self.threads[copy] = state.completed * init + here
            for actor in self._producers.get(self.family(copy), ()):
                self.made[actor, copy] = state.completed + (state.pending == 0)
        self.by_states = bool(self.made)

    def _width(self, actor: Actor, copy: Copy) -> int:
        """Threads of one arrival, of a dump's count: the most that divides all of its family's counts and
        the barrier's.
        """
        init = self.init(copy)
        counts = [
            n
            for (who, other), n in self.trace.arrived.items()
            if self.family(other) == self.family(copy) and n and who == actor
        ]
        for width in (256, 128, 64, 32):
            if init % width == 0 and init and all(n % width == 0 for n in counts):
                return width
        return 1

    @cached_property
    def _stems(self) -> Counter[str]:
        names = {copy.barrier for copy in self.copies}
        return Counter(_STAGE.sub("", name) for name in names)

    def stem(self, name: str) -> str:
        """A barrier's name without a stage in it, where other stages exist."""
        short = name if _ADDRESS.search(name) else _STAGE.sub("", name)
        return short if short != name and self._stems[short] > 1 else name

    def loops_in(self, lines: Sequence[str], events: set[int]) -> list[StatedLoop]:
        """What lines that are no events state of the order of a role's steps."""
        names = {self.stem(copy.barrier) for copy in self.copies}
        others = [text for line, text in enumerate(lines, 1) if line not in events]
        return stated_loops(others, {actor.role for actor in self.trace.steps}, names)

    def family(self, copy: Copy) -> Family:
        """The barrier of which a copy is a stage."""
        known = self._families.get(copy)
        if known is None:
            stem = self.stem(copy.barrier)
            stage = f"[{self.stage(copy)}]" if stem in self._split else ""
            known = self._families[copy] = copy.group, stem + stage, copy.owner
        return known

    @cached_property
    def _families(self) -> dict[Copy, Family]:
        """By copy, filled when asked: an account asks for each copy again and again."""
        return {}

    @cached_property
    def copies(self) -> set[Copy]:
        trace = self.trace
        found = {copy for steps in trace.steps.values() for step in steps for copy in step.to}
        found |= {copy for _, copy in (*trace.passed, *trace.arrived)}
        found |= {*trace.states}
        staged = {each[:2] for each in found if each.stage >= 0}  # a line about all stages is no stage
        stated = {each for each in trace.feeds if each.owner >= 0 or not trace.inits}
        return found | {each for each in stated if each.stage >= 0 or each[:2] not in staged}

    def init(self, copy: Copy) -> int:
        """Arrivals of a phase; 0: not printed."""
        return self.trace.init(copy)

    def siblings(self, copy: Copy) -> list[Copy]:
        """The stages of a barrier, in one CTA."""
        mine = self.family(copy)
        return sorted(each for each in self.copies if self.family(each) == mine)

    def twins(self, copy: Copy) -> list[Copy]:
        """The same barrier and stage in the cluster's other CTAs."""
        return [each for each in sorted(self.copies) if each != copy and each[:3] == copy[:3]]

    def stage(self, copy: Copy) -> int:
        """The stage of a barrier, also one in its name; -1: none."""
        if copy.stage >= 0 or self.stem(copy.barrier) == copy.barrier:
            return copy.stage
        return int(re.findall(r"\d+$", copy.barrier)[0])

    @cached_property
    def _split(self) -> set[str]:
        """Barriers whose stages are different things, not a ring: an actor uses all of them in a round."""
        stages: dict[str, set[int]] = {}
        for copy in self.copies | {each for each in self.trace.inits if each.stage >= 0}:
            stages.setdefault(self.stem(copy.barrier), set()).add(self.stage(copy))
        found: set[str] = set()
        for steps in self.trace.steps.values():
            seen: dict[tuple[str, str, int], set[int]] = {}
            rounds, turn = 0, None
            for step in steps:
                if step.kind == "copy" or step.turn is None or step.turn < 0:
                    continue
                rounds, turn = rounds + (step.turn != turn), step.turn
                for copy in step.to:
                    key = step.kind, self.stem(copy.barrier), rounds
                    seen.setdefault(key, set()).add(self.stage(copy))
            found |= {stem for (_, stem, _), some in seen.items() if 1 < len(some) == len(stages[stem])}
        used: dict[tuple[str, str], dict[str, set[int]]] = {}
        for actor, steps in self.trace.steps.items():
            for step in steps:
                for copy in step.to:
                    use = str(step.kind), self.stem(copy.barrier)
                    used.setdefault(use, {}).setdefault(role_of(actor), set()).add(self.stage(copy))
        for (kind, stem), roles in used.items():  # each role has a stage of its own
            each = [min(some) for some in roles.values() if len(some) == 1]
            if kind != "copy" and len(each) == len(roles) > 1 and len({*each}) == len(each):
                found.add(stem)
        return found

    def is_ring(self, copy: Copy) -> bool:
        """Whether a barrier's stages are used in turn."""
        return self.stem(copy.barrier) not in self._split

    def waiters(self, copy: Copy) -> set[Actor]:
        mine = self.family(copy)
        found = {actor for actor, other in self.waits if self.family(other) == mine}
        counted = (*self.trace.passed, *self.trace.passed_in_all)
        return found | {actor for actor, other in counted if self.family(other) == mine}

    def passes(self, actor: Actor, copy: Copy) -> int:
        """Waits of an actor on a barrier that ended."""
        if (actor, copy) in self.trace.passed:
            return self.trace.passed[actor, copy]
        ring = self.siblings(copy)
        for (who, each), count in self.trace.passed_in_all.items():
            if who == actor and self.family(each) == self.family(copy):
                return (count + len(ring) - 1 - max(0, self.stage(copy))) // len(ring)  # in turn
        return sum(step.passed for step in self.waits.get((actor, copy), ()))

    def unused(self, copy: Copy) -> int | None:
        """Phases of a barrier's arrivals that no wait used; None if no role waits on it.

        Where the arrivals of a phase are not printed, each may be a phase.
        """
        init = self.init(copy)
        made = sum(count for (_, each), count in self.made.items() if each == copy)
        phases = self.threads[copy] // init if init else made
        used = [self.passes(actor, copy) for actor in self.waiters(copy)]
        return phases - (max(used) - self.free(copy)) if used else None

    def passes_of(self, actor: Actor) -> dict[Family, int]:
        """Waits of an actor that ended, by barrier without stage."""
        found: dict[Family, int] = {}
        waits = [(who, copy) for who, copy in self.waits if who == actor]
        for who, copy in {*waits, *self.trace.passed}:
            if who == actor:
                found[self.family(copy)] = found.get(self.family(copy), 0) + self.passes(who, copy)
        for (who, copy), count in self.trace.passed_in_all.items():
            if who == actor:
                found[self.family(copy)] = count
        return found

    def total(self, actor: Actor, copy: Copy) -> int:
        """Arrivals of an actor on all stages of a barrier."""
        return sum(self.made.get((actor, each), 0) for each in self.siblings(copy))

    def completed(self, copy: Copy) -> int | None:
        """Phases that a barrier completed, by a dump or by its arrivals; None: not known."""
        state = self.trace.states.get(copy)
        if state is not None and state.completed is not None:
            return state.completed
        init = self.init(copy)
        return self.threads[copy] // init if init else None

    @cached_property
    def _free(self) -> dict[tuple[int, str], bool]:
        """Whether the first wait on a barrier needs no arrival, by most of its first waits."""
        votes: dict[tuple[int, str], Counter[bool]] = {}
        for (actor, copy), steps in self.waits.items():
            if steps[0].phase is not None and not self.trace.dump and not self.trace.is_cut(actor):
                key = copy.group, self.stem(copy.barrier)
                stands = not steps[0].passed and self.threads[copy] > 0  # a wait that needs no arrival ends
                votes.setdefault(key, Counter())[steps[0].phase == 1 and not stands] += 1
                if steps[0].passed and not any(self.threads[each] for each in self.siblings(copy)):
                    votes[key][True] += len(self.waits)  # it ended, and no arrival was made
        for (_, copy), count in self.trace.passed.items():
            key = copy.group, self.stem(copy.barrier)
            done = self.completed(copy)
            if count and done is not None:
                # a dump: a role that passed more often than phases completed began free
                votes.setdefault(key, Counter())[count > done] += 1 + 4 * (count > done)
        if self.trace.dump:
            for (actor, copy), steps in self.waits.items():
                key = copy.group, self.stem(copy.barrier)
                step = steps[-1]
                if step.phase is not None and not step.passed and key not in votes:
                    count = self.trace.passed.get((actor, copy), 0)
                    votes.setdefault(key, Counter())[bool((step.phase + count) & 1)] += 1
        return {key: count[True] > count[False] for key, count in votes.items()}

    def free(self, copy: Copy) -> bool:
        """Whether the first wait on a barrier needs no arrival: never, where bytes are announced on it."""
        if any(self.announced[each] or self.copied[each] for each in self.siblings(copy)):
            return False
        stem = self.stem(copy.barrier)
        if _FILLS.search(stem) and not _FREES.search(stem):
            return False
        first = self._free.get((copy.group, stem), False)
        return first or (bool(_FREES.search(stem)) and not self._begins_late(copy))

    def _begins_late(self, copy: Copy) -> bool:
        """Whether its waiters use a barrier only from a later round on: they need an arrival at once."""
        found = []
        for (actor, other), steps in self.waits.items():
            if self.family(other) == self.family(copy):
                before = self.trace.steps[actor][: self.trace.steps[actor].index(steps[0])]
                ring = len(self.siblings(copy))
                made = max((self.total(actor, each) for step in before for each in step.to), default=0)
                found.append((steps[0].turn or 0) >= ring if steps[0].turn is not None else made > ring)
        return bool(found) and all(found) and not self.trace.dump

    def stages_shown(self, copy: Copy) -> bool:
        """Whether a barrier is known to have no stages but those printed: phases of three waits alternate."""
        if any(each.stage >= 0 for each in self.copies):
            return True
        return any(
            sum(step.passed for step in steps) > 2
            for (_, other), steps in self.waits.items()
            if self.stem(other.barrier) == self.stem(copy.barrier)
        )

    def unprinted_stages(self, copy: Copy) -> bool:
        """Whether a barrier has stages that are not printed: two waits in a row that ended, for one phase."""
        if any(each.stage >= 0 for each in self.copies):
            return False
        return any(
            first.phase is not None and first.phase == then.phase and then.passed
            for (_, other), steps in self.waits.items()
            if self.stem(other.barrier) == self.stem(copy.barrier)
            for first, then in pairwise(steps)
        )

    @cached_property
    def blocked(self) -> list[Blocked]:
        """The waits at the end, by line."""
        found = []
        for actor in self.trace.steps:
            step = self.trace.blocked(actor)
            if step is not None:
                copy = step.to[0]
                count = self.passes(actor, copy)
                need = count + 1 - self.free(copy)
                if self.trace.dump and not (
                    self.trace.passed or self.trace.passed_in_all
                ):  # the dump has arrivals, and no waits that ended
                    need = (self.completed(copy) or 0) + 1
                found.append(Blocked(actor, step, count, need))
        return sorted(found, key=lambda each: each.step.line)

    def is_cut(self, wait: Blocked) -> bool:
        """Whether the first lines of a barrier's waiter, or of a producer, may be missing."""
        return any(map(self.trace.is_cut, (wait.actor, *self.producers(wait.copy))))

    def lacks_of(self, actor: Actor, copy: Copy) -> bool:
        """Whether more waits of an actor ended than the printed arrivals allow."""
        init = self.init(copy)
        made = sum(count for (_, each), count in self.made.items() if each == copy)
        done = self.threads[copy] // init if init else made
        return self.passes(actor, copy) - self.free(copy) > done

    def lacks(self, wait: Blocked) -> list[Actor]:
        """The producers that made fewer arrivals than the wait needs phases; all, where that is not known."""
        if (self.trace.feeds and not self.made) or self.is_cut(wait):
            return sorted(self.producers(wait.copy) - {wait.actor})
        return sorted(
            actor for actor in self.producers(wait.copy) if self.made.get((actor, wait.copy), 0) < wait.need
        )
