"""The plan of `head128-part0`: P = Q K^T and delta = rowsum(O * dO) for 128 heads, a 2-CTA cluster per token.

Rank r of the cluster owns heads [64 r, 64 r + 64) of Q, dO, O, delta and of P's rows, and gathers the slots
[32 r, 32 r + 32) of each k-block of 64 keys; the 2-CTA MMA (PTX ISA, tcgen05.mma, `.cta_group::2`) lets
both ranks multiply with all 64. Shared-memory tiles are K-major with 128-byte swizzle, cut into column
tiles of 64 bf16 (the swizzle's span), each column tile contiguous.
"""

from __future__ import annotations

from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.plan import (
    Barrier,
    KernelPlan,
    LaneOrder,
    Mma,
    OutputObservation,
    ProductOrder,
    SmemTile,
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.plans.sizes import require_size
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

NAME = "head128-part0"
D_QKS = (576, 512)

H_Q = 128
D_V = 512
B_TOPK = 64
CLUSTER = 2
KV_STAGES = 2
P_STAGES = 2
BF16_BYTES = 2
SMEM_ALIGNMENT = 1024  # where a 128-byte swizzle pattern starts (PTX ISA, tcgen05 matrix descriptor)
BOTH = (0, 1)

H_CTA = H_Q // CLUSTER
KEYS_CTA = B_TOPK // CLUSTER


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(d_qk) for d_qk in D_QKS]


def plan(d_qk: int) -> KernelPlan:
    """The plan for rows of `d_qk` columns; TileproofError when there is none."""
    require_size(NAME, "d_qk", d_qk, D_QKS)
    smem, barriers, smem_bytes = _shared_memory(d_qk)
    return KernelPlan(
        name=NAME,
        problem=SPARSE_MLA_BWD,
        sizes=(("h_q", H_Q), ("d_qk", d_qk), ("d_v", D_V)),
        block=B_TOPK,
        cluster=CLUSTER,
        threads=416,
        smem_bytes=smem_bytes,
        tmem_columns=64,
        stages=("delta", "P"),
        roles=_ROLES,
        barriers=barriers,
        smem=smem,
        # Layout B: 64 lanes hold a row's first 32 columns, the other 64 lanes its last 32.
        tmem=(TmemTile("P", column=0, columns=B_TOPK // 2, stages=P_STAGES, layout="B", holds="q k^T, f32"),),
        ordered=(ProductOrder("P"),),
        sums_in_order=(LaneOrder("delta"),),
        mmas=(
            Mma(
                name="P",
                kind="f16",
                cta_group=2,
                m=H_Q,
                n=B_TOPK,
                k=d_qk,
                a="Q",
                b="KV",
                d="P",
                a_major="K",
                b_major="K",
            ),
        ),
        observations=(
            TmemObservation("P", tile="P", barrier="p_ready"),
            OutputObservation("delta", "delta", "[s_q, h_q]"),
        ),
        probes=(OutputObservation("P", "P", "[s_q, h_q, topk]"),),
    )


_ROLES = (
    WarpRole(
        "load",
        first_warp=0,
        warps=4,
        ctas=BOTH,
        does="warp 0 loads Q and dO by TMA; each warp gathers 8 of the CTA's 32 KV rows of every k-block",
    ),
    WarpRole(
        "p_consumer",
        first_warp=4,
        warps=4,
        ctas=BOTH,
        does="reads P from TMEM and frees its buffer; the probe build stores it",
    ),
    WarpRole(
        "delta",
        first_warp=8,
        warps=4,
        ctas=BOTH,
        does="delta = rowsum(O * dO) of the CTA's 64 heads, 16 per warp",
    ),
    WarpRole(
        "mma",
        first_warp=12,
        warps=1,
        ctas=BOTH,
        does="allocates and frees TMEM with its peer; one thread of rank 0 issues the MMAs of both CTAs",
    ),
)


def _shared_memory(d_qk: int) -> tuple[tuple[SmemTile, ...], tuple[Barrier, ...], int]:
    """Tiles, then barriers, then the TMEM base word, each tile on a 1024-byte boundary."""
    q_bytes = H_CTA * d_qk * BF16_BYTES
    do_bytes = H_CTA * D_V * BF16_BYTES
    kv_bytes = KEYS_CTA * d_qk * BF16_BYTES
    q_offset = 0
    do_offset = q_offset + q_bytes
    kv_offset = do_offset + do_bytes
    barrier_offset = kv_offset + KV_STAGES * kv_bytes

    barriers: list[Barrier] = []

    def add(name: str, stages: int, count: int, tx: int, ctas: tuple[int, ...], by: str, to: str) -> None:
        offset = barrier_offset + MBARRIER_BYTES * sum(barrier.stages for barrier in barriers)
        per_k_block = name not in ("q_ready", "do_ready")
        barriers.append(Barrier(name, offset, stages, count, tx, ctas, by, to, per_k_block))

    add("q_ready", 1, 1, CLUSTER * q_bytes, (0,), "TMA of Q in both CTAs", "mma")
    add("do_ready", 1, 1, do_bytes, BOTH, "TMA of dO in the same CTA", "delta")
    add("kv_ready", KV_STAGES, 1, CLUSTER * kv_bytes, (0,), "gather4 of KV in both CTAs", "mma")
    add("kv_free", KV_STAGES, 1, 0, BOTH, "commit of rank 0's mma, multicast", "load")
    add("p_ready", P_STAGES, 1, 0, BOTH, "commit of rank 0's mma, multicast", "p_consumer")
    add("p_free", P_STAGES, 128 * CLUSTER, 0, (0,), "every p_consumer thread of both CTAs", "mma")

    tmem_base_offset = barrier_offset + MBARRIER_BYTES * sum(barrier.stages for barrier in barriers)
    end = tmem_base_offset + 4
    smem_bytes = -(-end // SMEM_ALIGNMENT) * SMEM_ALIGNMENT

    def swizzled(
        name: str, offset: int, size: int, stages: int, rows: int, cols: int, holds: str
    ) -> SmemTile:
        return SmemTile(name, offset, size, stages, rows, cols, "bf16", "128B", "K", holds)

    smem = (
        swizzled("Q", q_offset, q_bytes, 1, H_CTA, d_qk, "the CTA's 64 heads of q"),
        swizzled("dO", do_offset, do_bytes, 1, H_CTA, D_V, "the CTA's 64 heads of dO"),
        swizzled(
            "KV", kv_offset, kv_bytes, KV_STAGES, KEYS_CTA, d_qk, "the CTA's 32 keys, zero where no key"
        ),
        SmemTile(
            "tmem_base", tmem_base_offset, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned"
        ),
    )
    return smem, tuple(barriers), smem_bytes
