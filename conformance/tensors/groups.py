"""Compares the tensors of one group (of attention: a query token) with the reference, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.conformance.compare.compare import Divergence, StageScore, compare, index
from tileproof.conformance.compare.endtoend import EndToEnd
from tileproof.conformance.diagnose.cause import diagnose
from tileproof.conformance.observe.observation import output_tiles
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.conformance.tensors.hypotheses import explained, ranked_hypotheses
from tileproof.conformance.tensors.named import NamedDump
from tileproof.reference.evaluate import Shared
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, Tiling, tiling_of, upstream
from tileproof.spec.problems.tensors import TensorForm

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GroupComparison:
    """Findings and scores of one group, and its chain, from which sums over groups are made."""

    findings: tuple[Finding, ...]
    scores: Mapping[str, StageScore]
    chain: Chain


@dataclass(frozen=True)
class GroupComparer:
    """Compares group after group of a dump; nothing is kept between them."""

    problem: ProblemType
    dump: NamedDump
    plan: KernelPlan

    @staticmethod
    def of(problem: ProblemType, dump: NamedDump, name: str) -> GroupComparer:
        """A comparer whose tiles are whole k-blocks of all rows, as a single CTA would have them."""
        forms = tiled(problem, dump)
        observations = tuple(
            OutputObservation(form.stage, form.name, f"[{', '.join(form.axes)}]") for form in forms
        )
        plan = KernelPlan(
            name=name,
            problem=problem,
            block=dump.forms.block,
            cluster=1,
            threads=0,
            smem_bytes=0,
            stages=tuple(stage for stage in problem.stages if stage in {form.stage for form in forms}),
            observations=observations,
        )
        return GroupComparer(problem, dump, plan)

    @property
    def tiling(self) -> Tiling:
        return tiling_of(self.plan)

    def compare(self, group: int, explain: bool) -> GroupComparison:
        """The comparison of one group; `explain`: search the causes of what is wrong."""
        inputs = self.dump.forms.group_inputs(self.dump.inputs, group)
        outputs = {}
        for form in tiled(self.problem, self.dump):
            values = np.asarray(self.dump.forms.of_group(form, self.dump.tensors[form], group))
            outputs[form.name] = Output(values, np.ones(values.shape, bool))
        shared: Shared = {}
        tiles: list[StageTile] = []
        for at in self.plan.observations:
            assert isinstance(at, OutputObservation)
            tiles += output_tiles(self.plan, inputs, at, outputs[at.parameter])
        chain = Chain(inputs, index(tiles), shared, problem=self.problem, tiling=self.tiling)
        compared = compare(chain, tiles)
        wrong: dict[str, list[Divergence]] = {}
        for divergence in compared.divergences:
            wrong.setdefault(divergence.tile.stage, []).append(divergence)
        findings = []
        for stage, (first, *others) in wrong.items():
            ranked = []
            if explain and not given_before(self.problem, self.dump, stage):
                ranked = ranked_hypotheses(chain, first)
            finding = diagnose(chain, first, "", others=len(others), explain=explain and not ranked)
            findings.append(explained(finding, ranked))
        scores = dict(compared.scores)
        if any(given_before(self.problem, self.dump, stage) for stage in self.plan.stages):
            whole = EndToEnd(self.problem, inputs, self.tiling, shared)
            chained, off = whole.judge(self.plan, RunResult(outputs=outputs), "", list(self.plan.stages))
            scores |= chained
            findings += off
        return GroupComparison(tuple(_placed(finding, group) for finding in findings), scores, chain)


def tiled(problem: ProblemType, dump: NamedDump) -> list[TensorForm]:
    """The dumped tensors whose elements belong to a single group each."""
    return [form for form in dump.tensors if not summed(problem, form)]


def summed(problem: ProblemType, form: TensorForm) -> bool:
    """Whether tiles of many groups are added up in the tensor."""
    return problem.stages[form.stage].output == form.axes


def given_before(problem: ProblemType, dump: NamedDump, stage: str) -> list[str]:
    """The stages before `stage` that the dump holds, in the order of the graph."""
    held = {form.stage for form in dump.tensors}
    return [name for name in upstream(problem, stage) if name in held]


def _placed(finding: Finding, group: int) -> Finding:
    """The finding with the number of its group, which was compared alone."""
    at = finding.problem
    alone = f"{at.unit} 0"
    return replace(
        finding,
        cause=finding.cause.replace(alone, f"{at.unit} {group}"),
        problem=replace(at, group=group),
    )
