"""The events of a launch, in order: waits, arrivals, phases, asynchronous operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from tileproof.emulator.enumerations import enumeration
from tileproof.emulator.reach import ProgramView
from tileproof.emulator.symbols import SharedNames
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.types import JsonObject

# The layout of TraceEvent in engine/trace.hpp.
EVENT = np.dtype(
    [
        ("time", "<u8"),
        ("op", "<u8"),
        ("value", "<i8"),
        ("pc", "<i4"),
        ("cta", "<u4", 3),
        ("barrier", "<i4"),
        ("phase", "<i4"),
        ("lanes", "<u4"),
        ("rank", "<i2"),
        ("warp", "<i2"),
        ("lane", "<i2"),
        ("to_rank", "<i2"),
        ("kind", "u1"),
        ("object", "u1"),
        ("engine", "u1"),
        ("pad", "u1"),
    ]
)
KINDS = enumeration(
    "Event",
    "wait pass arrive expect deliver phase issue complete tmem-ld exit branch",
    names="Wait Pass Arrive Expect Deliver Phase Issue Complete TmemLoad Exit Branch",
    bits=8,
)
# What is kept besides where the path is asked for (engine/path_trace.cpp), numbered on.
PATH_KINDS = ("shared-access", "remote-access", "group-join", "group-commit", "group-pass", "global-access")
_ALL_KINDS = (*KINDS, *PATH_KINDS)
OBJECTS = enumeration(
    "Object",
    ("", "mbarrier", "named barrier", "cluster barrier", "bulk groups", "TMEM columns"),
    names="None Mbarrier Named ClusterBarrier Bulk TmemAlloc",
    bits=8,
)
# By the names under which the engine issues operations; others have none.
ENGINES = enumeration(
    "TraceEngine",
    ("", "TMA load", "TMA store", "bulk copy", "MMA", "commit", "TMEM store", "tcgen05.cp", "remote store"),
    bits=8,
    spelled=True,
)
# What an engine's operations are called in `kind`: "tma-issue", "mma-complete", ...
_PREFIX = ("async", "tma", "tma-store", "bulk", "mma", "commit", "tmem-st", "cp", "remote-st")


@dataclass(frozen=True)
class Event:
    """One event. `time` counts warp instructions executed in the launch: an order, not a duration.

    `kind`: wait and pass (a wait begins, is over), arrive, expect (of bytes), deliver (of bytes), phase (an
    mbarrier completes phase `phase`), exit, tmem-ld, and an issue and a complete for each engine: tma-,
    tma-store-, bulk-, mma-, commit-, tmem-st-, cp-, remote-st-; `value` of an issue is its bytes, or an
    MMA's shape. Where the path was asked for, also branch (`lanes` came, those of `value` went to the
    target), shared-access (a warp's load or store needs `value` passes over the 32 banks), global-access (its
    load, store or addition touches `phase` lines of 128 bytes: `op` by a single lane, `value` sectors of 32
    bytes in the others), remote-access
    (the remote store `op` lands at offset `value`), and for groups of bulk copies of `lane`, or of a warp's
    cp.async where that is -1: group-join (of `op`), group-commit, and group-pass (all but `value` groups are
    complete, or have read their sources where `phase` is 1). `rank`, `warp`, `lane` did it, or issued the
    operation `op` that did. `barrier` is an mbarrier's byte offset in dynamic shared memory (below 0:
    static) of CTA `to_rank`, or a named barrier's number, None for neither; `value` the arrivals, bytes,
    parity (of a wait) or TMEM column.
    """

    time: int
    kind: str
    object: str
    engine: str
    cta: tuple[int, int, int]
    rank: int
    warp: int
    lane: int
    lanes: int
    barrier: int | None
    to_rank: int
    phase: int
    value: int
    op: int
    ptx_line: int
    source: str
    instruction: str


class Trace:
    """The events of one launch, kept packed; iterating yields `Event`s in order."""

    def __init__(
        self,
        raw: bytes,
        dropped: int,
        view: ProgramView,
        dynamic: int,
        shared: SharedNames | None = None,
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        self.raw = np.frombuffer(raw, dtype=EVENT)
        self.cluster = cluster
        self.dropped = dropped
        self._view = view
        self.dynamic = dynamic
        self._shared = shared

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Event]:
        for row in self.raw:
            yield self.event(row)

    def __getitem__(self, index: int) -> Event:
        return self.event(self.raw[index])

    def line(self, pc: int) -> int:
        """The PTX line of an instruction, 0 if `pc` is negative."""
        return self._view.line(pc)

    def instruction(self, pc: int) -> str:
        """The mnemonic of an instruction, "" if `pc` is negative."""
        return self._view.instruction(pc)

    def only(self, indices: list[int]) -> Trace:
        """The trace with these of its events."""
        part = copy(self)
        part.raw = self.raw[indices]
        return part

    def cluster_of(self, event: Event) -> tuple[int, ...]:
        """The cluster in which an event is, by its coordinates in the grid of clusters."""
        return tuple(at // extent for at, extent in zip(event.cta, self.cluster, strict=True))

    def event(self, row: np.void) -> Event:
        """The event of a row of `raw`, whose mbarriers count from the start of shared memory."""
        (
            time, op, value, pc, cta, barrier, phase, lanes, rank, warp, lane, to_rank, kind_at, object_at,
            engine_at, _,
        ) = row.item()  # type: ignore[misc]  # fmt: skip
        kind, object_ = _ALL_KINDS[kind_at], OBJECTS[object_at]
        if kind in ("issue", "complete"):
            kind = f"{_PREFIX[engine_at]}-{kind}"
        if object_ == "mbarrier":
            barrier -= self.dynamic
        return Event(
            time=time,
            kind=kind,
            object=object_,
            engine=ENGINES[engine_at],
            cta=(int(cta[0]), int(cta[1]), int(cta[2])),  # type: ignore[index]
            rank=rank,
            warp=warp,
            lane=lane,
            lanes=lanes,
            barrier=barrier if object_ in ("mbarrier", "named barrier") else None,
            to_rank=to_rank,
            phase=phase,
            value=value,
            op=op,
            ptx_line=self._view.line(pc),
            source=self._view.source(pc),
            instruction=self._view.instruction(pc),
        )

    @property
    def note(self) -> str:
        """What is not in the trace; empty when it is whole."""
        if not self.dropped:
            return ""
        return (
            f"{self.dropped} later events are left out: the trace keeps the first {len(self)}; "
            "launch with a larger trace_limit, or a smaller problem"
        )

    def to_chrome(self, names: TraceNames | None = None, findings: Sequence[Finding] = ()) -> JsonObject:
        """Chrome's JSON format, which Perfetto reads: for each CTA a track per warp and a track per engine;
        `findings` of the launch are instants.

        Times are warp-instruction counts, shown as microseconds.
        """
        from tileproof.emulator.trace_chrome import chrome

        return chrome(self, names or self.names(), findings)

    def names(self) -> TraceNames:
        """The launch's own names: from the PTX and from the caller."""
        names, shared = TraceNames(), self._shared
        if shared is not None:
            names.symbol = lambda offset: shared.name(offset + self.dynamic)
        return names

    def to_text(self, names: TraceNames | None = None) -> str:
        """A timeline, an event per line; a warp's arrivals by an instruction are merged."""
        from tileproof.emulator.trace_links import merged_arrivals

        names = names or self.names()
        lines = [
            f"{event.time:>10}  {names.place(event)}  {names.what(event)}" for event in merged_arrivals(self)
        ]
        return "\n".join([*lines, *([self.note] if self.note else [])]) + "\n"


