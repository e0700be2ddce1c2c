"""Small inputs of the right shapes, without values that matter: these tests launch nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem


def make_inputs(s_q: int = 3, s_kv: int = 100, d_qk: int = 576, topk: int = 128, h_q: int = 128) -> Inputs:
    """Zeros of the shapes of `Problem`, indices 0..topk."""
    problem = Problem(s_q=s_q, s_kv=s_kv, h_q=h_q, d_qk=d_qk, topk=topk, sm_scale=0.1)

    def bf16(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=ml_dtypes.bfloat16)

    return Inputs(
        problem,
        q=bf16(s_q, h_q, d_qk),
        kv=bf16(s_kv, d_qk),
        o=bf16(s_q, h_q, 512),
        dO=bf16(s_q, h_q, 512),
        lse=np.zeros((s_q, h_q), dtype=np.float32),
        indices=np.tile(np.arange(topk, dtype=np.int32), (s_q, 1)),
    )
