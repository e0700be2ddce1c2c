"""sm90-gemm as seen from the host: its launch description."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.image import Sources
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.sm90.gemm import defects
from tileproof.kernels.tutorials import ProductKernel
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import sm90_gemm
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.gemm.problem import GEMM, GEMM_BIAS, Gemm

PARAMS_BYTES = 320  # sizeof(Params) in kernel.cu, which asserts it
ARCH = "sm_90"  # no feature of one architecture alone: its PTX loads on every later one, SM100 too


def describe(inputs: ProblemInputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """One CTA per tile of D, tiles along M first. Outputs: D ``[M, N]`` f32 (with a bias bf16) and, in the
    probe build, `product` ``[M, N]`` f32, which is A B^T.
    """
    tile = sm90_gemm.TILE
    made = LaunchBuilder(plan.name, built.ptx)
    added = "C" if inputs.bias is None else "bias"
    a, b, c = (made.input(name, getattr(inputs, name)) for name in ("A", "B", added))
    (m, k), n = a.shape, b.shape[0]
    D = made.output("D", (m, n), np.float32 if inputs.bias is None else ml_dtypes.bfloat16)
    product = made.output("product", (m, n), np.float32) if probe else None
    fields = (
        (0, tensor_map(a, (k, m), (tile, tile), "128B")),
        (128, tensor_map(b, (k, n), (tile, tile), "128B")),
        *((256 + 8 * i, buffer) for i, buffer in enumerate((c, D, product))),
        (280, ScalarArgument("f32", inputs.alpha, "alpha")),
        (284, ScalarArgument("f32", inputs.beta, "beta")),
        (288, ScalarArgument("s32", m, "rows")),
        (292, ScalarArgument("s32", n, "columns")),
        (296, ScalarArgument("s32", k // tile, "k_tiles")),
    )
    return made.planned(built.entry, plan, (m // tile * (n // tile), 1, 1), struct(PARAMS_BYTES, fields))


def _kernel(name: str, problem: Gemm, main: str, planted: tuple[PlantedDefect, ...]) -> ProductKernel:
    return ProductKernel(
        name,
        (Variant.of(problem.name, step_m=sm90_gemm.TILE, step_n=sm90_gemm.TILE),),
        lambda variant: sm90_gemm.plan(name, problem),
        Sources(main=main, folders=("sm90", "sm90/gemm"), suffix=lambda v: "tile64", arch=ARCH),
        describe,
        lambda: planted,
        arch=ARCH,
        repeats=True,
    )


KERNELS = (
    _kernel(sm90_gemm.NAME, GEMM, "sm90/gemm/kernel.cu", defects.DEFECTS),
    _kernel(sm90_gemm.BIAS, GEMM_BIAS, "sm90/gemm/bias.cu", defects.OF_BIAS),
)
