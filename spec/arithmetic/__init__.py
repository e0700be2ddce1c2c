"""The arithmetic that stages are written over, and what its four interpretations have in common.

A stage is one Python function ``f(m, inputs...)`` over an arithmetic `m`. `exact` gives its float64 value,
`rounded` what a machine that rounds would hold, `bound` the value and how far a correct kernel may lie from
it, per element, and `text` the formula. None of them knows a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Generic, Protocol, TypeVar

import numpy as np

Term = TypeVar("Term")


@dataclass(frozen=True)
class Form:
    """How a value is stored."""

    name: str


F32 = Form("f32")
BF16 = Form("bf16")
F16 = Form("f16")
BOOL = Form("bool")
OPERAND = Form("operand")  # of the tensor core: what it is, the stage says (`Stage.operand`)

# What a stage's function reads of an input: the annotation of its parameter. The copy is in bf16.
AsF32 = Annotated[Any, F32]
AsBF16 = Annotated[Any, BF16]
AsF16 = Annotated[Any, F16]
AsBool = Annotated[Any, BOOL]
AsOperand = Annotated[Any, OPERAND]


@dataclass(frozen=True)
class Kept(Generic[Term]):
    """What a stage leaves behind: its value, and where others read a rounded one the copy, with its use."""

    value: Term
    copy: Term | None = None
    use: str = ""


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


class Arithmetic(Protocol):
    """The operations of stages. Terms are whatever the interpretation computes with, at most 2-D."""

    def matmul(self, a: Any, b: Any) -> Any:
        """``a [m, k] b [k, n]`` in the tensor core, accumulated in f32."""

    def accumulate(self, total: Any, a: Any, b: Any) -> Any:
        """``total + a b`` in the same accumulator; a narrower product adds to total's first columns."""

    def rowsum(self, a: Any, b: Any, products: Form = F32) -> Any:
        """The sum of ``a b`` over the last axis, in f32 and in any order; each product rounded to `products`
        before.
        """

    def transpose(self, a: Any) -> Any:
        """``a [m, n]`` as [n, m]."""

    def column(self, a: Any) -> Any:
        """``a [m]`` as [m, 1], one value for each row."""

    def mul(self, *factors: Any) -> Any:
        """The product of the factors in f32, multiplied in any order."""

    def sub(self, a: Any, b: Any) -> Any:
        """``a - b`` in f32."""

    def add(self, a: Any, b: Any) -> Any:
        """``a + b`` in f32."""

    def exp2(self, a: Any) -> Any:
        """``2^a`` by ex2.approx.ftz.f32."""

    def select(self, mask: Any, a: Any) -> Any:
        """``a`` in the columns where `mask` holds, 0 in the others."""

    def constant(self, name: str, value: float) -> Any:
        """A number that the kernel holds in f32."""

    def round_to(self, form: Form, a: Any) -> Any:
        """``a`` rounded to nearest even in `form`."""

    def logsumexp2(self, mask: Any, a: Any, online: Online) -> Any:
        """``log2(sum of 2^a)`` of each row over the columns where `mask` holds, +inf for none."""

    def normalised(self, a: Any, online: Online) -> Any:
        """``a``, powers that were found in blocks of columns and divided by their sum at the end."""

    def matmul_in_steps(
        self, a: Any, b: Any, steps: Any, form: Form, *factors: Any, apart: bool = False
    ) -> Any:
        """``a b``, times the factors, in an accumulator that is rounded to `form` after each step, or whose
        steps are rounded `apart`.
        """

    def matmul_of_run(self, a: Any, b: Any, runs: Any, number: int) -> Any:
        """``a b`` over the elements of the summed axis that `runs` numbers `number`, which lie together."""

    def add_in_order(self, *parts: Any) -> Any:
        """The sum of the parts, first to last, rounded to f32 after each addition."""

    def keep(self, value: Any, **copy: Any) -> Any:
        """What the stage leaves: `value`, and a rounded copy of it under the name of its use."""

    def scatter_add(self, total: Any, rows: Any, tile: Any) -> Any:
        """Adds each row of `tile` to that row of `total` in global memory, in f32 and in any order."""


class Keeping:
    """What is the same in every interpretation with numbers."""

    def matmul_in_steps(
        self, a: Any, b: Any, steps: Any, form: Form, *factors: Any, apart: bool = False
    ) -> Any:
        """``a b``, times the factors, in an accumulator of form `form` that is rounded after each step.

        `steps` numbers the step of each element of the summed axis. `apart`: each step's own sum is rounded,
        and they are added in f32.
        """
        m: Any = self
        total = None
        number = getattr(steps, "value", steps)
        ends = [i for i in range(1, len(number)) if number[i] != number[i - 1]]
        for first, last in pairwise([0, *ends, len(number)]):
            step = slice(first, last)
            part = m.matmul(m.part(a, (slice(None), step)), m.part(b, (step, slice(None))))
            part = m.mul(*factors, part) if factors else part
            part = m.round_to(form, part) if apart and form != F32 else part
            total = part if total is None else m.add(total, part)
            total = total if apart or form == F32 else m.round_to(form, total)
        return total

    def matmul_of_run(self, a: Any, b: Any, runs: Any, number: int) -> Any:
        m: Any = self
        at = np.flatnonzero(np.asarray(getattr(runs, "value", runs)) == number)
        run = slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, 0)
        return m.matmul(m.part(a, (slice(None), run)), m.part(b, (run, slice(None))))

    def add_in_order(self, *parts: Any) -> Any:
        m: Any = self
        total = parts[0]
        for part in parts[1:]:
            if np.any(getattr(part, "value", part)) or np.any(getattr(part, "errors", 0.0)):
                total = m.add(total, part)  # adding what is exactly 0 rounds nothing
        return total

    def keep(self, value: Any, **copy: Any) -> Any:
        if not copy:
            return Kept(value)
        ((use, rounded),) = copy.items()
        return Kept(value, rounded, use)


class WithOperands:
    """An arithmetic whose operands of the tensor core have one form; f32 ones are no rounded copies."""

    def __init__(self, m: Any, form: Form) -> None:
        self._m, self._form = m, form

    def __getattr__(self, name: str) -> Any:
        return getattr(self._m, name)

    def round_to(self, form: Form, a: Any) -> Any:
        form = self._form if form == OPERAND else form
        return a if form == F32 else self._m.round_to(form, a)

    def matmul_in_steps(
        self, a: Any, b: Any, steps: Any, form: Form, *factors: Any, apart: bool = False
    ) -> Any:
        form = self._form if form == OPERAND else form
        return self._m.matmul_in_steps(a, b, steps, form, *factors, apart=apart)

    def rowsum(self, a: Any, b: Any, products: Form = F32) -> Any:
        products = self._form if products == OPERAND else products
        return self._m.rowsum(a, b, products)

    def keep(self, value: Any, **copy: Any) -> Any:
        return Kept(value) if self._form == F32 else self._m.keep(value, **copy)
