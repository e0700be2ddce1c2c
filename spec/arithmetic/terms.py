"""Terms of the bounds: a float64 value with an error per element, as arrays, views, sums and rounded copies.

Errors are computed on request: a term keeps its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import BF16, F16, Form, round_in
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import (
    BF16_MAX,
    BF16_TINY,
    F16_MAX,
    F16_TINY,
    F32_MAX,
    F32_MIN_NORMAL,
    F32_TINY,
    U_BF16,
    U_F16,
    U_F64,
    grain,
)

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

T = TypeVar("T")
_FORMS = {BF16: (U_BF16, BF16_TINY, BF16_MAX), F16: (U_F16, F16_TINY, F16_MAX)}
_ALL_BF16 = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
with np.errstate(invalid="ignore"):  # signalling NaNs
    _BF16_VALUE = _ALL_BF16.astype(np.float64)


class Bounded:
    """A value, its error (the plain number 0.0 where all of it is exact), and where NaN is right as well."""

    def __init__(self, value: F64, error: F64 | float = 0.0, may_be_nan: Mask | None = None) -> None:
        self.value, self._error, self.may_be_nan = value, error, may_be_nan

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
    def magnitude_bound(self) -> F64:
        """|value| + error."""
        return np.abs(self.value) if self.exact else np.abs(self.value) + self.error

    @cached_property
    def aligned(self) -> F64:
        """`magnitude_bound` as the tensor core's alignment sees it: not below 2^-126 unless it is 0."""
        return np.where(self.magnitude_bound == 0, 0.0, np.maximum(self.magnitude_bound, F32_MIN_NORMAL))

    @cached_property
    def grain(self) -> F64:
        """The power of two that each element is a multiple of; 0 where the value is not exact."""
        if self.exact:
            return grain(self.value)
        known = self.errors == 0
        unit = np.zeros(self.value.shape)
        if known.any():  # where nothing is known expensive to compute, and not used
            unit[known] = grain(self.value[known])
        return unit

    def least_grain(self, axis: int) -> F64:
        """The least grain along an axis, which is not empty."""
        ranks = self.grain_ranks
        if ranks is None:
            return np.asarray(self.grain.min(axis=axis))
        return np.asarray(_tables()[1][ranks.min(axis=axis)])

    @property
    def grain_ranks(self) -> npt.NDArray[np.uint16] | None:
        """The grain of each element among the grains of bf16 numbers; None for other data."""
        return None

    @property
    def held(self) -> Bounded:
        """The kernel's value as an interval: the term itself, except for rounded copies."""
        return self

    @cached_property
    def infinite(self) -> Mask | None:
        """Where the kernel may hold an infinity or NaN that the value does not have; None: nowhere."""
        there: Mask = np.isinf(self.value)
        if not self.exact:
            there = there | np.isinf(self.errors)
        if self.may_be_nan is not None:
            there = there | self.may_be_nan
        return there if there.any() else None


class TermView(Bounded):
    """A part or another order of a term; known properties of its elements are reused."""

    def __init__(self, base: Bounded, look: Callable[[Array], Array]) -> None:
        self._base, self._look = base, look
        error = base.error
        super().__init__(
            look(base.value),
            look(error) if isinstance(error, np.ndarray) else error,
            None if base.may_be_nan is None else look(base.may_be_nan),
        )

    @cached_property
    def magnitude_bound(self) -> F64:
        return np.asarray(self._look(self._base.magnitude_bound))

    @cached_property
    def aligned(self) -> F64:
        return np.asarray(self._look(self._base.aligned))

    @cached_property
    def grain(self) -> F64:
        return np.asarray(self._look(self._base.grain))

    @cached_property
    def grain_ranks(self) -> npt.NDArray[np.uint16] | None:
        ranks = self._base.grain_ranks
        return None if ranks is None else np.asarray(self._look(ranks))


