"""The value of a stage and how far a correct kernel may lie from it, per element.

A term is a float64 value with an error: however the kernel rounded so far, in any order that the operation
allows, it is within the error of the value. Errors of operands are carried on in closed form, not to first
order. Names: a, b have the errors e_a, e_b; u = U_F32, w = U_F64, M_a = |a| + e_a. spread: how far the
value of a function moves while its operand moves within e_a.

Operands of the tensor core count 2^-126 at least, unless they are 0. Where every partial sum is exact
whatever the order the error is 0. Where an intermediate may exceed the f32 range it is +inf, for that element
only: infinity and any finite value are then both correct, and NaN too where `may_be_nan` is set, as an
infinite operand may have met a zero or another infinity. What is not finite in the value itself must be
found.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import Form
from tileproof.spec.arithmetic.operation import Arithmetic
from tileproof.spec.arithmetic.terms import Bf16Data, Bounded, Mask, TermView
from tileproof.spec.machine.types import Index
from tileproof.spec.numerics import U_F32


class Bound(Arithmetic):
    """Values with errors."""

    interpretation = "bound"

    def read(self, form: Form, x: Bounded | npt.ArrayLike) -> Bounded | Mask:
        """An input as a term: what an array holds is exact, a plain number is rounded as it is passed."""
        if isinstance(x, Bounded):
            return x
        array = np.asarray(x)
        if array.dtype == bool:
            return array
        if array.dtype == ml_dtypes.bfloat16:
            return Bf16Data(np.ascontiguousarray(array))
        with np.errstate(invalid="ignore"):  # signalling NaNs
            value = array.astype(np.float64)
        if array.ndim == 0 and form.name == "f32" and value != np.float32(value):
            return Bounded(value, U_F32 * np.abs(value))
        return Bounded(value)

    def part(self, a: Bounded | Mask, index: Index) -> Bounded | Mask:
        """Some elements of a term."""
        return TermView(a, lambda x: x[index]) if isinstance(a, Bounded) else a[index]


BOUND = Bound()
