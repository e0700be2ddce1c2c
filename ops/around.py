"""The kernels around the backward as operators of `torch.library`, for programs with a backward of their own.

`clear_`, `convert`, `d_sink`, and `expand` and `collect` of a deterministic dKV: on CUDA devices of compute
capability 9.0 and later on the current stream, on CPU tensors on the emulator. They compile under
`torch.compile` and can be captured in a CUDA graph after a first call. Inputs may have any strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache

import torch
from tileproof.kernels.sm90.mla_around import launches
from tileproof.ops import checks, cuda, steps
from tileproof.ops.plan import NARROW, CallStep, beside_entry
from tileproof.spec.machine.errors import TileproofError
from torch import Tensor

MAJOR = 9  # least compute capability
VECTOR = 8  # a row of kv is copied by vectors of so many elements
MAX_COLUMNS = 768  # of a row that `collect` keeps in registers
MAX_COUNT = (2**31 - 1) * launches.DKV_ELEMENTS  # of a grid
Sizes = Mapping[str, int]


def _check(
    name: str,
    tensor: Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[object, ...],
    beside: tuple[str, Tensor] | None = None,
) -> None:
    """Dtype, the device of the argument `beside`, and shape; a name in `shape` is any length."""
    of, device = ("", None) if beside is None else (beside[0], beside[1].device)
    checks.check_kind(name, tensor, dtypes, device, of)
    lengths = zip(shape, tensor.shape, strict=False)
    if tensor.dim() != len(shape) or any(not isinstance(of, str) and of != found for of, found in lengths):
        raise TileproofError(
            f"{name} has the wrong shape", where=name, expected=f"[{', '.join(map(str, shape))}]",
            found=str(list(tensor.shape)),
        )  # fmt: skip


def _check_limit(name: str, what: str, found: int, limit: int) -> None:
    if found > limit:
        raise TileproofError(
            f"{name} is too large", where=name, expected=f"at most {limit} {what}", found=str(found)
        )


def _launcher(like: Tensor) -> steps.KernelLauncher:
    device = like.device
    if device.type == "cpu":
        from tileproof.ops import emulated  # a machine with a card needs no emulator

        return emulated.EmulatedLauncher()
    found = str(device)
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        if major >= MAJOR:
            return cuda.CudaLauncher(device, cuda.current_stream(device))
        found = f"{torch.cuda.get_device_name(device)}, compute capability {major}.{minor}"
    raise TileproofError(
        "the kernels do not run on this device", where="device",
        expected=f"a CUDA device of compute capability {MAJOR}.0 or later, or the CPU (emulated)",
        found=found,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _step(
    entry: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    absent: tuple[str, ...],
    sizes: tuple[int, ...],
) -> CallStep:
    """The launch of an entry, planned once; `sizes` in the order of `_NAMES`."""
    names: dict[str, str | None] = {name: name for name in (*inputs, *outputs)}
    given = dict(zip(_NAMES[entry], sizes, strict=True))
    return CallStep(beside_entry(entry), names | dict.fromkeys(absent), given, outputs)


_NAMES = {
    launches.CLEAR: ("count",),
    **dict.fromkeys(launches.CONVERT.values(), ("count",)),
    launches.D_SINK: ("s_q", "h_q"),
    launches.EXPAND: ("s_q", "s_kv", "topk", "d_qk"),
    launches.COLLECT: ("s_q", "s_kv", "topk", "d_qk"),
}


def _launch(
    entry: str, inputs: Mapping[str, Tensor | None], outputs: Mapping[str, Tensor], *sizes: int
) -> None:
    """One launch on `inputs`, which are copied where they are not contiguous and aligned."""
    like = next(iter(outputs.values()))
    launcher = _launcher(like)
    with torch.cuda.device(like.device) if like.device.type == "cuda" else nullcontext():
        ready = {name: steps.ready(launcher, tensor) for name, tensor in inputs.items() if tensor is not None}
        absent = tuple(name for name in inputs if name not in ready)
        launcher.start(_step(entry, tuple(ready), tuple(outputs), absent, sizes), {**ready, **outputs})


def _check_clear(values: Tensor) -> None:
    _check("values", values, (torch.float32,), tuple(values.shape))
    if not values.is_contiguous():
        raise TileproofError(
            "values is not contiguous", where="values", expected="a contiguous tensor",
            found=f"strides {list(values.stride())} of shape {list(values.shape)}",
        )  # fmt: skip
    _check_limit("values", "elements", values.numel(), MAX_COUNT)


@torch.library.custom_op("tileproof::mla_clear_", mutates_args=("values",))
def clear_(values: Tensor) -> None:
    """Set `values`, float32 of any shape, contiguous and aligned to 16 bytes, to 0."""
    _check_clear(values)
    if values.data_ptr() % steps.ALIGNMENT:
        raise TileproofError(
            "values is not aligned", where="values", expected=f"a multiple of {steps.ALIGNMENT} bytes",
            found=f"address {values.data_ptr():#x}",
        )  # fmt: skip
    if values.numel():
        _launch(launches.CLEAR, {}, {"values": values}, values.numel())


@clear_.register_fake
def _(values: Tensor) -> None:
    _check_clear(values)


def _check_convert(wide: Tensor, dtype: torch.dtype) -> None:
    _check("wide", wide, (torch.float32,), tuple(wide.shape))
    checks.check_choice("dtype", dtype, tuple(NARROW))
    _check_limit("wide", "elements", wide.numel(), MAX_COUNT)


@torch.library.custom_op("tileproof::mla_convert", mutates_args=())
def convert(wide: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `wide`, float32 of any shape, rounded to the nearest in bfloat16 or float16, ties to even."""
    _check_convert(wide, dtype)
    narrow = wide.new_empty(wide.shape, dtype=dtype)
    if wide.numel():
        _launch(launches.CONVERT[NARROW[dtype]], {"wide": wide}, {"narrow": narrow}, wide.numel())
    return narrow


