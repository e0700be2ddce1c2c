"""The plan of `head128-columns`: the backward of 128 heads by a pair of CTAs that share out the columns.

Rank r of the pair has columns [256 r, 256 r + 256) of Q, dO, KV, dQ and dKV, with RoPE also columns
[512 + 32 r, 512 + 32 r + 32) of all but dO, for all 128 heads. What it has of P and dP is the sum over its
columns only. Rank r finishes keys [32 r, 32 r + 32) of each k-block: it is sent the other rank's share of
their P and dP (`st.async`, f32), makes S and dS of them, and writes both, rounded to bf16, into its own
shared memory and into its peer's. So every rank multiplies with all heads, and a row of dKV is added to once
per pair.
docs/limits.md compares the design with others.

Every MMA is `cta_group::1`, with M = 128 but for the RoPE part of dKV (M = 32, weight-stationary). Shared
tiles are cut into column tiles of 64 bf16 (128 bytes, the swizzle's span; RoPE tiles have 32, 64 bytes),
which serve as K-major and as MN-major operands (PTX ISA, tcgen05 canonical layouts). Those of S and dS have
no swizzle: what a warp sends the peer of them is then contiguous. dQ leaves through the keys' bytes, each
half of its columns when its last MMA is done.

Shared memory holds two k-blocks of keys. dS takes S's bytes when dKV's share of S is done, which is long
before dS is. At d_qk 512 there is room for the peer's shares of P and dP too. At d_qk 576 they arrive where
the upper columns of the keys of the k-block before lay, when its dQ is done; the upper columns of the next
one are gathered there when the shares have been read. There dP takes P's tensor memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.plan import (
    Barrier,
    KernelPlan,
    LaneOrder,
    Mma,
    OutputObservation,
    ProductOrder,
    SmemObservation,
    SmemTile,
    Swizzle,
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.plans.sizes import require_size
from tileproof.spec.problems.sparse_mla_bwd.problem import of_operands

NAME = "head128-columns"
D_QKS = (576, 512)

H_Q = 128
D_V = 512
B_TOPK = 64
CLUSTER = 2
BOTH = (0, 1)
H_CTA = H_Q // CLUSTER  # heads of which a rank shows S and dS
KEYS_CTA = B_TOPK // CLUSTER  # keys that it finishes
V_CTA = D_V // CLUSTER  # columns of a rank
ROPE_CTA = 32  # and of RoPE, where there is one

HALF_COLS = 128  # of KV that are gathered and multiplied together
COL_TILE = 64
KEYS_TOGETHER = 4  # of a head, in a share that is sent
KV_STAGES = 2
KV_HALVES = V_CTA // HALF_COLS
DKV_M = 128
DKV_PARTS = V_CTA // DKV_M

LOAD_WARPS, SOFTMAX_WARPS, EXPORT_WARPS = 2, 8, 8
FIRST_SOFTMAX, FIRST_EXPORT = 4, 12
FINISHING_WARPS = SOFTMAX_WARPS // CLUSTER
OPERAND_BYTES = 2
F32_BYTES = 4
SWIZZLES: dict[int, Swizzle] = {ROPE_CTA: "64B"}  # of tiles less than 64 columns wide
SMEM_ALIGNMENT = 1024  # where a 128-byte swizzle pattern starts (PTX ISA, tcgen05 matrix descriptor)


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(d_qk) for d_qk in D_QKS]


def plan(d_qk: int, f16: bool = False) -> KernelPlan:
    """The plan for rows of `d_qk` columns of bf16, or f16; TileproofError when there is none."""
    require_size(NAME, "d_qk", d_qk, D_QKS)
    rope = ROPE_CTA if d_qk > D_V else 0
    smem, end = _shared_memory(rope, "f16" if f16 else "bf16")
    barriers, end = _barriers(rope, end)
    base = SmemTile("tmem_base", end, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned")
    return KernelPlan(
        name=NAME,
        problem=of_operands(f16),
        sizes=(("h_q", H_Q), ("d_qk", d_qk), ("d_v", D_V)),
        block=B_TOPK,
        cluster=CLUSTER,
        threads=32 * (FIRST_EXPORT + EXPORT_WARPS),
        smem_bytes=-(-(end + base.bytes) // SMEM_ALIGNMENT) * SMEM_ALIGNMENT,
        tmem_columns=512,
        stages=("delta", "P", "S", "dP", "dS", "dQ", "dKV"),
        roles=_ROLES,
        barriers=barriers,
        smem=(*smem, base),
        tmem=_tensor_memory(rope),
        mmas=_mmas(rope),
        ordered=(
            ProductOrder("P", runs=tuple(_runs(rank, rope) for rank in range(CLUSTER))),
            ProductOrder("dP", runs=tuple(_runs(rank, 0) for rank in range(CLUSTER))),
            ProductOrder("dQ"),
            ProductOrder("dKV", ("S", "dS")),
        ),
        sums_in_order=(LaneOrder("delta", parts=CLUSTER),),
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
            *(_DKV_ROPE if rope else ()),
            OutputObservation("dKV", "dKV", "[s_kv, d_qk]"),
        ),
        partials=(
            TmemObservation("dQ", tile="dQ", barrier="kv_lo_free", rank_cols=V_CTA, buffer=0),
            *(_DQ_ROPE if rope else ()),
        ),
        cluster_wide=("P", "dP", "dQ", "dKV"),
        probes=tuple(OutputObservation(stage, stage, "[s_q, h_q, topk]") for stage in ("P", "S", "dP", "dS")),
    )


_DQ_ROPE = (
    TmemObservation("dQ", tile="dQ_rope", barrier="kv_lo_free", first_col=D_V, rank_cols=ROPE_CTA, buffer=0),
)
_DKV_ROPE = (
    TmemObservation(
        "dKV", tile="dKV_rope", barrier="rope_ready", first_col=D_V, transposed=True, rank_cols=ROPE_CTA
    ),
)


def _tensor_memory(rope: int) -> tuple[TmemTile, ...]:
    """Layout D: a lane is a head, or a column of kv. Layout G (M = 32) folds the keys in four."""
    tiles: list[TmemTile] = []

    def add(name: str, columns: int, stages: int, holds: str, layout: Literal["D", "G"] = "D") -> None:
        column = sum(tile.columns * tile.stages for tile in tiles)
        tiles.append(TmemTile(name, column, columns, stages, layout, holds))

    add("dQ", V_CTA, 1, "the sum over k-blocks of dS k, the rank's NoPE columns")
    if rope:
        add("dQ_rope", rope, 1, "the same, its RoPE columns")
    add("dKV", B_TOPK, DKV_PARTS, "dO^T S + q^T dS, 128 of the rank's columns of kv")
    if rope:
        add("dKV_rope", B_TOPK // 4, 1, "q^T dS, the rank's RoPE columns of kv", "G")
    add("P", B_TOPK, 1, "q k^T over the rank's columns")
    holds = "dO v^T over the rank's columns"
    if rope:
        tiles.append(replace(tiles[-1], name="dP", holds=f"{holds}, when P was read", within="P"))
    else:
        add("dP", B_TOPK, 1, holds)
    return tuple(tiles)


def _role(name: str, first_warp: int, warps: int, does: str) -> WarpRole:
    return WarpRole(name, first_warp, warps, BOTH, does)


_ROLES = (
    _role("load", 0, LOAD_WARPS, "warp 0 loads Q and dO by TMA; each warp gathers 32 of the 64 keys"),
    _role("mma", LOAD_WARPS, 1, "allocates and frees TMEM; one thread issues every MMA of its CTA"),
    _role("signal", LOAD_WARPS + 1, 1, "signals the peer that the finishing warps have read its shares"),
    _role(
        "softmax",
        FIRST_SOFTMAX,
        SOFTMAX_WARPS,
        "sends P and dP of the peer's keys; computes S and dS of its own keys, for both CTAs; at the end dQ",
    ),
    _role(
        "dkv_export",
        FIRST_EXPORT,
        EXPORT_WARPS,
        "delta first; then adds each part of the dKV tile to the rows `indices` of dKV",
    ),
)


def _runs(rank: int, rope: int) -> tuple[tuple[int, int], ...]:
    """The columns of a rank in the order in which they are multiplied."""
    lower, upper = rank * V_CTA, rank * V_CTA + HALF_COLS
    narrow = ((D_V + rank * rope, D_V + (rank + 1) * rope),) if rope else ()
    return ((lower, lower + HALF_COLS), *narrow, (upper, upper + HALF_COLS))


def _mmas(rope: int) -> tuple[Mma, ...]:
    """By stage; every one of cta_group::1."""
    chains: list[Mma] = []
    halves = (("lo", (0, HALF_COLS)), ("hi", (HALF_COLS, V_CTA)))
    for stage, a in (("P", "Q"), ("dP", "dO")):
        for half, cols in halves:
            chains.append(
                Mma(
                    f"{stage}_{half}", "f16", 1, H_Q, B_TOPK, HALF_COLS, a, "KV", stage, "K", "K",
                    a_cols=cols, b_cols=cols,
                )
            )  # fmt: skip
    chains.append(Mma("dQ", "f16", 1, H_Q, V_CTA, B_TOPK, "dS", "KV", "dQ", "K", "MN"))
    for a, b in (("dO", "S"), ("Q", "dS")):
        name, cols = f"dKV_{b}", (0, V_CTA)
        chains.append(
            Mma(name, "f16", 1, DKV_M, B_TOPK, H_Q, a, b, "dKV", "MN", "MN", DKV_PARTS, a_cols=cols)
        )
    if rope:
        chains += [
            Mma("P_rope", "f16", 1, H_Q, B_TOPK, rope, "Q_rope", "KV_rope", "P", "K", "K"),
            Mma("dQ_rope", "f16", 1, H_Q, rope, B_TOPK, "dS", "KV_rope", "dQ_rope", "K", "MN"),
            Mma("dKV_rope", "f16", 1, rope, B_TOPK, H_Q, "Q_rope", "dS", "dKV_rope", "MN", "MN", ws=True),
        ]
    return tuple(chains)


def _shared_memory(rope: int, form: str) -> tuple[tuple[SmemTile, ...], int]:
    """Tiles and deltas, and where they end; each operand tile where its swizzle pattern starts."""
    tiles: list[SmemTile] = []
    end = 0

    def add_tile(
        name: str, rows: int, cols: int, holds: str, stages: int = 1, swizzle: Swizzle | None = None
    ) -> None:
        nonlocal end
        size = rows * cols * OPERAND_BYTES
        swizzle = swizzle or SWIZZLES.get(cols, "128B")
        tiles.append(SmemTile(name, end, size, stages, rows, cols, form, swizzle, "K", holds))
        end += size * stages

    def add_plain(name: str, rows: int, cols: int, holds: str) -> None:
        nonlocal end
        size = rows * cols * F32_BYTES
        tiles.append(SmemTile(name, end, size, 1, rows, cols, "f32", "none", "K", holds))
        end += size

    add_tile("Q", H_Q, V_CTA, "the rank's NoPE columns of q")
    add_tile("dO", H_Q, V_CTA, "the rank's columns of dO")
    holds = f"S of all heads, rounded to {form}; the peer sends its keys"
    add_tile("S", H_Q, B_TOPK, holds, swizzle="none")
    s = tiles[-1]
    tiles.append(
        replace(s, name="dS", holds="dS of all heads in the same way, after the MMAs have read S", within="S")
    )
    add_tile("KV", B_TOPK, V_CTA, "the rank's columns of the k-block's keys, zero where no key", KV_STAGES)
    kv = tiles[-1]
    holds = "the peer's share of P, then of dP, of the rank's keys, four keys of all heads after four keys"
    place = SmemTile(
        "incoming", end, kv.bytes // KV_HALVES, 1, KEYS_CTA // KEYS_TOGETHER, KEYS_TOGETHER * H_Q, "f32",
        "none", "K", holds,
    )  # fmt: skip
    if rope:
        for buffer, name in enumerate(("incoming", "incoming_too")):
            upper = kv.offset + kv.bytes * buffer + place.bytes
            of = f"{holds}, of k-blocks k with (k + 1) % 2 = {buffer}"
            tiles.append(replace(place, name=name, offset=upper, holds=of, within="KV"))
    else:
        tiles.append(place)
        end += place.bytes
    if rope:
        add_tile("Q_rope", H_Q, rope, "the rank's RoPE columns of q")
        add_tile("KV_rope", B_TOPK, rope, "the rank's RoPE columns of the k-block's keys", KV_STAGES)
    add_plain("delta_own", 1, H_Q, "delta over the rank's columns")
    add_plain("delta_incoming", 1, H_Q, "the same over the peer's columns")
    return tuple(tiles), end


def _barriers(rope: int, end: int) -> tuple[tuple[Barrier, ...], int]:
    """The barriers, which begin at `end`, and where they end."""
    barriers: list[Barrier] = []

    def add(
        name: str, stages: int, count: int, tx: int, by: str, to: str, *, once: bool = False, parts: int = 1
    ) -> None:
        nonlocal end
        barriers.append(Barrier(name, end, stages, count, tx, BOTH, by, to, not once, parts))
        end += MBARRIER_BYTES * stages

    heads, half, share = (
        rows * cols * OPERAND_BYTES for rows, cols in ((H_Q, V_CTA), (B_TOPK, HALF_COLS), (H_Q, KEYS_CTA))
    )
    commit, both = "commit of mma", "commit of each CTA's mma, multicast"
    readers = "a lane of each softmax warp"
    add("q_ready", 1, 1, heads + H_Q * rope * OPERAND_BYTES, "TMA of Q", "mma", once=True)
    add("do_ready", 1, 1, heads, "TMA of dO", "mma, dkv_export", once=True)
    by = "a lane of each dkv_export warp; st.async of the peer's"
    add("delta_ready", 1, EXPORT_WARPS, H_Q * F32_BYTES, by, "softmax", once=True)
    add("kv_lo_ready", KV_STAGES, 1, half + B_TOPK * rope * OPERAND_BYTES, "gather4", "mma")
    hi_parts = HALF_COLS // COL_TILE if rope else 1  # of the upper columns, which are waited for
    add("kv_hi_ready", KV_STAGES * hi_parts, 1, half // hi_parts, "gather4", "mma", parts=hi_parts)
    add("kv_lo_free", KV_STAGES, 1, 0, commit, "load")
    arrival = "a lane of the peer's signal warp: its finishing warps have read the share there"
    if rope:
        read = "a lane of each finishing warp: the shares were read"
        add("kv_hi_free", 1, FINISHING_WARPS, 0, read, "load")
    else:
        add("kv_hi_free", KV_STAGES, 1, 0, commit, "load")
    add("p_ready", 1, 1, 0, commit, "softmax")
    add("dp_ready", 1, 1, 0, commit, "softmax")
    add("p_free", 1, SOFTMAX_WARPS, 0, readers, "mma")
    add("dp_free", 1, SOFTMAX_WARPS, 0, readers, "mma")
    add(
        "in_ready",
        1,
        1,
        share // OPERAND_BYTES * F32_BYTES,
        "st.async of the peer's softmax",
        "softmax",
        parts=2,
    )
    by = "a lane of each finishing warp: "
    for what in ("p", "dp"):
        add(f"in_{what}_read", 1, FINISHING_WARPS, 0, f"{by}it has read the share", "mma, signal")
    for what in ("s", "ds"):
        add(f"{what}_sent", 1, FINISHING_WARPS, 0, f"{by}its stores to the peer are issued", "softmax")
    if rope:
        add("in_p_free", 1, 1, 0, "commit of the peer's mma: its dQ has read the keys there", "softmax")
    else:
        add("in_p_free", 1, 1, 0, arrival, "softmax")
    add("in_dp_free", 1, 1, 0, arrival, "softmax")
    by = "a lane of each finishing warp, and st.async of the peer's softmax"
    add("s_ready", 1, FINISHING_WARPS, share, by, "mma")
    add("ds_ready", 1, FINISHING_WARPS, share, by, "mma")
    add("s_free", 1, CLUSTER, 0, both, "softmax")
    add("ds_free", 1, CLUSTER, 0, both, "softmax")
    add("dkv_ready", DKV_PARTS, 1, 0, commit, "dkv_export", parts=DKV_PARTS)
    by = "a lane of each warp of a dkv_export warpgroup"
    add("dkv_free", DKV_PARTS, EXPORT_WARPS // DKV_PARTS, 0, by, "mma", parts=DKV_PARTS)
    if rope:
        add("rope_ready", 1, 1, 0, commit, "dkv_export")
    add("dq_ready", KV_HALVES, 1, 0, "commit of mma, in the last k-block", "softmax", once=True)
    return tuple(barriers), end
