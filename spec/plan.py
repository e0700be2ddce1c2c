"""A kernel plan: warp roles, barriers, memory maps, MMAs and where each stage can be observed.

A plan is data. The generated header (`spec.header`) turns it into the constants that the C++ kernel takes,
the conformance suite reads from it where a stage lies and which barrier phase publishes it, and `docs/`
prints it. Offsets are bytes from the start of the CTA's dynamic shared memory; TMEM columns count from the
first column of the CTA's own allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array

if TYPE_CHECKING:
    from tileproof.spec.problems.base import ProblemType

Swizzle = Literal["none", "32B", "64B", "128B"]


@dataclass(frozen=True)
class WarpRole:
    """Warps `first_warp` .. `first_warp + warps - 1` of each CTA in `ctas` do one job."""

    name: str
    first_warp: int
    warps: int
    ctas: tuple[int, ...]
    does: str


@dataclass(frozen=True)
class Barrier:
    """An mbarrier (or an array of `stages` of them), its arrivals and bytes per phase.

    `count` is the mbarrier's expected arrival count, `tx_bytes` the bytes that complete_tx delivers per
    phase (0: none; `first_tx_bytes` where the first one of stage 0 brings more), `ctas` the ranks whose copy
    is used. When `per_k_block`, phase n of stage b belongs to k-block (n * stages + b) // parts, else the
    barrier completes once.
    """

    name: str
    offset: int
    stages: int
    count: int
    tx_bytes: int
    ctas: tuple[int, ...]
    producers: str
    consumers: str
    per_k_block: bool
    parts: int = 1
    first_tx_bytes: int = 0

    def offset_of(self, stage: int) -> int:
        """Byte offset of stage `stage`'s 8-byte mbarrier object."""
        if not 0 <= stage < self.stages:
            raise IndexError(f"{self.name} has {self.stages} stages, not {stage}")
        return self.offset + 8 * stage


@dataclass(frozen=True)
class SmemTile:
    """One tile in shared memory: `rows` x `cols` elements, `stages` buffers of it, each `bytes` long.

    `within` names the tile whose bytes it uses at another time.
    """

    name: str
    offset: int
    bytes: int
    stages: int
    rows: int
    cols: int
    dtype: str
    swizzle: Swizzle
    major: Literal["K", "MN"]
    holds: str
    within: str = ""


@dataclass(frozen=True)
class TmemTile:
    """One accumulator or operand in tensor memory: `columns` columns from `column`, `stages` of them.

    `within` names the tile whose cells it uses at another time. A tile of f16 is an operand: two elements
    along K in one cell (PTX ISA, tcgen05 matrices in tensor memory). `lane`: its first one, 16 for a second
    tile in the lanes that one of layout C or F leaves free.
    """

    name: str
    column: int
    columns: int
    stages: int
    layout: Literal["A", "B", "D", "E", "F", "G"]
    holds: str
    within: str = ""
    dtype: Literal["f32", "f16", "bf16"] = "f32"
    lane: int = 0


@dataclass(frozen=True)
class Mma:
    """One MMA chain: D += A B over `k` elements in steps of 16, shape (m, n) of the whole instruction.

    The chain is repeated for `parts` consecutive windows of the operand that is read along its tile's columns
    for m or n. `a_cols` and `b_cols` are the ranges of columns of the operands' tiles that all parts together
    read (None: all of them). An operand whose major is not its tile's is read transposed. `ws`: the
    weight-stationary form (tcgen05.mma.ws).
    """

    name: str
    kind: str
    cta_group: int
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    a_major: Literal["K", "MN"]
    b_major: Literal["K", "MN"]
    parts: int = 1
    a_cols: tuple[int, int] | None = None
    b_cols: tuple[int, int] | None = None
    ws: bool = False


