"""The engine's results as findings; the regions that a launch captures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypedDict

from tileproof.emulator.coverage import section_of
from tileproof.emulator.engine_types import RawFinding, RawPlace, RawRace
from tileproof.emulator.hang import Hang, Names
from tileproof.emulator.symbols import SharedNames
from tileproof.spec.machine.finding import (
    Finding,
    MachinePlace,
    ProblemPlace,
    Race,
    Root,
    Severity,
    Waiting,
)
from tileproof.spec.machine.run_result import (
    Capture,
    Counters,
    MbarrierBytes,
    MbarrierInit,
    Output,
    RunResult,
)
from tileproof.spec.machine.schedule import Hold, Schedule

__all__ = [
    "Capture", "Counters", "MbarrierBytes", "MbarrierInit", "Output", "RunResult", "SmemRegion", "Tap",
    "TmemRegion", "finding",
]  # fmt: skip


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
    """Captures `region` of a CTA each time the mbarrier at byte `barrier_offset` of its dynamic shared
    memory completes a phase.
    """

    name: str
    barrier_offset: int
    region: TmemRegion | SmemRegion


_SEVERITY: tuple[Severity, ...] = ("note", "warning", "error")
HUNG = ("hang", "livelock")


class _Place(TypedDict):
    ptx_line: int
    source: str
    instruction: str
    cta: tuple[int, int, int]
    cluster_rank: int
    warp: int


def _place(raw: RawPlace) -> _Place:
    """The place of an instruction, and the lanes that executed it."""
    return {
        "ptx_line": raw["line"],
        "source": raw["source"],
        "instruction": raw["instruction"],
        "cta": raw["cta"],
        "cluster_rank": raw["rank"],
        "warp": raw["warp"],
    }


def _race(raw: RawRace | None) -> Race | None:
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
        after=raw["after"] if raw["after"][0] >= 0 else None,
        then_after=raw["then_after"] if raw["then_after"][0] >= 0 else None,
        space=raw["space"],
        space_rank=raw["space_rank"],
        tmem_base=raw["tmem_base"],
        buffer=raw["buffer"],
        reversed_by=str(reversing(*raw["hold"])) if "hold" in raw else "",
    )


def reversing(actor: int, step: int) -> Schedule:
    """The schedule `early` with one event, of this actor, as late as possible."""
    return Schedule("replay", base="early", decisions=(Hold(actor, step),))


def finding(
    kernel: str, raw: RawFinding, hang: Hang | None = None, names: SharedNames | None = None
) -> Finding:
    """A Finding from the engine's dictionary; `hang` is the state in which the launch stopped, `names` has
    the names in shared memory.
    """
    names = names or SharedNames({}, {})
    place, race = _place(raw), _race(raw.get("race"))
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
    machine = MachinePlace(
        ptx_line=place["ptx_line"],
        source=place["source"],
        instruction=place["instruction"],
        cta=place["cta"],
        cluster_rank=place["cluster_rank"],
        warp=raw["warp"] if raw["warp"] >= 0 else None,
        kernel=kernel,
        isa_section=section_of(raw["instruction"]) if raw["instruction"] else "",
        lane=raw["lane"] if raw["lane"] >= 0 else None,
        address=raw["address"],
        race=race,
        waiting=waiting,
    )
    made = Finding(
        code=raw["code"],
        message=names.annotate(raw["message"]),
        severity=_SEVERITY[raw["severity"]],
        machine=machine,
        problem=ProblemPlace(tile=race.buffer if race and race.space == "global" else ""),
        cause=f"missing: {race.missing}" if race else "",
        evidence=tuple(_evidence(race)) if race else (),
        count=raw["count"],
    )
    return explained(made, hang, names)


def _evidence(race: Race) -> Iterator[str]:
    yield f"before it: {race}"
    if race.reversed_by:
        yield f"a schedule that reverses the two: {race.reversed_by}"


def _at_root(machine: MachinePlace, root: Root) -> MachinePlace:
    """The place of a group of lanes that waits for the root itself: the finding's own, or the first."""
    direct = {edge.waiter for edge in machine.graph.edges if edge.needs == root.node.id} | {root.node.id}
    groups = {(n.rank, n.warp, n.lanes) for n in machine.graph.nodes if n.kind == "warp" and n.id in direct}
    if (machine.cluster_rank, machine.warp) in {(rank, warp) for rank, warp, _ in groups}:
        return machine
    for w in machine.waiting:
        if (w.cluster_rank, w.warp, w.lanes) in groups:
            return replace(
                machine,
                ptx_line=w.ptx_line,
                source=w.source,
                instruction=w.instruction,
                isa_section=section_of(w.instruction) if w.instruction else "",
                cta=w.cta,
                cluster_rank=w.cluster_rank,
                warp=w.warp,
                lane=(w.lanes & -w.lanes).bit_length() - 1,
            )
    return machine


def explained(finding: Finding, hang: Hang | None, names: Names) -> Finding:
    """A hang or livelock with its graph and its cause in the words of `names`; `hang` is the state in which
    the launch stopped. Any other finding as it is.
    """
    if hang is None or finding.code not in HUNG:
        return finding
    graph = hang.explain(names)
    root = graph.roots[0] if graph.roots else None
    machine = replace(finding.machine, graph=graph)
    if root is None:
        return replace(finding, machine=machine)
    machine = _at_root(machine, root)
    if root.node.kind == "mbarrier" and root.node.offset is not None:
        barrier = names.mbarrier(root.node.rank, root.node.offset)
        machine = replace(machine, barrier=barrier, phase=root.node.phase)
    others = [f"also: {other.message}" for other in graph.roots[1:]]
    followers = (
        f"{root.followers} of {len(finding.machine.waiting)} waiting groups of lanes wait for this, or follow"
    )
    return replace(
        finding, machine=machine, cause=root.message, evidence=(*root.evidence, followers, *others)
    )
