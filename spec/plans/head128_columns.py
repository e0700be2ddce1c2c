"""The plan of `head128-columns`: the backward of 128 heads by a pair of CTAs that share out the columns.

Rank r of the pair has columns [256 r, 256 r + 256) of Q, dO, KV, dQ and dKV, for all 128 heads. What it has
of P and dP is the sum over its columns only. Rank r finishes the heads [64 r, 64 r + 64): it is sent the
other rank's share of their P and dP (`st.async`, f32), makes S and dS of them, and writes both, rounded to
bf16, into its own shared memory and into its peer's. So every rank multiplies with all heads, and a row of
dKV is added to once per pair. docs/limits.md compares the design with others.

Every MMA is `cta_group::1` with M = 128. Shared-memory tiles are cut into column tiles of 64 bf16 (128 bytes,
the swizzle's span), which serve as K-major and as MN-major operands (PTX ISA, tcgen05 canonical layouts). KV
is a ring of halves, 64 keys x 128 columns: half h of k-block k is the (2 k + h)-th use. The next k-block lies
there while dQ still reads this one, so that its P and dP are exchanged under this one's dQ and dKV. dS takes
S's bytes when dKV's share of S is done, which is long before dS is. dQ leaves through Q's bytes.

P needs no barrier to be freed: s_ready tells that it has been read, by those who send it and by those who
finish it.
"""

from __future__ import annotations

from dataclasses import replace

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import (
    Barrier,
    KernelPlan,
    Mma,
    OutputObservation,
    SmemObservation,
    SmemTile,
    TmemObservation,
    TmemTile,
    WarpRole,
)

NAME = "head128-columns"
D_QKS = (512,)

H_Q = 128
D_V = 512
B_TOPK = 64
CLUSTER = 2
BOTH = (0, 1)
H_CTA = H_Q // CLUSTER  # heads that a rank finishes
V_CTA = D_V // CLUSTER  # columns of a rank

KV_COLS = 128
KV_STAGES = 4
KV_HALVES = V_CTA // KV_COLS
DKV_M = 128
DKV_PARTS = V_CTA // DKV_M

LOAD_WARPS, SOFTMAX_WARPS, EXPORT_WARPS = 2, 8, 8
FIRST_SOFTMAX, FIRST_EXPORT = 4, 12
FINISHING_WARPS = SOFTMAX_WARPS // CLUSTER
BF16_BYTES = 2
F32_BYTES = 4
MBARRIER_BYTES = 8
SMEM_ALIGNMENT = 1024  # where a 128-byte swizzle pattern starts (PTX ISA, tcgen05 matrix descriptor)


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(d_qk) for d_qk in D_QKS]


def plan(d_qk: int) -> KernelPlan:
    """The plan for rows of `d_qk` columns; TileproofError when there is none."""
    if d_qk not in D_QKS:
        raise TileproofError(
            f"{NAME} has no plan for this d_qk",
            where="d_qk",
            expected=" or ".join(map(str, D_QKS)),
            found=str(d_qk),
            do="choose one of the supported widths",
        )
    smem, barriers, smem_bytes = _shared_memory()
    return KernelPlan(
        name=NAME,
        problem="sparse_mla_bwd",
        sizes=(("h_q", H_Q), ("d_qk", d_qk), ("d_v", D_V)),
        block=B_TOPK,
        cluster=CLUSTER,
        threads=32 * (FIRST_EXPORT + EXPORT_WARPS),
        smem_bytes=smem_bytes,
        tmem_columns=512,
        stages=("delta", "P", "S", "dP", "dS", "dQ", "dKV"),
        roles=_ROLES,
        barriers=barriers,
        smem=smem,
        tmem=(
            TmemTile("dQ", 0, KV_COLS, KV_HALVES, "D", "the sum over k-blocks of dS k, the rank's columns"),
            TmemTile("P", V_CTA, B_TOPK, 1, "D", "q k^T over the rank's columns"),
            TmemTile("dP", V_CTA + B_TOPK, B_TOPK, 1, "D", "dO v^T over the rank's columns"),
            TmemTile(
                "dKV",
                V_CTA + 2 * B_TOPK,
                B_TOPK,
                DKV_PARTS,
                "D",
                "dO^T S + q^T dS, 128 of the rank's columns of kv",
            ),
        ),
        mmas=_mmas(),
        observations=(
            OutputObservation("delta", "delta", "[s_q, h_q]"),
            TmemObservation("P", tile="P", barrier="p_ready", summed=True),
            SmemObservation("S", tile="S", barrier="s_ready", rank_rows=H_CTA),
            TmemObservation("dP", tile="dP", barrier="dp_ready", summed=True),
            SmemObservation("dS", tile="dS", barrier="ds_ready", rank_rows=H_CTA),
            OutputObservation("dQ", "dQ", "[s_q, h_q, d_qk]"),
            TmemObservation(
                "dKV", tile="dKV", barrier="dkv_ready", parts=DKV_PARTS, transposed=True, rank_cols=V_CTA
            ),
            OutputObservation("dKV", "dKV", "[s_kv, d_qk]"),
        ),
        together=("P", "dP", "dQ", "dKV"),
        probes=tuple(OutputObservation(stage, stage, "[s_q, h_q, topk]") for stage in ("P", "S", "dP", "dS")),
    )


