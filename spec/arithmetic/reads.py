"""What stages compute with: terms of the arithmetic that evaluates them, and the forms that they read."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import BF16, BOOL, F16, F32, OPERAND, StageValue
from tileproof.spec.arithmetic.formula import Formula
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.arithmetic.terms import Bounded

# Of `exact` and `rounded`; masks; of `bound`, sums of rows among them; of `text`.
AnyTerm = npt.NDArray[np.float64] | npt.NDArray[np.bool_] | Bounded | RowSums | Formula
OwnTerm = Any  # a term of the class of the arithmetic that evaluates a stage
# What a stage's function returns.
StageResult = AnyTerm | StageValue[AnyTerm]

# What a stage's function reads of an input: the annotation of its parameter. The copy is in bf16.
AsF32 = Annotated[AnyTerm, F32]
AsBF16 = Annotated[AnyTerm, BF16]
AsF16 = Annotated[AnyTerm, F16]
AsBool = Annotated[AnyTerm, BOOL]
AsOperand = Annotated[AnyTerm, OPERAND]