@convert.register_fake
def _(wide: Tensor, dtype: torch.dtype) -> Tensor:
    _check_convert(wide, dtype)
    return wide.new_empty(wide.shape, dtype=dtype)


def _check_d_sink(lse: Tensor, delta: Tensor, sink: Tensor) -> None:
    f32 = (torch.float32,)
    _check("lse", lse, f32, ("s_q", "h_q"))
    _check("delta", delta, f32, tuple(lse.shape), ("lse", lse))
    _check("sink", sink, f32, (lse.shape[1],), ("lse", lse))
    _check_limit("lse", "tokens", lse.shape[0], checks.MAX_ROWS - launches.SINK_TOKENS)
    _check_limit("lse", "heads", lse.shape[1], checks.MAX_ROWS - launches.SINK_HEADS)


@torch.library.custom_op("tileproof::mla_d_sink", mutates_args=())
def d_sink(lse: Tensor, delta: Tensor, sink: Tensor) -> Tensor:
    """Return the gradient ``[h_q]`` of `sink` (natural units), of lse (base 2, with the sink in it) and
    delta ``[s_q, h_q]``; all float32. The same bits in every call.
    """
    _check_d_sink(lse, delta, sink)
    if not lse.numel():
        return torch.zeros_like(sink, memory_format=torch.contiguous_format)
    made = lse.new_empty(sink.shape)
    _launch(launches.D_SINK, {"lse": lse, "delta": delta, "sink": sink}, {"d_sink": made}, *lse.shape)
    return made


@d_sink.register_fake
def _(lse: Tensor, delta: Tensor, sink: Tensor) -> Tensor:
    _check_d_sink(lse, delta, sink)
    return lse.new_empty(sink.shape)


