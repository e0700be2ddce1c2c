"""Runs of head64 on the emulator; every stage of a run against its bound, assume-guarantee.

A stage is judged on the inputs that the kernel itself had for it: S on the kernel's P, dS on its S and dP, dQ
and dKV on the bf16 copies that its MMAs read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.conformance.drivers import emulator
from tileproof.conformance.observe.capture import captured
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.kernels.registry import kernel
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Capture
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, SmemObservation
from tileproof.spec.problems.base import TileCoord, tiling_of
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

KERNEL = kernel("head64")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Run:
    """What one launch showed: outputs, and per (stage, token, cta, k_block) a tile of P, S, dP, dS and dKV.

    S and dS are the bf16 operands; what was never written is NaN.
    """

    inputs: Inputs
    plan: KernelPlan
    outputs: Mapping[str, Array]
    written: Mapping[str, Array]
    tiles: Mapping[tuple[str, int, int, int], Array]
    findings: tuple[Finding, ...]
    counters: Mapping[str, int]


def run(
    inputs: Inputs,
    *,
    probe: bool = False,
    schedule: Schedule | None = None,
    mma: emulator.Mma = "fast",
    taps: bool = True,
    dkv: Array | None = None,
    source_overrides: Mapping[str, str] | None = None,
) -> Run:
    """Launch `inputs`, with dKV holding `dkv` (else zeros) before; with `taps` capture every observation."""
    variant = KERNEL.variant(d_qk=inputs.problem.d_qk)
    plan = KERNEL.plan(variant)
    built = KERNEL.build(variant, probe, source_overrides=source_overrides)
    launch = KERNEL.launch(inputs, built, probe)
    if dkv is not None:
        launch = launch.with_array("dKV", np.broadcast_to(dkv, launch.buffer("dKV").shape).astype(np.float32))
    seen = emulator.run(launch, plan, schedule=schedule or Schedule(), taps=taps, mma=mma)
    return Run(
        inputs,
        plan,
        {name: output.values for name, output in seen.outputs.items()},
        {name: output.written for name, output in seen.outputs.items()},
        _tiles(plan, seen.captures),
        seen.findings,
        dict(seen.counters),
    )


def _tiles(plan: KernelPlan, captures: tuple[Capture, ...]) -> dict[tuple[str, int, int, int], Array]:
    found: dict[tuple[str, int, int, int], Array] = {}
    places = {(at.tile, at.barrier): at for at in captured(plan)}
    for capture in captures:
        if (capture.tile, capture.barrier) not in places:
            continue  # a partial sum
        at = places[capture.tile, capture.barrier]
        token = capture.cta[0] // plan.cluster
        publication = capture.phase * plan.barrier(at.barrier).stages + capture.stage
        if isinstance(at, SmemObservation):
            tile = plan.smem_tile(at.tile)
            rows, cols = np.arange(tile.rows)[:, None], np.arange(tile.cols)[None, :]
            offset = smem_layout.address("K", tile.swizzle, tile.offset, 16, 1024, rows, cols) - tile.offset
            value = capture.data.view(ml_dtypes.bfloat16)[offset // 2]
            value[~capture.valid[offset]] = np.nan
            found[at.stage, token, capture.cluster_rank, publication] = value
            continue
        place = plan.tmem_tile(at.tile)
        mma = next(mma for mma in plan.mmas if mma.d == at.tile)
        lane, column = tmem.cells_of_cta(place.layout, mma.n)
        value = np.ascontiguousarray(capture.data[lane, column]).view(np.float32)
        value[~capture.valid[lane, column]] = np.nan
        width = mma.n
        if at.transposed:
            value, width = value.T, mma.m
        key = (at.stage, token, capture.cluster_rank, publication // at.parts)
        first = at.first_col + width * (publication % at.parts)
        if at.parts == 1 and at.first_col == 0:
            found[key] = value
        else:
            tile_of_dkv = found.setdefault(key, np.full((plan.block, plan.size("d_qk")), np.nan, np.float32))
            tile_of_dkv[:, first : first + width] = value
    return found


def ratio(value: Array, expected: Array, bound: Array) -> float:
    """Largest |value - expected| / bound; inf where a bound of 0 is missed or a value is not a number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(value.astype(np.float64) - expected)
        out = np.where(error == 0, 0.0, error / bound)
    return float(np.where(np.isnan(out), np.inf, out).max(initial=0.0))


def first_wrong(run: Run) -> str | None:
    """The first stage outside its bound, in the order of the graph; None when every stage is inside."""
    return next((stage for stage, worst in ratios(run).items() if worst > 1), None)


def ratios(run: Run) -> dict[str, float]:
    """Stage -> the largest |error| / bound over its tiles; at most 1 for a correct kernel."""
    inputs, plan = run.inputs, run.plan
    seen: dict[tuple[str, TileCoord], StageTile] = {}
    chain = Chain(inputs, seen, problem=SPARSE_MLA_BWD, tiling=tiling_of(plan))
    for token in range(inputs.problem.s_q):
        for name in plan.stages:
            for coord in chain.coordinates(name, token):
                rows, cols = chain.region(name, coord)
                if coord.k_block is None:
                    value = run.outputs[name][token, rows].reshape(rows.stop - rows.start, -1)
                else:
                    value = run.tiles[name, token, coord.cta or 0, coord.k_block]
                operand = name in ("S", "dS")
                written = np.ones(value.shape, bool)
                seen[name, coord] = StageTile(name, coord, rows, cols, value, written, operand=operand)
    chain = Chain(inputs, seen, problem=SPARSE_MLA_BWD, tiling=tiling_of(plan))
    worst: dict[str, float] = dict.fromkeys([*plan.stages, "dKV rows"], 0.0)
    sums = RowSums.of(inputs.problem.s_kv, inputs.problem.d_qk)
    mask = key_mask(inputs)
    for (name, coord), tile in seen.items():
        known = chain.reference(name, coord, tile.rows, tile.cols)
        worst[name] = max(worst[name], ratio(tile.value, known.value, known.bound))
        if name == "dKV":
            key = mask[coord.group, tile.rows]
            sums.add(inputs.indices[coord.group, tile.rows][key], tile.value[key])
    worst["dKV rows"] = ratio(run.outputs["dKV"], sums.value, sums.bound())
    return worst
