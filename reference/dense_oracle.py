"""The oracle of dense attention: torch autograd in float64 through an explicit mask, bias and dropout.

It shares with the spec and the tiled reference only which elements dropout keeps: no tiles, no lse, no delta,
no formula of a gradient, and a mask of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs
    from tileproof.spec.problems.dense_attention_bwd.masks import Mask

F64 = npt.NDArray[np.float64]


def visible(mask: Mask, m: int, n: int) -> torch.Tensor:
    """``bool [m, n]``: the keys between two diagonals, cut by torch's triangles."""
    main = n - m if mask.align == "bottom right" else 0
    seen = torch.ones(m, n, dtype=torch.bool)
    if mask.right is not None:
        seen = seen.tril(main + mask.right)
    return seen if mask.left is None else seen.triu(main - mask.left)


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
    # Each sequence's batch, first query and first key, queries and keys; packed sequences lie one after
    # another.
    sequences = [(batch, 0, 0, p.m, p.n) for batch in range(p.b)]
    if p.packed is not None:
        before = np.cumsum([(0, 0), *p.packed], axis=0).tolist()
        sequences = [(0, *first, *sizes) for first, sizes in zip(before, p.packed, strict=False)]
    for batch, first_query, first_key, m, n in sequences:
        seen = visible(p.mask, m, n)
        some = seen.any(dim=1)
        rows = some.nonzero()[:, 0] + first_query
        if not len(rows):
            continue
        mask, keys = seen[some], slice(first_key, first_key + n)
        for head in range(p.h):
            at, kv = (batch, head), (batch, head // (p.h // p.h_kv), keys)
            scores = q[at][rows] @ k[kv].T * p.sm_scale + bias[at][rows][:, keys]
            weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
            kept = torch.tensor(np.ascontiguousarray(inputs.kept[at]))[rows][:, keys]
            out = (weights * kept * p.dropout.rescale) @ v[kv]
            o = o.index_put((torch.tensor(batch), torch.tensor(head), rows), out)
    if o.requires_grad:
        (o * dO).sum().backward()  # type: ignore[no-untyped-call]
    found = {"delta": (o.detach() * dO).sum(-1).numpy()}
    for name, leaf_ in (("dQ", q), ("dK", k), ("dV", v), ("dB", bias)):
        found[name] = np.zeros(leaf_.shape) if leaf_.grad is None else leaf_.grad.numpy()
    return found
