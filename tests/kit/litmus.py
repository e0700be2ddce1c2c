# ruff: noqa: E501 - PTX lines and programs are kept whole
"""Small concurrent programs, and all executions of each that the PTX memory consistency model allows.

The axioms are those of PTX ISA 8.10 over the orders of 8.9, written down as relations on events; nothing here
knows the emulator. `outcomes` and `racy` are what a program may do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

SCOPES = ("cta", "cluster", "gpu", "sys")
INITIAL = -1  # the thread of the writes before the launch


@dataclass(frozen=True)
class Op:
    """One instruction of a thread.

    `kind` is write, read, await (a loop of reads until the value is `value`), swap (atom.exch), cas (from
    `old`), fence, bar (bar.sync of the CTA), arrive and wait (of an mbarrier with one arrival), copy (a bulk
    copy reads `where`) or proxy (fence.proxy.async). `order` is weak, relaxed, volatile, acquire, release,
    acq_rel or sc. What a write stores depends on what the operations `uses` of its thread have read, though
    its value is `value`.
    """

    kind: str
    where: str = ""
    value: int = 0
    order: str = "weak"
    scope: str = "sys"
    old: int = 0
    uses: tuple[int, ...] = ()

    @property
    def reads(self) -> bool:
        return self.kind in ("read", "await", "swap", "cas", "copy", "wait")

    @property
    def strong(self) -> bool:
        return self.order != "weak" or self.kind in ("swap", "cas", "arrive", "wait")

    @property
    def releases(self) -> bool:
        return self.order in ("release", "acq_rel", "sc")

    @property
    def acquires(self) -> bool:
        return self.order in ("acquire", "acq_rel", "sc")


@dataclass(frozen=True)
class Program:
    """Threads, and where each runs: (cluster, CTA of the cluster)."""

    name: str
    threads: tuple[tuple[Op, ...], ...]
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Event:
    """An operation of one execution. `seen` is the event that a read takes its value from, `wrote` a value."""

    number: int
    thread: int
    index: int
    op: Op
    seen: int | None = None
    found: int | None = None
    wrote: int | None = None


Pairs = set[tuple[int, int]]


def closure(pairs: Pairs, size: int) -> Pairs:
    """The transitive closure of a relation on 0 to `size` - 1."""
    after = [0] * size
    for a, b in pairs:
        after[a] |= 1 << b
    for k in range(size):
        for a in range(size):
            if after[a] >> k & 1:
                after[a] |= after[k]
    return {(a, b) for a in range(size) for b in range(size) if after[a] >> b & 1}


class Execution:
    """Events with what each reads, a coherence order for each location and an order of the fence.sc."""

    def __init__(
        self,
        program: Program,
        events: list[Event],
        coherence: dict[str, tuple[int, ...]],
        sc: tuple[int, ...],
    ) -> None:
        self.program, self.events = program, events
        self.rank = {number: k for order in coherence.values() for k, number in enumerate(order)}
        n = len(events)
        self.po: Pairs = {
            (a.number, b.number)
            for a in events
            for b in events
            if (a.thread == b.thread and a.index < b.index) or (a.thread == INITIAL != b.thread)
        }
        self.sc = {
            (a, b) for a, b in combinations(sc, 2) if self.morally_strong(events[a], events[b], overlap=False)
        }
        self.observation = self._observation()
        self.base = closure(self.po | self.sc | self._barriers() | self._synchronises(), n)
        same = {(a, b) for a, b in self.base if self._preserved(a, b)}
        later = {(w, y) for w, z in self.observation for x, y in same if x == z}
        self.cause = same | later

    def morally_strong(self, a: Event, b: Event, overlap: bool = True) -> bool:
        """PTX ISA 8.7: in program order, or strong with scopes that include each other."""
        if a.thread == b.thread or INITIAL in (a.thread, b.thread):
            return True
        if overlap and a.op.where != b.op.where:
            return False
        (ca, ra), (cb, rb) = self.program.places[a.thread], self.program.places[b.thread]
        far = 2 if ca != cb else 1 if ra != rb else 0
        return a.op.strong and b.op.strong and min(SCOPES.index(a.op.scope), SCOPES.index(b.op.scope)) >= far

    def _observation(self) -> Pairs:
        found: Pairs = {
            (e.seen, e.number)
            for e in self.events
            if e.seen is not None and self.morally_strong(self.events[e.seen], e)
        }
        while True:
            more = {
                (a, d)
                for a, b in found
                for c, d in found
                if b == c and self.events[b].op.kind in ("swap", "cas")
            }
            if more <= found:
                return found
            found |= more

    def _barriers(self) -> Pairs:
        """bar.sync of one CTA: the k-th of each thread is one meeting."""
        nth: dict[int, int] = {}
        seen: dict[int, int] = {}
        for e in sorted(self.events, key=lambda e: (e.thread, e.index)):
            if e.op.kind == "bar":
                nth[e.number] = seen[e.thread] = seen.get(e.thread, -1) + 1
        place = self.program.places
        return {
            (a, b)
            for a in nth
            for b in nth
            if a != b and nth[a] == nth[b] and place[self.events[a].thread] == place[self.events[b].thread]
        } - {(a, a) for a in nth}

    def _patterns(self, release: bool) -> Iterator[tuple[Event, Event]]:
        """Of each release pattern its first operation and its write; of each acquire pattern its last and its read."""
        for e in self.events:
            access = e.wrote is not None if release else e.op.reads
            if not access or not e.op.strong or e.thread == INITIAL:
                continue
            if e.op.releases if release else e.op.acquires:
                yield e, e
            for o in self.events:
                if o.thread != e.thread or not (o.index < e.index if release else o.index > e.index):
                    continue
                if o.op.kind == "fence" or (
                    o.op.where == e.op.where
                    and (o.op.releases and o.wrote is not None if release else o.op.acquires and o.op.reads)
                ):
                    yield o, e

    def _synchronises(self) -> Pairs:
        return {
            (x.number, y.number)
            for x, write in self._patterns(release=True)
            for y, read in self._patterns(release=False)
            if x.thread != y.thread
            and (write.number, read.number) in self.observation
            and self.morally_strong(x, y, overlap=False)
        }

    def _preserved(self, a: int, b: int) -> bool:
        """Proxy-preserved base causality order (8.9.5), of two accesses of one location."""
        x, y = self.events[a], self.events[b]
        if not x.op.where or x.op.where != y.op.where:
            return False
        if (x.op.kind == "copy") == (y.op.kind == "copy") or x.thread == INITIAL:
            return True
        return any(
            e.op.kind == "proxy" and (a, e.number) in self.base and (e.number, b) in self.base
            for e in self.events
        )

    def allowed(self) -> bool:
        """Whether all axioms of PTX ISA 8.10 hold."""
        if any((b, a) in self.base for a, b in self.base if not self._meeting(a, b)):
            return False  # Fence-SC, and no thread before itself
        if any(self._contradicts(self.events[a], self.events[b]) for a, b in self.cause):
            return False
        return self._atomic() and self._coherent_per_location() and not self._out_of_thin_air()

    def _contradicts(self, x: Event, y: Event) -> bool:
        """Whether communication contradicts that x precedes y in causality order (8.10.1, 8.10.6)."""
        rank = self.rank
        if x.wrote is not None and y.wrote is not None and rank[x.number] > rank[y.number]:
            return True
        if x.seen is not None and y.wrote is not None and rank[x.seen] >= rank[y.number]:
            return True  # a read sees nothing that comes after it
        return x.wrote is not None and y.seen is not None and rank[y.seen] < rank[x.number]

    def _atomic(self) -> bool:
        """No morally strong write comes between the two halves of an atomic operation (8.10.3)."""
        return not any(
            self.rank[e.seen] < self.rank[w.number] < self.rank[e.number]
            for e in self.events
            for w in self.events
            if e.seen is not None and e.wrote is not None and w.wrote is not None and w is not e
            if w.op.where == e.op.where and self.morally_strong(e, w)
        )

    def _meeting(self, a: int, b: int) -> bool:
        return self.events[a].op.kind == self.events[b].op.kind == "bar"

    def _coherent_per_location(self) -> bool:
        """Of morally strong accesses of one location communication does not contradict program order (8.10.5)."""
        com: Pairs = set()
        memory = [e for e in self.events if e.op.where and (e.wrote is not None or e.op.reads)]
        for a, b in permutations(memory, 2):
            if a.op.where != b.op.where or not self.morally_strong(a, b):
                continue
            if a.wrote is not None and b.wrote is not None and self.rank[a.number] < self.rank[b.number]:
                com.add((a.number, b.number))
            if a.wrote is not None and b.seen == a.number:
                com.add((a.number, b.number))
            if a.seen is not None and b.wrote is not None and self.rank[a.seen] < self.rank[b.number]:
                com.add((a.number, b.number))
            if a.thread == b.thread and a.index < b.index:
                com.add((a.number, b.number))
        n = len(self.events)
        return not any((a, a) in closure(com, n) for a in range(n))

    def _out_of_thin_air(self) -> bool:
        """Reads from and dependencies form no cycle (8.10.4). A loop's exit decides what follows it."""
        steps: Pairs = {(e.seen, e.number) for e in self.events if e.seen is not None}
        steps |= {(a, b) for a, b in self.po if self.events[a].op.kind in ("await", "wait", "bar", "cas")}
        steps |= {
            (a, b)
            for a, b in self.po
            if self.events[a].thread != INITIAL and self.events[a].index in self.events[b].op.uses
        }
        steps |= {
            (a, c) for a, b in self._barriers() for c in range(len(self.events)) if (b, c) in self.po
        } | {(c, b) for a, b in self._barriers() for c in range(len(self.events)) if (c, a) in self.po}
        n = len(self.events)
        return any((a, a) in closure(steps, n) for a in range(n))

    def reads_from(self) -> Pairs:
        """Reads with the writes that they take their values from."""
        return {(e.number, e.seen) for e in self.events if e.seen is not None}

    def races(self, possible: Pairs) -> set[str]:
        """Locations with two conflicting accesses, not morally strong, that causality does not order (8.7.1).

        A read and a write of equal size matter only where the read may see the write (8.7.2): `possible` has
        such pairs.
        """
        found = set()
        for a, b in combinations(self.events, 2):
            if a.op.where != b.op.where or not a.op.where or a.wrote is None is b.wrote:
                continue
            if a.op.kind in ("arrive", "wait") or self.morally_strong(a, b):
                continue
            ordered = {(a.number, b.number), (b.number, a.number)} & self.cause
            unseen = (a.wrote is None) != (b.wrote is None) and not (
                {(a.number, b.number), (b.number, a.number)} & possible
            )
            if not ordered and not unseen:
                found.add(a.op.where)
        return found

    def outcome(self) -> tuple[int, ...]:
        """What the reads of all threads found, in order."""
        reads = (e for e in self.events if e.op.kind in ("read", "swap", "cas", "copy"))
        return tuple(e.found or 0 for e in sorted(reads, key=lambda e: (e.thread, e.index)))


