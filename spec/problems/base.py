"""The interface of a problem type: its stages, its tiles, and the source of their data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError, did_you_mean
from tileproof.spec.machine.types import Array, Index
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import Generator, ProblemInputs
from tileproof.spec.problems.faults import FaultHypotheses
from tileproof.spec.problems.tensors import TensorForms
from tileproof.spec.stage import Stage


@dataclass(frozen=True)
class TileCoord:
    """Where a tile is. `group`: the group of tiles that one cluster works on (`ProblemType.unit` names it).
    `cta` None: of the whole cluster. `k_block` None: of the whole group.
    """

    group: int
    cta: int | None
    k_block: int | None


@dataclass(frozen=True)
class Tiling:
    """How a kernel cuts a problem: `block` elements of the walked axis per k-block, `ctas` per cluster.

    `shape`, if the kernel, not the problem, defines a CTA's part of the shared axes: (axis, elements per CTA,
    CTAs of a cluster along it). `cluster_wide`: stages of which the whole cluster has one tile.
    """

    block: int
    ctas: int
    shape: tuple[tuple[str, int, int], ...] = ()
    cluster_wide: tuple[str, ...] = ()

    def owners(self, stage: str) -> tuple[int | None, ...]:
        """The CTAs that have a tile of a stage; None if the cluster has a single tile."""
        return (None,) if stage in self.cluster_wide else tuple(range(self.ctas))

    def tile(self, axis: str) -> int:
        """Elements of a shared axis per CTA."""
        return self._parts[axis][0]

    def along(self, axis: str) -> int:
        """CTAs of a cluster along a shared axis."""
        return self._parts[axis][1]

    @cached_property
    def _parts(self) -> Mapping[str, tuple[int, int]]:
        return {name: (elements, ctas) for name, elements, ctas in self.shape}


@dataclass(frozen=True)
class PartOf:
    """A datum that is part of another datum: the elements at `index` of `name`."""

    name: str
    index: Index


# Rows of an output that tile rows are added to, and which tile rows are added at all.
TileRows = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]
GroundDatum = Array | float | PartOf


class ProblemType(ABC):
    """A problem type. Axes are names of sizes, as stages use them in their tiles.

    The `walked` axis is cut into k-blocks, of the `shared` axes each CTA has its part; the other axes are
    never cut. Slices of axes count globally within a group.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What plans and variants call it: the folder's name."""

    @property
    @abstractmethod
    def stages(self) -> Mapping[str, Stage]:
        """The stages in graph order."""

    @property
    @abstractmethod
    def walked(self) -> str:
        """The axis that is cut into k-blocks."""

    @property
    @abstractmethod
    def shared(self) -> tuple[str, ...]:
        """The axes of which each CTA has its part."""

    @property
    @abstractmethod
    def generator(self) -> Generator:
        """What makes its cases; a module is imported when it is asked for."""

    @abstractmethod
    def groups(self, inputs: ProblemInputs, tiling: Tiling) -> range:
        """The groups of the problem, each the work of one cluster."""

    @abstractmethod
    def k_blocks(self, inputs: ProblemInputs, tiling: Tiling, group: int) -> int:
        """How many k-blocks a group has; none is possible."""

    def walks(self, stage: str) -> bool:
        """Whether a stage has a tile in each k-block."""
        return self.walked in self.stages[stage].tile

    def reach(self, inputs: ProblemInputs, tiling: Tiling, group: int) -> int:
        """The k-blocks for which an output has room, those that a group does not have among them."""
        return -(-self.size(inputs, self.walked) // tiling.block)

    @abstractmethod
    def extent(self, inputs: ProblemInputs, tiling: Tiling, group: int, axis: str) -> slice:
        """All of an axis that a group's tiles cover."""

    @abstractmethod
    def region(self, inputs: ProblemInputs, tiling: Tiling, coord: TileCoord, axis: str) -> slice:
        """The part of an axis that the tile at `coord` covers."""

    @abstractmethod
    def ground(self, inputs: ProblemInputs, tiling: Tiling, group: int, name: str) -> GroundDatum:
        """A datum that is no stage, over the group's extents, in its own dtype (or `PartOf` another)."""

    @abstractmethod
    def size(self, inputs: ProblemInputs, axis: str) -> int:
        """The whole length of an axis."""

    @property
    def unit(self) -> str:
        """What a group is called in findings."""
        return "group"

    @property
    def words(self) -> Mapping[str, str]:
        """What the elements of an axis are called in findings."""
        return {}

    @property
    def unselected(self) -> str:
        """What a row of an accumulated output is that no tile is added to, after "a row that"."""
        return "no tile is added to"

    def rounded_as(self, text: str) -> ProblemType:
        """The type of a kernel that rounds as `text` says; TileproofError where it has no such plans."""
        raise TileproofError(
            "this problem has no rounding plans in words", where="--rounding", expected="a kernel", found=text
        )

    @property
    def rounding_text(self) -> str:
        """From which `rounded_as` makes this type; "" where it is that of its name."""
        return ""

    @property
    def tensors(self) -> TensorForms | None:
        """Its tensors by name, for dumps; None where dumps of it are not read."""
        return None

    @property
    def fault_hypotheses(self) -> FaultHypotheses:
        """Its fault hypotheses."""
        return FaultHypotheses()

    def group_at(self, inputs: ProblemInputs, tiling: Tiling, cluster: tuple[int, int, int]) -> int:
        """The group that the cluster at these coordinates of the grid (in clusters) works on."""
        return cluster[0]

    def output(self, stage: str) -> tuple[str, ...]:
        """The axes of an output that holds a stage; rows that tiles are added to are `Stage.output`."""
        return self.stages[stage].tile

    def place(
        self, inputs: ProblemInputs, tiling: Tiling, coord: TileCoord, axes: tuple[str, ...]
    ) -> tuple[int | slice, ...]:
        """Where a tile lies in an output with these axes: an index or a slice of each, tile axes in order."""
        return tuple(self.region(inputs, tiling, coord, axis) for axis in axes)

    def rows(self, inputs: ProblemInputs, tiling: Tiling, group: int, stage: str) -> TileRows:
        """Where a group's tile rows are added: rows of the output, and which tile rows are added at all."""
        raise TileproofError(f"no tile of {self.name} is added to rows", where=f"stage {stage}")

    def sizes(self, inputs: ProblemInputs) -> Mapping[str, int]:
        """The sizes of inputs by which a kernel's variant is chosen."""
        return {}

    @property
    def constants(self) -> Mapping[str, int]:
        """Numbers of the problem, beside its sizes, in the C++ header of a plan."""
        return {}

    def require(self, inputs: ProblemInputs, plan: KernelPlan) -> None:
        """Raises TileproofError when the kernel of `plan` is not made for inputs of these sizes."""
        return


def known_stage(problem: ProblemType, name: str) -> Stage:
    """Return the problem's stage `name`; the TileproofError lists the known stages."""
    if name not in problem.stages:
        raise TileproofError(
            "unknown stage", where="stage name", expected=", ".join(problem.stages), found=repr(name),
            do=did_you_mean(name, problem.stages),
        )  # fmt: skip
    return problem.stages[name]


def tiling_of(plan: KernelPlan) -> Tiling:
    """How the plan's kernel cuts its problem."""
    return Tiling(plan.block, plan.cluster, plan.shape, plan.cluster_wide)


def coordinates(
    problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, stage: str, group: int
) -> Iterator[TileCoord]:
    """Every tile of a stage in a group, CTAs innermost."""
    if problem.walks(stage):
        for k_block in range(problem.k_blocks(inputs, tiling, group)):
            for cta in tiling.owners(stage):
                yield TileCoord(group, cta, k_block)
    else:
        for cta in tiling.owners(stage):
            yield TileCoord(group, cta, None)


def added_rows(
    problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, stage: str
) -> npt.NDArray[np.int64]:
    """Which rows of the stage's output some tile is added to, in increasing order."""
    found = [np.empty(0, np.int64)]
    for group in problem.groups(inputs, tiling):
        rows, live = problem.rows(inputs, tiling, group, stage)
        found.append(np.asarray(rows[live], np.int64))
    return np.unique(np.concatenate(found))


def locate(
    problem: ProblemType,
    inputs: ProblemInputs,
    tiling: Tiling,
    stage: str,
    axes: tuple[str, ...],
    index: Sequence[int],
) -> tuple[TileCoord, tuple[int, ...]] | None:
    """The tile of a stage that holds element `index` of an output with these axes, and the element's place
    along the tile's axes, counted as `ProblemType.region` does; k-blocks beyond a group's last one count.
    """
    walked = problem.walks(stage)
    for group in problem.groups(inputs, tiling):
        for k_block in range(problem.reach(inputs, tiling, group)) if walked else (None,):
            for cta in tiling.owners(stage):
                coord = TileCoord(group, cta, k_block)
                place = problem.place(inputs, tiling, coord, axes)
                if all(_holds(part, at) for part, at in zip(place, index, strict=True)):
                    tile = problem.stages[stage].tile
                    spans = (problem.region(inputs, tiling, coord, axis) for axis in tile)
                    inside = [at - part.start for part, at in zip(place, index, strict=True) if _long(part)]
                    lengths = [part.stop - part.start for part in place if _long(part)]
                    while len(inside) > len(tile):  # several axes of the output are the tile's first one
                        inside[:2] = [inside[0] * lengths[1] + inside[1]]
                        lengths[:2] = [lengths[0] * lengths[1]]
                    return coord, tuple(span.start + at for span, at in zip(spans, inside, strict=False))
    return None


def _long(part: int | slice) -> TypeGuard[slice]:
    return isinstance(part, slice)


def _holds(part: int | slice, at: int) -> bool:
    """Whether an index or a slice of an axis holds element `at`."""
    return bool(part.start <= at < part.stop) if _long(part) else bool(part == at)


def region(
    problem: ProblemType, inputs: ProblemInputs, tiling: Tiling, stage: str, coord: TileCoord
) -> tuple[slice, slice]:
    """Global rows and columns of a tile; a one-dimensional tile has a single column."""
    spans = [problem.region(inputs, tiling, coord, axis) for axis in problem.stages[stage].tile]
    return spans[0], spans[1] if len(spans) > 1 else slice(0, 1)


def sums_over_walk(problem: ProblemType, name: str) -> bool:
    """Whether a stage is a sum over k-blocks: products that contract a walked axis."""
    return problem.stages[name].kind == "accumulate" and not problem.walks(name)


def upstream(problem: ProblemType, name: str) -> tuple[str, ...]:
    """The stages that `name` depends on, directly or not, in graph order."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        for source in problem.stages[todo.pop()].inputs:
            if source in problem.stages and source not in needed:
                needed.add(source)
                todo.append(source)
    return tuple(s for s in problem.stages if s in needed)
