"""Sums of rows of which a part went to the columns of another part: the widths that fit are named."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.compare.rows import other_columns
from tileproof.spec.arithmetic.sums import RowSums


def sums() -> RowSums:
    """Four rows of 576 columns with five contributions each."""
    made = RowSums.of(4, 576)
    parts = np.random.default_rng(3).standard_normal((20, 576)).astype(np.float32).astype(np.float64)
    made.add(np.arange(20) % 4, parts)
    return made


def told(found, right: RowSums) -> list[str]:
    return [words for words, value, bound in other_columns(right) if (np.abs(found - value) <= bound).all()]


@pytest.mark.parametrize(("width", "into"), [(256, 0), (128, 0), (128, 1), (64, 1), (32, 0)])
def test_parts_in_the_columns_of_others(width, into):
    right = sums()
    found = right.value.copy()
    for low in range(0, 576 // (2 * width) * 2 * width, 2 * width):
        halves = slice(low, low + width), slice(low + width, low + 2 * width)
        found[:, halves[into]] += found[:, halves[1 - into]]
        found[:, halves[1 - into]] = 0
    moved, other = ("second", "first") if into == 0 else ("first", "second")
    assert told(found, right) == [
        f"of every {2 * width} columns the {moved} {width} were added to the {other}"
    ]


def test_right_and_lost_parts_are_not_named_so():
    right = sums()
    assert told(right.value, right) == []
    lost = right.value.copy()
    lost[:, 128:256] = 0
    assert told(lost, right) == []