class Bf16Data(Bounded):
    """Exact bf16 data: everything about an element is looked up by its bits."""

    def __init__(self, array: Array) -> None:
        self._bits = array.view(np.uint16)
        super().__init__(_BF16_VALUE[self._bits])

    @cached_property
    def aligned(self) -> F64:
        low = self._bits & 0x7FFF
        subnormal = (low - np.uint16(1)) < 0x7F  # zero wraps
        return super().aligned if subnormal.any() else np.abs(self.value)

    @cached_property
    def grain(self) -> F64:
        return np.asarray(_tables()[1][self.grain_ranks])

    @cached_property
    def grain_ranks(self) -> npt.NDArray[np.uint16]:
        return np.asarray(_tables()[0][self._bits])


@cache
def _tables() -> tuple[npt.NDArray[np.uint16], F64]:
    """By the bits of a bf16 number the place of its grain among all grains, and these, ascending."""
    grains, ranks = np.unique(grain(_BF16_VALUE), return_inverse=True)
    return ranks.astype(np.uint16), grains


@dataclass(frozen=True)
class Partial:
    """Of what size the partial sums of each element are: `runs`, the sum of the magnitudes of the sums over
    `RUNS` runs of the terms, and `squares`, the sum of the squared terms. `sample` gives the terms of some
    elements, a row each.
    """

    runs: F64
    squares: F64
    sample: Callable[[], F64]

    def joined(self, more: Partial) -> Partial:
        """Of the terms of both; a narrower sum has the first columns of the other."""
        if self.runs.shape != more.runs.shape:
            wide, narrow = (self, more) if self.runs.size > more.runs.size else (more, self)
            padded = Partial(np.zeros(wide.runs.shape), np.zeros(wide.runs.shape), narrow.sample)
            width = narrow.runs.shape[-1]
            padded.runs[..., :width], padded.squares[..., :width] = narrow.runs, narrow.squares
            return wide.joined(padded)

        def sample() -> F64:
            return np.concatenate([self.sample(), more.sample()], axis=1)

        return Partial(self.runs + more.runs, self.squares + more.squares, sample)

    @property
    def varied(self) -> bool:
        """Whether half of the terms that are not 0 differ in magnitude, in all elements of the sample: equal
        terms in a row are rounded alike.
        """
        shown = (np.abs(terms[terms != 0]) for terms in self.sample())
        return all(2 * np.unique(terms).size >= terms.size for terms in shown)

    @property
    def mean_square(self) -> F64:
        """What the square of a partial sum is in the mean over the additions, at most, in an order that does
        not depend on the values: 4 times that of terms with random signs, or any union of the runs.
        """
        return np.maximum(self.runs**2, 4 * self.squares)


