"""The oracle of dense attention: torch autograd in float64 through an explicit mask, bias and dropout.

It shares nothing with the tiled reference but what the mask and the dropout let through: no tiles, no lse, no
delta, no formula of a gradient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs

F64 = npt.NDArray[np.float64]


def gradients(inputs: Inputs) -> dict[str, F64]:
    """delta ``[b, h, m]``, dQ ``[b, h, m, d_qk]``, dK ``[b, h_kv, n, d_qk]``, dV ``[b, h_kv, n, d_v]`` and dB
    ``[b, h, m, n]`` (o and lse are not used); queries that see no key give zeros.
    """
    p = inputs.problem

    def leaf(array: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.tensor(array.astype(np.float64), requires_grad=True)

    q, k, v = (leaf(x.swapaxes(1, 2)) for x in (inputs.q, inputs.k, inputs.v))
    bias = leaf(np.zeros((p.b, p.h, p.m, p.n)) if inputs.bias is None else inputs.bias)
    dO = torch.tensor(inputs.dO.swapaxes(1, 2).astype(np.float64))
    o = torch.zeros(p.b, p.h, p.m, p.d_v, dtype=torch.float64)
    for one, seen in zip(p.sequences, inputs.masks, strict=True):
        rows = torch.tensor(np.flatnonzero(seen.any(axis=1))) + one.queries.start
        if not len(rows):
            continue
        mask = torch.tensor(seen[seen.any(axis=1)])
        for head in range(p.h):
            at, kv = (one.batch, head), (one.batch, head // p.heads, one.keys)
            scores = q[at][rows] @ k[kv].T * p.sm_scale + bias[at][rows][:, one.keys]
            weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
            kept = torch.tensor(np.ascontiguousarray(inputs.kept[at]))[rows][:, one.keys]
            out = (weights * kept * p.dropout.rescale) @ v[kv]
            o = o.index_put((torch.tensor(one.batch), torch.tensor(head), rows), out)
    if o.requires_grad:
        (o * dO).sum().backward()  # type: ignore[no-untyped-call]
    found = {"delta": (o.detach() * dO).sum(-1).numpy()}
    for name, leaf_ in (("dQ", q), ("dK", k), ("dV", v), ("dB", bias)):
        found[name] = np.zeros(leaf_.shape) if leaf_.grad is None else leaf_.grad.numpy()
    return found
