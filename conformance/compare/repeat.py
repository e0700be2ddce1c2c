"""The outputs of two launches on the same inputs: the same bits, or the same sums in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.rows import Rows
from tileproof.conformance.observe.observation import spot
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.plan import KernelPlan, OutputObservation


def outputs_differ(
    plan: KernelPlan,
    inputs: Any,
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
        one, two = (seen.outputs[at.parameter].values for seen in (first, second))
        own = next((rows for rows in sums if rows.at == at), None)
        differ = differing(one, two, None if own is None else 2 * own.sums.bound())
        if differ.any():
            findings.append(_finding(plan, inputs, at, one, two, differ, what))
    return findings


def differing(
    one: npt.NDArray[np.generic], two: npt.NDArray[np.generic], bound: npt.NDArray[np.float64] | None
) -> npt.NDArray[np.bool_]:
    """Elements that are not the same value; with `bound` those that are further apart than that."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = one.astype(np.float64), two.astype(np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    if bound is not None:
        with np.errstate(invalid="ignore"):
            same |= (np.abs(a - b) <= bound) | np.isinf(bound)
    return ~same


def _finding(
    plan: KernelPlan,
    inputs: Any,
    at: OutputObservation,
    one: npt.NDArray[np.generic],
    two: npt.NDArray[np.generic],
    differ: npt.NDArray[np.bool_],
    what: str,
) -> Finding:
    place = tuple(int(i) for i in np.argwhere(differ)[0])
    return Finding(
        "disagree",
        f"output {at.parameter} of the production build is not what {what} gives",
        problem=spot(plan, inputs, at, differ, "production"),
        expected=float(one[place]),
        found=float(two[place]),
        wrong=int(differ.sum()),
        elements=int(differ.size),
        pattern=f"expected is the first launch's value, found that of {what}",
    )
