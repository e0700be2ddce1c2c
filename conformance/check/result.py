"""The result of a check, and its form for `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tileproof.conformance.compare.compare import StageScore
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.certificate import Certificate
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import JsonObject
from tileproof.spec.problems.cases import AnyCase


@dataclass
class Failure:
    """The smallest failing example: its case and schedule, and all that is wrong with it."""

    case: AnyCase
    schedule: Schedule
    findings: list[Finding]
    repeated: bool = True  # whether it failed again when it ran for the report


@dataclass
class Report:
    """The result of a check of one variant; `title` names both in words."""

    kernel: str
    variant: Variant
    title: str
    examples: int = 0
    seconds: float = 0.0
    scores: dict[str, StageScore] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    certificates: list[Certificate | None] = field(default_factory=list, repr=False)
    agreed: int = 0
    again: int = 0  # examples whose production build was launched again, and gave the same outputs
    failure: Failure | None = None
    driver: str = ""
    not_judged: tuple[str, ...] = ()  # what the driver or the kernel does not show, in words
    chosen_schedules: bool = True  # whether the driver takes the schedule of a run
    interrupted: bool = False  # before all examples had run, or while a failing example was shrunk
    schedules: list[Schedule] = field(default_factory=list)  # of the runs counted
    executed: bytes = b""  # what ran of the production build (tileproof.emulator.coverage)

    def count(self, run: JudgedRun, schedule: Schedule) -> None:
        """Adds one run."""
        self.examples += 1
        self.schedules.append(schedule)
        if run.executed:  # of the emulator, which is not loaded where another driver runs
            from tileproof.emulator.coverage import union

            ran = [bits for _, _, bits in run.executed]
            self.executed = union([*ran, self.executed] if self.executed else ran)
        self.agreed += run.agreed
        self.again += run.again
        for name, score in run.scores.items():
            self.scores.setdefault(name, StageScore()).add(score)
        self.certificates.append(run.certificate)
        for code, number in run.remarks.items():
            self.remarks[code] = self.remarks.get(code, 0) + number


def scores_as_dict(scores: Mapping[str, StageScore]) -> dict[str, JsonObject]:
    """What was compared of each stage, and how near its worst element came to its bound."""
    return {
        name: {
            "tiles": score.tiles,
            "elements": score.elements,
            "exact_elements": score.exact,
            "worst_error_over_bound": score.worst,
            "elements_without_bound": score.unbounded,
        }
        for name, score in scores.items()
    }


def as_dict(report: Report, command: str = "") -> JsonObject:
    """The report for `--json`."""
    result: JsonObject = {
        "kernel": report.kernel,
        "variant": dict(report.variant.sizes),
        "driver": report.driver,
        "verdict": "defect" if report.failure else "incomplete" if report.interrupted else "clean",
        "examples": report.examples,
        "interrupted": report.interrupted,
        "seconds": round(report.seconds, 3),
        "stages": scores_as_dict(report.scores),
        "tiles_equal_in_both_builds": report.agreed,
        "launched_again": report.again,
        "remarks": report.remarks,
        "not_judged": list(report.not_judged),
    }
    if report.failure:
        result["case"] = report.failure.case.as_json()
        if report.chosen_schedules:
            schedule = report.failure.schedule
            result["schedule"] = {"policy": schedule.policy, "seed": schedule.seed}
        result["findings"] = [asdict(finding) for finding in report.failure.findings]
        result["replay"] = command
        result["repeated"] = report.failure.repeated
    return result
