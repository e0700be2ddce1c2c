"""One run: a case, run on both builds of a kernel, and everything that is wrong with what they did."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tileproof.conformance.check.together import known_code, with_machine
from tileproof.conformance.diagnose.arrays import WEAK
from tileproof.conformance.diagnose.cause import cause, diagnose
from tileproof.conformance.drivers.driver import ALL, Capabilities, Driver
from tileproof.conformance.drivers.result import Output, RunResult, RunSchedule
from tileproof.conformance.judge import rows
from tileproof.conformance.judge.compare import Comparison, Divergence, StageScore, compare, index, order
from tileproof.conformance.judge.endtoend import EndToEnd
from tileproof.conformance.judge.finished import finished_findings
from tileproof.conformance.judge.machine import machine_findings
from tileproof.conformance.judge.repeat import outputs_differ
from tileproof.conformance.judge.rows import Rows, judge_rows, plant_canaries
from tileproof.conformance.observe.finding import Finding
from tileproof.conformance.observe.observation import BF16, Observation, axis_words, observe
from tileproof.conformance.observe.tiles import Chain, StageTile
from tileproof.kernels.compile import Built
from tileproof.kernels.target import Target
from tileproof.kernels.variant import Variant
from tileproof.reference.evaluate import Shared
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan, OutputObservation
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import known_stage, tiling_of
from tileproof.spec.problems.cases import AnyCase

ELSEWHERE = 3  # other wrong tiles that are asked for a cause where the first has none
# What ends a launch before its time: then nothing else that it shows says as much.
ENDED = ("hang", "card-fault", "card-hang")


@dataclass(frozen=True)
class KernelUnderTest:
    """What is under test: one variant of a kernel, its production and probe build (None: it has no probe
    build), and the driver that runs them.
    """

    kernel: Target
    variant: Variant
    production: Built
    probe: Callable[[], Built] | None = field(repr=False)
    driver: Driver = field(repr=False)
    stages: tuple[str, ...] = ()

    def plan(self) -> KernelPlan:
        """The kernel's plan; TileproofError when a wanted stage is not one that it computes."""
        plan = self.kernel.plan(self.variant)
        for name in self.stages:
            if known_stage(problem_type(plan.problem), name).name not in plan.stages:
                raise TileproofError(
                    f"{plan.name} does not compute this stage",
                    where="--stage",
                    expected=", ".join(plan.stages),
                    found=name,
                    do="choose a stage of this kernel's plan",
                )
        return plan

    def title(self) -> str:
        """The kernel and its variant, in words."""
        return self.kernel.title(self.variant)


@dataclass
class RunVerdict:
    """What one run showed. `findings` come in order: the first diverging stage first.

    `again`: the production build was launched again. `unrepeated`: nothing is wrong but that another schedule
    gives other outputs. `executed`: what ran of the production build (`tileproof.emulator.coverage`), empty
    where the driver does not say.
    """

    findings: list[Finding] = field(default_factory=list)
    scores: dict[str, StageScore] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    agreed: int = 0
    again: bool = False
    unrepeated: bool = False
    executed: bytes = b""


def every_fourth(case: AnyCase, schedule: RunSchedule) -> bool:
    """The rule by which an example that is drawn is launched again under another schedule: by its own text,
    so that it depends neither on the others nor on the process that runs it.
    """
    return zlib.crc32(f"{case.as_json()} {schedule.policy} {schedule.seed}".encode()) % 4 == 0


def run_case(
    under_test: KernelUnderTest,
    case: AnyCase,
    schedule: RunSchedule,
    *,
    explain: bool = True,
    again: bool = True,
) -> RunVerdict:
    """Runs production, then the probe build; judges stage after stage, then one build against the other; with
    `again` production once more under another schedule. A driver that chooses no schedules launches it again
    in any case.

    `explain` false leaves the causes of wrong values out.
    """
    inputs = case.inputs()
    plan, probe = under_test.plan(), under_test.probe
    can = under_test.driver.capabilities

    def launch(built: Built, is_probe: bool, when: RunSchedule, taps: bool) -> RunResult:
        described = under_test.kernel.launch(inputs, built, is_probe)
        plant_canaries(plan, inputs, described)
        return under_test.driver.run(described, plan, when, taps)

    def under(when: RunSchedule, repeat: Callable[[], RunResult] | None = None) -> RunVerdict:
        return judge(
            plan,
            inputs,
            launch(under_test.production, False, when, True),
            None if probe is None else lambda: launch(probe(), True, when, False),
            under_test.stages,
            coded=case.values == "coordinates",
            again=repeat,
            explain=explain,
            capabilities=can,
        )

    if "schedules" not in can:  # the same launch again, in whatever order comes this time
        return under(schedule, lambda: launch(under_test.production, False, schedule, False))
    other = RunSchedule("early" if schedule.policy == "late" else "late", schedule.seed)
    verdict = under(schedule, (lambda: launch(under_test.production, False, other, False)) if again else None)
    if verdict.unrepeated:
        # Where the other schedule went wrong says more than that it did.
        seen = [
            replace(one, message=f"{one.message}, under schedule {other.policy}")
            for one in under(other).findings
        ]
        verdict.findings = [*seen, *verdict.findings]
    return verdict


