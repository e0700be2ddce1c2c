"""The stage graph of a problem over an arithmetic: every stage of a group at once, tiles as parts of it.

Nothing here knows a stage. What an element of a tile is depends on its row and column alone, so a group's
tiles are evaluated together; a stage that contracts an axis of which each CTA has its part is evaluated for
each CTA.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import TypeVar

import numpy as np
from tileproof.spec.arithmetic import F32, Form, StageValue
from tileproof.spec.arithmetic.operation import AnyArithmetic
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.arithmetic.sums import CHUNK_ELEMENTS
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.base import (
    GroundDatum,
    PartOf,
    ProblemType,
    TileCoord,
    Tiling,
    coordinates,
    region,
)
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.stage import Stage

Span = tuple[slice, ...]
T = TypeVar("T")
# What evaluations on the same inputs share: terms of ground data, and results by the terms they came of.
Shared = dict[Hashable, OwnTerm]


class Evaluation:
    """A problem's stages on one set of inputs, over the arithmetic `m`, each found when it is asked for."""

    def __init__(
        self,
        problem: ProblemType,
        inputs: ProblemInputs,
        tiling: Tiling,
        m: AnyArithmetic,
        shared: Shared | None = None,
    ) -> None:
        self.problem, self.inputs, self.tiling, self.m = problem, inputs, tiling, m
        self.shared: Shared = {} if shared is None else shared
        self._given: dict[Hashable, OwnTerm] = {}
        self._wholes: dict[tuple[str, int, int | None], StageValue[OwnTerm]] = {}
        self._extents: dict[tuple[int, str], slice] = {}
        self._regions: dict[tuple[tuple[str, ...], TileCoord], tuple[slice, slice]] = {}
        self._stages = problem.stages
        shared_axes = set(problem.shared)
        self._partial = {
            name: name not in tiling.cluster_wide and bool(stage.contracted & shared_axes)
            for name, stage in self._stages.items()
        }

    def stage(self, name: str) -> Stage:
        """The problem's stage of that name."""
        return self._stages[name]

    def partial(self, name: str) -> bool:
        """Whether each CTA has a result of its own over the whole tile: its part of a sum."""
        return self._partial[name]

    def extent(self, group: int, axis: str) -> slice:
        """All of an axis that the group covers."""
        key = (group, axis)
        if key not in self._extents:
            self._extents[key] = self.problem.extent(self.inputs, self.tiling, group, axis)
        return self._extents[key]

    def region(self, name: str, coord: TileCoord) -> tuple[slice, slice]:
        """Rows and columns of the tile of stage `name` at `coord`."""
        key = (self._stages[name].tile, coord)
        found = self._regions.get(key)
        if found is None:
            found = self._regions[key] = region(self.problem, self.inputs, self.tiling, name, coord)
        return found

    def whole(self, name: str, group: int, cta: int | None = None) -> StageValue[OwnTerm]:
        """Stage `name` over a group; `cta` for a stage of which each CTA has a result of its own."""
        known = name, group, cta if self._partial[name] else None
        if known not in self._wholes:
            self._wholes[known] = self._over(*known)
        return self._wholes[known]

    def _over(self, name: str, group: int, cta: int | None) -> StageValue[OwnTerm]:
        """The stage over the group's terms, evaluated once for equal terms in all that share."""
        stage, terms = self.stage(name), self.terms(name, group, cta)
        key = (name, group, cta, tuple(id(term) for term in terms))
        if key not in self.shared:
            with np.errstate(invalid="ignore", over="ignore"):
                # The terms are kept, so that their ids stay their own.
                result = stage.over(self.m, dict(zip(stage.inputs, terms, strict=True)))
            self._check(stage, group, result)
            self.shared[key] = terms, result
        computed: StageValue[OwnTerm] = self.shared[key][1]
        return computed

    def terms(self, name: str, group: int, cta: int | None) -> tuple[OwnTerm, ...]:
        """The inputs of a stage over a group, in the forms that the stage reads."""
        reads = self.stage(name).reads
        return tuple(
            self._of_cta(source, group, self.term(source, group, reads[source]), cta)
            if self.partial(name)
            else self.term(source, group, reads[source])
            for source in self.stage(name).inputs
        )

    def block_slices(self, group: int, cta: int | None) -> list[slice]:
        """Each k-block of the group as a slice of the walked axis of its arrays."""
        walked = self.problem.walked
        return [
            self._within(
                group,
                walked,
                self.problem.region(self.inputs, self.tiling, TileCoord(group, cta, block), walked),
            )
            for block in range(self.problem.k_blocks(self.inputs, self.tiling, group))
        ]

    def over_blocks(
        self, name: str, group: int, cta: int | None, first: int, end: int
    ) -> StageValue[OwnTerm]:
        """A stage over k-blocks `first` .. `end` - 1 alone: their part of a sum, or their rows."""
        stage, walked = self.stage(name), self.problem.walked
        low, high = (
            self.problem.region(self.inputs, self.tiling, TileCoord(group, cta, block), walked)
            for block in (first, end - 1)
        )
        some = self._within(group, walked, slice(low.start, high.stop))
        terms = {
            source: self.m.part(
                term, tuple(some if axis == walked else slice(None) for axis in self.axes(source))
            )
            if walked in self.axes(source)
            else term
            for source, term in zip(stage.inputs, self.terms(name, group, cta), strict=True)
        }
        with np.errstate(invalid="ignore", over="ignore"):
            result = stage.over(self.m, terms)
        self._check(stage, group, result, some)
        return result

    def _check(
        self, stage: Stage, group: int, result: StageValue[OwnTerm], some: slice | None = None
    ) -> None:
        spans = (
            some if some and axis == self.problem.walked else self.extent(group, axis) for axis in stage.tile
        )
        declared = tuple(span.stop - span.start for span in spans)
        found = result.value.shape
        if found != declared:
            raise TileproofError(
                "a stage does not have the shape of its tile",
                where=f"stage {stage.name}",
                expected=f"[{', '.join(stage.tile)}] = {list(declared)}",
                found=str(list(found)),
            )

    def term(self, name: str, group: int, form: Form) -> OwnTerm:
        """An input of a stage over a group, in the form that the stage reads."""
        if name in self._stages:
            return self.earlier(name, group, form)
        key = ("ground", name, group, form)
        if key not in self.shared:
            data = self.ground(name, group)
            self.shared[key] = (
                self.m.part(self.term(data.name, group, form), data.index)
                if isinstance(data, PartOf)
                else self.m.read(form, data)
            )
        return self.shared[key]

    def ground(self, name: str, group: int) -> GroundDatum:
        """Data of the problem over a group, or which part of other data they are."""
        return self.problem.ground(self.inputs, self.tiling, group, name)

    def earlier(self, name: str, group: int, form: Form) -> OwnTerm:
        """The result of an earlier stage, as a later one reads it: its rounded copy unless it is f32."""
        computed = self.whole(name, group)
        return computed.value if computed.copy is None or form == F32 else computed.copy

    def _of_cta(self, name: str, group: int, term: OwnTerm, cta: int | None) -> OwnTerm:
        """The part of an input that lies in the CTA's parts of the shared axes."""
        axes = self.axes(name)
        if not set(axes) & set(self.problem.shared):
            return term
        key = ("part", id(term), cta)
        if key not in self.shared:
            coord = TileCoord(group, cta, None)
            index = tuple(
                self._within(group, axis, self.problem.region(self.inputs, self.tiling, coord, axis))
                if axis in self.problem.shared
                else slice(None)
                for axis in axes
            )
            self.shared[key] = term, self.m.part(term, index)
        return self.shared[key][1]

    def _within(self, group: int, axis: str, wanted: slice) -> slice:
        """A global slice of an axis as one of the group's extent."""
        first = self.extent(group, axis).start
        return slice(wanted.start - first, wanted.stop - first)

    def axes(self, name: str) -> tuple[str, ...]:
        """The axes of a stage or a ground datum."""
        stages = self._stages
        if name in stages:
            return stages[name].tile
        return next(stage.axes[name] for stage in stages.values() if name in stage.inputs)

    def span(self, name: str, group: int, rows: slice, cols: slice) -> Span:
        """Global rows and columns of a stage as slices of the group's array."""
        spans = zip(self.stage(name).tile, (rows, cols), strict=False)
        return tuple(self._within(group, axis, wanted) for axis, wanted in spans)

    def coordinates(self, name: str, group: int) -> Iterator[TileCoord]:
        """Every tile of a stage in a group."""
        return coordinates(self.problem, self.inputs, self.tiling, name, group)

    def scatter(self, name: str, total: T) -> T:
        """Adds every tile of every group to the rows of `total`, the output of stage `name`."""
        stage = self.stage(name)
        assert stage.scatter is not None
        for group in self.problem.groups(self.inputs, self.tiling):
            rows, live = self.problem.rows(self.inputs, self.tiling, group, name)
            if not live.any():
                continue
            for cta in self.tiling.owners(name):
                for own, tile in self._in_runs(name, group, cta):
                    index = np.flatnonzero(live[own])
                    if not index.size:
                        continue
                    total = stage.scatter(self.m, total, rows[own][index], self.m.part(tile.value, index))
        return total

    def _in_runs(self, name: str, group: int, cta: int | None) -> Iterator[tuple[slice, StageValue[OwnTerm]]]:
        """A stage over a group, and which of its rows; a large tile of walked rows by runs of k-blocks, so
        that memory does not grow with their number.
        """
        axes = self.stage(name).tile
        sizes = [span.stop - span.start for span in (self.extent(group, axis) for axis in axes)]
        if axes[0] != self.problem.walked or math.prod(sizes) <= CHUNK_ELEMENTS:
            yield slice(None), self.whole(name, group, cta)
            return
        blocks = self.block_slices(group, cta)
        run = max(1, len(blocks) * CHUNK_ELEMENTS // math.prod(sizes))
        for first in range(0, len(blocks), run):
            end = min(first + run, len(blocks))
            own = slice(blocks[first].start, blocks[end - 1].stop)
            yield own, self.over_blocks(name, group, cta, first, end)
