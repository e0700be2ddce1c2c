"""Sparse MLA attention as a module of torch."""

from __future__ import annotations

import torch
from tileproof.ops.api import D_V, sparse_mla
from tileproof.ops.checks import Sequences
from torch import Tensor


class SparseMLA(torch.nn.Module):
    """Attention of ``q [.., s_q, h_q, d_qk]`` over the rows of ``kv [.., s_kv, d_qk]`` that `indices` select.

    `sink`: a learned logit per head, `self.sink [heads]` in `dtype`, which starts at 0. `backend` computes
    the gradient (see `sparse_mla_backward`).
    """

    def __init__(
        self,
        heads: int,
        *,
        d_v: int = D_V,
        sm_scale: float | None = None,
        sink: bool = False,
        dtype: torch.dtype = torch.float32,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        self.d_v, self.sm_scale, self.backend = d_v, sm_scale, backend
        self.sink = torch.nn.Parameter(torch.zeros(heads, dtype=dtype)) if sink else None

    def forward(
        self,
        q: Tensor,
        kv: Tensor,
        indices: Tensor,
        topk_length: Tensor | None = None,
        cu_seqlens: Sequences | None = None,
    ) -> Tensor:
        """Return ``o [.., s_q, h_q, d_v]``; arguments as of `sparse_mla`."""
        return sparse_mla(
            q,
            kv,
            indices,
            d_v=self.d_v,
            sm_scale=self.sm_scale,
            topk_length=topk_length,
            sink=self.sink,
            cu_seqlens=cu_seqlens,
            backend=self.backend,
        )[0]