class TraceNames:
    """How warps, barriers and phases are called; a plan's names replace these."""

    symbol: Callable[[int], str] = staticmethod(lambda offset: "")
    """The name of what lies at an offset in dynamic shared memory, empty where nothing is named."""

    def cta(self, event: Event) -> str:
        """The CTA of an event."""
        return f"CTA {','.join(map(str, event.cta))}"

    def warp(self, rank: int, warp: int) -> str:
        """A warp."""
        del rank
        return f"warp {warp}"

    def mbarrier(self, offset: int) -> str:
        """An mbarrier by its offset in dynamic shared memory."""
        if name := self.symbol(offset):
            return f"mbarrier {name}"
        return f"mbarrier {offset:#x}" if offset >= 0 else f"static mbarrier {offset + (1 << 18):#x}"

    def about(self, offset: int, phase: int) -> str:
        """What a phase of an mbarrier is about, such as its k-block; may be empty."""
        del offset, phase
        return ""

    def place(self, event: Event) -> str:
        """CTA, warp and lane."""
        some = event.lanes.bit_count()
        lane = f" lane {event.lane}" if event.lane >= 0 and some != 32 else ""
        lane = f" {some} lanes" if 1 < some < 32 and event.kind == "arrive" else lane
        return f"{self.cta(event)}, {self.warp(event.rank, event.warp)}{lane}"

    def target(self, event: Event) -> str:
        """The barrier of an event, its CTA if it is another CTA, and the purpose of its phase."""
        if event.object == "mbarrier" and event.barrier is not None:
            where = f" of rank {event.to_rank}" if event.to_rank != event.rank else ""
            about = self.about(event.barrier, event.phase)
            return f"{self.mbarrier(event.barrier)}{where} phase {event.phase}" + (
                f" ({about})" if about else ""
            )
        if event.object == "named barrier":
            return f"named barrier {event.barrier}"
        return event.object

    def what(self, event: Event) -> str:
        """The event without its place."""
        at = f"line {event.ptx_line}" + (f" ({event.source})" if event.source else "")
        value = {
            "arrive": f"{event.value} to",
            "expect": f"{event.value} bytes at",
            "deliver": f"{event.value} bytes to",
            "tmem-ld": f"column {event.value}",
        }.get(event.kind, "")
        op = f"#{event.op}" if event.op else ""
        return " ".join(part for part in (event.kind, op, value, self.target(event), f"at {at}") if part)
