"""head128 and head64 as seen from the host: their launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.sm100.head128 import mutants
from tileproof.kernels.target import Target, one_cluster_a_token
from tileproof.kernels.variant import Variant
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head64, head128

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

PARAMS_BYTES = 640  # sizeof(Params) in config.cuh, which asserts it and the offsets below


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """Grid of one cluster per token; one by-value struct of tensor maps, addresses and sizes.

    Outputs: `delta [s_q, h_q]` f32, `dQ [s_q, h_q, d_qk]` bf16, and `dKV [s_kv, d_qk]` f32, which starts as
    zeros and is added to. The probe build also writes `P`, `S`, `dP` f32 and `dS` bf16 `[s_q, h_q, topk]`, of
    which the k-blocks below ceil(clamped topk_length / b_topk) are written; S is the value before its
    rounding to bf16.
    """
    problem, h_q, d_qk = inputs.problem, plan.size("h_q"), plan.size("d_qk")
    q = Buffer.input("q", inputs.q)
    kv = Buffer.input("kv", inputs.kv)
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
    heads = h_q // plan.cluster
    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        (0, TensorMapSpec.bf16_rows("q_map", q, problem.s_q * h_q, d_qk, heads)),
        (128, TensorMapSpec.bf16_rows("dO_map", dO, problem.s_q * h_q, plan.size("d_v"), heads)),
        (256, TensorMapSpec.bf16_rows("kv_map", kv, problem.s_kv, d_qk, 1)),
        (
            384,
            TensorMapSpec.bf16_rows("dQ_map", dQ, problem.s_q * h_q, d_qk, heads),
        ),
        (512, Buffer.input("o", inputs.o)),
        (520, Buffer.input("lse", inputs.lse)),
        (528, Buffer.input("indices", inputs.indices)),
        (536, length),
        (544, Buffer.output("delta", (problem.s_q, h_q), np.float32)),
        (552, dKV),
        *((560 + 8 * i, item) for i, item in enumerate(probes)),
        (592, Scalar("s_kv", "s32", problem.s_kv)),
        (596, Scalar("topk", "s32", problem.topk)),
        (600, Scalar("sm_scale", "f32", problem.sm_scale)),
        (604, Scalar("sm_scale_log2e", "f32", problem.sm_scale * LOG2_E)),
    )
    return one_cluster_a_token(built, plan, problem.s_q, Struct("params", PARAMS_BYTES, fields))


SOURCES = Sources(
    main="sm100/head128/kernel.cu", folders=("sm100", "sm100/head128"), suffix=lambda v: f"d{v['d_qk']}"
)


def _variants(h_q: int) -> tuple[Variant, ...]:
    return tuple(Variant.of("sparse_mla_bwd", h_q=h_q, d_qk=d_qk) for d_qk in head128.D_QKS)


EQUIVALENT = (ROOT / "sm100/equivalent.toml",)
# Per k-block; what `tileproof time` says today and 2%.
CLOCKS = {(128, 576): 7_510.0, (128, 512): 6_450.0, (64, 576): 8_190.0, (64, 512): 7_310.0}

HEAD128 = Target(
    name=head128.NAME,
    variants=_variants(128),
    plan_of=lambda v: head128.plan(v["d_qk"]),
    image=SOURCES,
    describe=describe,
    mutants=lambda: mutants.MUTANTS,
    equivalent=EQUIVALENT,
    clocks=lambda v: CLOCKS[v["h_q"], v["d_qk"]],
)
HEAD64 = Target(
    name=head64.NAME,
    variants=_variants(64),
    plan_of=lambda v: head64.plan(v["d_qk"]),
    image=SOURCES,
    describe=describe,
    mutants=lambda: mutants.HEAD64,
    equivalent=EQUIVALENT,
    clocks=lambda v: CLOCKS[v["h_q"], v["d_qk"]],
)
TARGETS = (HEAD128, HEAD64)
