"""Which actors arrive on a barrier: those that did, and those of the roles that the log states."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from tileproof.conformance.beside.logs.hangs.accounts.trace import Copy, LogTrace
from tileproof.conformance.beside.logs.hangs.log import Actor

Family = tuple[int, str, int]  # cluster, barrier without its stage, CTA
_BOUND = 2  # arrivals on one stage alone that show a stage of its own


@lru_cache(1 << 14)
def role_of(actor: Actor) -> str:
    """The role of an actor, without its warp."""
    return re.sub(r" (?:warp|thread) \d+$", "", actor.role)


@lru_cache(1 << 14)
def unnumbered(role: str) -> str:
    """A role without the number of its warp: `epi1`, `epi.1`."""
    return re.sub(r"(?<=[^\W\d])[ _.#-]?\d+$", "", role)


class Arrivers:
    """The producers of a ledger's barriers."""

    trace: LogTrace
    made: dict[tuple[Actor, Copy], int]
    each: dict[tuple[Actor, Family], int]
    by_states: bool

    @property
    def copies(self) -> set[Copy]:
        raise NotImplementedError

    def family(self, copy: Copy) -> Family:
        raise NotImplementedError

    def stem(self, name: str) -> str:
        raise NotImplementedError

    def stage(self, copy: Copy) -> int:
        raise NotImplementedError

    def twins(self, copy: Copy) -> list[Copy]:
        raise NotImplementedError

    def waiters(self, copy: Copy) -> set[Actor]:
        raise NotImplementedError

    @cached_property
    def _producers(self) -> dict[Family, set[Actor]]:
        found: dict[Family, set[Actor]] = {}
        for actor, copy in self.made:
            found.setdefault(self.family(copy), set()).add(actor)
        for copy, senders in self._senders.items():
            found[self.family(copy)] = set(senders)
        for copy, roles in self._stated.items():
            if copy in self._senders:
                continue
            actors = [actor for actor in self.trace.steps if self._is_in(actor, roles)]
            actors = [actor for actor in actors if actor.group == copy.group]
            near = [actor for actor in actors if copy.owner in (-1, actor.cta)]
            every = self.is_shared(copy) or self._takes_all(copy, near, actors)
            found.setdefault(self.family(copy), set()).update(actors if every else near or actors)
        return found

    @cached_property
    def _senders(self) -> dict[Copy, set[Actor]]:
        """The actors that arrive on each barrier, where the log states their CTAs and each of them prints."""
        found: dict[Copy, set[Actor]] = {}
        for fed, senders in self.trace.senders.items():
            for copy in [each for each in self.copies if self._is_of(each, fed)]:
                for role, cta in senders:
                    some = {
                        each
                        for each in self.trace.steps
                        if each.group == copy.group and each.cta == cta and self._is_in(each, {role})
                    }
                    found.setdefault(copy, set()).update(some or {Actor(copy.group, "", -1)})
        return {copy: some for copy, some in found.items() if all(actor.role for actor in some)}

    def is_stated(self, copy: Copy) -> bool:
        """Whether the log states the roles that arrive on a barrier, and their CTAs."""
        return copy in self._senders

    def is_shared(self, copy: Copy) -> bool:
        """Whether the log states that the roles of all CTAs arrive on a barrier."""
        return any(self._is_of(copy, fed) for fed in self.trace.shared)

    def _takes_all(self, copy: Copy, near: list[Actor], actors: list[Actor]) -> bool:
        """Whether a barrier of one CTA, as the log states it, needs the arrivals of the roles of all CTAs."""
        key = self.family(copy)
        own, every = (sum(self.each.get((actor, key), 1) for actor in some) for some in (near, actors))
        alone = any(self._is_of(copy, fed) and fed.owner >= 0 for fed in self.trace.feeds)
        return alone and own < self.trace.init(copy) == every

    @cached_property
    def _stated(self) -> dict[Copy, set[str]]:
        """The roles that arrive on each barrier by the lines about it, with a stage and a CTA or without."""
        found: dict[Copy, set[str]] = {}
        for fed, roles in self.trace.feeds.items():
            for copy in [each for each in self.copies if self._is_of(each, fed)] or [fed]:
                found.setdefault(copy, set()).update(roles)
        return found

    def declared(self, copy: Copy) -> set[str]:
        """The roles that arrive on a barrier, as the log states them; empty where it does not, or where it
        names none that prints.
        """
        stated = self._stated.get(copy, set())
        return stated if stated <= self._names else set()

    def is_declared(self, actor: Actor, copy: Copy) -> bool:
        """Whether the log states that the role of an actor arrives on a barrier."""
        if copy in self._senders:
            return actor in self._senders[copy]
        return self._is_in(actor, self.declared(copy))

    @cached_property
    def _roles(self) -> set[str]:
        return {role_of(actor) for actor in self.trace.steps}

    @cached_property
    def _names(self) -> set[str]:
        """The names of the roles that print, also without the number of a warp in them."""
        return self._roles | {unnumbered(role) for role in self._roles}

    def _is_in(self, actor: Actor, roles: set[str]) -> bool:
        """Whether stated roles have an actor's: by its name, else by its name without a number."""
        role = role_of(actor)
        return role in roles or unnumbered(role) in roles - self._roles

    def _is_of(self, copy: Copy, fed: Copy) -> bool:
        """Whether a barrier is one that a line about `fed` means."""
        same = copy == fed or self.stem(copy.barrier) == self.stem(fed.barrier)
        return same and fed.stage in (-1, copy.stage) and fed.owner in (-1, copy.owner)

    def producers(self, copy: Copy) -> set[Actor]:
        """The actors that arrive on any stage of a barrier; those of its other CTAs if none does.

        Not those with another stage of their own.
        """
        found = self._producers.get(self.family(copy), set())
        if copy in self._senders:
            return set(self._senders[copy])
        if not found:
            for twin in self.twins(copy):
                found = found | self._producers.get(self.family(twin), set())
        found = found | {
            peer for actor in found for peer in self.peers(actor) if self._serves(actor, peer, copy)
        }
        bound = self._bound.get(self.family(copy), {})
        return {actor for actor in found if bound.get(actor, self.stage(copy)) == self.stage(copy)}

    @cached_property
    def _bound(self) -> dict[Family, dict[Actor, int]]:
        """The stage of each actor that arrives on one stage alone, where another does so on another stage."""
        used: dict[Family, dict[Actor, dict[int, int]]] = {}
        for (actor, copy), count in self.made.items():
            if count:
                of = used.setdefault(self.family(copy), {}).setdefault(actor, {})
                of[self.stage(copy)] = of.get(self.stage(copy), 0) + count
        found = {}
        for family, actors in used.items():
            alone = {
                actor: next(iter(stages))
                for actor, stages in actors.items()
                if len(stages) == 1 and sum(stages.values()) >= _BOUND
            }
            if len({*alone.values()}) > 1:
                found[family] = alone
        return found

    def _serves(self, actor: Actor, peer: Actor, copy: Copy) -> bool:
        """Whether a role's twin in another CTA arrives on the same barrier: only one CTA waits on it."""
        if copy.owner < 0 or peer.cta == actor.cta:
            return copy.owner < 0 and peer.cta == actor.cta
        own = [twin for twin in self.twins(copy) if twin.owner == peer.cta]
        if self.by_states and any(self.made.get((peer, twin)) for twin in own):
            return False  # each arrives in its own CTA
        return not any(self.waiters(twin) for twin in self.twins(copy))

    def peers(self, actor: Actor) -> list[Actor]:
        """Actors with the same program: the role in other CTAs, other warps of the role."""
        plain = self.program(actor)
        return [each for each in self.trace.steps if each != actor and self.program(each) == plain]

    def program(self, actor: Actor) -> str:
        """The role of an actor; without a number where the log states the role so."""
        role = role_of(actor)
        return unnumbered(role) if unnumbered(role) in self._plain else role

    def common(self, actor: Actor) -> str:
        """The role of an actor; without a number where the roles that differ in it have the same steps."""
        plain = unnumbered(role_of(actor))
        return plain if plain in self._alike else self.program(actor)

    def fellows(self, actor: Actor) -> list[Actor]:
        """Actors with the same program, also those whose roles differ in a number."""
        plain = self.common(actor)
        return [each for each in self.trace.steps if each != actor and self.common(each) == plain]

    @cached_property
    def _alike(self) -> set[str]:
        """Names without numbers of several roles whose steps are of the same kinds, on the same barriers."""
        used: dict[str, dict[str, set[tuple[str, str]]]] = {}
        for actor, steps in self.trace.steps.items():
            role = role_of(actor)
            some = used.setdefault(unnumbered(role), {}).setdefault(role, set())
            some |= {(step.kind, self.stem(copy.barrier)) for step in steps for copy in step.to}
        return {
            plain
            for plain, roles in used.items()
            if len(roles) > 1 and plain not in roles and self._one_program(list(roles.values()))
        }

    @staticmethod
    def _one_program(uses: list[set[tuple[str, str]]]) -> bool:
        """Whether each of some roles waits on the same barriers, and none has a barrier of its own."""
        waits = {frozenset(item for item in use if item[0] == "wait") for use in uses}
        most = set().union(*uses)
        return len(waits) == 1 and most in uses

    @cached_property
    def _plain(self) -> set[str]:
        """Roles that the log states and that print with numbers only."""
        return {role for roles in self.trace.feeds.values() for role in roles} - self._roles
