"""What a reference function may return for an output: its value with a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Expected:
    """A reference's return value for an output: the value and its bound.

    The bound is ``bound`` (a number, or a number per element) + `atol` + `rtol` * |value|; without any of
    them it is that of `reference.default_bound`.
    """

    value: Any
    bound: Any = None
    atol: float | None = None
    rtol: float | None = None
