"""head128-columns as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import TensorMapArgument
from tileproof.kernels.launch.builder import bf16_rows
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head128_columns import defects
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_columns

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """See backward.describe; a box has all heads, those of RoPE the columns of a CTA."""
    h_q, d_qk = plan.size("h_q"), plan.size("d_qk")
    rows, s_kv = inputs.problem.s_q * h_q, inputs.problem.s_kv

    def maps(
        q: LaunchBuffer, dO: LaunchBuffer, kv: LaunchBuffer, dQ: LaunchBuffer
    ) -> list[TensorMapArgument]:
        return [
            bf16_rows(q, rows, d_qk, h_q),
            bf16_rows(dO, rows, plan.size("d_v"), h_q),
            bf16_rows(kv, s_kv, d_qk, 1),
            bf16_rows(dQ, rows, d_qk, h_q),
            bf16_rows(q, rows, d_qk, h_q, 32),
            bf16_rows(kv, s_kv, d_qk, 1, 32),
            bf16_rows(dQ, rows, d_qk, h_q, 32),
        ]

    return backward.describe(inputs, plan, built, probe, maps)


# Per k-block; what `tileproof time` says today and 4%, as it moves with the order of instructions.
CLOCKS = {576: 6_230.0, 512: 5_440.0}

KERNELS = (
    Kernel(
        name=head128_columns.NAME,
        variants=tuple(Variant.of("sparse_mla_bwd", h_q=128, d_qk=d_qk) for d_qk in head128_columns.D_QKS),
        plan_of=lambda v: head128_columns.plan(v["d_qk"]),
        image=Sources(
            main="sm100/head128_columns/kernel.cu",
            folders=("sm100", "sm100/head128_columns"),
            suffix=lambda v: f"d{v['d_qk']}",
        ),
        describe=describe,
        defects=lambda: defects.DEFECTS,
        clocks=lambda v: CLOCKS[v["d_qk"]],
    ),
)
