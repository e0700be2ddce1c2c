"""Inputs for whole backwards: consistent ones from the reference's forward; ones that make every stage
exact.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem

Array = np.ndarray[Any, Any]
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
HEADS = 64
D_V = 512


def random_case(
    seed: int = 0,
    *,
    s_q: int = 2,
    s_kv: int = 150,
    d_qk: int = 576,
    topk: int = 128,
    scale: float = 1.0,
    indices: Array | None = None,
    topk_length: Array | None = None,
    heads: int = HEADS,
) -> Inputs:
    """Normal values of standard deviation `scale`; a tenth of the indices invalid unless they are given."""
    rng = np.random.default_rng(seed)

    def values(*shape: int) -> Array:
        return (rng.standard_normal(shape) * scale).astype(ml_dtypes.bfloat16)

    if indices is None:
        indices = rng.integers(0, s_kv, (s_q, topk))
        bad = rng.choice([-1, s_kv, s_kv + 7, INT_MIN, INT_MAX], (s_q, topk))
        indices = np.where(rng.random((s_q, topk)) < 0.1, bad, indices).astype(np.int32)
    return with_forward(
        Problem(s_q, s_kv, heads, d_qk, topk, sm_scale=d_qk**-0.5),
        q=values(s_q, heads, d_qk),
        kv=values(s_kv, d_qk),
        dO=values(s_q, heads, D_V),
        indices=indices,
        topk_length=topk_length,
    )


def exact_case(
    seed: int = 0, *, s_q: int = 2, s_kv: int = 70, d_qk: int = 576, topk: int = 128, heads: int = HEADS
) -> Inputs:
    """Every stage is exact in f32 and in bf16: column pairs of q cancel against equal ones of kv, so that
    P = 0, S = 2^-lse, and dP, delta, dS, dQ and dKV are small integers times a power of two. o and lse are
    free.
    """
    rng = np.random.default_rng(seed)

    def integers(low: int, high: int, *shape: int) -> Array:
        return rng.integers(low, high + 1, shape).astype(np.float32)

    half = integers(-3, 3, s_q, heads, d_qk // 2)
    q = np.stack([half, -half], axis=-1).reshape(s_q, heads, d_qk)
    kv = np.repeat(integers(-2, 2, s_kv, d_qk // 2), 2, axis=-1)
    # Few columns of dO, so that dP - delta stays below 2^8 and dS is exact in bf16.
    dO = integers(-1, 1, s_q, heads, D_V) * (rng.random((s_q, heads, D_V)) < 1 / 16)
    indices = rng.integers(-2, s_kv + 2, (s_q, topk)).astype(np.int32)
    bf16 = ml_dtypes.bfloat16
    return Inputs(
        Problem(s_q, s_kv, heads, d_qk, topk, sm_scale=2.0**-3),
        q=q.astype(bf16),
        kv=kv.astype(bf16),
        o=integers(-1, 1, s_q, heads, D_V).astype(bf16),
        dO=dO.astype(bf16),
        lse=integers(0, 3, s_q, heads),
        indices=indices,
    )
