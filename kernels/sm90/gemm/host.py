"""sm90-gemm as seen from the host: its launch description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Mutant
from tileproof.kernels.image import Sources
from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.kernels.sm90.gemm import mutants
from tileproof.kernels.tutorials import ProductTarget
from tileproof.kernels.variant import Variant
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import sm90_gemm

PARAMS_BYTES = 320  # sizeof(Params) in kernel.cu, which asserts it
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
ARCH = "sm_90"  # no feature of one architecture alone: its PTX loads on every later one, SM100 too


def describe(inputs: Any, plan: KernelPlan, built: Built, probe: bool) -> Launch:
    """One CTA per tile of D, tiles along M first. Outputs: D ``[M, N]`` f32 (with a bias bf16) and, in the
    probe build, `product` ``[M, N]`` f32, which is A B^T.
    """
    added = "C" if inputs.bias is None else "bias"
    a, b, c = (Buffer.input(name, getattr(inputs, name)) for name in ("A", "B", added))
    d_type = np.float32 if inputs.bias is None else ml_dtypes.bfloat16
    (m, k), n = a.shape, b.shape[0]
    tile = sm90_gemm.TILE

    def rows(name: str, buffer: Buffer) -> TensorMapSpec:
        return TensorMapSpec(
            name, buffer, "float16", (k, buffer.shape[0]), (2 * k,), (tile, tile), (1, 1), "128B"
        )

    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...] = (
        (0, rows("A_map", a)),
        (128, rows("B_map", b)),
        (256, c),
        (264, Buffer.output("D", (m, n), d_type)),
        (272, Buffer.output("product", (m, n), np.float32) if probe else Scalar("product", "u64", 0)),
        (280, Scalar("alpha", "f32", inputs.alpha)),
        (284, Scalar("beta", "f32", inputs.beta)),
        (288, Scalar("rows", "s32", m)),
        (292, Scalar("columns", "s32", n)),
        (296, Scalar("k_tiles", "s32", k // tile)),
    )
    return Launch(
        image=built.ptx,
        entry=built.entry,
        grid=(m // tile * (n // tile), 1, 1),
        cluster=(1, 1, 1),
        block=(plan.threads, 1, 1),
        shared_bytes=plan.smem_bytes,
        params=(Struct("params", PARAMS_BYTES, fields),),
    )


def _target(name: str, problem: str, main: str, planted: tuple[Mutant, ...]) -> ProductTarget:
    return ProductTarget(
        name,
        (Variant.of(problem, step_m=sm90_gemm.TILE, step_n=sm90_gemm.TILE),),
        lambda variant: sm90_gemm.plan(name, problem),
        Sources(main=main, folders=("sm90", "sm90/gemm"), suffix=lambda v: "tile64", arch=ARCH),
        describe,
        lambda: planted,
        arch=ARCH,
        equivalent=(EQUIVALENT,),
    )


TARGETS = (
    _target(sm90_gemm.NAME, "gemm", "sm90/gemm/kernel.cu", mutants.MUTANTS),
    _target(sm90_gemm.BIAS, "gemm_bias", "sm90/gemm/bias.cu", mutants.OF_BIAS),
)
