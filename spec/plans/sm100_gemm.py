"""The plan of `sm100-gemm-bias`: D = alpha A B^T + bias in bf16, one CTA per 128 x 64 tile of D.

64 of K per stage. Shared-memory tiles are K-major with 128-byte swizzle, a row one span of it; the
accumulator lies in tensor memory, a row of D in a lane (layout D of tcgen05.mma with M = 128).
"""

from __future__ import annotations

from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.plan import (
    Barrier,
    KernelPlan,
    Mma,
    OutputObservation,
    ProductOrder,
    SmemTile,
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.problems.gemm.problem import GEMM_BIAS

NAME = "sm100-gemm-bias"
ROWS, COLUMNS, BLOCK = 128, 64, 64  # of a tile of D, and of K per stage
STAGES = 3
F16_BYTES = 2
SMEM_ALIGNMENT = 1024  # where a 128-byte swizzle pattern starts (PTX ISA, tcgen05 matrix descriptor)
ONE = (0,)

A_BYTES, B_BYTES = ROWS * BLOCK * F16_BYTES, COLUMNS * BLOCK * F16_BYTES
BARRIERS = STAGES * (A_BYTES + B_BYTES)
TMEM_BASE = BARRIERS + (2 * STAGES + 1) * MBARRIER_BYTES


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan()]


def plan() -> KernelPlan:
    """The plan, for all sizes."""

    def barrier(name: str, first: int, stages: int, tx_bytes: int, producers: str, consumers: str) -> Barrier:
        offset = BARRIERS + first * MBARRIER_BYTES
        return Barrier(name, offset, stages, 1, tx_bytes, ONE, producers, consumers, stages > 1)

    return KernelPlan(
        name=NAME,
        problem=GEMM_BIAS,
        block=BLOCK,
        cluster=1,
        threads=192,
        smem_bytes=-(-(TMEM_BASE + 4) // SMEM_ALIGNMENT) * SMEM_ALIGNMENT,
        tmem_columns=COLUMNS,
        stages=("product", "D"),
        roles=(
            WarpRole("epilogue", 0, 4, ONE, "each reads 32 rows of the accumulator and writes them to D"),
            WarpRole("load", 4, 1, ONE, "one thread loads A and B by TMA"),
            WarpRole("mma", 5, 1, ONE, "allocates and frees TMEM; one thread issues the MMAs"),
        ),
        barriers=(
            barrier("full", 0, STAGES, A_BYTES + B_BYTES, "TMA of A and B", "mma"),
            barrier("empty", STAGES, STAGES, 0, "commit of mma", "load"),
            barrier("product_ready", 2 * STAGES, 1, 0, "commit of mma", "epilogue"),
        ),
        smem=(
            SmemTile("A", 0, A_BYTES, STAGES, ROWS, BLOCK, "f16", "128B", "K", f"{ROWS} rows of A, 64 of K"),
            SmemTile(
                "B", STAGES * A_BYTES, B_BYTES, STAGES, COLUMNS, BLOCK, "f16", "128B", "K",
                f"{COLUMNS} rows of B, 64 of K",
            ),
            SmemTile("tmem_base", TMEM_BASE, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned"),
        ),
        ordered=(ProductOrder("product"),),
        tmem=(TmemTile("accumulator", 0, COLUMNS, 1, "D", "A B^T, f32"),),
        mmas=(Mma("product", "f16", 1, ROWS, COLUMNS, BLOCK, "A", "B", "accumulator", "K", "K"),),
        observations=(
            TmemObservation("product", tile="accumulator", barrier="product_ready"),
            OutputObservation("D", "D", "[M, N]"),
        ),
        partials=(TmemObservation("product", tile="accumulator", barrier="empty", buffer=0),),
        probes=(OutputObservation("product", "product", "[M, N]"),),
        shape=(("M", ROWS, 1), ("N", COLUMNS, 1)),
    )  # fmt: skip
