"""Runs a case on both builds of a kernel and collects its findings."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tileproof.conformance.check import spread
from tileproof.conformance.check.builds import ComparedBuilds
from tileproof.conformance.check.machine_causes import known_code, with_machine
from tileproof.conformance.compare.compare import index, order
from tileproof.conformance.compare.held import Ordered
from tileproof.conformance.compare.repeat import outputs_differ
from tileproof.conformance.compare.rows import plant_canaries
from tileproof.conformance.drivers.driver import ALL, Capabilities, Driver
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.observe.observation import Observation, axis_words
from tileproof.conformance.observe.tiles import StageTile
from tileproof.kernels.compile import Built
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, ProblemPlace
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan, OutputObservation, Products
from tileproof.spec.problems.base import known_stage
from tileproof.spec.problems.cases import AnyCase, ProblemInputs, spread_of

# What ends a launch early: the strongest evidence that the launch gives.
ENDED = ("hang", "card-fault", "card-hang")


@dataclass(frozen=True)
class KernelUnderTest:
    """What is under test: one variant of a kernel, its production and probe build (None: it has no probe
    build), and the driver that runs them.
    """

    kernel: Kernel
    variant: Variant
    production: Built
    probe: Callable[[], Built] | None = field(repr=False)
    driver: Driver = field(repr=False)
    stages: tuple[str, ...] = ()

    def plan(self) -> KernelPlan:
        """The kernel's plan; TileproofError if it does not compute a requested stage."""
        plan = self.kernel.plan(self.variant)
        for name in self.stages:
            if known_stage(plan.problem, name).name not in plan.stages:
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


def every_fourth(case: AnyCase, schedule: Schedule) -> bool:
    """Whether a drawn example also runs under another schedule: by a hash of its text, so that the selection
    depends neither on other examples nor on the process.
    """
    return zlib.crc32(f"{case.as_json()} {schedule.policy} {schedule.seed}".encode()) % 4 == 0


def run_case(
    under_test: KernelUnderTest,
    case: AnyCase,
    schedule: Schedule,
    *,
    explain: bool = True,
    again: bool = True,
) -> JudgedRun:
    """Runs production, then the probe build; judges stage after stage, then one build against the other; with
    `again` production once more under another schedule, unless it is certified for all schedules. A driver
    that chooses no schedules launches it again in any case.

    `explain` false leaves the causes of wrong values out.
    """
    inputs = case.inputs()
    plan, probe = under_test.plan(), under_test.probe
    can = under_test.driver.capabilities
    part = spread_of(case, inputs)
    wide, fits_probe = None, True
    if part is not None and "clusters" in can:
        whole = under_test.kernel.launch(part.inputs, under_test.production, False)
        own = under_test.kernel.launch(inputs, under_test.production, False)
        if spread.fits(part, plan, whole, own):
            wide = part
            fits_probe = probe is None or spread.has_room(
                under_test.kernel.launch(part.inputs, probe(), True)
            )
    elsewhere: dict[str, list[Finding]] = {}

    def launch(built: Built, is_probe: bool, when: Schedule, taps: bool) -> RunResult:
        described = under_test.kernel.launch(inputs if wide is None else wide.inputs, built, is_probe)
        if wide is None:
            return under_test.driver.run(plant_canaries(plan, inputs, described), plan, when, taps)
        own = under_test.kernel.launch(inputs, built, is_probe)
        planted = plant_canaries(plan, inputs, spread.chosen(wide, described, own))
        seen = under_test.driver.run(planted, plan, when, taps)
        build = "probe" if is_probe else "production"
        elsewhere.setdefault(build, spread.elsewhere(wide, plan, seen, build))
        return spread.gathered(wide, plan, seen, described)

    def under(when: Schedule, repeat: Callable[[], RunResult] | None = None) -> JudgedRun:
        run = judge_run(
            plan,
            inputs,
            launch(under_test.production, False, when, True),
            None if probe is None or not fits_probe else lambda: launch(probe(), True, when, False),
            under_test.stages,
            coded=case.values == "coordinates",
            again=repeat,
            explain=explain,
            capabilities=can,
            products=under_test.driver.products,
        )
        if wide is not None:
            found = (spread.placed(wide, plan, finding, whole) for finding in run.findings)
            run.findings = [*found, *(finding for build in elsewhere.values() for finding in build)]
            text = f"{plan.problem.unit}s of a larger problem that did not run are not judged"
            run.remark(text, wide.count - len(wide.groups))
            if not fits_probe:
                run.remark("the probe build did not run: its outputs of the larger problem do not fit", 1)
        elif part is not None:
            text = (
                f"{plan.problem.unit}s of a larger problem ran as a small problem: far offsets are not judged"
            )
            run.remark(text, len(part.groups))
        return run

    if "schedules" not in can:  # the same launch again, in any order
        return under(schedule, lambda: launch(under_test.production, False, schedule, False))
    other = Schedule("early" if schedule.policy == "late" else "late", schedule.seed)
    run = under(schedule, (lambda: launch(under_test.production, False, other, False)) if again else None)
    if run.unrepeated:
        # Where the other schedule went wrong says more than that it did.
        seen = [
            replace(finding, message=f"{finding.message}, under schedule {other.policy}")
            for finding in under(other).findings
        ]
        run.findings = [*seen, *run.findings]
    return run


