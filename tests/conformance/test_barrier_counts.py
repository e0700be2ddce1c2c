"""What mbarrier.init was given, against the counts of the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.capture import Schedule
from tileproof.conformance.judge.machine import machine_findings
from tileproof.conformance.problems.case import one_token
from tileproof.kernels.registry import kernel


@pytest.mark.parametrize("name", ["head128", "head128-part0"])
def test_each_count_of_the_plan_is_held_against_the_kernels(name: str) -> None:
    entry = kernel(name)
    inputs = one_token(512, 1).inputs()
    plan = entry.plan(512)
    observed = emulator.run(
        entry.launch(inputs, entry.build(512)), plan, schedule=Schedule(), taps=False, races=False
    )
    offsets = {offset for _, offset, _ in observed.mbarriers}
    assert offsets >= {b.offset_of(stage) for b in plan.barriers for stage in range(b.stages)}
    assert not machine_findings(plan, inputs, observed, "production")
    for at, barrier in enumerate(plan.barriers):
        edited = (*plan.barriers[:at], replace(barrier, count=barrier.count + 1), *plan.barriers[at + 1 :])
        found = machine_findings(replace(plan, barriers=edited), inputs, observed, "production")
        assert {one.code for one in found} == {"plan-barrier-count"}
        assert all(one.message.startswith(barrier.name) for one in found)
        assert f"with {barrier.count} arrivals, and the plan says {barrier.count + 1}" in found[0].message
