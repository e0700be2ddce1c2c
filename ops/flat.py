"""Batches and packed sequences as one sequence: tensors without the batch axis, indices of rows of all kv."""

from __future__ import annotations

import torch
from tileproof.ops.checks import Sequences


def without_batch(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The batches in a row."""
    return None if tensor is None else tensor.flatten(0, 1)


def of_batches(indices: torch.Tensor, s_kv: int) -> torch.Tensor:
    """``[b * s_q, topk]`` rows of all batches' kv, -1 for what is no key, from rows of each batch's own."""
    first = torch.arange(indices.shape[0], device=indices.device)[:, None, None] * s_kv
    return _moved(indices, first, s_kv).flatten(0, 1)


def of_sequences(indices: torch.Tensor, cu_seqlens: Sequences) -> torch.Tensor:
    """``[s_q, topk]`` rows of kv, from rows of the sequence that a query belongs to."""
    of_q, of_kv = cu_seqlens if isinstance(cu_seqlens, tuple | list) else (cu_seqlens, cu_seqlens)
    token = torch.arange(indices.shape[0], device=indices.device)
    number = torch.searchsorted(of_q[1:].long(), token, right=True)
    first, end = of_kv.long()[number], of_kv.long()[number + 1]
    return _moved(indices, first[:, None], (end - first)[:, None])


def _moved(indices: torch.Tensor, first: torch.Tensor | int, rows: torch.Tensor | int) -> torch.Tensor:
    index = indices.long()
    return torch.where((index >= 0) & (index < rows), index + first, -1)
