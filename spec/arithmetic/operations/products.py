"""Sums of products: in the tensor core, along rows and columns, in steps, and added to rows in memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import F32, F64, Form, round_in
from tileproof.spec.arithmetic.formula import PRODUCT, SUM, Formula, latex_axis, side_by_side, wrap
from tileproof.spec.arithmetic.operation import Arithmetic, Operation, Option
from tileproof.spec.arithmetic.reads import AnyTerm, OwnTerm
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.arithmetic.terms import Bounded, Mask, Partial, Sum, either
from tileproof.spec.machine import tensor_core
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import F32_TINY, U_F32, U_F32_RZ, round_f32


class Composed(Operation):
    """An operation made of others: `of` is its value over any arithmetic."""

    def of(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        raise NotImplementedError

    def exact(self, m: Arithmetic, *operands: OwnTerm, **options: Option) -> AnyTerm:
        return self.of(m, *operands, **options)

    rounded = bound = text = exact


def _product_may_be_nan(a: Bounded, b: Bounded, shape: tuple[int, ...]) -> Mask | None:
    """Where an infinite element of an operand reaches: the rows of a, the columns of b."""
    if a.infinite is None and b.infinite is None:
        return None
    may_be_nan = np.zeros(shape, bool)
    if a.infinite is not None:
        may_be_nan |= np.asarray(a.infinite.any(axis=1))[:, None]
    if b.infinite is not None:
        may_be_nan |= np.asarray(b.infinite.any(axis=0))[None, :]
    return may_be_nan


RUNS = 8  # of the terms of a sum, for the size of its partial sums
SAMPLE = 16  # elements whose terms are looked at one by one


def _runs(count: int) -> list[slice]:
    ends = np.linspace(0, count, RUNS + 1).astype(int)
    return [slice(first, last) for first, last in pairwise(ends.tolist())]


def _partial(a: F64, b: F64) -> Partial:
    with np.errstate(invalid="ignore", over="ignore"):
        runs = sum(np.abs(a[:, run] @ b[run]) for run in _runs(a.shape[1]))
        rows, columns = (np.linspace(0, size - 1, SAMPLE).astype(int) for size in (a.shape[0], b.shape[1]))
        return Partial(np.asarray(runs), (a * a) @ (b * b), lambda: a[rows] * b[:, columns].T)


def _partial_of_rows(each: F64) -> Partial:
    with np.errstate(invalid="ignore", over="ignore"):
        runs = sum(np.abs(each[..., run].sum(axis=-1)) for run in _runs(each.shape[-1]))
        rows = np.linspace(0, each.shape[0] - 1, SAMPLE).astype(int)
        return Partial(np.asarray(runs), np.asarray((each * each).sum(axis=-1)), lambda: each[rows])


def _in_print(m: Arithmetic, a: Formula, b: Formula, more: str = "") -> None:
    if a.axes[-1:] != b.axes[-2:-1]:
        raise TileproofError(
            "the axes of a product do not meet",
            where=f"{a.plain} times {b.plain}",
            expected=str(a.axes),
            found=str(b.axes),
        )
    m.roundings.append(
        f"f32 accumulation of {a.axes[-1]} exact products in the tensor core{more}, toward zero, any order"
    )


class MatMul(Operation):
    """``a [m, k] b [k, n]`` in the tensor core, accumulated in f32."""

    name = "matmul"
    error = "e_a |b| + |a| e_b + e_a e_b + (gamma(n, U_F32_RZ) + gamma(n, w)) sum(M_a M_b) + n 2^-149"
    source = "`U_F32_RZ`, `gamma` above"

    def exact(self, m: Arithmetic, a: F64, b: F64) -> F64:
        return np.asarray(a @ b)

    def rounded(self, m: Arithmetic, a: F64, b: F64) -> F64:
        return m.accumulate(np.zeros((a.shape[0], b.shape[1])), a, b)

    def bound(self, m: Arithmetic, a: Bounded, b: Bounded) -> Sum:
        with np.errstate(invalid="ignore", over="ignore"):
            value = a.value @ b.value
            shape = value.shape
            magnitude = a.aligned @ b.aligned
            carried: F64 | float = 0.0
            if not a.exact:
                carried = carried + a.errors @ b.magnitude_bound
            if not b.exact:
                carried = carried + np.abs(a.value) @ b.errors
            if not isinstance(carried, float) and carried.size and np.isnan(carried.min()):
                carried = np.where(np.isnan(carried), np.inf, carried)
        terms = np.full(shape[1], float(a.value.shape[1]))
        may_be_nan = _product_may_be_nan(a, b, shape)

        def unit() -> F64:
            if not a.value.shape[1]:
                return np.full(shape, np.inf)
            return np.asarray(np.multiply.outer(a.least_grain(1), b.least_grain(0)))

        return Sum(
            value,
            magnitude,
            unit,
            terms,
            carried,
            may_be_nan,
            U_F32_RZ,
            (lambda: _partial(a.value, b.value),),
        )

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        m.operations.append("matmul")
        _in_print(m, a, b)
        return side_by_side(a, b)


class Accumulate(Operation):
    """``total + a b`` in the same accumulator; a narrower product adds to total's first columns."""

    name = "accumulate"
    error = "that of matmul, over the terms of both products"
    source = "`U_F32_RZ`, `gamma` above"

    def exact(self, m: Arithmetic, total: F64, a: F64, b: F64) -> F64:
        product = a @ b
        if product.shape == np.shape(total):
            return np.asarray(total + product)
        result = np.array(total)
        result[:, : product.shape[1]] += product
        return result

    def rounded(self, m: Arithmetic, total: F64, a: F64, b: F64) -> F64:
        width = b.shape[1]
        start = np.asarray(total)[:, :width].astype(np.float32)
        if m.mma == "tensor-core":
            sums = tensor_core.matmul(a, np.ascontiguousarray(b.T), start)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                product = np.ascontiguousarray(a, np.float32) @ np.ascontiguousarray(b, np.float32)
                sums = start + product
        result = np.array(total, np.float64)
        result[:, :width] = sums
        return result

    def bound(self, m: Arithmetic, total: Sum, a: Bounded, b: Bounded) -> Sum:
        more: Sum = m.matmul(a, b)
        width = more.value.shape[1]

        def joined(left: F64, right: F64, how: np.ufunc) -> F64:
            result = left.copy()
            how(result[..., :width], right, out=result[..., :width])
            return result

        carried: F64 | float = total.carried
        if not isinstance(more.carried, float):
            whole = np.zeros(total.value.shape) + carried
            carried = joined(whole, more.carried, np.add)
        may_be_nan: Mask | None = total.may_be_nan
        if more.may_be_nan is not None:
            wide = np.zeros(total.value.shape, dtype=np.bool_)
            wide[:, :width] = more.may_be_nan
            may_be_nan = either(may_be_nan, wide)
        with np.errstate(invalid="ignore", over="ignore"):
            return Sum(
                joined(total.value, more.value, np.add),
                joined(total.magnitude, more.magnitude, np.add),
                lambda: joined(total.unit, more.unit, np.minimum),
                joined(total.terms, more.terms, np.add),
                carried,
                may_be_nan,
                total.u,
                total.sources + more.sources,
            )

    def text(self, m: Arithmetic, total: Formula, a: Formula, b: Formula) -> Formula:
        m.operations.append("accumulate")
        _in_print(m, a, b, " in the same accumulator")
        product = side_by_side(a, b)
        where = "" if product.axes == total.axes else f" in the first {product.axes[1]} columns"
        latex = "" if not where else rf"\ [\text{{first }} {latex_axis(product.axes[1])} \text{{ columns}}]"
        return Formula(
            f"{total.plain} + {product.plain}{where}",
            f"{total.latex} + {product.latex}{latex}",
            total.axes,
            SUM,
        )


