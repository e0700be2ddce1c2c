"""The plan of `sm90-gemm`: D = alpha A B^T + beta C, one CTA per 64 x 64 tile of D, 64 of K per stage.

Shared-memory tiles are K-major with 128-byte swizzle, a row one span of it. The accumulators are registers
(PTX ISA, mma.sync), so nothing of the product can be seen inside a launch: the probe build stores it.
"""

from __future__ import annotations

from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.plan import Barrier, KernelPlan, OutputObservation, SmemTile, WarpRole
from tileproof.spec.problems.gemm.problem import GEMM, GEMM_BIAS, Gemm

NAME = "sm90-gemm"
BIAS = "sm90-gemm-bias"  # D = alpha A B^T + bias, in bf16
TILE = 64  # rows and columns of D, and of K per stage
STAGES = 3
F16_BYTES = 2
ONE = (0,)

TILE_BYTES = TILE * TILE * F16_BYTES
BARRIERS = 2 * STAGES * TILE_BYTES
MMA_WARPS = 4


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(), plan(BIAS, GEMM_BIAS)]


def plan(name: str = NAME, problem: Gemm = GEMM) -> KernelPlan:
    """The plan, for all sizes and both problem types of a product."""

    def tile(name: str, offset: int, holds: str) -> SmemTile:
        return SmemTile(name, offset, TILE_BYTES, STAGES, TILE, TILE, "f16", "128B", "K", holds)

    empty = BARRIERS + STAGES * MBARRIER_BYTES
    return KernelPlan(
        name=name,
        block=TILE,
        cluster=1,
        threads=32 * (MMA_WARPS + 1),
        smem_bytes=BARRIERS + 2 * STAGES * MBARRIER_BYTES,
        tmem_columns=0,
        stages=("product", "D"),
        roles=(
            WarpRole("mma", 0, MMA_WARPS, ONE, "each multiplies and writes 32 x 32 of D"),
            WarpRole("load", MMA_WARPS, 1, ONE, "one thread loads A and B by TMA"),
        ),
        barriers=(
            Barrier("full", BARRIERS, STAGES, 1, 2 * TILE_BYTES, ONE, "TMA of A and B", "mma", True),
            Barrier("empty", empty, STAGES, MMA_WARPS, 0, ONE, "one lane of each mma warp", "load", True),
        ),
        smem=(
            tile("A", 0, "64 rows of A, 64 of K"),
            tile("B", STAGES * TILE_BYTES, "64 rows of B, 64 of K"),
        ),
        tmem=(),
        mmas=(),
        observations=(OutputObservation("D", "D", "[M, N]"),),
        probes=(OutputObservation("product", "product", "[M, N]"),),
        problem=problem,
        shape=(("M", TILE, 1), ("N", TILE, 1)),
    )
