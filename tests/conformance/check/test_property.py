"""The property finds a planted error, shrinks it to a small case, and a replay finds it again."""

from __future__ import annotations

import gc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.result import as_dict
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.check.runs import settled
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding, MachinePlace, Waiting
from tileproof.spec.machine.finding_text import lines
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Json
from tileproof.spec.plans import head128_part0
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase

from tests.kit.doubles import Driven, machine, unplanted

VARIANT = Variant.of("sparse_mla_bwd", h_q=128, d_qk=576)
KERNEL = SimpleNamespace(
    name="head128-part0",
    plan=lambda variant: head128_part0.plan(variant["d_qk"]),
    title=lambda variant: f"head128-part0 d_qk {variant['d_qk']}",
    launch=lambda inputs, built, probe: (inputs, probe),
)


def under_test(plant=unplanted, stages=(), finish=lambda run_result, schedule: run_result, **options):
    def driver(launch, plan, schedule, taps):
        inputs, probe = launch
        return finish(machine(plan, inputs, plant, probe=probe, **options), schedule)

    nothing: Any = None  # no build, and of the kernel what `run_case` asks of it
    kernel: Any = KERNEL
    return KernelUnderTest(kernel, VARIANT, nothing, lambda: nothing, Driven(driver), stages)


def run(under_test, examples=60, seed=1, **options):
    """Of the generator alone: test_edges.py holds the edges."""
    return engine.check(under_test, examples=examples, seed=seed, with_edges=False, **options)


def test_a_right_machine_passes_and_is_counted():
    report = run(under_test(), examples=40)
    assert report.failure is None and report.examples == 40
    assert report.scores["P"].tiles > 100 and report.scores["P"].exact > 0
    assert report.agreed > 0


def second_block_off(stage, tile, value):
    return value + 1 if stage == "P" and tile.k_block == 1 else value


def test_planted_error_is_shrunk_to_one_token_and_two_blocks():
    report = run(under_test(second_block_off))
    assert report.failure is not None
    assert report.failure.case == SparseCase(576, blocks=2)
    assert report.failure.schedule == Schedule("early")
    finding = report.failure.findings[0]
    assert (finding.problem.stage, finding.problem.group, finding.problem.cta, finding.problem.k_block) == (
        "P",
        0,
        0,
        1,
    )
    again = engine.replay(under_test(second_block_off), report.failure.case, report.failure.schedule)
    assert again.failure is not None and again.failure.findings == report.failure.findings


def test_same_seed_same_examples():
    first, second = (run(under_test(second_block_off), seed=5) for _ in range(2))
    assert (first.failure.case, first.examples) == (second.failure.case, second.examples)


def test_shrinking_stops_in_time_and_still_reports_a_failure():
    report = run(under_test(second_block_off), shrink_seconds=0.0)
    assert report.failure is not None and report.failure.findings[0].problem.k_block == 1


def test_nothing_is_drawn_when_the_time_for_shrinking_is_over(monkeypatch):
    asked = []

    def past(deadline):
        asked.append(deadline)
        return True

    monkeypatch.setattr(engine._Deadline, "past", past)
    assert run(under_test(second_block_off)).failure is not None
    assert len(asked) == 1


def test_what_was_there_is_left_alone_and_what_was_frozen_before_stays_so():
    gc.unfreeze()  # tests/conftest.py's
    try:
        with settled() as settle:
            assert gc.get_freeze_count() == 0
            settle()
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()
    before = gc.get_freeze_count()
    with settled() as settle:
        settle()
    assert before == gc.get_freeze_count() > 0


def test_stage_restriction():
    assert run(under_test(second_block_off, stages=("delta",)), examples=20).failure is None
    with pytest.raises(TileproofError, match="does not compute this stage"):
        run(under_test(stages=("dQ",)))
    with pytest.raises(TileproofError, match="unknown stage"):
        run(under_test(stages=("Q",)))


def test_error_of_the_machine_is_not_shrunk_but_passed_on():
    calls = []

    def refuse(run_result, schedule):
        calls.append(1)
        raise TileproofError("unknown instruction", where="line 7")

    with pytest.raises(TileproofError, match="unknown instruction"):
        run(under_test(finish=refuse))
    assert len(calls) == 1


