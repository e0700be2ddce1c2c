"""The arithmetic that stages are written over: operations by name, each with four interpretations.

A stage is one Python function ``f(m, inputs...)`` over an arithmetic `m`. `exact` gives its float64 value,
`rounded` what a machine that rounds would hold, `bound` the value and how far a correct kernel may lie from
it, per element, and `text` the formula. An operation is one entry of `operations`, with all four; `register`
adds an operation. Operations do not depend on stages.
"""

from __future__ import annotations

from tileproof.spec.arithmetic.forms import (
    BF16,
    BOOL,
    F16,
    F32,
    OPERAND,
    Form,
    Online,
    Polynomial,
    StageValue,
)
from tileproof.spec.arithmetic.operation import (
    Arithmetic,
    Operation,
    UnknownOperation,
    WithOperands,
    register,
    registered,
)
from tileproof.spec.arithmetic.operations import elementwise, functions, products, softmax
from tileproof.spec.arithmetic.reads import (
    AnyTerm,
    AsBF16,
    AsBool,
    AsF16,
    AsF32,
    AsOperand,
    StageResult,
)

# Registered in the order of the page.
for _family in (products, elementwise, functions, softmax):
    for _operation in _family.OPERATIONS:
        register(_operation)

__all__ = [
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "OPERAND",
    "AnyTerm",
    "Arithmetic",
    "AsBF16",
    "AsBool",
    "AsF16",
    "AsF32",
    "AsOperand",
    "Form",
    "Online",
    "Operation",
    "Polynomial",
    "StageResult",
    "StageValue",
    "UnknownOperation",
    "WithOperands",
    "register",
    "registered",
]
