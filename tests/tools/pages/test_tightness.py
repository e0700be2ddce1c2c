"""docs/tightness.md is what is measured, and every stage is checked to at least 20 bits by some class."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.tools.pages import tightness


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert tightness.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("stage", SPARSE_MLA_BWD.stages)
def test_every_stage_is_checked_to_20_bits_by_some_class(stage: str) -> None:
    assert tightness.best(stage) >= 20


def test_bits_are_rounded_to_nearest_even() -> None:
    value = np.array([1 + 2.0**-12, 1 + 3 * 2.0**-12, -5.0], np.float32)
    assert tightness.in_bits(value, 12).tolist() == [1.0, 1 + 2.0**-10, -5.0]
