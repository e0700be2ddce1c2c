"""What mbarrier.init was given and what expect_tx announced, against the plan; parameters that nobody set."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tileproof.conformance.compare.machine import machine_findings
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.arguments import PointerArgument
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.sparse_mla_bwd.case import one_token
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.launches import struct_of, with_items

KERNELS = ["head64", "head128-part0"]


def launch_of(name: str) -> tuple[LaunchFile, KernelPlan, Inputs]:
    entry = kernel(name)
    inputs = one_token(512, 1, entry.variants[0]["h_q"]).inputs()
    variant = entry.variant(d_qk=512)
    return entry.launch(inputs, entry.build(variant)), entry.plan(variant), inputs


def run(launch: LaunchFile, plan: KernelPlan) -> RunResult:
    return emulator.run(launch, plan, schedule=Schedule(), taps=False, races=False)


@pytest.mark.parametrize("name", KERNELS)
def test_each_barrier_of_the_plan_is_held_against_the_kernels(name: str) -> None:
    launch, plan, inputs = launch_of(name)
    run_result = run(launch, plan)
    offsets = {offset for _, offset, _ in run_result.mbarriers}
    assert offsets >= {b.offset_of(stage) for b in plan.barriers for stage in range(b.stages)}
    assert not machine_findings(plan, inputs, run_result, "production")
    seen = {offset for _, offset, _ in run_result.announced}
    for at, barrier in enumerate(plan.barriers):

        def other(**change: Any) -> KernelPlan:
            barrier = replace(plan.barriers[at], **change)  # noqa: B023 - called in this round
            return replace(plan, barriers=(*plan.barriers[:at], barrier, *plan.barriers[at + 1 :]))  # noqa: B023

        found = machine_findings(other(count=barrier.count + 1), inputs, run_result, "production")
        assert {machine_finding.code for machine_finding in found} == {"plan-barrier-count"}
        assert all(machine_finding.message.startswith(barrier.name) for machine_finding in found)
        assert f"with {barrier.count} arrivals; the plan has {barrier.count + 1}" in found[0].message
        found = machine_findings(other(tx_bytes=barrier.tx_bytes + 16), inputs, run_result, "production")
        if seen & {barrier.offset_of(stage) for stage in range(barrier.stages)}:
            assert {machine_finding.code for machine_finding in found} == {"plan-barrier-bytes"}
            assert f"expects {barrier.tx_bytes} bytes in a phase" in found[0].message
    free = replace(plan.barriers[0], name="nobody", offset=max(offsets) + 64)
    found = machine_findings(replace(plan, barriers=(*plan.barriers, free)), inputs, run_result, "production")
    assert {machine_finding.code for machine_finding in found} == {"plan-barrier-missing"}
    assert found[0].message.startswith("nobody") and {
        machine_finding.problem.cta for machine_finding in found
    } == {*free.ctas}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_announces_other_bytes_than_its_plan(name: str) -> None:
    # Announced and delivered by the kernel itself: the values are right, and nothing hangs.
    launch, plan, inputs = launch_of(name)
    extra = ", ".join(f"mbarrier.{verb}_tx.relaxed.cta.shared::cta.b64" for verb in ("expect", "complete"))
    more = "".join(f" {verb} \\1, 16;" for verb in extra.split(", "))
    image, places = re.subn(
        r"(?<=\n)(\s*)mbarrier\.arrive\.expect_tx\S+ _, (\[%r\d+\]), ",
        lambda m: more.replace("\\1", m[2]) + m[0],
        launch.ptx,
    )
    assert places
    found = machine_findings(plan, inputs, run(launch.with_ptx(image), plan), "production")
    assert {machine_finding.code for machine_finding in found} == {"plan-barrier-bytes"}
    barriers = {b.name: b.tx_bytes for b in plan.barriers if b.tx_bytes}
    for machine_finding in found:
        name_of = machine_finding.message.split()[0].split("[")[0]
        assert f"expects {barriers[name_of] + 16} bytes in a phase; the plan has {barriers[name_of]}" in (
            machine_finding.message
        )


@pytest.mark.parametrize("name", KERNELS)
def test_a_launch_that_forgets_a_parameter(name: str) -> None:
    launch, plan, inputs = launch_of(name)
    offset = next(item.offset for item in struct_of(launch).items if item.item == PointerArgument("delta"))
    run_result = run(with_items(launch, lambda item: None if item.offset == offset else item), plan)
    found = next(finding for finding in run_result.findings if finding.code == "param-unset")
    assert found.severity == "error" and found.machine.ptx_line is not None
    assert re.search(rf"reads bytes {offset} to {offset + 7} of parameter \S+_param_0, which", found.message)
    assert "param-unset" in {
        machine_finding.code for machine_finding in machine_findings(plan, inputs, run_result, "production")
    }
