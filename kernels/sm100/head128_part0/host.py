"""head128-part0 as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.sm100.head128_part0 import mutants
from tileproof.kernels.target import Target, one_cluster_a_token
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_part0

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

PARAMS_BYTES = 512  # sizeof(Params) in config.cuh, which asserts it and every offset below


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """Grid of one 2-CTA cluster per token; one by-value struct of tensor maps, addresses and sizes.

    Outputs: `delta [s_q, h_q]` f32, and in the probe build `P [s_q, h_q, topk]` f32, of which the k-blocks
    below ceil(clamped topk_length / b_topk) are written.
    """
    problem = inputs.problem
    q = Buffer.input("q", inputs.q)
    kv = Buffer.input("kv", inputs.kv)
    dO = Buffer.input("dO", inputs.dO)
    null = Scalar("topk_length", "u64", 0)
    length = null if inputs.topk_length is None else Buffer.input("topk_length", inputs.topk_length)
    probe_shape = (problem.s_q, plan.size("h_q"), problem.topk)
    heads = plan.size("h_q") // plan.cluster
    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        (0, TensorMapSpec.bf16_rows("q_map", q, problem.s_q * plan.size("h_q"), plan.size("d_qk"), heads)),
        (128, TensorMapSpec.bf16_rows("dO_map", dO, problem.s_q * plan.size("h_q"), plan.size("d_v"), heads)),
        (256, TensorMapSpec.bf16_rows("kv_map", kv, problem.s_kv, plan.size("d_qk"), 1)),
        (384, Buffer.input("o", inputs.o)),
        (392, Buffer.input("indices", inputs.indices)),
        (400, length),
        (408, Buffer.output("delta", (problem.s_q, plan.size("h_q")), np.float32)),
        (416, Buffer.output("P", probe_shape, np.float32) if probe else Scalar("P", "u64", 0)),
        (424, Scalar("s_kv", "s32", problem.s_kv)),
        (428, Scalar("topk", "s32", problem.topk)),
    )
    return one_cluster_a_token(built, plan, problem.s_q, Struct("params", PARAMS_BYTES, fields))


TARGETS = (
    Target(
        head128_part0.NAME,
        tuple(Variant.of("sparse_mla_bwd", h_q=128, d_qk=d_qk) for d_qk in head128_part0.D_QKS),
        lambda v: head128_part0.plan(v["d_qk"]),
        Sources(
            main="sm100/head128_part0/kernel.cu",
            folders=("sm100", "sm100/head128_part0"),
            suffix=lambda v: f"d{v['d_qk']}",
        ),
        describe,
        lambda: mutants.MUTANTS,
        equivalent=(ROOT / "sm100/equivalent.toml",),
    ),
)
