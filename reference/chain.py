"""The whole chain: outputs in float64 from the ground data alone, with the bound of all its roundings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation, Shared
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.problems.base import ProblemType, Tiling
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A float64 value and how far a correct kernel's may be from it, of one shape."""

    value: F64
    error: F64


def outputs_of(
    inputs: Any,
    stage: str,
    ctas: int = 2,
    b_topk: int = 64,
    shared: Shared | None = None,
    problem: ProblemType = SPARSE_MLA_BWD,
    tiling: Tiling | None = None,
) -> Known:
    """The output of `stage` in float64 from the ground data alone, with the bound of the whole chain: that
    of a kernel that rounds as the stage graph says, over `ctas` CTAs and k-blocks of `b_topk`.
    """
    tiling = Tiling(b_topk, ctas) if tiling is None else tiling
    chain = Evaluation(problem, inputs, tiling, BOUND, shared)
    own = problem.stages[stage]
    with np.errstate(invalid="ignore", over="ignore"):
        if own.scatter is not None:
            rows, columns = (problem.size(inputs, axis) for axis in own.output)
            sums = chain.scatter(stage, RowSums.of(rows, columns))
            return Known(sums.value, sums.bound())
        if problem.stacked:
            kept = [chain.whole(stage, group) for group in problem.groups(inputs, tiling)]
            terms = [one.value if one.copy is None else one.copy for one in kept]
            return Known(np.stack([one.value for one in terms]), np.stack([one.errors for one in terms]))
        shape = tuple(problem.size(inputs, axis) for axis in own.tile)
        value, error = np.zeros(shape), np.zeros(shape)
        for group in problem.groups(inputs, tiling):
            at = tuple(chain.extent(group, axis) for axis in own.tile)
            one = chain.whole(stage, group)
            term = one.value if one.copy is None else one.copy
            value[at], error[at] = term.value, term.errors
        return Known(value, error)
