"""The outputs of two launches on the same inputs: the same bits, or the same sums in another order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.rows import Rows
from tileproof.conformance.observe.observation import spot
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.cases import ProblemInputs


def outputs_differ(
    plan: KernelPlan,
    inputs: ProblemInputs,
    outputs: Sequence[OutputObservation],
    first: RunResult,
    second: RunResult,
    sums: Sequence[Rows],
    what: str,
) -> list[Finding]:
    """A finding for each of `outputs` that is not repeated.

    Rows that several tiles were added to may differ by two reordered f32 sums of the same contributions,
    which are equal where every sum is exact.
    """
    findings = []
    for at in outputs:
        before, after = (seen.outputs[at.parameter] for seen in (first, second))
        own = next((rows for rows in sums if rows.at == at), None)
        rows = None  # that may differ, of rows that tiles are added to
        if own is not None:
            rows = np.unique(np.concatenate([own.sums.rows, before.rows_stored(), after.rows_stored()]))
        a, b = (out.values if rows is None else out.values[rows] for out in (before, after))
        bound = None
        if own is not None and rows is not None:
            bound = np.zeros(a.shape)
            bound[np.searchsorted(rows, own.sums.rows)] = 2 * own.sums.bound()
        differ = differing(a, b, bound)
        if differ.any():
            findings.append(_finding(plan, inputs, at, a, b, differ, what, rows))
    return findings


def differing(
    left: npt.NDArray[np.generic], right: npt.NDArray[np.generic], bound: npt.NDArray[np.float64] | None
) -> npt.NDArray[np.bool_]:
    """Elements that are not the same value; with `bound` those that are further apart than that."""
    if left.tobytes() == right.tobytes():
        return np.zeros(left.shape, bool)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = left.astype(np.float64), right.astype(np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    if bound is not None:
        with np.errstate(invalid="ignore"):
            same |= (np.abs(a - b) <= bound) | np.isinf(bound)
    return ~same


def _finding(
    plan: KernelPlan,
    inputs: ProblemInputs,
    at: OutputObservation,
    left: npt.NDArray[np.generic],
    right: npt.NDArray[np.generic],
    differ: npt.NDArray[np.bool_],
    what: str,
    rows: npt.NDArray[np.int64] | None,
) -> Finding:
    place = tuple(int(i) for i in np.argwhere(differ)[0])
    element = place if rows is None else (int(rows[place[0]]), *place[1:])
    return Finding(
        "disagree",
        f"output {at.parameter} of the production build is not what {what} gives",
        problem=spot(plan, inputs, at, element, "production"),
        expected=float(left[place]),
        found=float(right[place]),
        wrong=int(differ.sum()),
        elements=int(differ.size),
        pattern=f"expected is the first launch's value, found that of {what}",
    )
