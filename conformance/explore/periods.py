"""Whether the order of a launch's events repeats from k-block to k-block (docs/certificate.md, Periods)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np
import numpy.typing as npt
from tileproof.conformance.drivers.names import PlanTraceNames
from tileproof.conformance.drivers.plan_names import k_block
from tileproof.emulator.trace import EVENT, KINDS, OBJECTS, Event, Trace
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import ProblemInputs

# Events of a thread in its program order. A wait that begins, and an operation that completes, are left out:
# whether and when they are seen depends on the schedule.
_ORDERED = [KINDS.index(kind) for kind in ("pass", "arrive", "expect", "deliver", "issue", "tmem-ld", "exit")]
_PASS, _MBARRIER = KINDS.index("pass"), OBJECTS.index("mbarrier")
_SAME = ["kind", "object", "engine", "pc", "barrier", "to_rank", "lanes", "value"]
_WORD = np.dtype(np.uint64)
MAX_BREAKS = 8


@dataclass(frozen=True)
class Periods:
    """The order of the events of a launch, by k-block.

    From k-block `first` on each thread does in k-block k + `period` what it did in k-block k, at the same
    mbarriers, in phases that are later by a number that all threads share; the last `drain` k-blocks of
    `blocks` end the loop. `breaks` names what does not repeat; then the other figures mean nothing.
    """

    blocks: int
    first: int = 0
    period: int = 0
    drain: int = 0
    breaks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.breaks

    def __str__(self) -> str:
        if self.breaks:
            return f"the order does not repeat: {self.breaks[0]}"
        repeats = f"the order repeats from k-block {self.first} with period {self.period}"
        return f"{repeats}; observed to {self.blocks}"


def ring_period(plan: KernelPlan) -> int:
    """The k-blocks after which every ring of mbarriers is back at its first stage; 0: there is no ring."""
    rings = [ring for ring in plan.barriers if ring.per_k_block]
    return lcm(*(ring.stages // gcd(ring.stages, ring.parts) for ring in rings)) if rings else 0


def blocks_needed(plan: KernelPlan) -> int:
    """The least k-blocks in which `periods` finds a period."""
    return 2 * (_edge(plan) + ring_period(plan))


def _edge(plan: KernelPlan) -> int:
    """The k-blocks at the beginning, and at the end, in which rings fill and drain."""
    return max(ring.stages for ring in plan.barriers if ring.per_k_block) + ring_period(plan)


def ordered(trace: Trace) -> npt.NDArray[np.void]:
    """The rows of a trace that have an order in their thread, whatever the schedule."""
    rows: npt.NDArray[np.void] = trace.raw[np.isin(trace.raw["kind"], _ORDERED)]
    return rows


def periods(trace: Trace, plan: KernelPlan, inputs: ProblemInputs) -> Periods:
    """The period of a whole trace of one launch under `early`, whose rings are those of `plan`. Groups with
    fewer k-blocks than the longest are not looked at.
    """
    period = ring_period(plan)
    rows = ordered(trace)
    if not period or trace.dropped or not len(rows):
        why = "the plan has no ring" if not period else "the trace is incomplete"
        return Periods(0, breaks=(why,))
    label, shift = _by_block(trace, plan, rows, period)
    code = _alike(rows)
    blocks = int(label.max()) + 1
    if blocks < blocks_needed(plan):
        return Periods(
            blocks, breaks=(f"{blocks} k-blocks are too few: a period needs {blocks_needed(plan)}",)
        )
    names, edge = PlanTraceNames(plan, inputs), _edge(plan)
    first, last, breaks = 0, blocks, dict[str, None]()
    for own in _threads(rows):
        if label[own].max(initial=-1) + 1 < blocks - edge:  # of no loop, or of a group with fewer k-blocks
            continue
        seen = _Thread(code[own], rows["phase"][own], shift[own], label[own], period)
        begin, end, odd = seen.repeats(blocks)
        if begin > edge or end < blocks - edge:
            event = trace.event(rows[own[odd]])
            breaks[_break(event, names, int(label[own[: odd + 1]].max(initial=0)))] = None
        first, last = max(first, begin), min(last, end)
    return Periods(blocks, first, period, blocks - last, tuple(breaks)[:MAX_BREAKS])


def _break(event: Event, names: PlanTraceNames, block: int) -> str:
    place = event.source or f"PTX line {event.ptx_line}"
    return f"{names.warp(event.rank, event.warp)} does something else at k-block {block}, {place}"


def _by_block(
    trace: Trace, plan: KernelPlan, rows: npt.NDArray[np.void], period: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each event the k-block of its phase (-1: none), and how many phases its mbarrier has per period."""
    label, shift = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    rings = {
        ring.offset_of(n): ring for ring in plan.barriers if ring.per_k_block for n in range(ring.stages)
    }
    at_mbarrier = np.flatnonzero(rows["object"] == _MBARRIER)
    offsets = rows["barrier"][at_mbarrier].astype(np.int64) - trace.dynamic
    for offset in np.unique(offsets).tolist():
        if offset not in rings:
            continue
        own, ring = at_mbarrier[offsets == offset], rings[offset]
        shift[own] = period * ring.parts // ring.stages
        phases, back = np.unique(rows["phase"][own], return_inverse=True)
        found = [k_block(plan, offset, int(phase)) if phase >= 0 else None for phase in phases]
        label[own] = np.array([-1 if block is None else block for block in found])[back.reshape(-1)]
    return label, shift


