"""The float64 value of a stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic import F32, Form, Keeping, Online

F64 = npt.NDArray[np.float64]


class Exact(Keeping):
    """Float64 throughout."""

    def read(self, form: Form, x: Any) -> Any:
        """An input as a term."""
        array = np.asarray(x)
        return array if array.dtype in (bool, np.float64) else array.astype(np.float64)

    def part(self, a: Any, index: Any) -> Any:
        """Some elements of a term."""
        return a[index]

    def matmul(self, a: F64, b: F64) -> F64:
        return np.asarray(a @ b)

    def accumulate(self, total: F64, a: F64, b: F64) -> F64:
        product = a @ b
        if product.shape == np.shape(total):
            return np.asarray(total + product)
        result = np.array(total)
        result[:, : product.shape[1]] += product
        return result

    def rowsum(self, a: F64, b: F64, products: Form = F32) -> F64:
        return np.asarray(np.einsum("...d,...d->...", a, b))

    def transpose(self, a: F64) -> F64:
        return a.T

    def column(self, a: F64) -> F64:
        return np.asarray(a)[:, None]

    def mul(self, *factors: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            product = factors[0]
            for factor in factors[1:]:
                product = product * factor
            return np.asarray(product)

    def sub(self, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(a - b)

    def add(self, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(a + b)

    def exp2(self, a: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.exp2(a))

    def select(self, mask: npt.NDArray[np.bool_], a: F64) -> F64:
        return np.where(mask, a, 0.0)

    def logsumexp2(self, mask: npt.NDArray[np.bool_], a: F64, online: Online) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shown = np.where(mask, a, -np.inf)
            top = shown.max(axis=1, initial=-np.inf)
            some = np.isfinite(top)
            kept = np.where(some, top, 0.0)
            total = np.exp2(shown - kept[:, None]).sum(axis=1)
            return np.where(some, kept + np.log2(np.where(some, total, 1.0)), np.inf)

    def normalised(self, a: F64, online: Online) -> F64:
        return a

    def constant(self, name: str, value: float) -> F64:
        return np.asarray(value, np.float64)

    def round_to(self, form: Form, a: F64) -> F64:
        return a

    def scatter_add(self, total: F64, rows: npt.NDArray[np.int64], tile: F64) -> F64:
        np.add.at(total, rows, tile)
        return total


EXACT = Exact()
