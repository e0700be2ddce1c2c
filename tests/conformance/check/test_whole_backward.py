"""Whole backwards on the emulator: all stages, every schedule, edges of the inputs; checks that must fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import judge_run, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.compare.rows import plant_canaries
from tileproof.conformance.drivers import emulator
from tileproof.conformance.observe.observation import observe
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.numerics import round_bf16
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase, selected

from tests.kit.doubles import Driven
from tests.kit.sampled import sampled
from tests.kit.whole_backward import SCHEDULES, STAGES, WHOLE

KERNEL = kernel("head64")
PAIR = kernel("head128-columns")
ONE = replace(WHOLE, h_q=64)


def launch(
    case: SparseCase, schedule: Schedule = SCHEDULES[0], probe: bool = False, taps: bool = True
) -> RunResult:
    inputs, plan = case.inputs(), KERNEL.plan(KERNEL.variant(d_qk=case.d_qk))
    described = KERNEL.launch(inputs, KERNEL.build(KERNEL.variant(d_qk=case.d_qk), probe), probe)
    described = plant_canaries(plan, inputs, described)
    return emulator.run(described, plan, schedule=schedule, taps=taps)


def findings(case: SparseCase, production: RunResult, stages=()) -> list[Finding]:
    return judge_run(
        KERNEL.plan(KERNEL.variant(d_qk=case.d_qk)),
        case.inputs(),
        production,
        lambda: launch(case, probe=True),
        stages,
    ).findings


@pytest.mark.parametrize("d_qk", sampled((576, 512), 2))
def test_clean_kernel_gives_no_finding(d_qk):
    # The edges, of which that of production size takes the most, at one width; head64 has them at both.
    under_test = on_emulator(PAIR, PAIR.variant(d_qk=d_qk))
    report = engine.check(under_test, examples=10, seed=3, with_edges=d_qk == 576)
    assert report.failure is None, report.failure
    assert set(STAGES) <= set(report.scores) and report.agreed
    assert {"dKV rows", "dQ from end to end", "dKV from end to end"} <= set(report.scores)
    assert all(report.scores[name].worst <= 1 for name in report.scores)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.policy}{s.seed}")
def test_every_schedule_and_every_stage(schedule):
    verdict = run_case(on_emulator(PAIR, PAIR.variant(d_qk=576)), WHOLE, schedule)
    assert verdict.findings == []
    # Tokens of 256, 130 and 0 slots have 4, 3 and 0 k-blocks; two builds (dKV tiles: production). S and
    # dS have a tile in each CTA, P and dP one in the pair.
    assert [verdict.scores[x].tiles for x in STAGES] == [12, 14, 28, 14, 28, 6, 7]
    assert all(verdict.scores[name].unbounded == 0 for name in verdict.scores)


def test_dq_and_delta_are_the_same_bits_and_dkv_the_same_sums_under_every_schedule():
    for values in ("normal", "exact"):
        case = replace(ONE, values=values)
        runs = [launch(case, schedule, taps=False).outputs for schedule in SCHEDULES]
        for other in runs[1:]:
            for name in ("delta", "dQ", *(["dKV"] if values == "exact" else [])):
                assert other[name].values.tobytes() == runs[0][name].values.tobytes(), (name, values)
    assert np.abs(runs[0]["dKV"].values[selected(case.inputs())]).max() > 0


def test_s_and_ds_in_shared_memory_are_those_of_the_probe_build():
    plan, inputs = KERNEL.plan(KERNEL.variant(d_qk=576)), ONE.inputs()
    seen = observe(plan, inputs, launch(ONE), "production").tiles
    probe = {t.key: t for t in observe(plan, inputs, launch(ONE, probe=True), "probe", probe=True).tiles}
    compared = 0
    for tile in seen:
        if tile.stage in ("S", "dS"):
            twin = probe[tile.key]
            assert tile.operand and tile.smem is not None and tile.written.all()
            assert not twin.operand  # in f32
            assert (round_bf16(twin.value.astype(np.float64)) == tile.value.astype(np.float64)).all()
            assert np.unique(tile.smem).size == tile.smem.size
            compared += 1
    assert compared == 2 * 7


@pytest.mark.parametrize("lse", (np.inf, -np.inf))
def test_tokens_without_a_key(lse):
    case = replace(ONE, tokens=(Indices("identity", dead_blocks=(0, 1, 2, 3)), *ONE.tokens[1:]))
    plan, inputs = KERNEL.plan(KERNEL.variant(d_qk=576)), case.inputs()
    empty = np.isinf(inputs.lse)
    assert empty[0].all()
    inputs = replace(inputs, lse=np.where(empty, np.float32(lse), inputs.lse))
    runs = []
    for probe in (False, True):
        described = KERNEL.launch(inputs, KERNEL.build(KERNEL.variant(d_qk=576), probe), probe)
        described = plant_canaries(plan, inputs, described)
        runs.append(emulator.run(described, plan, schedule=SCHEDULES[2], taps=not probe))
    assert judge_run(plan, inputs, runs[0], lambda: runs[1]).findings == []


def test_nan_in_a_selected_row_must_come_out():
    case = SparseCase(
        576, h_q=64, s_kv=80, tokens=(Indices("permuted"), Indices("same")), values="normal", nan_key=True
    )
    seen = launch(case)
    assert findings(case, seen) == []
    dQ, dKV = seen.outputs["dQ"].values, seen.outputs["dKV"].values
    bad = np.asarray(np.isnan(dQ.astype(np.float32)).any(axis=(1, 2)))
    assert bad[0] and np.isnan(dKV).any()
    # A kernel that hides the NaN is wrong in the outputs.
    dQ[0] = 0
    hidden = findings(case, seen)
    assert [(f.kind, f.problem.stage) for f in hidden] == [("value", "dQ"), ("chain", "dQ")]
    again = launch(case)
    again.outputs["dKV"].values[np.isnan(again.outputs["dKV"].values) & selected(case.inputs())[:, None]] = 0
    assert {(f.kind, f.problem.stage) for f in findings(case, again)} == {("value", "dKV"), ("chain", "dKV")}


def test_an_output_wrong_by_more_than_its_bound_is_found_in_the_stage_and_in_the_chain():
    seen = launch(ONE)
    seen.outputs["dKV"].values[int(np.flatnonzero(selected(ONE.inputs()))[0]), 520] += 1
    kinds = [(f.kind, f.problem.stage, f.problem.axes[0]) for f in findings(ONE, seen)]
    assert kinds == [("value", "dKV", "kv row"), ("chain", "dKV", "kv row")]
    assert findings(ONE, seen, ("dQ", "S")) == []


def test_a_touched_row_that_no_key_selects_is_found():
    seen = launch(ONE)
    row = int(np.flatnonzero(~selected(ONE.inputs()))[0])
    words = seen.outputs["dKV"].values.view(np.uint32)
    column = int(np.flatnonzero(words[row] == 1)[0])
    words[row, column] = 0  # what red.add of a zero makes of a subnormal
    (finding,) = findings(ONE, seen)
    assert (finding.kind, finding.problem.stage, finding.problem.row, finding.problem.column) == (
        "surplus",
        "dKV",
        row,
        column,
    )
    assert "0x00000001 became 0x00000000" in finding.cause


def test_outputs_that_depend_on_the_schedule_are_found():
    """Of a run that is not certified for all schedules; a certified run is not repeated."""
    under_test = on_emulator(KERNEL, KERNEL.variant(d_qk=576))

    def driver(described, plan, schedule, taps):
        run_result = under_test.driver.run(described, plan, schedule, taps)
        if schedule.policy == "late" and not taps:
            run_result.outputs["dQ"].values[0, 0, 0] = 7
        return run_result if certified else replace(run_result, certificate=None)

    certified = True
    verdict = run_case(replace(under_test, driver=Driven(driver)), ONE, Schedule("early"))
    assert verdict.certificate and not verdict.again and not verdict.findings
    certified = False
    verdict = run_case(replace(under_test, driver=Driven(driver)), ONE, Schedule("early"))
    assert verdict.unrepeated
    (finding,) = (f for f in verdict.findings if f.kind == "disagree")
    assert finding.problem.stage == "dQ" and "another schedule" in finding.message
