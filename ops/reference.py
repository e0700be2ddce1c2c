"""The backend `reference`: forward and backward in torch, on any device, some tokens at a time.

It computes in float64 (on a device without float64 in float32) and rounds each result once. Slots that hold
no key are not read. A slot is a key as in `spec/problems/sparse_mla_bwd/inputs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from tileproof.spec.numerics import LN_2

CHUNK_BYTES = 2**26  # of gathered keys and scores
NO_FLOAT64 = ("mps",)  # device types


class Keys(NamedTuple):
    """Some tokens' keys: `rows` and `mask [tokens, topk]`, and `k [tokens, topk, d_qk]`, 0 where no key."""

    tokens: slice
    rows: torch.Tensor
    mask: torch.Tensor
    k: torch.Tensor


def wide(device: torch.device) -> torch.dtype:
    """The dtype of sums."""
    return torch.float32 if device.type in NO_FLOAT64 else torch.float64


def chunks(
    kv: torch.Tensor, indices: torch.Tensor, topk_length: torch.Tensor | None, heads: int
) -> Iterator[Keys]:
    """All tokens, so many at a time that a chunk stays within `CHUNK_BYTES`; one token at least."""
    (s_q, topk), (s_kv, d_qk), dtype = indices.shape, kv.shape, wide(kv.device)
    step = max(CHUNK_BYTES // max(dtype.itemsize * topk * (d_qk + 3 * heads), 1), 1)
    slot = torch.arange(topk, device=kv.device)
    for first in range(0, s_q if s_kv and topk else 0, step):
        tokens = slice(first, min(first + step, s_q))
        index = indices[tokens].long()
        mask = (index >= 0) & (index < s_kv)
        if topk_length is not None:
            mask &= slot < topk_length[tokens, None].long()
        rows = torch.where(mask, index, 0)
        k = torch.where(mask[..., None], kv[rows].to(dtype), 0.0)
        yield Keys(tokens, rows, mask, k)


def natural(lse: torch.Tensor, lse_base: str) -> torch.Tensor:
    """lse in natural units, in the dtype of sums."""
    exact = lse.to(wide(lse.device))
    return exact * LN_2 if lse_base == "2" else exact


def forward(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    sink: torch.Tensor | None,
    sm_scale: float,
    d_v: int,
    lse_base: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``o [s_q, h_q, d_v]`` in q's dtype and ``lse [s_q, h_q]``; a token without keys: o = 0, lse = +inf, or
    the sink's logit.
    """
    (s_q, h_q, _), dtype = q.shape, wide(q.device)
    o = q.new_zeros((s_q, h_q, d_v))
    lse = torch.full((s_q, h_q), -math.inf, dtype=dtype, device=q.device)
    for part in chunks(kv, indices, topk_length, h_q):
        logits = torch.einsum("thd,tkd->thk", q[part.tokens].to(dtype), part.k) * sm_scale
        logits = torch.where(part.mask[:, None, :], logits, -math.inf)
        lse[part.tokens] = torch.logsumexp(logits, dim=-1)
        total = _with_sink(lse[part.tokens], sink)[..., None]
        weights = torch.where(torch.isinf(total), 0.0, torch.exp(logits - total))
        o[part.tokens] = torch.einsum("thk,tkd->thd", weights, part.k[..., :d_v]).to(q.dtype)
    lse = _with_sink(lse, sink)
    lse = torch.where(torch.isneginf(lse), math.inf, lse)
    lse = lse / LN_2 if lse_base == "2" else lse
    return o, lse.to(torch.float64 if q.dtype == torch.float64 else torch.float32)


def _with_sink(lse: torch.Tensor, sink: torch.Tensor | None) -> torch.Tensor:
    """The log-sum-exp with the sink's logit in it."""
    return lse if sink is None else torch.logaddexp(lse, sink.to(lse.dtype).expand_as(lse))


def backward(
    q: torch.Tensor,
    kv: torch.Tensor,
    o: torch.Tensor,
    dO: torch.Tensor,
    lse: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    sink: torch.Tensor | None,
    sm_scale: float,
    lse_base: str,
    dkv_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq in q's dtype, dkv in `dkv_dtype`, d_sink in lse's dtype (without a sink: no elements)."""
    (_, h_q, _), d_v, dtype = q.shape, o.shape[2], wide(q.device)
    dq = torch.zeros_like(q, memory_format=torch.contiguous_format)
    dkv = torch.zeros(kv.shape, dtype=dtype, device=q.device)
    exact = natural(lse, lse_base)
    delta = (o.to(dtype) * dO.to(dtype)).sum(-1)
    for part in chunks(kv, indices, topk_length, h_q):
        at, v, key = part.tokens, part.k[..., :d_v], part.mask[:, None, :]
        own_q, own_dO = q[at].to(dtype), dO[at].to(dtype)
        P = torch.einsum("thd,tkd->thk", own_q, part.k)
        S = torch.where(key, torch.exp(P * sm_scale - exact[at][..., None]), 0.0)
        dP = torch.einsum("thd,tkd->thk", own_dO, v)
        dS = torch.where(key, S * (dP - delta[at][..., None]) * sm_scale, 0.0)
        dq[at] = torch.einsum("thk,tkd->thd", dS, part.k).to(q.dtype)
        tile = torch.einsum("thk,thd->tkd", dS, own_q)
        tile[..., :d_v] += torch.einsum("thk,thd->tkd", S, own_dO)
        dkv.index_add_(0, part.rows[part.mask], tile[part.mask])
    return dq, dkv.to(dkv_dtype), _d_sink(exact, delta, sink).to(lse.dtype)


def _d_sink(lse: torch.Tensor, delta: torch.Tensor, sink: torch.Tensor | None) -> torch.Tensor:
    """-sum over tokens of the sink's share of the softmax times delta; a sink +inf has all of it."""
    if sink is None:
        return lse.new_empty(0)
    x = sink.to(lse.dtype).expand_as(lse)
    share = torch.exp(torch.clamp(torch.where(torch.isinf(x), 0.0, x - lse), max=0.0))
    share = torch.where(torch.isinf(x), (x > 0).to(lse.dtype), share)
    return -(share * delta).sum(0)
