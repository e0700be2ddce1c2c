"""The whole chain: outputs of a launch against float64 from the ground data, with the composed bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tileproof.conformance.drivers.capture import RunResult
from tileproof.conformance.judge.compare import StageScore, honest, score
from tileproof.conformance.judge.patterns import arrangement
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.observe.observation import axes_of
from tileproof.conformance.problems.case import selected
from tileproof.reference.chain import Known, outputs_of
from tileproof.reference.evaluate import Shared
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, Tiling, upstream
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

SCORE = "{stage} from end to end"


@dataclass
class EndToEnd:
    """The float64 chain over one problem, each output computed when it is asked for."""

    inputs: Any
    tiling: Tiling
    shared: Shared = field(default_factory=dict)
    problem: ProblemType = SPARSE_MLA_BWD
    _known: dict[str, Known] = field(default_factory=dict)

    def known(self, stage: str) -> Known:
        """Value and composed bound of output `stage`."""
        if stage not in self._known:
            self._known[stage] = outputs_of(
                self.inputs, stage, shared=self.shared, problem=self.problem, tiling=self.tiling
            )
        return self._known[stage]

    def judge(
        self, plan: KernelPlan, observed: RunResult, build: str, stages: list[str]
    ) -> tuple[dict[str, StageScore], list[Finding]]:
        """Scores and findings of the plan's outputs among `stages`.

        NaN in an input must come out of every element that depends on it; elsewhere NaN is accepted only
        where an intermediate may overflow.
        """
        scores: dict[str, StageScore] = {}
        findings = []
        for at in plan.observations:
            if not isinstance(at, OutputObservation) or at.stage not in stages:
                continue
            # A stage without earlier stages among its inputs is judged on ground data as it is.
            if not upstream(self.problem, at.stage) or axes_of(at)[-1] == "topk":
                continue
            output, known = observed.outputs[at.parameter], self.known(at.stage)
            value, error = known.value, known.error
            live = np.ones(value.shape, bool)
            if axes_of(at)[0] == "s_kv":
                live &= selected(self.inputs)[:, None]
            right = honest(output.values, value, error) | (np.isinf(error) & ~np.isnan(value))
            wrong = live & ~(output.written & right)
            scores[SCORE.format(stage=at.stage)] = score(
                output.values[live], output.written[live], value[live], error[live]
            )
            if wrong.any():
                findings.append(_finding(plan, at, output.values, value, error, wrong, build))
        return scores, findings


def _finding(
    plan: KernelPlan,
    at: OutputObservation,
    found: np.ndarray,
    value: np.ndarray,
    error: np.ndarray,
    wrong: np.ndarray,
    build: str,
) -> Finding:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    axes = axes_of(at)
    token = place[0] if axes[0] == "s_q" else None
    row, column = place[-2:] if len(axes) > 1 + (axes[0] == "s_q") else (place[-1], None)
    plane = wrong[token] if token is not None else wrong
    plane = plane.reshape(plane.shape[0], -1)
    units = ("row" if axes[0] == "s_kv" else "head", "column")
    return Finding(
        kind="chain",
        message=f"output {at.parameter} is not what the whole chain gives",
        stage=at.stage,
        build=build,
        token=token,
        cta=row // (plan.h_q // plan.cluster) if token is not None else None,
        row=row,
        column=column,
        axes=({"s_kv": "kv row", "s_q": "head"}.get(axes[0], "row"), "column"),
        expected=float(value[place]),
        found=float(found[place]),
        bound=float(error[place]),
        wrong=int(wrong.sum()),
        elements=int(wrong.size),
        pattern=arrangement(plane, rows_first=0, cols_first=0, units=units),
    )
