"""Stage tiles: the observation (`StageTile`) and its expected values (`Reference`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation, Shared
from tileproof.spec.arithmetic import F32, Form
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.terms import Bounded, Sum
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import ProblemInputs

F64 = npt.NDArray[np.float64]
Key = tuple[str, TileCoord]
Operands = Mapping[str, OwnTerm]


@dataclass(frozen=True)
class StageTile:
    """One observed tile: `value` and `written` are [rows, cols], and so are the places, where they are known.

    `rows` and `cols` are of the axes of the stage's tile, as `ProblemType.region` counts them (one column
    where the tile has one axis). A stage that contracts a shared axis is what the CTA's own part of it
    contributes. An element that was never
    written, or that was not legally visible when its barrier completed, has `written` false. `operand`: the
    bf16 copy that MMAs read. `lane` and `tmem_column` are places in tensor memory, `smem` byte offsets in the
    CTA's dynamic shared memory.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: Array
    written: npt.NDArray[np.bool_]
    lane: npt.NDArray[np.int64] | None = None
    tmem_column: npt.NDArray[np.int64] | None = None
    smem: npt.NDArray[np.int64] | None = None
    operand: bool = False

    @property
    def key(self) -> Key:
        return self.stage, self.coord


@dataclass(frozen=True)
class Reference:
    """The float64 value of a tile, how far a correct kernel may be from it, and the operands of both.

    `may_be_nan`: where NaN is a correct outcome too, if the bound is infinite, as an operand may be infinite.
    `held`: a narrower interval, where more is known than the bound (`conformance.compare.held`).
    A value of NaN that no infinite operand explains must be found: it was an operand's.
    """

    value: F64
    bound: F64
    may_be_nan: npt.NDArray[np.bool_] | bool = False
    _operands: Callable[[], Operands] = field(default=dict, repr=False)
    held: Bounded | None = None

    @cached_property
    def operands(self) -> Operands:
        """The inputs of the tile's stage, as terms of the bound arithmetic."""
        return self._operands()


