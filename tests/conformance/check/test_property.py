"""The property finds a planted error, shrinks it to a small case, and a replay finds it again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.drivers.capture import MachineFinding, RunResult, Schedule, Waiter
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plans import head128_part0
from tileproof.spec.problems.sparse_mla_bwd.case import Case

from tests.kit.doubles import Driven, machine, unplanted

VARIANT = Variant.of("sparse_mla_bwd", h_q=128, d_qk=576)
KERNEL = SimpleNamespace(
    name="head128-part0",
    plan=lambda variant: head128_part0.plan(variant["d_qk"]),
    title=lambda variant: f"head128-part0 d_qk {variant['d_qk']}",
    launch=lambda inputs, built, probe: (inputs, probe),
)


def subject(plant=unplanted, stages=(), finish=lambda observed, schedule: observed, **options):
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
    report = run(subject(), examples=40)
    assert report.failure is None and report.examples == 40
    assert report.scores["P"].tiles > 100 and report.scores["P"].exact > 0
    assert report.agreed > 0


def second_block_off(stage, tile, value):
    return value + 1 if stage == "P" and tile.k_block == 1 else value


def test_planted_error_is_shrunk_to_one_token_and_two_blocks():
    report = run(subject(second_block_off))
    assert report.failure is not None
    assert report.failure.case == Case(576, blocks=2)
    assert report.failure.schedule == Schedule("early")
    finding = report.failure.findings[0]
    assert (finding.stage, finding.group, finding.cta, finding.k_block) == ("P", 0, 0, 1)
    again = engine.replay(subject(second_block_off), report.failure.case, report.failure.schedule)
    assert again.failure is not None and again.failure.findings == report.failure.findings


def test_same_seed_same_examples():
    one, two = (run(subject(second_block_off), seed=5) for _ in range(2))
    assert (one.failure.case, one.examples) == (two.failure.case, two.examples)


def test_shrinking_stops_in_time_and_still_reports_a_failure():
    report = run(subject(second_block_off), shrink_seconds=0.0)
    assert report.failure is not None and report.failure.findings[0].k_block == 1


def test_stage_restriction():
    assert run(subject(second_block_off, stages=("delta",)), examples=20).failure is None
    with pytest.raises(TileproofError, match="does not compute this stage"):
        run(subject(stages=("dQ",)))
    with pytest.raises(TileproofError, match="unknown stage"):
        run(subject(stages=("Q",)))


def test_error_of_the_machine_is_not_shrunk_but_passed_on():
    calls = []

    def refuse(observed, schedule):
        calls.append(1)
        raise TileproofError("unknown instruction", where="line 7")

    with pytest.raises(TileproofError, match="unknown instruction"):
        run(subject(finish=refuse))
    assert len(calls) == 1


def hang(observed, schedule):
    barrier = head128_part0.plan(576).barrier("kv_ready").offset_of(1)
    waiter = Waiter((0, 0, 0), 12, "a barrier", 12, "kernel.cuh:7", barrier=barrier, parity=0, pending=1)
    finding = MachineFinding("error", "hang", "one warp waits", cta=(0, 0, 0), warp=12, waiting=(waiter,))
    return RunResult(observed.outputs, observed.captures, (finding,))


def test_hang_names_the_first_unpublished_k_block():
    report = run(subject(publish=1, finish=hang))
    finding = report.failure.findings[0]
    assert finding.code == "hang" and finding.kind == "machine"
    assert (finding.stage, finding.group) == ("P", 0)
    case = report.failure.case
    if case.blocks > 1:
        assert finding.k_block == 1 and "p_ready[1] never completed for k-block 1" in finding.cause
    assert finding.warp == "12 (role mma)"
    assert finding.waiting == (
        "token 0 CTA 0 warp 12 (mma) for kv_ready[1] parity 0, which lacks 1 arrivals at kernel.cuh:7",
    )


def test_finding_of_the_machine_alone_is_a_defect():
    def uninitialised(observed, schedule):
        finding = MachineFinding("error", "smem-uninitialised", "read", cta=(1, 0, 0), warp=9, lane=3)
        return RunResult(observed.outputs, observed.captures, (finding,))

    report = run(subject(finish=uninitialised), examples=5)
    finding = report.failure.findings[0]
    assert (finding.stage, finding.group, finding.cta, finding.warp) == (
        "delta",
        0,
        1,
        "9, lane 3 (role delta)",
    )


def test_remarks_are_no_defects():
    def remark(observed, schedule):
        return RunResult(
            observed.outputs, observed.captures, (MachineFinding("note", "no-wait-ld", "m", count=2),)
        )

    report = run(subject(finish=remark), examples=5)
    assert report.failure is None and report.remarks == {"no-wait-ld": 20}


def test_error_under_one_policy_only():
    def late_only(observed, schedule):
        bad = MachineFinding("error", "race", "seen late")
        return RunResult(observed.outputs, observed.captures, (bad,) if schedule.policy == "late" else ())

    assert run(subject(finish=late_only), policy="early", examples=20).failure is None
    report = run(subject(finish=late_only))
    assert report.failure.schedule.policy == "late" and report.failure.case == Case(576)


def test_report_as_json_has_place_cause_and_replay():
    report = run(subject(second_block_off))
    result = engine.as_dict(report, "tileproof check ...")
    assert result["verdict"] == "defect" and result["replay"] == "tileproof check ..."
    assert result["findings"][0]["k_block"] == 1
    assert Case.from_json(result["case"]) == report.failure.case


def test_surplus_tiles_are_found():
    def one_more(observed, schedule):
        extra = [c for c in observed.captures if c.phase == 0 and c.stage == 0]
        grown = tuple(type(c)(c.tile, c.stage, c.cta, c.cluster_rank, 9, c.data, c.valid) for c in extra)
        return RunResult(observed.outputs, observed.captures + grown)

    finding = run(subject(finish=one_more)).failure.findings[0]
    assert finding.kind == "surplus" and "p_ready completed for a k-block" in finding.message


def test_writes_beyond_the_last_k_block_are_found():
    def spill(observed, schedule):
        if "P" in observed.outputs:
            observed.outputs["P"].written[:] = True
        return observed

    finding = run(subject(finish=spill)).failure.findings[0]
    assert (finding.kind, finding.stage, finding.build) == ("surplus", "P", "probe")
