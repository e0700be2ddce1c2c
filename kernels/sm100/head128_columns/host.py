"""head128-columns as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.layout import RowsMap
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm90.mla_around import launches
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head128_columns import defects
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_columns

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def maps(plan: KernelPlan) -> list[RowsMap]:
    """A box has all heads; those of RoPE have the columns of a CTA."""
    whole = [backward.rows(plan, name) for name in ("q", "dO", "kv", "dQ")]
    return whole + [backward.rows(plan, name, 32) for name in ("q", "kv", "dQ")]


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """See backward.describe."""
    return backward.describe(inputs, plan, built, probe, maps)


# Per k-block; what `tileproof time` says today and 4%, as it moves with the order of instructions.
CLOCKS = {576: 6_230.0, 512: 5_440.0}

KERNELS = (
    Kernel(
        name=head128_columns.NAME,
        variants=backward.variants(head128_columns.H_Q, head128_columns.D_QKS),
        plan_of=lambda v: head128_columns.plan(v["d_qk"], bool(v["f16"])),
        image=Sources(
            main="sm100/head128_columns/kernel.cu",
            folders=("sm100", "sm100/head128_columns"),
            suffix=backward.suffix,
        ),
        describe=describe,
        layout=lambda plan: backward.layout(plan, maps),
        beside=launches.beside,
        defects=lambda: defects.DEFECTS,
        clocks=lambda v: CLOCKS[v["d_qk"]],
        repeats=True,
    ),
)