def judge(
    plan: KernelPlan,
    inputs: Any,
    production: RunResult,
    probe: Callable[[], RunResult] | None,
    stages: Sequence[str] = (),
    *,
    coded: bool = False,
    again: Callable[[], RunResult] | None = None,
    explain: bool = True,
    capabilities: Capabilities = ALL,
) -> RunVerdict:
    """Everything wrong with two launches on the same inputs; the probe build (None: there is none) runs when
    production is clean.

    `stages` restricts the stages that are compared. `again` launches the production build again, under
    another schedule where the driver chooses; it runs when both builds are clean, and its outputs must be the
    same (`disagree`). What a driver without some of `capabilities` hands back in their place is not looked
    at.
    """
    marks = "written" in capabilities
    verdict = RunVerdict(executed=production.executed)
    problem, tiling = problem_type(plan.problem), tiling_of(plan)
    wanted = [name for name in problem.stages if name in (stages or plan.stages)]
    faults: list[Finding] = []
    views: dict[str, Observation] = {}
    sums: dict[str, list[Rows]] = {}
    shared: Shared = {}
    whole = EndToEnd(problem, inputs, tiling, shared)
    for build in ("production", "probe"):
        if faults or (build == "probe" and probe is None):
            break
        run_result = production if build == "production" or probe is None else (last := probe())
        run_result = run_result if marks else _taken_as_written(run_result)
        captures = build == "production" and "capture" in capabilities
        view = observe(
            plan, inputs, run_result, build, probe=build == "probe", captures=captures, surplus=marks
        )
        tiles = tuple(tile for tile in view.tiles if tile.stage in wanted)
        views[build] = replace(view, tiles=tiles)
        chain = Chain(inputs, index(view.tiles), shared, problem=problem, tiling=tiling)
        result = compare(chain, tiles)
        _count(verdict, result.scores)
        faults += _wrong_tiles(chain, result, build, coded, explain)
        rows_seen = judge_rows(plan, chain, run_result, build, explain=explain)
        sums[build] = [one for one in rows_seen if one.at.stage in wanted]
        for one in sums[build]:
            _count(verdict, {rows.SCORE.format(stage=one.at.stage): one.score})
            faults += one.findings
        if build == "production":
            scores, wrong = whole.judge(plan, run_result, build, wanted)
            _count(verdict, scores)
            faults += wrong
        faults += finished_findings(plan, inputs, run_result, build, wanted)
        faults += [finding for finding in view.findings if finding.stage in wanted]
        faults += machine_findings(plan, inputs, run_result, build)
        for remark in run_result.findings:
            if remark.severity != "error":
                verdict.remarks[remark.code] = verdict.remarks.get(remark.code, 0) + remark.count
        for accepted in run_result.allowed:
            name = f"allowed: {accepted.code} at {accepted.source or f'PTX line {accepted.ptx_line}'}"
            verdict.remarks[name] = verdict.remarks.get(name, 0) + accepted.count
    if not faults and probe is not None:
        faults += _disagreements(plan, views["production"], views["probe"], verdict)
        added = [one.at for one in sums["production"]]
        faults += outputs_differ(plan, inputs, added, production, last, sums["production"], "the probe build")
    if not faults and again is not None:
        outputs = [
            at
            for at in plan.observations
            if isinstance(at, OutputObservation) and at.stage in wanted and at.parameter not in plan.unordered
        ]
        what = "another schedule" if "schedules" in capabilities else "a second launch"
        faults += outputs_differ(plan, inputs, outputs, production, again(), sums["production"], what)
        verdict.again, verdict.unrepeated = True, bool(faults)
    stopped = any(fault.kind == "machine" for fault in faults)
    short = any(code.stops for fault in faults if (code := known_code(fault.code)) is not None)
    order_of = list(problem.stages)
    faults = with_machine(faults, order_of) if explain else faults
    verdict.findings = sorted(faults, key=lambda fault: _rank(fault, stopped, short, order_of))
    return verdict


def _taken_as_written(run_result: RunResult) -> RunResult:
    """The result of a driver that does not say which elements a launch wrote."""
    outputs = {
        name: Output(one.values, np.ones(one.values.shape, bool)) for name, one in run_result.outputs.items()
    }
    return replace(run_result, outputs=outputs)


