"""The value of a stage and how far a correct kernel may lie from it, per element.

A term is a float64 value with an error: however the kernel rounded so far, in any order that the operation
allows, it is within the error of the value. Errors of operands are carried on in closed form, not to first
order. Names: a, b have the errors e_a, e_b; u = U_F32, w = U_F64, most_a = |a| + e_a.

    a - b        e_a + e_b + (u + w) most
    a b c        prod(most) - |a b c| + gamma(roundings, u + w) prod(most) + what may underflow on the way
    log2 sum     off by the relative error of the sum of 2^(a - largest), and LG2_ERROR
    2^a          2^a (2^(e_a + F32_MIN_NORMAL) - 1 and EX2_RELATIVE) + F32_MIN_NORMAL
    a b (tensor) e_a |b| + |a| e_b + e_a e_b + (gamma(n, U_F32_RZ) + gamma(n, w)) sum(most_a most_b)
                 + n 2^-149
    rowsum       the same with U_F32; of products that were rounded, theirs with ones
    round to     error + U_form (|value| + error) + half of the least subnormal

Operands of the tensor core count 2^-126 at least, unless they are 0. Where every partial sum is exact
whatever the order the error is 0. Where an intermediate may exceed the f32 range it is +inf, for that element
only: infinity and any finite value are then both correct, and NaN too where `free` says so, as an infinite
operand may have met a zero or another infinity. What is not finite in the value itself must be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic import BF16, F16, F32, Form, Keeping, Online
from tileproof.spec.arithmetic.rounded import round_in
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import (
    BF16_MAX,
    BF16_TINY,
    EX2_RELATIVE,
    F16_MAX,
    F16_TINY,
    F32_MAX,
    F32_MIN_NORMAL,
    F32_TINY,
    LG2_ERROR,
    U_BF16,
    U_F16,
    U_F32,
    U_F32_RZ,
    U_F64,
    gamma,
    grain,
)

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_FORMS = {BF16: (U_BF16, BF16_TINY, BF16_MAX), F16: (U_F16, F16_TINY, F16_MAX)}
_ALL_BF16 = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
with np.errstate(invalid="ignore"):  # signalling NaNs
    _BF16_VALUE = _ALL_BF16.astype(np.float64)


class Bounded:
    """A value, its error (the plain number 0.0 where all of it is exact), and where NaN is right as well."""

    def __init__(self, value: F64, error: F64 | float = 0.0, free: Mask | None = None) -> None:
        self.value, self._error, self.free = value, error, free

    @property
    def error(self) -> F64 | float:
        return self._error

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the value."""
        return self.value.shape

    @cached_property
    def errors(self) -> F64:
        """The error of each element, as an array."""
        error = np.asarray(self.error, np.float64)
        return error if error.shape == self.value.shape else np.broadcast_to(error, self.value.shape)

    @property
    def exact(self) -> bool:
        """Whether the kernel holds the very value everywhere."""
        return isinstance(self.error, float) and self.error == 0.0

    @cached_property
    def most(self) -> F64:
        """|value| + error."""
        return np.abs(self.value) if self.exact else np.abs(self.value) + self.error

    @cached_property
    def aligned(self) -> F64:
        """`most` as the tensor core's alignment sees it: not below 2^-126 unless it is 0."""
        return np.where(self.most == 0, 0.0, np.maximum(self.most, F32_MIN_NORMAL))

    @cached_property
    def grain(self) -> F64:
        """The power of two that each element is a multiple of; 0 where the value is not exact."""
        if self.exact:
            return grain(self.value)
        known = self.errors == 0
        return np.where(known, grain(self.value), 0.0) if known.any() else np.zeros(self.value.shape)

    @cached_property
    def infinite(self) -> Mask | None:
        """Where the kernel may hold an infinity or NaN that the value does not say; None: nowhere."""
        there: Mask = np.isinf(self.value)
        if not self.exact:
            there = there | np.isinf(self.errors)
        if self.free is not None:
            there = there | self.free
        return there if there.any() else None


class _View(Bounded):
    """A part or another order of a term: what that one knows of its elements is not found again."""

    def __init__(self, base: Bounded, look: Callable[[Any], Any]) -> None:
        self._base, self._look = base, look
        error = base.error
        super().__init__(
            look(base.value),
            look(error) if isinstance(error, np.ndarray) else error,
            None if base.free is None else look(base.free),
        )

    @cached_property
    def most(self) -> F64:
        return np.asarray(self._look(self._base.most))

    @cached_property
    def aligned(self) -> F64:
        return np.asarray(self._look(self._base.aligned))

    @cached_property
    def grain(self) -> F64:
        return np.asarray(self._look(self._base.grain))


