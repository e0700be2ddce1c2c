"""Parts of tensors in a dump: one token, some heads, one k-block, under a name with an index."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.reference.evaluate import Evaluation, Shared
from tileproof.spec.arithmetic import F32, Form
from tileproof.spec.arithmetic.forms import round_in
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling, coordinates, region
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.tensors import K_BLOCKS, TensorForm

Index = tuple[slice, ...]
_NAME = re.compile(r"^\s*([^\[\]]+?)\s*\[([^\[\]]*)\]\s*$")
_ITEM = re.compile(r"^(?:(\d+)|(\d*):(\d*))$")


@dataclass(frozen=True)
class TensorPart:
    """What a dump holds of a tensor: `values` are the elements at `index`, a slice of each axis."""

    form: TensorForm
    index: Index
    values: Array

    def overlaps(self, other: TensorPart) -> bool:
        """Whether both hold an element of the same tensor."""
        return self.form == other.form and meet(self.index, other.index)


def meet(first: Index, second: Index) -> bool:
    """Whether two places have an element in common."""
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(first, second, strict=True))


def split_name(name: str) -> tuple[str, str | None]:
    """``P[3, :, 128:192]`` as the tensor's name and the text of the index; None without an index."""
    found = _NAME.match(name)
    return (found[1], found[2]) if found else (name, None)


def part_of(form: TensorForm, text: str, values: Array, sizes: Mapping[str, int], where: str) -> TensorPart:
    """The part of `form` at the index `text`, as numpy writes it without steps and negative numbers.

    Raises TileproofError where the index is none of the tensor's, or the values have another shape.
    """
    items = [item.strip() for item in text.split(",")]
    axes = ", ".join(form.axes)
    if len(items) > len(form.axes):
        raise _no_index(where, f"at most {len(form.axes)} numbers or ranges: [{axes}]", text)
    index, shape = [], []
    for axis, item in itertools.zip_longest(form.axes, items, fillvalue=":"):
        found = _ITEM.match(item.replace(" ", ""))
        if found is None:
            raise _no_index(where, f"numbers or ranges such as 3 or 0:64, of [{axes}]", item)
        first = int(found[1] or found[2] or 0)
        end = first + 1 if found[1] else int(found[3]) if found[3] else sizes[axis]
        if not first < end <= sizes[axis]:
            raise _no_index(where, f"0 to {sizes[axis]} along {axis}", item)
        index.append(slice(first, end))
        shape += [] if found[1] else [end - first]
    if values.shape != tuple(shape):
        raise TileproofError(
            "a part of a tensor has the wrong shape",
            where=where,
            expected=f"{shape}, of [{axes}] = {[sizes[axis] for axis in form.axes]}",
            found=str(list(values.shape)),
        )
    return TensorPart(form, tuple(index), values.reshape([at.stop - at.start for at in index]))


def _no_index(where: str, expected: str, found: str) -> TileproofError:
    return TileproofError("not an index of the tensor", where=where, expected=expected, found=found)


def tiles_of(
    problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, part: TensorPart, at: Index
) -> Iterator[StageTile]:
    """The tiles of the only group of `inputs`, or what the part holds of them; `at`: where the group's own
    elements lie in the whole tensor.
    """
    form, (group,) = part.form, problem.groups(inputs, tiling)
    sums = K_BLOCKS in form.axes
    for whole in coordinates(problem, inputs, tiling, form.stage, group):
        spans = region(problem, inputs, tiling, form.stage, whole)
        if any(span.stop <= span.start for span in spans):
            continue  # a sequence may be empty
        for k_block in range(problem.k_blocks(inputs, tiling, group)) if sums else (whole.k_block,):
            coord = replace(whole, k_block=k_block)
            place = _place(problem, inputs, tiling, whole, form, k_block)
            tile = StageTile(form.stage, coord, *spans, _NONE, _NONE)
            yield from _cut(part, at, place, tile, len(problem.stages[form.stage].tile))


_NONE = np.zeros((0, 0), bool)


def _place(
    problem: ProblemType,
    inputs: ProblemInputs,
    tiling: Tiling,
    coord: TileCoord,
    form: TensorForm,
    k_block: int | None,
) -> list[slice]:
    """Where a tile lies in the group's own part of the tensor, as a slice of each axis."""
    axes = tuple(axis for axis in form.axes if axis != K_BLOCKS)
    found = [
        at if isinstance(at, slice) else slice(at, at + 1)
        for at in problem.place(inputs, tiling, coord, axes)
    ]
    if len(axes) < len(form.axes):
        assert k_block is not None
        found.insert(form.axes.index(K_BLOCKS), slice(k_block, k_block + 1))
    return found


