"""The choices of generated problems, which depend on the seed alone.

Hypothesis's own generator mixes in numbers from the source of local modules, so that the problems of a seed
would depend on where the package is installed and on what else is imported. This function is a backend of
Hypothesis (`settings(backend=...)`), which still shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider
from hypothesis.internal.intervalsets import IntervalSet

NAME = "tileproof"

_EDGES = 1 / 16  # of the integers are an end of their range, or what they shrink towards
_UNBOUNDED = 2**64  # of an integer without a bound, the distance from its other bound or from 0


class Draws(PrimitiveProvider):
    """Uniform choices from one `random.Random`, with edges more often."""

    lifetime = "test_function"

    def __init__(self, seed: int) -> None:
        super().__init__(None)
        self._random = Random(seed)

    def draw_boolean(self, p: float = 0.5) -> bool:
        """True with probability `p`."""
        return self._random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """One of `weights` with its probability, else an edge, else any of the range, ends included."""
        if weights:
            at = self._random.random()
            for value, weight in weights.items():
                if at < weight:
                    return value
                at -= weight
        low = min_value if min_value is not None else min(max_value or 0, 0) - _UNBOUNDED
        high = max_value if max_value is not None else max(low, 0) + _UNBOUNDED
        if self._random.random() < _EDGES:
            return self._random.choice([low, high, min(max(shrink_towards, low), high)])
        return self._random.randint(low, high)

    def draw_float(
        self,
        *,
        min_value: float = -math.inf,
        max_value: float = math.inf,
        allow_nan: bool = True,
        smallest_nonzero_magnitude: float,
    ) -> float:
        """From the range, without NaN and infinities; its ends and 0 more often."""
        low, high = max(min_value, -1e300), min(max_value, 1e300)
        value = low + (high - low) * self._random.random()
        if self._random.random() < _EDGES:
            value = self._random.choice([low, high, min(max(0.0, low), high)])
        return value if abs(value) >= smallest_nonzero_magnitude or low > 0 or high < 0 else 0.0

    def draw_string(self, intervals: IntervalSet, *, min_size: int = 0, max_size: int = 10**10) -> str:
        """Characters of `intervals`, at most eight more than the fewest."""
        size = self._random.randint(min_size, min(max_size, min_size + 8))
        return "".join(chr(intervals[self._random.randrange(len(intervals))]) for _ in range(size))

    def draw_bytes(self, min_size: int = 0, max_size: int = 10**10) -> bytes:
        """At most eight more than the fewest."""
        return self._random.randbytes(self._random.randint(min_size, min(max_size, min_size + 8)))


def run(test: Callable[..., None], *strategies: st.SearchStrategy[object], examples: int, seed: int) -> None:
    """Calls `test` with `examples` draws that `seed` determines, the simplest one first.

    What raises is shrunk: the last call is the smallest, and its exception is raised.
    """

    class Seeded(Draws):
        def __init__(self, conjecturedata: object, /) -> None:
            super().__init__(seed)

    AVAILABLE_PROVIDERS[NAME] = Seeded
    with_settings = settings(
        backend=NAME,
        max_examples=examples,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    hypothesis.seed(seed)(with_settings(given(st.tuples(*strategies))(lambda drawn: test(*drawn))))()
