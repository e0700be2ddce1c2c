"""What a machine that rounds would hold: one correct kernel among many.

It stays inside every bound of `spec.arithmetic.bound`; the tests show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic import BF16, F16, F32, Form, Keeping, Online
from tileproof.spec.machine import tensor_core
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import F32_MIN_NORMAL, round_bf16, round_f16, round_f32

F64 = npt.NDArray[np.float64]


def round_in(form: Form, x: Any) -> F64:
    """Nearest value of `form`, ties to even, as float64."""
    try:
        return {F32: round_f32, BF16: round_bf16, F16: round_f16}[form](x)
    except KeyError:
        raise TileproofError("nothing is rounded to this form", where=form.name) from None


@dataclass(frozen=True)
class Rounded(Keeping):
    """Float64 arrays that hold rounded numbers.

    mma "f32": f32 accumulation by numpy, rounded to nearest, in numpy's order; "tensor-core": the block
    arithmetic of `spec.machine.tensor_core` bit for bit (slow). ex2.approx is modelled as the correctly
    rounded exp2 with results below 2^-126 flushed to zero; its error of up to 2 ulp (PTX ISA 9.7.3.21) is in
    the bounds, not in this model.
    """

    mma: Literal["f32", "tensor-core"] = "f32"

    def read(self, form: Form, x: Any) -> Any:
        """An input as a term; a plain number is rounded as it is passed."""
        array = np.asarray(x)
        if array.dtype == bool:
            return array
        return round_in(form, x) if array.ndim == 0 else array.astype(np.float64)

    def part(self, a: Any, index: Any) -> Any:
        """Some elements of a term."""
        return a[index]

    def matmul(self, a: F64, b: F64) -> F64:
        return self.accumulate(np.zeros((a.shape[0], b.shape[1])), a, b)

    def accumulate(self, total: F64, a: F64, b: F64) -> F64:
        width = b.shape[1]
        start = np.asarray(total)[:, :width].astype(np.float32)
        if self.mma == "tensor-core":
            sums = tensor_core.matmul(a, np.ascontiguousarray(b.T), start)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                product = np.ascontiguousarray(a, np.float32) @ np.ascontiguousarray(b, np.float32)
                sums = start + product
        result = np.array(total, np.float64)
        result[:, :width] = sums
        return result

    def rowsum(self, a: F64, b: F64, products: Form = F32) -> F64:
        total = np.zeros(a.shape[:-1], np.float32)
        for column in range(a.shape[-1]):
            product = a[..., column] * b[..., column]
            product = product if products == F32 else round_in(products, product)
            total = total + product.astype(np.float32)
        return total.astype(np.float64)

    def transpose(self, a: F64) -> F64:
        return a.T

    def column(self, a: F64) -> F64:
        return np.asarray(a)[:, None]

    def mul(self, *factors: F64) -> F64:
        product = factors[0]
        with np.errstate(over="ignore", invalid="ignore"):
            for factor in factors[1:]:
                product = round_f32(product * factor)
        return np.asarray(product)

    def sub(self, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return round_f32(a - b)

    def add(self, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return round_f32(a + b)

    def exp2(self, a: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            power = round_f32(np.exp2(a))
        return np.where(power < F32_MIN_NORMAL, 0.0, power)

    def select(self, mask: npt.NDArray[np.bool_], a: F64) -> F64:
        return np.where(mask, a, 0.0)

    def logsumexp2(self, mask: npt.NDArray[np.bool_], a: F64, online: Online) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shown = np.where(mask, a, -np.inf)
            top = shown.max(axis=1, initial=-np.inf)
            some = np.isfinite(top)
            kept = np.where(some, top, 0.0)
            total = np.exp2(shown - kept[:, None]).sum(axis=1)
            return round_f32(np.where(some, kept + np.log2(np.where(some, total, 1.0)), np.inf))

    def normalised(self, a: F64, online: Online) -> F64:
        return a

    def constant(self, name: str, value: float) -> F64:
        return np.asarray(np.float32(value), np.float64)

    def round_to(self, form: Form, a: F64) -> F64:
        return round_in(form, a)

    def scatter_add(self, total: F64, rows: npt.NDArray[np.int64], tile: F64) -> F64:
        for row, values in zip(rows, tile, strict=True):
            total[row] = round_f32(total[row] + values)
        return total
