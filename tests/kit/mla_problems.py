"""Small problems of sparse MLA's backward as Hypothesis strategies, and the stages over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from tileproof.reference.tile import TileValue
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.problems.base import ProblemType, Tiling
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

from tests.kit.evaluated import outputs_over, tiles_over

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
OUTPUTS = ("delta", "dQ", "dKV")
WHOLE = Tiling(64, 2)
ONE_CTA = Tiling(64, 1)


def walk(inputs: Inputs, m: Any = EXACT) -> Iterator[TileValue]:
    """Every tile, the heads shared out over two CTAs."""
    return tiles_over(inputs, problem=SPARSE_MLA_BWD, tiling=WHOLE, m=m)


def outputs(
    inputs: Inputs,
    *,
    m: Any = EXACT,
    problem: ProblemType = SPARSE_MLA_BWD,
    tiling: Tiling = WHOLE,
    dtype: type = float,
) -> dict[str, np.ndarray]:
    """delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]`` and dKV ``[s_kv, d_qk]`` of the stages."""
    return outputs_over(inputs, OUTPUTS, problem=problem, tiling=tiling, m=m, dtype=dtype)


def indices(rng: np.random.Generator, pattern: str, s_q: int, topk: int, s_kv: int) -> np.ndarray:
    """``int32 [s_q, topk]`` of one pattern; `holes` mixes every kind of value that is no key."""
    rows = rng.integers(0, s_kv, (s_q, topk))
    if pattern == "identity":
        rows = np.broadcast_to(np.arange(topk), (s_q, topk)).copy()
    elif pattern == "reversed":
        rows = np.broadcast_to(np.arange(topk)[::-1], (s_q, topk)).copy()
    elif pattern == "same":
        rows[:] = rng.integers(0, s_kv)
    elif pattern == "none":
        rows[:] = rng.choice([-1, s_kv, INT_MIN, INT_MAX], (s_q, topk))
    elif pattern == "holes":
        holes = rng.random((s_q, topk)) < 0.5
        rows = np.where(holes, rng.choice([-1, s_kv, s_kv + 7, INT_MIN, INT_MAX], (s_q, topk)), rows)
    return np.clip(rows, INT_MIN, INT_MAX).astype(np.int32)


@st.composite
def problems(draw: st.DrawFn, exact: bool = False, scales: tuple[float, ...] = (1.0, 1e-3, 8.0)) -> Inputs:
    """Inputs with consistent o and lse: in the kernel's dtypes, or o and lse in float64 when `exact`."""
    problem = Problem(
        s_q=draw(st.integers(1, 3)),
        s_kv=draw(st.sampled_from([1, 2, 63, 64, 65, 200])),
        h_q=draw(st.sampled_from([64, 128])),
        d_qk=draw(st.sampled_from([512, 576])),
        topk=draw(st.sampled_from([64, 128, 192])),
        sm_scale=draw(st.sampled_from([576**-0.5, 0.125, 1.0 / 512])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from(scales))

    def values(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(ml_dtypes.bfloat16)

    pattern = draw(st.sampled_from(["identity", "reversed", "random", "same", "holes", "none"]))
    topk_length = None
    if draw(st.booleans()):
        ends = [0, 1, 63, 64, 65, problem.topk - 1, problem.topk, problem.topk + 1, -1, INT_MAX]
        topk_length = rng.choice(ends, problem.s_q).astype(np.int32)
    return with_forward(
        problem,
        exact=exact,
        q=values(problem.s_q, problem.h_q, problem.d_qk),
        kv=values(problem.s_kv, problem.d_qk),
        dO=values(problem.s_q, problem.h_q, problem.d_v),
        indices=indices(rng, pattern, problem.s_q, problem.topk, problem.s_kv),
        topk_length=topk_length,
    )
