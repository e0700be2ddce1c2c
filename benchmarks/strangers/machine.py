"""A small model of mbarriers, barriers of threads and clusters, and Tensor Memory, which runs roles.

The model exists to know the true cause of a log: it shares no code with the explainer or with its tests.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

Who = tuple[str, int]  # a role and its CTA
Place = tuple[str, int, int]  # a barrier, the CTA that owns it, a stage


@dataclass(frozen=True)
class Op:
    """An operation of a role, and the event of a log that it prints.

    `kind`: wait, arrive, copy, sync (named barrier or __syncthreads), cluster_arrive, cluster_wait, alloc,
    dealloc, note or stop. `owner`: the CTA of the barrier that is waited on. `to`: the CTAs that an arrival
    reaches. `size`: bytes announced or copied, threads of a sync, columns of an allocation.
    """

    kind: str
    bar: str = ""
    owner: int = 0
    stage: int = 0
    parity: int = 0
    k: int | None = None
    to: tuple[int, ...] = ()
    size: int = 0
    text: str = ""
    number: int = -1  # of a named barrier


@dataclass(frozen=True)
class Event:
    """A printed event: an operation, its role, and whether its blocking part ended."""

    who: Who
    op: Op
    end: bool = False


@dataclass
class Mbarrier:
    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def arrive(self, expect: int = 0) -> None:
        self.bytes += expect
        self.pending -= 1
        self.settle()

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count


@dataclass
class Kernel:
    """Programs, expected arrivals of each barrier (by owner where they differ), and participants of syncs."""

    programs: dict[Who, list[Op]]
    counts: dict[str, int]
    syncs: dict[str, int] = field(default_factory=dict)
    more: dict[tuple[str, int], int] = field(default_factory=dict)
    columns: int = 512
    stages: dict[str, int] = field(default_factory=dict)


@dataclass
class Run:
    """The printed events in their order, and the operation in which each hung role is."""

    events: list[Event] = field(default_factory=list)
    blocked: dict[Who, Op] = field(default_factory=dict)


class Machine:
    """Runs a kernel, one operation at a time, in a random order of roles."""

    def __init__(self, kernel: Kernel, seed: int) -> None:
        self.kernel, self.rng = kernel, random.Random(seed)
        self.barriers: dict[Place, Mbarrier] = {}
        self.syncs: dict[tuple[str, int], int] = {}  # arrivals
        self.turns: dict[tuple[Who, str], int] = {}  # how often a role entered a sync
        self.free = kernel.columns
        self.run = Run()

    def barrier(self, place: Place) -> Mbarrier:
        count = self.kernel.more.get(place[:2], self.kernel.counts.get(place[0], 1))
        return self.barriers.setdefault(place, Mbarrier(count, count))

    def go(self) -> Run:
        at = dict.fromkeys(self.kernel.programs, 0)
        entered: set[Who] = set()
        moving = True
        while moving:
            moving = False
            for who in self.rng.sample(list(at), len(at)):
                for _ in range(self.rng.randint(1, 3)):
                    program = self.kernel.programs[who]
                    if at[who] >= len(program):
                        break
                    op = program[at[who]]
                    if who not in entered:
                        entered.add(who)
                        moving = True
                        self.enter(who, op)
                    if not self.passes(who, op):
                        break
                    if op.kind in ("wait", "sync", "cluster_wait", "alloc"):
                        self.run.events.append(Event(who, op, end=True))
                    at[who] += 1
                    entered.discard(who)
                    moving = True
        for who, where in at.items():
            if where < len(self.kernel.programs[who]):
                self.run.blocked[who] = self.kernel.programs[who][where]
        return self.run

    def enter(self, who: Who, op: Op) -> None:
        if op.kind not in ("stop", "silent"):
            self.run.events.append(Event(who, op))
        if op.kind == "arrive":
            for cta in op.to:
                self.barrier((op.bar, cta, op.stage)).arrive(op.size)
        elif op.kind == "copy":
            for cta in op.to:
                barrier = self.barrier((op.bar, cta, op.stage))
                barrier.bytes -= op.size
                barrier.settle()
        elif op.kind in ("sync", "cluster_arrive"):
            key = op.bar, op.owner
            self.syncs[key] = self.syncs.get(key, 0) + 1
            self.turns[who, op.bar] = self.turns.get((who, op.bar), 0) + 1
        elif op.kind == "dealloc":
            self.free += op.size

    def passes(self, who: Who, op: Op) -> bool:
        if op.kind in ("wait", "silent"):
            return self.barrier((op.bar, op.owner, op.stage)).phase & 1 != op.parity
        if op.kind in ("sync", "cluster_wait"):
            need = self.turns.get((who, op.bar), 1) * self.kernel.syncs[op.bar]
            return self.syncs.get((op.bar, op.owner), 0) >= need
        if op.kind == "alloc":
            if self.free < op.size:
                return False
            self.free -= op.size
        return op.kind != "stop"
