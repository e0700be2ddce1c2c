"""Findings of the machine, attributed to the parts of the kernel's plan."""

from __future__ import annotations

from dataclasses import replace

from tileproof.conformance.compare.barriers import barrier_findings
from tileproof.conformance.drivers.plan_names import role_of
from tileproof.conformance.observe.capture import captured, parts_of, publication
from tileproof.spec.machine.finding import Finding, Waiting
from tileproof.spec.machine.finding_causes import key
from tileproof.spec.machine.finding_text import WAITS, source_or_line
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.plan import Barrier, FinishedObservation, KernelPlan, OutputObservation
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import ProblemInputs


def machine_findings(
    plan: KernelPlan, inputs: ProblemInputs, run_result: RunResult, build: str
) -> list[Finding]:
    """The machine's errors, one per cause: unrolled code, CTAs and warps repeat it in many instructions."""
    by_cause: dict[tuple[str, ...], list[Finding]] = {}
    for seen in run_result.findings:
        if seen.severity == "error":
            by_cause.setdefault(key(seen), []).append(seen)
    return [
        replace(attribute(plan, inputs, run_result, group[0], build), others=len(group) - 1)
        for group in by_cause.values()
    ] + barrier_findings(plan, run_result, build)


def attribute(
    plan: KernelPlan, inputs: ProblemInputs, run_result: RunResult, seen: Finding, build: str
) -> Finding:
    """The machine's finding with its place in the problem: the group and CTA, the stage, the k-block; of a
    hang also who waits for what.
    """
    at, group, cta = seen.machine, None, None
    if at.cta is not None:
        group, cta = _group(plan, inputs, at.cta), plan.rank_of(at.cta)
    tile, k_block, note = seen.problem.tile, seen.problem.k_block, ""
    if seen.code == "hang" and captured(plan):
        stage, group, k_block, note = _first_unpublished(plan, inputs, run_result, group)
    else:
        stage = _stage_of_tile(plan, tile) if tile else _stage_of_warp(plan, at.warp)
    unit = plan.problem.unit
    place = replace(seen.problem, stage=stage, build=build, group=group, unit=unit, cta=cta, k_block=k_block)
    facts = [line for line in (note, *_waits(plan, inputs, at.waiting)) if line]
    cause = seen.cause or (facts.pop(0) if facts else "")
    return replace(seen, problem=place, cause=cause, evidence=(*seen.evidence, *facts))


def _waits(plan: KernelPlan, inputs: ProblemInputs, waiting: tuple[Waiting, ...]) -> tuple[str, ...]:
    """Who waits for what, warps with the same wait together; barriers that lack bytes first, then arrivals.

    The lanes of a warp that only wait for its other lanes say nothing more and are left out.
    """
    blocked = {(waiter.cta, waiter.warp) for waiter in waiting if waiter.barrier is not None}
    warps_of: dict[tuple[int, int, str, str], list[int]] = {}
    ranks: dict[tuple[int, int, str, str], int] = {}
    for waiter in waiting:
        if waiter.barrier is None and (waiter.cta, waiter.warp) in blocked:
            continue
        place = (
            _group(plan, inputs, waiter.cta),
            plan.rank_of(waiter.cta),
            waiter.role,
            _what(waiter),
        )
        warps_of.setdefault(place, []).append(waiter.warp)
        ranks[place] = 0 if waiter.tx else 1 if waiter.barrier is not None else 2
    lines = []
    for place in sorted(warps_of, key=lambda p: (ranks[p], p)):
        group, cta, role, what = place
        warps = sorted(set(warps_of[place]))
        who = f"warp {warps[0]}" if len(warps) == 1 else f"warps {', '.join(map(str, warps))}"
        lines.append(
            f"{WAITS}{plan.problem.unit} {group} CTA {cta} {who}"
            + (f" ({role})" if role else "")
            + f" for {what}"
        )
    return tuple(lines)