class Chain(Evaluation):
    """The stage graph over one problem, evaluated on the inputs that the kernel itself had.

    Assume-guarantee: an input that is an earlier stage is taken from `own_tiles` where the kernel's own tile
    is known. A stage whose f32 value never leaves the registers, or which this launch does not show at all,
    is evaluated from its own inputs, with its own error. A tile that should have been observed but was not
    written makes the bounds of dependent tiles infinite: these are then compared only with the whole chain.
    """

    def __init__(
        self,
        inputs: ProblemInputs,
        own_tiles: Mapping[Key, StageTile] | None = None,
        shared: Shared | None = None,
        *,
        problem: ProblemType,
        tiling: Tiling,
    ) -> None:
        super().__init__(problem, inputs, tiling, BOUND, shared)
        self.own_tiles: Mapping[Key, StageTile] = {} if own_tiles is None else own_tiles
        self._seen = {name for name, _ in self.own_tiles}
        self._blocks: dict[tuple[str, int, int | None, int], Bounded] = {}
        self._sums: dict[tuple[str, int, int | None, int], Bounded] = {}

    def reference(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Reference:
        """Value and bound of stage `name` over `rows` and `cols` as `StageTile` counts them, 2-D."""
        term = self.judged(name, coord)
        at = self.span(name, coord.group, rows, cols)
        return Reference(
            columns(term.value[at]),
            columns(term.errors[at]),
            False if term.may_be_nan is None else columns(term.may_be_nan[at]),
            lambda: self.operands(name, coord, rows, cols),
        )

    def whole_of(self, name: str, coord: TileCoord) -> tuple[str, int, int | None]:
        """What is evaluated together with this tile: its stage, its group, its CTA if each has its own."""
        return name, coord.group, coord.cta if self.partial(name) else None

    def is_partial_sum(self, name: str, coord: TileCoord) -> bool:
        """Whether a tile is what the k-blocks up to its own one add up to."""
        cut = self.problem.walked in self.stage(name).tile  # its tiles are parts of it, not sums
        return coord.k_block is not None and not cut and not self.problem.walks(name)

    def contribution(self, name: str, coord: TileCoord, k_block: int) -> Bounded:
        """What a k-block adds to a stage that sums over them, over the tile's group, in f32."""
        key = (*self.whole_of(name, coord), k_block)
        if key not in self._blocks:
            self._blocks[key] = self.over_blocks(*self.whole_of(name, coord), k_block, k_block + 1).value
        return self._blocks[key]

    def partial_sum(self, name: str, coord: TileCoord, k_block: int) -> Bounded:
        """The stage over k-blocks 0 .. `k_block`, over the tile's group, in f32."""
        whole = self.whole_of(name, coord)
        if k_block + 1 == self.problem.k_blocks(self.inputs, self.tiling, coord.group):
            return cast(Bounded, self.whole(*whole).value)
        if (*whole, k_block) not in self._sums:
            own = self.contribution(name, coord, k_block)
            before = self.partial_sum(name, coord, k_block - 1) if k_block else None
            if before is not None:
                if isinstance(before, Sum) and isinstance(own, Sum):
                    own = before.joined(own)
                else:  # what is made of the sum afterwards does not add up
                    own = self.over_blocks(*whole, 0, k_block + 1).value
            self._sums[*whole, k_block] = own
        return self._sums[*whole, k_block]

    def judged(self, name: str, coord: TileCoord) -> Bounded:
        """The stage over the tile's group: its f32 value, or the rounded copy if that is what is seen; of a
        partial sum the f32 value of the k-blocks up to the tile's.
        """
        if self.is_partial_sum(name, coord):
            return self.partial_sum(name, coord, coord.k_block or 0)
        computed = self.whole(*self.whole_of(name, coord))
        own = self.own_tiles.get((name, coord))
        copied = computed.copy is not None and (own is None or own.operand or own.value.dtype.itemsize == 2)
        term: OwnTerm = computed.copy if copied else computed.value
        return cast(Bounded, term)

    def earlier(self, name: str, group: int, form: Form) -> OwnTerm:
        """The kernel's own input, if it was observed in that form."""
        key = (name, group, form)
        if key not in self._given:
            tiles = {coord: self.own_tiles.get((name, coord)) for coord in self.coordinates(name, group)}
            only_copies = any(tile is not None and tile.operand for tile in tiles.values())
            if name not in self._seen or (form == F32 and only_copies):
                self._given[key] = super().earlier(name, group, form)
            else:
                self._given[key] = self._from_tiles(name, group, form, tiles)
        return self._given[key]

    def _from_tiles(
        self, name: str, group: int, form: Form, tiles: Mapping[TileCoord, StageTile | None]
    ) -> OwnTerm:
        extents = [self.extent(group, axis) for axis in self.stage(name).tile]
        shape = tuple(span.stop - span.start for span in extents)
        narrow = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}.get(form.name)
        value = np.zeros(shape, np.float32 if narrow is None else narrow)
        unknown = np.zeros(shape, bool)
        for coord, tile in tiles.items():
            at = self.span(name, group, *self.region(name, coord))
            if tile is None or not tile.written.all():
                unknown[at] = True
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    value[at] = tile.value.reshape(value[at].shape).astype(value.dtype)
        known = self._same(("seen", name, group, form), value, unknown)
        if known is None:
            known = self.m.read(form, value)
            if unknown.any():
                instead = super().earlier(name, group, form)
                known = Bounded(
                    np.where(unknown, instead.value, known.value), np.where(unknown, np.inf, 0.0), unknown
                )
            self.shared.setdefault(("seen", name, group, form), []).append((value, unknown, known))
        return known

    def _same(self, key: Hashable, value: Array, unknown: npt.NDArray[np.bool_]) -> OwnTerm:
        """The term of the same bits, if a launch on these inputs showed them before."""
        bits = value.view(f"u{value.itemsize}")
        for other, hidden, term in self.shared.get(key, ()):
            if np.array_equal(bits, other.view(bits.dtype)) and np.array_equal(unknown, hidden):
                return term
        return None

    def operands(self, name: str, coord: TileCoord, rows: slice, cols: slice) -> Operands:
        """The inputs of a tile's stage, as its function takes them."""
        stage = self.stage(name)
        spans = dict(zip(stage.tile, (rows, cols), strict=False))
        for axis in stage.contracted & set(self.problem.shared) if self.partial(name) else ():
            spans[axis] = self.problem.region(self.inputs, self.tiling, coord, axis)
        if self.is_partial_sum(name, coord):
            walked = self.problem.walked
            last = self.problem.region(self.inputs, self.tiling, coord, walked)
            spans[walked] = slice(self.extent(coord.group, walked).start, last.stop)
        return {
            source: self._restricted(
                source, coord.group, self.term(source, coord.group, stage.reads[source]), spans
            )
            for source in stage.inputs
        }

    def _restricted(self, name: str, group: int, term: OwnTerm, spans: Mapping[str, slice]) -> OwnTerm:
        index = []
        for axis in self.axes(name):
            wanted, first = spans.get(axis), self.extent(group, axis).start
            index.append(slice(None) if wanted is None else slice(wanted.start - first, wanted.stop - first))
        return self.m.part(term, tuple(index)) if index else term

    def value_of(self, name: str, coord: TileCoord) -> F64:
        """A tile in f32, as the kernel had it where it was seen."""
        at = self.span(name, coord.group, *self.region(name, coord))
        value: F64 = self.earlier(name, coord.group, F32).value[at]
        return value

    def copy_of(self, name: str, coord: TileCoord) -> F64:
        """The rounded copy of a tile that the kernel's MMAs read."""
        form = next(
            stage.reads[name] for stage in self.problem.stages.values() if stage.reads.get(name, F32) != F32
        )
        at = self.span(name, coord.group, *self.region(name, coord))
        value: F64 = self.earlier(name, coord.group, form).value[at]
        return value


def columns(value: Array) -> Array:
    """A [rows] result as [rows, 1], so that every tile is two-dimensional."""
    return value if value.ndim == 2 else value.reshape(value.shape[0], -1 if value.size else 1)
