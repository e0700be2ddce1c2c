"""The oracle: torch autograd in float64 through ``softmax(scale * q k^T) v`` over the selected keys.

It shares nothing with the spec and the tiled reference: no tiles, no lse, no delta, no formula of a gradient,
and a definition of a key of its own. torch is imported in the oracles and nowhere else in the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from tileproof.spec.machine.types import Array
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

Outputs = dict[str, npt.NDArray[np.float64]]


def gradients(inputs: Inputs) -> Outputs:
    """delta ``[s_q, h_q]``, dQ ``[s_q, h_q, d_qk]`` and dKV ``[s_kv, d_qk]`` (o and lse are not used); tokens
    without a key give zeros.
    """
    return _gradients(inputs, None)


def gradients_with_sink(inputs: Inputs, sink: Array) -> tuple[Outputs, npt.NDArray[np.float64]]:
    """The same, and d_sink ``[h_q]``, where sink ``[h_q]`` (finite or -inf, natural units) is one more logit
    of each head's softmax, with a value of 0.
    """
    logits = torch.tensor(np.asarray(sink, dtype=np.float64), requires_grad=True)
    outputs = _gradients(inputs, logits)
    return outputs, np.zeros(logits.shape) if logits.grad is None else logits.grad.numpy()


def keys_of(inputs: Inputs, token: int) -> list[int]:
    """The rows of kv that a token attends to, slot by slot; a row counts as often as it is selected."""
    keys = []
    for slot, row in enumerate(inputs.indices[token].tolist()):
        if inputs.topk_length is not None and slot >= int(inputs.topk_length[token]):
            break
        if 0 <= row < len(inputs.kv):
            keys.append(row)
    return keys


def _gradients(inputs: Inputs, sink: torch.Tensor | None) -> Outputs:
    p = inputs.problem
    q = torch.tensor(inputs.q.astype(np.float64), requires_grad=True)
    kv = torch.tensor(inputs.kv.astype(np.float64), requires_grad=True)
    dO = torch.tensor(inputs.dO.astype(np.float64))
    outs = []
    for token in range(p.s_q):
        keys = keys_of(inputs, token)
        if not keys:
            outs.append(torch.zeros(p.h_q, p.d_v, dtype=torch.float64))
            continue
        k = kv[keys]
        scores = q[token] @ k.T * p.sm_scale
        if sink is not None:
            scores = torch.cat([scores, sink[:, None]], dim=-1)
        outs.append(torch.softmax(scores, dim=-1)[:, : len(keys)] @ k[:, : p.d_v])
    o = torch.stack(outs)
    (o * dO).sum().backward() if o.requires_grad else None  # type: ignore[no-untyped-call]
    return {
        "delta": (o.detach() * dO).sum(-1).numpy(),
        "dQ": np.zeros(q.shape) if q.grad is None else q.grad.numpy(),
        "dKV": np.zeros(kv.shape) if kv.grad is None else kv.grad.numpy(),
    }
