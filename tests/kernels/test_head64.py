"""head64: 64 heads, one CTA per token. All stages conform, and defects are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.cli.app import main
from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.planted.defects import defects
from tileproof.emulator.explore import explore
from tileproof.kernels.edit import InStage
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plans.head64 import D_QKS, plan
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

from tests.kit.sampled import sampled
from tests.kit.whole_backward import SCHEDULES, STAGES, WHOLE

KERNEL = kernel("head64")
CASE = replace(WHOLE, h_q=64)


@pytest.mark.parametrize("d_qk", D_QKS)
@pytest.mark.parametrize("probe", [False, True])
def test_the_build_fits_the_machine(d_qk: int, probe: bool) -> None:
    built, p = KERNEL.build(KERNEL.variant(d_qk=d_qk), probe), plan(d_qk)
    used = built.resources
    assert used is not None
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    assert used.registers * p.threads <= 65536
    assert used.static_smem + p.smem_bytes <= MAX_SHARED_BYTES == 227 * 1024
    assert p.tmem_columns <= 512
    assert "cta_group::2" not in built.ptx and "tcgen05.mma.ws.cta_group::1" in built.ptx
    # Every row of a column tile is gathered by the one CTA there is.
    gathers = built.ptx.count("tile::gather4")
    assert gathers == 4 * (d_qk // 64), "of each column tile four gathers of four rows in each of four warps"


@pytest.mark.parametrize("d_qk", sampled(D_QKS, 2))
def test_every_stage_conforms(d_qk: int) -> None:
    report = engine.check(on_emulator(KERNEL, KERNEL.variant(d_qk=d_qk)), examples=15, seed=5)
    assert report.failure is None, report.failure
    assert set(STAGES) <= set(report.scores) and report.agreed
    assert {"dKV rows", "dQ from end to end", "dKV from end to end"} <= set(report.scores)
    assert all(report.scores[name].worst <= 1 for name in report.scores)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.policy}{s.seed}")
def test_every_schedule_and_every_stage(schedule: Schedule) -> None:
    verdict = run_case(on_emulator(KERNEL, KERNEL.variant(d_qk=576)), CASE, schedule)
    assert verdict.findings == []
    # Tokens of 256, 130 and 0 slots have 4, 3 and 0 k-blocks; one CTA, two builds (dKV tiles: production).
    assert [verdict.scores[x].tiles for x in STAGES] == [6, 14, 14, 14, 14, 6, 7]


def test_many_schedules_give_the_same_outputs() -> None:
    explored = Explored.of(KERNEL, KERNEL.build(KERNEL.variant(d_qk=576)), one_token(576, 2, 64))
    report = explore(explored, schedules=12, compare=explored.compare, races=True, sample=True)
    assert report.certificate and not report.failed and report.causes == []


# One of each stage; `tileproof defects` lists all of them.
PLANTED = (
    "h64-delta-half-row", "h64-rope-not-multiplied", "h64-lse-of-the-neighbour", "h64-dp-column-tile",
    "h64-ds-without-delta", "h64-dq-cleared", "h64-dkv-one-slot-off",
)  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_defects_are_found_in_their_stage(name: str) -> None:
    planted = defects()[name]
    under_test = on_emulator(KERNEL, KERNEL.variant(d_qk=576), planted=planted, races=False)
    report = engine.check(under_test, examples=60, seed=1, shrink_seconds=0.0)
    assert report.failure is not None
    assert isinstance(planted.expected, InStage)
    assert report.failure.findings[0].problem.stage == planted.expected.stage


def test_the_commands_take_it() -> None:
    run = CliRunner().invoke(main, ["trace", "head64", "--d-qk", "512", "--blocks", "1", "--text"])
    assert "token 0 CTA 0" in run.output and "CTA 1" not in run.output, run.output[:400]
    assert "head64" in CliRunner().invoke(main, ["kernels"]).output


def test_inputs_of_128_heads_are_refused() -> None:
    with pytest.raises(TileproofError, match="not made for this h_q"):
        KERNEL.launch(one_token(576, 1).inputs(), KERNEL.build(KERNEL.variant(d_qk=576)))
