"""The values of a machine that rounds: one correct kernel among many.

It stays inside every bound of `spec.arithmetic.bound`; the tests show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import Form, round_in
from tileproof.spec.arithmetic.operation import Arithmetic
from tileproof.spec.machine.types import Array, Index


@dataclass(frozen=True)
class Rounded(Arithmetic):
    """Float64 arrays that hold rounded numbers.

    mma "f32": f32 accumulation by numpy, rounded to nearest, in numpy's order; "tensor-core": the block
    arithmetic of `spec.machine.tensor_core` bit for bit (slow). Approximate instructions (ex2, lg2, sqrt,
    rsqrt, tanh) are modelled as correctly rounded; their errors are in the bounds, not in this model.
    """

    interpretation = "rounded"

    mma: Literal["f32", "tensor-core"] = "f32"

    def read(self, form: Form, x: npt.ArrayLike) -> Array:
        """An input as a term; a plain number is rounded as it is passed."""
        array = np.asarray(x)
        if array.dtype == bool:
            return array
        return round_in(form, array) if array.ndim == 0 else array.astype(np.float64)

    def part(self, a: Array, index: Index) -> Array:
        """Some elements of a term."""
        return a[index]
