"""Stage conformance and determinism: the values of every tile, and whether a second run repeats them."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tileproof.conformance.cases.generators import small
from tileproof.conformance.check import property as checking
from tileproof.conformance.check.result import Failure, Report, scores_as_dict
from tileproof.conformance.gate.failing import failing_tile, trace_around
from tileproof.conformance.gate.model import CheckReport, GatedVariant, gate_check
from tileproof.emulator.coverage import union
from tileproof.spec.machine.certificate import summary
from tileproof.spec.machine.finding_text import headline, lines
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import SEEDED, Schedule


@gate_check("stage conformance", functions=True)
def stages(gated: GatedVariant) -> CheckReport:
    """Every stage of generated problems and edges, tile by tile within its bound, races and both builds."""
    effort = gated.effort
    report = checking.check(
        gated.under_test,
        examples=effort.examples,
        seed=gated.seed,
        shrink_seconds=effort.shrink_seconds,
    )
    seeds: dict[str, list[int]] = {}
    for schedule in report.schedules:
        seeds.setdefault(schedule.policy, []).append(schedule.seed if schedule.policy in SEEDED else 0)
    made = CheckReport(
        "failed" if report.failure else "passed",
        details=figures(report),
        executed=report.executed,
        schedules=seeds,
    )
    if report.failure is None:
        return made
    failure = report.failure
    command = shlex.join(replay(gated, failure))
    made.findings = [
        replace(finding, check="stage conformance", replay=command) for finding in failure.findings
    ]
    made.reason = headline(failure.findings[0])
    made.details["failure"] = {
        "case": failure.case.as_json(),
        "schedule": {"policy": failure.schedule.policy, "seed": failure.schedule.seed},
        "replay": command,
        "tile": failing_tile(gated, failure),
        "trace": trace_around(gated, failure),
        "text": [line for finding in failure.findings for line in lines(finding)],
    }
    return made


def figures(report: Report) -> dict[str, object]:
    """What was compared, stage by stage."""
    return {
        "examples": report.examples,
        "tiles_equal_in_both_builds": report.agreed,
        "remarks": dict(sorted(report.remarks.items())),
        "certificate": summary(report.certificates),
        "not_judged": list(report.not_judged),
        "stages": scores_as_dict(report.scores),
    }


def replay(gated: GatedVariant, failure: Failure) -> list[str]:
    """The command that shows the smallest failing example."""
    schedule = failure.schedule
    if gated.function:
        return gated.replay("check", f"--case={failure.case.as_json()}")
    words = [f"--case={failure.case.as_json()}", f"--policy={schedule.policy}"]
    words += [f"--schedule-seed={schedule.seed}"] if schedule.policy in SEEDED else []
    return gated.replay("check", *words)


TWICE = (Schedule("early"), Schedule("late"), Schedule("random", 1))


@gate_check("determinism", functions=True)
def determinism(gated: GatedVariant) -> CheckReport:
    """The same launch under the same schedule gives the same bits, findings and counters. Of a function,
    which has no schedule, outputs without a fixed order by the plan are skipped.
    """
    inputs = small(gated.plan).inputs()
    under = gated.under_test
    wrong, executed = [], []

    def launched(schedule: Schedule) -> RunResult:
        launch = gated.kernel.launch(inputs, gated.built)
        return under.driver.run(launch, gated.plan, schedule, False)

    for schedule in TWICE:
        first, second = launched(schedule), launched(schedule)
        executed += [first.executed, second.executed]
        allowed = gated.plan.unordered if gated.function else ()
        differ = [what for what in different(first, second) if what.removeprefix("output ") not in allowed]
        wrong += [f"{what} under {schedule.policy} {schedule.seed}" for what in differ]
    return CheckReport.of(
        "not repeated: " + ", ".join(wrong) if wrong else "",
        details={"launches": 2 * len(TWICE)},
        executed=union(executed),
        schedules={"early": [0, 0], "late": [0, 0], "random": [1, 1]},
    )


def different(first: RunResult, second: RunResult) -> list[str]:
    """The differences of second launches."""
    wrong = [
        f"output {name}"
        for name, output in first.outputs.items()
        if not output.same_bits(second.outputs[name])
    ]
    wrong += ["findings"] if first.findings != second.findings else []
    wrong += ["counters"] if dict(first.counters) != dict(second.counters) else []
    return wrong
