"""Partial sums over the first k-blocks, from captures of accumulators that a plan makes observable.

A tile of a stage that sums over the k-blocks has the coordinate of the k-block after which it was observed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from tileproof.conformance.observe.capture import DTYPES, captured, fill, places_in_tmem, publication
from tileproof.conformance.observe.tiles import StageTile
from tileproof.spec.machine.run_result import Capture
from tileproof.spec.plan import KernelPlan, TmemObservation
from tileproof.spec.problems.base import TileCoord, coordinates, region, sums_over_walk, tiling_of
from tileproof.spec.problems.cases import ProblemInputs


def partial_sums(plan: KernelPlan) -> tuple[TmemObservation, ...]:
    """Where partial sums can be observed: the plan's own observations of them, and those of a whole sum whose
    barrier completes in each k-block.
    """
    problem = plan.problem
    whole = (
        at
        for at in captured(plan)
        if isinstance(at, TmemObservation) and not at.summed and not problem.walks(at.stage)
    )
    return (*plan.partials, *(at for at in whole if plan.barrier(at.barrier).per_k_block))


def unpublished_sums(plan: KernelPlan) -> tuple[str, ...]:
    """The plan's stages that sum over the k-blocks and whose partial sums nothing shows."""
    problem, shown = plan.problem, {at.stage for at in partial_sums(plan)}
    return tuple(name for name in plan.stages if sums_over_walk(problem, name) and name not in shown)


def partial_tiles(plan: KernelPlan, inputs: ProblemInputs, captures: Iterable[Capture]) -> list[StageTile]:
    """A tile ``f32 [rows, cols]`` for each sum and k-block; what was never published is unwritten.

    The sum over all k-blocks is omitted if an observation of the stage itself shows it.
    """
    seen = partial_sums(plan)
    if not seen:
        return []
    problem, tiling = plan.problem, tiling_of(plan)
    whole = {at.stage for at in captured(plan)}
    tiles: dict[tuple[str, TileCoord], StageTile] = {}
    for stage in dict.fromkeys(at.stage for at in seen):
        own = [at for at in seen if at.stage == stage]
        dtype = DTYPES[plan.tmem_tile(own[0].tile).dtype]
        for group in problem.groups(inputs, tiling):
            blocks = problem.k_blocks(inputs, tiling, group) - (stage in whole)
            if blocks < 1:
                continue
            for coord in coordinates(problem, inputs, tiling, stage, group):
                rows, cols = region(problem, inputs, tiling, stage, coord)
                shape = rows.stop - rows.start, cols.stop - cols.start
                places = places_in_tmem(plan, own, stage, None, shape)
                for k_block in range(blocks):
                    at = replace(coord, k_block=k_block)
                    tiles[stage, at] = StageTile(
                        stage, at, rows, cols, np.zeros(shape, dtype), np.zeros(shape, bool), *places
                    )
    of_tile: dict[str, list[TmemObservation]] = {}
    for partial_sum in seen:
        of_tile.setdefault(partial_sum.tile, []).append(partial_sum)
    for capture in captures:
        for accumulator in of_tile.get(capture.tile, ()):
            place = publication(plan, inputs, accumulator, capture)
            tile = place and tiles.get((accumulator.stage, replace(place.coord, k_block=place.k_block)))
            if place and tile:
                fill(plan, accumulator, capture, place, tile)
    return list(tiles.values())