@dataclass(frozen=True)
class TmemObservation:
    """Stage `stage` lies in `tile` stage b when `barrier`[b] completes phase p: publication p * stages + b.

    Publication i is k-block i // parts, and of it the columns [first_col + w (i % parts), + w) of the stage's
    tile. A stage that sums over the k-blocks is what the publication of the last k-block shows. The MMA that
    writes `tile` is [stage's rows, w], or when `transposed` [w, stage's rows].

    Of a stage whose tile is the whole cluster's (`KernelPlan.cluster_wide`) the CTA of rank r publishes
    columns that begin r * `rank_cols` further; `summed`: every CTA publishes a term, the stage is their sum
    in f32.

    `buffer`: which of the tile's buffers is shown, where the barrier's stages are not the tile's.
    """

    stage: str
    tile: str
    barrier: str
    parts: int = 1
    first_col: int = 0
    transposed: bool = False
    rank_cols: int = 0
    summed: bool = False
    buffer: int | None = None

    def buffer_of(self, stage: int, tile: TmemTile) -> int:
        """The buffer of `tile` that lies open when stage `stage` of the barrier completes."""
        return stage % tile.stages if self.buffer is None else self.buffer


@dataclass(frozen=True)
class SmemObservation:
    """Stage `stage` of k-block phase * barrier.stages + b lies in shared-memory `tile` stage b when
    `barrier`[b] completes, in the tile's dtype and layout; `transposed`: its rows are the stage's columns.
    Where every CTA has the rows of all, those of rank r begin at r * `rank_rows`.
    """

    stage: str
    tile: str
    barrier: str
    transposed: bool = False
    rank_rows: int = 0


@dataclass(frozen=True)
class OutputObservation:
    """Stage `stage` is the launch's output parameter `parameter`, indexed as `indexed` says.

    `negated`: with the other sign. `cleared`: rows that tiles are added to are set to zero by the kernel's
    own host code, not by the caller.
    """

    stage: str
    parameter: str
    indexed: str
    negated: bool = False
    cleared: bool = False


@dataclass(frozen=True)
class FinishedObservation:
    """A later launch's output from accumulated rows: output `parameter`, indexed as `indexed` says, is output
    `source`, to which tiles of `stage` are added, times the ground datum `factor` ("": none), rounded to its
    own dtype.
    """

    stage: str
    parameter: str
    indexed: str
    source: str
    factor: str = ""


