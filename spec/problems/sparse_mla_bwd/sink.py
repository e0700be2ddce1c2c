"""The attention sink: an optional learned logit per head that joins the softmax denominator, without a value.

The backward kernel does not see the sink. It enters through the inputs `lse` and `o` (and so delta), both of
which the forward scales; every stage of the stage graph stays as it is. Only the sink's own gradient is new,
and it is a sum over tokens of values that the kernel outputs or was given, so no kernel stage computes it.

With x = sink * log2(e), the sink's logit in base 2, and lse_keys the log2-sum-exp2 over the keys alone::

    lse  = log2(2^lse_keys + 2^x)                        of a forward with the sink
    o    = o_keys * 2^(lse_keys - lse)
    p    = 2^(x - lse)                                   the sink's share of the softmax
    d_sink[h] = -sum over tokens t of p[t, h] * delta[t, h]

The last line: dS_j of the softmax probability S_j by the sink's logit is -S_j p, so the loss changes by
-p sum_j S_j dP_j = -p delta. It holds in natural units, as `sink` is given, without sm_scale.

Limits (cudnn-frontend PRs 877, 940 and 1048 settle them in the same way): sink -inf is no sink, p = 0 and
nothing changes; sink +inf, or a finite one whose x is past the largest f32 (2.4e38 is, 2e38 is not), owns
all mass, p = 1, lse = +inf, o = 0; a token without keys has o = 0, delta = 0 and lse = x (without a
sink +inf), so that it adds nothing to d_sink. None of them makes a NaN: p is 2^min(x - lse, 0), and inf - inf
is decided before it is formed. Where |x| nears 2^24 an f32 lse hardly says what p is, and the bound says so;
with all mass on the sink's side delta is 0, with all on the keys' p is, so their product is right even then.

Some forwards return the lse of the keys alone beside an o that has the sink in it (FlashMLA's
flash_mla_sparse_fwd, by the docstring of its attn_sink): `fold_lse` adds the sink.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import (
    EX2_RELATIVE,
    F32_MAX,
    F32_MIN_NORMAL,
    F32_TINY,
    LOG2_E,
    U_F32,
    U_F64,
    gamma,
)

F64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Steps:
    """What a computation does, in four fixed steps."""

    load: str
    compute: str
    round: str
    store: str


FORMULA = "-sum over tokens of 2^(sink * log2(e) - lse) * delta"
STEPS = Steps(
    load="sink [h_q], natural units; lse, base 2, with the sink in it, and delta, both [s_q, h_q]; all f32",
    compute="p = 2^min(sink * log2(e) - lse, 0), or 0 and 1 in the limits; minus the sum of p * delta",
    round="log2(e), the product and the difference to f32; p by ex2.approx; each product and addition to f32",
    store="d_sink [h_q] f32",
)


def base2(sink: Array) -> F64:
    """``[h_q]`` float64: the sink's logit in base 2; +-inf where it is past the f32 range."""
    x = np.asarray(sink, dtype=np.float64) * LOG2_E
    return np.where(np.abs(x) > F32_MAX, np.copysign(np.inf, x), x)


def fold_lse(lse_keys: Array, sink: Array) -> F64:
    """``[s_q, h_q]`` float64: lse with the sink, from that of the keys alone, both in base 2.

    A token without any key may come as -inf (the empty sum) or +inf (this project's definition); without a
    sink it stays +inf.
    """
    keys = np.asarray(lse_keys, dtype=np.float64)
    empty_is_minus = np.where(np.isposinf(keys), -np.inf, keys)
    with np.errstate(invalid="ignore"):
        both = np.logaddexp2(empty_is_minus, np.broadcast_to(base2(sink), keys.shape))
    return np.where(np.isneginf(both), np.inf, both)


def share(lse: Array, sink: Array) -> F64:
    """``[s_q, h_q]`` float64 in [0, 1]: p = 2^(sink log2(e) - lse), with the limits of the module's page."""
    shift = np.asarray(lse, dtype=np.float64)
    x = np.broadcast_to(base2(sink), shift.shape)
    certain = np.isinf(x)
    difference = np.where(certain, 0.0, x) - shift
    return np.where(certain, np.where(x > 0, 1.0, 0.0), np.exp2(np.minimum(difference, 0.0)))


