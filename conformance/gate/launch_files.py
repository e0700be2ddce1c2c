"""The gate's checks of a launch file: `judge`, a repeated run, the model's clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import hypot

from tileproof.conformance.beside.timing.launch import time_launches
from tileproof.conformance.explore.launch_file import ExploredLaunch
from tileproof.conformance.gate.difference import CLOCKS
from tileproof.conformance.gate.evidence import ReleaseEvidence, RunFacts, again, evidence
from tileproof.conformance.gate.model import EFFORTS
from tileproof.conformance.judging.judging import JudgeOptions
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.judging.runs import RunOptions, run_once
from tileproof.conformance.launches.modules import load
from tileproof.conformance.processes.children import in_child
from tileproof.conformance.verdict import program as programs
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.emulator import Schedule
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult

SECONDS = {"quick": 60.0, "full": 600.0, "nightly": 3600.0}  # of the judgement, by profile
CHECK_S = 600.0  # of each check beside it
TWICE = (Schedule("early"), Schedule("late"), Schedule("random", 1))


@dataclass(frozen=True)
class GatedLaunch:
    """A launch file in the gate: what names it on the command line, and what its outputs should be."""

    argument: str
    file: LaunchFile
    reference: ReferenceFunction | None = None

    function = False  # it is PTX

    @property
    def key(self) -> str:
        """What names the launch file in results."""
        return self.argument


def verdict_on_launch(
    gated: GatedLaunch,
    judged: Callable[[JudgeOptions], VerdictRecord],
    *,
    profile: str = "quick",
    seed: int = 0,
    strict: bool = False,
    workers: int = 1,
    progress: Callable[[str], None] = lambda line: None,
    interrupts: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
) -> VerdictRecord:
    """What `judged` finds under the profile's schedules, and the gate's other checks of a launch."""
    progress(f"{gated.argument}: judging")
    made = judged(
        JudgeOptions(
            SECONDS[profile], seed, EFFORTS[profile].schedules, processes=workers,  # type: ignore[index]
            run=RunOptions(strict=strict),
        )
    )  # fmt: skip
    if made.verdict == "error" or made.coverage is None:
        return made
    checks = list(made.checks)
    try:
        for name, check in (("determinism", determinism), (CLOCKS, timing)):
            progress(f"{gated.argument}: {name}")
            checks.append(_in_child(name, check, gated, required=name != CLOCKS))
    except interrupts:
        return programs.redecided(made, checks, interrupted=True)
    return programs.redecided(made, checks)


def _in_child(
    name: str, check: Callable[[GatedLaunch], CheckOutcome], gated: GatedLaunch, required: bool
) -> CheckOutcome:
    done = in_child(lambda: check(gated), CHECK_S)
    if done.value is not None:
        return done.value
    fault = str(done.error) if done.error else done.fault
    return CheckOutcome(name, required, "not run", "the check did not finish", fault)


def determinism(gated: GatedLaunch) -> CheckOutcome:
    """The same launches under the same schedule give the same bits and the same findings."""
    modules = load(gated.file)
    wrong = []
    for schedule in TWICE:
        first, second = (run_once(gated.file, modules, schedule, RunOptions()) for _ in range(2))
        wrong += [f"{what} under {schedule}" for what in _different(first, second)]
    reason = "not repeated: " + ", ".join(wrong) if wrong else ""
    details = {"launches": 2 * len(TWICE) * len(gated.file.launches)}
    return CheckOutcome("determinism", True, "failed" if wrong else "passed", reason, details=details)


def _different(first: RunResult, second: RunResult) -> list[str]:
    out = [
        f"output {name}"
        for name, output in first.outputs.items()
        if not output.same_bits(second.outputs[name])
    ]
    same = [str(f) for f in first.findings] == [str(f) for f in second.findings]
    return out if same else [*out, "findings"]


def timing(gated: GatedLaunch) -> CheckOutcome:
    """The clocks of the launches by the model, one after another, for comparison with a baseline."""
    try:
        reports = [timed.report for timed in time_launches(ExploredLaunch(gated.file), False, {})]
    except TileproofError as error:
        return CheckOutcome(CLOCKS, False, "unsupported", str(error))
    details = {
        "clocks": sum(report.clocks.likely for report in reports),
        "best": sum(report.clocks.best for report in reports),
        "worst": sum(report.clocks.worst for report in reports),
        "noise": hypot(*(report.noise.error for report in reports)),
    }
    return CheckOutcome(CLOCKS, False, "passed", "no clock budget is stated", details=details)


def joined(
    made: ReleaseEvidence | None, verdicts: Sequence[VerdictRecord], run: RunFacts, **about: object
) -> ReleaseEvidence:
    """The evidence with the verdicts on launch files, which `run` is about. `about`: profile, seed and strict
    of a new evidence.
    """
    if made is None:
        return evidence(verdicts, [], complete=True, sections={}, run=run, **about)  # type: ignore[arg-type]
    both = replace(run, seconds=made.run.seconds + run.seconds, checks={**made.run.checks, **run.checks})
    return again(made, [*made.kernels, *verdicts], run=replace(both, began=made.run.began))
