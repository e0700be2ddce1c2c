"""Races in the plan's words: who, in which tile, after which wait, what is missing."""

from __future__ import annotations

import pytest
from tileproof.conformance.compare.machine import machine_findings
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

FENCE = "fence.proxy.async.shared::cta;"


def findings(edit: tuple[str, str] = ("", ""), races: bool = True) -> list[Finding]:
    """What the machine says of head64 on two k-blocks with one text of its PTX replaced."""
    head64 = kernel("head64")
    inputs = one_token(512, 2, 64).inputs()
    launch = head64.launch(inputs, head64.build(head64.variant(d_qk=512)))
    assert edit[0] in launch.ptx
    plan = head64.plan(head64.variant(d_qk=512))
    planted = launch.with_ptx(launch.ptx.replace(*edit))
    run_result = emulator.run(planted, plan, schedule=Schedule(), taps=False, races=races)
    return machine_findings(plan, inputs, run_result, "production")


def test_the_kernel_itself_has_none() -> None:
    assert not findings()


def test_a_missing_proxy_fence_is_reported_in_the_plans_words() -> None:
    found = findings((FENCE, ""))
    assert {finding.code for finding in found} == {"race-proxy-fence"}
    by_tile = {finding.problem.tile: finding for finding in found}
    assert {"S", "dS"} <= set(by_tile)
    race = by_tile["dS"]
    assert (race.problem.stage, race.problem.k_block) == ("dS", 0)
    first, then, tile = race.evidence
    assert tile == "in dS"
    assert first.startswith("first write by warp ") and "(softmax)" in first and "st.shared" in first
    assert then.startswith("then read by warp ") and "(mma)" in then and "mma.cuh" in then
    assert "its last wait was for ds_ready" in then and "(k-block 0)" in then
    assert (
        race.cause
        == "missing: fence.proxy.async (shared memory) by the writing threads, before their barrier"
    )


def test_unrolled_copies_are_one_finding() -> None:
    race = next(finding for finding in findings((FENCE, "")) if finding.problem.tile == "dS")
    assert race.others > 1


@pytest.mark.parametrize("races", [True, False])
def test_races_can_be_left_out(races: bool) -> None:
    assert bool(findings((FENCE, ""), races)) == races
