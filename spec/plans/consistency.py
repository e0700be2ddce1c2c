"""The rules that every kernel plan must satisfy, independent of its kernel."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES
from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.machine.mma import check_shape, layout_of
from tileproof.spec.plan import (
    FinishedObservation,
    KernelPlan,
    OutputObservation,
    SmemObservation,
    SmemTile,
    TmemObservation,
)
from tileproof.spec.problems.base import sums_over_walk

MAX_MBARRIER_COUNT = (1 << 20) - 1  # PTX ISA, limits of the expected count and of the tx-count
TMEM_ALLOCATIONS = (32, 64, 128, 256, 512)  # PTX ISA, tcgen05.alloc
PATTERN_BYTES = {"none": 16, "32B": 256, "64B": 512, "128B": 1024}  # PTX ISA, where a swizzle pattern starts
INTERLEAVED, INTERLEAVED_LANES = "CF", (0, 16)  # layouts that use 16 of each 32 lanes, and their first lanes
ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "u32": 4}


def contradictions(plan: KernelPlan) -> list[str]:
    """Every contradiction in `plan`, one sentence each; empty when there is none."""
    return [*_smem(plan), *_barriers(plan), *_tmem(plan), *_roles(plan), *_mmas(plan), *_observations(plan)]


def _overlaps(spans: Iterable[tuple[str, int, int]]) -> Iterable[str]:
    ordered = sorted(spans, key=lambda span: span[1])
    for (left, _, end), (right, start, _) in pairwise(ordered):
        if start < end:
            yield f"{left} overlaps {right}: it ends at {end}, past {start}"


def _shared(spans: list[tuple[str, int, int]], inside: dict[str, str], what: str) -> Iterable[str]:
    """Spans that overlap, except spans within another span."""
    yield from _overlaps(span for span in spans if span[0] not in inside)
    ends = {name: (first, end) for name, first, end in spans}
    for name, around in inside.items():
        if around not in ends or around in inside:
            yield f"{name} uses the {what} of {around}, which is no tile of its own"
        elif not ends[around][0] <= ends[name][0] < ends[name][1] <= ends[around][1]:
            yield f"{name} does not lie within {around}"


def _smem(plan: KernelPlan) -> Iterable[str]:
    if plan.smem_bytes > MAX_SHARED_BYTES:
        yield f"shared memory of {plan.smem_bytes} bytes exceeds {MAX_SHARED_BYTES}"
    spans = [(tile.name, tile.offset, tile.offset + tile.stages * tile.bytes) for tile in plan.smem]
    spans += [(b.name, b.offset, b.offset + b.stages * MBARRIER_BYTES) for b in plan.barriers]
    yield from _shared(spans, {tile.name: tile.within for tile in plan.smem if tile.within}, "bytes")
    yield from (f"{name} ends past the shared memory" for name, _, end in spans if end > plan.smem_bytes)
    for tile in plan.smem:
        yield from _smem_tile(tile)


def _smem_tile(tile: SmemTile) -> Iterable[str]:
    pattern = PATTERN_BYTES[tile.swizzle] if tile.dtype != "u32" else ELEMENT_BYTES["u32"]
    if tile.offset % pattern or (tile.stages > 1 and tile.bytes % pattern):
        yield f"{tile.name} does not start on a {pattern}-byte boundary in every stage"
    wanted = tile.rows * tile.cols * ELEMENT_BYTES[tile.dtype]
    if tile.bytes != wanted:
        yield f"{tile.name} takes {tile.bytes} bytes for {tile.rows} x {tile.cols} {tile.dtype}, not {wanted}"


def _barriers(plan: KernelPlan) -> Iterable[str]:
    for barrier in plan.barriers:
        if barrier.offset % MBARRIER_BYTES:
            yield f"{barrier.name} is not 8-byte aligned"
        if not 1 <= barrier.count <= MAX_MBARRIER_COUNT:
            yield f"{barrier.name} expects {barrier.count} arrivals"
        if not 0 <= barrier.tx_bytes <= MAX_MBARRIER_COUNT:
            yield f"{barrier.name} expects {barrier.tx_bytes} bytes"
        if not barrier.ctas or not set(barrier.ctas) <= set(range(plan.cluster)):
            yield f"{barrier.name} is used in CTAs {barrier.ctas} of a cluster of {plan.cluster}"


def _tmem(plan: KernelPlan) -> Iterable[str]:
    if plan.tmem_columns not in TMEM_ALLOCATIONS and (plan.tmem or plan.tmem_columns):
        yield f"{plan.tmem_columns} TMEM columns cannot be allocated"
    spans = [(tile.name, tile.column, tile.column + tile.stages * tile.columns) for tile in plan.tmem]
    for lane in INTERLEAVED_LANES:
        there = [t for t in plan.tmem if t.layout not in INTERLEAVED or t.lane == lane]
        own = [span for span in spans if span[0] in {tile.name for tile in there}]
        yield from _shared(own, {tile.name: tile.within for tile in there if tile.within}, "cells")
    for tile in plan.tmem:
        if tile.lane not in (INTERLEAVED_LANES if tile.layout in INTERLEAVED else (0,)):
            yield f"{tile.name} of layout {tile.layout} cannot begin at lane {tile.lane}"
    yield from (f"{name} ends past the TMEM allocation" for name, _, end in spans if end > plan.tmem_columns)


def _roles(plan: KernelPlan) -> Iterable[str]:
    for cta in range(plan.cluster):
        warps = [
            (role.name, role.first_warp, role.first_warp + role.warps)
            for role in plan.roles
            if cta in role.ctas
        ]
        yield from _overlaps(warps)
        covered = sum(end - start for _, start, end in warps)
        if 32 * covered != plan.threads:
            yield f"the roles of CTA {cta} cover {32 * covered} of {plan.threads} threads"


def _mmas(plan: KernelPlan) -> Iterable[str]:
    smem = {tile.name: tile for tile in plan.smem}
    tmem = {tile.name: tile for tile in plan.tmem}
    for mma in plan.mmas:
        if not {mma.a, mma.b} <= {*smem, *tmem} or mma.d not in tmem:
            yield f"MMA {mma.name} names a tile that is not in the plan"
            continue
        for operand, major, extent, window in (
            (mma.a, mma.a_major, mma.m, mma.a_cols),
            (mma.b, mma.b_major, mma.n, mma.b_cols),
        ):
            if operand not in smem:
                continue
            tile = smem[operand]
            first, end = window or (0, tile.cols)
            if not 0 <= first < end <= tile.cols:
                yield f"MMA {mma.name} reads columns {first} to {end} of {operand}, which has {tile.cols}"
            along_rows = tile.major == major
            rows, depth = (tile.rows, end - first) if along_rows else (end - first, tile.rows)
            wanted = extent if along_rows or window is None else extent * mma.parts
            if (rows * mma.cta_group, depth) != (wanted, mma.k):
                yield f"MMA {mma.name} reads {wanted} x {mma.k} of {operand}: a CTA holds {rows} x {depth}"
        if mma.parts > 1 and (mma.a_cols is None) == (mma.b_cols is None):
            yield f"MMA {mma.name} has {mma.parts} parts of neither or both operands"
        shape = (mma.m, mma.n, mma.cta_group)
        try:
            check_shape(*shape, ws=mma.ws)
        except TileproofError as error:
            yield f"MMA {mma.name} has no legal shape: {error.what}, {error.found}"
        else:
            if (layout := layout_of(mma.m, mma.cta_group, ws=mma.ws)) != tmem[mma.d].layout:
                yield f"MMA {mma.name} writes layout {layout}, but {mma.d} is in layout {tmem[mma.d].layout}"
        # Layouts B and E fold the N columns in two (PTX ISA, tcgen05 data path layouts), G in four.
        folds = {"B": 2, "E": 2, "G": 4}.get(tmem[mma.d].layout, 1)
        if tmem[mma.d].columns * folds != mma.n:
            yield f"MMA {mma.name} writes {mma.n} columns to {mma.d} of {tmem[mma.d].columns} x {folds}"


def _of_the_cluster(plan: KernelPlan) -> Iterable[str]:
    """The parts that CTAs show of a tile of the whole cluster, or of each CTA's own tile."""
    for stage in plan.cluster_wide:
        if stage not in plan.stages:
            yield f"{stage} is a tile of the whole cluster but no stage of the plan"
    for at in plan.observations:
        if (
            isinstance(at, TmemObservation)
            and (at.summed or at.rank_cols)
            and at.stage not in plan.cluster_wide
        ):
            yield f"{at.stage} is observed in all CTAs together, and each has a tile of its own"
        elif isinstance(at, TmemObservation) and at.summed and at.rank_cols:
            yield f"{at.stage} is observed both as a sum over the CTAs and as columns of each"
        elif isinstance(at, SmemObservation) and at.rank_rows:
            rows = next((tile.rows for tile in plan.smem if tile.name == at.tile), 0)
            if at.rank_rows * plan.cluster > rows:
                yield f"{at.stage} has {at.rank_rows} rows of each CTA in {at.tile} of {rows} rows"


