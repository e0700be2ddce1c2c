"""A test double of a machine: launches made from the reference, with an error planted where a test says
so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.drivers.driver import ALL, Capabilities
from tileproof.spec.machine import tmem
from tileproof.spec.machine.run_result import Capture, Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.numerics import round_f32
from tileproof.spec.plan import KernelPlan, Products
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES
from tileproof.spec.problems.sparse_mla_bwd.tiling import Tile, gather, rows_of, walk

F64 = npt.NDArray[np.float64]
Plant = Callable[[str, Tile, F64], F64 | None]


@dataclass(frozen=True)
class Driven:
    """A driver that hands back what `do` (launch, plan, schedule, taps) gives."""

    do: Callable[[Any, KernelPlan, Schedule, bool], RunResult] = field(repr=False)
    capabilities: Capabilities = ALL
    name: str = "double"
    products: Products | None = None

    def run(self, launch: Any, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        return self.do(launch, plan, schedule, taps)


def unplanted(stage: str, tile: Tile, value: F64) -> F64:
    """Plants nothing."""
    return value


def p_tile(inputs: Inputs, tile: Tile) -> F64:
    """P of a tile in float64."""
    return STAGES["P"].exact(q=inputs.q[tile.token, tile.rows], k=gather(inputs, tile.token, tile.cols))


def machine(
    plan: KernelPlan,
    inputs: Inputs,
    plant: Plant = unplanted,
    *,
    probe: bool = False,
    publish: int | None = None,
) -> RunResult:
    """What a driver would hand back. `plant` returns a tile's value (None: the tile is not written).

    `publish`: only the first so many k-blocks of each token complete their barrier, as in a hang.
    """
    p = inputs.problem
    delta = Output(np.zeros((p.s_q, p.h_q), np.float32), np.zeros((p.s_q, p.h_q), bool))
    for token in range(p.s_q):
        for cta in range(plan.cluster):
            rows = rows_of(p, cta, plan.cluster)
            value = STAGES["delta"].exact(o=inputs.o[token, rows], dO=inputs.dO[token, rows])[:, None]
            found = plant("delta", Tile(token, cta, 0, rows, slice(0, 1)), value)
            if found is not None:
                delta.values[token, rows] = round_f32(found)[:, 0]
                delta.written[token, rows] = True
    outputs = {"delta": delta}
    captures = []
    P = Output(np.zeros((p.s_q, p.h_q, p.topk), np.float32), np.zeros((p.s_q, p.h_q, p.topk), bool))
    stages_of_p = plan.barrier("p_ready").stages
    for tile in walk(inputs, plan.block, plan.cluster):
        found = plant("P", tile, p_tile(inputs, tile))
        if found is None or (publish is not None and tile.k_block >= publish):
            continue
        value = round_f32(found).astype(np.float32)
        P.values[tile.token, tile.rows, tile.cols] = value
        P.written[tile.token, tile.rows, tile.cols] = True
        cells = tmem.capture_of(value.view(np.uint32), "B")
        captures.append(
            Capture(
                f"P[{tile.k_block % stages_of_p}]",
                (plan.cluster * tile.token + tile.cta, 0, 0),
                tile.cta,
                tile.k_block // stages_of_p,
                cells,
                np.ones(cells.shape, bool),
            )
        )
    if probe:
        outputs["P"] = P
    return RunResult(outputs=outputs, captures=() if probe else tuple(captures))
