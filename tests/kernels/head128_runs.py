"""Runs of head128 on the emulator, and every stage of a run against its bound, assume-guarantee.

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
from tileproof.conformance.drivers.capture import Capture, MachineFinding, Schedule
from tileproof.kernels.registry import kernel
from tileproof.reference import stages as ref
from tileproof.spec import numerics
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.plan import KernelPlan, OutputObservation, SmemObservation
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, key_mask
from tileproof.spec.problems.sparse_mla_bwd.tiling import gather, k_blocks, rows_of

KERNEL = kernel("head128")
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
    findings: tuple[MachineFinding, ...]
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
    plan = KERNEL.plan(inputs.problem.d_qk)
    built = KERNEL.build(inputs.problem.d_qk, probe, source_overrides)
    launch = KERNEL.launch(inputs, built, probe)
    if dkv is not None:
        launch.buffers()["dKV"].array[...] = dkv  # type: ignore[index]
    seen = emulator.run(launch, plan, schedule=schedule or Schedule(), taps=taps, mma=mma)
    return Run(
        inputs,
        plan,
        {name: output.values for name, output in seen.outputs.items()},
        {name: output.written for name, output in seen.outputs.items()},
        _tiles(plan, seen.captures),
        seen.findings,
        seen.counters,
    )


def _tiles(plan: KernelPlan, captures: tuple[Capture, ...]) -> dict[tuple[str, int, int, int], Array]:
    found: dict[tuple[str, int, int, int], Array] = {}
    places = {at.tile: at for at in plan.observations if not isinstance(at, OutputObservation)}
    for capture in captures:
        at = places[capture.tile]
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
            tile_of_dkv = found.setdefault(key, np.full((plan.b_topk, plan.d_qk), np.nan, np.float32))
            tile_of_dkv[:, first : first + width] = value
    return found


def ratio(value: Array, expected: Array, bound: Array) -> float:
    """Largest |value - expected| / bound; inf where a bound of 0 is missed or a value is not a number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(value.astype(np.float64) - expected)
        out = np.where(error == 0, 0.0, error / bound)
    return float(np.where(np.isnan(out), np.inf, out).max(initial=0.0))


def first_wrong(run: Run) -> str | None:
    """The first stage outside its bound, in the order of the graph; None when every one is inside."""
    return next((stage for stage, worst in ratios(run).items() if worst > 1), None)


def ratios(run: Run) -> dict[str, float]:
    """Stage -> the largest |error| / bound over its tiles; at most 1 for a correct kernel."""
    inputs, plan = run.inputs, run.plan
    p = inputs.problem
    mask = key_mask(inputs)
    worst: dict[str, float] = dict.fromkeys(plan.stages, 0.0)
    worst["dKV rows"] = 0.0

    def note(stage: str, value: Array, expected: Array, bound: Array) -> None:
        worst[stage] = max(worst[stage], ratio(value, expected, bound))

    magnitude, exact = np.zeros((p.s_kv, p.d_qk)), np.zeros((p.s_kv, p.d_qk))
    additions = np.zeros((p.s_kv, 1))
    for token in range(p.s_q):
        blocks = k_blocks(inputs, token, plan.b_topk)
        for cta in range(plan.cluster):
            rows = rows_of(p, cta, plan.cluster)
            q, dO, o, lse = (a[token, rows] for a in (inputs.q, inputs.dO, inputs.o, inputs.lse))
            delta = run.outputs["delta"][token, rows]
            note("delta", delta, ref.delta(o, dO), numerics.bound_delta(o, dO))
            all_ds, all_k = [np.zeros((q.shape[0], 0))], [np.zeros((0, p.d_qk))]
            for k_block in range(blocks):
                cols = slice(k_block * plan.b_topk, (k_block + 1) * plan.b_topk)
                key = mask[token, cols]
                k = gather(inputs, token, cols).astype(np.float64)
                P, S, dP, dS, dKV = (
                    run.tiles[stage, token, cta, k_block].astype(np.float64)
                    for stage in ("P", "S", "dP", "dS", "dKV")
                )
                note("P", P, ref.P(q, k), numerics.bound_P(q, k))
                s_exact = ref.S(P, lse, key, p.sm_scale)
                note("S", S, s_exact, numerics.bound_S(P, lse, key, p.sm_scale, operand=True))
                note("dP", dP, ref.dP(dO, k[:, : p.d_v]), numerics.bound_dP(dO, k[:, : p.d_v]))
                # The f32 S that dS was made of is not to be seen: it is within its own bound of s_exact.
                ds_exact = ref.dS(s_exact, dP, delta, p.sm_scale)
                s_bound = numerics.bound_S(P, lse, key, p.sm_scale)
                slack = s_bound * np.abs(dP - delta[:, None]) * p.sm_scale * (1 + 2**-7)
                note("dS", dS, ds_exact, numerics.bound_dS(s_exact, dP, delta, p.sm_scale) + slack)
                note("dKV", dKV, ref.dKV(S, dO, dS, q), numerics.bound_dKV(S, dO, dS, q))
                all_ds.append(dS)
                all_k.append(k)
                at = inputs.indices[token, cols][key]
                np.add.at(magnitude, at, np.abs(dKV[key]))
                np.add.at(exact, at, dKV[key])
                np.add.at(additions, at, 1.0)
            ds, ks = np.concatenate(all_ds, axis=1), np.concatenate(all_k)
            dQ = run.outputs["dQ"][token, rows].astype(np.float64)
            note("dQ", dQ, ref.dQ(ds, ks), numerics.bound_dQ(ds, ks))
    note("dKV rows", run.outputs["dKV"], exact, numerics.bound_scatter(magnitude, 0 * magnitude, additions))
    return worst
