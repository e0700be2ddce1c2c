"""Certified programs with forms that no model interleaves, under sampled schedules."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.sampled_programs import ADDING, contradiction


@pytest.mark.parametrize("first", [0, 7000])
def test_no_sampled_schedule_contradicts_a_certificate(first: int) -> None:
    counts: Counter[str] = Counter()
    wrong = [seed for seed in range(first, first + 150) if contradiction(seed, counts)]
    assert wrong == [] and counts["certified"] > 5 and counts["open"] > 10, counts


def test_no_sampled_schedule_contradicts_a_certificate_of_reductions() -> None:
    """Reductions commute until something reads their result that comes after some of them only."""
    counts: Counter[str] = Counter()
    wrong = [seed for seed in range(150) if contradiction(seed, counts, ADDING)]
    assert wrong == [] and counts["certified"] > 5 and counts["open"] > 10, counts
