"""A softmax computed in blocks of columns: its log-sum-exp, and the powers that it normalises."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic.forms import F64, Online
from tileproof.spec.arithmetic.formula import Formula
from tileproof.spec.arithmetic.operation import Arithmetic, Operation
from tileproof.spec.arithmetic.terms import Bounded, Mask
from tileproof.spec.numerics import (
    EX2_RELATIVE,
    F32_MIN_NORMAL,
    LG2_ERROR,
    U_F32,
    U_F64,
    gamma,
    round_f32,
)


class LogSumExp2(Operation):
    """``log2(sum of 2^a)`` of each row over the columns where `mask` holds, +inf for none."""

    name = "logsumexp2"
    error = "off by the relative error of the sum of 2^(a - largest), and LG2_ERROR"
    source = "PTX ISA 9.7.3.20, 9.7.3.21; `U_F32`, `gamma` above"

    def exact(self, m: Arithmetic, mask: npt.NDArray[np.bool_], a: F64, online: Online) -> F64:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shown = np.where(mask, a, -np.inf)
            top = shown.max(axis=1, initial=-np.inf)
            some = np.isfinite(top)
            shift = np.where(some, top, 0.0)
            total = np.exp2(shown - shift[:, None]).sum(axis=1)
            return np.where(some, shift + np.log2(np.where(some, total, 1.0)), np.inf)

    def rounded(self, m: Arithmetic, mask: npt.NDArray[np.bool_], a: F64, online: Online) -> F64:
        return round_f32(self.exact(m, mask, a, online))

    def bound(self, m: Arithmetic, mask: Mask, a: Bounded, online: Online) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shown = np.where(mask, a.value, -np.inf)
            top = shown.max(axis=1, initial=-np.inf)
            some = np.isfinite(top)
            shift = np.where(some, top, 0.0)[:, None]
            below = np.where(mask, a.value - shift, -np.inf)
            off = np.where(mask, a.errors + (U_F32 + U_F64) * (np.abs(below) + a.errors), 0.0)
            weight = np.exp2(below)
            spread = np.expm1((off + F32_MIN_NORMAL) * math.log(2.0))
            per_block = EX2_RELATIVE + online.exp_relative + 2 * U_F32
            # Rescaled at each block by a power of a difference of largest elements, which add up to `below`.
            power = (online.blocks(a.value.shape[1]) + 1) * per_block + U_F32 * np.abs(below)
            each = np.where(mask, weight * (spread * (1 + power) + power) + F32_MIN_NORMAL, 0.0)
            total = weight.sum(axis=1)
            count = max(a.value.shape[1], 1)
            error = each.sum(axis=1) + gamma(count, U_F32) * (total + each.sum(axis=1))
            log = np.log2(np.where(some, total, 1.0))
            relative = np.where(error < total / 2, error / total, np.inf)
            far = -np.log2(1 - np.minimum(relative, 0.5)) + LG2_ERROR * np.maximum(1.0, np.abs(log))
            value = shift[:, 0] + log
            found = far + (U_F32 + U_F64) * (np.abs(value) + np.abs(shift[:, 0]) + far)
            found = np.where(some & np.isfinite(relative), found, np.inf)
            return Bounded(np.where(some, value, np.inf), found, None if some.all() else ~some)

    def text(self, m: Arithmetic, mask: Formula, a: Formula, online: Online) -> Formula:
        m.operations.append("logsumexp")
        m.roundings.append("the largest subtracted, 2^x by ex2.approx.ftz.f32, f32 sum, lg2, sum to f32")
        latex = rf"\log_2 \sum_{{{mask.latex}}} 2^{{{a.latex}}}"
        return Formula(f"log2(sum where {mask.plain} of exp2({a.plain}))", latex, a.axes[:1])


class Normalised(Operation):
    """``a``, powers that were found in blocks of columns and divided by their sum at the end."""

    name = "normalised"
    error = "((blocks + 1) (EX2_RELATIVE + 2 u) + LG2_ERROR log2(columns) + 4 u) M"
    source = "PTX ISA 9.7.3.20, 9.7.3.21; `U_F32` above"

    def exact(self, m: Arithmetic, a: F64, online: Online) -> F64:
        return a

    rounded = exact

    def bound(self, m: Arithmetic, a: Bounded, online: Online) -> Bounded:
        columns = max(a.shape[1], 2)
        each = EX2_RELATIVE + online.exp_relative + 2 * U_F32
        relative = (online.blocks(columns) + 1) * each + LG2_ERROR * math.log2(columns) + 4 * U_F32
        with np.errstate(invalid="ignore", over="ignore"):
            return Bounded(a.value, a.errors + relative * a.magnitude_bound, a.may_be_nan)

    def text(self, m: Arithmetic, a: Formula, online: Online) -> Formula:
        m.roundings.append("rescaled at each block of columns, divided by the sum at the end")
        return a


OPERATIONS: tuple[Operation, ...] = (LogSumExp2(), Normalised())
