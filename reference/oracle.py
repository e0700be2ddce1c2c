"""The oracle: torch autograd in float64 through ``softmax(scale * q k^T) v`` over the selected keys.

It shares nothing with the tiled reference but the definition of a key: no tiles, no lse, no delta, no formula
of a gradient. torch is imported here and nowhere else in the reference.
"""

from __future__ import annotations

import numpy as np
import torch
from tileproof.reference.walk import Outputs
from tileproof.spec.problem import Inputs, key_mask


def gradients(inputs: Inputs) -> Outputs:
    """delta, dQ and dKV of `inputs` (o and lse are not used); tokens without a key give zeros."""
    p = inputs.problem
    mask = key_mask(inputs)
    q = torch.tensor(inputs.q.astype(np.float64), requires_grad=True)
    kv = torch.tensor(inputs.kv.astype(np.float64), requires_grad=True)
    dO = torch.tensor(inputs.dO.astype(np.float64))
    outs = []
    for token in range(p.s_q):
        keys = torch.tensor(inputs.indices[token][mask[token]].astype(np.int64))
        if keys.numel() == 0:
            outs.append(torch.zeros(p.h_q, p.d_v, dtype=torch.float64))
            continue
        k = kv[keys]
        outs.append(torch.softmax(q[token] @ k.T * p.sm_scale, dim=-1) @ k[:, : p.d_v])
    o = torch.stack(outs)
    (o * dO).sum().backward() if o.requires_grad else None  # type: ignore[no-untyped-call]
    return Outputs(
        delta=(o.detach() * dO).sum(-1).numpy(),
        dQ=np.zeros(q.shape) if q.grad is None else q.grad.numpy(),
        dKV=np.zeros(kv.shape) if kv.grad is None else kv.grad.numpy(),
    )
