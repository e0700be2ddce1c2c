"""head64 as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, TensorMapSpec
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head64 import mutants
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head64

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """See backward.describe; a box has the 64 heads of a token."""
    heads, d_qk = plan.size("h_q"), plan.size("d_qk")
    rows = inputs.problem.s_q * heads

    def maps(q: Buffer, dO: Buffer, kv: Buffer, dQ: Buffer) -> list[TensorMapSpec]:
        return [
            TensorMapSpec.bf16_rows("q_map", q, rows, d_qk, heads),
            TensorMapSpec.bf16_rows("dO_map", dO, rows, plan.size("d_v"), heads),
            TensorMapSpec.bf16_rows("kv_map", kv, inputs.problem.s_kv, d_qk, 1),
            TensorMapSpec.bf16_rows("dQ_map", dQ, rows, d_qk, heads),
        ]

    return backward.describe(inputs, plan, built, probe, maps)


SOURCES = Sources(
    main="sm100/head64/kernel.cu", folders=("sm100", "sm100/head64"), suffix=lambda v: f"d{v['d_qk']}"
)
# Per k-block; what `tileproof time` says today and 2%.
CLOCKS = {576: 7_840.0, 512: 6_980.0}

TARGETS = (
    Target(
        name=head64.NAME,
        variants=tuple(Variant.of("sparse_mla_bwd", h_q=head64.HEADS, d_qk=d_qk) for d_qk in head64.D_QKS),
        plan_of=lambda v: head64.plan(v["d_qk"]),
        image=SOURCES,
        describe=describe,
        mutants=lambda: mutants.MUTANTS,
        equivalent=(ROOT / "sm100/equivalent.toml", ROOT / "sm100/head64/equivalent.toml"),
        clocks=lambda v: CLOCKS[v["d_qk"]],
    ),
)
