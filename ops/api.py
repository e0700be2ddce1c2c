"""The calls: `sparse_mla` (forward, with a gradient) and `sparse_mla_backward`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tileproof.ops import backends, flat, library
from tileproof.ops.checks import (
    Sequences,
    check_choice,
    check_dkv_dtype,
    check_scale,
    check_sequences,
    check_tensors,
    check_width,
    is_flat,
)
from tileproof.ops.outputs import check_out
from torch import Tensor

D_V = 512


def sparse_mla(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    *,
    d_v: int = D_V,
    sm_scale: float | None = None,
    topk_length: Tensor | None = None,
    sink: Tensor | None = None,
    cu_seqlens: Sequences | None = None,
    lse_base: str = "e",
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return ``o [s_q, h_q, d_v]`` in q's dtype and ``lse [s_q, h_q]``, which holds the sink; with a batch
    axis in front where q has it. o has a gradient by q, kv and sink, computed by `backend`.

    Arguments as of `sparse_mla_backward`. lse is float64 for float64 inputs, else float32, to the base
    `lse_base`. A token without keys has o = 0 and lse = +inf, or the sink's logit. TileproofError for an
    argument that does not fit.
    """
    given = {"q": q, "kv": kv, "indices": indices, "topk_length": topk_length, "sink": sink}
    batched, sizes = check_tensors(given)
    check_width(d_v, sizes["d_qk"], "d_v")
    check_choice("lse_base", lse_base, library.LSE_BASES)
    scale, name = check_scale(sm_scale, sizes["d_qk"]), backends.chosen(backend, q.device)
    backends.check_backend(name, q, {**sizes, "d_v": d_v}, False)
    index, length = _rows(q, kv, indices, topk_length, cu_seqlens, batched)
    if batched:
        q, kv = q.flatten(0, 1), kv.flatten(0, 1)
    o, lse = library.sparse_mla_forward(q, kv, index, length, sink, scale, d_v, lse_base, name)
    if batched:
        lead = (sizes["b"], sizes["s_q"])
        o, lse = o.reshape(*lead, *o.shape[1:]), lse.reshape(*lead, *lse.shape[1:])
    return o, lse


