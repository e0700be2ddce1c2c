"""The history of each actor of a log in program order: its waits, whether each ended, and its arrivals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tileproof.conformance.beside.logs.hangs.log import OWN, Actor, Log, LogEvent


class Place(NamedTuple):
    """A barrier and its stage, as an actor sees them; `owner`: the CTA of a barrier that is not its own."""

    barrier: str
    stage: int | None
    owner: int = OWN


@dataclass(eq=False)
class Wait:
    """One wait of an actor; `ordinal` counts its waits on this barrier and stage from 0."""

    event: LogEvent
    ordinal: int
    done: LogEvent | None = None
    moved_on: int = 0  # line at which the actor went on without a done line

    @property
    def actor(self) -> Actor:
        return self.event.actor

    @property
    def place(self) -> Place:
        return Place(self.event.barrier, self.event.stage, self.event.owner)

    @property
    def cta(self) -> int:
        """The CTA that owns the barrier."""
        return self.event.cta

    @property
    def token(self) -> tuple[str, str]:
        """What kind of step it is: a wait on the same barrier of another CTA is another step."""
        owner = "" if self.event.owner == OWN else f"@{self.event.owner}"
        return "wait", self.event.barrier + owner

    @property
    def passed(self) -> bool:
        return self.done is not None or self.moved_on > 0

    @property
    def end(self) -> int:
        """The line that shows its end, else its beginning."""
        return self.done.line if self.done else self.moved_on or self.event.line


@dataclass(eq=False)
class History:
    """The actions of an actor; `steps`: its waits (where they begin) and arrivals in order."""

    actor: Actor
    waits: list[Wait] = field(default_factory=list)
    arrives: dict[Place, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    dones: dict[Place, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    copies: dict[Place, list[LogEvent]] = field(default_factory=lambda: defaultdict(list))
    steps: list[Wait | LogEvent] = field(default_factory=list)
    _by_place: dict[Place, list[Wait]] = field(default_factory=lambda: defaultdict(list))
    first_line: int = 0
    last_line: int = 0
    last_k: int | None = None

    @property
    def blocked(self) -> Wait | None:
        """The wait that has not ended, if any."""
        return self.waits[-1] if self.waits and not self.waits[-1].passed else None

    @property
    def busy(self) -> bool:
        """Whether the actor uses any barrier."""
        return bool(self.steps)

    def on(self, place: Place) -> list[Wait]:
        """Its waits on a barrier's stage in one CTA."""
        return self._by_place.get(place, [])

    def arrivals(self, place: Place) -> list[LogEvent]:
        """Its arrivals on a barrier's stage."""
        return self.arrives.get(Place(place.barrier, place.stage), [])

    def arrivals_on(self, barrier: str) -> list[LogEvent]:
        """Its arrivals on any stage of a barrier, in order."""
        found = [event for place, some in self.arrives.items() if place.barrier == barrier for event in some]
        return sorted(found, key=lambda event: event.line)

    def places(self) -> Iterator[Place]:
        """The places on which it waits."""
        return iter(self._by_place)

    @cached_property
    def tokens(self) -> list[tuple[tuple[str, str], Wait | LogEvent]]:
        """Its steps as ("wait" or "arrive", barrier), with the step; to be read when the history is whole."""
        return [
            (step.token, step) if isinstance(step, Wait) else (("arrive", step.barrier), step)
            for step in self.steps
        ]

    def add(self, wait: Wait) -> None:
        """Append a wait."""
        self.waits.append(wait)
        self.steps.append(wait)
        self._by_place[wait.place].append(wait)


def histories_of(log: Log, says_done: set[tuple[str, str]]) -> dict[Actor, History]:
    """The history of every actor; `says_done`: the (role, barrier) pairs for which some line reports the end
    of a wait.
    """
    histories: dict[Actor, History] = {}
    counts: dict[tuple[Actor, Place], int] = defaultdict(int)
    before: dict[Actor, LogEvent] = {}
    steps: list[tuple[int, Actor, LogEvent | None, int | None]] = [
        *((event.line, event.actor, event, event.k) for event in log.events),
        *((line, actor, None, k) for line, actor, k in log.notes if actor.role),
    ]
    steps.sort(key=lambda step: step[0])
    for line, actor, event, k in steps:
        history = histories.get(actor)
        if history is None:
            history = histories[actor] = History(actor, first_line=line)
        history.last_line = line
        if k is not None:
            history.last_k = k
        open_wait = history.blocked
        if event is None:
            if open_wait and (actor.role, open_wait.event.barrier) not in says_done:
                open_wait.moved_on = line
            continue
        if event.kind == "wait":
            if open_wait and _same(open_wait.event, event, says_done):
                continue
            if open_wait:
                open_wait.moved_on = line
            place = Place(event.barrier, event.stage, event.owner)
            history.add(Wait(event, counts[actor, place]))
            counts[actor, place] += 1
        elif event.kind == "done":
            _done(history, open_wait, event, counts)
        elif event.kind == "copy":
            history.copies[Place(event.barrier, event.stage)].append(event)
        else:
            if open_wait:
                open_wait.moved_on = line
            # If all lanes of a warp print, an arrival appears many times.
            last = before.get(actor)
            if last is None or event.k is None or not _again(last, event):
                history.arrives[Place(event.barrier, event.stage)].append(event)
                history.steps.append(event)
        before[actor] = event
    return histories


def _again(last: LogEvent, event: LogEvent) -> bool:
    return (last.kind, last.barrier, last.stage, last.k, last.phase, last.to) == (
        "arrive",
        event.barrier,
        event.stage,
        event.k,
        event.phase,
        event.to,
    )


def _same(first: LogEvent, again: LogEvent, says_done: set[tuple[str, str]]) -> bool:
    """Whether `again` repeats the same wait, as spinning loops print it."""
    if (first.barrier, first.stage, first.owner, first.k, first.phase) != (
        again.barrier,
        again.stage,
        again.owner,
        again.k,
        again.phase,
    ):
        return False
    return first.k is not None or first.phase is not None or (first.actor.role, first.barrier) in says_done


def _done(
    history: History, open_wait: Wait | None, event: LogEvent, counts: dict[tuple[Actor, Place], int]
) -> None:
    place = Place(event.barrier, event.stage, event.owner)
    history.dones[place].append(event)
    if open_wait and open_wait.place == place:
        open_wait.done = event
        return
    if open_wait:
        open_wait.moved_on = event.line
    # Passed without a line before the wait.
    repeated = history.waits and history.waits[-1].done and history.waits[-1].done.k == event.k
    if repeated and history.waits[-1].place == place and event.k is not None:
        return
    history.add(Wait(event, counts[history.actor, place], done=event))
    counts[history.actor, place] += 1
