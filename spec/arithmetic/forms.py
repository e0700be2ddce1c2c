"""How values are stored, what a stage leaves behind, and how a kernel finds a softmax in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import round_bf16, round_f16, round_f32

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

# What a stage's function reads of an input: the annotation of its parameter. The copy is in bf16.
AsF32 = Annotated[Any, F32]
AsBF16 = Annotated[Any, BF16]
AsF16 = Annotated[Any, F16]
AsBool = Annotated[Any, BOOL]
AsOperand = Annotated[Any, OPERAND]


def round_in(form: Form, x: Any) -> F64:
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
class Online:
    """A softmax found in blocks of columns: each new largest element rescales what was summed before.

    `block`: columns of a block, at least; `exp_relative`: by how much a power is off beyond ex2.approx.
    """

    block: int = 32
    exp_relative: float = 0.0

    def blocks(self, columns: int) -> int:
        """Blocks of so many columns."""
        return max(-(-columns // self.block), 1)