def validate(lse: Array, delta: Array, sink: Array) -> None:
    """Raise TileproofError unless these are the inputs of d_sink.

    Shapes and f32 dtypes must fit, sink must hold no NaN, and lse must not lie below the sink's own logit:
    then the lse is that of the keys alone. The slack is one, twice the share, beside the rounding of lse to
    f32.
    """
    for name, array, ndim in (("lse", lse, 2), ("delta", delta, 2), ("sink", sink, 1)):
        if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.ndim != ndim:
            raise TileproofError(
                f"{name} is not what d_sink takes",
                where=name,
                expected=f"float32 {'[s_q, h_q]' if ndim == 2 else '[h_q]'}",
                found=f"{getattr(array, 'dtype', type(array).__name__)} {list(getattr(array, 'shape', ()))}",
            )
    if lse.shape != delta.shape or sink.shape != lse.shape[1:]:
        raise TileproofError(
            "the shapes of lse, delta and sink do not belong together",
            where="sink",
            expected="lse [s_q, h_q], delta [s_q, h_q], sink [h_q]",
            found=f"lse {list(lse.shape)}, delta {list(delta.shape)}, sink {list(sink.shape)}",
        )
    for name, array in (("lse", lse), ("delta", delta), ("sink", sink)):
        if np.isnan(array).any():
            at = [int(i) for i in np.argwhere(np.isnan(array))[0]]
            raise TileproofError(f"{name} holds NaN", where=f"{name}{at}")
    x = np.broadcast_to(base2(sink), lse.shape)
    slack = 1.0 + np.where(np.isfinite(x), np.abs(x), 0.0) * 2.0**-22
    below = lse.astype(np.float64) < x - slack
    if below.any():
        t, h = (int(i) for i in np.argwhere(below)[0])
        raise TileproofError(
            "lse lies below the sink's own logit: it is the lse of the keys alone",
            where=f"lse[{t}, {h}]",
            expected=f"at least sink * log2(e) = {x[t, h]:.6g}",
            found=f"{lse[t, h]:.6g}",
            do="add the sink with tileproof.spec.problems.sparse_mla_bwd.sink.fold_lse(lse, sink)",
        )


def bound_d_sink(lse: Array, delta: Array, sink: Array) -> F64:
    """``[h_q]``: bound of d_sink computed in f32, token terms added in any order.

    A term is off by ``|delta| (p (2^off - 1 + EX2_RELATIVE) + 2^-126)`` with off the error of the exponent,
    three roundings on sink * log2(e) and one on the difference; then ``gamma(s_q + 1, U_F32) sum|terms|`` for
    the product and the additions. +inf where a sum of magnitudes is past the f32 range.
    """
    shift, d = np.asarray(lse, dtype=np.float64), np.abs(np.asarray(delta, dtype=np.float64))
    x = np.broadcast_to(base2(sink), shift.shape)
    p = share(lse, sink)
    finite = np.isfinite(x) & np.isfinite(shift)
    size = np.where(finite, np.abs(x), 0.0), np.where(finite, np.abs(shift), 0.0)
    off = (gamma(4, U_F32) + gamma(4, U_F64)) * size[0] + gamma(2, U_F32) * size[1] + F32_MIN_NORMAL
    with np.errstate(over="ignore", invalid="ignore"):
        term = p * (np.expm1(off * math.log(2.0)) * (1 + EX2_RELATIVE) + EX2_RELATIVE) + F32_MIN_NORMAL
        # The two limits are decided, not computed.
        wrong = (d * np.where(np.isinf(x) | np.isinf(shift), 0.0, term)).sum(axis=0)
        magnitude = (d * p).sum(axis=0) + wrong
        n = shift.shape[0] + 1
        bound = wrong + (gamma(n, U_F32) + gamma(n, U_F64)) * magnitude + n * F32_TINY
    return np.where(magnitude + bound <= F32_MAX, bound, np.inf)
