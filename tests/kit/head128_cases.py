"""The inputs of backward_cases for head128."""

from __future__ import annotations

from functools import partial

from tests.kit import backward_cases
from tests.kit.backward_cases import INT_MAX, INT_MIN

random_case = partial(backward_cases.random_case, heads=128)
exact_case = partial(backward_cases.exact_case, heads=128)

__all__ = ["INT_MAX", "INT_MIN", "exact_case", "random_case"]