def _check_expand(kv: Tensor, indices: Tensor, topk_length: Tensor | None) -> None:
    _check("kv", kv, tuple(NARROW), ("s_kv", "d_qk"))
    _check("indices", indices, (torch.int32,), ("s_q", "topk"), ("kv", kv))
    _check_limit("indices", "slots (tokens times topk)", indices.numel(), checks.MAX_ROWS)
    if topk_length is not None:
        _check("topk_length", topk_length, (torch.int32,), (indices.shape[0],), ("kv", kv))
    if kv.shape[1] % VECTOR:
        raise TileproofError(
            "kv has rows of another length", where="kv", expected=f"d_qk a multiple of {VECTOR}",
            found=str(kv.shape[1]),
        )  # fmt: skip
    _check_limit("kv", "rows", kv.shape[0], checks.MAX_ROWS)


@torch.library.custom_op("tileproof::mla_expand", mutates_args=())
def expand(kv: Tensor, indices: Tensor, topk_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return `slots` ``[s_q, topk]`` int32, a slot's own number where it is a key, else -1, and `rows`
    ``[s_q * topk, d_qk]``, the row of `kv` of each slot (zeros where it is no key).

    A backward on `rows` with the indices `slots` adds to a row of its dKV from one slot only; `collect` sums
    them. kv ``[s_kv, d_qk]`` bfloat16 or float16, indices ``[s_q, topk]`` and topk_length ``[s_q]`` int32.
    """
    _check_expand(kv, indices, topk_length)
    slots = indices.new_empty(indices.shape)
    rows = kv.new_empty(indices.numel(), kv.shape[1])
    if not rows.numel() or not kv.shape[0]:
        return slots.fill_(-1), rows.zero_()
    given = {"kv": kv, "indices": indices, "topk_length": topk_length}
    sizes = indices.shape[0], kv.shape[0], indices.shape[1], kv.shape[1]
    _launch(launches.EXPAND, given, {"slots": slots, "rows": rows}, *sizes)
    return slots, rows


@expand.register_fake
def _(kv: Tensor, indices: Tensor, topk_length: Tensor | None = None) -> tuple[Tensor, Tensor]:
    _check_expand(kv, indices, topk_length)
    return indices.new_empty(indices.shape), kv.new_empty(indices.numel(), kv.shape[1])


def _check_collect(wide: Tensor, indices: Tensor, slots: Tensor, s_kv: int) -> None:
    _check("indices", indices, (torch.int32,), ("s_q", "topk"))
    _check_limit("indices", "slots (tokens times topk)", indices.numel(), launches.MAX_SLOTS)
    _check("slots", slots, (torch.int32,), tuple(indices.shape), ("indices", indices))
    _check("wide", wide, (torch.float32,), (indices.numel(), "d_qk"), ("indices", indices))
    _check_limit("wide", "columns", wide.shape[1], MAX_COLUMNS)
    if type(s_kv) is bool or s_kv < 0:
        raise TileproofError(
            "s_kv is not a number of rows", where="s_kv", expected="0 or more", found=repr(s_kv)
        )
    _check_limit("s_kv", "rows", s_kv, checks.MAX_ROWS - launches.COLLECT_ROWS)


@torch.library.custom_op("tileproof::mla_collect", mutates_args=())
def collect(wide: Tensor, indices: Tensor, slots: Tensor, s_kv: int) -> Tensor:
    """Return dKV ``[s_kv, d_qk]`` float32: each row the sum, in the order of the slots, of the rows of `wide`
    ``[s_q * topk, d_qk]`` whose slot has its index. `indices` and `slots` are those of `expand`. The same
    bits in every call.
    """
    _check_collect(wide, indices, slots, s_kv)
    if not indices.numel() or not wide.shape[1] or not s_kv:
        return wide.new_zeros(s_kv, wide.shape[1])
    made = wide.new_empty(s_kv, wide.shape[1])
    given = {"wide": wide, "indices": indices, "slots": slots}
    sizes = indices.shape[0], s_kv, indices.shape[1], wide.shape[1]
    _launch(launches.COLLECT, given, {"dKV": made}, *sizes)
    return made


@collect.register_fake
def _(wide: Tensor, indices: Tensor, slots: Tensor, s_kv: int) -> Tensor:
    _check_collect(wide, indices, slots, s_kv)
    return wide.new_empty(s_kv, wide.shape[1])
