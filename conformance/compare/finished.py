"""Outputs that a later launch computes from accumulated rows: the rounding is known, so bits are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.patterns import arrangement
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import FinishedObservation, KernelPlan
from tileproof.spec.problems.base import TileCoord, tiling_of
from tileproof.spec.problems.cases import ProblemInputs


def finished_findings(
    plan: KernelPlan, inputs: ProblemInputs, run_result: RunResult, build: str, stages: list[str]
) -> Iterator[Finding]:
    """A finding for each output that is not the accumulated rows times the factor, rounded once to f32 and
    once to its own dtype, or that was not written everywhere.
    """
    for at in plan.observations:
        if not isinstance(at, FinishedObservation) or at.stage not in stages:
            continue
        output = run_result.outputs[at.parameter]
        expected = _expected(plan, inputs, at, run_result)
        same = (output.values == expected) | (np.isnan(output.values) & np.isnan(expected))
        wrong = ~(same & output.written)
        if wrong.any():
            yield _finding(plan, at, output.values, expected, wrong, build)


def _expected(
    plan: KernelPlan, inputs: ProblemInputs, at: FinishedObservation, run_result: RunResult
) -> Array:
    """The output as the rows that were observed make it: the rows of each group, at the group's place."""
    problem, cut = plan.problem, tiling_of(plan)
    output = run_result.outputs[at.parameter].values
    rows = run_result.outputs[at.source].values
    axes = tuple(axis.strip() for axis in at.indexed.strip("[] ").split(","))
    expected = np.zeros(output.shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (
            rows * np.float32(cast(float, problem.ground(inputs, cut, 0, at.factor))) if at.factor else rows
        )
        if axes == problem.stages[at.stage].output:  # the rows themselves
            return np.asarray(scaled.astype(output.dtype))
        for group in problem.groups(inputs, cut):
            taken, _ = problem.rows(inputs, cut, group, at.stage)
            place = problem.place(inputs, cut, TileCoord(group, None, None), axes)
            expected[place] = scaled[taken].reshape(expected[place].shape)
        return np.asarray(expected.astype(output.dtype))


def _finding(
    plan: KernelPlan,
    at: FinishedObservation,
    found: Array,
    expected: Array,
    wrong: npt.NDArray[np.bool_],
    build: str,
) -> Finding:
    problem = plan.problem
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    words = [problem.words.get(axis.strip(), axis.strip()) for axis in at.indexed.strip("[] ").split(",")]
    units = (words[-2], words[-1])
    return Finding(
        "value",
        f"output {at.parameter} is not {at.source}{f' times {at.factor}' if at.factor else ''}, rounded",
        problem=ProblemPlace(at.stage, build, row=place[-2], column=place[-1], axes=units, tile=at.parameter),
        expected=float(expected[place]),
        found=float(found[place]),
        bound=0.0,
        wrong=int(wrong.sum()),
        elements=int(wrong.size),
        pattern=arrangement(
            wrong[place[:-2]], rows_first=0, cols_first=0, units=units, part=problem.fault_hypotheses.part
        ),
    )
