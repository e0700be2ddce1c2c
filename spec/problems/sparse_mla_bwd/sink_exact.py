"""The forward with an attention sink, in float64 (defined in `sink`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.sparse_mla_bwd import forward as plain
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs, Problem

F64 = npt.NDArray[np.float64]


def forward(inputs: Inputs, sink: Array) -> tuple[F64, F64]:
    """``o [s_q, h_q, d_v]`` and base-2 ``lse [s_q, h_q]`` in float64 of the forward with a sink ``[h_q]``."""
    o, keys = plain.forward(inputs)
    lse = contract.fold_lse(keys, sink)
    gone = np.isposinf(lse) | np.isposinf(keys)
    scale = np.where(gone, 0.0, np.exp2(np.where(gone, 0.0, keys) - np.where(gone, 0.0, lse)))
    return o * scale[:, :, None], lse


def with_forward(
    problem: Problem,
    sink: Array,
    *,
    exact: bool = False,
    topk_length: Array | None = None,
    **arrays: Array,
) -> Inputs:
    """As `forward.with_forward`, with a sink: o and lse in the kernel's dtypes, or in float64 when `exact`.

    An lse past the f32 range becomes +inf, as a forward in f32 has it.
    """
    inputs = plain.with_forward(problem, exact=True, topk_length=topk_length, **arrays)
    o, lse = forward(inputs, sink)
    if exact:
        return replace(inputs, o=o, lse=lse)
    with np.errstate(over="ignore"):
        return replace(inputs, o=o.astype(arrays["q"].dtype), lse=lse.astype(np.float32))
