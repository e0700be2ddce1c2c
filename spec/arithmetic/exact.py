"""The float64 value of a stage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import F64, Form
from tileproof.spec.arithmetic.operation import Arithmetic
from tileproof.spec.machine.types import Array, Index

__all__ = ["EXACT", "F64", "Exact"]


class Exact(Arithmetic):
    """Float64 throughout."""

    interpretation = "exact"

    def read(self, form: Form, x: npt.ArrayLike) -> Array:
        """An input as a term."""
        array = np.asarray(x)
        return array if array.dtype in (bool, np.float64) else array.astype(np.float64)

    def part(self, a: Array, index: Index) -> Array:
        """Some elements of a term."""
        return a[index]


EXACT = Exact()
