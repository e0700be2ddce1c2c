"""The plan of `head64`: all seven stages of the backward for 64 heads, one CTA per token.

Every MMA is `cta_group::1`; those with M = 64 are weight-stationary, so that their accumulators fill all 128
TMEM lanes (data path layout E). docs/limits.md counts what the design asks for.

Shared-memory tiles are cut into column tiles of 64 columns (128 bytes, the swizzle's span), each column tile
contiguous with 128-byte rows. Read along its rows such a tile is a K-major operand, read along its columns an
MN-major one (PTX ISA, tcgen05 canonical layouts), so Q, dO, KV, S and dS each lie in shared memory once and
serve both their products. dQ is staged in KV's bytes after the last k-block.

Some buffers need no barrier of their own. A commit signals that every earlier MMA of its thread is complete,
so p_ready of the next k-block signals that S and dS have been read; s_ready and ds_ready that P and dP have;
and the RoPE part of dKV is read between its second and third part, so dkv_free of the third covers it too.

The barriers kv_lo_free and kv_hi_free free the tile's lower 256 columns (with the RoPE columns) and its upper
256, kv_lo_ready and kv_hi_ready report their arrival: the next tile's lower columns are gathered while dQ
still multiplies with this tile's upper columns, and multiplied while its own upper columns are gathered. The
upper columns arrive in two parts, so that little work remains when the last part arrives.
"""

from __future__ import annotations

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
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.plans.sizes import require_size
from tileproof.spec.problems.sparse_mla_bwd.problem import of_operands

NAME = "head64"
D_QKS = (576, 512)

D_V = 512
B_TOPK = 64
WARPGROUP = 128
LOAD_WARPS = 4
OPERAND_BYTES = 2
F32_BYTES = 4
SMEM_ALIGNMENT = 1024  # where a 128-byte swizzle pattern starts (PTX ISA, tcgen05 matrix descriptor)

HEADS = 64
DQ_N = 256
LO = D_V // 2  # columns of keys that arrive first, those of RoPE with them
DKV_M = 128
DKV_STAGES = 2
HI_PARTS = 2
DKV_PARTS = D_V // DKV_M


def plans() -> list[KernelPlan]:
    """Every plan there is."""
    return [plan(d_qk) for d_qk in D_QKS]


def plan(d_qk: int, f16: bool = False) -> KernelPlan:
    """The plan for rows of `d_qk` columns of bf16, or f16; TileproofError when there is none."""
    require_size(NAME, "d_qk", d_qk, D_QKS)
    rope = d_qk > D_V
    smem, barriers, smem_bytes = _shared_memory(d_qk, "f16" if f16 else "bf16")
    return KernelPlan(
        name=NAME,
        problem=of_operands(f16),
        sizes=(("h_q", HEADS), ("d_qk", d_qk), ("d_v", D_V)),
        block=B_TOPK,
        cluster=1,
        threads=416,
        smem_bytes=smem_bytes,
        tmem_columns=512,
        stages=("delta", "P", "S", "dP", "dS", "dQ", "dKV"),
        roles=_roles(),
        barriers=barriers,
        smem=smem,
        tmem=_tensor_memory(rope),
        mmas=_mmas(d_qk),
        ordered=(
            ProductOrder("P", runs=(((0, LO), (D_V, d_qk), (LO, D_V)),)),
            ProductOrder("dP"),
            ProductOrder("dQ"),
            ProductOrder("dKV", ("S", "dS")),
        ),
        sums_in_order=(LaneOrder("delta"),),
        observations=(
            OutputObservation("delta", "delta", "[s_q, h_q]"),
            TmemObservation("P", tile="P", barrier="p_ready"),
            SmemObservation("S", tile="S", barrier="s_ready"),
            TmemObservation("dP", tile="dP", barrier="dp_ready"),
            SmemObservation("dS", tile="dS", barrier="ds_ready"),
            OutputObservation("dQ", "dQ", "[s_q, h_q, d_qk]"),
            TmemObservation("dKV", tile="dKV", barrier="dkv_ready", parts=DKV_PARTS, transposed=True),
            *(_DKV_ROPE if rope else ()),
            OutputObservation("dKV", "dKV", "[s_kv, d_qk]"),
        ),
        partials=(
            TmemObservation("dQ", tile="dQ", barrier="kv_lo_free", buffer=0),
            TmemObservation("dQ", tile="dQ", barrier="kv_hi_free", buffer=1, first_col=DQ_N),
            *(_DQ_ROPE if rope else ()),
        ),
        probes=tuple(OutputObservation(stage, stage, "[s_q, h_q, topk]") for stage in ("P", "S", "dP", "dS")),
    )


