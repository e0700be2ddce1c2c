"""sm100-gemm-bias as seen from the host: its launch description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.sm100.gemm import mutants
from tileproof.kernels.tutorials import ProductTarget
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import sm100_gemm

EQUIVALENT = Path(__file__).parent / "equivalent.toml"
PARAMS_BYTES = 384  # sizeof(Params) in kernel.cu, which asserts it


def describe(inputs: Any, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """One CTA per tile of D, tiles along M first. Outputs: D ``[M, N]`` bf16 and, in the probe build,
    `product` ``[M, N]`` f32, which is A B^T.
    """
    a, b, bias = (Buffer.input(name, getattr(inputs, name)) for name in ("A", "B", "bias"))
    (m, k), n = a.shape, b.shape[0]
    rows = {axis: extent for axis, extent, _ in plan.shape}

    def tiles(name: str, buffer: Buffer, axis: str) -> TensorMapSpec:
        box = (plan.block, rows[axis])
        return TensorMapSpec(name, buffer, "float16", (k, buffer.shape[0]), (2 * k,), box, (1, 1), "128B")

    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        (0, tiles("A_map", a, "M")),
        (128, tiles("B_map", b, "N")),
        (256, bias),
        (264, Buffer.output("D", (m, n), ml_dtypes.bfloat16)),
        (272, Buffer.output("product", (m, n), np.float32) if probe else Scalar("product", "u64", 0)),
        (280, Scalar("alpha", "f32", inputs.alpha)),
        (284, Scalar("rows", "s32", m)),
        (288, Scalar("columns", "s32", n)),
        (292, Scalar("k_tiles", "s32", k // plan.block)),
    )
    return Launch(
        image=built.ptx,
        entry=built.entry,
        grid=(m // rows["M"] * (n // rows["N"]), 1, 1),
        cluster=(1, 1, 1),
        block=(plan.threads, 1, 1),
        shared_bytes=plan.smem_bytes,
        params=(Struct("params", PARAMS_BYTES, fields),),
    )


TARGETS = (
    ProductTarget(
        sm100_gemm.NAME,
        (Variant.of("gemm_bias", step_m=sm100_gemm.ROWS, step_n=sm100_gemm.COLUMNS),),
        lambda variant: sm100_gemm.plan(),
        Sources(main="sm100/gemm/kernel.cu", folders=("sm100", "sm100/gemm"), suffix=lambda v: "tile128x64"),
        describe,
        lambda: mutants.MUTANTS,
        equivalent=(EQUIVALENT,),
    ),
)
