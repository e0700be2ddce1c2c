"""The arithmetic that stages are written over, and what its four interpretations have in common.

A stage is one Python function ``f(m, inputs...)`` over an arithmetic `m`. `exact` gives its float64 value,
`rounded` what a machine that rounds would hold, `bound` the value and how far a correct kernel may lie from
it, per element, and `text` the formula. None of them knows a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar

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


class Arithmetic(Protocol):
    """The operations of stages. Terms are whatever the interpretation computes with, at most 2-D."""

    def matmul(self, a: Any, b: Any) -> Any:
        """``a [m, k] b [k, n]`` in the tensor core, accumulated in f32."""

    def accumulate(self, total: Any, a: Any, b: Any) -> Any:
        """``total + a b`` in the same accumulator; a narrower product adds to total's first columns."""

    def rowsum(self, a: Any, b: Any) -> Any:
        """The sum of ``a b`` over the last axis, in f32 and in any order."""

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

    def keep(self, value: Any, **copy: Any) -> Any:
        """What the stage leaves: `value`, and a rounded copy of it under the name of its use."""

    def scatter_add(self, total: Any, rows: Any, tile: Any) -> Any:
        """Adds each row of `tile` to that row of `total` in global memory, in f32 and in any order."""


class Keeping:
    """`keep`, the same in every interpretation."""

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

    def keep(self, value: Any, **copy: Any) -> Any:
        return Kept(value) if self._form == F32 else self._m.keep(value, **copy)
