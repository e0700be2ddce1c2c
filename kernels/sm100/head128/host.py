"""head128 and head64 as seen from the host: their launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, TensorMapSpec
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head128 import mutants
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head64, head128

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """See backward.describe; a box has the 64 heads of a CTA."""
    rows, d_qk = inputs.problem.s_q * plan.size("h_q"), plan.size("d_qk")
    heads = plan.size("h_q") // plan.cluster

    def maps(q: Buffer, dO: Buffer, kv: Buffer, dQ: Buffer) -> list[TensorMapSpec]:
        return [
            TensorMapSpec.bf16_rows("q_map", q, rows, d_qk, heads),
            TensorMapSpec.bf16_rows("dO_map", dO, rows, plan.size("d_v"), heads),
            TensorMapSpec.bf16_rows("kv_map", kv, inputs.problem.s_kv, d_qk, 1),
            TensorMapSpec.bf16_rows("dQ_map", dQ, rows, d_qk, heads),
        ]

    return backward.describe(inputs, plan, built, probe, maps)


SOURCES = Sources(
    main="sm100/head128/kernel.cu", folders=("sm100", "sm100/head128"), suffix=lambda v: f"d{v['d_qk']}"
)


def _variants(h_q: int) -> tuple[Variant, ...]:
    return tuple(Variant.of("sparse_mla_bwd", h_q=h_q, d_qk=d_qk) for d_qk in head128.D_QKS)


EQUIVALENT = (ROOT / "sm100/equivalent.toml",)
# Per k-block; what `tileproof time` says today and 2%.
CLOCKS = {(128, 576): 7_510.0, (128, 512): 6_680.0, (64, 576): 8_190.0, (64, 512): 7_620.0}

HEAD128 = Target(
    name=head128.NAME,
    variants=_variants(128),
    plan_of=lambda v: head128.plan(v["d_qk"]),
    image=SOURCES,
    describe=describe,
    mutants=lambda: mutants.HEAD128,
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
