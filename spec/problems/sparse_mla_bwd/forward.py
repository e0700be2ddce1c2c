"""The forward of the attention in float64: the backward's inputs o and lse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem, key_mask

F64 = npt.NDArray[np.float64]


def forward(inputs: Inputs) -> tuple[F64, F64]:
    """``o [s_q, h_q, d_v]`` and base-2 ``lse [s_q, h_q]`` in float64; no key: o = 0, lse = +inf."""
    p = inputs.problem
    mask = key_mask(inputs)
    o, lse = np.zeros((p.s_q, p.h_q, p.d_v)), np.full((p.s_q, p.h_q), np.inf)
    for token in range(p.s_q):
        if not mask[token].any():
            continue
        k = inputs.kv[inputs.indices[token][mask[token]]].astype(np.float64)
        logits = inputs.q[token].astype(np.float64) @ k.T * (p.sm_scale * LOG2_E)
        top = logits.max(axis=1, keepdims=True)
        weights = np.exp2(logits - top)
        total = weights.sum(axis=1, keepdims=True)
        o[token] = weights / total @ k[:, : p.d_v]
        lse[token] = (top + np.log2(total))[:, 0]
    return o, lse


def with_forward(
    problem: Problem, *, exact: bool = False, topk_length: Array | None = None, **arrays: Array
) -> Inputs:
    """Inputs whose o and lse are those of the forward: in the kernel's dtypes, or in float64 when `exact`.

    `arrays` are q, kv, dO and indices.
    """
    o = np.zeros((problem.s_q, problem.h_q, problem.d_v), dtype=arrays["q"].dtype)
    lse = np.zeros((problem.s_q, problem.h_q), np.float32)
    inputs = Inputs(problem, o=o, lse=lse, topk_length=topk_length, **arrays)
    o64, lse64 = forward(inputs)
    if exact:
        return replace(inputs, o=o64, lse=lse64)
    return replace(inputs, o=o64.astype(o.dtype), lse=lse64.astype(np.float32))
