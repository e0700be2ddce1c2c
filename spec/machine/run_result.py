"""The result of a run, from any driver: outputs, captures, findings, counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
from tileproof.spec.machine.certificate import Certificate
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_causes import Cause, by_cause
from tileproof.spec.machine.lazy import LAZY_BYTES
from tileproof.spec.machine.schedule import Hold, Schedule

PAGE_BYTES = 4096  # of the pages of `Output.stored`
# Findings that say where the tool stopped, not what is wrong.
LIMITS = ("time-limit", "instruction-limit", "memory-limit")


@dataclass(frozen=True)
class Capture:
    """What a region held as an mbarrier of its CTA completed phase `phase` (0 is the first).

    `name` is the tap's, `cta` the CTA's grid coordinate. `data` is uint32 [128 lanes, columns] of tensor
    memory or uint8 [bytes] of shared memory; `valid` marks the cells whose value was legally visible.
    """

    name: str
    cta: tuple[int, int, int]
    cluster_rank: int
    phase: int
    data: np.ndarray
    valid: np.ndarray

    @property
    def tile(self) -> str:
        """The plan's tile, of a name ``tile@barrier[stage]``."""
        return self.name.partition("[")[0].partition("@")[0]

    @property
    def barrier(self) -> str:
        """The barrier that published it; "" for whichever the plan observes the tile by."""
        return self.name.partition("[")[0].partition("@")[2]

    @property
    def stage(self) -> int:
        """The barrier's stage."""
        return int(self.name.partition("[")[2].rstrip("]"))


@dataclass(frozen=True)
class StageMoment:
    """Which capture an entry is: the launch (from 0), the CTA's place in its grid, the phase (from 0)."""

    launch: int
    cta: tuple[int, int, int]
    phase: int

    def __str__(self) -> str:
        return f"launch {self.launch}, CTA {self.cta}, phase {self.phase}"


@dataclass(frozen=True)
class CapturedStage:
    """The captures of one name in the order of launches, CTAs (x fastest) and phases.

    `value` and `written` are [captures, rows, columns]: `written` is false where an element had not been
    written, or its write was not visible yet.
    """

    name: str
    value: np.ndarray
    written: np.ndarray
    moments: tuple[StageMoment, ...]


@dataclass(frozen=True)
class RecordedResults:
    """What an instruction wrote to its 32-bit registers, in the order of its executions.

    instruction, ptx_line, source: its name, its line in the PTX, and the source line ("" if unknown).
    cta, warp: number of the CTA in the grid, x fastest, and of the warp in the CTA; both ``[executions]``.
    lanes: which lanes executed it ``bool [executions, 32]``.
    values: ``uint32 [executions, registers, 32]``, the registers in the order of the operands; what lanes
        that did not execute it held is among them.
    """

    instruction: str
    ptx_line: int
    source: str
    cta: np.ndarray
    warp: np.ndarray
    lanes: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Counters:
    """What the launch did: instructions, barrier phases, bytes by engine, scheduling points."""

    warp_instructions: int = 0
    barrier_phases: int = 0
    tma_load_bytes: int = 0
    tma_store_bytes: int = 0
    bulk_bytes: int = 0
    shared_bytes: int = 0
    global_bytes: int = 0
    tmem_bytes: int = 0
    atomic_bytes: int = 0
    mma_instructions: int = 0
    mma_macs: int = 0
    async_operations: int = 0
    divergent_releases: int = 0
    schedule_points: int = 0
    claimed_clusters: int = 0
    cp_async_bytes: int = 0

    @classmethod
    def total(cls, parts: Iterable[Counters]) -> Counters:
        """The counters of several launches: sums, of scheduling points the largest number."""
        parts = list(parts)
        sums = {f.name: sum(getattr(part, f.name) for part in parts) for f in fields(cls)}
        sums["schedule_points"] = max((part.schedule_points for part in parts), default=0)
        return cls(**sums)

    def keys(self) -> list[str]:
        """With `[]`, lets `dict(counters)` work."""
        return [f.name for f in fields(self)]

    def __getitem__(self, name: str) -> int:
        return int(getattr(self, name))


class MbarrierInit(NamedTuple):
    """What mbarrier.init was given in any CTA of a cluster rank.

    `offset` is in bytes from the begin of dynamic shared memory, below 0 in static variables.
    """

    rank: int
    offset: int
    arrivals: int


