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
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic import F32, Form, Keeping, Online
from tileproof.spec.arithmetic.sums import RowSums
from tileproof.spec.arithmetic.terms import F64, Bf16Data, Bounded, Mask, RoundedTerm, Sum, TermView, finish
from tileproof.spec.numerics import (
    EX2_RELATIVE,
    F32_MIN_NORMAL,
    F32_TINY,
    LG2_ERROR,
    U_F32,
    U_F32_RZ,
    U_F64,
    gamma,
)


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
            return Bf16Data(np.ascontiguousarray(array))
        with np.errstate(invalid="ignore"):  # signalling NaNs
            value = array.astype(np.float64)
        if array.ndim == 0 and form.name == "f32" and value != np.float32(value):
            return Bounded(value, U_F32 * np.abs(value))
        return Bounded(value)

    def part(self, a: Any, index: Any) -> Any:
        """Some elements of a term."""
        return TermView(a, lambda x: x[index]) if isinstance(a, Bounded) else a[index]

    def matmul(self, a: Bounded, b: Bounded) -> Sum:
        with np.errstate(invalid="ignore", over="ignore"):
            value = a.value @ b.value
            shape = value.shape
            magnitude = a.aligned @ b.aligned
            if a.value.shape[1]:
                unit = np.multiply.outer(a.least_grain(1), b.least_grain(0))
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
            result = one.copy()
            how(result[..., :width], two, out=result[..., :width])
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
            unit = a.least_grain(-1) * b.least_grain(-1)
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
        return TermView(a, lambda x: x.T)

    def column(self, a: Bounded) -> Bounded:
        return TermView(a, lambda x: x[:, None])

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
            error = finish(error, partial * (1 + gamma(count, U_F32)))
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
        error = finish(carried + rounded, size * (1 + U_F32))
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
            return Bounded(value, finish(error, value + error), a.free)

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
        return RoundedTerm(form, a)

    def scatter_add(self, total: RowSums, rows: npt.NDArray[np.int64], tile: Bounded) -> RowSums:
        total.add(rows, tile.value, None if tile.exact else tile.errors)
        return total


def _power_of_two(term: Bounded) -> bool:
    """Whether the term is one number, known exactly, that is a power of two."""
    return term.value.ndim == 0 and term.exact and abs(np.frexp(term.value)[0]) == 0.5


def _over(how: Any, arrays: list[Any]) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = how(result, array)
    return result


BOUND = Bound()