def _roles() -> tuple[WarpRole, ...]:
    rows = B_TOPK // LOAD_WARPS

    def role(name: str, first_warp: int, warps: int, does: str) -> WarpRole:
        return WarpRole(name, first_warp, warps, (0,), does)

    return (
        role(
            "load",
            0,
            LOAD_WARPS,
            f"warp 0 loads Q and dO by TMA; each warp gathers {rows} keys",
        ),
        role(
            "softmax",
            4,
            4,
            "S and dS from P and dP in TMEM to shared memory; at the end dQ from TMEM to global memory",
        ),
        role(
            "dkv_export",
            8,
            4,
            "delta first; then adds each part of the dKV tile to the rows `indices` of dKV",
        ),
        role("mma", 12, 1, "allocates and frees TMEM; one thread issues every MMA"),
    )


_DQ_ROPE = (TmemObservation("dQ", tile="dQ_rope", barrier="kv_lo_free", first_col=D_V, buffer=0),)
_DKV_ROPE = (TmemObservation("dKV", tile="dKV_rope", barrier="rope_ready", first_col=D_V, transposed=True),)


def _tensor_memory(rope: bool) -> tuple[TmemTile, ...]:
    """Layout E (M = 64) folds a tile's N columns in two, row m in lanes m and m + 64; layout D (M = 128) not.

    dKV is kept transposed, one lane per column of kv: a warp then adds 32 neighbouring columns of one row of
    dKV with each instruction, which is what the atomic units want (docs/limits.md).
    """
    tiles: list[TmemTile] = []

    def add(name: str, columns: int, stages: int, layout: Literal["D", "E"], holds: str) -> None:
        column = sum(tile.columns * tile.stages for tile in tiles)
        tiles.append(TmemTile(name, column, columns, stages, layout, holds))

    add("dQ", DQ_N // 2, D_V // DQ_N, "E", "the sum over k-blocks of dS k, NoPE columns, f32")
    if rope:
        add("dQ_rope", 32, 1, "E", "the same, RoPE columns")
    add("P", B_TOPK // 2, 1, "E", "q k^T, f32")
    add("dP", B_TOPK // 2, 1, "E", "dO v^T, f32")
    add("dKV", B_TOPK, DKV_STAGES, "D", "dO^T S + q^T dS over the CTA's heads, 128 columns of kv, f32")
    if rope:
        add("dKV_rope", B_TOPK // 2, 1, "E", "q^T dS over the CTA's heads, RoPE columns of kv")
    return tuple(tiles)


def _mmas(d_qk: int) -> tuple[Mma, ...]:
    """In the order of the first issue; every one of cta_group::1."""

    v, rope = (0, D_V), (D_V, d_qk)

    def scores(name: str, k: int, a: str) -> Mma:
        return Mma(name, "f16", 1, HEADS, B_TOPK, k, a, "KV", name, "K", "K", b_cols=(0, k), ws=True)

    def dq(name: str, n: int, parts: int, cols: tuple[int, int]) -> Mma:
        return Mma(name, "f16", 1, HEADS, n, B_TOPK, "dS", "KV", name, "K", "MN", parts, b_cols=cols, ws=True)

    def dkv(name: str, m: int, a: str, b: str, d: str, parts: int, cols: tuple[int, int]) -> Mma:
        ws = m == 64  # as M = 64 without .ws leaves half of the lanes idle
        return Mma(name, "f16", 1, m, B_TOPK, HEADS, a, b, d, "MN", "MN", parts, a_cols=cols, ws=ws)

    chains = [
        scores("P", d_qk, "Q"),
        scores("dP", D_V, "dO"),
        dkv("dKV_S", DKV_M, "dO", "S", "dKV", DKV_PARTS, v),
        dq("dQ", DQ_N, D_V // DQ_N, v),
        dkv("dKV_dS", DKV_M, "Q", "dS", "dKV", DKV_PARTS, v),
    ]
    if d_qk > D_V:
        chains += [dq("dQ_rope", 64, 1, rope), dkv("dKV_rope", 64, "Q", "dS", "dKV_rope", 1, rope)]
    return tuple(chains)


def _shared_memory(d_qk: int, form: str) -> tuple[tuple[SmemTile, ...], tuple[Barrier, ...], int]:
    """Tiles, delta, barriers, the TMEM base word; each operand tile on a 1024-byte boundary."""
    tiles: list[SmemTile] = []
    end = 0

    def add_tile(name: str, rows: int, cols: int, holds: str) -> None:
        nonlocal end
        tiles.append(
            SmemTile(name, end, rows * cols * OPERAND_BYTES, 1, rows, cols, form, "128B", "K", holds)
        )
        end += tiles[-1].bytes

    add_tile("Q", HEADS, d_qk, "the CTA's 64 heads of q")
    add_tile("dO", HEADS, D_V, "the CTA's 64 heads of dO")
    add_tile("KV", B_TOPK, d_qk, f"the k-block's 64 keys, zero where no key; after the last one dQ in {form}")
    add_tile("S", HEADS, B_TOPK, f"S of the CTA's heads, rounded to {form}")
    add_tile("dS", HEADS, B_TOPK, f"dS of the CTA's heads, rounded to {form}")
    tiles.append(
        SmemTile("delta", end, HEADS * F32_BYTES, 1, 1, HEADS, "f32", "none", "K", "delta of the CTA's heads")
    )
    end += tiles[-1].bytes

    barriers: list[Barrier] = []

    def add(
        name: str, stages: int, count: int, tx: int, by: str, to: str, *, once: bool = False, parts: int = 1
    ) -> None:
        nonlocal end
        barriers.append(Barrier(name, end, stages, count, tx, (0,), by, to, not once, parts))
        end += MBARRIER_BYTES * stages

    q, dO, kv = (tile.bytes for tile in tiles[:3])
    add("q_ready", 1, 1, q, "TMA of Q", "mma", once=True)
    add("do_ready", 1, 1, dO, "TMA of dO", "mma, dkv_export", once=True)
    add("delta_ready", 1, WARPGROUP, 0, "every dkv_export thread", "softmax", once=True)
    hi = B_TOPK * D_V // 2 * OPERAND_BYTES
    add("kv_lo_ready", 1, 1, kv - hi, "gather4", "mma")
    add("kv_hi_ready", HI_PARTS, 1, hi // HI_PARTS, "gather4", "mma", parts=HI_PARTS)
    add("kv_lo_free", 1, 1, 0, "commit of mma", "load")
    add("kv_hi_free", 1, 1, 0, "commit of mma", "load")
    add("p_ready", 1, 1, 0, "commit of mma", "softmax")
    add("dp_ready", 1, 1, 0, "commit of mma", "softmax")
    add("s_ready", 1, WARPGROUP, 0, "every softmax thread", "mma")
    add("ds_ready", 1, WARPGROUP, 0, "every softmax thread", "mma")
    add("dkv_ready", DKV_STAGES, 1, 0, "commit of mma", "dkv_export", parts=DKV_PARTS)
    add("dkv_free", DKV_STAGES, WARPGROUP, 0, "every dkv_export thread", "mma", parts=DKV_PARTS)
    if d_qk > D_V:
        add("rope_ready", 1, 1, 0, "commit of mma", "dkv_export")
    add("dq_ready", 1, 1, 0, "commit of mma, after the last k-block", "softmax", once=True)

    tiles.append(SmemTile("tmem_base", end, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned"))
    end += tiles[-1].bytes
    smem_bytes = -(-end // SMEM_ALIGNMENT) * SMEM_ALIGNMENT
    return tuple(tiles), tuple(barriers), smem_bytes
