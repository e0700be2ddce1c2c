"""Bounds over more than one stage: what the roundings of earlier stages may add up to further down the chain.

A stage's own bound (`spec.numerics`) takes the inputs that the kernel had. Where an input is known only to
within an error e, |f(x') - f(x)| is bounded in closed form, not to first order, and the stage's own bound is
taken at |x| + e, in which it is monotone. Names: ``e_X`` is the error of X.

    e_P   = bound_P                                                    (ground data are exact)
    e_S   = S (2^(off + e_P sm_scale log2(e)) - 1) and ex2.approx      (exp2(x + d) - exp2(x))
    e_D   = e_dP + e_delta                                             (D = dP - delta)
    e_dS  = sm_scale (e_S (|D| + e_D) + |S| e_D) + bound_dS at |S| + e_S, |D| + e_D
    e_dQ  = e_dS |k| + n-term sum at |dS| + e_dS, then bf16
    e_dKV = e_S^T |dO| + e_dS^T |q| + n-term sums, then f32 additions to global memory
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.spec import numerics
from tileproof.spec.numerics import (
    EX2_RELATIVE,
    F32_MAX,
    F32_MIN_NORMAL,
    F32_TINY,
    LOG2_E,
    U_F32,
    U_F32_RZ,
    U_F64,
    gamma,
)
from tileproof.spec.problems.sparse_mla_bwd.inputs import Array, Inputs, key_mask, lengths
from tileproof.spec.problems.sparse_mla_bwd.tiling import rows_of

F64 = npt.NDArray[np.float64]
_NO_UNIT = 4096  # numerics.lowest_bit of 0


def bound_dS_of_P(P: Array, lse: Array, mask: Array, dP: Array, delta: Array, sm_scale: float) -> F64:
    """``[h, j]``: bound of dS (bf16 operand) against S (dP - delta) sm_scale with S the exact one of P.

    For kernels whose f32 S never leaves their registers: it is within `bound_S` of the exact one. P, dP ``[h,
    j]``, lse, delta ``[h]``, mask ``[j]``.
    """
    s, e_s = softmax(np.asarray(P, np.float64), np.zeros(()), lse, mask, sm_scale)
    difference = np.asarray(dP, np.float64) - np.asarray(delta, np.float64)[:, None]
    return gradient(s, e_s, difference, np.zeros(()), sm_scale)


@dataclass
class RowSums:
    """Rows of dKV ``[s_kv, d_qk]`` as sums of contributions, and what f32 additions in any order may give."""

    value: F64
    magnitude: F64
    error: F64
    unit: npt.NDArray[np.int64]
    additions: F64

    @staticmethod
    def of(s_kv: int, d_qk: int) -> RowSums:
        """No contribution yet: every row is 0."""
        value, magnitude, error = (np.zeros((s_kv, d_qk)) for _ in range(3))
        return RowSums(value, magnitude, error, np.full((s_kv, d_qk), _NO_UNIT), np.zeros((s_kv, 1)))

    def add(self, rows: Array, values: Array, errors: Array | None = None) -> None:
        """Adds ``values [n, d_qk]``, within their `errors` (0), to `rows` ``[n]``, which may repeat."""
        contribution = np.asarray(values, np.float64)
        np.add.at(self.value, rows, contribution)
        np.add.at(self.magnitude, rows, np.abs(contribution))
        np.add.at(self.additions, rows, 1.0)
        if errors is not None:
            np.add.at(self.error, rows, errors)
        if errors is None or not np.asarray(errors).all():
            finite = np.isfinite(contribution)
            np.minimum.at(self.unit, rows, numerics.lowest_bit(np.where(finite, contribution, 0.0)))

    def exact(self) -> npt.NDArray[np.bool_]:
        """Where f32 additions are exact in any order, even if subnormals are flushed.

        All contributions are known, multiples of one unit >= 2^-126, and their magnitudes sum to 2^24 units
        at most, inside f32's range.
        """
        most = np.minimum(np.ldexp(1.0, np.minimum(24 + self.unit, 1000)), F32_MAX)
        fits = (self.magnitude <= most) & (self.unit >= -126)
        return (self.error == 0) & ((self.magnitude == 0) | fits)

    def bound(self) -> F64:
        """Bound of the rows in memory: 0 where exact or never added to, else `numerics.bound_scatter`."""
        bound = numerics.bound_scatter(self.magnitude, self.error, self.additions)
        return np.where(self.exact() | (self.additions == 0), 0.0, bound)


@dataclass(frozen=True)
class Known:
    """A float64 value and how far a correct kernel's may be from it, of one shape."""

    value: F64
    error: F64


@dataclass(frozen=True)
class ChainOutputs:
    """The outputs of the whole chain: delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]``, dKV ``[s_kv, d_qk]``."""

    delta: Known
    dQ: Known
    dKV: Known


