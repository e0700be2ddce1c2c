"""The tiled walk: every intermediate of the backward with its coordinates, and the outputs they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tileproof.reference.evaluate import Evaluation
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling
from tileproof.spec.problems.sparse_mla_bwd.forward import forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs, Problem
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TileValue:
    """One tile of one stage.

    `rows` and `cols` are global: heads and slots for P, S, dP, dS; heads for delta (cols has length 1); heads
    and columns of q for dQ; slots and columns of kv for dKV, of which each CTA has its own heads' sum.
    `copy` is the rounded one that an MMA reads, or the output, where there is one (S, dS, dQ).
    """

    stage: str
    coord: TileCoord
    rows: slice
    cols: slice
    value: F64
    copy: F64 | None = None


@dataclass(frozen=True)
class Outputs:
    """delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]``, dKV ``[s_kv, d_qk]``, float64."""

    delta: F64
    dQ: F64
    dKV: F64


def walk(
    inputs: Inputs,
    b_topk: int = B_TOPK,
    ctas: int = 2,
    m: Any = EXACT,
    problem: ProblemType = SPARSE_MLA_BWD,
) -> Iterator[TileValue]:
    """Every tile over arithmetic `m`, token by token, in each the stages in graph order, CTAs innermost."""
    evaluation = Evaluation(problem, inputs, Tiling(b_topk, ctas), m)
    for token in range(inputs.problem.s_q):
        for name in problem.stages:
            for coord in evaluation.coordinates(name, token):
                kept = evaluation.whole(name, token, coord.cta)
                rows, cols = evaluation.region(name, coord)
                at = evaluation.span(name, token, rows, cols)
                copy = None if kept.copy is None else kept.copy[at]
                yield TileValue(name, coord, rows, cols, kept.value[at], copy)


def outputs(
    inputs: Inputs,
    b_topk: int = B_TOPK,
    ctas: int = 2,
    m: Any = EXACT,
    problem: ProblemType = SPARSE_MLA_BWD,
) -> Outputs:
    """The outputs that the walk adds up to."""
    p = inputs.problem
    evaluation = Evaluation(problem, inputs, Tiling(b_topk, ctas), m)
    delta, dQ = np.zeros((p.s_q, p.h_q)), np.zeros((p.s_q, p.h_q, p.d_qk))
    for token in range(p.s_q):
        delta[token] = evaluation.whole("delta", token).value
        kept = evaluation.whole("dQ", token)
        dQ[token] = kept.value if kept.copy is None else kept.copy
    return Outputs(delta, dQ, evaluation.scatter("dKV", np.zeros((p.s_kv, p.d_qk))))


def with_forward(problem: Problem, *, exact: bool = False, **arrays: Any) -> Inputs:
    """Inputs whose o and lse are those of the forward: in the kernel's dtypes, or in float64 when `exact`.

    `arrays` are q, kv, dO, indices and, if wanted, topk_length.
    """
    o = np.zeros((problem.s_q, problem.h_q, problem.d_v), dtype=arrays["q"].dtype)
    inputs = Inputs(problem, o=o, lse=np.zeros((problem.s_q, problem.h_q), np.float32), **arrays)
    o64, lse64 = forward(inputs)
    if exact:
        return replace(inputs, o=o64, lse=lse64)
    return replace(inputs, o=o64.astype(o.dtype), lse=lse64.astype(np.float32))