def _group(plan: KernelPlan, inputs: ProblemInputs, cta: tuple[int, int, int]) -> int:
    """The group that a CTA of the grid works on."""
    return plan.problem.group_at(inputs, tiling_of(plan), plan.cluster_of(cta))


def _what(waiting: Waiting) -> str:
    """What a warp waits for: the barrier by its name in the plan, and what its phase still lacks."""
    lacks = [f"{waiting.pending} arrivals"] if waiting.pending > 0 else []
    lacks += [f"{waiting.tx} bytes"] if waiting.tx else []
    what = f"{waiting.name} parity {waiting.parity}" if waiting.name else waiting.waits_for
    what += f", which lacks {' and '.join(lacks)}" if waiting.name and lacks else ""
    at = source_or_line(waiting.source, waiting.ptx_line)
    return what + (f" at {at}" if at else "")


def _stage_of_tile(plan: KernelPlan, tile: str) -> str:
    """The stage observed in this tile or output, else that of the first MMA which reads the tile; empty if
    it belongs to no stage.
    """
    for at in plan.observations:
        if tile == (at.parameter if isinstance(at, OutputObservation | FinishedObservation) else at.tile):
            return at.stage
    results = [mma.d for mma in plan.mmas if tile in (mma.a, mma.b)]
    return next((at.stage for d in results for at in captured(plan) if at.tile == d), "")


def _stage_of_warp(plan: KernelPlan, warp: int | None) -> str:
    """The stage that a warp's role is named after; a role that serves several stages names none."""
    role = "" if warp is None else role_of(plan, warp)
    if role in plan.problem.stages:
        return role
    # A role such as p_consumer or mma serves the stages that are observed in TMEM.
    watched = list(dict.fromkeys(at.stage for at in captured(plan)))
    own = [name for name in watched if role.lower().startswith(f"{name.lower()}_")]
    if own:
        return own[0]
    # What is loaded is first read by the first of them; an MMA warp serves them all.
    return watched[0] if watched and (role == "load" or (role == "mma" and len(watched) == 1)) else ""


def _first_unpublished(
    plan: KernelPlan, inputs: ProblemInputs, run_result: RunResult, group: int | None
) -> tuple[str, int | None, int | None, str]:
    """The first tile, group by group, whose barrier never completed: where a hang began to show."""
    problem, tiling = plan.problem, tiling_of(plan)
    groups = problem.groups(inputs, tiling) if group is None else [group]
    watched = sorted(captured(plan), key=lambda at: list(problem.stages).index(at.stage))
    seen = {
        (at, place.coord.group, place.coord.cta, place.k_block, place.part)
        for at in watched
        for capture in run_result.captures
        if (place := publication(plan, inputs, at, capture)) is not None
    }
    for each in groups:
        blocks: list[int | None] = [*range(problem.k_blocks(inputs, tiling, each)), None]
        for k_block in blocks:
            for at in watched:
                barrier = plan.barrier(at.barrier)
                if barrier.per_k_block == (k_block is None):
                    continue
                for part in range(parts_of(at)):
                    missing = [
                        rank for rank in range(plan.cluster) if (at, each, rank, k_block, part) not in seen
                    ]
                    if missing:
                        note = _never(barrier, k_block, part, parts_of(at), missing)
                        return at.stage, each, k_block, note
    last = watched[-1].stage if watched else ""
    # Nothing is missing, so the protocol of the last observed stage was left half-way.
    return last, group, None, "every tile was published; the wait is after the last k-block"


def _never(barrier: Barrier, k_block: int | None, part: int, parts: int, missing: list[int]) -> str:
    """That a barrier's phase never completed in some CTAs."""
    stage = ((k_block or 0) * parts + part) % barrier.stages
    which = "" if k_block is None else f" for k-block {k_block}"
    which += f", part {part}" if parts > 1 else ""
    return (
        f"{barrier.name}[{stage}] never completed{which} in CTA "
        f"{' and '.join(map(str, missing))}; k-blocks before it were published"
    )
