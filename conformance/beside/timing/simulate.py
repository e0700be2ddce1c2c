"""The discrete-event model: warps issue machine code, operations occupy units, barriers release warps.

Per clock each of an SM's four schedulers issues one instruction of its warps (warp % 4). An instruction
issues when the stall count of the previous instruction has passed and its scoreboards are released
(`LATENCIES`). Units (`units.py`) serve requests in order.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import final

from tileproof.conformance.beside.timing.machine_code import (
    FIGURE,
    LATENCIES,
    ONE_LANE,
    SERVED,
    MachineInstruction,
    codes,
    loops_over_lanes,
    tmem_bytes,
    width,
)
from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.sass import Sass
from tileproof.conformance.beside.timing.streams import MachineCode, Passage
from tileproof.conformance.beside.timing.units import PASS_BYTES, SCHEDULERS, Origin, Units, Use
from tileproof.conformance.beside.timing.work import Phase, Step, Touched, Work
from tileproof.spec.machine.timing import Case, Timing

_GLOBAL = ("LDG", "LD", "STG", "ST")
_WARP = 0xFFFFFFFF  # all lanes


@dataclass
class Span:
    """Clocks in which a warp waited: for `cause` (a phase or the opcode of what it needs), at PTX `line`."""

    begin: float
    end: float
    cause: Hashable
    line: int


@dataclass
class Timed(Use):
    """The result: clocks of the run, per warp its last clock, issues and waits, per unit the use of it."""

    clocks: float = 0
    ends: dict[Warp, float] = field(default_factory=dict)
    issued: Counter[Warp] = field(default_factory=Counter)
    waits: dict[Warp, list[Span]] = field(default_factory=lambda: defaultdict(list))
    completed: dict[Phase, float] = field(default_factory=dict)
    remaining: Counter[int] = field(default_factory=Counter)
    """Steps without machine code, by PTX line."""
    log: dict[Warp, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    """Per warp the clock and PTX line of each issue."""
    by: dict[Phase, Origin] = field(default_factory=dict)
    """The event that completed a phase."""
    used: set[str] = field(default_factory=set)
    """The figures that were used."""


class _Figures(dict[str, float]):
    """Figures by name; records which were used."""

    def __init__(self, all_: Mapping[str, float]) -> None:
        self.all = all_

    def __missing__(self, name: str) -> float:
        return self.setdefault(name, self.all[name])


@final
class _Walk:
    __slots__ = (
        "at", "boards", "cluster", "entry", "first", "holder", "lanes_remaining", "log", "reached", "ready",
        "slot", "stored", "stream", "warp",
    )  # fmt: skip

    def __init__(
        self,
        warp: Warp,
        stream: list[Passage],
        slot: list[float],
        log: list[tuple[float, int]],
        first: int,
    ) -> None:
        self.warp = warp
        self.stream = stream
        self.first = first  # instruction of the block that `entry` passes
        self.slot = slot  # when its scheduler may issue next; shared by the scheduler's warps
        self.log = log
        self.entry = 0
        self.at = 0
        self.ready = 0.0
        self.boards = [0.0] * 6
        self.holder = [""] * 6
        self.cluster: Phase | None = None  # of the cluster barrier at which it arrived last
        self.stored = 0.0  # when its stores to shared memory so far are there
        self.reached = 0.0  # when its accesses of global memory so far are done, 0 for none since a fence
        self.lanes_remaining: list[int] = []  # operations of lanes whose turn in a loop over lanes comes


_Item = _Walk | Callable[[float], None]


class Model:
    """One run of the model, as one reads it; `simulated` runs the same on the engine.

    `alone`: the CTA runs alone on the card; otherwise every SM does the same.
    `order`: what happens at the same clock is ordered by this seed; without a seed, in issue order.
    `working_set`: bytes of global memory that all SMs read and add to together; 0 for what L2 holds.

    KNOWN: the instructions with scoreboards that it has figures for.
    """

    KNOWN = frozenset(SERVED) | {root for roots in LATENCIES.values() for root in roots}

    def __init__(
        self,
        code: MachineCode,
        timing: Timing,
        case: Case,
        alone: bool,
        order: int | None = None,
        working_set: float = 0,
    ) -> None:
        self.code = code
        self.timing = timing
        self.alone = alone
        self.order = order
        self.working_set = working_set
        self.f = _Figures(timing.values(case))

    def run(self, streams: dict[Warp, list[Passage]], work: Work) -> Timed:
        """The clocks of a run: `streams` as of `streams.stream`."""
        out = Timed()
        self.out, self.work = out, work
        self.units = Units(self.f, self.alone, out, self._push, self._feed, work.twins, self.working_set)
        self.remaining = Counter(work.needs)
        self.waiters: dict[Phase, list[tuple[_Walk, float, int, bool]]] = defaultdict(list)
        slots: dict[Hashable, list[float]] = defaultdict(lambda: [0.0])
        self.cursor: Counter[tuple[Warp, int]] = Counter()
        self.accesses: Counter[tuple[Warp, int]] = Counter()
        self.reached: Counter[tuple[Warp, int]] = Counter()
        self.heap: list[tuple[float, int, int, _Item]] = []
        self.count = 0
        self.drawn = Random(self.order) if self.order is not None else None
        self.codes = codes(self.code, work)
        for warp, stream in streams.items():
            if stream:
                slot = slots[(warp[:3], warp[3] % SCHEDULERS)]
                first = self.code.blocks[stream[0].block][0]
                self._push(0.0, _Walk(warp, stream, slot, out.log[warp], first))
        self._play()
        for warp, lines in work.steps.items():
            for line, steps in lines.items():
                if missing := len(steps) - self.cursor[(warp, line)]:
                    out.remaining[line] += missing
        out.issued = Counter({warp: len(log) for warp, log in out.log.items()})
        out.clocks = max(out.ends.values(), default=0.0)
        out.used = set(self.f)
        return out

    def _push(self, time: float, what: _Item) -> None:
        self.count += 1
        tie = self.count if self.drawn is None else self.drawn.getrandbits(32)
        heapq.heappush(self.heap, (time, tie, self.count, what))

    def _feed(self, time: float, phase: Phase, origin: Origin) -> None:
        self._push(time, lambda now: self._contribute(phase, origin, now))

    def _play(self) -> None:
        """Every event in the order of clocks. Most are a plain instruction: those take no call."""
        codes, heap, drawn = self.codes, self.heap, self.drawn
        pushpop, issue = heapq.heappushpop, self._issue
        while heap:
            time, _, _, what = heapq.heappop(heap)
            while type(what) is _Walk:
                code = codes[what.first + what.at]
                after: float | None
                if not code.straight:
                    after = issue(what, code, time)
                    if after is None:
                        break
                elif (after := what.slot[0]) <= time:
                    what.slot[0] = time + 1
                    what.log.append((time, code.line))
                    what.at += 1
                    after = time + code.stall
                if heap and heap[0][0] <= after:
                    self.count += 1
                    tie = self.count if drawn is None else drawn.getrandbits(32)
                    time, _, _, what = pushpop(heap, (after, tie, self.count, what))
                else:
                    time = after
            else:
                assert not isinstance(what, _Walk)
                what(time)

    def _issue(self, walk: _Walk, code: MachineInstruction, time: float) -> float | None:
        """The warp's next clock; None if another event determines it, or it has ended."""
        if code.boards:
            need, cause, boards = time, "", walk.boards
            for board in code.boards:
                if boards[board] > need:
                    need, cause = boards[board], walk.holder[board]
            if need > time:
                self.out.waits[walk.warp].append(Span(time, need, cause, code.line))
                return need
        slot = walk.slot
        if slot[0] > time:
            return slot[0]
        slot[0] = time + 1
        walk.log.append((time, code.line))
        after = time + code.stall
        entry = walk.stream[walk.entry]
        if not code.plain:
            instruction = code.sass
            if code.served:
                done, read = self._execute(walk, instruction, time, entry.lanes)
            else:
                done, read = time + self.f[code.figure], time + self.f["read_operands"]
            if instruction.writes < 6 and done > walk.boards[instruction.writes]:
                walk.boards[instruction.writes], walk.holder[instruction.writes] = done, instruction.opcode
            if instruction.reads < 6 and read > walk.boards[instruction.reads]:
                walk.boards[instruction.reads], walk.holder[instruction.reads] = read, instruction.opcode
            if instruction.root == "MEMBAR" and (
                not instruction.guard or self._due(walk.warp, instruction, entry) is not None
            ):  # the warp itself waits, at no scoreboard
                after = max(after, self._fenced(walk, ".CTA" in instruction.opcode, time))
        walk.at += 1
        if code.loops and walk.lanes_remaining:
            walk.at = 0
            after = max(after, time + self.f["branch"])
        elif code.ends:
            end = walk.first + walk.at
            walk.entry, walk.at = walk.entry + 1, 0
            if walk.entry == len(walk.stream):
                self.out.ends[walk.warp] = after
                return None
            walk.first = self.code.blocks[walk.stream[walk.entry].block][0]
            if walk.first != end:
                after = max(after, time + self.f["branch"])
        return self._do(walk, code.sass, entry, time, after) if code.stepped else after

    def _fenced(self, walk: _Walk, cta: bool, time: float) -> float:
        """When a fence is over: its scope is the CTA, or more."""
        if cta:
            return max(time + self.f["fence"], walk.stored)
        behind = 0.0
        if walk.reached:
            time, behind = max(time, walk.reached), self.f["memory_barrier_global"]
            walk.reached = 0.0
        return max(time + self.f["memory_barrier"] + behind, walk.stored)

    def _do(self, walk: _Walk, instruction: Sass, entry: Passage, time: float, after: float) -> float | None:
        """Execute the step of an instruction, if any; return when the warp continues, None if it waits."""
        if walk.lanes_remaining and instruction.root in ONE_LANE:
            self.units.start(self.work.operations[walk.lanes_remaining.pop(0)], walk.warp, time)
            return after
        step = self._step(walk.warp, instruction, entry)
        if instruction.root == "UCGABAR_WAIT" and walk.cluster is not None:
            step = Step(waits=walk.cluster)
        if step is None:
            return after
        for phase, remote in step.arrives:
            delay = self.f["arrive_remote" if remote else "arrive"]
            if phase[0] == "named barrier":
                unit = walk.warp[:3], "named barriers"
                done = self.units.serve(unit, time, self.f["barrier_per_warp"], instruction.line)
                delay = done - time + self.f["barrier"]
            elif phase[0] == "cluster barrier":
                delay, walk.cluster = self.f["cluster_barrier"], phase
            elif step.after_copies:
                delay += max(0.0, self.units.copies_done[walk.warp] - time)
            self._feed(time + delay, phase, Origin(walk.warp, time, line=instruction.line))
        issues = step.issues
        first, end = self.code.blocks[entry.block]
        if (
            len(issues) > 1
            and instruction.root in ONE_LANE
            and loops_over_lanes(self.code.sass[end - 1], first)
        ):
            issues, walk.lanes_remaining = issues[:1], list(issues[1:])
        for number in issues:
            self.units.start(self.work.operations[number], walk.warp, time)
        if step.waits is None:
            return after
        if self.remaining[step.waits] > 0:
            walk.ready = after
            self.waiters[step.waits].append((walk, time, instruction.line, entry.lanes == _WARP))
            return None
        return max(after, time + (self.f["barrier_look"] if step.waits[0] == "mbarrier" else 0.0))

    def _due(self, warp: Warp, instruction: Sass, entry: Passage) -> Step | None:
        """The next step of an instruction's line, if any is left; of an instruction with a predicate, if the
        run had it here."""
        steps = self.work.steps.get(warp, {}).get(instruction.line, ())
        at = self.cursor[(warp, instruction.line)]
        if at == len(steps) or (instruction.guard and not entry.holds(instruction.line, steps[at].at)):
            return None
        return steps[at]

    def _step(self, warp: Warp, instruction: Sass, entry: Passage) -> Step | None:
        lines = self.work.steps.get(warp)
        if lines is None or instruction.line not in lines:
            return None
        step = self._due(warp, instruction, entry)
        if step is None or not instruction.root.startswith(step.roots):
            return None
        self.cursor[(warp, instruction.line)] += 1
        return step

    def _contribute(self, phase: Phase, origin: Origin, time: float) -> None:
        self.remaining[phase] -= 1
        if self.remaining[phase] > 0:
            return
        self.out.completed[phase] = time
        self.out.by[phase] = origin
        for walk, since, line, whole in self.waiters.pop(phase, ()):
            wake = self.f["wake" if whole else "wake_lane"] if phase[0] == "mbarrier" else 0.0
            self.out.waits[walk.warp].append(Span(since, time + wake, phase, line))
            self._push(max(walk.ready, time + wake), walk)

    def _execute(self, walk: _Walk, instruction: Sass, time: float, lanes: int) -> tuple[float, float]:
        """When the result of a synchronous instruction is there, and when its sources are read."""
        f, cta, units = self.f, walk.warp[:3], self.units
        scheduler = walk.warp[3] % SCHEDULERS
        root = instruction.root
        if root in ("REDG", "RED", "ATOMG", "ATOM"):
            what = self._touched(walk.warp, instruction, lanes)
            begin = units.ahead(cta, time)
            sent, done = units.add(cta, what, begin, instruction.line)
            walk.reached = max(walk.reached, done)
            return done + f["global_load"], max(begin, sent - units.port_clocks(what)) + f[
                "addition_operands"
            ]
        if root in ("LDTM", "STTM"):
            bytes_ = tmem_bytes(instruction.opcode)
            done = units.serve((cta, "TMEM"), time, bytes_ / f["tmem_rate"], instruction.line)
            latency = f["tmem_load_latency" if root == "LDTM" else "tmem_store_latency"]
            return done + latency, done + latency
        if root == "MUFU":
            clocks = 32 * SCHEDULERS / f["transcendental_rate"]
            done = units.serve(
                (cta, "ex2 and the like"), time, clocks, instruction.line, scheduler, SCHEDULERS
            )
            return done - clocks + f["transcendental"], done
        if root in ("LDS", "STS", "LDSM", "STSM"):
            passes = self._passes(walk.warp, instruction, lanes)
            done = units.shared(cta, scheduler, passes, time, instruction.line)
            if root in ("STS", "STSM"):
                walk.stored = max(walk.stored, done)
            return done - f["quarter_pass"] + f[FIGURE.get(root, "other")], done + f["read_operands"]
        if root == "LDGDEPBAR":
            return time, time  # DEPBAR waits, as a step
        done = time + f[FIGURE.get(root, "other")]
        if root in _GLOBAL:
            walk.reached = max(walk.reached, done if root.startswith("LD") else time)
        return done, time + f["read_operands"]

    def _touched(self, warp: Warp, instruction: Sass, lanes: int) -> Touched:
        """Lines and sectors of an access of global memory: from the run, or contiguous if unknown."""
        seen = self.work.touched.get((warp, instruction.line))
        at = self.reached[(warp, instruction.line)]
        if seen is None or at >= len(seen):
            return Touched.whole(lanes.bit_count() * 4 * width(instruction.opcode))
        self.reached[(warp, instruction.line)] = at + 1
        return seen[at]

    def _passes(self, warp: Warp, instruction: Sass, lanes: int) -> float:
        """Passes over the banks of an access: from the run, or by its bytes if unknown."""
        least = max(1.0, lanes.bit_count() * 4 * width(instruction.opcode) / PASS_BYTES)
        seen = self.work.passes.get((warp, instruction.line))
        at = self.accesses[(warp, instruction.line)]
        if seen is None or at >= len(seen):
            return least
        self.accesses[(warp, instruction.line)] = at + 1
        return max(least, float(seen[at]))
