"""A figure is chosen again without one of its rows, and that row tests it."""

from __future__ import annotations

import pytest
from tileproof.spec.machine.timing import HOPPER, Timing
from tileproof.tools.calibration import Row
from tileproof.tools.leave_one_out import leave_one_out, lines, rows_of


def row(what: str, measured: float, per: float) -> Row:
    """A made-up program that takes `per` clocks for each of a quarter pass."""

    def again(timing: Timing) -> float:
        return per * timing.quarter_pass.likely

    return Row(what, measured, 0.0, again(HOPPER), 0.0, again)


def test_the_others_choose_and_the_row_left_out_is_predicted() -> None:
    right = [row("a", 210.0, 100.0), row("b", 420.0, 200.0)]
    wrong = row("c", 100.0, 100.0)
    found = leave_one_out([*right, wrong], ["quarter_pass"], HOPPER)
    assert found[2].values == {"quarter_pass": pytest.approx(2.1)}  # what a and b say
    assert found[2].without == pytest.approx(1.1) and found[2].off == pytest.approx(1.0)
    only_right = leave_one_out(right, ["quarter_pass"], HOPPER)
    assert [row.without for row in only_right] == pytest.approx([0.0, 0.0])


def test_a_figure_on_one_row_is_named() -> None:
    first = row("ex2.approx, chain", 17.0, 8.5)
    text = lines([first], HOPPER)
    assert rows_of([first]) == {"transcendental": [first]}
    assert text[-1] == "on one row only: transcendental (ex2.approx, chain)"