# ``total + a b`` in f32, bit for bit as a driver's tensor cores add 16 products at a time in order of k.
# The last argument: the operands are f16.
Products = Callable[[npt.NDArray[np.float32], Array, Array, bool], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class ProductOrder:
    """In which order the products of MMA stage `stage` are added in its accumulator: 16 at a time as k
    ascends, one k-block after the other.

    `operands`: of a stage with several products, inputs that distinguish them, in order of issue. `runs`:
    where k does not simply ascend, its ranges (first, end) in order of issue, for each accumulator; what
    several accumulators hold is added in f32.
    """

    stage: str
    operands: tuple[str, ...] = ()
    runs: tuple[tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True)
class LaneOrder:
    """How the rows of stage `stage`, a sum over products of columns, are added in f32: each of `lanes` lanes
    adds the products of its `vector` neighbouring columns of an access by FMA, access after access; the lanes
    add what they have over halving distances. Each of `parts` equal runs of columns is added so; their sums
    are added in f32, first part first.
    """

    stage: str
    parts: int = 1
    lanes: int = 32
    vector: int = 8


@dataclass(frozen=True)
class KernelPlan:
    """Everything that a kernel and its checks must agree on, for a variant.

    `problem` is the problem type, `sizes` those of its sizes that the kernel is made for, `block` is how
    many elements of the problem's walked axis a k-block has.
    """

    name: str
    problem: ProblemType
    block: int
    cluster: int
    threads: int
    smem_bytes: int
    stages: tuple[str, ...]
    observations: tuple[TmemObservation | SmemObservation | OutputObservation | FinishedObservation, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    probes: tuple[OutputObservation, ...] = ()
    # Sums over the k-blocks, after each of them: publication i shows what k-blocks 0 .. i add up to. A commit
    # that frees the operands of a k-block publishes its accumulator too (PTX ISA, tcgen05.commit).
    partials: tuple[TmemObservation, ...] = ()
    roles: tuple[WarpRole, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    smem: tuple[SmemTile, ...] = ()
    tmem: tuple[TmemTile, ...] = ()
    tmem_columns: int = 0
    mmas: tuple[Mma, ...] = ()
    ordered: tuple[ProductOrder, ...] = ()  # of other stages any order of the products is right
    sums_in_order: tuple[LaneOrder, ...] = ()  # the same of sums that no tensor core adds
    # CTAs' parts of the shared axes, where they are the plan's affair: (axis, elements, CTAs along it).
    shape: tuple[tuple[str, int, int], ...] = ()
    cluster_shape: tuple[int, int, int] | None = None  # None: all CTAs of a cluster along x
    # Stages with one tile for the whole cluster: its CTAs have columns of it, or terms of a sum.
    cluster_wide: tuple[str, ...] = ()
    refuses: tuple[tuple[str, str], ...] = ()  # features that the kernel does not take, and why
    elements_below: int = 0  # of a tensor, where the kernel's offsets have fewer than 64 bits; 0: no limit
    unordered: tuple[str, ...] = ()  # outputs whose sums have no fixed order: a second launch may differ
    unseen: tuple[str, ...] = ()  # stages that the kernel computes and nothing shows, on any driver

    def size(self, name: str) -> int:
        """Return the size `name`; the KeyError lists the known sizes."""
        sizes = dict(self.sizes)
        if name not in sizes:
            raise KeyError(f"no size {name!r}; there are {', '.join(sizes)}")
        return sizes[name]

    @property
    def sums_with_order(self) -> tuple[ProductOrder | LaneOrder, ...]:
        """Every stated order of additions."""
        return (*self.ordered, *self.sums_in_order)

    @property
    def cluster_dims(self) -> tuple[int, int, int]:
        """CTAs of a cluster along each axis of the grid."""
        return self.cluster_shape or (self.cluster, 1, 1)

    def cluster_of(self, cta: tuple[int, int, int]) -> tuple[int, int, int]:
        """The cluster that a CTA belongs to, counted in clusters."""
        x, y, z = (at // size for at, size in zip(cta, self.cluster_dims, strict=True))
        return x, y, z

    def rank_of(self, cta: tuple[int, int, int]) -> int:
        """The CTA's rank in its cluster (PTX ISA, %cluster_ctarank): x counts fastest."""
        x, y, z = (at % size for at, size in zip(cta, self.cluster_dims, strict=True))
        return x + self.cluster_dims[0] * (y + self.cluster_dims[1] * z)

    @property
    def depth(self) -> int:
        """Stages of the deepest ring."""
        return max((barrier.stages for barrier in self.barriers), default=1)

    @cached_property
    def barrier_offsets(self) -> Mapping[int, tuple[Barrier, int]]:
        """Each mbarrier and its stage, by its byte offset in dynamic shared memory; the first where two lie
        at one.
        """
        found: dict[int, tuple[Barrier, int]] = {}
        for barrier in self.barriers:
            for stage in range(barrier.stages):
                found.setdefault(barrier.offset_of(stage), (barrier, stage))
        return found

    def barrier(self, name: str) -> Barrier:
        """Return the barrier `name`; the KeyError lists the known barriers."""
        return _named(self.barriers, name)

    def smem_tile(self, name: str) -> SmemTile:
        """The shared-memory tile called `name`."""
        return _named(self.smem, name)

    def tmem_tile(self, name: str) -> TmemTile:
        """The tensor-memory tile called `name`."""
        return _named(self.tmem, name)


def _named(items, name: str):  # type: ignore[no-untyped-def]
    for item in items:
        if item.name == name:
            return item
    raise KeyError(f"no {name!r}; there are {', '.join(item.name for item in items)}")