def _cut(
    part: TensorPart, at: Index, place: Sequence[slice], tile: StageTile, tile_axes: int
) -> Iterator[StageTile]:
    """The tile with the values of the part, in pieces that are blocks of rows and columns."""
    wanted = [
        slice(own.start + tile.start, own.start + tile.stop) for own, tile in zip(at, place, strict=True)
    ]
    cut = [
        slice(max(span.start, held.start), min(span.stop, held.stop))
        for span, held in zip(wanted, part.index, strict=True)
    ]
    if any(span.stop <= span.start for span in cut):
        return
    values = part.values[tuple(_from(span, held.start) for span, held in zip(cut, part.index, strict=True))]
    narrow = values.dtype.itemsize == 2 and tile.coord.k_block is not None and K_BLOCKS not in part.form.axes
    if cut == wanted:
        whole = values.reshape(_length(tile.rows), _length(tile.cols))
        yield replace(tile, value=whole, written=np.ones(whole.shape, bool), operand=narrow)
        return
    # Rows of a tile count some axes, slowest first: a piece for each of all but the last; columns one axis.
    last = len(wanted) - (tile_axes - 1)
    *outer, inner = [axis for axis in range(last) if _length(wanted[axis]) > 1] or [last - 1]
    columns = _moved(cut[-1], wanted[-1], tile.cols) if tile_axes == 2 else tile.cols
    for picked in itertools.product(*(range(cut[axis].start, cut[axis].stop) for axis in outer)):
        first, block = 0, values
        for axis, number in zip(outer, picked, strict=True):
            first = (first + number - wanted[axis].start) * _length(wanted[inner])
            block = block.take([number - cut[axis].start], axis)
        rows = _moved(cut[inner], wanted[inner], slice(tile.rows.start + first, tile.rows.stop))
        block = block.reshape(_length(rows), _length(columns))
        yield replace(
            tile, rows=rows, cols=columns, value=block, written=np.ones(block.shape, bool), operand=narrow
        )


def _moved(cut: slice, whole: slice, to: slice) -> slice:
    """The part of `to` that is as far in as `cut` is in `whole`."""
    first = to.start + cut.start - whole.start
    return slice(first, first + _length(cut))


def _length(span: slice) -> int:
    return int(span.stop - span.start)


def _from(span: slice, first: int) -> slice:
    return slice(span.start - first, span.stop - first)


class PartialChain(Chain):
    """A chain with parts of some stages. Elsewhere such a stage is computed by the reference from earlier
    stages, with its error.
    """

    def __init__(
        self,
        inputs: ProblemInputs,
        tiles: Sequence[StageTile],
        shared: Shared | None = None,
        *,
        problem: ProblemType,
        tiling: Tiling,
    ) -> None:
        whole = {tile.key: tile for tile in tiles if is_whole(problem, inputs, tiling, tile)}
        super().__init__(inputs, whole, shared, problem=problem, tiling=tiling)
        self.pieces: dict[str, list[StageTile]] = {}
        for tile in tiles:
            if tile.key not in whole and not self.is_partial_sum(tile.stage, tile.coord):
                self.pieces.setdefault(tile.stage, []).append(tile)
        for tile in whole.values():
            lacking = tile.stage in self.pieces or not self._complete(tile.stage, tile.coord.group)
            if lacking and not self.is_partial_sum(tile.stage, tile.coord):
                self.pieces.setdefault(tile.stage, []).append(tile)

    def _complete(self, stage: str, group: int) -> bool:
        return all((stage, coord) in self.own_tiles for coord in self.coordinates(stage, group))

    def judged(self, name: str, coord: TileCoord) -> Bounded:
        """The stage over the tile's group, in the form of its observed part."""
        piece = next((tile for tile in self.pieces.get(name, ()) if tile.coord == coord), None)
        if piece is None:
            return super().judged(name, coord)
        computed = self.whole(*self.whole_of(name, coord))
        narrow = piece.operand or piece.value.dtype.itemsize == 2
        term: Bounded = computed.copy if narrow and computed.copy is not None else computed.value
        return term

    def earlier(self, name: str, group: int, form: Form) -> OwnTerm:
        """An input as the kernel had it where that is known, elsewhere as the reference has it."""
        if name not in self.pieces:
            return super().earlier(name, group, form)
        key = (name, group, form)
        if key not in self._given:
            instead = Evaluation.earlier(self, name, group, form)
            value, errors = instead.value.copy(), instead.errors.copy()
            may_be_nan = None if instead.may_be_nan is None else instead.may_be_nan.copy()
            for tile in self.pieces[name]:
                if form == F32 and tile.operand:
                    continue  # the f32 value is not known
                at = self.span(name, group, tile.rows, tile.cols)
                with np.errstate(over="ignore", invalid="ignore"):
                    known = round_in(form, tile.value.astype(np.float64))
                value[at], errors[at] = known.reshape(value[at].shape), 0.0
                if may_be_nan is not None:
                    may_be_nan[at] = False
            self._given[key] = Bounded(value, errors, may_be_nan)
        return self._given[key]


def is_whole(problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, tile: StageTile) -> bool:
    """Whether a tile is all of the region of its coordinates."""
    return (tile.rows, tile.cols) == region(problem, inputs, tiling, tile.stage, tile.coord)
