# ruff: noqa: E501 - PTX lines are kept whole
"""`judge` on a launch file: each check on a correct kernel, and on a kernel with a planted defect."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.api.page import lines
from tileproof.conformance.judging import runs
from tileproof.conformance.verdict import jsonform
from tileproof.conformance.verdict.contract import SCHEMA, SCHEMA_VERSION, VerdictRecord
from tileproof.conformance.verdict.schema import PATH
from tileproof.emulator import Schedule
from tileproof.kernels.launch.contents import Unwritten
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile

from tests.kit.judging import check, judged
from tests.kit.launch_files import SIZE, WITHOUT_WAIT, argument, scale


def test_a_right_launch_is_clean() -> None:
    made = judged(scale(), sample=True)
    assert (made.verdict, made.exit_code, made.why) == ("clean", 0, ())
    passed = ("launch file", "instructions", "machine", "races", "values", "outputs", "schedules")
    outcomes = {outcome.name: outcome.outcome for outcome in made.checks}
    assert outcomes == {**dict.fromkeys(passed, "passed"), "stages": "not run"}
    assert {schedule.policy for schedule in made.schedules} >= {"early", "late", "random", "starve", "pct"}
    assert made.coverage and made.coverage.instructions == made.coverage.instructions_covered
    assert [partly.form for partly in made.order_only] == ["fence.mbarrier_init.release.cluster"]
    assert len(made.program.ptx_sha256) == 64 and made.program.entry == "scale"
    assert "bytes 12..15 of parameter p" in check(made, "launch file").details["unset"][0]


def test_a_launch_that_its_first_run_certifies_runs_once() -> None:
    made = judged(scale())
    assert [(schedule.policy, schedule.launches) for schedule in made.schedules] == [("early", 1)]
    outcome = check(made, "schedules")
    assert made.verdict == "clean" and outcome.details == {"run": 1, "planned": 1, "skipped": 0}
    assert outcome.outcome == "passed" and "certified for all schedules" in outcome.reason
    # Wrong values are wrong in all schedules; values of another draw of the inputs are compared too.
    wrong = judged(scale(("mul.f32 %f1, %f1, %f2;", "")))
    assert wrong.verdict == "defect" and len(wrong.schedules) == 1
    # An open obligation, a sum of floats, and a run without races are no certificate bit for bit.
    summed = scale(("st.global.f32 [%rd2], %f1;", "red.global.add.f32 [%rd2], %f1;"))
    whole = LaunchBuffer.of("out", np.zeros(SIZE, np.float32), "inout")
    for launch, how in (
        (scale(*WITHOUT_WAIT), {}),
        (replace(summed, buffers=(summed.buffers[0], whole)), {}),
        (scale(), {"races": False}),
    ):
        made = judged(launch, None, **how)
        assert sum(schedule.launches for schedule in made.schedules) == 6
        assert "certified" not in check(made, "schedules").reason


def test_the_verdict_is_that_of_the_contract(tmp_path: Path) -> None:
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = library.Draft202012Validator(json.loads(PATH.read_text()))
    wrong = scale(*WITHOUT_WAIT)
    for made in (judged(scale()), judged(scale(), None), judged(wrong), judged(scale(entry="no"))):
        path = tmp_path / "verdict.json"
        path.write_text(jsonform.text(made))
        schema.validate(json.loads(path.read_text()))
        back = jsonform.load(path, VerdictRecord, SCHEMA, SCHEMA_VERSION, "the verdict")
        assert jsonform.text(back) == jsonform.text(made)  # NaN is not equal to itself
        assert lines(made)[0].startswith(made.verdict.upper())


def test_without_a_reference_values_are_not_called_judged() -> None:
    made = judged(scale(), None)
    assert (made.verdict, made.exit_code) == ("incomplete", 3)
    assert "no reference was given" in made.why[0] and check(made, "values").outcome == "not run"


@pytest.mark.parametrize(
    ("edits", "name", "code"),
    [
        (WITHOUT_WAIT, "machine", "shared-pending"),
        ((("mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512"),), "machine", "hang"),
        ((("bar.sync 0;", ""),), "races", "race-mbarrier-init"),
        ((("mul.f32 %f1, %f1, %f2;", "fma.rn.f32 %f1, %f1, %f2, %f2;"),), "values", "value"),
        ((("add.u32 %r4, %r4, %r1;", "and.b32 %r6, %r1, 48; add.u32 %r4, %r4, %r6;"),), "outputs", "output-unwritten"),
    ],
)  # fmt: skip
def test_a_planted_mistake_is_found_by_its_check(edits: Any, name: str, code: str) -> None:
    made = judged(scale(*edits))
    assert (made.verdict, made.exit_code) == ("defect", 1)
    assert check(made, name).outcome == "failed"
    found = [finding for finding in made.findings if finding.check == name]
    assert code in {finding.code for finding in found}
    assert all("schedules, first" in " ".join(finding.evidence) for finding in found if name != "outputs")


# Two CTAs count up in turn, and each stores what it saw: who came first depends on the schedule.
RACE = (
    ("st.global.f32 [%rd2], %f1;", "ld.param.u64 %rd3, [p]; atom.global.add.f32 %f1, [%rd3], 0f3F800000;"
     "st.global.f32 [%rd2+512], %f1;"),
)  # fmt: skip


def test_outputs_that_depend_on_the_schedule_are_a_finding() -> None:
    first = scale().buffers[0]
    whole = LaunchBuffer.of("out", np.zeros(64 * 4, np.float32), "inout")
    launch = scale(*RACE, buffers=(first, whole))
    made = judged(launch, None, command=("tileproof", "judge", "x.json"))
    assert made.verdict == "defect", made.why
    (found,) = [finding for finding in made.findings if finding.check == "schedules"]
    assert (found.code, found.problem.array) == ("schedule-dependent-output", "out")
    # Its replay runs both schedules: the output of a single schedule has nothing to differ from.
    policies = tuple(found.replay.split(" --policy ")[1:])
    again = judged(launch, None, policies=policies)
    assert len(policies) == 2 and "schedules" in {finding.check for finding in again.findings}
    assert "schedules" not in {
        finding.check for finding in judged(launch, None, policies=policies[1:]).findings
    }


def test_races_left_out_are_reported() -> None:
    made = judged(scale(), races=False)
    assert check(made, "races").outcome == "not run" and "--no-races" in check(made, "races").reason
    assert made.verdict == "incomplete"


def test_findings_may_be_allowed_and_weigh_more_when_strict() -> None:
    launch = scale(("@%p1 fence.mbarrier_init.release.cluster;", ""))
    made = judged(launch)
    assert made.verdict == "clean" and "note race-mbarrier-init-fence" in str(check(made, "machine").details)
    bare = judged(scale(("bar.sync 0;", "")), allow=("race-mbarrier-init", "mbarrier-uninitialised"))
    assert "allowed race-mbarrier-init" in str(check(bare, "machine").details)


def test_an_instruction_that_is_not_executed_is_named() -> None:
    made = judged(
        scale(("mul.f32 %f1, %f1, %f2;", "mul.f32 %f1, %f1, %f2; tcgen05.shift.cta_group::1.down [%r1];"))
    )
    assert (made.verdict, check(made, "instructions").outcome) == ("incomplete", "unsupported")
    assert "tcgen05.shift" in check(made, "instructions").reason


def test_a_contradiction_is_an_error() -> None:
    made = judged(scale(block=(32,)))
    assert (made.verdict, made.exit_code) == ("error", 2)
    (error,) = check(made, "launch file").details["errors"]
    assert error["expected"] == ".reqntid 64, 1, 1" and error["do"]


def test_no_output_is_reported() -> None:
    first, out = scale().buffers
    made = judged(scale(buffers=(first, replace(out, role="scratch"))), None)
    assert check(made, "outputs").outcome == "not run" and made.verdict == "incomplete"


def test_an_instruction_that_never_ran_is_reported() -> None:
    launch = scale(("setp.ge.u32 %p3, %r4, %r5;", "setp.ge.u32 %p3, %r4, 0;"))
    made = judged(launch, None)
    assert any("output at PTX line" in why and "never ran" in why for why in made.why)


def test_the_legacy_default_stream_orders_the_others() -> None:
    step = scale().launches[0]
    made = judged(scale(steps=(step, replace(step, stream=1))))
    assert made.verdict == "clean" and "streams" not in {outcome.name for outcome in made.checks}


# ---- runs that end early


def crashing(monkeypatch: pytest.MonkeyPatch, when: Any, how: Any) -> None:
    """Makes runs under some schedules do `how` in place of running."""
    before = runs.run_once

    def run(launch: Any, modules: Any, schedule: Schedule, *rest: Any, **others: Any) -> Any:
        if when(schedule):
            how()
        return before(launch, modules, schedule, *rest, **others)

    monkeypatch.setattr("tileproof.conformance.judging.launch_case.run_once", run)


def test_a_run_that_crashes_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing(monkeypatch, lambda s: s.policy == "late", lambda: os.kill(os.getpid(), signal.SIGSEGV))
    made = judged(scale(), sample=True)
    assert (made.verdict, made.exit_code) == ("error", 2)
    assert "under late" in check(made, "machine").fault and "SIGSEGV" in check(made, "machine").fault
    # What others found counts.
    made = judged(scale(("mul.f32 %f1, %f1, %f2;", "")), sample=True)
    assert made.verdict == "defect" and "SIGSEGV" in " ".join(made.why)


def test_a_first_run_that_crashes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing(monkeypatch, lambda s: s.policy == "early", lambda: os._exit(7))
    made = judged(scale())
    assert made.verdict == "error" and "ended with code 7" in check(made, "machine").fault


def test_time_that_is_over_is_reported() -> None:
    launch = scale(
        (
            "WAIT:",
            "WAIT:\nmov.u32 %r7, 0;\nLOOP: add.u32 %r7, %r7, 1; st.shared.u32 [tile+64], %r7; bra LOOP;",
        )
    )
    began = time.monotonic()
    made = judged(launch, seconds=1.0, races=False)
    assert time.monotonic() - began < 10
    assert (
        made.verdict == "incomplete" and "did not end within the time limit" in check(made, "machine").reason
    )


def test_an_interrupt_tells_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def progress(line: str) -> None:
        told.append(line)
        if " schedules" in line:
            raise KeyboardInterrupt

    made = judged(scale(("mul.f32 %f1, %f1, %f2;", "")), sample=True, progress=progress)
    assert made.verdict == "defect" and "it was interrupted" in made.why
    assert any("running under early" in line for line in told)


def test_only_the_schedules_that_are_asked_for() -> None:
    made = judged(
        scale(*WITHOUT_WAIT), policies=("late", "random:seed=7"), command=("tileproof", "judge", "x.py")
    )
    assert [(schedule.policy, schedule.launches) for schedule in made.schedules] == [
        ("late", 1),
        ("random", 1),
    ]
    assert made.findings[0].replay.startswith("tileproof judge x.py --policy ")
    assert judged(scale(), policies=("soon",)).verdict == "error"


def between_right_ones(launch: LaunchFile) -> LaunchFile:
    """Its launch, with one of the right kernel before it and one after."""
    (right,), (step,) = scale().modules, launch.launches
    (wrong,) = launch.modules
    modules = (replace(right, name="right"), replace(wrong, name="wrong"))
    same, other = replace(step, module="right"), replace(step, module="wrong")
    return replace(launch, modules=modules, steps=(same, other, same))


@pytest.mark.parametrize("launches", [1, 3])
def test_what_only_drawn_schedules_show_gets_a_small_one(launches: int) -> None:
    launch = scale(("@!%p2 bra WAIT;", "@!%p2 fence.acq_rel.cta;"))  # it asks, and goes on
    launch = launch if launches == 1 else between_right_ones(launch)
    made = judged(launch, schedules=16, command=("tileproof", "judge", "x"))
    found = next(finding for finding in made.findings if finding.code == "shared-uninitialised")
    assert any(
        "a small schedule that shows it" in line and "once: mbarrier.try_wait" in line
        for line in found.evidence
    )
    small = shlex.split(found.replay)[-1]
    assert small == "replay:base=late:w0.1.0@1!"
    again = judged(launch, policies=(small,))
    assert found.message in {finding.message for finding in again.findings}
    assert judged(launch, policies=("late",)).verdict != "defect"


# ---- several launches


def test_launches_one_after_another_see_what_came_before() -> None:
    step = scale().launches[0]
    middle = LaunchBuffer("middle", "float32", (128,), "scratch", Unwritten())
    x, out = scale().buffers
    p, map_ = argument(scale(), 0), argument(scale(), 1)
    whole = replace(
        p, items=(replace(p.items[0], item=replace(p.items[0].item, buffer="middle")), *p.items[1:])
    )
    whole = replace(
        whole, items=(*whole.items[:2], replace(whole.items[2], item=replace(whole.items[2].item, value=128)))
    )
    first = replace(step, arguments=(whole, map_))
    second = replace(step, arguments=(p, replace(map_, buffer="middle")))
    launch = scale(steps=(first, second), buffers=(x, middle, out))
    assert judged(launch, lambda x, factor: {"out": factor * factor * x[:SIZE]}).verdict == "clean"
    turned = replace(launch, steps=(second, first))
    made = judged(turned, lambda x, factor: {"out": factor * factor * x[:SIZE]})
    assert made.verdict == "defect" and "uninitialised" in made.findings[0].code


def test_schedules_that_disagree_do_not_pass() -> None:
    made = judged(scale(*WITHOUT_WAIT), schedules=12)
    outcome = check(made, "schedules")
    assert outcome.outcome == "failed" and "occur under only some of them" in outcome.reason
    wrong = judged(scale(("mul.f32 %f1, %f1, %f2;", "")))
    assert wrong.verdict == "defect" and check(wrong, "schedules").outcome == "passed"
