"""The launches of a backward call, in order, on torch tensors: the same for every backend that has kernels.

expand (of a deterministic call), clear, the backward, collect, d_sink, convert. Heads are padded to 64 or 128
with zeros and an lse of +inf, so that S of a padded head is 0; topk is padded to whole k-blocks with -1.
Nothing here reads a value on the host, so that a device is not waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

import torch
from tileproof.kernels.compile import Built
from tileproof.kernels.launch.layout import Layout
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.mla_around import launches
from tileproof.kernels.sm100.backward import PROBES
from tileproof.ops.checks import MAX_ROWS
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2, LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, D_QK_SUPPORTED, D_V
from torch import Tensor

KERNELS = {64: "head64", 128: "head128-columns"}  # by the heads that each computes
MAX_HEADS = max(KERNELS)
ALIGNMENT = 16  # bytes, of every address: vector loads, tensor maps


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


@dataclass(frozen=True)
class KernelEntry:
    """An entry of a compiled kernel: its launch as data, and its PTX."""

    name: str
    layout: Layout = field(repr=False)
    built: Callable[[], Built] = field(repr=False)


@dataclass(frozen=True)
class CallStep:
    """A launch of an entry on tensors (None: a null pointer), each contiguous and aligned.

    `outputs`: those that the entry writes, and that begin unwritten; `adds`: those that it reads and writes.
    """

    entry: KernelEntry
    tensors: Mapping[str, Tensor | None]
    sizes: Mapping[str, int | float]
    outputs: tuple[str, ...]
    adds: tuple[str, ...] = ()


class KernelLauncher(Protocol):
    """Where launches run."""

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory that launches can read and write, unwritten."""
        ...

    def start(self, step: CallStep) -> None:
        """Launches; TileproofError where it cannot be launched, or fails."""
        ...


def check_sizes(backend: str, q: Tensor, sizes: Mapping[str, int], deterministic: bool) -> None:
    """TileproofError names the size or dtype that the kernels are not made for."""
    wrong = None
    if q.dtype != torch.bfloat16:
        wrong = "q", "torch.bfloat16", str(q.dtype)
    elif not sizes["h_q"] <= MAX_HEADS:
        wrong = "q", f"at most {MAX_HEADS} heads", str(sizes["h_q"])
    elif sizes["d_qk"] not in D_QK_SUPPORTED:
        wrong = "q", f"d_qk {' or '.join(map(str, D_QK_SUPPORTED))}", str(sizes["d_qk"])
    elif sizes["d_v"] != D_V:
        wrong = "o", f"d_v {D_V}", str(sizes["d_v"])
    else:
        rows = sizes["b"] * sizes["s_q"] * padded_heads(sizes["h_q"])
        slots = sizes["b"] * sizes["s_q"] * padded_slots(sizes["topk"]) if deterministic else 0
        if rows > MAX_ROWS:
            wrong = "q", f"at most {MAX_ROWS} rows (tokens times padded heads)", str(rows)
        elif slots > MAX_ROWS:
            wrong = "deterministic", f"at most {MAX_ROWS} slots (tokens times padded topk)", str(slots)
    if wrong is not None:
        where, expected, found = wrong
        raise TileproofError(
            f'backend="{backend}" does not compute this', where=where, expected=expected, found=found,
            do='use backend="reference", which runs on any device',
        )  # fmt: skip


def padded_heads(heads: int) -> int:
    """The heads of the kernel that computes so many."""
    return min(size for size in KERNELS if size >= heads)


