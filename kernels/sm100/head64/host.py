"""head64 as seen from the host: its launch description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.layout import RowsMap
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm90.mla_around import launches
from tileproof.kernels.sm100 import backward
from tileproof.kernels.sm100.head64 import defects
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head64

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs


def maps(plan: KernelPlan) -> list[RowsMap]:
    """A box has the 64 heads of a token."""
    return [backward.rows(plan, name) for name in ("q", "dO", "kv", "dQ")]


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """See backward.describe."""
    return backward.describe(inputs, plan, built, probe, maps)


SOURCES = Sources(main="sm100/head64/kernel.cu", folders=("sm100", "sm100/head64"), suffix=backward.suffix)
# Per k-block; what `tileproof time` says today and 2%.
CLOCKS = {576: 8_750.0, 512: 7_720.0}

KERNELS = (
    Kernel(
        name=head64.NAME,
        variants=backward.variants(head64.HEADS, head64.D_QKS),
        plan_of=lambda v: head64.plan(v["d_qk"], bool(v["f16"])),
        image=SOURCES,
        describe=describe,
        layout=lambda plan: backward.layout(plan, maps),
        beside=launches.beside,
        defects=lambda: defects.DEFECTS,
        clocks=lambda v: CLOCKS[v["d_qk"]],
        repeats=True,
    ),
)
