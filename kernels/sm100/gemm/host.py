"""sm100-gemm-bias as seen from the host: its launch description."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm100.gemm import defects
from tileproof.kernels.tutorials import ProductKernel
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import sm100_gemm
from tileproof.spec.problems.cases import ProblemInputs

PARAMS_BYTES = 384  # sizeof(Params) in kernel.cu, which asserts it


def describe(inputs: ProblemInputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """One CTA per tile of D, tiles along M first. Outputs: D ``[M, N]`` bf16 and, in the probe build,
    `product` ``[M, N]`` f32, which is A B^T.
    """
    made = LaunchBuilder(plan.name, built.ptx)
    a, b, bias = (made.input(name, getattr(inputs, name)) for name in ("A", "B", "bias"))
    (m, k), n = a.shape, b.shape[0]
    rows = {axis: extent for axis, extent, _ in plan.shape}
    D = made.output("D", (m, n), ml_dtypes.bfloat16)
    product = made.output("product", (m, n), np.float32) if probe else None
    fields = (
        (0, tensor_map(a, (k, m), (plan.block, rows["M"]), "128B")),
        (128, tensor_map(b, (k, n), (plan.block, rows["N"]), "128B")),
        *((256 + 8 * i, buffer) for i, buffer in enumerate((bias, D, product))),
        (280, ScalarArgument("f32", inputs.alpha, "alpha")),
        (284, ScalarArgument("s32", m, "rows")),
        (288, ScalarArgument("s32", n, "columns")),
        (292, ScalarArgument("s32", k // plan.block, "k_tiles")),
    )
    grid = (m // rows["M"] * (n // rows["N"]), 1, 1)
    return made.planned(built.entry, plan, grid, struct(PARAMS_BYTES, fields))


KERNELS = (
    ProductKernel(
        sm100_gemm.NAME,
        (Variant.of("gemm_bias", step_m=sm100_gemm.ROWS, step_n=sm100_gemm.COLUMNS),),
        lambda variant: sm100_gemm.plan(),
        Sources(main="sm100/gemm/kernel.cu", folders=("sm100", "sm100/gemm"), suffix=lambda v: "tile128x64"),
        describe,
        lambda: defects.DEFECTS,
        repeats=True,
    ),
)
