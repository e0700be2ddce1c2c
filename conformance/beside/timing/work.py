"""The work of a traced run: synchronising instructions per warp, and the work of each operation.

The emulator decided the order; here only who waits for what is kept: which phase of which barrier or group
of copies an instruction waits for, and what has to happen before that is complete.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from tileproof.conformance.beside.timing.path import Warp
from tileproof.emulator.trace import ENGINES, KINDS, OBJECTS, PATH_KINDS, Trace

# The machine instructions that do a step, by the engine that it issues to or the kind of barrier.
_ROOTS = {
    "TMA load": ("UTMA",),
    "TMA store": ("UTMA",),
    "bulk copy": ("UBLK", "UTMA"),
    "MMA": ("UTC",),
    "commit": ("UTCBAR",),
    "tcgen05.cp": ("UTCCP",),
    "TMEM store": ("STTM",),
    "remote store": ("STAS",),
    "mbarrier": ("SYNCS",),
    "named barrier": ("BAR",),
    "cluster barrier": ("UCGABAR",),
    "bulk groups": ("DEPBAR",),
}
_OTHERS = ("REDAS", "LDGSTS", "ARRIVES", "ST", "UCLC", "DEPBAR")
_EVERY = (*KINDS, *PATH_KINDS)
_PASSED_OVER = ("branch", "exit", "expect", "tmem-ld", "wait", "phase")
_OF_STEPS = np.zeros(256, bool)  # by kind
_OF_STEPS[[_EVERY.index(kind) for kind in _EVERY if kind not in _PASSED_OVER]] = True
SEGMENT = 64  # bytes of a row that a warp's remote stores should fill
LINE, SECTOR = 128, 32  # bytes of global memory that L2 handles together

Phase = tuple[Hashable, ...]
"""One phase of one barrier, ("mbarrier", cluster, rank, offset, phase) or ("named barrier", cta, id, phase);
or of one thread's copies, ("group read" or "group", cta, warp, lane, number)."""
Cta = tuple[int, int, int]
Does = Literal["load", "store", "addition", "exchange", "copy", "MMA", "commit", "remote store", "other"]


@dataclass
class TimedOperation:
    """An asynchronous operation. `amount`: bytes, or an MMA's shape; `feeds`: phases it contributes to when
    it is complete, `reads`: when its sources are read.

    `does`: load: global to shared memory by TMA, copy: by cp.async, store: back, addition: a bulk reduction,
    exchange: to another CTA by TMA. `scattered`: 0 to 1, how far remote stores of a warp are from whole
    segments of 64 bytes. `places`: the CTAs whose barriers it feeds.
    """

    number: int
    does: Does
    amount: int
    cta: Cta
    line: int
    feeds: list[Phase] = field(default_factory=list)
    reads: list[Phase] = field(default_factory=list)
    scattered: float = 0.0
    places: list[Cta] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """What one execution of a synchronising instruction does: contributes, waits, or issues an operation."""

    arrives: tuple[tuple[Phase, bool], ...] = ()
    """Phases, and whether the barrier is another CTA's."""
    waits: Phase | None = None
    issues: tuple[int, ...] = ()
    roots: tuple[str, ...] = ()
    """The start of the opcode of its machine instruction."""
    after_copies: bool = False
    """The arrival happens when the warp's earlier cp.async are complete."""
    at: int = 0
    """The index in the trace of its first event."""


class Touched(NamedTuple):
    """What an access of a warp touches in global memory: lines of 128 bytes, those of them that a single lane
    touches, and the sectors of 32 bytes in the others."""

    lines: float
    single: float
    sectors: float

    @staticmethod
    def whole(bytes_: float) -> Touched:
        """Contiguous bytes from the start of a line."""
        return Touched(bytes_ / LINE, 0, bytes_ / SECTOR)


@dataclass
class Work:
    """Steps of each warp by PTX line, in order; operations by number; contributions that each phase needs.

    `passes`: of each shared-memory access of a warp, by PTX line in order, its passes over the banks;
    `touched`: of each access to global memory, likewise. `twins`: the other CTA of a pair.
    """

    steps: dict[Warp, dict[int, deque[Step]]]
    operations: dict[int, TimedOperation]
    needs: Counter[Phase]
    passes: dict[tuple[Warp, int], list[int]] = field(default_factory=dict)
    touched: dict[tuple[Warp, int], list[Touched]] = field(default_factory=dict)
    twins: dict[Cta, Cta] = field(default_factory=dict)


@dataclass
class _Thread:
    """Bulk copies, or a warp's cp.async: operations since the last commit, and those of each group."""

    open: list[int] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)

    def awaited(self, allowed: int) -> int:
        """The last group that a wait for all but `allowed` is about and that has operations; -1 for none."""
        last = len(self.groups) - allowed - 1
        while last >= 0 and not self.groups[last]:
            last -= 1
        return last


