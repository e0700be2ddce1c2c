"""A part of a long list of cases for every run; the rest is marked slow (`make test-all`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def sampled(
    cases: Sequence[Case], every: int, kind: Callable[[Case], object] = lambda case: None
) -> list[Any]:
    """Parameters of a test: of each kind of case the first, and every `every`-th after it, run always."""
    seen: dict[object, int] = {}
    made = []
    for case in cases:
        number = seen[kind(case)] = seen.get(kind(case), -1) + 1
        made.append(pytest.param(case, marks=[pytest.mark.slow] if number % every else []))
    return made
