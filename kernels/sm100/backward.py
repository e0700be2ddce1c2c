"""The launch of a whole sparse MLA backward as seen from the host; kernels differ in their tensor maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.launch.arguments import ScalarArgument, TensorMapArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.plan import KernelPlan

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

MAP_BYTES = 128  # of a CUtensorMap
PARAMS_ALIGNMENT = 128  # of Params, for its tensor maps

Maps = Callable[[LaunchBuffer, LaunchBuffer, LaunchBuffer, LaunchBuffer], Sequence[TensorMapArgument]]


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool, maps: Maps) -> LaunchFile:
    """Grid of one cluster per token; one by-value struct of tensor maps, addresses and sizes.

    `maps` makes the tensor maps, which come first, of q, dO, kv and dQ. Each
    kernel's config.cuh asserts the struct's size, params.cuh the offsets of maps and of the rest.

    Outputs: `delta [s_q, h_q]` f32, `dQ [s_q, h_q, d_qk]` bf16, and `dKV [s_kv, d_qk]` f32, which starts as
    zeros and is added to. The probe build also writes `P`, `S`, `dP` f32 and `dS` bf16 `[s_q, h_q, topk]`, of
    which the k-blocks below ceil(clamped topk_length / b_topk) are written; S is the value before its
    rounding to bf16.
    """
    problem, h_q, d_qk = inputs.problem, plan.size("h_q"), plan.size("d_qk")
    made = LaunchBuilder(plan.name, built.ptx)
    q, dO, kv = (made.input(name, getattr(inputs, name)) for name in ("q", "dO", "kv"))
    dQ = made.output("dQ", (problem.s_q, h_q, d_qk), ml_dtypes.bfloat16)
    o, lse, indices = (made.input(name, getattr(inputs, name)) for name in ("o", "lse", "indices"))
    length = None if inputs.topk_length is None else made.input("topk_length", inputs.topk_length)
    delta = made.output("delta", (problem.s_q, h_q), np.float32)
    dKV = made.zeros("dKV", (problem.s_kv, d_qk), np.float32)
    probe_shape = (problem.s_q, h_q, problem.topk)
    probe_dtypes = {"P": np.float32, "S": np.float32, "dP": np.float32, "dS": ml_dtypes.bfloat16}
    probes = [
        made.output(name, probe_shape, dtype, whole=False) if probe else None
        for name, dtype in probe_dtypes.items()
    ]
    tensor_maps = maps(q, dO, kv, dQ)
    at = MAP_BYTES * len(tensor_maps)
    fields = (
        *((MAP_BYTES * i, one) for i, one in enumerate(tensor_maps)),
        *((at + 8 * i, one) for i, one in enumerate((o, lse, indices, length, delta, dKV, *probes))),
        (at + 80, ScalarArgument("s32", problem.s_kv, "s_kv")),
        (at + 84, ScalarArgument("s32", problem.topk, "topk")),
        (at + 88, ScalarArgument("f32", problem.sm_scale, "sm_scale")),
        (at + 92, ScalarArgument("f32", problem.sm_scale * LOG2_E, "sm_scale_log2e")),
    )
    size = -(-(at + 96) // PARAMS_ALIGNMENT) * PARAMS_ALIGNMENT
    return made.planned(built.entry, plan, (plan.cluster * problem.s_q, 1, 1), struct(size, fields))