class Sum(Bounded):
    """A sum of products in one f32 accumulator; its error is found when it is asked for.

    `magnitude` is the sum of |products|, `unit` what all products are multiples of (or finds it), `terms`
    their number per column, `carried` what the operands' own errors may add up to, `u` the rounding of one
    addition, `partial` of what size partial sums are.
    """

    def __init__(
        self,
        value: F64,
        magnitude: F64,
        unit: F64 | Callable[[], F64],
        terms: F64,
        carried: F64 | float,
        may_be_nan: Mask | None,
        u: float,
        partial: tuple[Callable[[], Partial], ...] = (),
    ) -> None:
        super().__init__(value, 0.0, may_be_nan)
        self.magnitude, self.terms, self.carried, self.u = magnitude, terms, carried, u
        self._unit, self.sources = unit, partial

    @cached_property
    def unit(self) -> F64:
        """What all products of an element are multiples of."""
        return self._unit() if callable(self._unit) else self._unit

    @cached_property
    def partial(self) -> Partial | None:
        """The size of its partial sums; None if its terms are unknown."""
        return over(Partial.joined, [source() for source in self.sources]) if self.sources else None

    def joined(self, more: Sum) -> Sum:
        """The sum of the products of both, added up in one accumulator in any order."""
        nan = [mask for mask in (self.may_be_nan, more.may_be_nan) if mask is not None]
        with np.errstate(invalid="ignore", over="ignore"):
            return Sum(
                self.value + more.value,
                self.magnitude + more.magnitude,
                lambda: np.minimum(self.unit, more.unit),
                self.terms + more.terms,
                self.carried + more.carried,
                np.logical_or.reduce(nan) if nan else None,
                max(self.u, more.u),
                self.sources + more.sources,
            )

    @cached_property
    def ceiling(self) -> F64:
        """The error if nothing is known to be exact."""
        n = self.terms
        if n.size and float(n.max()) * self.u >= 1:
            raise TileproofError("too many roundings for a bound", where="terms", found=str(int(n.max())))
        relative = n * self.u / (1 - n * self.u) + n * U_F64 / (1 - n * U_F64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = relative * self.magnitude
            error += n * F32_TINY + self.carried
            return finish(error, self.magnitude + error)

    @cached_property
    def _found(self) -> F64:
        bounded = self.ceiling
        with np.errstate(invalid="ignore", over="ignore"):
            # Every partial sum fits 24 bits, and f32's range.
            fits = self.magnitude <= self.unit * 2.0**24
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


def either(*masks: Mask | None) -> Mask | None:
    """Where any of the masks holds; None: nowhere."""
    some = [mask for mask in masks if mask is not None]
    return None if not some else np.asarray(over(np.logical_or, some))


def over(how: Callable[[T, T], T], arrays: Sequence[T]) -> T:
    """``how(how(arrays[0], arrays[1]), ...)``."""
    result = arrays[0]
    for array in arrays[1:]:
        result = how(result, array)
    return result


def finish(error: F64, largest: F64) -> F64:
    """+inf where a value of magnitude `largest` may overflow f32, or where something is not finite."""
    # What is greatest may be NaN: then it is no number below.
    if largest.size and largest.max() <= F32_MAX and error.max() <= F32_MAX:
        return error
    return np.where(np.isfinite(error) & (largest <= F32_MAX), error, np.inf)


def _f32_beyond(x: F64, sign: float) -> npt.NDArray[np.float32]:
    """The nearest f32 that is not below `x`, or not above where `sign` is negative."""
    near = x.astype(np.float32)
    short = near < x if sign > 0 else near > x
    return np.where(short, np.nextafter(near, np.float32(sign * np.inf)), near) if short.any() else near


def _rounded_f32(form: Form, x: npt.NDArray[np.float32]) -> F64:
    """f32 numbers in a narrower form, to nearest even."""
    narrow = ml_dtypes.bfloat16 if form == BF16 else np.float16
    return x.astype(narrow).astype(np.float64)


class RoundedTerm(Bounded):
    """Another term in a narrower form; the error is computed on request."""

    def __init__(self, form: Form, base: Bounded) -> None:
        super().__init__(base.value, 0.0, base.may_be_nan)
        self.form, self.base = form, base

    def rounded(self, x: npt.NDArray[np.float32]) -> F64:
        """f32 numbers in the term's form."""
        return _rounded_f32(self.form, x)

    @cached_property
    def held(self) -> Bounded:
        """The numbers of the form between the roundings of both ends: rounding is monotone, so that where
        both are one number the kernel holds just that.
        """
        errors = self.base.error
        with np.errstate(invalid="ignore", over="ignore"):
            low, high = (
                _rounded_f32(self.form, _f32_beyond(self.value + sign * errors, sign)) for sign in (-1.0, 1.0)
            )
            error = (high - low) * (0.5 + 8 * U_F64)  # both ends are inside
            value = (low + high) / 2
            if np.isfinite(error).all() and np.isfinite(errors).all():
                return Bounded(value, error, self.may_be_nan)
            alike = low == high  # infinities
            known = np.isfinite(errors) & (alike | np.isfinite(error))
            value = np.where(known, np.where(alike, low, value), self.value)
            return Bounded(value, np.where(known, np.where(alike, 0.0, error), np.inf), self.may_be_nan)

    @cached_property
    def _found(self) -> F64 | float:
        unit, tiny, largest = _FORMS[self.form]
        error, magnitude_bound = self.base.errors, self.base.magnitude_bound
        with np.errstate(invalid="ignore", over="ignore"):
            wider = np.where(magnitude_bound <= largest, error + unit * magnitude_bound + tiny / 2, np.inf)
            exact = np.array(error == 0)
            if exact.any():
                exact[exact] = np.ravel(round_in(self.form, self.value[exact]) == self.value[exact])
        return np.where(exact, 0.0, wider)

    @property
    def error(self) -> F64 | float:
        return self._found
