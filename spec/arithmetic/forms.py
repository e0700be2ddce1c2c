"""How values are stored, what a stage outputs, and how a kernel computes a softmax in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import U_F32, gamma, round_bf16, round_f16, round_f32

Term = TypeVar("Term")
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Form:
    """How a value is stored."""

    name: str


F32 = Form("f32")
BF16 = Form("bf16")
F16 = Form("f16")
BOOL = Form("bool")
OPERAND = Form("operand")  # of the tensor core: what it is, the stage says (`Stage.operand`)


def round_in(form: Form, x: Array) -> F64:
    """Nearest value of `form`, ties to even, as float64."""
    try:
        return {F32: round_f32, BF16: round_bf16, F16: round_f16}[form](x)
    except KeyError:
        raise TileproofError("nothing is rounded to this form", where=form.name) from None


@dataclass(frozen=True)
class StageValue(Generic[Term]):
    """What a stage leaves behind: its value, and where others read a rounded one the copy, with its use."""

    value: Term
    copy: Term | None = None
    use: str = ""


@dataclass(frozen=True)
class Polynomial:
    """A power of 2 without the special function unit: ``2^x = 2^n p(x - n)``, n an integer, x - n from `low`
    to `high`, p with `coefficients` (lowest power first, in f32) by Horner's rule, fused or not.
    """

    coefficients: tuple[float, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @cached_property
    def approximation(self) -> float:
        """The largest relative error of p in exact arithmetic: on a grid, and what it may be between."""
        at = np.linspace(self.low, self.high, 2**16 + 1)
        off = np.polynomial.polynomial.polyval(at, round_f32(np.array(self.coefficients))) / np.exp2(at) - 1
        return float(np.abs(off).max() + np.abs(np.diff(off)).max())

    @cached_property
    def relative(self) -> float:
        """The largest relative error with the roundings of Horner's rule."""
        reach = max(abs(self.low), abs(self.high))
        size = sum(abs(c) * reach**power for power, c in enumerate(self.coefficients))
        rounding = gamma(2 * self.degree + 1, U_F32) * size / 2.0**self.low
        return self.approximation + rounding

    def value(self, x: F64) -> F64:
        """The power as one machine finds it, each step rounded to f32."""
        whole = np.floor(x - self.low)
        rest = round_f32(x - whole)
        total = np.full(np.shape(x), float(np.float32(self.coefficients[-1])))
        for c in self.coefficients[-2::-1]:
            total = round_f32(total * rest + float(np.float32(c)))
        return np.ldexp(total, np.clip(np.nan_to_num(whole), -2000, 2000).astype(int))


@dataclass(frozen=True)
class Online:
    """A softmax found in blocks of columns: each new largest element rescales what was summed before.

    `block`: columns of a block, at least; `exp_relative`: by how much a power is off beyond ex2.approx.
    """

    block: int = 32
    exp_relative: float = 0.0

    def blocks(self, columns: int) -> int:
        """Blocks of so many columns."""
        return max(-(-columns // self.block), 1)
