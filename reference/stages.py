"""The seven stages as functions: each loads, computes, rounds and stores as the stage graph says.

With the default rounding all of it is float64. Functions take one tile: heads ``[h, ...]`` and slots ``[j,
...]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference.rounding import EXACT, Rounding

F64 = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def _f64(x: Array) -> F64:
    return np.asarray(x).astype(np.float64)


def delta(o: Array, dO: Array, rounding: Rounding = EXACT) -> F64:
    """``[h]``: rowsum(o * dO); o, dO ``[h, d_v]``."""
    # LOAD
    o64, do64 = _f64(o), _f64(dO)
    # COMPUTE, ROUND, STORE
    return rounding.rowsum(o64, do64)


def P(q: Array, k: Array, rounding: Rounding = EXACT) -> F64:
    """``[h, j]``: q k^T; q ``[h, d_qk]``, k ``[j, d_qk]`` with zero rows where no key."""
    # LOAD
    q64, k64 = _f64(q), _f64(k)
    # COMPUTE, ROUND, STORE
    return rounding.matmul(q64, k64.T)


def S(P: Array, lse: Array, mask: Array, sm_scale: float, rounding: Rounding = EXACT) -> F64:
    """``[h, j]``: exp2(P sm_scale log2(e) - lse), 0 where no key; P ``[h, j]``, lse ``[h]``, mask ``[j]``."""
    # LOAD
    p, shift = _f64(P), _f64(lse)[:, None]
    # COMPUTE, ROUND: lse may be infinite where nothing is a key
    key = np.broadcast_to(np.asarray(mask, dtype=bool)[None, :], p.shape)
    value = rounding.softmax(np.where(key, p, 0.0), np.where(key, shift, 0.0), sm_scale)
    # STORE
    return np.where(key, value, 0.0)


def dP(dO: Array, v: Array, rounding: Rounding = EXACT) -> F64:
    """``[h, j]``: dO v^T; dO ``[h, d_v]``, v ``[j, d_v]``."""
    # LOAD
    do64, v64 = _f64(dO), _f64(v)
    # COMPUTE, ROUND, STORE
    return rounding.matmul(do64, v64.T)


def dS(S: Array, dP: Array, delta: Array, sm_scale: float, rounding: Rounding = EXACT) -> F64:
    """``[h, j]``: S (dP - delta) sm_scale before its bf16 copy; S, dP ``[h, j]``, delta ``[h]``."""
    # LOAD
    s, dp, d = _f64(S), _f64(dP), _f64(delta)[:, None]
    # COMPUTE, ROUND, STORE
    return rounding.gradient(s, dp, d, sm_scale)


def dQ(dS: Array, k: Array, accumulator: Array | None = None, rounding: Rounding = EXACT) -> F64:
    """``[h, d_qk]``: accumulator + dS k; dS ``[h, j]`` (operand copy), k ``[j, d_qk]``."""
    # LOAD
    ds, rows = _f64(dS), _f64(k)
    # COMPUTE, ROUND, STORE
    return rounding.matmul(ds, rows, None if accumulator is None else _f64(accumulator))


def dKV(S: Array, dO: Array, dS: Array, q: Array, rounding: Rounding = EXACT) -> F64:
    """``[j, d_qk]``: dS^T q, plus S^T dO in the first d_v columns; S, dS ``[h, j]`` operand copies."""
    # LOAD
    s, ds, do64, q64 = _f64(S), _f64(dS), _f64(dO), _f64(q)
    d_v = do64.shape[-1]
    # COMPUTE, ROUND
    value = np.empty((s.shape[1], q64.shape[-1]))
    value[:, :d_v] = rounding.matmul(ds.T, q64[:, :d_v], rounding.matmul(s.T, do64))
    value[:, d_v:] = rounding.matmul(ds.T, q64[:, d_v:])
    # STORE
    return value
