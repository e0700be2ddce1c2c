"""Rows of an output that many tiles are added to in global memory: the sums, and their error in any order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tileproof.spec import numerics
from tileproof.spec.arithmetic.forms import F32, Form
from tileproof.spec.arithmetic.terms import Bounded, RoundedTerm
from tileproof.spec.numerics import F32_MAX, F32_MIN_NORMAL, grain

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
CHUNK_ELEMENTS = 1 << 19  # of a large tile, computed or summed at once: they stay in a cache
_NO_GRAIN = 2.0**500  # of what was never added to: larger than any real one


def stored(form: Form, value: F64, bound: F64) -> tuple[F64, F64]:
    """Value and bound of f32 sums after one rounding to `form`."""
    if form == F32:
        return value, bound
    held = RoundedTerm(form, Bounded(value, bound)).held
    return held.value, held.errors


def _by_row(reduce: np.ufunc, parts: F64, first: I64) -> F64:
    """`reduce` over the parts of each row, which begin at `first`."""
    return parts if len(first) == len(parts) else reduce.reduceat(parts, first, axis=0)


@dataclass
class RowSums:
    """Rows of an output as sums of contributions, and what f32 additions in any order may give.

    Only rows with contributions are kept: arrays are ``[len(rows), cols]``.

    `unit`: every contribution is a multiple of it; 0 if a contribution is not exactly known. Contributions
    are collected, and added up on request.
    """

    rows: I64  # the numbers of the rows, increasing
    _value: F64
    _magnitude: F64
    _error: F64
    _unit: F64
    _additions: F64
    _waiting: list[tuple[npt.NDArray[np.int64], F64, F64 | None]] = field(default_factory=list)
    _elements: int = 0  # of those that are waiting
    _bound: F64 | None = None  # found when it is asked for, until something is added

    @staticmethod
    def of(rows: I64 | int, cols: int) -> RowSums:
        """No contribution yet to the `rows`, increasing numbers or 0 .. `rows` - 1: each is 0."""
        rows = np.arange(rows) if isinstance(rows, int) else rows
        shape = len(rows), cols
        value, magnitude, error = (np.zeros(shape) for _ in range(3))
        return RowSums(rows, value, magnitude, error, np.full(shape, _NO_GRAIN), np.zeros((len(rows), 1)))

    def add(
        self, rows: npt.NDArray[np.int64], values: npt.NDArray[np.floating], errors: F64 | None = None
    ) -> None:
        """Adds ``values [n, cols]``, within their `errors` (0), to rows number `rows` ``[n]``, which may
        repeat and are among those of the sums.
        """
        if len(rows):
            self._bound = None
            self._waiting.append((np.asarray(rows), np.asarray(values), errors))
            self._elements += self._waiting[-1][1].size
            if self._elements >= CHUNK_ELEMENTS:
                self.settle()

    def settle(self) -> None:
        """Add up what was collected, which then takes no memory: by row, one reduction per quantity."""
        if not self._waiting:
            return
        waiting, self._waiting, self._elements = self._waiting, [], 0
        rows = np.concatenate([part[0] for part in waiting])
        order = np.argsort(rows, kind="stable")
        first = np.flatnonzero(np.diff(rows[order], prepend=-1))
        every = len(first) == len(self.rows)  # a slice makes no copies
        at = slice(None) if every else np.searchsorted(self.rows, rows[order][first])
        with np.errstate(invalid="ignore"):
            raw = np.concatenate([part[1] for part in waiting])[order]
            values = raw.astype(np.float64)
            units: F64 | None = None
            any_exact = True
            known = [errors for *_, errors in waiting if errors is not None]
            if known:
                errors = np.concatenate(
                    [np.zeros(part[1].shape) if part[2] is None else part[2] for part in waiting]
                )
                errors = errors[order]
                self._error[at] += _by_row(np.add, errors, first)
                # The grain of a value is expensive to compute, and not used where the value is not exact.
                exact = errors == 0
                any_exact = bool(exact.any())
                if any_exact and not exact.all():
                    units = np.zeros(raw.shape)
                    units[exact] = grain(raw[exact])
            self._value[at] += _by_row(np.add, values, first)
            self._magnitude[at] += _by_row(np.add, np.abs(values, out=values), first)
            if any_exact:
                units = grain(raw) if units is None else units
                units = np.minimum(self._unit[at], _by_row(np.minimum, units, first))
            self._unit[at] = 0.0 if units is None else units
            self._additions[at] += np.diff(first, append=len(rows))[:, None]

    @property
    def value(self) -> F64:
        """The sums, by place among `rows`."""
        self.settle()
        return self._value

    @property
    def magnitude(self) -> F64:
        """The sums of the contributions' magnitudes."""
        self.settle()
        return self._magnitude

    def moved(self, source: npt.NDArray[np.int64], to: npt.NDArray[np.int64]) -> RowSums:
        """The sums if the contributions to columns `source` had been added to columns `to`, in addition to
        the contributions to `to`.
        """
        self.settle()
        made = RowSums.of(self.rows, self._value.shape[1])
        made._additions = 2 * self._additions
        for own, other in (
            (self._value, made._value),
            (self._magnitude, made._magnitude),
            (self._error, made._error),
        ):
            other[:] = own
            other[:, to] += own[:, source]
            other[:, source] = 0.0
        made._unit[:] = self._unit
        made._unit[:, to] = np.minimum(self._unit[:, to], self._unit[:, source])
        return made

    def exact(self) -> npt.NDArray[np.bool_]:
        """Where f32 additions are exact in any order, even if subnormals are flushed.

        All contributions are known, multiples of one unit >= 2^-126, and their magnitudes sum to 2^24 units
        at most, inside f32's range.
        """
        self.settle()
        return self._exact(slice(None))

    def _exact(self, part: slice) -> npt.NDArray[np.bool_]:
        magnitude, unit = self._magnitude[part], self._unit[part]
        fits = (magnitude <= np.minimum(unit * 2.0**24, F32_MAX)) & (unit >= F32_MIN_NORMAL)
        return (self._error[part] == 0) & ((magnitude == 0) | fits)

    def bound(self) -> F64:
        """Bound of the rows in memory: 0 where exact or never added to, else `numerics.bound_scatter`."""
        self.settle()
        if self._bound is None:
            self._bound = np.empty(self._value.shape)
            run = max(1, CHUNK_ELEMENTS // max(1, self._value.shape[1]))
            for first in range(0, len(self.rows), run):
                part = slice(first, first + run)
                bound = numerics.bound_scatter(
                    self._magnitude[part], self._error[part], self._additions[part]
                )
                exact = self._exact(part) | (self._additions[part] == 0)
                self._bound[part] = np.where(exact, 0.0, bound)
        return self._bound
