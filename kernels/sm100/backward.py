"""The launch of a whole sparse MLA backward as seen from the host; kernels differ in their tensor maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.target import one_cluster_a_token
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.plan import KernelPlan

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

MAP_BYTES = 128  # of a CUtensorMap
PARAMS_ALIGNMENT = 128  # of Params, for its tensor maps

Maps = Callable[[Buffer, Buffer, Buffer, Buffer], Sequence[TensorMapSpec]]


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool, maps: Maps) -> Launch:
    """Grid of one cluster per token; one by-value struct of tensor maps, addresses and sizes.

    `maps` makes the tensor maps, which come first, of q, dO, kv and dQ. config.cuh asserts the struct's size
    and offsets.

    Outputs: `delta [s_q, h_q]` f32, `dQ [s_q, h_q, d_qk]` bf16, and `dKV [s_kv, d_qk]` f32, which starts as
    zeros and is added to. The probe build also writes `P`, `S`, `dP` f32 and `dS` bf16 `[s_q, h_q, topk]`, of
    which the k-blocks below ceil(clamped topk_length / b_topk) are written; S is the value before its
    rounding to bf16.
    """
    problem, h_q, d_qk = inputs.problem, plan.size("h_q"), plan.size("d_qk")
    q, kv = Buffer.input("q", inputs.q), Buffer.input("kv", inputs.kv)
    dO = Buffer.input("dO", inputs.dO)
    dQ = Buffer.output("dQ", (problem.s_q, h_q, d_qk), ml_dtypes.bfloat16)
    dkv_shape = (problem.s_kv, d_qk)
    dKV = Buffer("dKV", "out", dkv_shape, np.dtype(np.float32), np.zeros(dkv_shape, np.float32))
    null = Scalar("topk_length", "u64", 0)
    length = null if inputs.topk_length is None else Buffer.input("topk_length", inputs.topk_length)
    probe_shape = (problem.s_q, h_q, problem.topk)
    probe_dtypes = {"P": np.float32, "S": np.float32, "dP": np.float32, "dS": ml_dtypes.bfloat16}
    probes: list[Buffer | Scalar] = [
        Buffer.output(name, probe_shape, dtype) if probe else Scalar(name, "u64", 0)
        for name, dtype in probe_dtypes.items()
    ]
    made = maps(q, dO, kv, dQ)
    at = MAP_BYTES * len(made)
    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        *((MAP_BYTES * i, one) for i, one in enumerate(made)),
        (at, Buffer.input("o", inputs.o)),
        (at + 8, Buffer.input("lse", inputs.lse)),
        (at + 16, Buffer.input("indices", inputs.indices)),
        (at + 24, length),
        (at + 32, Buffer.output("delta", (problem.s_q, h_q), np.float32)),
        (at + 40, dKV),
        *((at + 48 + 8 * i, item) for i, item in enumerate(probes)),
        (at + 80, Scalar("s_kv", "s32", problem.s_kv)),
        (at + 84, Scalar("topk", "s32", problem.topk)),
        (at + 88, Scalar("sm_scale", "f32", problem.sm_scale)),
        (at + 92, Scalar("sm_scale_log2e", "f32", problem.sm_scale * LOG2_E)),
    )
    size = -(-(at + 96) // PARAMS_ALIGNMENT) * PARAMS_ALIGNMENT
    return one_cluster_a_token(built, plan, problem.s_q, Struct("params", size, fields))
