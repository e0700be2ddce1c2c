"""A driver that lacks a capability: the judge asks, judges what is left, and the report names the rest."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.result import Report, as_dict
from tileproof.conformance.check.run import KernelUnderTest
from tileproof.conformance.drivers.driver import ALL, NOT_JUDGED, Capabilities, Capability
from tileproof.conformance.report.terminal import print_report
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans import head128_part0

from tests.kit.doubles import Driven, Plant, machine, unplanted


class Described(tuple[Any, bool]):
    """The inputs and the build of a launch; no grid, of which clusters could be chosen."""

    main, launches = SimpleNamespace(grid=()), ()


VARIANT = Variant.of("sparse_mla_bwd", h_q=128, d_qk=512)
KERNEL: Any = SimpleNamespace(
    name="head128-part0",
    plan=lambda variant: head128_part0.plan(variant["d_qk"]),
    title=lambda variant: "head128-part0",
    launch=lambda inputs, built, probe: Described((inputs, probe)),
)
Hand = Callable[[RunResult, Schedule], RunResult]


def on(
    capabilities: Capabilities, plant: Plant = unplanted, hand: Hand | None = None, probe: bool = True
) -> Any:
    """The kernel on a driver that hands back no more than it can, and rubbish in the place of marks."""

    def do(launch: Any, plan: KernelPlan, schedule: Schedule, taps: bool) -> RunResult:
        inputs, is_probe = launch
        seen = machine(plan, inputs, plant, probe=is_probe)
        if "schedules" not in capabilities:
            assert schedule.policy == "early", "a schedule was asked of a driver that takes none"
        if "capture" not in capabilities:
            seen = replace(seen, captures=())
        if "written" not in capabilities:
            outputs = {
                name: Output(np.where(output.written, output.values, 0), ~output.written)
                for name, output in seen.outputs.items()
            }
            seen = replace(seen, outputs=outputs)
        return hand(seen, schedule) if hand else seen

    built: Any = None
    return KernelUnderTest(
        KERNEL, VARIANT, built, (lambda: built) if probe else None, Driven(do, capabilities)
    )


def run(under_test: Any, examples: int = 12) -> Report:
    return engine.check(under_test, examples=examples, seed=3, with_edges=False)


def one_off(stage: str) -> Plant:
    """A machine whose every tile of `stage` is too large by 1."""
    return lambda name, tile, value: value + 1 if name == stage else value


def wrong_p(name: str, tile: Any, value: Any) -> Any:
    return value + 1 if name == "P" and tile.k_block == 0 else value


def test_a_driver_with_everything_leaves_nothing_out() -> None:
    report = run(on(ALL))
    assert report.failure is None and report.not_judged == ()


@pytest.mark.parametrize("lacking", NOT_JUDGED)
def test_a_right_kernel_passes_and_what_was_not_judged_is_named(lacking: Capability) -> None:
    report = run(on(ALL - {lacking}))
    assert report.failure is None and report.examples == 12
    assert report.not_judged == (NOT_JUDGED[lacking],)
    assert as_dict(report)["not_judged"] == [NOT_JUDGED[lacking]]
    with redirect_stdout(io.StringIO()) as out:
        print_report(report, "")
    assert f"not judged: {NOT_JUDGED[lacking]}" in out.getvalue()
    assert report.scores["P"].tiles and report.scores["delta"].tiles


@pytest.mark.parametrize("lacking", NOT_JUDGED)
def test_a_planted_defect_is_found_through_what_is_left(lacking: Capability) -> None:
    report = run(on(ALL - {lacking}, wrong_p))
    assert report.failure is not None
    finding = report.failure.findings[0]
    assert (finding.kind, finding.problem.stage, finding.problem.k_block) == ("value", "P", 0)
    # Without captures P is first seen in the probe build's outputs.
    assert finding.problem.build == ("probe" if lacking == "capture" else "production")
    assert as_dict(report)["not_judged"] == [NOT_JUDGED[lacking]]


def test_neither_captures_nor_probe_leaves_the_outputs() -> None:
    bare = ALL - {"capture"}
    report = run(on(bare, probe=False))
    assert report.failure is None and set(report.scores) == {"delta"}
    assert report.not_judged == (
        NOT_JUDGED["capture"],
        "the probe build: the kernel has none",
        "tiles of P: no build shows them on this driver",
    )
    assert run(on(bare, one_off("P"), probe=False)).failure is None  # nothing shows it, as the report says
    found = run(on(bare, one_off("delta"), probe=False)).failure
    assert found is not None and found.findings[0].problem.stage == "delta"


def test_without_schedules_a_second_launch_must_repeat_the_first() -> None:
    """One run per case, and of a launch that changes, that it does."""
    number = 0

    def flicker(seen: RunResult, schedule: Schedule) -> RunResult:
        nonlocal number
        number += 1
        if number % 3 == 0:  # production, probe, production again
            seen.outputs["delta"].values[0, 0] += 64
        return seen

    failure = run(on(ALL - {"schedules"}, hand=flicker), examples=1).failure
    assert failure is not None and failure.repeated
    report = as_dict(run(on(ALL - {"schedules"}, wrong_p), examples=3))
    assert "schedule" not in report
    number = 0
    verdict = engine.run_case(  # type: ignore[attr-defined]
        on(ALL - {"schedules"}, hand=flicker), failure.case, Schedule("early"), explain=False
    )
    (finding,) = verdict.findings
    assert finding.kind == "disagree" and "a second launch" in finding.message


def test_marks_are_not_believed_of_a_driver_that_has_none() -> None:
    """What was not written is then seen by its value alone."""

    def missing(name: str, tile: Any, value: Any) -> Any:
        return None if name == "delta" and tile.cta == 1 else value

    with_marks, without = (run(on(can, missing)).failure for can in (ALL, ALL - {"written"}))
    assert with_marks is not None and without is not None
    assert with_marks.findings[0].kind == "missing" and without.findings[0].kind == "value"


def test_a_fault_of_the_launch_comes_before_what_it_did_not_write() -> None:
    def fault(seen: RunResult, schedule: Schedule) -> RunResult:
        outputs = {n: Output(o.values * 0, o.written & False) for n, o in seen.outputs.items()}
        return RunResult(outputs, findings=(Finding("card-fault", "illegal instruction"),))

    failure = run(on(frozenset({"written"}), hand=fault), examples=1).failure
    assert failure is not None and failure.findings[0].code == "card-fault"


def test_what_is_wrong_once_is_reported_though_it_does_not_repeat() -> None:
    """A race on a card: the same case passes when it runs for the report."""
    number = 0

    def once(seen: RunResult, schedule: Schedule) -> RunResult:
        nonlocal number
        number += 1
        if number == 7:
            seen.outputs["delta"].values[0, 0] += 64
        return seen

    report = run(on(ALL - {"schedules"}, hand=once))
    assert report.failure is not None and not report.failure.repeated
    assert report.failure.findings[0].problem.stage == "delta"
    assert as_dict(report)["repeated"] is False
    with redirect_stdout(io.StringIO()) as out:
        print_report(report, "")
    assert "not repeated" in out.getvalue()


def test_every_edge_and_every_fourth_example_is_launched_again() -> None:
    """By the example's own text, so that -j and the other examples do not change which."""
    launches: list[tuple[str, bool]] = []

    def listen(seen: RunResult, schedule: Schedule) -> RunResult:
        launches.append((schedule.policy, bool(seen.captures)))
        return seen

    drawn = engine.drawn(head128_part0.plan(512), "all", 3, 40)
    expected = sum(engine.every_fourth(*run) for run in drawn)  # type: ignore[attr-defined]
    assert 4 <= expected <= 16
    report = run(on(ALL, hand=listen), examples=40)
    assert report.failure is None and report.again == expected
    assert len(launches) == 2 * 40 + expected
    assert as_dict(report)["launched_again"] == expected
    with_edges = engine.check(on(ALL), examples=40, seed=3)
    assert with_edges.again == expected + with_edges.examples - 40
    two = engine.check(on(ALL), examples=40, seed=3, with_edges=False, jobs=2)
    assert (two.again, two.examples) == (expected, 40)


def test_an_order_that_only_the_other_schedule_shows_is_found_and_shrunk() -> None:
    """Wrong under "late" without captures alone: what the second launch of production is."""

    def late(seen: RunResult, schedule: Schedule) -> RunResult:
        if schedule.policy == "late" and "P" not in seen.outputs:
            seen.outputs["delta"].values[0, 0] += 64
        return seen

    report = engine.check(on(ALL, hand=late), examples=40, seed=3, policy="early", with_edges=False)
    assert report.failure is not None and report.failure.repeated
    assert report.failure.schedule.policy == "early" and report.failure.case.blocks == 1  # type: ignore[attr-defined]
    assert any("another schedule" in finding.message for finding in report.failure.findings)