def sparse_mla_backward(
    q: Tensor,
    kv: Tensor,
    o: Tensor,
    dO: Tensor,
    lse: Tensor,
    indices: Tensor,
    *,
    sm_scale: float | None = None,
    topk_length: Tensor | None = None,
    sink: Tensor | None = None,
    sink_in_lse: bool = True,
    cu_seqlens: Sequences | None = None,
    lse_base: str = "e",
    deterministic: bool = False,
    dkv_dtype: torch.dtype = torch.bfloat16,
    out: Sequence[Tensor] | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return ``dq`` (as q), ``dkv`` (as kv, in `dkv_dtype`) and ``d_sink`` (as sink; None without a sink).

    Parameters
    ----------
    q: ``[s_q, h_q, d_qk]`` or ``[b, s_q, h_q, d_qk]``; bfloat16, float16, float32 or float64.
    kv: ``[s_kv, d_qk]`` or ``[b, s_kv, d_qk]``; V is the first d_v columns. kv, o and dO have q's dtype.
    o, dO: ``[.., s_q, h_q, d_v]``: output of the forward, and its gradient.
    lse: ``[.., s_q, h_q]`` log-sum-exp of the logits to the base `lse_base` ("e" or "2"); float64 for
        float64 inputs, else float32.
    indices: ``[.., s_q, topk]`` int32 or int64: rows of kv (of the own batch, of the own sequence). A value
        outside is no key; repeated values count each time.
    sm_scale: factor of q k^T, > 0; None: d_qk^-0.5.
    topk_length: ``[.., s_q]`` int32 or int64: how many slots count; values are clamped to 0 .. topk.
    sink: ``[h_q]`` in lse's dtype: one more logit of each head's softmax, natural units, without a value.
    sink_in_lse: whether lse holds the sink; else it is added (`fold_sink`).
    cu_seqlens: ``[n + 1]`` int32 or int64: packed sequences of queries and kv rows; or a pair, of each.
    deterministic: the same bits in every call. Without it the kernels add to dKV in the order of arrival.
    dkv_dtype: bfloat16, float16 or float32, or float64 for float64 inputs.
    out: (dq, dkv) or (dq, dkv, d_sink) that the results are written to: contiguous, aligned to 16 bytes,
        in memory of their own. These tensors are returned.
    backend: "reference" (torch, any device); "cuda" (the compiled kernels on a card of compute capability
        10.x: bfloat16 or float16, 1 to 128 heads, d_qk 576 or 512, d_v 512) or "emulator" (the same on CPU
        tensors); None: by the device.

    Raises
    ------
    TileproofError: an argument does not fit; names it, expected and found. Nothing has run then.
    """
    check_choice("lse_base", lse_base, library.LSE_BASES)
    check_choice("deterministic", deterministic, (False, True))
    check_choice("sink_in_lse", sink_in_lse, (False, True))
    usual = out is None and cu_seqlens is None and sink_in_lse and not torch.compiler.is_compiling()
    if usual and is_flat((q, kv, o, dO, lse, indices), (topk_length, sink)):
        # The operator checks its arguments itself; torch.compile would wrap its errors.
        check_dkv_dtype(dkv_dtype, q)
        dq, dkv, d_sink = library.gradients(
            q, kv, o, dO, lse, indices, topk_length, sink, check_scale(sm_scale, q.shape[2]), lse_base,
            deterministic, dkv_dtype, backends.chosen(backend, q.device), plain=not q.is_meta,
        )  # fmt: skip
        return dq, dkv, None if sink is None else d_sink
    given: dict[str, Tensor | None] = {"q": q, "kv": kv, "o": o, "dO": dO, "lse": lse, "indices": indices}
    given |= {"topk_length": topk_length, "sink": sink}
    batched, sizes = check_tensors(given)
    check_dkv_dtype(dkv_dtype, q)
    scale, name = check_scale(sm_scale, sizes["d_qk"]), backends.chosen(backend, q.device)
    backends.check_backend(name, q, sizes, deterministic)
    results = {"dq": (tuple(q.shape), q.dtype), "dkv": (tuple(kv.shape), dkv_dtype)}
    if sink is not None:
        results["d_sink"] = (tuple(sink.shape), sink.dtype)
    if out is not None:
        check_out(out, results, given)
    index, length = _rows(q, kv, indices, topk_length, cu_seqlens, batched)
    if sink is not None and not sink_in_lse:
        lse = fold_sink(lse, sink, lse_base)
    tensors = [q, kv, o, dO, lse]
    if batched:
        tensors = [tensor.flatten(0, 1) for tensor in tensors]
    dq, dkv, d_sink = library.gradients(
        *tensors, index, length, sink, scale, lse_base, deterministic, dkv_dtype, name
    )
    dq, dkv = dq.reshape(q.shape), dkv.reshape(kv.shape)
    if out is None:
        return dq, dkv, None if sink is None else d_sink
    for target, value in zip(out, (dq, dkv, d_sink), strict=False):
        target.copy_(value)
    return out[0], out[1], None if sink is None else out[2]


def fold_sink(lse: Tensor, sink: Tensor, lse_base: str = "e") -> Tensor:
    """Return lse ``[.., h_q]`` with the sink ``[h_q]`` (natural units) in it, from that of the keys alone.

    Both are float32 or float64. A token without keys (-inf or +inf) gets the sink's logit. TileproofError for
    an unknown `lse_base`.
    """
    check_choice("lse_base", lse_base, library.LSE_BASES)
    keys = torch.where(torch.isposinf(lse), -math.inf, lse)
    both = (
        torch.logaddexp(keys, sink.expand_as(keys))
        if lse_base == "e"
        else torch.logaddexp2(keys, (sink * math.log2(math.e)).expand_as(keys))
    )
    return torch.where(torch.isneginf(both), math.inf, both)


def _rows(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    cu_seqlens: Sequences | None,
    batched: bool,
) -> tuple[Tensor, Tensor | None]:
    """Indices of rows of all kv, and lengths, without a batch axis."""
    if cu_seqlens is not None:
        check_sequences(cu_seqlens, q, kv, batched)
        return flat.of_sequences(indices, cu_seqlens), topk_length
    if batched:
        return flat.of_batches(indices, kv.shape[1]), flat.without_batch(topk_length)
    return indices, topk_length
