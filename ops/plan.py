"""The launches of a backward call as data, made once for calls that agree in sizes, dtypes and options.

expand (of a deterministic call), clear, the backward, collect, d_sink, convert. Heads are padded to 64 or 128
with zeros and an lse of +inf, so that S of a padded head is 0; topk is padded to whole k-blocks with -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import torch
from tileproof.kernels.compile import Built
from tileproof.kernels.launch.layout import Layout
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.mla_around import launches
from tileproof.kernels.sm100.backward import PROBES
from tileproof.ops.checks import MAX_ROWS
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LOG2_E
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, D_QK_SUPPORTED, D_V
from torch import Tensor

KERNELS = {64: "head64", 128: "head128-columns"}  # by the heads that each computes
MAX_HEADS = max(KERNELS)
NARROW = {torch.bfloat16: "bfloat16", torch.float16: "float16"}  # what kernels read, and write beside f32
PLANS = 256  # that are kept: each has some hundred bytes of parameters per launch
Sizes = Mapping[str, int | float]


@dataclass(frozen=True)
class KernelEntry:
    """An entry of a compiled kernel: its launch as data, and its PTX."""

    name: str
    layout: Layout = field(repr=False)
    built: Callable[[], Built] = field(repr=False)


@dataclass(frozen=True)
class Fresh:
    """A tensor of the call that is allocated, unwritten, before a launch."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class CallStep:
    """A launch of an entry.

    `tensors`: the call's tensor for each buffer of the entry, by name (None: a null pointer). `outputs`: the
    buffers that the entry writes, and that begin unwritten; `adds`: those that it reads and writes.
    `programmatic`: it may begin before the step before it has ended. `prepared`: what a launcher keeps for
    the step, by the number of the device.
    """

    entry: KernelEntry
    tensors: Mapping[str, str | None]
    sizes: Sizes
    outputs: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    fresh: Sequence[Fresh] = ()
    programmatic: bool = False
    prepared: dict[int, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CallPlan:
    """The launches in order, and which of the call's tensors is the result dkv. `heads` and `slots` are
    padded.
    """

    heads: int
    slots: int
    steps: Sequence[CallStep]
    dkv: str


def check_sizes(backend: str, q: Tensor, sizes: Mapping[str, int], deterministic: bool) -> None:
    """TileproofError names the size or dtype that the kernels are not made for."""
    wrong = None
    if q.dtype not in NARROW:
        wrong = "q", " or ".join(map(str, NARROW)), str(q.dtype)
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
        elif slots > launches.MAX_SLOTS:
            wrong = (
                "deterministic",
                f"at most {launches.MAX_SLOTS} slots (tokens times padded topk)",
                str(slots),
            )
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
def main_entry(heads: int, d_qk: int, dtype: torch.dtype) -> KernelEntry:
    """The backward for `heads` (64 or 128), `d_qk` and the dtype of q, kv, o, dO and dq."""
    own = kernel(KERNELS[heads])
    variant = own.variant(d_qk=d_qk, f16=int(dtype == torch.float16))
    assert own.layout is not None
    return KernelEntry(own.entry(variant), own.layout(own.plan(variant)), lambda: own.build(variant))


@cache
def beside_entry(name: str) -> KernelEntry:
    """An entry of `kernels/sm90/mla_around`."""
    return KernelEntry(name, launches.LAYOUTS[name], launches.built)


@lru_cache(maxsize=PLANS)
def planned(
    q: tuple[int, int, int],
    q_dtype: torch.dtype,
    s_kv: int,
    topk: int,
    sm_scale: float,
    has_length: bool,
    has_sink: bool,
    deterministic: bool,
    dkv_dtype: torch.dtype,
) -> CallPlan:
    """The plan of calls with a q of this shape and dtype."""
    s_q, own_heads, d_qk = q
    heads, slots = padded_heads(own_heads), padded_slots(topk)
    sizes: dict[str, int | float] = {
        "s_q": s_q, "s_kv": s_kv, "h_q": heads, "topk": slots, "d_qk": d_qk,
        "sm_scale": sm_scale, "sm_scale_log2e": sm_scale * LOG2_E,
    }  # fmt: skip
    length = "topk_length" if has_length else None
    given = {name: name for name in ("q", "kv", "o", "dO", "lse", "indices")}
    steps: list[CallStep] = []

    def beside(name: str, tensors: Mapping[str, str | None], sizes: Sizes, *outputs: Fresh) -> None:
        """Appends a launch that writes `outputs`."""
        fresh = {each.name for each in outputs}
        written = tuple(buffer for buffer, of in tensors.items() if of in fresh)
        append(CallStep(beside_entry(name), tensors, sizes, written, fresh=outputs))

    def append(step: CallStep) -> None:
        """The first launch begins when all earlier work of the stream has ended, and those behind it may rely
        on that.
        """
        steps.append(replace(step, programmatic=bool(steps) and step.entry.layout.programmatic))

    own, rows = dict(sizes), s_kv
    if deterministic:
        own["s_kv"] = rows = s_q * slots
        made = {"kv": "kv", "indices": "indices", "topk_length": length, "slots": "slots", "rows": "wide_kv"}
        numbers, wide = Fresh("slots", (s_q, slots), torch.int32), Fresh("wide_kv", (rows, d_qk), q_dtype)
        beside(launches.EXPAND, made, sizes, numbers, wide)
        given |= {"kv": "wide_kv", "indices": "slots"}
    sums = Fresh("wide_dKV", (rows, d_qk), torch.float32)
    beside(launches.CLEAR, {"values": "wide_dKV"}, {"count": rows * d_qk}, sums)
    main = {**given, "dQ": "dQ", "delta": "delta", "dKV": "wide_dKV", "topk_length": length}
    fresh = (Fresh("dQ", (s_q, heads, d_qk), q_dtype), Fresh("delta", (s_q, heads), torch.float32))
    entry, probes = main_entry(heads, d_qk, q_dtype), dict.fromkeys(PROBES)
    append(CallStep(entry, {**main, **probes}, own, ("dQ", "delta"), ("dKV",), fresh))
    dkv = "wide_dKV"
    if deterministic:
        dkv, made = "dKV", {"wide": "wide_dKV", "indices": "indices", "slots": "slots", "dKV": "dKV"}
        beside(launches.COLLECT, made, sizes, Fresh("dKV", (s_kv, d_qk), torch.float32))
    if has_sink:
        made = {name: name for name in ("lse", "delta", "sink", "d_sink")}
        beside(launches.D_SINK, made, sizes, Fresh("d_sink", (heads,), torch.float32))
    if dkv_dtype != torch.float32:
        name = launches.CONVERT[NARROW[dkv_dtype]]
        narrow = Fresh("narrow_dKV", (s_kv, d_qk), dkv_dtype)
        beside(name, {"wide": dkv, "narrow": "narrow_dKV"}, {"count": s_kv * d_qk}, narrow)
        dkv = "narrow_dKV"
    return CallPlan(heads, slots, steps, dkv)
