"""The plan of `cutlass-fmha-bwd`: the backward of CUTLASS example 77, one CTA a block of 128 keys.

Of the example's three launches this is the second; the first gives it delta, negated, and lse times -log2(e),
the third rounds dQ. Rows of the products with keys along M are keys: P, S, dP and dS lie transposed.

Of `cutlass-fmha-bwd-mla` (heads of up to 192 columns, values of up to 128) a k-block is 64 queries, and rows
of P and dP are queries: 64 rows take 16 lanes of each 32, P those that dP and dQ leave free. S lies in shared
memory, transposed as dS does.

TMEM cells are used twice: S (an operand, two columns of it in one of the tensor memory) overwrites P, and dQ
of a k-block overwrites its dP. Tiles and barriers lie as the example's `SharedStorage` has them, which
kernels/sm100/cutlass_fmha_bwd/kernel.cu asserts individually.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.mbarrier import MBARRIER_BYTES
from tileproof.spec.plan import (
    Barrier,
    FinishedObservation,
    KernelPlan,
    Mma,
    OutputObservation,
    SmemObservation,
    SmemTile,
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.problems.dense_attention_bwd.problem import PROBLEMS, DenseAttentionBwd

NAME = "cutlass-fmha-bwd"
BY_KEY_BLOCK = {problem.operand.name: problem for problem in PROBLEMS if problem.by_key_block}
D_TILES = (64, 128)  # columns of a head that a build is made for, at most
MLA_TILE, MLA_VALUES, MLA_BLOCK = 192, 128, 64  # the same of q and k, and of v; queries of a k-block
BLOCK = 128  # queries of a k-block, and keys of a CTA
MASKS = ("none", "causal from the top left", "causal from the bottom right")

# Features of spec/problems/dense_attention_bwd/features.py.
REFUSES = (
    ("a bias", "the example has none"),
    ("dropout", "the example has none"),
    ("a sliding window", "the example has none"),
    ("heads wider than 128", "its tensor memory holds no more"),
)
OF_MLA = "another kernel of the example has it: cutlass-fmha-bwd-mla"
EQUAL_HEADS = (("a value head of its own", OF_MLA),)
MLA_REFUSES = (("grouped heads", "this kernel of the example takes a key head for each query head"),)

# Its strides and the offsets that it makes of them are int, as is the number of elements that it clears.
ELEMENTS_BELOW = 2**31
NOT_PACKED = ("packed sequences", "another build of it has them: cutlass-fmha-bwd-packed")


@dataclass(frozen=True)
class Build:
    """What the example is instantiated for: its form of operands, and whether sequences are packed."""

    form: Literal["f16", "bf16"] = "f16"
    packed: bool = False
    mla: bool = False  # heads of values of their own

    @property
    def tiles(self) -> tuple[int, ...]:
        """The columns of a head that it is built for, at most."""
        return (MLA_TILE,) if self.mla else D_TILES

    @property
    def name(self) -> str:
        """The kernel's name."""
        words = (("mla", self.mla), ("bf16", self.form == "bf16"), ("packed", self.packed))
        return NAME + "".join(f"-{word}" for word, chosen in words if chosen)

    @property
    def problem(self) -> DenseAttentionBwd:
        """Its problem type."""
        return BY_KEY_BLOCK[self.form]


PLAIN = Build()
BUILDS = (PLAIN, Build("bf16"), Build(packed=True), Build(mla=True))

COMPUTE_THREADS = 256
REDUCE_THREADS = 128
LOAD_THREADS = 32
Q_STAGES = 2
DQ_COLUMNS = 32
DQ_STAGES = 2
F16_BYTES, F32_BYTES = 2, 4
TILE_ALIGNMENT = 2048  # alignas of the example's operand tiles
PIPELINE_ALIGNMENT = 16
ONE = (0,)