def _role(name: str, first_warp: int, warps: int, does: str) -> WarpRole:
    return WarpRole(name, first_warp, warps, BOTH, does)


_ROLES = (
    _role("load", 0, LOAD_WARPS, "warp 0 loads Q and dO by TMA; each warp gathers 32 of the 64 keys"),
    _role("mma", LOAD_WARPS, 1, "allocates and frees TMEM; one thread issues every MMA of its CTA"),
    _role("idle", LOAD_WARPS + 1, 1, "nothing: a warp reaches the TMEM lanes of its rank in its warpgroup"),
    _role(
        "softmax",
        FIRST_SOFTMAX,
        SOFTMAX_WARPS,
        "of the peer's heads sends P and dP; of the own ones makes S and dS, for both CTAs; at the end dQ",
    ),
    _role(
        "dkv_export",
        FIRST_EXPORT,
        EXPORT_WARPS,
        "delta first; then adds each part of the dKV tile to the rows `indices` of dKV",
    ),
)


def _mmas() -> tuple[Mma, ...]:
    """In the order of the first issue; every one of cta_group::1. Halves of K are those of the KV ring."""
    chains: list[Mma] = []
    for stage, a in (("P", "Q"), ("dP", "dO")):
        for half in range(KV_HALVES):
            cols = half * KV_COLS, (half + 1) * KV_COLS
            chains.append(
                Mma(f"{stage}_{half}", "f16", 1, H_Q, B_TOPK, KV_COLS, a, "KV", stage, "K", "K", a_cols=cols)
            )
    chains.append(Mma("dKV_S", "f16", 1, DKV_M, B_TOPK, H_Q, "dO", "S", "dKV", "MN", "MN", DKV_PARTS,
                      a_cols=(0, V_CTA)))  # fmt: skip
    chains.append(Mma("dQ", "f16", 1, H_Q, KV_COLS, B_TOPK, "dS", "KV", "dQ", "K", "MN"))
    chains.append(Mma("dKV_dS", "f16", 1, DKV_M, B_TOPK, H_Q, "Q", "dS", "dKV", "MN", "MN", DKV_PARTS,
                      a_cols=(0, V_CTA)))  # fmt: skip
    return tuple(chains)


