"""Fault hypotheses: the values of a tile if a known mistake had been made.

Each hypothesis is evaluated in float64 like the stage itself and has its own derived bound, so that a cause
is accepted by the same comparison as a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.observe.observation import axis_words
from tileproof.conformance.observe.tiles import F64, Chain, Reference, StageTile
from tileproof.conformance.observe.words import plural
from tileproof.spec import numerics
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine import smem_layout
from tileproof.spec.machine.smem_layout import Major
from tileproof.spec.machine.swizzle import swizzle
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.faults import Alternative
from tileproof.spec.stage import Stage

COLUMN_TILE = 64
K_STEP = 16
ATOM_BYTES = 1024  # SBO: eight rows of 128 bytes
LBO = 16


@dataclass(frozen=True)
class Product:
    """A stage that sums products over a long axis: a [rows, K] with b [cols, K] (or row by row with b
    [rows, K]).
    """

    kind: str
    a: F64
    b: F64
    names: tuple[str, str]

    @staticmethod
    def of(stage: Stage, reference: Reference) -> Product | None:
        """The product behind a stage of two inputs that sums along their last axis; None for other stages."""
        if stage.kind not in ("matmul", "rowsum", "accumulate") or len(stage.inputs) != 2:
            return None
        first, second = stage.inputs
        if stage.kind == "accumulate" and not {stage.axes[n][-1] for n in stage.inputs} <= stage.contracted:
            return None
        a, b = (reference.operands[n].value for n in (first, second))
        return Product("rowsum" if stage.kind == "rowsum" else "matmul", a, b, (first, second))

    def value(self, columns: slice | npt.NDArray[np.int64] = slice(None)) -> F64:
        """The sum over `columns` of K, as [rows, cols]."""
        a, b = self.a[:, columns], self.b[:, columns]
        return a @ b.T if self.kind == "matmul" else (a * b).sum(axis=1, keepdims=True)

    def bound(self) -> F64:
        """The bound of this stage for these operands, as [rows, cols]."""
        a, b = Bounded(self.a), Bounded(self.b)
        if self.kind == "matmul":
            return BOUND.matmul(a, BOUND.transpose(b)).errors
        return BOUND.rowsum(a, b).errors[:, None]


@dataclass(frozen=True)
class Family:
    """A mistake that can hit any of the column tiles of the long axis: each tile then comes from `changed`.

    `words` gives the cause for the affected columns, given as text ("columns 0..63").
    """

    words: Callable[[str], str]
    changed: Product
    width: int = COLUMN_TILE


def whole_tiles(chain: Chain, tile: StageTile) -> Iterator[Alternative]:
    """Tiles of other coordinates that may have ended up here: k-blocks, groups, other CTAs' parts, old
    sums.
    """
    name, coord, problem = tile.stage, tile.coord, chain.problem
    stage, words = chain.stage(name), axis_words(problem, name)
    here = chain.reference(name, coord, tile.rows, tile.cols)

    def at(other: TileCoord) -> Reference:
        return chain.reference(name, other, *chain.region(name, other))

    if coord.k_block is not None and problem.walks(name):
        here_k = coord.k_block
        for other in sorted(range(_blocks(chain, coord.group)), key=lambda k: abs(k - here_k)):
            if other == here_k:
                continue
            there = at(replace(coord, k_block=other))
            if there.value.shape != here.value.shape:
                continue  # the last one may be cut short
            off = other - here_k
            how = f"{abs(off)} k-block{'s' if abs(off) > 1 else ''} {'behind' if off < 0 else 'ahead'}"
            yield Alternative(
                f"the tile is that of k-block {other}, {how} (stale buffer or k-block off by {off})",
                there.value,
                there.bound,
            )
            if stage.kind == "elementwise":
                continue
            yield Alternative(
                f"k-block {other} was added to this one: the accumulator was not cleared",
                here.value + there.value,
                2 * (here.bound + there.bound) + numerics.U_F32_RZ * (abs(here.value) + abs(there.value)),
            )
    for group in problem.groups(chain.inputs, chain.tiling):
        if group != coord.group and (coord.k_block is None or coord.k_block < _blocks(chain, group)):
            there = at(replace(coord, group=group))
            if there.value.shape == here.value.shape:
                yield Alternative(f"the tile is that of {problem.unit} {group}", there.value, there.bound)
    for cta in range(chain.tiling.ctas):
        if cta != coord.cta:
            there = at(replace(coord, cta=cta))
            if there.value.shape != here.value.shape:
                continue
            half = problem.words.get(problem.shared[0], "part") if chain.tiling.ctas == 2 else ""
            swapped = f": the halves of the {half}s are swapped" if half else ""
            yield Alternative(f"the tile is that of CTA {cta}{swapped}", there.value, there.bound)
    if len(stage.tile) == 2 and here.value.shape[0] == here.value.shape[1]:
        yield Alternative(
            f"the tile is transposed: rows are {plural(words[1])} and columns are {plural(words[0])}",
            here.value.T,
            here.bound.T,
        )


def _blocks(chain: Chain, group: int) -> int:
    return chain.problem.k_blocks(chain.inputs, chain.tiling, group)


def families(chain: Chain, tile: StageTile, product: Product) -> Iterator[Family]:
    """Mistakes that hit column tiles of the long axis: missing, doubled, stale, or misread by another
    layout.
    """
    a, b = product.names
    ctas = chain.tiling.ctas
    zero, double = replace(product, a=np.zeros_like(product.a)), replace(product, a=2 * product.a)
    yield Family(lambda c: f"the contribution of {c} is missing", zero)
    yield Family(lambda c: f"the contribution of {c} was added twice", double)
    yield Family(lambda c: f"the contribution of {c} was subtracted", replace(product, a=-product.a))
    yield from _stale_families(chain, tile, product)
    if product.kind == "rowsum":
        yield Family(lambda c: f"{c}: {a} * {a} instead of {a} * {b}", replace(product, b=product.a))
        yield Family(lambda c: f"{c}: {b} * {b} instead of {a} * {b}", replace(product, a=product.b))
    single = []
    for label, layout in LAYOUTS.items() if _swizzled(chain.stage(tile.stage), product, ctas) else ():
        read_a, read_b = layout(product.a, 1), layout(product.b, ctas if product.kind == "matmul" else 1)
        if product.kind == "matmul":
            yield Family(_misread(a, label), replace(product, a=read_a))
            yield Family(_misread(f"{a} and {b}", label), replace(product, a=read_a, b=read_b))
            single += [Family(_misread(a, label), replace(product, a=read_a), K_STEP)]
            # The CTAs share out the rows of b, or its columns.
            for parts in dict.fromkeys((ctas, 1)):
                single += [Family(_misread(b, label), replace(product, b=layout(product.b, parts)), K_STEP)]
        yield Family(_misread(b, label), replace(product, b=read_b))
    yield Family(lambda c: f"the contribution of {c} is missing", zero, K_STEP)
    yield Family(lambda c: f"the contribution of {c} was added twice", double, K_STEP)
    yield from single
    length = product.a.shape[1]
    for first in range(0, length, COLUMN_TILE) if length % COLUMN_TILE == 0 else ():
        source = np.tile(np.arange(first, first + COLUMN_TILE), length // COLUMN_TILE)
        yield Family(_of_columns(a, first), replace(product, a=product.a[:, source]))
        yield Family(_of_columns(b, first), replace(product, b=product.b[:, source]))


def _swizzled(stage: Stage, product: Product, ctas: int) -> bool:
    """Whether the operands can lie in shared memory as `_reread` assumes: 16-bit, whole column tiles."""
    narrow = all(stage.reads[name].name in ("bf16", "f16") for name in product.names)
    rows = len(product.b) % (ctas if product.kind == "matmul" else 1)
    return narrow and product.a.shape[1] % COLUMN_TILE == 0 and rows == 0


def _misread(operand: str, label: str) -> Callable[[str], str]:
    return lambda columns: f"{columns} of operand {operand}: {label}"


def _stale_families(chain: Chain, tile: StageTile, product: Product) -> Iterator[Family]:
    coord, (a, b) = tile.coord, product.names

    def operand(name: str, other: TileCoord) -> F64 | None:
        value: F64 = chain.operands(tile.stage, other, *chain.region(tile.stage, other))[name].value
        return value if value.shape == (product.a if name == a else product.b).shape else None

    if coord.k_block is not None:
        for other in range(_blocks(chain, coord.group)):
            if other != coord.k_block:
                rows = operand(b, replace(coord, k_block=other))
                if rows is not None:
                    yield Family(_of_block(b, other), replace(product, b=rows))
    for group in chain.problem.groups(chain.inputs, chain.tiling):
        if group != coord.group and (coord.k_block is None or coord.k_block < _blocks(chain, group)):
            rows = operand(a, replace(coord, group=group))
            if rows is not None:
                yield Family(_of_group(a, f"{chain.problem.unit} {group}"), replace(product, a=rows))


def _of_columns(operand: str, first: int) -> Callable[[str], str]:
    those = f"its columns {first}..{first + COLUMN_TILE - 1}: a wrong address"
    return lambda columns: f"{columns} of operand {operand} are {those}"


def _of_block(operand: str, other: int) -> Callable[[str], str]:
    return lambda columns: f"{columns} of operand {operand} are those of k-block {other} (stale buffer)"


def _of_group(operand: str, other: str) -> Callable[[str], str]:
    return lambda columns: f"{columns} of operand {operand} are those of {other}"


def _reread(operand: F64, parts: int, write: str, read: str, major: Major, advance: float = 1) -> F64:
    """What an MMA reads when a K-major tile stored with swizzle `write` is described as `major` with swizzle
    `read`.

    `operand` [mn, K] is stored as column tiles of 64 in each of `parts` CTAs; the MMA takes 16 columns per
    step and moves its start address by 32 bytes times `advance`. LBO and SBO keep the values of the K-major
    128B layout (16 and 1024).
    """
    rows = operand.shape[0] // parts
    result = np.zeros_like(operand)
    mn, k = np.meshgrid(np.arange(rows), np.arange(COLUMN_TILE), indexing="ij")
    stored = swizzle(write, mn * 2 * COLUMN_TILE + 2 * k)
    steps = [
        smem_layout.address(
            major, read, int(2 * advance * first), LBO, ATOM_BYTES, mn[:, :K_STEP], k[:, :K_STEP]
        )
        for first in range(0, COLUMN_TILE, K_STEP)
    ]
    wanted = np.concatenate(steps, axis=1)
    for part in range(parts):
        for first in range(0, operand.shape[1], COLUMN_TILE):
            image = np.zeros(max(int(stored.max()), int(wanted.max())) // 2 + 1)
            block = np.s_[part * rows : (part + 1) * rows, first : first + COLUMN_TILE]
            image[stored // 2] = operand[block]
            result[block] = image[wanted // 2]
    return result


def _layout(write: str, read: str, major: Major, advance: float = 1) -> Callable[[F64, int], F64]:
    return lambda operand, parts: _reread(operand, parts, write, read, major, advance)


LAYOUTS: dict[str, Callable[[F64, int], F64]] = {
    "stored without swizzle but read with the 128B swizzle": _layout("none", "128B", "K"),
    "read without the 128B swizzle that it is stored with": _layout("128B", "none", "K"),
    "read with the 64B instead of the 128B swizzle": _layout("128B", "64B", "K"),
    "read with the 32B instead of the 128B swizzle": _layout("128B", "32B", "K"),
    "read transposed (MN-major instead of K-major)": _layout("128B", "128B", "MN"),
    "read at half the distance between K steps": _layout("128B", "128B", "K", 0.5),
}