class _Row(NamedTuple):
    """What is read of an event; `at`: its index in the trace."""

    at: int
    time: int
    kind: str
    object: str
    engine: str
    cta: Cta
    rank: int
    warp: int
    lane: int
    barrier: int
    to_rank: int
    phase: int
    value: int
    op: int
    ptx_line: int
    instruction: str

    @property
    def thread(self) -> tuple[Cta, int, int, int]:
        """The thread and the line of its instruction."""
        return self.cta, self.warp, self.lane, self.ptx_line


def work_of(trace: Trace) -> Work:
    """The work of a traced run."""
    return _Reader(trace).read()


class _Reader:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.work = Work({}, {}, Counter(), defaultdict(list), defaultdict(list))
        self.places: dict[tuple[Hashable, int], Cta] = {}
        self.clusters: dict[Cta, tuple[int, ...]] = {}
        self.threads: dict[tuple[Warp, int], _Thread] = defaultdict(_Thread)
        self.loose: dict[tuple[Cta, int, int, int], list[Phase]] = defaultdict(list)
        self.landed: dict[int, int] = {}

    def read(self) -> Work:
        grouped: dict[tuple[Warp, int, int], list[_Row]] = {}
        waits: dict[tuple[Warp, int, int], Phase] = {}
        first: dict[tuple[Warp, int, int], int] = {}
        self._seat()
        for event in self._rows():
            key = ((*event.cta, event.warp), event.ptx_line, event.time)
            first.setdefault(key, event.at)
            if event.kind == "group-pass":
                grouped.setdefault(key, []).append(event)  # also where there is no group to wait for yet
                if (phase := self._group(event)) is not None:
                    waits[key] = phase
            elif self._kept(event):
                grouped.setdefault(key, []).append(event)
        steps: dict[Warp, dict[int, deque[Step]]] = defaultdict(lambda: defaultdict(deque))
        for key, events in grouped.items():
            steps[key[0]][key[1]].append(self._step(events, waits.get(key), first[key]))
        self.work.steps = {warp: dict(lines) for warp, lines in steps.items()}
        self._find_places()
        return self.work

    def _rows(self) -> Iterator[_Row]:
        """The events that a step may be made of, column by column: objects of `Trace` take longer to make."""
        chosen = np.flatnonzero(_OF_STEPS[self.trace.raw["kind"]])
        raw = self.trace.raw[chosen]
        pcs = raw["pc"].tolist()
        lines = {pc: self.trace.line(pc) for pc in set(pcs)}
        instructions = {pc: self.trace.instruction(pc) for pc in lines}
        offset = np.where(raw["object"] == OBJECTS.index("mbarrier"), self.trace.dynamic, 0)
        return map(
            _Row,
            chosen.tolist(),
            raw["time"].tolist(),
            [_EVERY[kind] for kind in raw["kind"].tolist()],
            [OBJECTS[number] for number in raw["object"].tolist()],
            [ENGINES[number] for number in raw["engine"].tolist()],
            [(x, y, z) for x, y, z in raw["cta"].tolist()],
            *(raw[name].tolist() for name in ("rank", "warp", "lane")),
            (raw["barrier"] - offset).tolist(),
            *(raw[name].tolist() for name in ("to_rank", "phase", "value", "op")),
            [lines[pc] for pc in pcs],
            [instructions[pc] for pc in pcs],
        )

    def _seat(self) -> None:
        """Where the CTAs of the run are, by cluster and rank."""
        raw = self.trace.raw
        x, y, z = raw["cta"].T.astype(np.int64)
        number = ((x * (y.max(initial=0) + 1) + y) * (z.max(initial=0) + 1) + z) << 16 | raw["rank"].view(
            "<u2"
        )
        seen = raw[np.unique(number, return_index=True)[1]]
        for (x_, y_, z_), rank in zip(seen["cta"].tolist(), seen["rank"].tolist(), strict=True):
            self.places[(self._cluster((x_, y_, z_)), rank)] = (x_, y_, z_)

    def _cluster(self, cta: Cta) -> tuple[int, ...]:
        """The cluster of a CTA, by its coordinates in the grid of clusters."""
        found = self.clusters.get(cta)
        if found is None:
            at = zip(cta, self.trace.cluster, strict=True)
            found = self.clusters[cta] = tuple(rank // extent for rank, extent in at)
        return found

    def _kept(self, event: _Row) -> bool:
        """Whether an event is part of a step; the others are taken note of here."""
        kind = event.kind
        if kind == "shared-access":
            self.work.passes[((*event.cta, event.warp), event.ptx_line)].append(event.value)
            return False
        if kind == "global-access":
            found = Touched(event.phase, event.op, event.value)
            self.work.touched[((*event.cta, event.warp), event.ptx_line)].append(found)
            return False
        if kind == "group-join":
            self._thread(event).open.append(event.op)
            return False
        if kind == "remote-access":
            self.landed[event.op] = event.value
            return False
        if kind == "group-commit":
            thread = self._thread(event)
            thread.groups.append(thread.open)
            thread.open = []
            return False
        if kind == "issue":
            if event.value == 0 and event.engine in ("TMA store", "bulk copy"):
                return False  # the second half of a store, which is part of the first
            self.work.operations[event.op] = TimedOperation(
                event.op, _does(event), event.value, event.cta, event.ptx_line
            )
            return True
        if kind == "complete":
            mine = self.loose.pop(event.thread, ())
            if event.op in self.work.operations:
                for phase in mine:
                    self._feed(self.work.operations[event.op].feeds, phase)
            return False
        if kind == "deliver" or (kind == "arrive" and event.instruction.startswith("tcgen05.commit")):
            self.loose[event.thread].append(self._phase(event))
            return False
        # What arrives at other barriers is what is waited for.
        return kind != "pass" or event.object == "mbarrier"

    def _phase(self, event: _Row) -> Phase:
        if event.object == "mbarrier":
            return "mbarrier", self._cluster(event.cta), event.to_rank, event.barrier, event.phase
        if event.object == "named barrier":
            return "named barrier", event.cta, event.barrier, event.phase
        return "cluster barrier", self._cluster(event.cta), event.phase

    def _thread(self, event: _Row) -> _Thread:
        return self.threads[((*event.cta, event.warp), event.lane)]

    def _group(self, event: _Row) -> Phase | None:
        """What a wait for groups waits for."""
        thread = self._thread(event)
        number = thread.awaited(event.value)
        if number < 0:
            return None
        reads = event.phase == 1
        phase: Phase = ("group read" if reads else "group", event.cta, event.warp, event.lane, number)
        if phase not in self.work.needs:
            for group in thread.groups[number]:
                operation = self.work.operations[group]
                self._feed(operation.reads if reads else operation.feeds, phase)
        return phase

    def _feed(self, phases: list[Phase], phase: Phase) -> None:
        phases.append(phase)
        self.work.needs[phase] += 1

    def _step(self, events: list[_Row], group: Phase | None, at: int) -> Step:
        arrives: dict[Phase, bool] = {}
        waits = group
        issues = []
        for event in events:
            if event.kind == "arrive":
                phase = self._phase(event)
                arrives[phase] = event.to_rank != event.rank
                if event.object == "named barrier" and "sync" in event.instruction:
                    waits = phase
            elif event.kind == "pass":
                waits = self._phase(event)
            elif event.kind == "issue":
                issues.append(event.op)
        for phase in arrives:
            self.work.needs[phase] += 1
        about = events[0].engine or events[0].object
        if about == "remote store":
            issues = self._combined(issues)
        after = events[0].instruction.startswith("cp.async.mbarrier.arrive")
        return Step(tuple(arrives.items()), waits, tuple(issues), _ROOTS.get(about, _OTHERS), after, at)

    def _combined(self, issues: list[int]) -> list[int]:
        """The remote stores of a warp's lanes, joined per phase that they feed."""
        by_phase: dict[tuple[Phase, ...], list[int]] = defaultdict(list)
        for issue in issues:
            by_phase[tuple(self.work.operations[issue].feeds)].append(issue)
        kept = []
        for phases, numbers in by_phase.items():
            first = self.work.operations[numbers[0]]
            segments = {self.landed.get(number, 0) // SEGMENT for number in numbers}
            first.amount = sum(self.work.operations[number].amount for number in numbers)
            first.scattered = min(1.0, max(0.0, len(segments) * SEGMENT / first.amount - 1))
            for number in numbers[1:]:
                del self.work.operations[number]
            for phase in phases:
                self.work.needs[phase] -= len(numbers) - 1
            kept.append(numbers[0])
        return kept

    def _find_places(self) -> None:
        for operation in self.work.operations.values():
            for phase in operation.feeds:
                place = self.places.get((phase[1], int(str(phase[2])))) if phase[0] == "mbarrier" else None
                if place is not None and place not in operation.places:
                    operation.places.append(place)
            if not operation.places:
                operation.places.append(operation.cta)
        for (cluster, rank), cta in self.places.items():
            twin = self.places.get((cluster, rank ^ 1))
            if twin is not None:
                self.work.twins[cta] = twin


def _does(event: _Row) -> Does:
    """What kind of work an issue is."""
    text = event.instruction
    if event.engine in ("MMA", "commit", "remote store"):
        return event.engine  # type: ignore[return-value]
    if text.startswith("cp.reduce.async.bulk"):
        return "addition" if ".global" in text.split(" ")[0] or "tensor" in text else "exchange"
    if event.engine == "TMA store" or (event.engine == "bulk copy" and ".global.shared" in text):
        return "store"
    if event.engine == "bulk copy" and ".shared::cta" in text.split(" ")[0]:
        return "exchange"
    if event.engine in ("TMA load", "bulk copy"):
        return "load"
    return "copy" if text.startswith("cp.async.c") else "other"
