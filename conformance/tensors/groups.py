"""Compares the tensors of one group (of attention: a query token) with the reference, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from tileproof.conformance.compare.compare import Comparison, Divergence, StageScore, compare
from tileproof.conformance.compare.endtoend import EndToEnd
from tileproof.conformance.diagnose.arrays import holds
from tileproof.conformance.diagnose.cause import diagnose
from tileproof.conformance.diagnose.partial import SCORE, WrongSums
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.conformance.tensors.hypotheses import explained, ranked_hypotheses
from tileproof.conformance.tensors.named import NamedDump
from tileproof.conformance.tensors.parts import PartialChain, meet, tiles_of
from tileproof.reference.evaluate import Shared
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems.base import ProblemType, Tiling, tiling_of, upstream
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.tensors import K_BLOCKS, TensorForm


@dataclass(frozen=True)
class GroupComparison:
    """Findings and scores of one group, and its chain, from which sums over groups are made."""

    findings: tuple[Finding, ...]
    scores: Mapping[str, StageScore]
    chain: PartialChain


@dataclass(frozen=True)
class GroupComparer:
    """Compares group after group of a dump; nothing is kept between them."""

    problem: ProblemType
    dump: NamedDump
    plan: KernelPlan

    @staticmethod
    def of(problem: ProblemType, dump: NamedDump, name: str) -> GroupComparer:
        """A comparer whose tiles are whole k-blocks of all rows, as a single CTA would have them."""
        whole = (form for form in tiled(problem, dump) if dump.held[form] and K_BLOCKS not in form.axes)
        block, shape = dump.forms.cut(dump.inputs)
        plan = KernelPlan(
            name=name,
            problem=problem,
            block=block,
            shape=shape,
            cluster=1,
            threads=0,
            smem_bytes=0,
            stages=tuple(stage for stage in problem.stages if stage in held_stages(dump)),
            observations=tuple(
                OutputObservation(form.stage, form.name, f"[{', '.join(form.axes)}]") for form in whole
            ),
        )
        return GroupComparer(problem, dump, plan)

    @property
    def tiling(self) -> Tiling:
        return tiling_of(self.plan)

    def holds(self, group: int) -> bool:
        """Whether a part of the dump belongs to the group."""
        return any(meet(self._index(part.form, group), part.index) for part in self.dump.parts)

    def _index(self, form: TensorForm, group: int) -> tuple[slice, ...]:
        return self.dump.forms.group_index(form, self.dump.inputs, group)

    def tiles(self, inputs: ProblemInputs, group: int) -> tuple[list[StageTile], list[StageTile]]:
        """The dump's tiles of a group, and of sums after each k-block."""
        tiles: list[StageTile] = []
        sums: list[StageTile] = []
        for form in tiled(self.problem, self.dump):
            at = self._index(form, group)
            for part in self.dump.pieces(form):
                made = tiles_of(self.problem, inputs, self.tiling, part, at)
                (sums if K_BLOCKS in form.axes else tiles).extend(made)
        return tiles, sums

    def chain(self, group: int) -> PartialChain:
        """The chain of one group: its tiles in the dump, else the reference."""
        inputs = self.dump.forms.group_inputs(self.dump.inputs, group)
        return self._chain(inputs, self.tiles(inputs, group)[0], {})

    def _chain(self, inputs: ProblemInputs, tiles: list[StageTile], shared: Shared) -> PartialChain:
        return PartialChain(inputs, tiles, shared, problem=self.problem, tiling=self.tiling)

    def compare(self, group: int, explain: bool) -> GroupComparison:
        """The comparison of one group; `explain`: search the causes of what is wrong."""
        inputs = self.dump.forms.group_inputs(self.dump.inputs, group)
        shared: Shared = {}
        tiles, sums = self.tiles(inputs, group)
        chain = self._chain(inputs, tiles, shared)
        compared, of_sums = compare(chain, tiles), compare(chain, sums)
        wrong_sums = WrongSums(chain, sums, of_sums, Comparison())
        of_wrong_sums = wrong_sums.findings(Comparison(), "", coded=False, explain=explain)
        findings = [self._placed(finding, group) for finding in of_wrong_sums]
        wrong: dict[str, list[Divergence]] = {}
        for divergence in wrong_sums.without_consequences(compared).divergences:
            wrong.setdefault(divergence.tile.stage, []).append(divergence)
        for first, *others in wrong.values():
            finding = self._placed(self._explained(chain, first, len(others), explain), group)
            if explain and not finding.cause:
                finding = replace(finding, cause=self._of_another_group(first, group))
            findings.append(finding)
        scores = {SCORE.format(stage=name): score for name, score in of_sums.scores.items()}
        scores = {**compared.scores, **scores}
        if any(given_before(self.problem, self.dump, stage) for stage in self.plan.stages):
            outputs = {}
            for at in self.plan.observations:
                assert isinstance(at, OutputObservation)
                form = next(form for form in self.dump.tensors if form.name == at.parameter)
                values = np.asarray(self.dump.tensors[form][self._index(form, group)])
                outputs[form.name] = Output(values, np.ones(values.shape, bool))
            whole = EndToEnd(self.problem, inputs, self.tiling, shared)
            chained, off = whole.compare(self.plan, RunResult(outputs=outputs), "", list(self.plan.stages))
            scores |= chained
            findings += [self._placed(finding, group) for finding in off]
        return GroupComparison(tuple(findings), scores, chain)

    def _placed(self, finding: Finding, group: int) -> Finding:
        """The finding with the number of its group, which was compared alone."""
        at = finding.problem
        alone = f"{at.unit} 0"
        row = None if at.row is None else self.dump.forms.row_of(self.dump.inputs, group, at.row)
        return replace(
            finding,
            cause=finding.cause.replace(alone, f"{at.unit} {group}"),
            problem=replace(at, group=group, row=row),
        )

    def _of_another_group(self, wrong: Divergence, group: int) -> str:
        """Whether a wrong tile is that of another group (before, after, or the first), in words."""
        tile, total = wrong.tile, self.dump.forms.groups(self.dump.inputs)
        for other in dict.fromkeys((group - 1, group + 1, 0)):
            if not 0 <= other < total or other == group:
                continue
            chain = self.chain(other)
            if tile.coord not in chain.coordinates(tile.stage, 0):
                continue
            there = chain.reference(tile.stage, tile.coord, tile.rows, tile.cols)
            if there.value.shape == tile.value.shape and holds(
                tile.value.astype(np.float64)[wrong.wrong], there.value[wrong.wrong], there.bound[wrong.wrong]
            ):
                return f"the tile is that of {self.problem.unit} {other} (stale buffer, or its operands)"
        return ""

    def _explained(self, chain: PartialChain, wrong: Divergence, others: int, explain: bool) -> Finding:
        """The finding of a wrong tile. Its cause: a mistake of its own stage if the dump has any before it;
        else, and if there is none, a mistake of a stage before it that the dump does not have.
        """
        ranked = []
        given = given_before(self.problem, self.dump, wrong.tile.stage)
        if explain and not given:
            ranked = ranked_hypotheses(chain, wrong)
        finding = diagnose(chain, _widened(chain, wrong), "", others=others, explain=explain and not ranked)
        if explain and given and not finding.cause:
            ranked = ranked_hypotheses(chain, wrong)
        return explained(replace(finding, elements=int(wrong.wrong.size)), ranked)


