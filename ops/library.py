"""The operators of `torch.library`: `tileproof::sparse_mla_forward` and `tileproof::sparse_mla_backward`.

Tensors are in the flat form: `q [s_q, h_q, d_qk]`, `kv [s_kv, d_qk]`, indices of rows of kv. Each has an
implementation for fake tensors; the gradient of the forward is the backward. lse has no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from tileproof.ops import backends, flash, reference
from tileproof.ops.checks import (
    Sizes,
    check_choice,
    check_dkv_dtype,
    check_scale,
    check_tensors,
    check_width,
    signature,
)
from tileproof.spec.machine.errors import TileproofError
from torch import Tensor

LSE_BASES = ("e", "2")


def _check_forward(
    q: Tensor, kv: Tensor, indices: Tensor, topk_length: Tensor | None, sink: Tensor | None, d_v: int
) -> None:
    given = {"q": q, "kv": kv, "indices": indices, "topk_length": topk_length, "sink": sink}
    _flat(*check_tensors(given))
    check_width(d_v, q.shape[-1], "d_v")


# Calls whose arguments were accepted, as signatures with the other arguments. At the limit it is cleared.
_ACCEPTED: set[tuple[object, ...]] = set()
_MAX_ACCEPTED = 1024


def _check_backward(
    q: Tensor,
    kv: Tensor,
    o: Tensor,
    dO: Tensor,
    lse: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    lse_base: str,
    deterministic: bool,
    dkv_dtype: torch.dtype,
    backend: str,
) -> None:
    read = signature(q, kv, o, dO, lse, indices, topk_length, sink)
    call = None if read is None else (*read, sm_scale, lse_base, deterministic, dkv_dtype, backend)
    if call in _ACCEPTED:
        return
    given = {"q": q, "kv": kv, "o": o, "dO": dO, "lse": lse, "indices": indices}
    batched, sizes = check_tensors({**given, "topk_length": topk_length, "sink": sink})
    _flat(batched, sizes)
    check_choice("lse_base", lse_base, LSE_BASES)
    check_dkv_dtype(dkv_dtype, q)
    check_scale(sm_scale, q.shape[-1])
    backends.check_backend(backend, q, sizes, deterministic)
    if call is not None:
        if len(_ACCEPTED) >= _MAX_ACCEPTED:
            _ACCEPTED.clear()
        _ACCEPTED.add(call)


def _flat(batched: bool, sizes: Sizes) -> None:
    if batched:
        raise TileproofError(
            "the operator takes tensors without a batch axis", where="q", expected="[s_q, h_q, d_qk]",
            found=f"{sizes['b']} batches", do="call tileproof.ops.sparse_mla_backward",
        )  # fmt: skip


@torch.library.custom_op("tileproof::sparse_mla_forward", mutates_args=())
def sparse_mla_forward(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    d_v: int,
    lse_base: str,
    backend: str,
) -> tuple[Tensor, Tensor]:
    """o and lse; `backend` is that of the gradient, the forward is the reference's or FlashMLA's."""
    _check_forward(q, kv, indices, topk_length, sink, d_v)
    check_choice("lse_base", lse_base, LSE_BASES)
    check_choice("backend", backend, tuple(backends.BACKENDS))
    scale = check_scale(sm_scale, q.shape[-1])
    if flash.runs(backend, q, d_v) and kv.numel() and indices.numel():
        return flash.forward(q, kv, indices, topk_length, sink, scale, lse_base)
    return reference.forward(q, kv, indices, topk_length, sink, scale, d_v, lse_base)


@sparse_mla_forward.register_fake
def _(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    d_v: int,
    lse_base: str,
    backend: str,
) -> tuple[Tensor, Tensor]:
    _check_forward(q, kv, indices, topk_length, sink, d_v)
    statistics = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty((*q.shape[:2], d_v)), q.new_empty(q.shape[:2], dtype=statistics)


def _backward(
    q: Tensor,
    kv: Tensor,
    o: Tensor,
    dO: Tensor,
    lse: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    lse_base: str,
    deterministic: bool,
    dkv_dtype: torch.dtype,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dkv, and d_sink, which has no elements without a sink. The results have no gradient."""
    _check_backward(
        q, kv, o, dO, lse, indices, topk_length, sink, sm_scale, lse_base, deterministic, dkv_dtype, backend
    )
    return backends.backward(
        backend, q, kv, o, dO, lse, indices, topk_length, sink, sm_scale, lse_base, dkv_dtype, deterministic
    )


