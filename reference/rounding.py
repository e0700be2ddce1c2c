"""What the walk rounds: nothing (`EXACT`), or what a kernel rounds (`KernelRounding`).

The rounding model is one honest kernel among many: bf16 operands, f32 accumulators carried over the k-blocks,
f32 scalar arithmetic rounded to nearest, bf16 dQ. It stays inside every bound of `spec.numerics`; the tests
show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine import tensor_core
from tileproof.spec.numerics import F32_MIN_NORMAL, LOG2_E, round_bf16, round_f32

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
Array = npt.NDArray[Any]


class Rounding(Protocol):
    """The rounding points of the stage graph. All values are float64 arrays that hold the rounded numbers."""

    def matmul(self, a: F64, b: F64, c: F64 | None = None) -> F64:
        """``c + a [m, k] @ b [k, n]`` as the accumulator holds it."""

    def rowsum(self, a: F64, b: F64) -> F64:
        """``sum(a * b, axis=-1)``."""

    def softmax(self, P: F64, lse: F64, sm_scale: float) -> F64:
        """``exp2(P * sm_scale * log2(e) - lse)``; lse ``[h, 1]``."""

    def gradient(self, S: F64, dP: F64, delta: F64, sm_scale: float) -> F64:
        """``S * (dP - delta) * sm_scale``; delta ``[h, 1]``."""

    def operand(self, x: F64) -> F64:
        """The copy of a value that an MMA reads."""

    def out(self, x: F64) -> F64:
        """The copy of dQ that is written out."""

    def add(self, x: F64, y: F64) -> F64:
        """One addition to dKV in global memory."""


class _Exact:
    """Float64 throughout."""

    def matmul(self, a: F64, b: F64, c: F64 | None = None) -> F64:
        return a @ b if c is None else c + a @ b

    def rowsum(self, a: F64, b: F64) -> F64:
        return np.asarray(np.einsum("...d,...d->...", a, b))

    def softmax(self, P: F64, lse: F64, sm_scale: float) -> F64:
        with np.errstate(over="ignore"):
            return np.exp2(P * (sm_scale * LOG2_E) - lse)

    def gradient(self, S: F64, dP: F64, delta: F64, sm_scale: float) -> F64:
        return S * (dP - delta) * sm_scale

    def operand(self, x: F64) -> F64:
        return x

    def out(self, x: F64) -> F64:
        return x

    def add(self, x: F64, y: F64) -> F64:
        return x + y


EXACT: Rounding = _Exact()


@dataclass(frozen=True)
class KernelRounding:
    """The kernel's roundings.

    mma "f32": f32 accumulation by numpy, rounded to nearest, in numpy's order; "tensor-core": the block
    arithmetic of `spec.machine.tensor_core` bit for bit (slow). ex2.approx is modelled as the correctly
    rounded exp2 with results below 2^-126 flushed to zero; its error of up to 2 ulp (PTX ISA 9.7.3.21) is in
    the bounds, not in this model.
    """

    mma: Literal["f32", "tensor-core"] = "f32"

    def matmul(self, a: F64, b: F64, c: F64 | None = None) -> F64:
        start = np.zeros((a.shape[0], b.shape[1]), np.float32) if c is None else c.astype(np.float32)
        if self.mma == "tensor-core":
            return tensor_core.matmul(a, np.ascontiguousarray(b.T), start).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.ascontiguousarray(a, dtype=np.float32) @ np.ascontiguousarray(b, dtype=np.float32)
            return (start + product).astype(np.float64)

    def rowsum(self, a: F64, b: F64) -> F64:
        total = np.zeros(a.shape[:-1], np.float32)
        for column in range(a.shape[-1]):
            product = (a[..., column] * b[..., column]).astype(np.float32)
            total = total + product
        return total.astype(np.float64)

    def softmax(self, P: F64, lse: F64, sm_scale: float) -> F64:
        scale = np.float32(sm_scale) * np.float32(LOG2_E)
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = round_f32(P * np.float64(scale) - lse)
            power = round_f32(np.exp2(exponent))
        return np.where(power < F32_MIN_NORMAL, 0.0, power)

    def gradient(self, S: F64, dP: F64, delta: F64, sm_scale: float) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return round_f32(round_f32(S * round_f32(dP - delta)) * np.float64(np.float32(sm_scale)))

    def operand(self, x: F64) -> F64:
        return round_bf16(x)

    def out(self, x: F64) -> F64:
        return round_bf16(x)

    def add(self, x: F64, y: F64) -> F64:
        return round_f32(x + y)