def hang(run_result, schedule):
    barrier = head128_part0.plan(576).barrier("kv_ready").offset_of(1)
    waiting = Waiting(
        12, "kernel.cuh:7", "mbarrier.try_wait", (0, 0, 0), 0, 12, 1, "a barrier", barrier, 0, 0, 1, 0,
        name="kv_ready[1]", role="mma",
    )  # fmt: skip
    place = MachinePlace(cta=(0, 0, 0), warp=12, waiting=(waiting,))
    finding = Finding("hang", "one warp waits", machine=place)
    return RunResult(run_result.outputs, run_result.captures, (finding,))


def test_hang_names_the_first_unpublished_k_block():
    report = run(under_test(publish=1, finish=hang))
    finding = report.failure.findings[0]
    assert finding.code == "hang" and finding.kind == "machine"
    assert (finding.problem.stage, finding.problem.group) == ("P", 0)
    case = report.failure.case
    if case.blocks > 1:
        assert finding.problem.k_block == 1 and "p_ready[1] never completed for k-block 1" in finding.cause
    assert "warp:     12" in lines(finding)
    assert finding.evidence[-1] == (
        "waits: token 0 CTA 0 warp 12 (mma) for kv_ready[1] parity 0, which lacks 1 arrivals at kernel.cuh:7"
    )


def test_finding_of_the_machine_alone_is_a_defect():
    def uninitialised(run_result, schedule):
        finding = Finding(
            "smem-uninitialised", "read", machine=MachinePlace(cta=(1, 0, 0), warp=9, lane=3, role="delta")
        )
        return RunResult(run_result.outputs, run_result.captures, (finding,))

    report = run(under_test(finish=uninitialised), examples=5)
    finding = report.failure.findings[0]
    assert (finding.problem.stage, finding.problem.group, finding.problem.cta) == ("delta", 0, 1)
    assert "warp:     9, lane 3 (role delta)" in lines(finding)


def test_remarks_are_no_defects():
    def remark(run_result, schedule):
        return RunResult(
            run_result.outputs, run_result.captures, (Finding("no-wait-ld", "m", "note", count=2),)
        )

    report = run(under_test(finish=remark), examples=5)
    assert report.failure is None and report.remarks == {"no-wait-ld": 20}


def test_error_under_one_policy_only():
    def late_only(run_result, schedule):
        bad = Finding("race", "seen late")
        return RunResult(run_result.outputs, run_result.captures, (bad,) if schedule.policy == "late" else ())

    assert run(under_test(finish=late_only), policy="early", examples=20).failure is None
    report = run(under_test(finish=late_only))
    assert report.failure.schedule.policy == "late" and report.failure.case == SparseCase(576)


def test_report_as_json_has_place_cause_and_replay():
    report = run(under_test(second_block_off))
    result: Json = as_dict(report, "tileproof check ...")
    assert result["verdict"] == "defect" and result["replay"] == "tileproof check ..."
    assert result["findings"][0]["problem"]["k_block"] == 1
    assert SparseCase.from_json(result["case"]) == report.failure.case


def test_surplus_tiles_are_found():
    def one_more(run_result, schedule):
        extra = [c for c in run_result.captures if c.phase == 0 and c.stage == 0]
        grown = tuple(replace(c, phase=9) for c in extra)
        return RunResult(run_result.outputs, run_result.captures + grown)

    finding = run(under_test(finish=one_more)).failure.findings[0]
    assert finding.kind == "surplus" and "p_ready completed for a k-block" in finding.message
    assert "p_ready completed 19 times or more" in finding.cause and "too many" in finding.cause


def test_writes_beyond_the_last_k_block_are_found():
    def spill(run_result, schedule):
        if "P" in run_result.outputs:
            run_result.outputs["P"].written[:] = True
        return run_result

    finding = run(under_test(finish=spill)).failure.findings[0]
    assert (finding.kind, finding.problem.stage, finding.problem.build) == ("surplus", "P", "probe")
