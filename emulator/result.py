"""What a launch returns: findings with their place, printed text, counters, captured regions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from tileproof.emulator.causes import Cause, by_cause
from tileproof.emulator.hang import Graph, Hang, Root
from tileproof.emulator.schedule import HeldBack, Hold
from tileproof.emulator.symbols import SharedNames
from tileproof.emulator.trace import Trace


@dataclass(frozen=True)
class TmemRegion:
    """All 128 lanes of `columns` TMEM columns, counted from the CTA's first allocation."""

    column: int
    columns: int


@dataclass(frozen=True)
class SmemRegion:
    """`bytes` bytes from `offset` in the CTA's dynamic shared memory; below 0 lie static variables."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class Tap:
    """Captures `region` of a CTA each time the mbarrier at `barrier_offset` (in its dynamic shared
    memory) completes a phase.
    """

    name: str
    barrier_offset: int
    region: TmemRegion | SmemRegion


@dataclass(frozen=True)
class TapRecord:
    """One capture. `data` is uint32 [128, columns] (TMEM) or uint8 [bytes]; `valid` marks what had been
    written.

    `phase` counts the completed phases of the barrier from 0; `cta` is the CTA's grid coordinate.
    """

    name: str
    cta: tuple[int, int, int]
    cluster_rank: int
    phase: int
    data: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True)
class Waiting:
    """A group of lanes that could not proceed when the launch hung."""

    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int
    lanes: int
    waits_for: str
    barrier: int | None
    parity: int | None
    phase: int
    pending: int
    tx: int

    def __str__(self) -> str:
        place = f"line {self.ptx_line}" + (f" ({self.source})" if self.source else "")
        return (
            f"CTA {self.cta} warp {self.warp} lanes {self.lanes:#010x} at {place}: waits for {self.waits_for}"
        )


@dataclass(frozen=True)
class Race:
    """The other side of a race: the access that came before in this run, and what should stand between.

    `execution` counts the executions of its instruction by its warp from 1, `then_execution` those of the
    finding's own instruction; `lanes` is the mask of the lanes that executed it. `after` is the mbarrier
    phase that its warp had last waited for (byte offset in the CTA's shared memory, phase from 0, -1 for the
    one before the first), `then_after` the same of the finding's own warp.

    In `race-grids` it stands in an earlier grid of the stream, in `race-launches` in a launch of another
    stream or a copy of the host; executions are not counted there (0).

    `space` is "shared", "tmem" or "global", `space_rank` the CTA whose memory it is, `buffer` the global
    buffer, `tmem_base` the first column of that CTA's first allocation; the finding's `address` is the byte
    offset in shared memory, TMEM lane << 16 | column, or the global address.
    """

    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int
    lanes: int
    writes: bool
    execution: int
    then_writes: bool
    then_execution: int
    missing: str
    after: tuple[int, int] | None = None
    then_after: tuple[int, int] | None = None
    space: str = ""
    space_rank: int = 0
    tmem_base: int = 0
    buffer: str = ""

    def __str__(self) -> str:
        place = f"PTX line {self.ptx_line}" + (f", {self.source}" if self.source else "")
        return (
            f"{'write' if self.writes else 'read'} at {place}, CTA {self.cta} warp {self.warp} lanes "
            f"{self.lanes:#010x}, execution {self.execution}: {self.instruction}"
        )


@dataclass(frozen=True)
class Finding:
    """A defect, or a remark, with its place.

    `severity` is "error", "warning" or "note"; `code` names the class; `count` how often the same
    instruction of the same CTA rank did it; `lane` and `warp` are -1 where the finding is about a whole CTA.
    """

    severity: str
    code: str
    message: str
    kernel: str
    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int
    lane: int
    address: int
    count: int
    waiting: tuple[Waiting, ...] = ()
    race: Race | None = None
    graph: Graph = field(default_factory=Graph)
    hang: Hang | None = field(default=None, compare=False, repr=False)

    @property
    def root(self) -> Root | None:
        """Of a hang or livelock: its likeliest cause."""
        return self.graph.roots[0] if self.graph.roots else None

    def __str__(self) -> str:
        place = [f"PTX line {self.ptx_line}"] if self.ptx_line else []
        if self.source:
            place.append(self.source)
        place.append(f"CTA {self.cta}")
        if self.warp >= 0:
            place.append(f"warp {self.warp}")
        if self.lane >= 0:
            place.append(f"lane {self.lane}")
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [
            f"{self.severity} {self.code}: {self.message}{times}",
            f"  at {', '.join(place)}: {self.instruction}",
        ]
        if self.race:
            kind = "write" if self.race.then_writes else "read"
            lines[-1] += f" ({kind}, execution {self.race.then_execution})"
            lines.append(f"  before it: {self.race}")
        for root in self.graph.roots:
            message, *evidence = root.lines()
            lines.append(f"  root: {message} ({root.followers} groups of lanes wait for it)")
            lines += [f"    {line}" for line in evidence]
        lines += [f"  {waiting}" for waiting in self.waiting]
        return "\n".join(lines)


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

    def keys(self) -> list[str]:
        """With `[]`, lets `dict(counters)` work."""
        return [f.name for f in fields(self)]

    def __getitem__(self, name: str) -> int:
        return int(getattr(self, name))


@dataclass(frozen=True)
class MbarrierInit:
    """What mbarrier.init was given in any CTA of a cluster rank.

    `offset` is in bytes from the begin of dynamic shared memory, below 0 in static variables.
    """

    rank: int
    offset: int
    count: int


@dataclass(frozen=True)
class MbarrierBytes:
    """Bytes that expect_tx announced in a complete phase, in any CTA of a cluster rank; offset as above."""

    rank: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class LaunchResult:
    """Result of `Module.launch`.

    `decisions`: with `record`, those with which a replay does the same. `held_back`: the decisions of a
    replay that the launch came to. `allowed`: findings that the caller accepts; the others are `findings`.
    `executed`: one byte per instruction of `Module.decode(entry).code` (`tileproof.emulator.coverage`).
    `stored`: the addresses of the buffers that the launch wrote to.
    """

    printf: str
    findings: tuple[Finding, ...]
    counters: Counters
    taps: tuple[TapRecord, ...] = field(default=())
    trace: Trace | None = None
    decisions: tuple[Hold, ...] = field(default=(), repr=False)
    held_back: tuple[HeldBack, ...] = ()
    allowed: tuple[Finding, ...] = ()
    mbarriers: tuple[MbarrierInit, ...] = ()
    announced: tuple[MbarrierBytes, ...] = ()
    executed: bytes = field(default=b"", repr=False)
    stored: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The findings by cause: one row per lapped barrier or missing fence, with a count and a sample."""
        return by_cause(self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are defects."""
        return tuple(f for f in self.findings if f.severity == "error")


_SEVERITY = ("note", "warning", "error")


def _place(raw: dict[str, Any]) -> dict[str, Any]:
    """Where an instruction stands and who executed it."""
    return {
        "ptx_line": raw["line"],
        "source": raw["source"],
        "instruction": raw["instruction"],
        "cta": tuple(raw["cta"]),
        "cluster_rank": raw["rank"],
        "warp": raw["warp"],
    }


def _race(raw: dict[str, Any] | None) -> Race | None:
    if raw is None:
        return None
    return Race(
        **_place(raw),
        lanes=raw["lanes"],
        writes=raw["writes"],
        execution=raw["nth"],
        then_writes=raw["then_writes"],
        then_execution=raw["then_nth"],
        missing=raw["missing"],
        after=tuple(raw["after"]) if raw["after"][0] >= 0 else None,
        then_after=tuple(raw["then_after"]) if raw["then_after"][0] >= 0 else None,
        space=raw["space"],
        space_rank=raw["space_rank"],
        tmem_base=raw["tmem_base"],
        buffer=raw["buffer"],
    )


def finding(
    kernel: str, raw: dict[str, Any], hang: Hang | None = None, names: SharedNames | None = None
) -> Finding:
    """A Finding from the engine's dictionary; `hang` is the state in which the launch stopped, `names` say
    how shared memory is called.
    """
    names = names or SharedNames({}, {})
    hang = hang if raw["code"] in ("hang", "livelock") else None
    waiting = tuple(
        Waiting(
            **_place(w),
            lanes=w["lanes"],
            waits_for=names.annotate(w["waits_for"]),
            barrier=w["barrier"] if w["barrier"] >= 0 else None,
            parity=w["parity"] if w["parity"] >= 0 else None,
            phase=w["phase"],
            pending=w["pending"],
            tx=w["tx"],
        )
        for w in raw["waiters"]
    )
    return Finding(
        severity=_SEVERITY[raw["severity"]],
        code=raw["code"],
        message=names.annotate(raw["message"]),
        kernel=kernel,
        **_place(raw),
        lane=raw["lane"],
        address=raw["address"],
        count=raw["count"],
        waiting=waiting,
        race=_race(raw.get("race")),
        graph=hang.explain(names) if hang else Graph(),
        hang=hang,
    )