def outputs(inputs: Inputs, ctas: int = 2, b_topk: int = 64) -> ChainOutputs:
    """Every output in float64 with the composed bound of a kernel that rounds as the stage graph says.

    dKV: each of `ctas` CTAs adds its own heads' sum of a tile of `b_topk` slots to global memory.
    """
    p = inputs.problem
    delta = Known(np.zeros((p.s_q, p.h_q)), np.zeros((p.s_q, p.h_q)))
    dQ = Known(np.zeros((p.s_q, p.h_q, p.d_qk)), np.zeros((p.s_q, p.h_q, p.d_qk)))
    sums = RowSums.of(p.s_kv, p.d_qk)
    mask, count = key_mask(inputs), lengths(inputs)
    for token in range(p.s_q):
        o, dO, q = (np.asarray(x[token], np.float64) for x in (inputs.o, inputs.dO, inputs.q))
        delta.value[token] = np.einsum("hd,hd->h", o, dO)
        delta.error[token] = numerics.bound_delta(o, dO)
        slots = np.flatnonzero(mask[token])
        if slots.size == 0:
            continue
        k = np.asarray(inputs.kv[inputs.indices[token, slots]], np.float64)
        v, every = k[:, : p.d_v], np.ones(slots.size, bool)
        S, e_S = softmax(q @ k.T, numerics.bound_P(q, k), inputs.lse[token], every, p.sm_scale)
        D = dO @ v.T - delta.value[token][:, None]
        e_D = numerics.bound_dP(dO, v) + delta.error[token][:, None]
        dS, e_dS = S * D * p.sm_scale, gradient(S, e_S, D, e_D, p.sm_scale)
        # MMAs walk whole tiles: zeros for slots that are no key.
        walked = -(-int(count[token]) // b_topk) * b_topk
        dQ.value[token] = dS @ k
        dQ.error[token] = _accumulated(dS, e_dS, k, walked)
        e_S = numerics._bf16_copy(S, e_S)
        rows = inputs.indices[token, slots]
        for cta in range(ctas):
            heads = rows_of(p, cta, ctas)
            sums.add(rows, *_contribution(S, e_S, dS, e_dS, q, dO, heads))
    return ChainOutputs(delta, dQ, Known(sums.value, sums.bound()))


def softmax(P: F64, e_P: F64, lse: Array, mask: Array, sm_scale: float) -> tuple[F64, F64]:
    """S in float64 and the error of the f32 S of a P within `e_P`; 0 where no key (numerics.bound_S)."""
    shift = np.asarray(lse, np.float64)[:, None]
    key = np.broadcast_to(np.asarray(mask, bool)[None, :], P.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        product = (np.abs(P) + e_P) * (sm_scale * LOG2_E)
        off = (gamma(5, U_F32) + gamma(6, U_F64)) * product + gamma(2, U_F32) * np.abs(shift) + F32_MIN_NORMAL
        off = off + e_P * (sm_scale * LOG2_E)
        S = np.exp2(P * sm_scale * LOG2_E - shift)
        error = S * (np.expm1(off * math.log(2.0)) * (1 + EX2_RELATIVE) + EX2_RELATIVE) + F32_MIN_NORMAL
        largest = np.maximum(S + error, np.maximum(product, np.abs(shift)) * (1 + gamma(5, U_F32)))
        error = _finite(error, largest)
    return np.where(key, S, 0.0), np.where(key, error, 0.0)


def gradient(S: F64, e_S: F64, D: F64, e_D: F64, sm_scale: float) -> F64:
    """Error of the bf16 dS = S D sm_scale when S and D = dP - delta are known within `e_S` and `e_D`."""
    with np.errstate(invalid="ignore", over="ignore"):
        most_S, most_D = np.abs(S) + e_S, np.abs(D) + e_D
        passed_on = sm_scale * (e_S * most_D + np.abs(S) * e_D)
        own = numerics.bound_dS(most_S, most_D, np.zeros(len(S)), sm_scale)
        error = _finite(passed_on + own, np.abs(passed_on))
    return np.where((S == 0) & (e_S == 0) & np.isfinite(most_D), 0.0, error)


def _sum_error(magnitude: F64, terms: int) -> F64:
    """Error of `terms` products accumulated in the tensor core's f32 (numerics.bound_matmul, never exact)."""
    error = (gamma(terms, U_F32_RZ) + gamma(terms, U_F64)) * magnitude + terms * F32_TINY
    return _finite(error, magnitude + error)


def _aligned(x: F64) -> F64:
    return np.where(x == 0, 0.0, np.maximum(np.abs(x), F32_MIN_NORMAL))


def _accumulated(dS: F64, e_dS: F64, k: F64, walked: int) -> F64:
    """Error of dQ in bf16, from dS within `e_dS` over `walked` slots."""
    with np.errstate(invalid="ignore", over="ignore"):
        passed_on = e_dS @ np.abs(k)
        error = passed_on + _sum_error(_aligned(np.abs(dS) + e_dS) @ _aligned(k), walked)
        return numerics._bf16_copy(dS @ k, np.where(np.isnan(error), np.inf, error))


def _contribution(S: F64, e_S: F64, dS: F64, e_dS: F64, q: F64, dO: F64, heads: slice) -> tuple[F64, F64]:
    """What `heads` add to the rows of dKV, ``[j, d_qk]``, and its error before the addition."""
    d_v, h = dO.shape[-1], heads.stop - heads.start
    value, error, most = (np.zeros((S.shape[1], q.shape[-1])) for _ in range(3))
    pairs = (
        (dS[heads], e_dS[heads], q[heads], slice(None)),
        (S[heads], e_S[heads], dO[heads], slice(0, d_v)),
    )
    with np.errstate(invalid="ignore", over="ignore"):
        for a, e_a, b, columns in pairs:
            value[:, columns] += a.T @ b
            error[:, columns] += e_a.T @ np.abs(b)
            most[:, columns] += _aligned(np.abs(a) + e_a).T @ _aligned(b)
        error[:, :d_v] += _sum_error(most[:, :d_v], 2 * h)
        error[:, d_v:] += _sum_error(most[:, d_v:], h)
    return value, np.where(np.isnan(error), np.inf, error)


def _finite(error: F64, largest: F64) -> F64:
    return np.where(np.isfinite(error) & (largest <= F32_MAX), error, np.inf)
