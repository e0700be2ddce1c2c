"""Compares the run of a build with the references: tiles, partial sums, added rows, whole outputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from tileproof.conformance.compare import rows
from tileproof.conformance.compare.compare import Comparison, Divergence, compare, index
from tileproof.conformance.compare.endtoend import EndToEnd
from tileproof.conformance.compare.finished import finished_findings
from tileproof.conformance.compare.held import Ordered
from tileproof.conformance.compare.machine import machine_findings
from tileproof.conformance.compare.rows import Rows, judge_rows
from tileproof.conformance.diagnose import partial
from tileproof.conformance.diagnose.arrays import WEAK
from tileproof.conformance.diagnose.cause import cause, diagnose
from tileproof.conformance.drivers.driver import Capabilities
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.observe.observation import Observation, observe
from tileproof.conformance.observe.tiles import Chain
from tileproof.reference.evaluate import Shared
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import source_or_line
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import tiling_of
from tileproof.spec.problems.cases import ProblemInputs

ELSEWHERE = 3  # other wrong tiles that are asked for a cause where the first has none


@dataclass
class ComparedBuilds:
    """The builds of a kernel on the same inputs. Scores and remarks are added to `run`; `views` and `sums`
    are by build.
    """

    plan: KernelPlan
    inputs: ProblemInputs
    wanted: list[str]  # stages
    run: JudgedRun
    capabilities: Capabilities
    ordered: Ordered | None
    coded: bool
    explain: bool
    views: dict[str, Observation] = field(default_factory=dict)
    sums: dict[str, list[Rows]] = field(default_factory=dict)
    _shared: Shared = field(default_factory=dict)

    def compare(self, build: str, run_result: RunResult) -> list[Finding]:
        """Return the findings of a build's run: wrong tiles, then outputs, then those of the machine."""
        plan, inputs, wanted = self.plan, self.inputs, self.wanted
        marks = "written" in self.capabilities
        run_result = run_result if marks else _assume_all_written(run_result)
        captures = build == "production" and "capture" in self.capabilities
        view = observe(
            plan, inputs, run_result, build, probe=build == "probe", captures=captures, surplus=marks
        )
        self.views[build] = replace(view, tiles=tuple(tile for tile in view.tiles if tile.stage in wanted))
        chain = Chain(inputs, index(view.tiles), self._shared, problem=plan.problem, tiling=tiling_of(plan))
        findings = self._tiles(chain, view, build)
        findings += self._rows(chain, run_result, build)
        # A wrong tile says more than the whole chain, which is wrong behind it: without causes it is enough.
        if build == "production" and (self.explain or not findings):
            whole = EndToEnd(plan.problem, inputs, tiling_of(plan), self._shared)
            scores, wrong = whole.compare(plan, run_result, build, wanted)
            self.run.count(scores)
            findings += wrong
        findings += finished_findings(plan, inputs, run_result, build, wanted)
        findings += [finding for finding in view.findings if finding.problem.stage in wanted]
        findings += machine_findings(plan, inputs, run_result, build)
        self._remark(run_result)
        return findings

    def _tiles(self, chain: Chain, view: Observation, build: str) -> list[Finding]:
        result = compare(chain, self.views[build].tiles, self.ordered)
        self.run.count(result.scores)
        parts = tuple(tile for tile in view.partials if tile.stage in self.wanted)
        compared = compare(chain, parts, self.ordered)
        self.run.count({partial.SCORE.format(stage=name): score for name, score in compared.scores.items()})
        sums_wrong = partial.WrongSums(chain, parts, compared, result)
        findings = [*sums_wrong.findings(result, build, coded=self.coded, explain=self.explain)]
        return findings + _wrong_tiles(chain, result, sums_wrong, build, self.coded, self.explain)

    def _rows(self, chain: Chain, run_result: RunResult, build: str) -> list[Finding]:
        before = [rows for sums in self.sums.values() for rows in sums]
        judged = judge_rows(self.plan, chain, run_result, build, explain=self.explain, judged=before)
        self.sums[build] = [added for added in judged if added.at.stage in self.wanted]
        for added in self.sums[build]:
            self.run.count({rows.SCORE.format(stage=added.at.stage): added.score})
        return [finding for added in self.sums[build] for finding in added.findings]

    def _remark(self, run_result: RunResult) -> None:
        for finding in run_result.findings:
            if finding.severity != "error":
                self.run.remark(finding.code, finding.count)
        for accepted in run_result.allowed:
            at = accepted.machine
            place = source_or_line(at.source, at.ptx_line)
            self.run.remark(f"allowed: {accepted.code} at {place}", accepted.count)


def _assume_all_written(run_result: RunResult) -> RunResult:
    """The result of a driver that does not report written elements."""
    outputs = {
        name: Output(output.values, np.ones(output.values.shape, bool))
        for name, output in run_result.outputs.items()
    }
    return replace(run_result, outputs=outputs)


def _wrong_tiles(
    chain: Chain, result: Comparison, sums: partial.WrongSums, build: str, coded: bool, explain: bool
) -> list[Finding]:
    """One finding per stage: its first wrong tile, with the number of the others; not of tiles that are wrong
    because a partial sum of theirs is.
    """
    wrong: dict[str, list[Divergence]] = {}
    for divergence in sums.without_consequences(result).divergences:
        wrong.setdefault(divergence.tile.stage, []).append(divergence)
    found = []
    for first, *others in wrong.values():
        finding = diagnose(chain, first, build, others=len(others), coded=coded, explain=explain)
        if explain and finding.cause in WEAK:
            causes = filter(None, (finding.cause, _cause_from_other_tiles(chain, first, others)))
            finding = replace(finding, cause="; ".join(causes))
        if explain and sums.right(first.tile):
            finding = replace(finding, cause="; ".join(filter(None, (finding.cause, partial.RIGHT))))
        found.append(finding)
    return found


def _cause_from_other_tiles(chain: Chain, first: Divergence, others: list[Divergence]) -> str:
    """The cause of another wrong tile of the stage, with its place: with repeated keys, a narrow mask or
    only NaN, a tile has little information. One tile of each other group is tried first.
    """
    asked = [
        other for other in others if np.isfinite(other.tile.value[other.tile.written & other.wrong]).any()
    ]
    asked.sort(key=lambda divergence: int(divergence.wrong.sum()))
    groups = {
        other.tile.coord.group: other for other in asked if other.tile.coord.group != first.tile.coord.group
    }
    others = [other for other in reversed(asked) if groups.get(other.tile.coord.group) is not other]
    for group in [*groups.values(), *others][:ELSEWHERE]:
        words = cause(chain, group)
        if words not in WEAK:
            coord = group.tile.coord
            block = "" if coord.k_block is None else f", k-block {coord.k_block}"
            return f"in {chain.problem.unit} {coord.group}{block}: {words}"
    return ""