def executions(program: Program) -> Iterator[Execution]:
    """All allowed executions."""
    places = sorted({op.where for thread in program.threads for op in thread if op.where})
    events = [Event(k, INITIAL, k, Op("write", where), wrote=0) for k, where in enumerate(places)]
    for t, thread in enumerate(program.threads):
        for k, op in enumerate(thread):
            value = {"write": op.value, "arrive": 1}.get(op.kind)
            events.append(Event(len(events), t, k, op, wrote=value))
    writers = {
        where: [e for e in events if e.op.where == where and e.op.kind in ("write", "arrive", "swap", "cas")]
        for where in places
    }
    reads = [e for e in events if e.op.reads]
    fences = [e.number for e in events if e.op.kind == "fence" and e.op.order == "sc"]
    for sources in product(*([w.number for w in writers[e.op.where] if w is not e] for e in reads)):
        chosen = _with_values(events, dict(zip((e.number for e in reads), sources, strict=True)))
        if chosen is None:
            continue
        wrote = {w: [e.number for e in chosen if e.op.where == w and e.wrote is not None] for w in places}
        coherences = [[(each[0], *rest) for rest in permutations(each[1:])] for each in wrote.values()]
        for coherence in product(*coherences):
            for sc in permutations(fences):
                execution = Execution(program, chosen, dict(zip(places, coherence, strict=True)), sc)
                if execution.allowed():
                    yield execution