class _Bf16(Bounded):
    """Exact bf16 data: everything about an element is looked up by its bits."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._bits = array.view(np.uint16)
        super().__init__(_BF16_VALUE[self._bits])

    @cached_property
    def aligned(self) -> F64:
        return np.asarray(_tables()[0][self._bits])

    @cached_property
    def grain(self) -> F64:
        return np.asarray(_tables()[1][self._bits])


_TABLES: list[F64] = []


def _tables() -> list[F64]:
    if not _TABLES:
        whole = Bounded(_BF16_VALUE)
        _TABLES[:] = [whole.aligned, whole.grain]
    return _TABLES


class Sum(Bounded):
    """A sum of products in one f32 accumulator; its error is found when it is asked for.

    `magnitude` is the sum of |products|, `unit` what all products are multiples of, `terms` their number per
    column, `carried` what the operands' own errors may add up to, `u` the rounding of one addition.
    """

    def __init__(
        self,
        value: F64,
        magnitude: F64,
        unit: F64,
        terms: F64,
        carried: F64 | float,
        free: Mask | None,
        u: float,
    ) -> None:
        super().__init__(value, 0.0, free)
        self.magnitude, self.unit, self.terms, self.carried, self.u = magnitude, unit, terms, carried, u

    @cached_property
    def _found(self) -> F64:
        n = self.terms
        if n.size and float(n.max()) * self.u >= 1:
            raise TileproofError("too many roundings for a bound", where="terms", found=str(int(n.max())))
        relative = n * self.u / (1 - n * self.u) + n * U_F64 / (1 - n * U_F64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = relative * self.magnitude
            error += n * F32_TINY + self.carried
            largest = self.magnitude + error
            bounded = _finish(error, largest)
            # Every partial sum fits 24 bits, and f32's range.
            np.multiply(self.unit, 2.0**24, out=largest)
            fits = self.magnitude <= largest
            if not fits.any():
                return bounded
            fits &= (self.unit >= F32_TINY) & (self.magnitude <= F32_MAX)
            exact = fits | (self.magnitude == 0)
            if not isinstance(self.carried, float):
                exact &= self.carried == 0
        return np.where(exact, 0.0, bounded)

    @property
    def error(self) -> F64 | float:
        return self._found


def _finish(error: F64, largest: F64) -> F64:
    """+inf where a value of magnitude `largest` may overflow f32, or where something is not finite."""
    # What is greatest may be NaN: then it is no number below.
    if largest.size and largest.max() <= F32_MAX and error.max() <= F32_MAX:
        return error
    return np.where(np.isfinite(error) & (largest <= F32_MAX), error, np.inf)


def _either(*masks: Any) -> Mask | None:
    some = [mask for mask in masks if mask is not None]
    return None if not some else np.asarray(_over(np.logical_or, some))


def _product_free(a: Bounded, b: Bounded, shape: tuple[int, ...]) -> Mask | None:
    """Where an infinite element of an operand reaches: the rows of a, the columns of b."""
    if a.infinite is None and b.infinite is None:
        return None
    free = np.zeros(shape, bool)
    if a.infinite is not None:
        free |= np.asarray(a.infinite.any(axis=1))[:, None]
    if b.infinite is not None:
        free |= np.asarray(b.infinite.any(axis=0))[None, :]
    return free


class Bound(Keeping):
    """Values with errors."""

    def read(self, form: Form, x: Any) -> Any:
        """An input as a term: what an array holds is exact, a plain number is rounded as it is passed."""
        if isinstance(x, Bounded):
            return x
        array = np.asarray(x)
        if array.dtype == bool:
            return array
        if array.dtype == ml_dtypes.bfloat16:
            return _Bf16(np.ascontiguousarray(array))
        with np.errstate(invalid="ignore"):  # signalling NaNs
            value = array.astype(np.float64)
        if array.ndim == 0 and form.name == "f32" and value != np.float32(value):
            return Bounded(value, U_F32 * np.abs(value))
        return Bounded(value)

    def part(self, a: Any, index: Any) -> Any:
        """Some elements of a term."""
        return _View(a, lambda x: x[index]) if isinstance(a, Bounded) else a[index]

    def matmul(self, a: Bounded, b: Bounded) -> Sum:
        with np.errstate(invalid="ignore", over="ignore"):
            value = a.value @ b.value
            shape = value.shape
            magnitude = a.aligned @ b.aligned
            if a.value.shape[1]:
                unit = np.multiply.outer(a.grain.min(axis=1), b.grain.min(axis=0))
            else:
                unit = np.full(shape, np.inf)
            carried: F64 | float = 0.0
            if not a.exact:
                carried = carried + a.errors @ b.most
            if not b.exact:
                carried = carried + np.abs(a.value) @ b.errors
            if not isinstance(carried, float) and carried.size and np.isnan(carried.min()):
                carried = np.where(np.isnan(carried), np.inf, carried)
        terms = np.full(shape[1], float(a.value.shape[1]))
        return Sum(value, magnitude, unit, terms, carried, _product_free(a, b, shape), U_F32_RZ)

    def accumulate(self, total: Sum, a: Bounded, b: Bounded) -> Sum:
        more = self.matmul(a, b)
        width = more.value.shape[1]

        def joined(one: F64, two: F64, how: Any) -> F64:
            result = np.empty_like(one)
            how(one[..., :width], two, out=result[..., :width])
            result[..., width:] = one[..., width:]
            return result

        carried: F64 | float = total.carried
        if not isinstance(more.carried, float):
            whole = np.zeros(total.value.shape) + carried
            carried = joined(whole, more.carried, np.add)
        free: Mask | None = total.free
        if more.free is not None:
            wide = np.zeros(total.value.shape, dtype=np.bool_)
            wide[:, :width] = more.free
            free = _either(free, wide)
        with np.errstate(invalid="ignore", over="ignore"):
            return Sum(
                joined(total.value, more.value, np.add),
                joined(total.magnitude, more.magnitude, np.add),
                joined(total.unit, more.unit, np.minimum),
                joined(total.terms, more.terms, np.add),
                carried,
                free,
                total.u,
            )

    def rowsum(self, a: Bounded, b: Bounded, products: Form = F32) -> Sum:
        if products != F32:  # of exact operands the product is exact in f64
            with np.errstate(invalid="ignore", over="ignore"):
                value = a.value * b.value
                error = 0.0 if a.exact and b.exact else a.most * b.most - np.abs(value) + F32_TINY
            rounded = self.round_to(products, Bounded(value, error, _either(a.free, b.free)))
            return self.rowsum(rounded, Bounded(np.ones(value.shape)))
        with np.errstate(invalid="ignore", over="ignore"):
            each = a.value * b.value
            magnitude = (a.most * b.most).sum(axis=-1)
            unit = a.grain.min(axis=-1) * b.grain.min(axis=-1)
            carried: F64 | float = 0.0
            if not (a.exact and b.exact):
                carried = magnitude - np.abs(each).sum(axis=-1) + F32_TINY
            infinite = _either(a.infinite, b.infinite)
            free = None
            if infinite is not None:
                free = np.asarray(np.broadcast_to(infinite, each.shape).any(axis=-1))
            terms = np.full(1, float(each.shape[-1]))
            return Sum(each.sum(axis=-1), magnitude, unit, terms, carried, free, U_F32)

    def transpose(self, a: Bounded) -> Bounded:
        return _View(a, lambda x: x.T)

    def column(self, a: Bounded) -> Bounded:
        return _View(a, lambda x: x[:, None])

    def mul(self, *factors: Bounded) -> Bounded:
        value, count = factors[0].value, len(factors)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            carried: Any = factors[0].error
            most: Any = factors[0].most
            for one in factors[1:]:
                carried = carried * one.most + np.abs(value) * one.error
                value, most = value * one.value, most * one.most
            # A power of two multiplies without rounding.
            rounding = count - 1 - min(sum(map(_power_of_two, factors)), count - 1)
            rounded = gamma(rounding, U_F32) + gamma(2 * rounding, U_F64)
            # A partial product that underflows loses 2^-149 times the factors that follow.
            follow: Any = 1.0
            if count > 2:
                largest = [np.maximum(one.most, 1.0) if count > 3 else one.most for one in factors]
                follow = 1.0 + (count - 2) * _over(np.multiply if count > 3 else np.maximum, largest)
            error = carried + rounded * most + F32_TINY * follow
            partial: Any = most
            for number in range(1, count):
                for some in combinations(factors, number):
                    partial = np.maximum(partial, _over(np.multiply, [one.most for one in some]))
            error = np.where(most == 0, 0.0, error)
            error = _finish(error, partial * (1 + gamma(count, U_F32)))
        free = _either(*(None if one.free is None else one.free for one in factors))
        if np.isinf(error).any():
            whole = np.isinf(error)
            zero = [np.broadcast_to(np.abs(one.value) <= one.error, whole.shape) for one in factors]
            free = _either(free, whole & np.logical_or.reduce(zero))
        return Bounded(value, error, free)

    def sub(self, a: Bounded, b: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._sum(a, b, a.value - b.value)

    def add(self, a: Bounded, b: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._sum(a, b, a.value + b.value)

    def _sum(self, a: Bounded, b: Bounded, value: F64) -> Bounded:
        carried = a.error + b.error
        size = np.abs(value) + carried
        rounded = (U_F32 + U_F64) * size
        if not (a.most.all() and b.most.all()):
            rounded = np.where((a.most == 0) | (b.most == 0), 0.0, rounded)  # x + 0 is x
        error = _finish(carried + rounded, size * (1 + U_F32))
        free = _either(a.free, b.free)
        if np.isinf(error).any():
            both = [np.isinf(one.value) | np.isinf(one.errors) for one in (a, b)]
            free = _either(free, both[0] & both[1])
        return Bounded(value, error, free)

    def exp2(self, a: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            value = np.exp2(a.value)
            spread = np.expm1((a.error + F32_MIN_NORMAL) * math.log(2.0))
            error = value * (spread * (1 + EX2_RELATIVE) + EX2_RELATIVE + 4 * U_F64) + F32_MIN_NORMAL
            return Bounded(value, _finish(error, value + error), a.free)

    def select(self, mask: Mask, a: Bounded) -> Bounded:
        free = None if a.free is None else a.free & mask
        return Bounded(np.where(mask, a.value, 0.0), np.where(mask, a.error, 0.0), free)

    def logsumexp2(self, mask: Mask, a: Bounded, online: Online) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shown = np.where(mask, a.value, -np.inf)
            top = shown.max(axis=1, initial=-np.inf)
            some = np.isfinite(top)
            kept = np.where(some, top, 0.0)[:, None]
            below = np.where(mask, a.value - kept, -np.inf)
            off = np.where(mask, a.errors + (U_F32 + U_F64) * (np.abs(below) + a.errors), 0.0)
            weight = np.exp2(below)
            spread = np.expm1((off + F32_MIN_NORMAL) * math.log(2.0))
            one = EX2_RELATIVE + online.exp_relative + 2 * U_F32
            # Rescaled at each block by a power of a difference of largest elements, which add up to `below`.
            power = (online.blocks(mask.shape[1]) + 1) * one + U_F32 * np.abs(below)
            each = np.where(mask, weight * (spread * (1 + power) + power) + F32_MIN_NORMAL, 0.0)
            total = weight.sum(axis=1)
            count = max(mask.shape[1], 1)
            error = each.sum(axis=1) + gamma(count, U_F32) * (total + each.sum(axis=1))
            log = np.log2(np.where(some, total, 1.0))
            relative = np.where(error < total / 2, error / total, np.inf)
            far = -np.log2(1 - np.minimum(relative, 0.5)) + LG2_ERROR * np.maximum(1.0, np.abs(log))
            value = kept[:, 0] + log
            found = far + (U_F32 + U_F64) * (np.abs(value) + np.abs(kept[:, 0]) + far)
            found = np.where(some & np.isfinite(relative), found, np.inf)
            return Bounded(np.where(some, value, np.inf), found, None if some.all() else ~some)

    def normalised(self, a: Bounded, online: Online) -> Bounded:
        columns = max(a.shape[1], 2)
        each = EX2_RELATIVE + online.exp_relative + 2 * U_F32
        relative = (online.blocks(columns) + 1) * each + LG2_ERROR * math.log2(columns) + 4 * U_F32
        with np.errstate(invalid="ignore", over="ignore"):
            return Bounded(a.value, a.errors + relative * a.most, a.free)

    def constant(self, name: str, value: float) -> Bounded:
        return Bounded(np.asarray(value), U_F32 * abs(value))

    def round_to(self, form: Form, a: Bounded) -> Bounded:
        return _Rounded(form, a)

    def scatter_add(self, total: RowSums, rows: npt.NDArray[np.int64], tile: Bounded) -> RowSums:
        total.add(rows, tile.value, None if tile.exact else tile.errors)
        return total


class _Rounded(Bounded):
    """Another term in a narrower form; the error is found when it is asked for."""

    def __init__(self, form: Form, base: Bounded) -> None:
        super().__init__(base.value, 0.0, base.free)
        self._form, self._base = form, base

    @cached_property
    def _found(self) -> F64 | float:
        unit, tiny, largest = _FORMS[self._form]
        error, most = self._base.errors, self._base.most
        with np.errstate(invalid="ignore", over="ignore"):
            wider = np.where(most <= largest, error + unit * most + tiny / 2, np.inf)
            kept = np.array(error == 0)
            if kept.any():
                kept[kept] = np.ravel(round_in(self._form, self.value[kept]) == self.value[kept])
        return np.where(kept, 0.0, wider)

    @property
    def error(self) -> F64 | float:
        return self._found


def _power_of_two(term: Bounded) -> bool:
    """Whether the term is one number, known exactly, that is a power of two."""
    return term.value.ndim == 0 and term.exact and abs(np.frexp(term.value)[0]) == 0.5


def _over(how: Any, arrays: list[Any]) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = how(result, array)
    return result


BOUND = Bound()