def _count(verdict: RunVerdict, scores: Mapping[str, StageScore]) -> None:
    for name, score in scores.items():
        verdict.scores.setdefault(name, StageScore()).add(score)


def _wrong_tiles(chain: Chain, result: Comparison, build: str, coded: bool, explain: bool) -> list[Finding]:
    """One finding per stage: its first wrong tile, with the number of the others."""
    wrong: dict[str, list[Divergence]] = {}
    for divergence in result.divergences:
        wrong.setdefault(divergence.tile.stage, []).append(divergence)
    found = []
    for first, *others in wrong.values():
        finding = diagnose(chain, first, build, others=len(others), coded=coded, explain=explain)
        if explain and finding.cause in WEAK:
            told = filter(None, (finding.cause, _told_elsewhere(chain, first, others)))
            finding = replace(finding, cause="; ".join(told))
        found.append(finding)
    return found


def _told_elsewhere(chain: Chain, first: Divergence, others: list[Divergence]) -> str:
    """The cause that another wrong tile of the stage has, with its place: where keys repeat, a mask is narrow
    or all is NaN, a tile tells little. Those of other groups are asked first, one of each.
    """
    asked = [one for one in others if np.isfinite(one.tile.value[one.tile.written & one.wrong]).any()]
    asked.sort(key=lambda one: int(one.wrong.sum()))
    groups = {one.tile.coord.group: one for one in asked if one.tile.coord.group != first.tile.coord.group}
    others = [one for one in reversed(asked) if groups.get(one.tile.coord.group) is not one]
    for one in [*groups.values(), *others][:ELSEWHERE]:
        told = cause(chain, one)
        if told not in WEAK:
            coord = one.tile.coord
            block = "" if coord.k_block is None else f", k-block {coord.k_block}"
            return f"in {chain.problem.unit} {coord.group}{block}: {told}"
    return ""


def _disagreements(
    plan: KernelPlan, production: Observation, probe: Observation, verdict: RunVerdict
) -> list[Finding]:
    """Tiles that both builds show but not with the same bits."""
    other = index(probe.tiles)
    findings: dict[str, Finding] = {}
    for tile in sorted(production.tiles, key=lambda t: order(t.key, problem_type(plan.problem).stages)):
        twin = other.get(tile.key)
        if twin is None:
            continue
        verdict.agreed += 1
        differ = (_bits(tile, twin.operand) != _bits(twin, tile.operand)) | (tile.written != twin.written)
        if differ.any() and tile.stage not in findings:
            row, column = (int(i) for i in np.argwhere(differ)[0])
            findings[tile.stage] = Finding(
                kind="disagree",
                message=f"{tile.stage} of the production build and of the probe build are not the same bits",
                stage=tile.stage,
                group=tile.coord.group,
                unit=problem_type(plan.problem).unit,
                cta=tile.coord.cta,
                k_block=tile.coord.k_block,
                row=tile.rows.start + row,
                column=None if tile.value.shape[1] == 1 else tile.cols.start + column,
                axes=axis_words(problem_type(plan.problem), tile.stage),
                expected=float(tile.value[row, column]),
                found=float(twin.value[row, column]),
                wrong=int(differ.sum()),
                elements=int(differ.size),
                pattern="expected is the production build's value, found the probe build's",
            )
    return list(findings.values())


def _bits(tile: StageTile, operand: bool) -> np.ndarray:
    """The tile's values as bits, as the MMA's bf16 copy when `operand` asks for that; every NaN is alike."""
    value = tile.value
    if operand and not tile.operand:
        value = value.astype(BF16)
    value = np.ascontiguousarray(value, dtype=np.float32)
    return np.where(np.isnan(value), np.float32(np.nan), value).view(np.uint32)


def _rank(
    finding: Finding, stopped: bool, short: bool, stages: list[str]
) -> tuple[bool, bool, int, int, bool]:
    """Stage graph order, wrong values before machine findings, production before probe build.

    When the machine `stopped` on an error, what ended it comes first and what is missing last; and when the
    launch was cut `short`, so do the sums of whole outputs, which are not complete.
    """
    place = stages.index(finding.stage) if finding.stage in stages else len(stages)
    kind = {"value": 0, "machine": 1, "chain": 3}.get(finding.kind, 2)
    follows = stopped and finding.kind == "missing"
    follows |= short and finding.kind == "value" and finding.group is None
    # What the whole chain gives is wrong wherever one stage is.
    return (
        finding.code not in ENDED,
        finding.kind == "chain" or follows,
        place,
        kind,
        finding.build == "probe",
    )
