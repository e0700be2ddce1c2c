"""sm90-gemm: the same PTX judged tile by tile on the emulator and, where present, on a card."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.under_test import on_driver, on_emulator
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.driver import not_judged
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.conformance.planted.synchronisation.run import run as run_row
from tileproof.kernels.edit import InStage, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.gemm.defects import ORDER, VALUES
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plans.consistency import contradictions

from tests.kit.card import card
from tests.kit.sampled import sampled

KERNEL = kernel("sm90-gemm")
VARIANT = KERNEL.variants[0]
__all__ = ["card"]  # a fixture
OTHERS = "output tiles of a larger problem that did not run are not judged"
REGISTERS = "partial sums of product: no barrier publishes them"


def test_the_plan_holds_and_its_ptx_is_for_every_later_architecture() -> None:
    assert contradictions(KERNEL.plan(VARIANT)) == []
    for probe in (False, True):
        built = KERNEL.build(VARIANT, probe)
        assert re.search(r"^\.target sm_90$", built.ptx, re.MULTILINE) and "wgmma" not in built.ptx
        assert built.resources is not None and built.resources.spill_stores == 0


@pytest.mark.parametrize("mma", ["fast", "exact"])
def test_every_tile_of_it_conforms_on_the_emulator(mma: str) -> None:
    report = engine.check(on_emulator(KERNEL, VARIANT, mma=mma), examples=15, seed=4)  # type: ignore[arg-type]
    assert report.failure is None, report.failure
    assert set(report.scores) == {"product", "D", "D from end to end"} and report.agreed
    # No finding is remarked on, and nothing left out but sums in registers: the card's report names more.
    assert report.not_judged == (REGISTERS,) and report.remarks.keys() == {OTHERS}


@pytest.mark.parametrize("planted", sampled(VALUES, 3), ids=lambda defect: defect.id)
def test_planted_values_are_found(planted: PlantedDefect) -> None:
    report = engine.check(
        on_emulator(KERNEL, VARIANT, planted=planted, races=False), examples=20, seed=0, shrink_seconds=1.0
    )
    assert report.failure is not None
    finding = report.failure.findings[0]
    assert planted.expected.fits(finding.problem.stage, finding.code)  # type: ignore[union-attr]


@pytest.mark.parametrize("planted", ORDER, ids=lambda defect: defect.id)
def test_planted_orders_are_named(planted: PlantedDefect) -> None:
    assert run_row(planted, kernel=KERNEL).wrong == ""


def test_it_conforms_on_a_card(card: CudaDriver) -> None:
    report = engine.check(on_driver(KERNEL, VARIANT, card), examples=30, seed=4)
    assert report.failure is None, report.failure
    assert set(report.scores) == {"product", "D", "D from end to end"} and report.agreed
    # It observes nothing inside a launch, so a card's lack of captures leaves nothing out.
    assert report.not_judged == (*not_judged(card.capabilities | {"capture"}), REGISTERS)


@pytest.mark.parametrize("planted", VALUES[:7], ids=lambda defect: defect.id)
def test_planted_values_are_found_on_a_card(card: CudaDriver, planted: PlantedDefect) -> None:
    report = engine.check(on_driver(KERNEL, VARIANT, card, planted=planted), examples=20, seed=0)
    assert report.failure is not None
    finding = report.failure.findings[0]
    assert finding.problem.stage == "D" or finding.code == "card-guard"


def test_a_hang_on_a_card_ends_the_launch_and_the_next_one_runs(card: CudaDriver) -> None:
    (planted,) = (defect for defect in ORDER if defect.id == "s90-empty-never-arrived-on")
    card.seconds = 2.0
    failure = engine.check(on_driver(KERNEL, VARIANT, card, planted=planted), examples=1, seed=0).failure
    assert failure is not None and failure.findings[0].code == "card-hang"
    assert engine.check(on_driver(KERNEL, VARIANT, card), examples=3, seed=0).failure is None


def test_card_and_exact_emulator_give_the_same_bits(card: CudaDriver) -> None:
    """Of A B^T, of C and of the scalars: mma.sync bit for bit, and the same contraction in the epilogue."""
    plan, built = KERNEL.plan(VARIANT), KERNEL.build(VARIANT, True)
    for case, schedule in engine.drawn(plan, "early", 11, 20):
        launch = KERNEL.launch(case.inputs(), built, True)
        on_card = card.run(launch, plan, schedule, False)
        emulated = EmulatorDriver(mma="exact", races=False).run(launch, plan, Schedule(), False)
        for name, output in emulated.outputs.items():
            found = on_card.outputs[name]
            assert output.written.all() and found.written.all()
            assert np.array_equal(found.values.view(np.uint32), output.values.view(np.uint32)), (name, case)


BIAS = kernel("sm90-gemm-bias")


def test_a_product_with_a_bias_conforms() -> None:
    """D is bf16; its edges, and problems with every value class."""
    report = engine.check(on_emulator(BIAS, BIAS.variants[0]), examples=10, seed=4)
    assert report.failure is None, report.failure
    assert set(report.scores) == {"product", "D", "D from end to end"} and report.agreed


@pytest.mark.parametrize("planted", BIAS.defects(), ids=lambda defect: defect.id)
def test_planted_defects_of_the_bias_are_found(planted: PlantedDefect) -> None:
    under_test = on_emulator(BIAS, BIAS.variants[0], planted=planted, races=False)
    report = engine.check(under_test, examples=10, seed=0, shrink_seconds=1.0)
    assert report.failure is not None
    finding = report.failure.findings[0]
    assert isinstance(planted.expected, InStage) and planted.expected.fits(
        finding.problem.stage, finding.code
    )
