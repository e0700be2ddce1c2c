"""head128-columns as seen from the host: its launch description."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.sm100.head128_columns import mutants
from tileproof.kernels.target import Target, one_cluster_a_token
from tileproof.kernels.variant import Variant
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_columns

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

PARAMS_BYTES = 1024  # sizeof(Params) in config.cuh, which asserts it and the offsets below


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """Grid of one cluster per token; one by-value struct of tensor maps, addresses and sizes.

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
    rows = problem.s_q * h_q
    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        (0, TensorMapSpec.bf16_rows("q_map", q, rows, d_qk, h_q)),
        (128, TensorMapSpec.bf16_rows("dO_map", dO, rows, plan.size("d_v"), h_q)),
        (256, TensorMapSpec.bf16_rows("kv_map", kv, problem.s_kv, d_qk, 1)),
        (384, TensorMapSpec.bf16_rows("dQ_map", dQ, rows, d_qk, h_q)),
        (512, _narrow("q_rope_map", q, rows, d_qk, h_q)),
        (640, _narrow("kv_rope_map", kv, problem.s_kv, d_qk, 1)),
        (768, _narrow("dQ_rope_map", dQ, rows, d_qk, h_q)),
        (896, Buffer.input("o", inputs.o)),
        (904, Buffer.input("lse", inputs.lse)),
        (912, Buffer.input("indices", inputs.indices)),
        (920, length),
        (928, Buffer.output("delta", (problem.s_q, h_q), np.float32)),
        (936, dKV),
        *((944 + 8 * i, item) for i, item in enumerate(probes)),
        (976, Scalar("s_kv", "s32", problem.s_kv)),
        (980, Scalar("topk", "s32", problem.topk)),
        (984, Scalar("sm_scale", "f32", problem.sm_scale)),
        (988, Scalar("sm_scale_log2e", "f32", problem.sm_scale * LOG2_E)),
    )
    return one_cluster_a_token(built, plan, problem.s_q, Struct("params", PARAMS_BYTES, fields))


def _narrow(name: str, buffer: Buffer, rows: int, cols: int, box_rows: int) -> TensorMapSpec:
    """As TensorMapSpec.bf16_rows, boxes of 32 columns (the 64-byte swizzle's span)."""
    whole = TensorMapSpec.bf16_rows(name, buffer, rows, cols, box_rows)
    return replace(whole, box=(head128_columns.ROPE_CTA, box_rows), swizzle="64B")


# Per k-block; what `tileproof time` says today and 4%, as it moves with the order of instructions.
CLOCKS = {576: 8_660.0, 512: 7_170.0}

TARGETS = (
    Target(
        name=head128_columns.NAME,
        variants=tuple(Variant.of("sparse_mla_bwd", h_q=128, d_qk=d_qk) for d_qk in head128_columns.D_QKS),
        plan_of=lambda v: head128_columns.plan(v["d_qk"]),
        image=Sources(
            main="sm100/head128_columns/kernel.cu",
            folders=("sm100", "sm100/head128_columns"),
            suffix=lambda v: f"d{v['d_qk']}",
        ),
        describe=describe,
        mutants=lambda: mutants.MUTANTS,
        clocks=lambda v: CLOCKS[v["d_qk"]],
    ),
)
