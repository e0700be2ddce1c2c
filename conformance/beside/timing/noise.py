"""The noise of the model's likely value: events at the same clock have no defined order.

The order of two requests at the same clock decides which waits, and this propagates through the run: two
such orders differ by about a hundredth. The likely value is the mean over several orders, drawn
by seeds, and its error is that of the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import mean, stdev

SEEDS = 5
_STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}  # two-sided, 95%, by values


@dataclass(frozen=True)
class Noise:
    """Clocks per k-block in `seeds` orders of events: smallest, largest, standard deviation, and the
    `error` of their mean: half of its interval of 95% (Student's t)."""

    seeds: int
    smallest: float
    largest: float
    deviation: float
    error: float

    def __str__(self) -> str:
        return (
            f"±{self.error:,.0f} ({self.seeds} orders of events: {self.smallest:,.0f} to {self.largest:,.0f})"
        )


def noise_of(values: Sequence[float]) -> Noise:
    """The noise of the mean of two to eight values."""
    deviation = stdev(values)
    error = _STUDENT[len(values)] * deviation / sqrt(len(values))
    return Noise(len(values), min(values), max(values), deviation, error)


def nearest(values: Sequence[float]) -> int:
    """Which value is nearest to the mean: its run is used in timelines and shares."""
    middle = mean(values)
    return min(range(len(values)), key=lambda at: (abs(values[at] - middle), at))


def of_difference(a: Noise, b: Noise) -> float:
    """The error of a difference of two means."""
    return hypot(a.error, b.error)