class SumOfRows(Operation):
    """The sum of ``a b`` (or of ``a``) over the last axis, in f32, any order; products in the form given."""

    name = "rowsum"
    error = "that of matmul with U_F32; of products that were rounded, theirs with a factor of 1"
    source = "`U_F32`, `gamma` above"

    def exact(self, m: Arithmetic, a: F64, b: F64 | None = None, products: Form = F32) -> F64:
        return np.asarray(a.sum(axis=-1) if b is None else np.einsum("...d,...d->...", a, b))

    def rounded(self, m: Arithmetic, a: F64, b: F64 | None = None, products: Form = F32) -> F64:
        total = np.zeros(a.shape[:-1], np.float32)
        for column in range(a.shape[-1]):
            product = a[..., column] if b is None else a[..., column] * b[..., column]
            product = product if products == F32 else round_in(products, product)
            total = total + product.astype(np.float32)
        return total.astype(np.float64)

    def bound(self, m: Arithmetic, a: Bounded, b: Bounded | None = None, products: Form = F32) -> Sum:
        b = Bounded(np.ones(a.value.shape)) if b is None else b
        if products != F32:  # of exact operands the product is exact in f64
            with np.errstate(invalid="ignore", over="ignore"):
                value = a.value * b.value
                error = (
                    0.0
                    if a.exact and b.exact
                    else a.magnitude_bound * b.magnitude_bound - np.abs(value) + F32_TINY
                )
            rounded = m.round_to(products, Bounded(value, error, either(a.may_be_nan, b.may_be_nan)))
            return self.bound(m, rounded)
        with np.errstate(invalid="ignore", over="ignore"):
            each = a.value * b.value
            magnitude = (a.magnitude_bound * b.magnitude_bound).sum(axis=-1)
            unit = a.least_grain(-1) * b.least_grain(-1)
            carried: F64 | float = 0.0
            if not (a.exact and b.exact):
                carried = magnitude - np.abs(each).sum(axis=-1) + F32_TINY
            infinite = either(a.infinite, b.infinite)
            may_be_nan = None
            if infinite is not None:
                may_be_nan = np.asarray(np.broadcast_to(infinite, each.shape).any(axis=-1))
            terms = np.full(1, float(each.shape[-1]))
            return Sum(
                each.sum(axis=-1), magnitude, unit, terms, carried, may_be_nan, U_F32,
                (lambda: _partial_of_rows(each),),
            )  # fmt: skip

    def text(self, m: Arithmetic, a: Formula, b: Formula | None = None, products: Form = F32) -> Formula:
        m.operations.append("rowsum")
        what = "exact products" if products == F32 else f"products rounded to {products.name}"
        what = "terms" if b is None else what
        m.roundings.append(f"f32 accumulation of {a.axes[-1]} {what}, to nearest, any order")
        if b is None:
            return Formula(f"rowsum({a.plain})", rf"\operatorname{{rowsum}}({a.latex})", a.axes[:-1])
        inner = f"{wrap(a, PRODUCT)[0]} * {wrap(b, PRODUCT)[0]}"
        latex = rf"\operatorname{{rowsum}}({wrap(a, PRODUCT)[1]} \odot {wrap(b, PRODUCT)[1]})"
        return Formula(f"rowsum({inner})", latex, a.axes[:-1])