def _partials(plan: KernelPlan) -> Iterable[str]:
    """Partial sums lie in buffers that are there and are published in each k-block."""
    tmem = {tile.name: tile for tile in plan.tmem}
    barriers = {barrier.name: barrier for barrier in plan.barriers}
    for at in plan.partials:
        if at.stage not in plan.stages or at.tile not in tmem or at.barrier not in barriers:
            yield f"a partial sum of {at.stage} names a stage, a tile or a barrier that is not in the plan"
        elif not sums_over_walk(plan.problem, at.stage):
            yield f"{at.stage} is not a sum over the k-blocks, but a partial sum of it is observed"
        elif not barriers[at.barrier].per_k_block or barriers[at.barrier].parts != at.parts:
            yield f"a partial sum of {at.stage} is published by {at.barrier}, which does not in each k-block"
        elif at.buffer is None or not 0 <= at.buffer < tmem[at.tile].stages:
            yield f"a partial sum of {at.stage} names no buffer of {at.tile}"


def _observations(plan: KernelPlan) -> Iterable[str]:
    tmem = {tile.name: tile.stages for tile in plan.tmem}
    smem = {tile.name: tile.stages for tile in plan.smem}
    barriers = {barrier.name: barrier.stages for barrier in plan.barriers}
    for observation in (*plan.observations, *plan.probes):
        if observation.stage not in plan.stages:
            yield f"{observation.stage} is observed but is not a stage of the plan"
        if isinstance(observation, OutputObservation | FinishedObservation):
            continue
        tiles = smem if isinstance(observation, SmemObservation) else tmem
        if observation.tile not in tiles or observation.barrier not in barriers:
            yield f"{observation.stage} is observed in a tile or by a barrier that is not in the plan"
        elif tiles[observation.tile] != barriers[observation.barrier]:
            yield f"{observation.barrier} does not have one stage per stage of {observation.tile}"
        elif isinstance(observation, TmemObservation):
            barrier = plan.barrier(observation.barrier)
            if observation.parts != barrier.parts:
                seen_in = f"{observation.tile} is observed in {observation.parts} parts"
                yield f"{seen_in}, {barrier.name} has {barrier.parts}"
    yield from _partials(plan)
    yield from _of_the_cluster(plan)
    seen = {observation.stage for observation in (*plan.observations, *plan.probes)}
    yield from (f"stage {stage} is never observed" for stage in plan.stages if stage not in seen)