def judge_run(
    plan: KernelPlan,
    inputs: ProblemInputs,
    production: RunResult,
    probe: Callable[[], RunResult] | None,
    stages: Sequence[str] = (),
    *,
    coded: bool = False,
    again: Callable[[], RunResult] | None = None,
    explain: bool = True,
    capabilities: Capabilities = ALL,
    products: Products | None = None,
) -> JudgedRun:
    """Everything wrong with two launches on the same inputs; the probe build (None: there is none) runs when
    production is clean.

    `stages` restricts the stages that are compared. `again` launches the production build again, under
    another schedule where the driver chooses; it runs when both builds are clean and production is not
    certified for all schedules, and its outputs must be the same (`disagree`). `products`: the arithmetic of
    the driver's tensor cores. What a driver without some of `capabilities` hands back in their place is not
    looked at.
    """
    run = JudgedRun(
        executed=production.executed_by_entry,
        finished=not production.errors,
        points=production.counters.schedule_points,
        certificate=production.certificate,
    )
    wanted = [name for name in plan.problem.stages if name in (stages or plan.stages)]
    ordered = None if products is None else Ordered(plan, products)
    builds = ComparedBuilds(plan, inputs, wanted, run, capabilities, ordered, coded, explain)
    findings = builds.compare("production", production)
    if not findings and probe is not None:
        last = probe()
        findings += builds.compare("probe", last)
        if not findings:
            findings += _disagreements(plan, builds.views["production"], builds.views["probe"], run)
            sums = builds.sums["production"]
            added = [added_rows.at for added_rows in sums]
            findings += outputs_differ(plan, inputs, added, production, last, sums, "the probe build")
    if not findings and again is not None and not production.certified:
        outputs = [
            at
            for at in plan.observations
            if isinstance(at, OutputObservation) and at.stage in wanted and at.parameter not in plan.unordered
        ]
        what = "another schedule" if "schedules" in capabilities else "a second launch"
        sums = builds.sums["production"]
        findings += outputs_differ(plan, inputs, outputs, production, again(), sums, what)
        run.again, run.unrepeated = True, bool(findings)
    stopped = any(finding.kind == "machine" for finding in findings)
    short = any(code.stops for finding in findings if (code := known_code(finding.code)) is not None)
    order_of = list(plan.problem.stages)
    findings = with_machine(findings, order_of, production.findings) if explain else findings
    run.findings = sorted(findings, key=lambda finding: _rank(finding, stopped, short, order_of))
    return run


def _disagreements(
    plan: KernelPlan, production: Observation, probe: Observation, run: JudgedRun
) -> list[Finding]:
    """Tiles that both builds show but not with the same bits."""
    other = index(probe.tiles)
    findings: dict[str, Finding] = {}
    for tile in sorted(production.tiles, key=lambda t: order(t.key, plan.problem.stages)):
        twin = other.get(tile.key)
        if twin is None:
            continue
        run.agreed += 1
        differ = (_bits(tile, twin) != _bits(twin, tile)) | (tile.written != twin.written)
        if differ.any() and tile.stage not in findings:
            row, column = (int(i) for i in np.argwhere(differ)[0])
            place = ProblemPlace(
                stage=tile.stage,
                group=tile.coord.group,
                unit=plan.problem.unit,
                cta=tile.coord.cta,
                k_block=tile.coord.k_block,
                row=tile.rows.start + row,
                column=None if tile.value.shape[1] == 1 else tile.cols.start + column,
                axes=axis_words(plan.problem, tile.stage),
            )
            findings[tile.stage] = Finding(
                "disagree",
                f"{tile.stage} of the production build and of the probe build have different bits",
                problem=place,
                expected=float(tile.value[row, column]),
                found=float(twin.value[row, column]),
                wrong=int(differ.sum()),
                elements=int(differ.size),
                pattern="expected: the production build; found: the probe build",
            )
    return list(findings.values())


def _bits(tile: StageTile, twin: StageTile) -> np.ndarray:
    """The tile's values as bits, rounded as the MMA's copy where the twin is one; every NaN is alike."""
    value = tile.value
    if twin.operand and not tile.operand:
        with np.errstate(over="ignore"):  # f16 ends at 65504
            value = value.astype(twin.value.dtype)
    value = np.ascontiguousarray(value, dtype=np.float32)
    return np.where(np.isnan(value), np.float32(np.nan), value).view(np.uint32)


def _rank(
    finding: Finding, stopped: bool, short: bool, stages: list[str]
) -> tuple[bool, bool, int, int, bool]:
    """Stage graph order, wrong values before machine findings, production before probe build.

    When the machine `stopped` on an error, what ended it comes first and what is missing last; and when the
    launch was cut `short`, so do the sums of whole outputs, which are not complete.
    """
    at = finding.problem
    place = stages.index(at.stage) if at.stage in stages else len(stages)
    kind = {"value": 0, "machine": 1, "chain": 3}.get(finding.kind, 2)
    follows = stopped and finding.kind == "missing"
    follows |= short and finding.code == "value" and at.group is None
    follows |= stopped and finding.bound == np.inf  # computed from what was never written
    # What the whole chain gives is wrong wherever one stage is.
    return (
        finding.code not in ENDED,
        finding.kind == "chain" or follows,
        place,
        kind,
        at.build == "probe",
    )
