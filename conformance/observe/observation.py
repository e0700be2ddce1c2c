"""From what a driver captured to stage tiles with coordinates, by the kernel plan's observations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tileproof.conformance.drivers.capture import Observed, Output
from tileproof.conformance.observe.captures import captured_tiles
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.observe.tiles import StageTile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.sparse_mla_bwd.inputs import BF16, Inputs
from tileproof.spec.problems.sparse_mla_bwd.tiling import Tile, rows_of, walk


@dataclass(frozen=True)
class Observation:
    """The stage tiles of one launch, and what is wrong with their number."""

    tiles: tuple[StageTile, ...]
    findings: tuple[Finding, ...]


def observe(
    plan: KernelPlan, inputs: Inputs, observed: Observed, build: str, *, probe: bool = False
) -> Observation:
    """Every stage tile that the plan says can be seen: in TMEM, SMEM and outputs, or in the probe build's
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
        if axes_of(seen)[0] == "s_kv":
            continue  # rows that several tiles add up to: conformance.rows judges them
        tiles += output_tiles(plan, inputs, seen, output)
        findings += surplus_writes(plan, inputs, seen, output, build)
    if not probe:
        found, faults = captured_tiles(plan, inputs, observed.captures, build)
        tiles += found
        findings += faults
    return Observation(tuple(tiles), tuple(findings))


def output_tiles(
    plan: KernelPlan, inputs: Inputs, at: OutputObservation, output: Output
) -> Iterator[StageTile]:
    """Tiles of one output parameter, which is indexed [s_q, h_q], [s_q, h_q, topk] or [s_q, h_q, d_qk]."""
    per_block = axes_of(at)[-1] == "topk"
    for tile in _walk_of(plan, inputs, at):
        where = (tile.token, tile.rows, tile.cols if output.values.ndim == 3 else None)
        coord = tile.coord if per_block else TileCoord(tile.token, tile.cta, None)
        value, written = output.values[where], output.written[where]
        # What an MMA reads is a bf16 copy; dQ is bf16 as well, but nobody's operand.
        copy = per_block and output.values.dtype == BF16
        yield StageTile(at.stage, coord, tile.rows, tile.cols, value, written, operand=copy)


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


def axes_of(at: OutputObservation) -> list[str]:
    """The axes of an output, as names of sizes."""
    return at.indexed.strip("[] ").replace(" ", "").split(",")


def _walk_of(plan: KernelPlan, inputs: Inputs, at: OutputObservation) -> Iterator[Tile]:
    axes = axes_of(at)
    if axes == ["s_q", "h_q", "topk"]:
        yield from walk(inputs, plan.b_topk, plan.cluster)
    elif axes in (["s_q", "h_q"], ["s_q", "h_q", "d_qk"]):
        columns = slice(0, plan.d_qk if len(axes) == 3 else 1)
        for token in range(inputs.problem.s_q):
            for cta in range(plan.cluster):
                yield Tile(token, cta, 0, rows_of(inputs.problem, cta, plan.cluster), columns)
    else:
        raise TileproofError(
            "an output with these axes cannot be cut into tiles",
            where=f"plan {plan.name}, parameter {at.parameter}",
            expected="[s_q, h_q], [s_q, h_q, topk], [s_q, h_q, d_qk] or [s_kv, d_qk]",
            found=at.indexed,
        )
