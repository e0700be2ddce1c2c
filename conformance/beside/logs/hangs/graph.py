"""The wait-for graph: what each actor of a log waits for at its end, and whose arrivals are missing.

printf keeps the order of lines per thread only, so the order between actors is exact to a few lines at best.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.accounts.ledger import Ledger
from tileproof.conformance.beside.logs.hangs.accounts.of_graph import trace_of
from tileproof.conformance.beside.logs.hangs.accounts.reasons import Reasoner
from tileproof.conformance.beside.logs.hangs.forms import CLUSTER, SYNCTHREADS
from tileproof.conformance.beside.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.beside.logs.hangs.log import OWN, Actor, Log
from tileproof.conformance.beside.logs.hangs.rounds import Rounds
from tileproof.conformance.beside.logs.hangs.words import key_of
from tileproof.spec.plan import KernelPlan

LATE = 8  # lines by which the order of two actors' lines may be wrong


@dataclass(frozen=True)
class LogEdge:
    """`waiter` lacks arrival `need` (from 1) of `producer`, which made `made` and may itself be blocked."""

    waiter: Actor
    producer: Actor
    made: int
    need: int


@dataclass
class WaitGraph:
    """Histories, the blocked waits, and the arrivals that each wait lacks."""

    log: Log
    plan: KernelPlan | None
    histories: dict[Actor, History]
    says_done: bool
    says_wait: bool
    blocked: list[Wait] = field(default_factory=list)
    edges: dict[Actor, list[LogEdge]] = field(default_factory=dict)
    producers: dict[tuple[int, str], set[Actor]] = field(default_factory=dict)
    roots: list[Wait] = field(default_factory=list)
    cycle: list[Actor] = field(default_factory=list)
    dependents: dict[Actor, set[Actor]] = field(default_factory=dict)
    _free: dict[tuple[int, Place], int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """ "hang", "no hang seen", or "unclear" when the log prints one side of its waits only."""
        if self.log.snapshot and self.blocked:
            return "hang"
        if not self.blocked:
            return "no hang seen" if self.says_wait else "unclear"
        return "hang" if self.says_done or self.edges_between else "unclear"

    @property
    def edges_between(self) -> bool:
        """Whether some blocked wait lacks an arrival."""
        return any(self.edges.values())

    @cached_property
    def groups(self) -> dict[int, list[History]]:
        """The histories of each cluster."""
        found: dict[int, list[History]] = {}
        for actor, history in self.histories.items():
            found.setdefault(actor.group, []).append(history)
        return found

    @cached_property
    def accounts(self) -> Reasoner:
        """The accounts of the log's barriers, with their rules."""
        return Reasoner(Ledger(trace_of(self.log, self.histories)))

    @cached_property
    def waits_of(self) -> dict[Actor, Wait]:
        """The blocked wait of each blocked actor."""
        return {wait.actor: wait for wait in self.blocked}

    @cached_property
    def done_roles(self) -> set[tuple[str, str]]:
        """The (role, barrier) pairs for which some line reports the end of a wait."""
        return {(event.actor.role, event.barrier) for event in self.log.events if event.kind == "done"}

    @cached_property
    def roles_done(self) -> bool:
        """Whether every role that waits prints a line when a wait ends."""
        ends = {role for role, _ in self.done_roles}
        return all(wait.actor.role in ends for wait in self.blocked)

    @cached_property
    def note_lines(self) -> set[int]:
        """The lines that name an actor and no barrier."""
        return {line for line, _, _ in self.log.notes}

    @cached_property
    def rounds(self) -> Rounds:
        """The k-block whose arrival a wait of a k-block needs."""
        return Rounds(self.groups, self.log.head_missing)

    def free_first(self, group: int, place: Place) -> int:
        """1 when the first wait on `place` needs no arrival, because it is for the phase before the first."""
        if (group, place) not in self._free:
            self._free[group, place] = self._free_first(group, place)
        return self._free[group, place]

    def _free_first(self, group: int, place: Place) -> int:
        mine = self.groups.get(group, [])
        firsts = [
            waits[0].event.phase for h in mine if (waits := h.on(place)) and waits[0].event.phase is not None
        ]
        if firsts:
            return int(sum(phase == 1 for phase in firsts) > len(firsts) / 2)
        # Without phases: more waits passed than arrivals were made, on this stage or another of the barrier.
        for stage in {stage for h in mine for barrier, stage, _ in h.arrives if barrier == place.barrier}:
            at = Place(place.barrier, stage)
            made = max((len(h.arrivals(at)) for h in mine if at in h.arrives), default=0)
            if made and max(sum(wait.passed for wait in h.on(at)) for h in mine) > made:
                return 1
        return 0

    def need(self, wait: Wait) -> int:
        """How many arrivals of each producer `wait` needs, by the count of waits."""
        return wait.ordinal + 1 - self.free_first(wait.actor.group, wait.place)

    def made(self, actor: Actor, place: Place) -> int:
        """How often `actor` arrived on `place`."""
        return len(self.histories[actor].arrivals(place)) if actor in self.histories else 0

    def lacks(self, wait: Wait, producer: Actor) -> bool:
        """Whether the arrival of `producer` that `wait` needs is absent from the log.

        Decided by k-block if earlier rounds of the log show which k-block's arrival the wait needs, else by
        counting. Without the log's head, counts are meaningless; the arrivals after the previous wait decide.
        """
        by_k = self.rounds.has_arrived(wait, self.histories[producer])
        if by_k is not None:
            return not by_k
        if not self.log.head_missing:
            return self.made(producer, wait.place) < self.need(wait)
        earlier = [event for event in self.histories[wait.actor].on(wait.place) if event.passed]
        arrivals = self.histories[producer].arrivals(wait.place)
        since = earlier[-1].end - LATE if earlier else -1
        return not any(event.line > since for event in arrivals[-1:])

    def peers(self, actor: Actor) -> list[Actor]:
        """The same role in the cluster's other CTAs."""
        return [h.actor for h in self.groups[actor.group] if h.actor.role == actor.role and h.actor != actor]

    def leads(self, actor: Actor) -> bool:
        """Whether the role logs barriers in this CTA only, while others of the cluster do so in several."""
        return self._busy_ctas[actor.group] > 1 and self._role_ctas.get((actor.group, actor.role), set()) == {
            actor.cta
        }

    @cached_property
    def _busy_ctas(self) -> dict[int, int]:
        return {group: len({h.actor.cta for h in some if h.busy}) for group, some in self.groups.items()}

    @cached_property
    def _role_ctas(self) -> dict[tuple[int, str], set[int]]:
        found: dict[tuple[int, str], set[int]] = {}
        for actor, history in self.histories.items():
            if history.busy:
                found.setdefault((actor.group, actor.role), set()).add(actor.cta)
        return found

    def producers_of(self, wait: Wait) -> set[Actor]:
        """The actors that arrive on the barrier of `wait`, or whose role arrives on it in another CTA."""
        known = self.arrivers(wait)
        if not known or wait.cta < 0 or wait.cta != wait.actor.cta or self.visits(wait):
            return known
        known = known | self._absent(wait, known)
        roles = {actor.role for actor in known}
        leads = self.leads(wait.actor)
        twins = {
            h.actor
            for h in self.groups[wait.actor.group]
            if h.actor.role in roles and (leads or (h.busy and h.actor.cta == wait.actor.cta))
        }
        other = {twin for twin in twins - known if twin.cta != wait.actor.cta}
        twins -= {actor for actor in other if self._serves_not(actor, wait.event.barrier, known)}
        return known | {twin for twin in twins if twin != wait.actor}

    def _absent(self, wait: Wait, known: set[Actor]) -> set[Actor]:
        """The twins that never arrive on a barrier at which a role of several CTAs meets: the waiting role
        itself arrives on it, or the role does in more than one CTA.
        """
        ctas: dict[str, set[int]] = {}
        for actor in known:
            ctas.setdefault(actor.role, set()).add(actor.cta)
        meets = {role for role, some in ctas.items() if len(some) > 1}
        meets |= {wait.actor.role} if wait.actor in known else set()
        return {
            history.actor
            for history in self.groups[wait.actor.group]
            if history.actor.role in meets and not history.arrivals_on(wait.event.barrier)
        }

    def participants(self, wait: Wait) -> set[Actor]:
        """The other actors whose role takes part in a barrier of threads or of the cluster."""
        roles = {actor.role for actor in self.producers.get((wait.actor.group, wait.event.barrier), set())}
        # Every thread of the CTA, or of the cluster, that has not exited.
        every = wait.event.barrier in (key_of(SYNCTHREADS), key_of(CLUSTER))
        return {
            h.actor
            for h in self.groups[wait.actor.group]
            if (h.actor.role in roles or (every and h.blocked))
            and h.actor != wait.actor
            and (wait.event.scope == "cluster" or h.actor.cta == wait.actor.cta)
        }

    def holders(self, wait: Wait) -> list[Wait]:
        """The allocations of Tensor Memory of other actors that returned and were not freed afterwards."""
        held = []
        for history in self.groups[wait.actor.group]:
            got = [wait_ for wait_ in history.waits if wait_.event.scope == "tmem" and wait_.passed]
            if history.actor != wait.actor and len(got) > len(history.arrivals_on(wait.event.barrier)):
                held.append(got[-1])
        return held

    def arrivers(self, wait: Wait) -> set[Actor]:
        """The actors that arrive on the barrier of `wait` in the CTA that owns it, as far as the log shows.

        Where a role waits on the same barrier of several CTAs, an arrival without a target is in its own CTA.
        """
        known = self.producers.get((wait.actor.group, wait.event.barrier), set())
        if wait.cta < 0:
            return known
        reach = {
            actor
            for actor in known
            if any(event.reaches(wait.cta) for event in self.histories[actor].arrivals_on(wait.event.barrier))
        }
        if self.visits(wait):
            told = {actor for actor in reach if self._targets(actor, wait.event.barrier)}
            reach = told | {actor for actor in reach if actor.cta == wait.cta} or reach
        return reach or known

    def _targets(self, actor: Actor, barrier: str) -> bool:
        return any(event.to for event in self.histories[actor].arrivals_on(barrier))

    def visits(self, wait: Wait) -> bool:
        """Whether a role of the cluster waits on this barrier of another CTA."""
        return (wait.actor.group, wait.event.barrier) in self._visited

    @cached_property
    def _visited(self) -> set[tuple[int, str]]:
        return {(event.actor.group, event.barrier) for event in self.log.events if event.owner != OWN}

    def _serves_not(self, twin: Actor, barrier: str, known: set[Actor]) -> bool:
        """Whether a role's twin has twice gone past where the role arrives on a barrier, without arriving."""
        pairs: dict[tuple[str, str], set[bool]] = {}
        for actor in known:
            if actor.role == twin.role:
                tokens = [token for token, _ in self.histories[actor].tokens]
                for first, then in pairwise(tokens):
                    pairs.setdefault(first, set()).add(then == ("arrive", barrier))
        before = {first for first, follows in pairs.items() if follows == {True}}
        steps = self.histories[twin].tokens
        return sum(token in before for token, _ in steps[:-1]) > 1