def tiled(problem: ProblemType, dump: NamedDump) -> list[TensorForm]:
    """The dumped tensors whose elements belong to a single group each."""
    return [form for form in dump.held if not summed(problem, form)]


def summed(problem: ProblemType, form: TensorForm) -> bool:
    """Whether tiles of many groups are added up in the tensor."""
    return problem.stages[form.stage].output == form.axes


def held_stages(dump: NamedDump) -> dict[str, bool]:
    """The stages that the dump has something of, and whether it has all of it."""
    found: dict[str, bool] = {}
    for form, whole in dump.held.items():
        if K_BLOCKS not in form.axes:
            found[form.stage] = whole
    return {form.stage: False for form in dump.held} | found


def given_before(problem: ProblemType, dump: NamedDump, stage: str, whole: bool = False) -> list[str]:
    """The stages before `stage` that the dump holds, in the order of the graph; `whole`: all of them."""
    held = held_stages(dump)
    return [
        name for name in upstream(problem, stage) if held.get(name, False) or (name in held and not whole)
    ]


def _widened(chain: Chain, divergence: Divergence) -> Divergence:
    """Of a part of a tile the whole tile, which holds the reference elsewhere: causes are sought in tiles."""
    tile = divergence.tile
    rows, cols = chain.region(tile.stage, tile.coord)
    if (tile.rows, tile.cols) == (rows, cols):
        return divergence
    reference = chain.reference(tile.stage, tile.coord, rows, cols)
    at = np.s_[
        tile.rows.start - rows.start : tile.rows.stop - rows.start,
        tile.cols.start - cols.start : tile.cols.stop - cols.start,
    ]
    with np.errstate(over="ignore", invalid="ignore"):
        value = reference.value.astype(tile.value.dtype)
    wrong = np.zeros(value.shape, bool)
    value[at], wrong[at] = tile.value, divergence.wrong
    whole = replace(tile, rows=rows, cols=cols, value=value, written=np.ones(value.shape, bool))
    return Divergence(whole, reference, wrong, divergence.why)