class SumOfColumns(Composed):
    """The sum of ``a b`` over the first axis, in f32 and in any order."""

    name = "colsum"
    error = "that of rowsum"
    source = "`U_F32`, `gamma` above"

    def of(self, m: Arithmetic, a: AnyTerm, b: AnyTerm) -> AnyTerm:
        return m.rowsum(m.transpose(a), m.transpose(b))

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        m.operations.append("rowsum")
        axis = a.axes[0]
        m.roundings.append(f"f32 accumulation of {axis} products, to nearest, any order")
        (left, left_latex), (right, right_latex) = wrap(a, PRODUCT), wrap(b, PRODUCT)
        return Formula(
            f"sum over {axis} of {left} * {right}",
            rf"\sum_{{{latex_axis(axis)}}} {left_latex} \cdot {right_latex}",
            a.axes[1:],
            PRODUCT,
        )


class MatMulInSteps(Composed):
    """``a b``, times the factors, in an accumulator that is rounded to a form after each step.

    `steps` numbers the step of each element of the summed axis. `apart`: each step's own sum is rounded, and
    they are added in f32.
    """

    name = "matmul_in_steps"
    error = "that of matmul for each step, of mul, add and round to between"

    def of(
        self,
        m: Arithmetic,
        a: AnyTerm,
        b: AnyTerm,
        steps: F64 | Bounded,
        form: Form,
        *factors: AnyTerm,
        apart: bool = False,
    ) -> AnyTerm:
        total: OwnTerm = None
        number = steps.value if isinstance(steps, Bounded) else steps
        ends = [i for i in range(1, len(number)) if number[i] != number[i - 1]]
        for first, last in pairwise([0, *ends, len(number)]):
            step = slice(first, last)
            part = m.matmul(m.part(a, (slice(None), step)), m.part(b, (step, slice(None))))
            part = m.mul(*factors, part) if factors else part
            part = m.round_to(form, part) if apart else part
            total = part if total is None else m.add(total, part)
            total = total if apart else m.round_to(form, total)
        return total

    def text(
        self,
        m: Arithmetic,
        a: Formula,
        b: Formula,
        steps: Formula,
        form: Form,
        *factors: Formula,
        apart: bool = False,
    ) -> Formula:
        product: Formula = m.matmul(a, b)
        product = m.mul(*factors, product) if factors else product
        if form != F32:
            what = "each step's sum" if apart else "the accumulator after each step"
            m.roundings.append(f"{what} to {form.name}")
        return product


class MatMulOfRun(Composed):
    """``a b`` over the elements of the summed axis that `runs` numbers `number`, which lie together."""

    name = "matmul_of_run"
    error = "that of matmul"

    def of(self, m: Arithmetic, a: AnyTerm, b: AnyTerm, runs: F64 | Bounded, number: int) -> AnyTerm:
        at = np.flatnonzero((runs.value if isinstance(runs, Bounded) else np.asarray(runs)) == number)
        run = slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, 0)
        return m.matmul(m.part(a, (slice(None), run)), m.part(b, (run, slice(None))))

    def text(self, m: Arithmetic, a: Formula, b: Formula, runs: Formula, number: int) -> Formula:
        product = m.matmul(a, b)
        plain = f"{product.plain} over {a.axes[-1]} where {runs.plain} is {number}"
        latex = rf"{product.latex}\ [{runs.latex} = {number}]"
        return Formula(plain, latex, product.axes, SUM)