class MbarrierBytes(NamedTuple):
    """Bytes that expect_tx announced in a complete phase, in any CTA of a cluster rank; offset as above."""

    rank: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Output:
    """A buffer after a run: its values and, element by element, whether it was written.

    `stored`: the pages, from the begin of the buffer, that the launches stored to; None: a driver that does
    not show it.
    """

    values: np.ndarray
    written: np.ndarray
    stored: np.ndarray | None = None

    def same_bits(self, other: Output, rows: np.ndarray | EllipsisType = ...) -> bool:
        """Whether both have the same shape, bits and written marks; `rows`: only these of the first axis."""
        return (
            self.values.shape == other.values.shape
            and self.values[rows].tobytes() == other.values[rows].tobytes()
            and self.written[rows].tobytes() == other.written[rows].tobytes()
        )

    def rows_stored(self) -> np.ndarray:
        """The places along the first axis that launches may have stored to, increasing: all of them where the
        output is small or the driver does not show the pages.
        """
        count, pages = len(self.values), self._stored_pages
        return np.arange(count) if pages is None else rows_in_pages(pages, self.values.nbytes // count, count)

    def elements_stored(self) -> np.ndarray:
        """The flat places that launches may have stored to, increasing; all of them as `rows_stored`."""
        pages = self._stored_pages
        if pages is None:
            return np.arange(self.values.size)
        each = PAGE_BYTES // self.values.itemsize
        places = (pages[:, None].astype(np.int64) * each + np.arange(each)).reshape(-1)
        return np.asarray(places[places < self.values.size])

    @property
    def _stored_pages(self) -> np.ndarray | None:
        """`stored` of a large output; None where all of it is looked at."""
        return None if self.values.nbytes < LAZY_BYTES else self.stored


def rows_in_pages(pages: np.ndarray, row: int, count: int) -> np.ndarray:
    """Which of `count` rows of `row` bytes some of the `pages` reach into, increasing."""
    first, last = pages * PAGE_BYTES // row, ((pages + 1) * PAGE_BYTES - 1) // row
    reach = np.arange(int((last - first).max(initial=0)) + 1)
    rows = np.unique(np.minimum(first[:, None] + reach, last[:, None]))
    return np.asarray(rows[rows < count])


@dataclass(frozen=True)
class RunResult:
    """A run of one launch (`Module.launch`), or of all launches of a launch file; outputs by name.

    `module` and `entry` name the kernel of one launch. `executed`: one byte per instruction of
    `Module.decode(entry).code` (`tileproof.emulator.coverage`). `launches`: of a launch file, the result of
    each launch that ran; `stages`: its captures as arrays, by name; `stopped`: a finding ended it early.
    `schedule` is the emulator's, `seconds` wall time. `limited`: what was cut from the output (printf,
    findings, lists of mbarriers), as text with a count; a limit that ended the run is `ended_by`.

    `decisions`: with `record`, the decisions that replay the run. `held_back`: the decisions of
    a replay that the launch reached. `allowed`: findings that the caller accepts; the others are `findings`.
    `stored`: the addresses of the buffers that the launch wrote to. `hang`: the state in which it hung.
    `certificate`: of a run with race checking, whether it stands for all schedules; of a launch file, of all
    its launches. `registers`: what recorded instructions wrote, by number of the instruction
    (`LaunchOptions.registers`).
    The types of `trace`, `held_back` and `hang` are the emulator's.
    """

    outputs: Mapping[str, Output] = field(default_factory=dict)
    captures: tuple[Capture, ...] = ()
    findings: tuple[Finding, ...] = ()
    printf: str = ""
    counters: Counters = field(default_factory=Counters)
    trace: Any = None
    decisions: tuple[Hold, ...] = field(default=(), repr=False)
    held_back: tuple[Any, ...] = ()
    allowed: tuple[Finding, ...] = ()
    mbarriers: tuple[MbarrierInit, ...] = ()
    announced: tuple[MbarrierBytes, ...] = ()
    executed: bytes = field(default=b"", repr=False)
    stored: frozenset[int] = field(default=frozenset(), repr=False)
    host_threads: int = field(default=1, compare=False, repr=False)
    hang: Any = field(default=None, compare=False, repr=False)
    module: str = ""
    entry: str = ""
    launches: tuple[RunResult, ...] = field(default=(), repr=False)
    stages: Mapping[str, CapturedStage] = field(default_factory=dict)
    certificate: Certificate | None = None
    stopped: bool = False
    schedule: Schedule | None = None
    seconds: float = field(default=0.0, compare=False)
    limited: tuple[str, ...] = ()
    registers: Mapping[int, RecordedResults] = field(default_factory=dict, repr=False)

    @property
    def certified(self) -> bool:
        """Whether every legal schedule has the same events and values (docs/certificate.md)."""
        return self.certificate is not None and bool(self.certificate)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings by cause: one row per lapped barrier or missing fence, with a count and a sample."""
        return by_cause(self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity "error"."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def defects(self) -> tuple[Finding, ...]:
        """The errors, except a limit that stopped the run."""
        return tuple(f for f in self.errors if f.code not in LIMITS)

    @property
    def ended_by(self) -> str:
        """The limit that ended the run, a code of `LIMITS`; "" if none did."""
        return next((f.code for f in self.findings if f.code in LIMITS), "")

    @property
    def executed_by_entry(self) -> tuple[tuple[str, str, bytes], ...]:
        """(module, entry, `executed`) of each launch."""
        each = self.launches or (self,)
        return tuple((run.module, run.entry, run.executed) for run in each if run.executed)
