"""From what a driver captured to stage tiles with coordinates, by the kernel plan's observations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tileproof.conformance.finding import Finding
from tileproof.conformance.observed import Capture, Observed, Output
from tileproof.conformance.tiles import StageTile
from tileproof.spec.machine import tmem
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan, OutputObservation, TmemObservation
from tileproof.spec.problem import Inputs
from tileproof.spec.tiles import Tile, TileCoord, k_blocks, rows_of, walk


@dataclass(frozen=True)
class Observation:
    """The stage tiles of one launch, and what is wrong with their number."""

    tiles: tuple[StageTile, ...]
    findings: tuple[Finding, ...]


def observe(
    plan: KernelPlan, inputs: Inputs, observed: Observed, build: str, *, probe: bool = False
) -> Observation:
    """Every stage tile that the plan says can be seen: in TMEM and outputs, or in the probe build's
    outputs.
    """
    tiles: list[StageTile] = []
    findings: list[Finding] = []
    wanted = [o for o in plan.observations if isinstance(o, OutputObservation)]
    for seen in [*wanted, *(plan.probes if probe else ())]:
        if seen.parameter not in observed.outputs:
            raise TileproofError(
                "the launch has no such output",
                where=f"plan {plan.name}, observation of {seen.stage}",
                expected=seen.parameter,
                found=", ".join(observed.outputs) or "no output",
            )
        output = observed.outputs[seen.parameter]
        tiles += output_tiles(plan, inputs, seen, output)
        findings += surplus_writes(plan, inputs, seen, output, build)
    if not probe:
        for at in plan.observations:
            if isinstance(at, TmemObservation):
                found, faults = tmem_tiles(plan, inputs, at, observed.captures, build)
                tiles += found
                findings += faults
    return Observation(tuple(tiles), tuple(findings))


def tmem_tiles(
    plan: KernelPlan, inputs: Inputs, at: TmemObservation, captures: tuple[Capture, ...], build: str
) -> tuple[list[StageTile], list[Finding]]:
    """Tiles of one TMEM observation; a tile that was never published is all unwritten."""
    place, barrier = plan.tmem_tile(at.tile), plan.barrier(at.barrier)
    mma = next(m for m in plan.mmas if m.d == at.tile)
    taken: dict[TileCoord, Capture] = {}
    findings: list[Finding] = []
    for capture in captures:
        if capture.tile != at.tile:
            continue
        token = capture.cta[0] // plan.cluster
        k_block = capture.phase * barrier.stages + capture.stage
        if k_block >= k_blocks(inputs, token, plan.b_topk):
            findings.append(_surplus(at.stage, token, capture.cluster_rank, k_block, barrier.name, build))
            continue
        taken[TileCoord(token, capture.cluster_rank, k_block)] = capture

    tiles = []
    for tile in walk(inputs, plan.b_topk, plan.cluster):
        lane, column = tmem.cells_of_cta(place.layout, mma.n)
        first = place.column + place.columns * (tile.k_block % place.stages)
        got = taken.get(tile.coord)
        if got is None:
            value, written = np.zeros(lane.shape, np.float32), np.zeros(lane.shape, bool)
        else:
            value = np.ascontiguousarray(got.data[lane, column]).view(np.float32)
            written = got.valid[lane, column]
        tiles.append(
            StageTile(at.stage, tile.coord, tile.rows, tile.cols, value, written, lane, column + first)
        )
    return tiles, findings


def output_tiles(
    plan: KernelPlan, inputs: Inputs, at: OutputObservation, output: Output
) -> Iterator[StageTile]:
    """Tiles of one output parameter, which is indexed [s_q, h_q] or [s_q, h_q, topk]."""
    for tile in _walk_of(plan, inputs, at):
        where = (
            (tile.token, tile.rows, tile.cols) if output.values.ndim == 3 else (tile.token, tile.rows, None)
        )
        coord = tile.coord if output.values.ndim == 3 else TileCoord(tile.token, tile.cta, None)
        yield StageTile(at.stage, coord, tile.rows, tile.cols, output.values[where], output.written[where])


def surplus_writes(
    plan: KernelPlan, inputs: Inputs, at: OutputObservation, output: Output, build: str
) -> Iterator[Finding]:
    """One finding when the kernel wrote elements of an output that belong to no tile of the walk."""
    rest = output.written.copy()
    for tile in _walk_of(plan, inputs, at):
        rest[(tile.token, tile.rows, tile.cols)[: rest.ndim]] = False
    if rest.any():
        first = [int(i) for i in np.argwhere(rest)[0]]
        yield Finding(
            kind="surplus",
            message=f"output {at.parameter} was written where the walk has no tile",
            stage=at.stage,
            build=build,
            token=first[0],
            cta=first[1] // (plan.h_q // plan.cluster),
            k_block=first[2] // plan.b_topk if len(first) > 2 else None,
            row=first[1],
            column=first[2] if len(first) > 2 else None,
            wrong=int(rest.sum()),
            elements=int(rest.size),
            pattern="elements beyond the token's last k-block",
        )


def _walk_of(plan: KernelPlan, inputs: Inputs, at: OutputObservation) -> Iterator[Tile]:
    axes = at.indexed.strip("[] ").replace(" ", "").split(",")
    if axes == ["s_q", "h_q", "topk"]:
        yield from walk(inputs, plan.b_topk, plan.cluster)
    elif axes == ["s_q", "h_q"]:
        for token in range(inputs.problem.s_q):
            for cta in range(plan.cluster):
                rows = rows_of(inputs.problem, cta, plan.cluster)
                yield Tile(token, cta, 0, rows, slice(0, 1))
    else:
        raise TileproofError(
            "an output with these axes cannot be cut into tiles",
            where=f"plan {plan.name}, parameter {at.parameter}",
            expected="[s_q, h_q] or [s_q, h_q, topk]",
            found=at.indexed,
        )


def _surplus(stage: str, token: int, cta: int, k_block: int, barrier: str, build: str) -> Finding:
    return Finding(
        kind="surplus",
        message=f"{barrier} completed for a k-block that the token does not have",
        stage=stage,
        build=build,
        token=token,
        cta=cta,
        k_block=k_block,
        pattern="a k-block beyond the last one",
    )