class AddInOrder(Composed):
    """The sum of the parts, first to last, rounded to f32 after each addition."""

    name = "add_in_order"
    error = "that of add for each part that is not exactly 0"

    def of(self, m: Arithmetic, *parts: OwnTerm) -> AnyTerm:
        total = parts[0]
        for part in parts[1:]:
            if np.any(getattr(part, "value", part)) or np.any(getattr(part, "errors", 0.0)):
                total = m.add(total, part)  # adding what is exactly 0 rounds nothing
        return total

    def text(self, m: Arithmetic, *parts: Formula) -> Formula:
        total = parts[0]
        for part in parts[1:]:
            total = m.add(total, part)
        return total


class AddToFirstColumns(Composed):
    """``a + b`` in f32, where b has the first columns of a only; the others stay as they are."""

    name = "add_to_first_columns"
    error = "that of add in the columns of b, that of a in the others"

    def of(self, m: Arithmetic, a: F64 | Bounded, b: F64 | Bounded) -> AnyTerm:
        width = b.shape[1]
        if width == a.shape[1]:
            return m.add(a, b)
        some, rest = (m.part(a, (slice(None), columns)) for columns in (slice(width), slice(width, None)))
        return m.side_by_side(m.add(some, b), rest)

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        if a.axes == b.axes:
            return m.add(a, b)
        whole = m.add(a, Formula(b.plain, b.latex, a.axes, b.binds))
        first = rf"\ [\text{{first }} {latex_axis(b.axes[1])} \text{{ columns}}]"
        return Formula(f"{whole.plain} in the first {b.axes[1]} columns", whole.latex + first, a.axes, SUM)


class Beside(Operation):
    """The columns of `a`, then those of `b`."""

    name = "side_by_side"

    def exact(self, m: Arithmetic, a: F64, b: F64) -> F64:
        return np.concatenate([a, b], axis=1)

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded, b: Bounded) -> Bounded:
        nan = None
        if a.may_be_nan is not None or b.may_be_nan is not None:
            masks = [np.zeros(x.shape, bool) if x.may_be_nan is None else x.may_be_nan for x in (a, b)]
            nan = np.concatenate(masks, axis=1)
        value, error = (np.concatenate(some, axis=1) for some in ((a.value, b.value), (a.errors, b.errors)))
        return Bounded(value, error, nan)

    def text(self, m: Arithmetic, a: Formula, b: Formula) -> Formula:
        return Formula(f"[{a.plain}, {b.plain}]", rf"\left[{a.latex},\ {b.latex}\right]", a.axes)


class ScatterAdd(Operation):
    """Adds each row of `tile` to that row of `total` in global memory, in f32 and in any order."""

    name = "scatter_add"
    error = "`spec.numerics.bound_scatter`, below"
    source = "`U_F32`, `F32_MIN_NORMAL` above"

    def exact(self, m: Arithmetic, total: F64, rows: npt.NDArray[np.int64], tile: F64) -> F64:
        np.add.at(total, rows, tile)
        return total

    def rounded(self, m: Arithmetic, total: F64, rows: npt.NDArray[np.int64], tile: F64) -> F64:
        for row, values in zip(rows, tile, strict=True):
            total[row] = round_f32(total[row] + values)
        return total

    def bound(self, m: Arithmetic, total: RowSums, rows: npt.NDArray[np.int64], tile: Bounded) -> RowSums:
        total.add(rows, tile.value, None if tile.exact else tile.errors)
        return total

    def text(self, m: Arithmetic, total: Formula, rows: Formula, tile: Formula) -> Formula:
        m.operations.append("scatter_add")
        m.roundings.append(
            f"each addition to {total.plain} in global memory to f32, to nearest, any order, subnormals may "
            "be flushed"
        )
        return Formula(
            f"{tile.plain} added to the rows {rows.plain} of {total.plain}",
            rf"{total.latex}_{{\text{{{rows.plain}}}}} \mathrel{{+}}= {tile.latex}",
            total.axes,
        )


OPERATIONS: tuple[Operation, ...] = (
    MatMul(),
    Accumulate(),
    SumOfRows(),
    SumOfColumns(),
    MatMulInSteps(),
    MatMulOfRun(),
    AddInOrder(),
    AddToFirstColumns(),
    Beside(),
    ScatterAdd(),
)
