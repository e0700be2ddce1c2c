"""head128-part0 as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder, bf16_rows, struct
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm100.head128_part0 import defects
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_part0

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

PARAMS_BYTES = 512  # sizeof(Params) in config.cuh, which asserts it and every offset below


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """Grid of one 2-CTA cluster per token; one by-value struct of tensor maps, addresses and sizes.

    Outputs: `delta [s_q, h_q]` f32, and in the probe build `P [s_q, h_q, topk]` f32, of which the k-blocks
    below ceil(clamped topk_length / b_topk) are written.
    """
    problem, heads = inputs.problem, plan.size("h_q")
    made = LaunchBuilder(plan.name, built.ptx)
    names = ("q", "dO", "kv", "o", "indices")
    q, dO, kv, o, indices = (made.input(name, getattr(inputs, name)) for name in names)
    length = None if inputs.topk_length is None else made.input("topk_length", inputs.topk_length)
    delta = made.output("delta", (problem.s_q, heads), np.float32)
    P = made.output("P", (problem.s_q, heads, problem.topk), np.float32, whole=False) if probe else None
    rows, own = problem.s_q * heads, heads // plan.cluster
    fields = (
        (0, bf16_rows(q, rows, plan.size("d_qk"), own)),
        (128, bf16_rows(dO, rows, plan.size("d_v"), own)),
        (256, bf16_rows(kv, problem.s_kv, plan.size("d_qk"), 1)),
        *((384 + 8 * i, buffer) for i, buffer in enumerate((o, indices, length, delta, P))),
        (424, ScalarArgument("s32", problem.s_kv, "s_kv")),
        (428, ScalarArgument("s32", problem.topk, "topk")),
    )
    return made.planned(built.entry, plan, (plan.cluster * problem.s_q, 1, 1), struct(PARAMS_BYTES, fields))


KERNELS = (
    Kernel(
        head128_part0.NAME,
        tuple(Variant.of("sparse_mla_bwd", h_q=128, d_qk=d_qk) for d_qk in head128_part0.D_QKS),
        lambda v: head128_part0.plan(v["d_qk"]),
        Sources(
            main="sm100/head128_part0/kernel.cu",
            folders=("sm100", "sm100/head128_part0"),
            suffix=lambda v: f"d{v['d_qk']}",
        ),
        describe,
        lambda: defects.DEFECTS,
        repeats=True,
    ),
)