def _shared_memory() -> tuple[tuple[SmemTile, ...], tuple[Barrier, ...], int]:
    """Tiles, deltas, barriers, the TMEM base word; each operand tile on a 1024-byte boundary."""
    tiles: list[SmemTile] = []
    end = 0

    def add_tile(name: str, rows: int, cols: int, holds: str, stages: int = 1) -> None:
        nonlocal end
        size = rows * cols * BF16_BYTES
        tiles.append(SmemTile(name, end, size, stages, rows, cols, "bf16", "128B", "K", holds))
        end += size * stages

    def add_plain(name: str, rows: int, cols: int, holds: str) -> None:
        nonlocal end
        size = rows * cols * F32_BYTES
        tiles.append(SmemTile(name, end, size, 1, rows, cols, "f32", "none", "K", holds))
        end += size

    add_tile("Q", H_Q, V_CTA, "the rank's columns of q; after the last k-block dQ in bf16")
    add_tile("dO", H_Q, V_CTA, "the rank's columns of dO")
    add_tile("S", H_Q, B_TOPK, "S of all heads, rounded to bf16; the peer's heads come from the peer")
    s = tiles[-1]
    tiles.append(
        replace(s, name="dS", holds="dS of all heads, likewise, when the MMAs have read S", within="S")
    )
    add_tile("KV", B_TOPK, KV_COLS, "half of the rank's columns of the 64 keys, zero where no key", KV_STAGES)
    add_plain(
        "incoming", B_TOPK // 4, 4 * H_CTA, "the peer's share of P, then of dP, of the rank's heads: "
        "4 keys of a head are together, row by row of 4 keys",
    )  # fmt: skip
    add_plain("delta_own", 1, H_CTA, "delta of the rank's heads over its own columns")
    add_plain("delta_incoming", 1, H_CTA, "the same over the peer's columns")

    barriers: list[Barrier] = []

    def add(
        name: str, stages: int, count: int, tx: int, by: str, to: str, *, once: bool = False, parts: int = 1
    ) -> None:
        nonlocal end
        barriers.append(Barrier(name, end, stages, count, tx, BOTH, by, to, not once, parts))
        end += MBARRIER_BYTES * stages

    q, dO = (tile.bytes for tile in tiles[:2])
    share = H_CTA * B_TOPK
    add("q_ready", 1, 1, q, "TMA of Q", "mma", once=True)
    add("do_ready", 1, 1, dO, "TMA of dO", "mma, dkv_export", once=True)
    by = "a lane of each warp that has the rank's heads; st.async of the peer's dkv_export"
    add("delta_ready", 1, EXPORT_WARPS // CLUSTER, H_CTA * F32_BYTES, by, "softmax", once=True)
    add("kv_ready", KV_STAGES, 1, B_TOPK * KV_COLS * BF16_BYTES, "gather4", "mma", parts=KV_HALVES)
    add("kv_free", KV_STAGES, 1, 0, "commit of mma", "load", parts=KV_HALVES)
    add("p_ready", 1, 1, 0, "commit of mma", "softmax")
    add("dp_ready", 1, 1, 0, "commit of mma", "softmax")
    add("dp_free", 1, SOFTMAX_WARPS, 0, "a lane of each softmax warp", "mma")
    add("in_ready", 1, 1, share * F32_BYTES, "st.async of the peer's softmax", "softmax", parts=2)
    add("in_free", 1, FINISHING_WARPS, 0, "a lane of each finishing warp of the peer", "softmax", parts=2)
    by = "a lane of each softmax warp, and st.async of the peer's softmax"
    add("s_ready", 1, SOFTMAX_WARPS, share * BF16_BYTES, by, "mma")
    by = "a lane of each finishing warp, and st.async of the peer's softmax"
    add("ds_ready", 1, FINISHING_WARPS, share * BF16_BYTES, by, "mma")
    add("s_free", 1, CLUSTER, 0, "commit of each CTA's mma, multicast", "softmax")
    add("ds_free", 1, CLUSTER, 0, "commit of each CTA's mma, multicast", "softmax")
    add("dkv_ready", DKV_PARTS, 1, 0, "commit of mma", "dkv_export", parts=DKV_PARTS)
    by = "a lane of each warp of a dkv_export warpgroup"
    add("dkv_free", DKV_PARTS, EXPORT_WARPS // DKV_PARTS, 0, by, "mma", parts=DKV_PARTS)
    add("dq_ready", 1, 1, 0, "commit of mma, after the last k-block", "softmax", once=True)

    tiles.append(SmemTile("tmem_base", end, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned"))
    end += tiles[-1].bytes
    smem_bytes = -(-end // SMEM_ALIGNMENT) * SMEM_ALIGNMENT
    return tuple(tiles), tuple(barriers), smem_bytes
