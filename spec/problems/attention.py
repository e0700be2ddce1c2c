"""Stages that all attention backwards share, each written once (`spec.arithmetic`).

A family registers them in its own graph, with its own axes and its own form of operands.
"""

from __future__ import annotations

from tileproof.spec.arithmetic import (
    OPERAND,
    AnyTerm,
    Arithmetic,
    AsBool,
    AsF32,
    AsOperand,
    Polynomial,
    StageResult,
)
from tileproof.spec.numerics import LOG2_E


def log2_e(m: Arithmetic) -> AnyTerm:
    """The constant by which exponents of e become those of 2."""
    return m.constant("log2(e)", LOG2_E)


def as_operand(m: Arithmetic, value: AnyTerm) -> StageResult:
    """A stage's value, and its copy as an operand of the tensor core."""
    return m.keep(value, operand=m.round_to(OPERAND, value))


def as_output(m: Arithmetic, value: AnyTerm) -> StageResult:
    """A stage's value, and its copy as the kernel's output in the form of operands."""
    return m.keep(value, output=m.round_to(OPERAND, value))


def softmax(m: Arithmetic, exponent: AnyTerm, mask: AnyTerm, *by: Polynomial) -> StageResult:
    """``2^exponent``, 0 where `mask` does not hold, and its copy as an operand; `by`: how it is found."""
    return as_operand(m, m.select(mask, m.exp2(exponent, *by)))


def softmax_gradient(m: Arithmetic, S: AnyTerm, dP: AnyTerm, delta: AnyTerm, *factors: AnyTerm) -> AnyTerm:
    """The gradient of the softmax's exponent, times the factors."""
    return m.mul(S, m.sub(dP, m.column(delta)), *factors)


def delta(m: Arithmetic, o: AsOperand, dO: AsOperand) -> AnyTerm:
    return m.rowsum(o, dO)


def P(m: Arithmetic, q: AsOperand, k: AsOperand) -> AnyTerm:
    return m.matmul(q, m.transpose(k))


def S(m: Arithmetic, P: AsF32, lse: AsF32, mask: AsBool, sm_scale: AsF32) -> StageResult:
    exponent = m.sub(m.mul(sm_scale, log2_e(m), P), m.column(lse))  # lse in base 2
    return softmax(m, exponent, mask)


def dP(m: Arithmetic, dO: AsOperand, v: AsOperand) -> AnyTerm:
    return m.matmul(dO, m.transpose(v))


def dS(m: Arithmetic, S: AsF32, dP: AsF32, delta: AsF32, *factors: AsF32) -> StageResult:
    return as_operand(m, softmax_gradient(m, S, dP, delta, *factors))


def dQ(m: Arithmetic, dS: AsOperand, k: AsOperand) -> StageResult:
    return as_output(m, m.matmul(dS, k))
