"""A backward call on torch tensors by the launches of its plan: the same for every backend that has kernels.

Nothing here reads a value on the host, so that a device is not waited for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from tileproof.ops.plan import CallStep, planned
from tileproof.spec.numerics import LN_2
from torch import Tensor

ALIGNMENT = 16  # bytes, of every address: vector loads, tensor maps
Tensors = Mapping[str, Tensor | None]


class Call(NamedTuple):
    """The arguments of the operator `tileproof::sparse_mla_backward`, without the backend."""

    q: Tensor
    kv: Tensor
    o: Tensor
    dO: Tensor
    lse: Tensor
    indices: Tensor
    topk_length: Tensor | None
    sink: Tensor | None
    sm_scale: float
    lse_base: str
    dkv_dtype: torch.dtype
    deterministic: bool

    @property
    def lse_base_2(self) -> Tensor:
        """lse as the kernels take it."""
        return self.lse if self.lse_base == "2" else self.lse / LN_2


class KernelLauncher(Protocol):
    """Where launches run."""

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory that launches can read and write, unwritten."""
        ...

    def start(self, step: CallStep, tensors: Tensors) -> None:
        """Launches on a call's tensors, each contiguous and aligned; TileproofError where it cannot be
        launched, or fails.
        """
        ...


def backward(launcher: KernelLauncher, call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dkv and d_sink as of `reference.backward`; no length of an axis is 0."""
    q, s_kv, topk = call.q, call.kv.shape[0], call.indices.shape[1]
    length, sink = call.topk_length, call.sink
    plan = planned(
        q.shape, q.dtype, s_kv, topk, call.sm_scale, length is not None, sink is not None,
        call.deterministic, call.dkv_dtype,
    )  # fmt: skip
    own, heads = q.shape[1], plan.heads
    more = heads - own
    if length is not None and length.dtype == torch.int64:
        length = length.clamp(0, topk).to(torch.int32)
    tensors: dict[str, Tensor | None] = {
        "q": _padded(launcher, q, 1, more, 0.0),
        "kv": ready(launcher, call.kv),
        "o": _padded(launcher, call.o, 1, more, 0.0),
        "dO": _padded(launcher, call.dO, 1, more, 0.0),
        "lse": _padded(launcher, call.lse_base_2, 1, more, math.inf),
        "indices": _padded(launcher, _indices(call.indices, s_kv), 1, plan.slots - topk, -1),
        "topk_length": None if length is None else ready(launcher, length),
        "sink": None if sink is None else _padded(launcher, sink, 0, more, -math.inf),
    }
    for step in plan.steps:
        for fresh in step.fresh:
            tensors[fresh.name] = launcher.empty(fresh.shape, fresh.dtype)
        launcher.start(step, tensors)
    dQ, dKV, d_sink = tensors["dQ"], tensors[plan.dkv], tensors.get("d_sink")
    assert dQ is not None and dKV is not None
    if d_sink is None:
        d_sink = call.lse.new_empty(0)
    if own == heads:
        return dQ, dKV, d_sink
    return dQ[:, :own].contiguous(), dKV, d_sink[:own].contiguous()


def _indices(indices: Tensor, s_kv: int) -> Tensor:
    """In int32, in which the kernels take any value outside 0 .. s_kv - 1 for no key."""
    if indices.dtype == torch.int32:
        return indices
    return torch.where((indices < 0) | (indices >= s_kv), -1, indices).to(torch.int32)


def ready(launcher: KernelLauncher, tensor: Tensor) -> Tensor:
    """The tensor as a launch takes it: itself where it is contiguous and aligned, else a copy."""
    if tensor.is_contiguous() and not tensor.data_ptr() % ALIGNMENT:
        return tensor
    return launcher.empty(tuple(tensor.shape), tensor.dtype).copy_(tensor.detach())


def _padded(launcher: KernelLauncher, tensor: Tensor, axis: int, more: int, fill: float) -> Tensor:
    """The tensor with `more` of `fill` at the end of `axis`, as `ready` makes it."""
    if not more:
        return ready(launcher, tensor)
    own = tensor.shape[axis]
    shape = (*tensor.shape[:axis], own + more, *tensor.shape[axis + 1 :])
    made = launcher.empty(shape, tensor.dtype)
    made.narrow(axis, 0, own).copy_(tensor.detach())
    made.narrow(axis, own, more).fill_(fill)
    return made