# `custom_op` takes 10 to 20 us of the host's time for a call of so many arguments.
_BACKWARD = "tileproof::sparse_mla_backward"
torch.library.define(_BACKWARD, torch.library.infer_schema(_backward, mutates_args=()))
torch.library.impl(_BACKWARD, "default", _backward)
sparse_mla_backward = torch.ops.tileproof.sparse_mla_backward.default


def _fake_backward(
    q: Tensor,
    kv: Tensor,
    o: Tensor,
    dO: Tensor,
    lse: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    sm_scale: float,
    lse_base: str,
    deterministic: bool,
    dkv_dtype: torch.dtype,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    _check_backward(
        q, kv, o, dO, lse, indices, topk_length, sink, sm_scale, lse_base, deterministic, dkv_dtype, backend
    )
    return (
        q.new_empty(q.shape),
        kv.new_empty(kv.shape, dtype=dkv_dtype),
        lse.new_empty(0 if sink is None else sink.shape[0]),
    )


torch.library.register_fake(_BACKWARD, _fake_backward)


Context = Any  # of an autograd function: torch has no type for the attributes that are set on it


class _NoSecondGradient(torch.autograd.Function):
    """The backward with an error in place of its own gradient, which torch would take for zero."""

    @staticmethod
    def forward(ctx: Context, *given: object) -> tuple[Tensor, Tensor, Tensor]:
        made: tuple[Tensor, Tensor, Tensor] = sparse_mla_backward(*given)
        return made

    @staticmethod
    def backward(ctx: Context, *_: Tensor) -> None:
        raise TileproofError(
            "the backward of sparse MLA has no gradient", where="tileproof::sparse_mla_backward",
            expected="a first gradient", found="a gradient of its results (create_graph=True)",
            do="compute second gradients by dense attention in torch",
        )  # fmt: skip


def gradients(
    q: Tensor,
    kv: Tensor,
    o: Tensor,
    dO: Tensor,
    lse: Tensor,
    indices: Tensor,
    topk_length: Tensor | None,
    sink: Tensor | None,
    *other: object,
    plain: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator `sparse_mla_backward`; a gradient of its results is an error.

    `plain`: the tensors are of torch's own types. They go past the dispatcher, which takes 10 us, where
    nothing listens to it.
    """
    made: tuple[Tensor, Tensor, Tensor]
    if torch.is_grad_enabled() and (
        q.requires_grad
        or kv.requires_grad
        or o.requires_grad
        or dO.requires_grad
        or lse.requires_grad
        or (sink is not None and sink.requires_grad)
    ):
        given = q, kv, o, dO, lse, indices, topk_length, sink, *other
        made = _NoSecondGradient.apply(*given)  # type: ignore[no-untyped-call]
    elif plain and not _is_seen():
        made = _backward(q, kv, o, dO, lse, indices, topk_length, sink, *other)  # type: ignore[arg-type]
    else:
        made = sparse_mla_backward(q, kv, o, dO, lse, indices, topk_length, sink, *other)
    return made


def _is_seen() -> bool:
    """Whether a mode, a transform of torch.func or the profiler sees operators."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._autograd._profiler_enabled()
    )


def _save(ctx: Context, inputs: tuple[object, ...], output: tuple[Tensor, Tensor]) -> None:
    q, kv, indices, topk_length, sink, ctx.sm_scale, _, ctx.lse_base, ctx.backend = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, kv, *output, indices, topk_length, sink)


def _gradients(ctx: Context, dO: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, kv, o, lse, indices, topk_length, sink = ctx.saved_tensors
    dq, dkv, d_sink = gradients(
        q, kv, o, dO, lse, indices, topk_length, sink,
        ctx.sm_scale, ctx.lse_base, False, kv.dtype, ctx.backend,
    )  # fmt: skip
    return dq, dkv, None, None, None if sink is None else d_sink, None, None, None, None


sparse_mla_forward.register_autograd(_gradients, setup_context=_save)
