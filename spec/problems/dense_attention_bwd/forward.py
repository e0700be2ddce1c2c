"""The forward in float64: the backward's inputs o and lse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.dense_attention_bwd.inputs import DTYPES, DenseProblem, Inputs

F64 = npt.NDArray[np.float64]


def forward(inputs: Inputs) -> tuple[F64, F64]:
    """``o [b, m, h, d_v]`` and natural ``lse [b, h, m]``; a query that sees no key: o = 0, lse = +inf."""
    p = inputs.problem
    o, lse = np.zeros((p.b, p.m, p.h, p.d_v)), np.full((p.b, p.h, p.m), np.inf)
    for sequence, seen in zip(p.sequences, inputs.masks, strict=True):
        rows = seen.any(axis=1)
        if not rows.any():
            continue
        for head in range(p.h):
            at = sequence.batch, sequence.queries, head
            k, v = (
                x[sequence.batch, sequence.keys, head // p.heads].astype(np.float64)
                for x in (inputs.k, inputs.v)
            )
            logits = inputs.q[at].astype(np.float64) @ k.T * p.sm_scale
            if inputs.bias is not None:
                logits = logits + inputs.bias[sequence.batch, head, sequence.queries, sequence.keys].astype(
                    np.float64
                )
            logits = np.where(seen, logits, -np.inf)[rows]
            top = logits.max(axis=1, keepdims=True)
            weights = np.exp(logits - top)
            total = weights.sum(axis=1, keepdims=True)
            kept = inputs.kept[sequence.batch, head, sequence.queries, sequence.keys][rows]
            weights = np.where(kept, weights / total * p.dropout.rescale, 0.0)
            mine = np.zeros((sequence.m, p.d_v))
            mine[rows] = weights @ v
            o[at] = mine
            lse[sequence.batch, head, sequence.queries][rows] = (top + np.log(total))[:, 0]
    return o, lse


def with_forward(
    problem: DenseProblem, *, exact: bool = False, bias: Array | None = None, **arrays: Array
) -> Inputs:
    """Inputs whose o and lse are those of the forward: in the kernel's dtypes, or in float64 when `exact`.

    `arrays` are q, k, v and dO.
    """
    shapes = problem.shapes()
    blank = {name: np.zeros(shapes[name][0], shapes[name][1]) for name in ("o", "lse")}
    inputs = Inputs(problem, bias=bias, **blank, **arrays)
    o, lse = forward(inputs)
    if exact:
        return replace(inputs, o=o, lse=lse)
    with np.errstate(over="ignore"):
        return replace(inputs, o=o.astype(DTYPES[problem.form]), lse=lse.astype(np.float32))
