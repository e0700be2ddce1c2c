"""Operations per element or row: products, sums, quotients, minimum and maximum, masks, forms, order."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import F32, F64, Form, round_in
from tileproof.spec.arithmetic.formula import ATOM, PRODUCT, SUM, Formula, shared_axes, wrap
from tileproof.spec.arithmetic.operation import Arithmetic, Operation
from tileproof.spec.arithmetic.terms import Bounded, Mask, RoundedTerm, TermView, either, finish, over
from tileproof.spec.numerics import DIV_RELATIVE, F32_TINY, U_F32, U_F64, gamma, round_f32

Bools = npt.NDArray[np.bool_]


def _power_of_two(term: Bounded) -> bool:
    """Whether the term is one number, known exactly, that is a power of two."""
    return term.value.ndim == 0 and term.exact and abs(np.frexp(term.value)[0]) == 0.5


class Mul(Operation):
    """The product of the factors in f32, multiplied in any order."""

    name = "mul"
    error = "prod(M) - |a b c| + gamma(roundings, u + w) prod(M) + what may underflow on the way"
    source = "`U_F32` above; a power of two multiplies exactly"

    def exact(self, m: Arithmetic, *factors: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            product = factors[0]
            for factor in factors[1:]:
                product = product * factor
            return np.asarray(product)

    def rounded(self, m: Arithmetic, *factors: F64) -> F64:
        product = factors[0]
        with np.errstate(over="ignore", invalid="ignore"):
            for factor in factors[1:]:
                product = round_f32(product * factor)
        return np.asarray(product)

    def bound(self, m: Arithmetic, *factors: Bounded) -> Bounded:
        value, count = factors[0].value, len(factors)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            carried: F64 | float = factors[0].error
            magnitude: F64 = factors[0].magnitude_bound
            for factor in factors[1:]:
                carried = carried * factor.magnitude_bound + np.abs(value) * factor.error
                value, magnitude = value * factor.value, magnitude * factor.magnitude_bound
            # A power of two multiplies without rounding.
            rounding = count - 1 - min(sum(map(_power_of_two, factors)), count - 1)
            rounded = gamma(rounding, U_F32) + gamma(2 * rounding, U_F64)
            # A partial product that underflows loses 2^-149 times the factors that follow.
            follow: F64 | float = 1.0
            if count > 2:
                largest = [
                    np.maximum(factor.magnitude_bound, 1.0) if count > 3 else factor.magnitude_bound
                    for factor in factors
                ]
                follow = 1.0 + (count - 2) * over(np.multiply if count > 3 else np.maximum, largest)
            error = carried + rounded * magnitude + F32_TINY * follow
            partial = magnitude
            for number in range(1, count):
                for some in combinations(factors, number):
                    partial = np.maximum(
                        partial, over(np.multiply, [factor.magnitude_bound for factor in some])
                    )
            error = np.where(magnitude == 0, 0.0, error)
            error = finish(error, partial * (1 + gamma(count, U_F32)))
        may_be_nan = either(*(None if factor.may_be_nan is None else factor.may_be_nan for factor in factors))
        if np.isinf(error).any():
            whole = np.isinf(error)
            zero = [np.broadcast_to(np.abs(factor.value) <= factor.error, whole.shape) for factor in factors]
            may_be_nan = either(may_be_nan, whole & np.logical_or.reduce(zero))
        return Bounded(value, error, may_be_nan)

    def text(self, m: Arithmetic, *factors: Formula) -> Formula:
        m.operations.append("mul")
        some = "product" if len(factors) == 2 else "products, in any order,"
        m.roundings.append(f"{some} to f32")
        shown = [wrap(factor, PRODUCT) for factor in factors]
        return Formula(
            " * ".join(plain for plain, _ in shown),
            r" \cdot ".join(latex for _, latex in shown),
            shared_axes(*factors),
            PRODUCT,
        )


class Add(Operation):
    """``a + b`` in f32."""

    name = "add"
    error = "e_a + e_b + (u + w) M"
    source = "`U_F32` above; x + 0 is x"
    sign, word = "+", "sum"

    def _of(self, a: F64, b: F64) -> F64:
        return np.asarray(a + b)

    def exact(self, m: Arithmetic, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._of(a, b)

    def rounded(self, m: Arithmetic, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore"):
            return round_f32(self._of(a, b))

    def bound(self, m: Arithmetic, a: Bounded, b: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            value = self._of(a.value, b.value)
            carried = a.error + b.error
            size = np.abs(value) + carried
            rounded = (U_F32 + U_F64) * size
            if not (a.magnitude_bound.all() and b.magnitude_bound.all()):
                rounded = np.where(
                    (a.magnitude_bound == 0) | (b.magnitude_bound == 0), 0.0, rounded
                )  # x + 0 is x
            error = finish(carried + rounded, size * (1 + U_F32))
            may_be_nan = either(a.may_be_nan, b.may_be_nan)
            if np.isinf(error).any():
                both = [np.isinf(operand.value) | np.isinf(operand.errors) for operand in (a, b)]
                may_be_nan = either(may_be_nan, both[0] & both[1])
            return Bounded(value, error, may_be_nan)

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        m.operations.append(self.word)
        m.roundings.append(f"{self.word} to f32 (one rounding with a product, if fused)")
        right = wrap(b, PRODUCT)
        plain, latex = f"{a.plain} {self.sign} {right[0]}", f"{a.latex} {self.sign} {right[1]}"
        return Formula(plain, latex, shared_axes(a, b), SUM)


class Sub(Add):
    """``a - b`` in f32."""

    name = "sub"
    sign, word = "-", "difference"

    def _of(self, a: F64, b: F64) -> F64:
        return np.asarray(a - b)


class Neg(Operation):
    """``-a``, exactly."""

    name = "neg"

    def exact(self, m: Arithmetic, a: F64) -> F64:
        return np.asarray(-a)

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded) -> Bounded:
        return Bounded(-a.value, a.error, a.may_be_nan)

    def text(self, m: Arithmetic, a: Formula) -> Formula:
        plain, latex = wrap(a, PRODUCT)
        return Formula(f"-{plain}", f"-{latex}", a.axes, SUM)


class Div(Operation):
    """``a / b`` by div.rn.f32 (the machine value), div.full.f32 or div.approx.f32 (|b| up to 2^126)."""

    name = "div"
    error = "(e_a + |a / b| e_b) / (|b| - e_b), then DIV_RELATIVE M + 2^-149; +inf where b may be 0"
    source = "PTX ISA 9.7.3.8: at most 2 ulp for .full and .approx"

    def exact(self, m: Arithmetic, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return np.asarray(a / b)

    def rounded(self, m: Arithmetic, a: F64, b: F64) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return round_f32(a / b)

    def bound(self, m: Arithmetic, a: Bounded, b: Bounded) -> Bounded:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = np.asarray(a.value / b.value)
            least = np.abs(b.value) - b.error
            carried = (a.error + np.abs(value) * b.error) / least * (1 + 8 * U_F64)
            magnitude = np.abs(value) + carried
            error = carried + (DIV_RELATIVE + 4 * U_F64) * magnitude + F32_TINY
            reaches_zero = least <= 0
            error = np.where((a.magnitude_bound == 0) & ~reaches_zero, 0.0, error)  # 0 / b is 0
            error = finish(np.where(reaches_zero, np.inf, error), magnitude * (1 + DIV_RELATIVE))
            # 0 / 0 and inf / inf
            zero = reaches_zero & (np.abs(a.value) <= a.error)
            wide = [np.isinf(operand.value) | np.isinf(operand.errors) for operand in (a, b)]
            may_be_nan = either(a.may_be_nan, b.may_be_nan, zero | (wide[0] & wide[1]))
            # Where an operand may be NaN no finite bound holds.
            error = error if may_be_nan is None else np.where(may_be_nan, np.inf, error)
            return Bounded(value, error, may_be_nan if may_be_nan is not None and may_be_nan.any() else None)

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        m.operations.append("div")
        m.roundings.append("quotient to f32, at most 2 ulp off")
        left, right = wrap(a, PRODUCT), wrap(b, ATOM)
        return Formula(
            f"{left[0]} / {right[0]}", rf"\frac{{{a.latex}}}{{{b.latex}}}", shared_axes(a, b), PRODUCT
        )


class Max(Operation):
    """The largest of the operands, by max.f32: of a NaN and a number, the number."""

    name = "max"
    error = "how far the largest moves while the operands move within their errors"
    source = "PTX ISA 9.7.3.12; no rounding"
    largest: np.ufunc = np.fmax

    def exact(self, m: Arithmetic, *terms: F64) -> F64:
        return np.asarray(over(self.largest, list(terms)))

    rounded = exact

    def bound(self, m: Arithmetic, *terms: Bounded) -> Bounded:
        value = over(self.largest, [term.value for term in terms])
        if all(term.exact and term.may_be_nan is None for term in terms):
            return Bounded(value)
        with np.errstate(invalid="ignore"):
            ends = (
                over(self.largest, [term.value + sign * term.error for term in terms]) for sign in (-1, 1)
            )
            error = over(np.maximum, [np.abs(end - value) for end in ends])
            error = np.where(error > 0, error * (1 + 2 * U_F64) + 2 * U_F64 * np.abs(value), error)
        return Bounded(
            value, np.where(np.isfinite(error), error, np.inf), either(*(x.may_be_nan for x in terms))
        )

    def text(self, m: Arithmetic, *terms: Formula) -> Formula:
        m.operations.append(self.name)
        plain = f"{self.name}({', '.join(term.plain for term in terms)})"
        return Formula(
            plain, rf"\{self.name}({', '.join(term.latex for term in terms)})", shared_axes(*terms)
        )


class Min(Max):
    """The least of the operands, by min.f32: of a NaN and a number, the number."""

    name = "min"
    error = "how far the least moves while the operands move within their errors"
    source = "PTX ISA 9.7.3.11; no rounding"
    largest = np.fmin


class MaxOfRows(Operation):
    """The largest element of each row, -inf of none."""

    name = "rowmax"
    error = "how far the largest moves while the elements move within their errors"
    source = "PTX ISA 9.7.3.12; no rounding"

    def exact(self, m: Arithmetic, a: F64) -> F64:
        return np.asarray(np.fmax.reduce(a, axis=-1, initial=-np.inf))

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded) -> Bounded:
        value = self.exact(m, a.value)
        if a.exact and a.may_be_nan is None:
            return Bounded(value)
        with np.errstate(invalid="ignore"):
            ends = (self.exact(m, a.value + sign * a.errors) for sign in (-1, 1))
            error = over(np.maximum, [np.abs(end - value) for end in ends])
            error = np.where(error > 0, error * (1 + 2 * U_F64) + 2 * U_F64 * np.abs(value), error)
            error = np.where(np.isfinite(error), error, np.inf)
        return Bounded(value, error, None if a.may_be_nan is None else np.asarray(a.may_be_nan.any(axis=-1)))

    def text(self, m: Arithmetic, a: Formula) -> Formula:
        m.operations.append("rowmax")
        return Formula(f"rowmax({a.plain})", rf"\operatorname{{rowmax}}({a.latex})", a.axes[:-1])


class Select(Operation):
    """``a`` where `mask` holds, `other` (0) where it does not."""

    name = "select"
    error = "that of what is selected"

    def exact(self, m: Arithmetic, mask: Bools, a: F64, other: F64 | float = 0.0) -> F64:
        return np.where(mask, a, other)

    rounded = exact

    def bound(self, m: Arithmetic, mask: Mask, a: Bounded, other: Bounded | None = None) -> Bounded:
        if other is None:
            may_be_nan = None if a.may_be_nan is None else a.may_be_nan & mask
            return Bounded(np.where(mask, a.value, 0.0), np.where(mask, a.error, 0.0), may_be_nan)
        may_be_nan = either(
            None if a.may_be_nan is None else a.may_be_nan & mask,
            None if other.may_be_nan is None else other.may_be_nan & ~mask,
        )
        value = np.where(mask, a.value, other.value)
        return Bounded(value, np.where(mask, a.error, other.error), may_be_nan)

    def text(self, m: Arithmetic, mask: Formula, a: Formula, other: Formula | None = None) -> Formula:
        m.operations.append("select")
        plain, latex = ("0", "0") if other is None else (other.plain, other.latex)
        return Formula(
            f"{a.plain}, {plain} where not {mask.plain}",
            rf"{a.latex} \ [{latex}\text{{ where not }} {mask.latex}]"
            if other is not None
            else rf"{a.latex} \ [\text{{0 where not }} {mask.latex}]",
            a.axes if other is None else shared_axes(a, other, mask),
            SUM,
        )


class NamedConstant(Operation):
    """A number that the kernel holds in f32."""

    name = "constant"
    error = "how far the nearest f32 is"
    source = "the constant itself"

    def exact(self, m: Arithmetic, name: str, value: float) -> F64:
        return np.asarray(value, np.float64)

    def rounded(self, m: Arithmetic, name: str, value: float) -> F64:
        return np.asarray(np.float32(value), np.float64)

    def bound(self, m: Arithmetic, name: str, value: float) -> Bounded:
        return Bounded(np.asarray(value, np.float64), abs(float(np.float32(value)) - value))

    def text(self, m: Arithmetic, name: str, value: float) -> Formula:
        if value != float(np.float32(value)):
            m.roundings.append(f"{name} to f32")
        return Formula(name, name.replace("log2(e)", r"\log_2 e"))


class RoundTo(Operation):
    """``a`` rounded to nearest even in a form; in f32 it is what it was."""

    name = "round_to"
    error = "e_a + U_form (|a| + e_a) + half of the least subnormal"
    source = "`U_BF16`, `U_F32` above"

    def exact(self, m: Arithmetic, form: Form, a: F64) -> F64:
        return a

    def rounded(self, m: Arithmetic, form: Form, a: F64) -> F64:
        return a if form == F32 else round_in(form, a)

    def bound(self, m: Arithmetic, form: Form, a: Bounded) -> Bounded:
        return a if form == F32 else RoundedTerm(form, a)

    def text(self, m: Arithmetic, form: Form, a: Formula) -> Formula:
        if form != F32:
            m.roundings.append(f"{form.name}, to nearest even")
            m.narrow = form.name
        return a


class Transpose(Operation):
    """``a [m, n]`` as [n, m]."""

    name = "transpose"

    def exact(self, m: Arithmetic, a: F64) -> F64:
        return a.T

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded) -> Bounded:
        return TermView(a, lambda x: x.T)

    def text(self, m: Arithmetic, a: Formula) -> Formula:
        plain, latex = wrap(a, ATOM)
        return Formula(f"{plain}^T", rf"{latex}^{{\mathsf T}}", a.axes[::-1])


class Column(Operation):
    """``a [m]`` as [m, 1], one value for each row."""

    name = "column"

    def exact(self, m: Arithmetic, a: F64) -> F64:
        return np.asarray(a)[:, None]

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded) -> Bounded:
        return TermView(a, lambda x: x[:, None])

    def text(self, m: Arithmetic, a: Formula) -> Formula:
        return Formula(a.plain, a.latex, (*a.axes, ""), a.binds)


OPERATIONS: tuple[Operation, ...] = (
    Mul(),
    Add(),
    Sub(),
    Neg(),
    Div(),
    Max(),
    Min(),
    MaxOfRows(),
    Select(),
    NamedConstant(),
    RoundTo(),
    Transpose(),
    Column(),
)
