"""The whole chain: outputs of a launch against float64 from the ground data, with the composed bound."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from tileproof.conformance.compare.compare import StageScore, score, within_bound
from tileproof.conformance.compare.patterns import arrangement
from tileproof.conformance.observe.observation import axes_of, spot
from tileproof.reference.chain import Known, outputs_of
from tileproof.reference.evaluate import Shared
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.types import Index
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling, upstream
from tileproof.spec.problems.cases import ProblemInputs

SCORE = "{stage} from end to end"


@dataclass
class EndToEnd:
    """The float64 chain over one problem; outputs are computed on request."""

    problem: ProblemType
    inputs: ProblemInputs
    tiling: Tiling
    shared: Shared = field(default_factory=dict)
    _known: dict[str, Known] = field(default_factory=dict)

    def known(self, stage: str) -> Known:
        """Value and composed bound of output `stage`."""
        if stage not in self._known:
            self._known[stage] = outputs_of(
                self.inputs, stage, shared=self.shared, problem=self.problem, tiling=self.tiling
            )
        return self._known[stage]

    def compare(
        self, plan: KernelPlan, run_result: RunResult, build: str, stages: list[str]
    ) -> tuple[dict[str, StageScore], list[Finding]]:
        """Scores and findings of the plan's outputs among `stages`.

        NaN in an input must appear in every element that depends on it; elsewhere NaN is accepted only
        where an intermediate may overflow.
        """
        scores: dict[str, StageScore] = {}
        findings = []
        for at in plan.observations:
            if not isinstance(at, OutputObservation) or at.stage not in stages:
                continue
            # A stage without earlier stages among its inputs is judged on ground data as it is.
            stage = self.problem.stages[at.stage]
            added_to = stage.output == tuple(axes_of(at))
            # Tiles of the walk are no outputs of the whole chain.
            if not upstream(self.problem, at.stage) or (self.problem.walks(at.stage) and not added_to):
                continue
            output, known = run_result.outputs[at.parameter], self.known(at.stage)
            value, error = known.value, known.error
            found, written = output.values, output.written
            some: Index = ...  # what is live, as an index
            if known.rows is not None:
                live = np.broadcast_to(np.True_, value.shape)
                found, written = found[known.rows], written[known.rows]
            else:  # elements of no group are nobody's (`surplus_writes`)
                live = np.zeros(value.shape, bool)
                for group in self.problem.groups(self.inputs, self.tiling):
                    coord = TileCoord(group, None, None)
                    live[self.problem.place(self.inputs, self.tiling, coord, tuple(axes_of(at)))] = True
                some = ... if live.all() else live
            right = within_bound(found, value, error)
            if not right.all():
                right |= np.isinf(error) & ~np.isnan(value)
            wrong = live & ~(written & right)
            scores[SCORE.format(stage=at.stage)] = score(found[some], written[some], value[some], error[some])
            if wrong.any():
                findings.append(_finding(plan, self.inputs, at, found, known, wrong, build))
        return scores, findings


def _finding(
    plan: KernelPlan,
    inputs: ProblemInputs,
    at: OutputObservation,
    found: np.ndarray,
    known: Known,
    wrong: np.ndarray,
    build: str,
) -> Finding:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    rows = known.rows
    element = place if rows is None else (int(rows[place[0]]), *place[1:])
    seen = spot(plan, inputs, at, element, build)
    # The matrix, or the vector, of the last axes that holds the element.
    plane = wrong[place[: -(1 if seen.column is None else 2)]]
    plane = plane.reshape(plane.shape[0], -1)
    return Finding(
        "chain",
        f"output {at.parameter} differs from the whole chain",
        problem=replace(seen, k_block=None),
        expected=float(known.value[place]),
        found=float(found[place]),
        bound=float(known.error[place]),
        wrong=int(wrong.sum()),
        elements=int(wrong.size),
        pattern=arrangement(
            plane,
            rows_first=0,
            cols_first=0,
            units=seen.axes,
            part=plan.problem.fault_hypotheses.part,
            numbers=rows,
            count=0 if rows is None else plan.problem.size(inputs, axes_of(at)[0]),
        ),
    )
