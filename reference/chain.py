"""The whole chain: outputs in float64 from the ground data alone, with the bound of all its roundings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation, Shared
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.sums import RowSums, stored
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling, added_rows
from tileproof.spec.problems.cases import ProblemInputs

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A float64 value and how far a correct kernel's may be from it, of one shape. `rows`: the places along
    the first axis that are kept, where the others are 0 (None: all).
    """

    value: F64
    error: F64
    rows: npt.NDArray[np.int64] | None = None


def outputs_of(
    inputs: ProblemInputs,
    stage: str,
    *,
    problem: ProblemType,
    tiling: Tiling,
    shared: Shared | None = None,
) -> Known:
    """The output of `stage` in float64 from the ground data alone, with the bound of the whole chain: that
    of a kernel that rounds as the stage graph says and cuts the problem as `tiling` does.
    """
    chain = Evaluation(problem, inputs, tiling, BOUND, shared)
    own = problem.stages[stage]
    with np.errstate(invalid="ignore", over="ignore"):
        if own.scatter is not None:
            rows = added_rows(problem, inputs, tiling, stage)
            sums = chain.scatter(stage, RowSums.of(rows, problem.size(inputs, own.output[1])))
            return Known(*stored(own.stored, sums.value, sums.bound()), rows)
        axes = problem.output(stage)
        shape = tuple(problem.size(inputs, axis) for axis in axes)
        value, error = np.zeros(shape), np.zeros(shape)
        for group in problem.groups(inputs, tiling):
            at = problem.place(inputs, tiling, TileCoord(group, None, None), axes)
            whole = chain.whole(stage, group)
            term = whole.value if whole.copy is None else whole.copy
            value[at] = term.value.reshape(value[at].shape)
            error[at] = term.errors.reshape(value[at].shape)
        return Known(value, error)