def _with_values(events: list[Event], seen: dict[int, int]) -> list[Event] | None:
    """The events with the values that follow from who reads from whom; None where a loop would not end there."""
    values: dict[int, int | None] = {}

    def wrote(number: int, asking: frozenset[int] = frozenset()) -> int | None:
        e = events[number]
        if number in asking:
            return None  # a circle of atomics
        if number not in values:
            if e.op.kind == "swap":
                values[number] = e.op.value if found(number, asking | {number}) is not None else None
            elif e.op.kind == "cas":
                values[number] = e.op.value if found(number, asking | {number}) == e.op.old else None
            else:
                values[number] = e.wrote
        return values[number]

    def found(number: int, asking: frozenset[int] = frozenset()) -> int | None:
        return wrote(seen[number], asking)

    chosen = []
    for e in events:
        if e.number not in seen:
            chosen.append(e)
            continue
        value = found(e.number)
        if value is None or (e.op.kind in ("await", "wait") and value != (e.op.value or 1)):
            return None
        chosen.append(replace(e, seen=seen[e.number], found=value, wrote=wrote(e.number)))
    return chosen


def outcomes(program: Program) -> set[tuple[int, ...]]:
    """What the program's reads may find."""
    return {execution.outcome() for execution in executions(program)}


def racy(program: Program) -> set[str]:
    """The locations that race in some execution."""
    every = list(executions(program))
    possible = {pair for execution in every for pair in execution.reads_from()}
    return {where for execution in every for where in execution.races(possible)}
