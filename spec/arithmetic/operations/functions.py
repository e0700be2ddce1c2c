"""Functions of one operand: powers, logarithms, roots, tanh and the logistic function.

Each is monotone, so what the operand's error makes of its value is found at the two ends of the operand.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from tileproof.spec.arithmetic.forms import F64, Polynomial
from tileproof.spec.arithmetic.formula import Formula
from tileproof.spec.arithmetic.operation import Arithmetic, Operation
from tileproof.spec.arithmetic.terms import Bounded, either, finish
from tileproof.spec.numerics import (
    DIV_RELATIVE,
    EX2_RELATIVE,
    F32_MIN_NORMAL,
    F32_TINY,
    LG2_ERROR,
    LN_2,
    LOG2_E,
    RSQRT_RELATIVE,
    SQRT_RELATIVE,
    TANH_RELATIVE,
    U_F32,
    U_F64,
    gamma,
    power_of_two,
    round_f32,
)


class Exp2(Operation):
    """``2^a`` by ex2.approx.ftz.f32, or by a polynomial that the stage names."""

    name = "exp2"
    error = (
        "2^a (2^(e_a + F32_MIN_NORMAL) - 1 and EX2_RELATIVE) + F32_MIN_NORMAL; of a polynomial "
        "`Polynomial.relative` in the place of EX2_RELATIVE, and U_F32 added to e_a"
    )
    source = "PTX ISA 9.7.3.21: at most 2 ulp; .ftz"

    def exact(self, m: Arithmetic, a: F64, by: Polynomial | None = None) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.exp2(a))

    def rounded(self, m: Arithmetic, a: F64, by: Polynomial | None = None) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            power = round_f32(np.exp2(a) if by is None else by.value(a))
        return np.where(power < F32_MIN_NORMAL, 0.0, power)

    def bound(self, m: Arithmetic, a: Bounded, by: Polynomial | None = None) -> Bounded:
        relative, reduced = (EX2_RELATIVE, 0.0) if by is None else (by.relative, U_F32)
        with np.errstate(invalid="ignore", over="ignore"):
            value = np.exp2(a.value)
            spread = np.expm1((a.error + reduced + F32_MIN_NORMAL) * math.log(2.0))
            error = value * (spread * (1 + relative) + relative + 4 * U_F64) + F32_MIN_NORMAL
            return Bounded(value, finish(error, value + error), a.may_be_nan)

    def text(self, m: Arithmetic, a: Formula, by: Polynomial | None = None) -> Formula:
        m.operations.append("exp2")
        how = f"ex2.approx.ftz.f32: relative {power_of_two(EX2_RELATIVE)}"
        if by is not None:
            how = f"2^x by a polynomial of degree {by.degree} on [{by.low:g}, {by.high:g}]"
            how += f": relative {by.relative:.3g}"
        m.roundings.append(f"{how}, results below 2^-126 to zero")
        return Formula(f"exp2({a.plain})", f"2^{{{a.latex}}}", a.axes)


class _Function(Operation):
    """A monotone function whose machine value is off by `off` of the value's size."""

    latex: ClassVar[str]
    rounding: ClassVar[str]
    lowest: ClassVar[float] = -np.inf  # below it the value is NaN

    def value(self, x: F64) -> F64:
        """Float64, within 4 roundings."""
        raise NotImplementedError

    def off(self, size: F64, a: Bounded) -> F64:
        """How far the machine's value of an operand within the error of `a` may be from the function's."""
        raise NotImplementedError

    def exact(self, m: Arithmetic, a: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return np.asarray(self.value(a))

    def rounded(self, m: Arithmetic, a: F64) -> F64:
        return round_f32(self.exact(m, a))

    def bound(self, m: Arithmetic, a: Bounded) -> Bounded:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = self.exact(m, a.value)
            spread: float | F64 = 0.0
            least = a.value
            if not a.exact:
                reach = np.where(a.errors > 0, a.errors + 2 * U_F64 * a.magnitude_bound, 0.0)
                least = np.asarray(a.value - a.errors)
                low = np.where(least < self.lowest, least, np.maximum(a.value - reach, self.lowest))
                ends = (self.exact(m, end) for end in (low, a.value + reach))
                spread = np.maximum(*(np.abs(end - value) for end in ends))
                spread = np.where(reach > 0, spread + 8 * U_F64 * np.abs(value), 0.0)
            size = np.abs(value) + spread
            error = np.asarray(spread + self.off(size, a) + 4 * U_F64 * size + F32_TINY)
            error = np.where((a.magnitude_bound == 0) & (value == 0), 0.0, error)
            below = least < self.lowest
            may_be_nan = either(a.may_be_nan, below if below.any() else None)
            error = error if may_be_nan is None else np.where(may_be_nan, np.inf, error)
            return Bounded(value, finish(error, size + error), may_be_nan)

    def text(self, m: Arithmetic, a: Formula) -> Formula:
        m.operations.append(self.name)
        m.roundings.append(self.rounding)
        return Formula(f"{self.name}({a.plain})", self.latex.replace("a", a.latex), a.axes)


class Log2(_Function):
    """``log2(a)`` by lg2.approx.f32."""

    name = "log2"
    error = "spread + LG2_ERROR max(1, |log2 a| + spread); +inf where a may be 0 or less"
    source = "PTX ISA 9.7.3.20: absolute 2^-22 in (0.5, 2), relative 2^-22 elsewhere"
    latex, rounding, lowest = (
        r"\log_2(a)",
        f"lg2.approx.f32: {power_of_two(LG2_ERROR)}, relative outside of (0.5, 2)",
        0.0,
    )

    def value(self, x: F64) -> F64:
        return np.log2(x)

    def off(self, size: F64, a: Bounded) -> F64:
        return LG2_ERROR * np.maximum(1.0, size)


class NaturalLog(_Function):
    """``log(a)``, natural, by lg2.approx.f32 times ln(2); logf is inside the bound."""

    name = "log"
    error = "spread + off + gamma(2, u) (|log a| + spread + off), off = LG2_ERROR max(ln 2, |log a| + spread)"
    source = "PTX ISA 9.7.3.20 and `U_F32` above"
    latex, lowest = r"\ln(a)", 0.0
    rounding = (
        f"lg2.approx.f32 ({power_of_two(LG2_ERROR)}, relative outside of (0.5, 2)) times ln(2) in f32, "
        "product to f32"
    )

    def value(self, x: F64) -> F64:
        return np.log(x)

    def off(self, size: F64, a: Bounded) -> F64:
        approximate = LG2_ERROR * np.maximum(LN_2, size)
        return approximate + gamma(2, U_F32) * (size + approximate)


class Sqrt(_Function):
    """``sqrt(a)`` by sqrt.rn.f32 (the machine value) or sqrt.approx.f32."""

    name = "sqrt"
    error = "spread + SQRT_RELATIVE (sqrt(a) + spread); +inf where a may be negative"
    source = "PTX ISA 9.7.3.14: relative 2^-23 for .approx"
    latex, rounding, lowest = r"\sqrt{a}", f"square root to f32: relative {power_of_two(SQRT_RELATIVE)}", 0.0

    def value(self, x: F64) -> F64:
        return np.sqrt(x)

    def off(self, size: F64, a: Bounded) -> F64:
        return SQRT_RELATIVE * size


class Rsqrt(_Function):
    """``1 / sqrt(a)`` by rsqrt.approx.f32; 1 / sqrt(a) by sqrt.rn and div.rn is inside the bound."""

    name = "rsqrt"
    error = "spread + RSQRT_RELATIVE (a^(-1/2) + spread); +inf where a may be 0 or less"
    source = "PTX ISA 9.7.3.16: relative 2^-22.9"
    latex, rounding, lowest = (
        r"{\left(a\right)}^{-1/2}",
        f"rsqrt.approx.f32: relative {power_of_two(RSQRT_RELATIVE)}",
        0.0,
    )

    def value(self, x: F64) -> F64:
        return 1.0 / np.sqrt(x)

    def off(self, size: F64, a: Bounded) -> F64:
        return RSQRT_RELATIVE * size


class Tanh(_Function):
    """``tanh(a)`` by tanh.approx.f32."""

    name = "tanh"
    error = "spread + TANH_RELATIVE (|tanh a| + spread)"
    source = "PTX ISA 9.7.3.22: relative 2^-11"
    latex, rounding = r"\tanh(a)", f"tanh.approx.f32: relative {power_of_two(TANH_RELATIVE)}"

    def value(self, x: F64) -> F64:
        return np.tanh(x)

    def off(self, size: F64, a: Bounded) -> F64:
        return TANH_RELATIVE * size


class Sigmoid(_Function):
    """``1 / (1 + 2^(-a log2(e)))`` by ex2.approx.ftz.f32, an addition and a division in f32.

    With E the power, off by the factor 1 + r, |r| <= R: 1 / (1 + E (1 + r)) is off by c R / (1 - c R) of the
    value s, c = 1 - s. R has the two roundings of the exponent. Where the power overflows the machine gives
    0, and div.approx gives 0 for divisors beyond 2^126: 2^-126 covers both.
    """

    name = "sigmoid"
    error = "spread + s (c R / (1 - c R), u and DIV_RELATIVE) + 2^-126; R: that of exp2(-a log2(e))"
    source = "PTX ISA 9.7.3.21, 9.7.3.8; `U_F32` above"
    latex = r"\sigma(a)"
    rounding = "1 / (1 + exp2(-a log2(e))): product and sum to f32, ex2.approx.ftz.f32, quotient within 2 ulp"

    def value(self, x: F64) -> F64:
        small = np.exp(-np.abs(x))
        return np.where(np.asarray(x) >= 0, 1.0, small) / (1.0 + small)

    def rounded(self, m: Arithmetic, a: F64) -> F64:
        power = m.exp2(m.neg(m.mul(a, m.constant("log2(e)", LOG2_E))))
        unit = m.constant("1", 1.0)
        return np.asarray(m.div(unit, m.add(unit, power)))

    def off(self, size: F64, a: Bounded) -> F64:
        # Beyond 2^160 and 2^-160 the machine has 0 and 1 whatever the exponent's roundings are.
        exponent = np.minimum(a.magnitude_bound * LOG2_E, 160.0)
        power = np.expm1((gamma(2, U_F32) * exponent + F32_MIN_NORMAL) * LN_2)
        power = power * (1 + EX2_RELATIVE) + EX2_RELATIVE
        with np.errstate(over="ignore", invalid="ignore"):
            rest = np.clip(1.0 - self.value(a.value - a.error), 0.0, 1.0)
        relative = rest * power / (1.0 - rest * power)
        return size * (relative + (1 + relative) * (U_F32 + DIV_RELATIVE) * (1 + U_F32)) + F32_MIN_NORMAL


OPERATIONS: tuple[Operation, ...] = (Exp2(), Log2(), NaturalLog(), Sqrt(), Rsqrt(), Tanh(), Sigmoid())
