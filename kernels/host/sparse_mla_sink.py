"""d_sink on the host, in f32: a reduction over tokens of what the backward kernel outputs and was given.

It reads 8 bytes and does four operations per token and head, 1 KB per token against the 0.5 MB of q, o, dO
and dQ that the backward kernel moves for it, so it needs no kernel of its own. It rounds as a kernel would.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import F32_MIN_NORMAL, LOG2_E
from tileproof.spec.problems.sparse_mla_bwd import sink as contract

F32 = npt.NDArray[np.float32]


def d_sink(lse: Array, delta: Array, sink: Array) -> F32:
    """``[h_q]`` f32 from lse, delta ``[s_q, h_q]`` f32 and sink ``[h_q]`` f32 (natural logits).

    TileproofError on other shapes or dtypes, NaN, or an lse without the sink in it (the problem's `sink`).
    """
    contract.validate(lse, delta, sink)
    with np.errstate(over="ignore", invalid="ignore"):
        x = sink * np.float32(LOG2_E)
        difference = np.minimum(x[None, :] - lse, np.float32(0.0))
    # exp2 rounded once: the accuracy of numpy's own f32 exp2 depends on the machine.
    p = np.exp2(np.where(np.isinf(x), 0.0, difference).astype(np.float64)).astype(np.float32)
    p = np.where(p < F32_MIN_NORMAL, np.float32(0.0), p)
    p = np.where(np.isinf(x), (x > 0).astype(np.float32), p)
    return -(p * delta).sum(axis=0, dtype=np.float32)
