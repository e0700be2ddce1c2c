"""What a traced run asks of the machine: per warp its synchronising instructions, per operation its work.

The emulator decided the order; here only who waits for what is kept: which phase of which barrier an
instruction waits for, and what has to happen before that phase is complete.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from tileproof.conformance.timing.path import Warp
from tileproof.emulator.trace import Event, Trace

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
}
_OTHERS = ("REDAS", "LDGSTS", "ARRIVES", "ST", "UCLC")

Phase = tuple[Hashable, ...]
"""One phase of one barrier: ("mbarrier", cluster, rank, offset, phase), ("named barrier", cta, id, phase)."""


@dataclass
class Operation:
    """An asynchronous operation. `amount`: bytes, or an MMA's shape; `feeds`: phases it contributes to."""

    number: int
    engine: str
    amount: int
    cta: tuple[int, int, int]
    line: int
    feeds: list[Phase] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """What one execution of a synchronising instruction does: contributes, waits, or issues an operation."""

    arrives: tuple[tuple[Phase, bool], ...] = ()
    """Phases, and whether the barrier is another CTA's."""
    waits: Phase | None = None
    issues: tuple[int, ...] = ()
    roots: tuple[str, ...] = ()
    """What the opcode of the machine instruction that does it begins with."""


@dataclass
class Work:
    """Steps of each warp by PTX line, in order; operations by number; contributions that each phase needs."""

    steps: dict[Warp, dict[int, deque[Step]]]
    operations: dict[int, Operation]
    needs: Counter[Phase]


def work_of(trace: Trace) -> Work:
    """The work of a traced run."""
    operations: dict[int, Operation] = {}
    needs: Counter[Phase] = Counter()
    grouped: dict[tuple[Warp, int, int], list[Event]] = {}
    loose: list[tuple[Event, Phase]] = []
    for event in trace:
        if event.kind in ("branch", "exit", "expect", "tmem-ld", "wait", "phase"):
            continue
        if event.kind.endswith("-issue"):
            if event.value == 0 and event.engine == "TMA store":
                continue  # the second half of a store: it has no bytes of its own
            operations[event.op] = Operation(event.op, event.engine, event.value, event.cta, event.ptx_line)
        elif event.kind.endswith("-complete"):
            mine = [one for one in loose if _same(one[0], event)]
            loose = [one for one in loose if not _same(one[0], event)]
            if event.op in operations:
                for _, phase in mine:
                    operations[event.op].feeds.append(phase)
                    needs[phase] += 1
            continue
        elif event.kind == "deliver" or (
            event.kind == "arrive" and event.instruction.startswith("tcgen05.commit")
        ):
            loose.append((event, _phase(trace, event)))
            continue
        if event.kind == "pass" and event.object != "mbarrier":
            continue  # what arrives there is what is waited for
        grouped.setdefault(((*event.cta, event.warp), event.ptx_line, event.time), []).append(event)
    steps: dict[Warp, dict[int, deque[Step]]] = defaultdict(lambda: defaultdict(deque))
    for (warp, line, _), events in grouped.items():
        arrives: dict[Phase, bool] = {}
        waits: Phase | None = None
        issues = []
        for event in events:
            if event.kind == "arrive":
                phase = _phase(trace, event)
                arrives[phase] = event.to_rank != event.rank
                if event.object == "named barrier" and "sync" in event.instruction:
                    waits = phase
            elif event.kind == "pass":
                waits = _phase(trace, event)
            elif event.kind.endswith("-issue"):
                issues.append(event.op)
        for phase in arrives:
            needs[phase] += 1
        about = events[0].engine or events[0].object
        steps[warp][line].append(
            Step(tuple(arrives.items()), waits, tuple(issues), _ROOTS.get(about, _OTHERS))
        )
    return Work({warp: dict(lines) for warp, lines in steps.items()}, operations, needs)


def _same(one: Event, other: Event) -> bool:
    return (one.cta, one.warp, one.lane, one.ptx_line) == (other.cta, other.warp, other.lane, other.ptx_line)


def _phase(trace: Trace, event: Event) -> Phase:
    if event.object == "mbarrier":
        return "mbarrier", trace.cluster_of(event), event.to_rank, event.barrier, event.phase
    if event.object == "named barrier":
        return "named barrier", event.cta, event.barrier, event.phase
    return "cluster barrier", trace.cluster_of(event), event.phase
