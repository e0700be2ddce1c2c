"""An arithmetic that says how much cancelled in a value, for comparisons of two float64 evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
from tileproof.spec.arithmetic import F32, Form
from tileproof.spec.arithmetic.exact import Exact


class Uncancelled(Exact):
    """Values with the sum of the absolute values of their terms: complex numbers value + i magnitude."""

    def _of(self, value: Any, magnitude: Any) -> Any:
        return value + 1j * magnitude

    def read(self, form: Form, x: Any) -> Any:
        if np.iscomplexobj(x):
            return x
        term = super().read(form, x)
        return term if term.dtype == bool else self._of(term, np.abs(term))

    def matmul(self, a: Any, b: Any) -> Any:
        return self._of(a.real @ b.real, a.imag @ b.imag)

    def accumulate(self, total: Any, a: Any, b: Any) -> Any:
        value = self.operation("accumulate")(total.real, a.real, b.real)
        return self._of(value, self.operation("accumulate")(total.imag, a.imag, b.imag))

    def rowsum(self, a: Any, b: Any, products: Form = F32) -> Any:
        return self._of((a.real * b.real).sum(-1), (a.imag * b.imag).sum(-1))

    def mul(self, *factors: Any) -> Any:
        return self._of(
            self.operation("mul")(*(x.real for x in factors)),
            self.operation("mul")(*(x.imag for x in factors)),
        )

    def sub(self, a: Any, b: Any) -> Any:
        return self._of(a.real - b.real, a.imag + b.imag)

    def exp2(self, a: Any) -> Any:
        return self._of(np.exp2(a.real), np.exp2(a.real))

    def constant(self, name: str, value: float) -> Any:
        return np.asarray(self._of(value, abs(value)))
