"""The tiled walk of a problem: every tile of every stage with coordinates, and the outputs of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TileValue:
    """One tile of one stage.

    `rows` and `cols` are global, of the axes of the stage's tile; the columns of a one-dimensional tile are
    one. `copy` is the rounded one that an MMA reads, or the output, where there is one.
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: Array
    copy: Array | None = None


def walk(inputs: Any, *, problem: ProblemType, tiling: Tiling, m: Any = EXACT) -> Iterator[TileValue]:
    """Every tile over arithmetic `m`, group by group, in each the stages in graph order, CTAs innermost."""
    evaluation = Evaluation(problem, inputs, tiling, m)
    for group in problem.groups(inputs, tiling):
        for name in problem.stages:
            for coord in evaluation.coordinates(name, group):
                kept = evaluation.whole(name, group, coord.cta)
                rows, cols = evaluation.region(name, coord)
                at = evaluation.span(name, group, rows, cols)
                copy = None if kept.copy is None else kept.copy[at]
                yield TileValue(name, coord, rows, cols, kept.value[at], copy)


def outputs(
    inputs: Any,
    stages: Iterable[str],
    *,
    problem: ProblemType,
    tiling: Tiling,
    m: Any = EXACT,
    dtype: type = float,
) -> dict[str, Array]:
    """Each of `stages` as the output that its tiles make over arithmetic `m`, in the problem's axes of it:
    set in their places, or added to rows. `dtype`: of the arithmetic's elements.
    """
    evaluation, found = Evaluation(problem, inputs, tiling, m), {}
    for name in stages:
        adds = problem.stages[name].scatter is not None
        axes = problem.stages[name].output if adds else problem.output(name)
        total: Array = np.zeros([problem.size(inputs, axis) for axis in axes], dtype)
        if adds:
            total = evaluation.scatter(name, total)
        else:
            for group in problem.groups(inputs, tiling):
                at = problem.place(inputs, tiling, TileCoord(group, None, None), axes)
                kept = evaluation.whole(name, group)
                value = kept.value if kept.copy is None else kept.copy
                total[at] = value.reshape(total[at].shape)
        found[name] = total
    return found
