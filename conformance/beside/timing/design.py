"""The time of a design of which only the resources are known: no code runs.

A design lists the work of each role in a block of keys: MMAs by shape, bytes that are gathered, read, added,
exchanged and stored, instructions and ex2 of warps, and which part waits for which, how many blocks back. The
parts go through the units of `units.py` with the figures of spec/machine/timing.py, as a simulated kernel's
operations do. What machine code would add (branches, shuffles, address chains) is modelled only as
`issue_gap` of a warp's instructions.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from math import ceil

from tileproof.conformance.beside.timing.units import PASS_BYTES, SCHEDULERS, Origin, Units, Use
from tileproof.conformance.beside.timing.work import Phase, TimedOperation, Touched
from tileproof.spec.designs import Design, Part
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import CASES, Case, Timing

CHUNK = 2048  # bytes that a role asks L2 for at once: what others ask for comes in between
BLOCKS = (3, 9)
_CTA, _WARP = (0, 0, 0), (0, 0, 0, 0)


@dataclass(frozen=True)
class DesignTime:
    """Clocks of a block in steady state, and of the CTA around its blocks."""

    block: float
    fixed: float
    busy: dict[str, float] = field(default_factory=dict)
    """Clocks of a block in which each unit is at work."""

    def cta(self, blocks: int) -> float:
        """Clocks of a CTA with so many blocks."""
        return self.fixed + blocks * self.block


def time_design(design: Design, timing: Timing, case: Case) -> DesignTime:
    """From two runs, `BLOCKS` long, whose difference is the steady state."""
    figures = timing.values(case)
    return _timed(design, tuple((name, value) for name, value in figures.items() if name != "clock"))


@cache
def _timed(design: Design, chosen: tuple[tuple[str, float], ...]) -> DesignTime:
    figures, blocks = dict(chosen), BLOCKS
    few, many = (_Run(design, figures, count) for count in blocks)
    steady = (many.end - few.end) / (blocks[1] - blocks[0])
    busy = {
        unit: (clocks - few.use.busy[(cta, unit)]) / (blocks[1] - blocks[0])
        for (cta, unit), clocks in many.use.busy.items()
        if cta == _CTA
    }
    return DesignTime(steady, few.end - blocks[0] * steady + figures["cta_start"], busy)


def milliseconds(
    designs: tuple[Design, ...], topk: int, tokens: int, memory_bytes: float, launches: int, timing: Timing
) -> dict[Case, float]:
    """Time of the kernels one after the other, with `launches` in all; kernels without a design only move
    `memory_bytes`. CTAs run on SMs in waves."""
    out: dict[Case, float] = {}
    for case in CASES:
        clocks = 0.0
        for design in designs:
            waves = ceil(tokens * design.ctas / timing.sms)
            clocks += waves * time_design(design, timing, case).cta(ceil(topk / design.keys))
        seconds = clocks / (float(getattr(timing.clock, case)) * 1e9)
        seconds += memory_bytes / (float(getattr(timing.memory_rate, case)) * 1e12)
        seconds += launches * float(getattr(timing.kernel_gap, case)) * 1e-6
        out[case] = seconds * 1e3
    return out


class _Run:
    """One CTA's blocks on the units."""

    def __init__(self, design: Design, figures: dict[str, float], blocks: int) -> None:
        self.f = figures
        self.use = Use()
        self.end = 0.0
        self.heap: list[tuple[float, int, Callable[[float], None]]] = []
        self.count = 0
        self.units = Units(figures, False, self.use, self._later, self._tell, {})
        self.done: dict[Phase, float] = {}
        self.chunks: dict[Phase, Callable[[float], None]] = {}
        self.blocked: dict[Phase, list[Callable[[float], None]]] = defaultdict(list)
        self.programs: dict[str, list[tuple[Part, int]]] = defaultdict(list)
        names = {part.name for part in (*design.before, *design.block, *design.behind)}
        for part in design.before:
            self.programs[part.role].append((part, 0))
        for number in range(blocks):
            for part in design.block:
                self.programs[part.role].append((part, number))
        for part in design.behind:
            self.programs[part.role].append((part, blocks - 1))
        self.roles = {part.name: part.role for part in (*design.before, *design.block, *design.behind)}
        self.once = {part.name for part in design.before}
        for program in self.programs.values():
            for part, _ in program:
                if unknown := {name for name, _ in part.after} - names:
                    raise TileproofError(
                        "a part of the design waits for a part that does not exist",
                        where=f"{design.name}, {part.name}", found=", ".join(sorted(unknown)),
                    )  # fmt: skip
        for role in self.programs:
            self._next(role, 0, 0.0)
        while self.heap:
            time, _, what = heapq.heappop(self.heap)
            what(time)
        if any(self.blocked.values()):
            phase = next(phase for phase, waiting in self.blocked.items() if waiting)
            raise TileproofError(
                "the parts of the design wait for each other",
                where=design.name,
                found=f"no end of {phase[0]}",
            )

    def _later(self, time: float, what: Callable[[float], None]) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, what))

    def _next(self, role: str, at: int, time: float) -> None:
        if at == len(self.programs[role]):
            self.end = max(self.end, time)
            return
        part, number = self.programs[role][at]
        self._await(role, at, list(part.after), time, part, number)

    def _await(
        self, role: str, at: int, after: list[tuple[str, int]], time: float, part: Part, number: int
    ) -> None:
        """Goes through what the part waits for; begins it when all is complete."""
        while after:
            name, back = after[0]
            wanted: Phase = (name, 0 if name in self.once else number - back)
            if number - back < 0 and name not in self.once:
                after.pop(0)
            elif wanted in self.done:
                waits = "wake_lane" if part.issues and not part.warps else "wake"
                woken = self.f[waits] if self.roles[name] != role else 0.0
                time = max(time, self.done[wanted] + woken)
                after.pop(0)
            else:
                self.blocked[wanted].append(partial(self._resume, role, at, after, time, part, number))
                return
        self._later(time, lambda now: self._begin(role, at, part, number, now))

    def _resume(
        self,
        role: str,
        at: int,
        after: list[tuple[str, int]],
        since: float,
        part: Part,
        number: int,
        now: float,
    ) -> None:
        self._await(role, at, after, max(since, now), part, number)

    def _tell(self, time: float, phase: Phase, origin: Origin) -> None:
        del origin
        landed = self.chunks.pop(phase, None)
        self._later(time, landed if landed is not None else lambda now: self._complete(phase, now))

    def _complete(self, phase: Phase, time: float) -> None:
        self.done[phase] = time
        self.end = max(self.end, time)
        for waiting in self.blocked.pop(phase, []):
            waiting(time)

    def _begin(self, role: str, at: int, part: Part, number: int, time: float) -> None:
        phase: Phase = (part.name, number)
        if part.mmas:
            for mma in part.mmas:
                for _ in range(mma.count):
                    self.units.start(TimedOperation(0, "MMA", mma.amount, _CTA, 0), _WARP, time)
            commit = TimedOperation(0, "commit", 0, _CTA, 0, feeds=[phase])
            self.units.start(commit, _WARP, time)
        elif part.gathered or part.loaded:
            self._ask("copy" if part.gathered else "load", part.gathered + part.loaded, phase, time)
        elif part.exchanged:
            store = TimedOperation(0, "remote store", part.exchanged, _CTA, 0, feeds=[phase], places=[_CTA])
            self.units.start(store, _WARP, time)
        else:
            self._work(role, at, part, phase, time)
            return
        self._next(role, at + 1, time + self.f["mma_issue"])

    def _ask(self, does: str, total: int, phase: Phase, time: float) -> None:
        """Reads in chunks, `read_queue` bytes of which wait for L2 at once."""
        sizes = [min(CHUNK, total - at) for at in range(0, total, CHUNK)]
        ahead = max(1, round(self.f["read_queue"] / CHUNK))
        remaining = [len(sizes)]

        def ask(at: int, now: float) -> None:
            op = TimedOperation(0, does, sizes[at], _CTA, 0, places=[_CTA])  # type: ignore[arg-type]
            op.feeds.append(("chunk", at, *phase))
            self.chunks[("chunk", at, *phase)] = landed
            self.units.start(op, _WARP, now)
            served = max(self.units.free[((_CTA, name), 0)] for name in ("L2 reads", "L2", "copies"))
            if at + ahead < len(sizes):
                self._later(max(now, served), lambda then: ask(at + ahead, then))

        def landed(now: float) -> None:
            remaining[0] -= 1
            if not remaining[0]:
                self._complete(phase, now)

        for at in range(min(ahead, len(sizes))):
            ask(at, time)

    def _work(self, role: str, at: int, part: Part, phase: Phase, time: float) -> None:
        """What warps do themselves: tensor memory, then instructions beside ex2 and shared memory, then
        additions and stores."""
        f, begin = self.f, time
        if part.tmem:
            time = self.units.serve((_CTA, "TMEM"), time, part.tmem / f["tmem_rate"], 0)
            time += f["tmem_load_latency"]
        ends = [time]
        if part.instructions:
            each = max(f["issue_gap"], part.warps / SCHEDULERS)
            ends.append(time + part.instructions * each)
            self.use.busy[(_CTA, "issue slots")] += part.instructions * part.warps / SCHEDULERS  # type: ignore[assignment]
        if part.exp2:
            clocks = part.exp2 / f["transcendental_rate"]
            ends.append(self.units.serve((_CTA, "ex2 and the like"), begin, clocks, 0))
        if part.shared:
            ends.append(self.units.through(_CTA, part.shared / PASS_BYTES, time, 0) + f["fence"])
        time = max(ends) + (f["barrier"] if part.warps > 1 else 0.0)
        if part.stored:
            store = TimedOperation(0, "store", part.stored, _CTA, 0, feeds=[phase], places=[_CTA])
            self.units.start(store, _WARP, time)
            self._next(role, at + 1, time)
        elif part.added:
            self._later(time, lambda now: self._add(role, at, part.added, phase, now))
        else:
            self._tell(time + f["arrive"], phase, Origin(_WARP, time))
            self._next(role, at + 1, time)

    def _add(self, role: str, at: int, remaining: int, phase: Phase, time: float) -> None:
        size = min(CHUNK, remaining)
        time = self.units.ahead(_CTA, time)
        sent, _ = self.units.add(_CTA, Touched.whole(size), time, 0)
        if remaining > size:
            self._later(sent, lambda now: self._add(role, at, remaining - size, phase, now))
            return
        self._tell(sent + self.f["arrive"], phase, Origin(_WARP, time))
        self._next(role, at + 1, sent)