def _alike(rows: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """What two events that correspond have in common, in words that are equal exactly if it is: all but the
    phase; of a wait its parity differs.
    """
    fields = {name: EVENT[name] for name in _SAME}
    padding = -sum(field.itemsize for field in fields.values()) % _WORD.itemsize
    made = np.zeros(len(rows), [*fields.items(), ("padding", np.void, padding)])
    for name in fields:
        made[name] = rows[name]
    made["value"][rows["kind"] == _PASS] = 0
    return made.view(_WORD).reshape(len(rows), -1)


def _thread_numbers(rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """A number for the thread of each event, by CTA, warp and lane."""
    number = np.zeros(len(rows), np.int64)
    for column in (*rows["cta"].T, rows["warp"], rows["lane"]):
        number = number * (int(column.max(initial=0)) + 1) + column
    return number


def by_thread(rows: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The order of the events by thread, which keeps that of each thread, and where in it threads begin."""
    number = _thread_numbers(rows)
    # Numpy sorts numbers of 16 bits in linear time.
    short = number.astype(np.uint16) if number.max(initial=0) < 1 << 16 else number
    order = np.argsort(short, kind="stable")
    return order, np.flatnonzero(np.diff(number[order])) + 1


def _threads(rows: npt.NDArray[np.void]) -> Iterator[npt.NDArray[np.int64]]:
    """The indices of the events of each thread, in order."""
    order, starts = by_thread(rows)
    yield from np.split(order, starts)


@dataclass(frozen=True)
class _Thread:
    """The events of a thread: what they are, phases, the phases per period, k-blocks."""

    code: npt.NDArray[np.uint64]
    phase: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    period: int

    def repeats(self, blocks: int) -> tuple[int, int, int]:
        """The k-blocks [begin, end) of the longest stretch around the middle whose events are those of the
        period before, and the index of the first event beyond it (before it, where that is the nearer end).
        """
        middle = np.flatnonzero(self.label >= blocks // 2)
        for at in middle.tolist():
            later = np.flatnonzero(
                (self.code == self.code[at]).all(axis=1) & (self.phase == self.phase[at] + self.shift[at])
            )
            later = later[later > at]
            if len(later):
                return self._stretch(at, int(later[0]) - at, blocks)
        return blocks, 0, int(middle[0]) if len(middle) else 0

    def _stretch(self, at: int, length: int, blocks: int) -> tuple[int, int, int]:
        same = (self.code[length:] == self.code[:-length]).all(axis=1)
        same &= self.phase[length:] == self.phase[:-length] + self.shift[:-length]
        wrong = np.flatnonzero(~same)
        before, after = wrong[wrong < at], wrong[wrong >= at]
        start = int(before[-1]) + 1 if len(before) else 0
        stop = int(after[0]) + length if len(after) else len(self.code)
        begin = int(self.label[:start].max(initial=-1)) + 1
        rest = self.label[stop:]
        end = int(rest[rest >= 0].min(initial=blocks))
        return begin, end, min(stop, len(self.code) - 1) if end < blocks - begin else max(start - 1, 0)