def padded_slots(topk: int) -> int:
    """topk in whole k-blocks."""
    return -(-topk // B_TOPK) * B_TOPK


@cache
def main_entry(heads: int, d_qk: int) -> KernelEntry:
    """The backward for `heads` (64 or 128) and `d_qk`."""
    own = kernel(KERNELS[heads])
    variant = own.variant(d_qk=d_qk)
    assert own.layout is not None
    return KernelEntry(own.entry(variant), own.layout(own.plan(variant)), lambda: own.build(variant))


@cache
def beside_entry(name: str) -> KernelEntry:
    """An entry of `kernels/sm90/mla_around`."""
    return KernelEntry(name, launches.LAYOUTS[name], launches.built)


def backward(launcher: KernelLauncher, call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dkv and d_sink as of `reference.backward`; no length of an axis is 0."""
    (s_q, heads, d_qk), s_kv, topk = call.q.shape, call.kv.shape[0], call.indices.shape[1]
    all_heads = padded_heads(heads)
    entry = main_entry(all_heads, d_qk)
    given: dict[str, Tensor | None] = {
        name: _padded(launcher, tensor, 1, all_heads, 0.0)
        for name, tensor in (("q", call.q), ("o", call.o), ("dO", call.dO))
    }
    given["lse"] = _padded(launcher, call.lse_base_2, 1, all_heads, math.inf)
    given["kv"] = _ready(launcher, call.kv)
    slots = padded_slots(topk)
    given["indices"] = index = _padded(launcher, _indices(call.indices, s_kv), 1, slots, -1)
    length = call.topk_length
    if length is not None:
        length = _ready(
            launcher, length.clamp(0, topk).to(torch.int32) if length.dtype == torch.int64 else length
        )
    given["topk_length"] = length
    sizes: dict[str, int | float] = {
        "s_q": s_q, "s_kv": s_kv, "h_q": all_heads, "topk": slots, "d_qk": d_qk,
        "sm_scale": call.sm_scale, "sm_scale_log2e": call.sm_scale * LOG2_E,
    }  # fmt: skip
    whole = dict(sizes)
    if call.deterministic:
        sizes["s_kv"] = rows = s_q * slots
        own = launcher.empty((s_q, slots), torch.int32)
        wide_kv = launcher.empty((rows, d_qk), call.kv.dtype)
        made = {name: given[name] for name in ("kv", "indices", "topk_length")}
        made |= {"slots": own, "rows": wide_kv}
        launcher.start(CallStep(beside_entry(launches.EXPAND), made, whole, ("slots", "rows")))
        given |= {"kv": wide_kv, "indices": own}
    dKV = launcher.empty((int(sizes["s_kv"]), d_qk), torch.float32)
    launcher.start(
        CallStep(beside_entry(launches.CLEAR), {"values": dKV}, {"count": dKV.numel()}, ("values",))
    )
    dQ = launcher.empty((s_q, all_heads, d_qk), call.q.dtype)
    delta = launcher.empty((s_q, all_heads), torch.float32)
    results: dict[str, Tensor | None] = {"dQ": dQ, "delta": delta, "dKV": dKV}
    launcher.start(
        CallStep(entry, {**given, **results, **dict.fromkeys(PROBES)}, sizes, ("dQ", "delta"), ("dKV",))
    )
    if call.deterministic:
        wide, dKV = dKV, launcher.empty((s_kv, d_qk), torch.float32)
        made = {"wide": wide, "indices": index, "slots": given["indices"], "dKV": dKV}
        launcher.start(CallStep(beside_entry(launches.COLLECT), made, whole, ("dKV",)))
    d_sink = call.lse.new_empty(0)
    if call.sink is not None:
        d_sink = launcher.empty((all_heads,), torch.float32)
        made = {"lse": given["lse"], "delta": delta, "d_sink": d_sink}
        made["sink"] = _padded(launcher, call.sink, 0, all_heads, -math.inf)
        launcher.start(CallStep(beside_entry(launches.D_SINK), made, whole, ("d_sink",)))
    if call.dkv_dtype != torch.float32:
        narrow = launcher.empty(tuple(dKV.shape), call.dkv_dtype)
        name = launches.CONVERT["bfloat16" if call.dkv_dtype == torch.bfloat16 else "float16"]
        made, count = {"wide": dKV, "narrow": narrow}, {"count": dKV.numel()}
        launcher.start(CallStep(beside_entry(name), made, count, ("narrow",)))
        dKV = narrow
    return dQ[:, :heads].contiguous(), dKV, d_sink[:heads].contiguous()


def _indices(indices: Tensor, s_kv: int) -> Tensor:
    """In int32, in which the kernels take any value outside 0 .. s_kv - 1 for no key."""
    if indices.dtype == torch.int32:
        return indices
    return torch.where((indices < 0) | (indices >= s_kv), -1, indices).to(torch.int32)


def _ready(launcher: KernelLauncher, tensor: Tensor) -> Tensor:
    """The tensor as a launch takes it: itself where it is contiguous and aligned, else a copy."""
    tensor = tensor.detach()
    if tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    return launcher.empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)


def _padded(launcher: KernelLauncher, tensor: Tensor, axis: int, length: int, fill: float) -> Tensor:
    """The tensor with `axis` as long as `length`, as `_ready` makes it."""
    own = tensor.shape[axis]
    if own == length:
        return _ready(launcher, tensor)
    shape = (*tensor.shape[:axis], length, *tensor.shape[axis + 1 :])
    made = launcher.empty(shape, tensor.dtype)
    made.narrow(axis, 0, own).copy_(tensor.detach())
    made.narrow(axis, own, length - own).fill_(fill)
    return made
