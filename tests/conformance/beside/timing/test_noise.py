"""The likely value is a mean over orders of events: what stands at one clock has no order, and what is not
more than that chance is not told as a difference."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
from tileproof.conformance.beside.timing.compare import compare
from tileproof.conformance.beside.timing.kernel import TimedKernel, time_kernel
from tileproof.conformance.beside.timing.model import Played, play
from tileproof.conformance.beside.timing.noise import nearest, noise_of
from tileproof.conformance.beside.timing.report import Interval
from tileproof.conformance.cases.generators import small
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.timing import BLACKWELL

NAME = "head128-part0"


@pytest.fixture(scope="module")
def timed() -> TimedKernel:
    found = kernel(NAME)
    return time_kernel(found, found.variants[0], (2, 4))


@pytest.fixture(scope="module")
def run() -> Played:
    found = kernel(NAME)
    variant = found.variants[0]
    return play(found.launch(small(found.plan(variant), 3).inputs(), found.build(variant)), "sm_100a")


def test_the_error_is_student_s_t_of_the_mean() -> None:
    noise = noise_of([100.0, 104.0, 102.0])
    assert (noise.seeds, noise.smallest, noise.largest, noise.deviation) == (3, 100.0, 104.0, 2.0)
    assert noise.error == pytest.approx(4.30 * 2 / sqrt(3), abs=0.01)
    assert noise_of([7.0, 7.0]).error == 0
    assert nearest([100.0, 104.0, 102.0]) == 2


def test_an_order_comes_again_by_its_seed_and_another_may_differ(run: Played) -> None:
    clocks = [run.clocks(BLACKWELL, "likely", False, order).clocks for order in (0, 0, 1, 2, 3)]
    assert clocks[0] == clocks[1]
    assert len(set(clocks)) > 1
    assert max(clocks) < 1.05 * min(clocks)
    every = [run.clocks(BLACKWELL, "likely", False, order) for order in (None, 5)]
    assert every[0].issued == every[1].issued  # the same work, by another order


def test_the_report_has_the_noise_in_its_interval(timed: TimedKernel) -> None:
    clocks, noise = timed.report.clocks, timed.report.noise
    assert clocks.best <= noise.smallest < clocks.likely < noise.largest <= clocks.worst
    assert 0 < noise.error < 0.05 * clocks.likely
    assert any("noise of the likely value" in line and "±" in line for line in timed.report.lines())


@pytest.mark.parametrize(("errors", "says"), [(0.4, "within the noise"), (3.0, "is outside of ±")])
def test_a_difference_inside_of_the_noise_is_told_as_none(
    timed: TimedKernel, errors: float, says: str
) -> None:
    a = timed.report
    likely = a.clocks.likely + errors * sqrt(2) * a.noise.error
    b = replace(a, clocks=Interval(a.clocks.best, likely, a.clocks.worst))
    assert says in "\n".join(compare(a, b))