def plan(d_tile: int, causal: int, name: str = NAME, build: Build = PLAIN) -> KernelPlan:
    """The plan of `build` for heads of at most `d_tile` columns; `causal` is an index of `MASKS`."""
    if d_tile not in build.tiles or causal not in range(len(MASKS)):
        raise TileproofError(
            f"{NAME} has no plan for this build",
            where="d_tile, causal",
            expected=f"d_tile {' or '.join(map(str, build.tiles))}, causal 0 to {len(MASKS) - 1}",
            found=f"{d_tile}, {causal}",
        )
    d_v = MLA_VALUES if build.mla else d_tile
    queries = MLA_BLOCK if build.mla else BLOCK
    smem, end = _tiles(d_tile, d_v, queries, build)
    barriers, end = _barriers(smem, end)
    word = SmemTile("tmem_base", end, 4, 1, 1, 1, "u32", "none", "K", "what tcgen05.alloc returned")
    return KernelPlan(
        name=name,
        problem=build.problem,
        sizes=(
            ("another_d_v", int(build.mla)),
            ("bf16", int(build.form == "bf16")),
            ("causal", causal),
            ("d_tile", d_tile),
            ("packed", int(build.packed)),
        ),
        block=queries,
        cluster=1,
        threads=512,
        smem_bytes=end + word.bytes,
        tmem_columns=512,
        stages=("delta", "P", "S", "dP", "dS", "dQ", "dK_acc", "dK", "dV_acc", "dV"),
        roles=(
            WarpRole(
                "reduce", 0, 4, ONE, "dQ from TMEM through shared memory; adds it to global dQ_acc by TMA"
            ),
            WarpRole("compute", 4, 8, ONE, "S from P, dS from dP; at the end dV and dK; frees TMEM"),
            WarpRole("mma", 12, 1, ONE, "allocates TMEM; issues every MMA"),
            WarpRole("load", 13, 1, ONE, "K, V, Q and dO by TMA, lse and delta by cp.async"),
            WarpRole("empty", 14, 2, ONE, "nothing"),
        ),
        barriers=barriers,
        smem=(*smem, word),
        tmem=_tmem(d_tile, d_v, build),
        mmas=_mmas(d_tile, d_v, queries, build),
        observations=(
            OutputObservation("delta", "delta", "[sequence, h, query]", negated=True),
            TmemObservation("P", tile="P", barrier="logits_ready", transposed=not build.mla),
            SmemObservation("S", tile="S", barrier="softmax_ready", transposed=True)
            if build.mla
            else TmemObservation("S", tile="S", barrier="softmax_ready", transposed=True),
            TmemObservation("dP", tile="dP", barrier="dp_ready", transposed=not build.mla),
            SmemObservation("dS", tile="dS", barrier="ds_ready", transposed=True),
            TmemObservation("dQ", tile="dQ", barrier="dq_ready"),
            TmemObservation("dK_acc", tile="dK_acc", barrier="dk_ready"),
            TmemObservation("dV_acc", tile="dV_acc", barrier="dv_ready"),
            OutputObservation("dQ", "dQ_acc", "[rows, d_qk]", cleared=True),
            OutputObservation("dK", "dK", "[b, h_kv, n, d_qk]"),
            OutputObservation("dV", "dV", "[b, h_kv, n, d_v]"),
            FinishedObservation("dQ", "dQ", "[b, h, m, d_qk]", source="dQ_acc", factor="sm_scale"),
        ),
        partials=(
            TmemObservation("dK_acc", tile="dK_acc", barrier="ds_free", buffer=0),
            TmemObservation("dV_acc", tile="dV_acc", barrier="softmax_free", buffer=0),
        ),
        shape=(("n", BLOCK, 1),),
        refuses=(
            *(MLA_REFUSES if build.mla else EQUAL_HEADS),
            *REFUSES[: 3 if build.mla else None],
            *(() if build.packed else (NOT_PACKED,)),
        ),
        elements_below=ELEMENTS_BELOW,
    )


def _tmem(d_tile: int, d_v: int, build: Build) -> tuple[TmemTile, ...]:
    """`TmemAllocation`."""
    first = d_tile + d_v
    sums = (
        TmemTile("dK_acc", 0, d_tile, 1, "D", "dS^T q, f32"),
        TmemTile("dV_acc", d_tile, d_v, 1, "D", "S^T dO, f32"),
    )
    if build.mla:
        return (
            *sums,
            TmemTile("dQ", first, d_tile, 1, "F", "dS k of the k-block, f32"),
            TmemTile("dP", first, BLOCK, 1, "F", "dO v^T, f32", within="dQ"),
            TmemTile("P", first, BLOCK, 1, "F", "q k^T, f32", lane=16),
        )
    at, half = first + BLOCK, BLOCK // 2
    return (
        *sums,
        TmemTile("dP", first, BLOCK, 1, "D", "v dO^T, f32: dP transposed"),
        TmemTile("dQ", first, d_tile, 1, "D", "dS k of the k-block, f32", within="dP"),
        TmemTile("P", at, BLOCK, 1, "D", "k q^T, f32: P transposed"),
        TmemTile("S", at, half, 1, "D", "S transposed, an operand", within="P", dtype=build.form),
    )


