"""The emulator driver: executes a launch description on `tileproof.emulator`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from tileproof.conformance.drivers.driver import ALL, Capabilities
from tileproof.conformance.drivers.names import PlanNames, code_place
from tileproof.conformance.drivers.plan_names import barrier_at, k_block
from tileproof.conformance.drivers.result import (
    Capture,
    MachineFinding,
    Output,
    RunResult,
    RunSchedule,
    Waiter,
)
from tileproof.emulator import Buffer as PlacedBuffer
from tileproof.emulator import (
    Fields,
    Finding,
    LaunchResult,
    Memory,
    Module,
    Schedule,
    SmemRegion,
    Tap,
    TapRecord,
    TensorMap,
    TmemRegion,
    Waiting,
)
from tileproof.emulator.causes import Allow, key
from tileproof.emulator.program import SHARED_RESERVED
from tileproof.emulator.trace import Trace
from tileproof.kernels.launch import (
    ADDRESS_BYTES,
    Buffer,
    Launch,
    Scalar,
    Struct,
    TensorMapSpec,
)
from tileproof.spec.plan import KernelPlan, SmemObservation, TmemObservation

Mma = Literal["fast", "exact"]
# What launches beside the one that is looked at are run with.
BESIDE = ("schedule", "mma", "races", "allow", "strict", "seconds_limit", "instruction_limit")


@dataclass(frozen=True)
class EmulatorDriver:
    """Launches on the emulator, with what `run` takes; `races` is asked of launches with captures."""

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

    def run(self, launch: Launch, plan: KernelPlan, schedule: RunSchedule, taps: bool) -> RunResult:
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


@lru_cache(maxsize=16)
def module_of(ptx: str) -> Module:
    """The parsed module of a PTX text; the same text is parsed once."""
    return Module.from_ptx(ptx)


def run(
    launch: Launch,
    plan: KernelPlan,
    *,
    schedule: RunSchedule | Schedule,
    taps: bool = True,
    mma: Mma = "fast",
    races: bool = False,
    allow: Sequence[Allow] = (),
    strict: bool = False,
    seconds_limit: float = 0.0,
    instruction_limit: int = 0,
) -> RunResult:
    """Executes `launch`; with `taps` every observation of the plan is captured, with `races` the order of
    all accesses is checked. `allow`: findings accepted on purpose, which go to `RunResult.allowed`;
    `strict` takes the ISA by the letter; `seconds_limit` (0: none) stops a launch that runs longer, and
    `instruction_limit` (0: the emulator's own) one of more warp instructions.

    TileproofError when the module cannot be parsed, holds an instruction that the emulator does not know, or
    does not fit the launch.
    """
    return _run(launch, plan, schedule, taps, mma, 0, races, allow, strict, seconds_limit, instruction_limit)[
        0
    ]


def run_traced(
    launch: Launch,
    plan: KernelPlan,
    *,
    schedule: RunSchedule | Schedule,
    limit: int = 1_000_000,
    seconds_limit: float = 0.0,
) -> tuple[RunResult, Trace]:
    """As `run`, without captures, and the launch's first `limit` events."""
    run_result, trace = _run(launch, plan, schedule, False, "fast", limit, False, seconds_limit=seconds_limit)
    assert trace is not None
    return run_result, trace


def _run(
    launch: Launch,
    plan: KernelPlan,
    schedule: RunSchedule | Schedule,
    taps: bool,
    mma: Mma,
    limit: int,
    races: bool,
    allow: Sequence[Allow] = (),
    strict: bool = False,
    seconds_limit: float = 0.0,
    instruction_limit: int = 0,
) -> tuple[RunResult, Trace | None]:
    limits: dict[str, Any] = {"instruction_limit": instruction_limit} if instruction_limit else {}
    result, buffers = launch_on(
        launch,
        schedule=schedule
        if isinstance(schedule, Schedule)
        else Schedule(policy=schedule.policy, seed=schedule.seed),
        taps=_taps(plan) if taps else [],
        mma=mma,
        trace=limit > 0,
        trace_limit=limit,
        races=races,
        allow=allow,
        strict=strict,
        seconds_limit=seconds_limit,
        **limits,
    )
    dynamic = shared_offset(launch)
    outputs = {
        name: Output(np.array(buffers[name].numpy()), np.array(buffers[name].written()))
        for name, buffer in launch.buffers().items()
        if buffer.direction == "out"
    }
    run_result = RunResult(
        outputs=outputs,
        captures=tuple(_capture(record) for record in result.taps),
        findings=tuple(_finding(plan, finding, dynamic) for finding in result.findings),
        allowed=tuple(_finding(plan, finding, dynamic) for finding in result.allowed),
        printf=result.printf,
        counters=asdict(result.counters),
        mbarriers=tuple((one.rank, one.offset, one.count) for one in result.mbarriers),
        announced=tuple((one.rank, one.offset, one.bytes) for one in result.announced),
        executed=result.executed,
    )
    return run_result, result.trace


def launch_on(launch: Launch, **how: Any) -> tuple[LaunchResult, dict[str, PlacedBuffer]]:
    """The emulator's own result of `launch`, and its buffers; `how` goes to `Module.launch`.

    Launches before and after it run in order of the program under the same policy; what is found in them is
    found with the rest.
    """
    memory = Memory()
    buffers = {name: _place(memory, buffer) for name, buffer in launch.buffers().items()}

    def run_one(one: Launch, **how: Any) -> LaunchResult:
        return module_of(one.image).launch(
            one.entry,
            grid=one.grid,
            block=one.block,
            cluster=one.cluster,
            shared_bytes=one.shared_bytes,
            args=[_argument(parameter, buffers) for parameter in one.params],
            memory=memory,
            **how,
        )

    beside = {name: how[name] for name in BESIDE if name in how}
    before = [run_one(one, **beside) for one in launch.before]
    result = run_one(launch, **how)
    others = [*before, *(run_one(one, **beside) for one in launch.after)]
    found = (finding for one in others for finding in one.findings)
    allowed = (finding for one in others for finding in one.allowed)
    return replace(result, findings=(*result.findings, *found), allowed=(*result.allowed, *allowed)), buffers


def shared_offset(launch: Launch) -> int:
    """Where dynamic shared memory starts in a CTA's shared memory."""
    return SHARED_RESERVED + module_of(launch.image).decode(launch.entry).static_shared


def in_words(plan: KernelPlan, finding: Finding, dynamic: int) -> list[str]:
    """A finding's message and, of a hang or a race, its cause in the plan's names."""
    seen = _finding(plan, finding, dynamic)
    return [f"{seen.code}: {seen.message}", *seen.root]


def _place(memory: Memory, buffer: Buffer) -> PlacedBuffer:
    if buffer.array is None:
        return memory.empty(buffer.shape, buffer.dtype, name=buffer.name)
    return memory.buffer(buffer.array, name=buffer.name)


def _argument(item: Buffer | Scalar | TensorMapSpec | Struct, buffers: dict[str, Any]) -> Any:
    """A parameter as the emulator takes it; of structs only the fields are set."""
    if isinstance(item, Buffer):
        return buffers[item.name]
    if isinstance(item, Scalar):
        return item.value
    if isinstance(item, TensorMapSpec):
        return _tensor_map(item, buffers)
    return Fields(item.size, {offset: _bytes(part, buffers) for offset, part in item.fields})


def _bytes(item: Buffer | Scalar | TensorMapSpec, buffers: dict[str, Any]) -> bytes:
    if isinstance(item, Buffer):
        return int(buffers[item.name].address).to_bytes(ADDRESS_BYTES, "little")
    if isinstance(item, Scalar):
        return item.encode()
    return bytes(_tensor_map(item, buffers).encode())


def _tensor_map(item: TensorMapSpec, buffers: dict[str, Any]) -> TensorMap:
    return TensorMap.tiled(
        buffers[item.buffer.name],
        shape=item.shape,
        strides=item.strides,
        box=item.box,
        element_strides=item.element_strides,
        swizzle=item.swizzle,
        oob_fill=item.oob_fill,
        offset=item.offset,
    )


def _taps(plan: KernelPlan) -> list[Tap]:
    taps = []
    for at in plan.observations:
        if not isinstance(at, TmemObservation | SmemObservation):
            continue
        barrier = plan.barrier(at.barrier)
        for stage in range(barrier.stages):
            region: TmemRegion | SmemRegion
            if isinstance(at, TmemObservation):
                tile = plan.tmem_tile(at.tile)
                region = TmemRegion(tile.column + tile.columns * (stage % tile.stages), tile.columns)
            else:
                smem = plan.smem_tile(at.tile)
                region = SmemRegion(smem.offset + smem.bytes * (stage % smem.stages), smem.bytes)
            taps.append(Tap(f"{at.tile}[{stage}]", barrier.offset_of(stage), region))
    return taps


def _capture(record: TapRecord) -> Capture:
    tile, stage = record.name.rstrip("]").split("[")
    return Capture(tile, int(stage), record.cta, record.cluster_rank, record.phase, record.data, record.valid)


def _finding(plan: KernelPlan, finding: Finding, dynamic: int) -> MachineFinding:
    """The emulator's finding; `dynamic` is where dynamic shared memory starts in a CTA's shared memory."""
    return MachineFinding(
        severity=finding.severity,
        code=finding.code,
        message=finding.message,
        ptx_line=finding.ptx_line,
        source=finding.source,
        cta=finding.cta,
        warp=None if finding.warp < 0 else finding.warp,
        lane=None if finding.lane < 0 else finding.lane,
        address=finding.address,
        count=finding.count,
        waiting=tuple(_waiter(one, dynamic) for one in finding.waiting),
        root=_race(plan, finding, dynamic) if finding.race else _root(plan, finding, dynamic),
        tile=_tile(plan, finding, dynamic),
        k_block=_k_block(plan, finding, dynamic),
        cause=key(finding),
        before=finding.race.source or f"PTX line {finding.race.ptx_line}" if finding.race else "",
        missing=finding.race.missing if finding.race else "",
        instruction=finding.instruction,
    )


def _k_block(plan: KernelPlan, finding: Finding, dynamic: int) -> int | None:
    """The k-block of the mbarrier phase that the warp of a race had last waited for."""
    after = finding.race.then_after if finding.race else None
    return None if after is None else k_block(plan, after[0] - dynamic, after[1])


def _tile(plan: KernelPlan, finding: Finding, dynamic: int) -> str:
    """The plan's tile, or the output parameter, that the accesses of a race have in common."""
    race = finding.race
    if race is None:
        return ""
    if race.space == "global":
        return race.buffer
    if race.space == "tmem":
        column = (finding.address & 0xFFFF) - race.tmem_base
        tmem = (t.name for t in plan.tmem if 0 <= column - t.column < t.columns * t.stages)
        return next(tmem, "")
    offset = finding.address - dynamic
    return next((t.name for t in plan.smem if 0 <= offset - t.offset < t.bytes * t.stages), "")


def _race(plan: KernelPlan, finding: Finding, dynamic: int) -> tuple[str, ...]:
    """Both accesses of a race in the plan's names, and what should stand between them."""
    race = finding.race
    assert race is not None
    names = PlanNames(plan, dynamic)

    def access(
        writes: bool, rank: int, warp: int, source: str, line: int, what: str, after: tuple[int, int] | None
    ) -> str:
        where = code_place(source, line)
        kind = "write" if writes else "read"
        text = f"{kind} by {names.warp(rank, warp)} at {where}: {what.split('.L2::')[0]}"
        if after is None:
            return text
        waited = f"{names.mbarrier(rank, after[0])}, {names.phase(*after)}" if after[1] >= 0 else ""
        return text + (f"; its last wait was for {waited}" if waited else "")

    first = access(
        race.writes, race.cluster_rank, race.warp, race.source, race.ptx_line, race.instruction, race.after
    )
    second = access(
        race.then_writes, finding.cluster_rank, finding.warp, finding.source, finding.ptx_line,
        finding.instruction, race.then_after,
    )  # fmt: skip
    tile = _tile(plan, finding, dynamic)
    return (f"first {first}", f"then {second}", f"missing: {race.missing}", *([f"in {tile}"] if tile else []))


def _root(plan: KernelPlan, finding: Finding, dynamic: int) -> tuple[str, ...]:
    """The cause of a hang in the plan's names, with what the plan says of the barrier."""
    roots = finding.hang.explain(PlanNames(plan, dynamic)).roots if finding.hang else ()
    if not roots:
        return ()
    lines = roots[0].lines()
    node = roots[0].node
    found = barrier_at(plan, node.offset - dynamic) if node.kind == "mbarrier" and node.offset else None
    if found is not None:
        barrier = found[0]
        size = f", {barrier.tx_bytes} bytes" if barrier.tx_bytes else ""
        lines.append(
            f"by the plan a phase of {barrier.name} takes: {barrier.producers} (count {barrier.count}{size})"
        )
    lines.append(
        f"{roots[0].followers} of {len(finding.waiting)} waiting groups of lanes wait for this, or follow"
    )
    return tuple(lines)


def _waiter(one: Waiting, dynamic: int) -> Waiter:
    return Waiter(
        cta=one.cta,
        warp=one.warp,
        waits_for=one.waits_for,
        ptx_line=one.ptx_line,
        source=one.source,
        barrier=None if one.barrier is None else one.barrier - dynamic,
        parity=one.parity,
        pending=one.pending,
        tx_bytes=one.tx,
    )
