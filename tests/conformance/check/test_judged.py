"""`judge KERNEL`: one case of a kernel with a plan under several schedules, as a verdict."""

from __future__ import annotations

import json
import shlex
from typing import Any

from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.conformance.judging.log import RunLog
from tileproof.conformance.processes.children import ChildResult
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule

KERNEL = "sm100-gemm-bias"


def judged(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["judge", *words, "--json", "-"])
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["exit_code"] == done.exit_code
    return made


def test_a_right_kernel_is_clean_under_every_schedule() -> None:
    certified = judged(KERNEL)
    assert certified["verdict"] == "clean", certified["why"]
    assert [(row["policy"], row["launches"]) for row in certified["schedules"]] == [("early", 1)]
    made = judged(KERNEL, "--schedules", "4", "--sample")
    assert made["verdict"] == "clean", made["why"]
    assert {row["policy"] for row in made["schedules"]} >= {"early", "late"}
    stages = next(row for row in made["checks"] if row["name"] == "stages")["details"]["stages"]
    assert stages and all(0 <= row["worst_error_over_bound"] <= 1 for row in stages.values())


def test_a_planted_defect_is_found_and_replayed() -> None:
    made = judged(KERNEL, "--schedules", "3", "--sample", "--plant", "g100-bias-of-the-first-columns")
    assert made["verdict"] == "defect"
    first = made["findings"][0]
    assert first["problem"]["stage"] and "of 3 schedules" in first["evidence"][-1]
    words = shlex.split(first["replay"])
    assert words[:3] == ["tileproof", "judge", KERNEL]
    again = judged(*words[2:])
    assert again["findings"][0]["message"] == first["message"]
    assert sum(row["launches"] for row in again["schedules"]) == 1


def test_the_case_and_the_policies_are_those_given() -> None:
    case = judged(KERNEL, "--schedules", "2")["sections"]["case"]["case"]
    made = judged(KERNEL, f"--case={case}", "--policy", "random:seed=7", "--policy", "late")
    assert [(row["policy"], row["seeds"]) for row in made["schedules"]] == [("random", 1), ("late", 0)]
    assert made["sections"]["case"]["case"] == case


def test_options_of_a_launch_file_are_refused() -> None:
    made = judged(KERNEL, "--expect", "ref.py")
    assert made["verdict"] == "error" and "--expect" in json.dumps(made["checks"])


def test_a_run_with_two_findings_of_one_cause_counts_once() -> None:
    log, run = RunLog(), JudgedRun(findings=[Finding("value", "first"), Finding("value", "second")])
    both = [Schedule("early"), Schedule("late")]
    for schedule in both:
        log.note(schedule, ChildResult(run))
    (seen,) = log.causes.values()
    assert seen.finding.message == "first" and seen.schedules == both == [run.schedule for run in log.runs]