def _mmas(d_tile: int, d_v: int, queries: int, build: Build) -> tuple[Mma, ...]:
    p, dp = ("Q", "K"), ("dO", "V")
    if not build.mla:
        p, dp = p[::-1], dp[::-1]
    return (
        Mma("P", "f16", 1, queries, BLOCK, d_tile, *p, "P", "K", "K"),
        Mma("dP", "f16", 1, queries, BLOCK, d_v, *dp, "dP", "K", "K"),
        Mma("dV", "f16", 1, BLOCK, d_v, queries, "S", "dO", "dV_acc", "K", "MN"),
        Mma("dQ", "f16", 1, queries, d_tile, BLOCK, "dS", "K", "dQ", "MN", "MN"),
        Mma("dK", "f16", 1, BLOCK, d_tile, queries, "dS", "Q", "dK_acc", "K", "MN"),
    )


def _tiles(d_tile: int, d_v: int, queries: int, build: Build) -> tuple[tuple[SmemTile, ...], int]:
    """`TensorStorage`: the tiles, and where the pipelines' barriers begin."""
    tiles: list[SmemTile] = []
    end = 0

    def add(name: str, rows: int, cols: int, stages: int, holds: str) -> None:
        nonlocal end
        end = -(-end // TILE_ALIGNMENT) * TILE_ALIGNMENT
        size = rows * cols * F16_BYTES
        tiles.append(SmemTile(name, end, size, stages, rows, cols, build.form, "128B", "K", holds))
        end += size * stages

    add("K", BLOCK, d_tile, 1, "the CTA's 128 keys of k, zero beyond the last key")
    add("V", BLOCK, d_v, 1, "the same of v")
    add("Q", queries, d_tile, Q_STAGES, "the k-block's queries of q, zero beyond the last query")
    add("dO", queries, d_v, 1, "the same of dO")
    add("dS", BLOCK, queries, 1, "dS transposed, rounded: a row is a key")
    if build.mla:
        add("S", BLOCK, queries, 1, "S transposed, rounded: a row is a key")
    staged = queries * DQ_COLUMNS * F32_BYTES
    tiles.append(
        SmemTile(
            "dQ_out", end, staged, DQ_STAGES, queries, DQ_COLUMNS, "f32", "128B", "K", "32 columns of dQ"
        )
    )
    end += staged * DQ_STAGES
    for name, holds in (("lse", "lse times -log2(e)"), ("delta", "delta, negated")):
        size = queries * F32_BYTES
        tiles.append(
            SmemTile(name, end, size, 1, 1, queries, "f32", "none", "K", f"{holds}, of the k-block's queries")
        )
        end += size
    return tuple(tiles), -(-end // TILE_ALIGNMENT) * TILE_ALIGNMENT


def _barriers(smem: tuple[SmemTile, ...], start: int) -> tuple[tuple[Barrier, ...], int]:
    """`PipelineStorage`: for each pipeline first the full barriers, then the free barriers."""
    found: list[Barrier] = []
    end = start
    bytes_of = {tile.name: tile.bytes for tile in smem}
    q, do = bytes_of["Q"], bytes_of["dO"]

    def add(
        name: str, stages: int, counts: tuple[int, int], by: str, to: str, *, tx: int = 0, first: int = 0
    ) -> None:
        nonlocal end
        end = -(-end // PIPELINE_ALIGNMENT) * PIPELINE_ALIGNMENT
        for suffix, count, bytes_, more in (("ready", counts[0], tx, first), ("free", counts[1], 0, 0)):
            who = (by, to) if suffix == "ready" else (to, by)
            found.append(
                Barrier(f"{name}_{suffix}", end, stages, count, bytes_, ONE, *who, True, first_tx_bytes=more)
            )
            end += MBARRIER_BYTES * stages

    add("q", Q_STAGES, (1, 1), "TMA of Q, the first time of K too", "mma", tx=q, first=q + bytes_of["K"])
    add("do", 1, (1, 1), "TMA of dO, the first time of V too", "mma", tx=do, first=do + bytes_of["V"])
    add("lse", 1, (LOAD_THREADS, COMPUTE_THREADS), "cp.async of load", "compute")
    add("delta", 1, (LOAD_THREADS, COMPUTE_THREADS), "cp.async of load", "compute")
    add("logits", 1, (1, COMPUTE_THREADS), "commit of mma", "compute")
    add("dp", 1, (1, COMPUTE_THREADS), "commit of mma", "compute")
    add("dq", 1, (1, REDUCE_THREADS), "commit of mma", "reduce")
    add("softmax", 1, (COMPUTE_THREADS, 1), "every compute thread", "mma")
    add("ds", 1, (COMPUTE_THREADS, 1), "every compute thread", "mma")
    for suffix, count, by, to in (
        ("ready", 1, "commit of mma, after the last k-block", "compute"),
        ("free", COMPUTE_THREADS, "every compute thread", "nobody"),
    ):
        for what in ("dv", "dk"):  # the two stages of one pipeline
            found.append(Barrier(f"{what}_{suffix}", end, 1, count, 0, ONE, by, to, False))
            end += MBARRIER_BYTES
    return tuple(found), end
