"""head64 as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import TensorMapArgument
from tileproof.kernels.launch.builder import bf16_rows
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head64 import defects
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head64

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """See backward.describe; a box has the 64 heads of a token."""
    heads, d_qk = plan.size("h_q"), plan.size("d_qk")
    rows = inputs.problem.s_q * heads

    def maps(
        q: LaunchBuffer, dO: LaunchBuffer, kv: LaunchBuffer, dQ: LaunchBuffer
    ) -> list[TensorMapArgument]:
        return [
            bf16_rows(q, rows, d_qk, heads),
            bf16_rows(dO, rows, plan.size("d_v"), heads),
            bf16_rows(kv, inputs.problem.s_kv, d_qk, 1),
            bf16_rows(dQ, rows, d_qk, heads),
        ]

    return backward.describe(inputs, plan, built, probe, maps)


SOURCES = Sources(
    main="sm100/head64/kernel.cu", folders=("sm100", "sm100/head64"), suffix=lambda v: f"d{v['d_qk']}"
)
# Per k-block; what `tileproof time` says today and 2%.
CLOCKS = {576: 7_840.0, 512: 6_980.0}

KERNELS = (
    Kernel(
        name=head64.NAME,
        variants=tuple(Variant.of("sparse_mla_bwd", h_q=head64.HEADS, d_qk=d_qk) for d_qk in head64.D_QKS),
        plan_of=lambda v: head64.plan(v["d_qk"]),
        image=SOURCES,
        describe=describe,
        defects=lambda: defects.DEFECTS,
        clocks=lambda v: CLOCKS[v["d_qk"]],
    ),
)
