"""The emulator driver: executes a launch description on `tileproof.emulator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack, cast

from tileproof.conformance.drivers.driver import ALL, Capabilities
from tileproof.conformance.drivers.names import PlanNames, code_place
from tileproof.conformance.drivers.plan_names import barrier_at, barrier_name, k_block, role_of
from tileproof.conformance.launches.modules import load
from tileproof.conformance.launches.placing import dynamic_begin, outcome
from tileproof.conformance.launches.running import execute
from tileproof.emulator import (
    Buffer,
    SmemRegion,
    Tap,
    TmemRegion,
)
from tileproof.emulator.causes import Allow
from tileproof.emulator.hang import Hang
from tileproof.emulator.options import LaunchKeywords, RunKeywords
from tileproof.emulator.products import products
from tileproof.emulator.result import explained
from tileproof.emulator.trace import Trace
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.certificate import merged_certificate
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, MachinePlace, Race
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, Products, SmemObservation, TmemObservation

Mma = Literal["fast", "exact"]
# Keywords for the launches beside the main launch.
OTHERS = ("schedule", "mma", "races", "allow", "strict", "seconds_limit", "instruction_limit", "host_threads")


@dataclass(frozen=True)
class EmulatorDriver:
    """Launches on the emulator, with what `run` takes; `races` applies to launches with captures."""

    mma: Mma = "fast"
    races: bool = True
    allow: tuple[Allow, ...] = ()
    strict: bool = False
    seconds_limit: float = 0.0
    instruction_limit: int = 0

    name = "emulator"

    @property
    def capabilities(self) -> Capabilities:
        return ALL if self.races else ALL - {"races"}

    @property
    def products(self) -> Products | None:
        return lambda total, a, b, f16: products(total, a, b, exact=self.mma == "exact", f16=f16)

    def run(self, launch: LaunchFile, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        return run(
            launch,
            plan,
            schedule=schedule,
            taps=taps,
            mma=self.mma,
            races=self.races and taps,
            allow=self.allow,
            strict=self.strict,
            seconds_limit=self.seconds_limit,
            instruction_limit=self.instruction_limit,
        )


def run(
    launch: LaunchFile,
    plan: KernelPlan,
    *,
    schedule: Schedule,
    taps: bool = True,
    mma: Mma = "fast",
    races: bool = False,
    allow: Sequence[Allow] = (),
    strict: bool = False,
    seconds_limit: float = 0.0,
    instruction_limit: int = 0,
    host_threads: int = 1,
) -> RunResult:
    """Executes `launch`; with `taps` every observation of the plan is captured, with `races` the order of
    all accesses is checked. `allow`: findings accepted on purpose, which go to `RunResult.allowed`;
    `strict` applies the ISA literally; `seconds_limit` (0: none) stops a launch that runs longer, and
    `instruction_limit` (0: the emulator's default) a launch with more warp instructions; `host_threads` may
    run clusters.

    TileproofError when the module cannot be parsed, has an unsupported instruction, or does not fit the
    launch.
    """
    how: LaunchKeywords = {
        "taps": _taps(plan) if taps else (),
        "mma": mma,
        "races": races,
        "allow": allow,
        "strict": strict,
        "seconds_limit": seconds_limit,
        "host_threads": host_threads,
    }
    if instruction_limit:
        how["instruction_limit"] = instruction_limit
    return _run(launch, plan, schedule, **how)


def run_traced(
    launch: LaunchFile,
    plan: KernelPlan,
    *,
    schedule: Schedule,
    limit: int = 1_000_000,
    seconds_limit: float = 0.0,
    races: bool = False,
) -> tuple[RunResult, Trace]:
    """As `run`, without captures, and the launch's first `limit` events."""
    seen = _run(
        launch,
        plan,
        schedule,
        trace=True,
        trace_limit=limit,
        seconds_limit=seconds_limit,
        races=races,
    )
    assert seen.trace is not None
    return seen, seen.trace


def _run(
    launch: LaunchFile, plan: KernelPlan, schedule: Schedule, **how: Unpack[LaunchKeywords]
) -> RunResult:
    chosen = schedule if isinstance(schedule, Schedule) else Schedule(schedule.policy, schedule.seed)
    result, buffers = launch_on(launch, plan=plan, schedule=chosen, **how)
    return replace(result, outputs=outputs_of(launch, buffers))


def outputs_of(launch: LaunchFile, buffers: Mapping[str, Buffer]) -> dict[str, Output]:
    """The buffers that are an outcome of the launches, which were made for this run."""
    return {buffer.name: outcome(buffers[buffer.name]) for buffer in launch.outcomes}


def launch_on(
    launch: LaunchFile, *, plan: KernelPlan | None = None, **how: Unpack[RunKeywords]
) -> tuple[RunResult, dict[str, Buffer]]:
    """The emulator's own result of the main launch, its findings in the names of `plan`, and the buffers;
    `how` goes to `Module.launch`.

    The other launches run in the order of the file with the options of `how` that are in `OTHERS`; their
    findings are merged. TileproofError for a launch of a Python function.
    """
    if launch.call is not None:
        raise TileproofError(
            "the emulator runs PTX", where=launch.name, found="a Python function", do="use --driver host"
        )
    main = launch.main_number
    others = cast("RunKeywords", {name: value for name, value in how.items() if name in OTHERS})
    done = execute(
        launch, load(launch), lambda number, _: how if number == main else others, how.get("schedule")
    )
    result = done.results.get(main) or next(reversed(done.results.values()))
    rest = [other for other in done.results.values() if other is not result]
    if plan is not None and result is done.results.get(main):
        dynamic, hang = shared_offset(launch), result.hang
        result = replace(
            result,
            findings=tuple(named(plan, finding, hang, dynamic) for finding in result.findings),
            allowed=tuple(named(plan, finding, hang, dynamic) for finding in result.allowed),
        )
    merged = replace(
        result,
        findings=(*result.findings, *(finding for other in rest for finding in other.findings)),
        allowed=(*result.allowed, *(finding for other in rest for finding in other.allowed)),
        limited=(*result.limited, *(item for other in rest for item in other.limited)),
        certificate=merged_certificate(kernel_result.certificate for kernel_result in done.results.values()),
    )
    return merged, done.placed.buffers


def shared_offset(launch: LaunchFile) -> int:
    """Where dynamic shared memory starts in a CTA's shared memory, in the main launch."""
    module = load(launch)[launch.module_of(launch.main).name].module
    return dynamic_begin(module.decode(launch.main.entry))


def _taps(plan: KernelPlan) -> list[Tap]:
    taps = []
    for at in (*plan.observations, *plan.partials):
        if not isinstance(at, TmemObservation | SmemObservation):
            continue
        barrier = plan.barrier(at.barrier)
        for stage in range(barrier.stages):
            region: TmemRegion | SmemRegion
            if isinstance(at, TmemObservation):
                tile = plan.tmem_tile(at.tile)
                region = TmemRegion(tile.column + tile.columns * at.buffer_of(stage, tile), tile.columns)
            else:
                smem = plan.smem_tile(at.tile)
                region = SmemRegion(smem.offset + smem.bytes * (stage % smem.stages), smem.bytes)
            taps.append(Tap(f"{at.tile}@{at.barrier}[{stage}]", barrier.offset_of(stage), region))
    return taps


def named(plan: KernelPlan, finding: Finding, hang: Hang | None, dynamic: int) -> Finding:
    """The emulator's finding with the plan's names: roles, barriers, the tile and k-block of a race, the
    cause of a hang or a race. `dynamic` is where dynamic shared memory starts in a CTA's shared memory.
    """
    at = finding.machine
    role = "" if at.warp is None else role_of(plan, at.warp)
    waiting = tuple(
        replace(
            group,
            name="" if group.barrier is None else barrier_name(plan, group.barrier - dynamic),
            role=role_of(plan, group.warp),
        )
        for group in at.waiting
    )
    finding = replace(finding, machine=replace(at, role=role, waiting=waiting))
    names = PlanNames(plan, dynamic)
    if at.race is not None:
        return _named_race(plan, finding, at.race, names, dynamic)
    finding = explained(finding, hang, names)
    node = None if finding.machine.root is None else finding.machine.root.node
    offset = node.offset if node is not None and node.kind == "mbarrier" else None
    found = None if offset is None else barrier_at(plan, offset - dynamic)
    if found is None:
        return finding
    barrier = found[0]
    size = f", {barrier.tx_bytes} bytes" if barrier.tx_bytes else ""
    takes = f"by the plan a phase of {barrier.name} needs: {barrier.producers} (count {barrier.count}{size})"
    return replace(finding, evidence=(*finding.evidence, takes))


def _named_race(plan: KernelPlan, finding: Finding, race: Race, names: PlanNames, dynamic: int) -> Finding:
    """A race with both accesses in the plan's names, and the tile and k-block that they are about."""
    after, tile = race.then_after, _tile(plan, finding.machine.address, race, dynamic)
    block = None if after is None else k_block(plan, after[0] - dynamic, after[1])
    first = _access(names, race, race.writes, race.after)
    second = _access(names, finding.machine, race.then_writes, race.then_after)
    return replace(
        finding,
        problem=replace(finding.problem, tile=tile, k_block=block),
        evidence=(f"first {first}", f"then {second}", *([f"in {tile}"] if tile else [])),
    )


def _access(names: PlanNames, at: Race | MachinePlace, writes: bool, after: tuple[int, int] | None) -> str:
    """One access of a race in words."""
    rank, warp = at.cluster_rank or 0, -1 if at.warp is None else at.warp
    kind, where = "write" if writes else "read", code_place(at.source, at.ptx_line)
    text = f"{kind} by {names.warp(rank, warp)} at {where}: {at.instruction.split('.L2::')[0]}"
    if after is None or after[1] < 0:
        return text
    return f"{text}; its last wait was for {names.mbarrier(rank, after[0])}, {names.phase(*after)}"


def _tile(plan: KernelPlan, address: int, race: Race, dynamic: int) -> str:
    """The plan's tile, or the output parameter, that the accesses of a race have in common."""
    if race.space == "global":
        return race.buffer
    if race.space == "tmem":
        column = (address & 0xFFFF) - race.tmem_base
        tmem = (t.name for t in plan.tmem if 0 <= column - t.column < t.columns * t.stages)
        return next(tmem, "")
    offset = address - dynamic
    return next((t.name for t in plan.smem if 0 <= offset - t.offset < t.bytes * t.stages), "")
