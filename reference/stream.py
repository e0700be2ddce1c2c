"""The outputs of the whole chain piece by piece, so that memory depends neither on tokens nor on kv rows.

A group is evaluated over `PIECE` elements of its walked axis at a time, its product over `PIECE` columns. An
output that groups are added to is found by ranges of its rows: of each group the elements that are added to
the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from tileproof.reference.chain import Known
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic import Form
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.sums import RowSums, stored
from tileproof.spec.arithmetic.terms import Bounded
from tileproof.spec.machine.types import Array, Index
from tileproof.spec.problems.base import GroundDatum, PartOf, ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import ProblemInputs

PIECE = 128  # elements of the walked axis, or columns, that are evaluated at a time
ROWS = 512  # of an output that groups are added to
I64 = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class OutputPiece:
    """A part of the output of a stage: its value and bound, and where it lies in the output (`index`)."""

    stage: str
    index: tuple[int | slice, ...]
    known: Known


def pieces(
    inputs: ProblemInputs,
    stages: Sequence[str],
    *,
    problem: ProblemType,
    tiling: Tiling,
    progress: Progress = lambda stage, done, total: None,
) -> Iterator[OutputPiece]:
    """Yield the outputs of `stages` with the bounds of the whole chain (`chain.outputs_of`): each group's
    part; of outputs that groups are added to, ranges of rows. Nothing is kept between pieces.

    `progress` is called with a stage, and how many of its groups (of row ranges: groups in all ranges) are
    done.
    """
    groups = problem.groups(inputs, tiling)
    for name in stages:
        stage = problem.stages[name]
        if stage.scatter is not None:
            yield from _rows(inputs, name, problem, tiling, progress)
            continue
        axes = problem.output(name)
        for done, group in enumerate(groups, 1):
            index = problem.place(inputs, tiling, TileCoord(group, None, None), axes)
            yield OutputPiece(name, index, _group(inputs, name, group, problem, tiling))
            progress(name, done, len(groups))


def _group(inputs: ProblemInputs, name: str, group: int, problem: ProblemType, tiling: Tiling) -> Known:
    """The output of a stage that contracts or does not know the walked axis, over one group."""
    stage, walked = problem.stages[name], problem.walked
    whole = Evaluation(problem, inputs, tiling, BOUND)
    cut = [source for source in stage.inputs if source in problem.stages and walked in whole.axes(source)]
    given = {
        source: _joined(inputs, source, stage.reads[source], group, problem, tiling)
        if source in cut
        else whole.term(source, group, stage.reads[source])
        for source in stage.inputs
        if source in problem.stages
    }
    as_given = Evaluation(problem, inputs, tiling, _AsGiven())
    data = {
        source: as_given.term(source, group, stage.reads[source])
        for source in stage.inputs
        if source not in problem.stages
    }
    last, parts = stage.tile[-1], []
    for columns in _spans(whole.extent(group, last)):
        terms: dict[str, OwnTerm] = {}
        for source in stage.inputs:
            index = tuple(columns if axis == last else slice(None) for axis in whole.axes(source))
            terms[source] = (
                BOUND.part(given[source], index)
                if source in given
                else BOUND.read(stage.reads[source], data[source][index] if index else data[source])
            )
        with np.errstate(invalid="ignore", over="ignore"):
            computed = stage.over(BOUND, terms)
        term = computed.value if computed.copy is None else computed.copy
        parts.append((np.asarray(term.value), np.asarray(term.errors)))
    value, error = (np.concatenate(some, axis=-1) for some in zip(*parts, strict=True))
    return Known(value, error)


def _joined(
    inputs: ProblemInputs, name: str, form: Form, group: int, problem: ProblemType, tiling: Tiling
) -> Bounded:
    """A stage over all of the walked axis of a group, evaluated in pieces, as a later one reads it."""
    extent = problem.extent(inputs, tiling, group, problem.walked)
    axis = problem.stages[name].tile.index(problem.walked)
    found = [
        _Part(problem, inputs, tiling, np.arange(span.start, span.stop)).earlier(name, group, form)
        for span in _spans(extent)
    ]
    value = np.concatenate([term.value for term in found], axis)
    error = np.concatenate([term.errors for term in found], axis)
    masks = [term.may_be_nan for term in found]
    if all(mask is None for mask in masks):
        return Bounded(value, error)
    each = [
        np.zeros(term.shape, bool) if mask is None else np.broadcast_to(mask, term.shape)
        for term, mask in zip(found, masks, strict=True)
    ]
    return Bounded(value, error, np.concatenate(each, axis))


def _rows(
    inputs: ProblemInputs, name: str, problem: ProblemType, tiling: Tiling, progress: Progress
) -> Iterator[OutputPiece]:
    """The sums of an output that groups are added to, by ranges of its rows."""
    stage = problem.stages[name]
    assert stage.scatter is not None
    count, columns = (problem.size(inputs, axis) for axis in stage.output)
    groups = problem.groups(inputs, tiling)
    ranges = range(0, count, ROWS)
    for number, first in enumerate(ranges):
        own = np.arange(first, min(first + ROWS, count))
        sums = RowSums.of(own, columns)
        for done, group in enumerate(groups, 1):
            rows, live = problem.rows(inputs, tiling, group, name)
            mine = np.flatnonzero(live & (rows >= own[0]) & (rows <= own[-1]))
            for at in range(0, mine.size, PIECE):
                part = mine[at : at + PIECE]
                some = _Part(problem, inputs, tiling, part)
                for cta in tiling.owners(name):
                    tile = some.whole(name, group, cta).value
                    stage.scatter(BOUND, sums, rows[part], tile)
                sums.settle()
            progress(name, number * len(groups) + done, len(ranges) * len(groups))
        known = Known(*stored(stage.stored, sums.value, sums.bound()))
        yield OutputPiece(name, (slice(first, int(own[-1]) + 1),), known)


T = TypeVar("T")


class _Part(Evaluation):
    """The stages of a group over some elements of the walked axis alone: those that keep the axis."""

    def __init__(self, problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, elements: I64) -> None:
        super().__init__(problem, inputs, tiling, BOUND)
        self._elements = elements

    def extent(self, group: int, axis: str) -> slice:
        return slice(0, self._elements.size) if axis == self.problem.walked else super().extent(group, axis)

    def ground(self, name: str, group: int) -> GroundDatum:
        data, axes = super().ground(name, group), self.axes(name)
        if isinstance(data, PartOf) or self.problem.walked not in axes:
            return data
        return np.take(data, self._elements, axes.index(self.problem.walked))


class _AsGiven:
    """The arithmetic whose terms are ground data as they are."""

    def read(self, form: Form, data: T) -> T:
        return data

    def part(self, data: Array, index: Index) -> Array:
        return data[index]


def _spans(extent: slice) -> Iterator[slice]:
    """A slice in pieces, counted from its begin."""
    size = extent.stop - extent.start
    yield from (slice(first, min(first + PIECE, size)) for first in range(0, max(size, 1), PIECE))
