"""Every argument of a call, checked by name before anything runs: type, dtype, device, shape, extent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.tensors import FORMS

FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
INTEGERS = (torch.int32, torch.int64)
MAX_ROWS = 2**31 - 1  # a row of q or kv is numbered in int32: indices, coordinates of tensor maps
OUTPUT_ALIGNMENT = 16  # bytes
AXES = {form.name: form.axes for form in FORMS if form.role == "input"} | {"sink": ("h_q",)}
_INTEGER_NAMES = ("indices", "topk_length")
OPTIONAL = ("topk_length", "sink")
_PER_HEAD = ("sink",)  # without a batch axis
PLAIN = (torch.Tensor, torch.nn.Parameter)  # a fake tensor has symbolic lengths
Sizes = Mapping[str, int]


def check_tensors(given: Mapping[str, torch.Tensor | None]) -> tuple[bool, Sizes]:
    """Whether the tensors have a batch axis, and the length of every axis (`b` too: 1 without it).

    `given`: tensors by the names of `AXES`, q among them; None for an absent tensor. TileproofError
    names the first argument that does not fit.
    """
    q = given["q"]
    check_kind("q", q, FLOATS, None)
    assert q is not None
    if q.dim() not in (3, 4):
        raise TileproofError(
            "q has the wrong number of axes", where="q", expected="[s_q, h_q, d_qk] or [b, s_q, h_q, d_qk]",
            found=str(list(q.shape)),
        )  # fmt: skip
    batched = q.dim() == 4
    statistics = torch.float64 if q.dtype == torch.float64 else torch.float32
    sizes: dict[str, int] = {}
    for name, tensor in given.items():
        if tensor is None and name in OPTIONAL:
            continue
        if name in _INTEGER_NAMES:
            dtypes: Sequence[torch.dtype] = INTEGERS
        else:
            dtypes = (statistics,) if name in ("lse", "sink") else FLOATS if name == "q" else (q.dtype,)
        check_kind(name, tensor, dtypes, q.device)
        assert tensor is not None
        axes = AXES[name] if name in _PER_HEAD or not batched else ("b", *AXES[name])
        _check_shape(name, tensor, axes, sizes)
    sizes.setdefault("b", 1)
    _check_extents(sizes)
    return batched, sizes


def is_flat(required: tuple[object, ...], optional: tuple[object, ...]) -> bool:
    """Whether these are torch's own tensors, optional tensors perhaps None, and the first, q, has no batch
    axis.
    """
    for tensor in required:
        if type(tensor) not in PLAIN:
            return False
    for tensor in optional:
        if tensor is not None and type(tensor) not in PLAIN:
            return False
    q = required[0]
    return isinstance(q, torch.Tensor) and q.dim() == 3


def signature(*tensors: torch.Tensor | None) -> tuple[object, ...] | None:
    """What `check_tensors` reads of tensors; None where torch traces, or for a subclass of Tensor."""
    if torch.compiler.is_compiling():
        return None
    read: list[object] = []
    for tensor in tensors:
        if tensor is None:
            read.append(None)
        elif type(tensor) in PLAIN:
            read += (tensor.shape, tensor.dtype, tensor.device, tensor.layout)
        else:
            return None
    return tuple(read)


# Ends of sequences: of both, or of queries and of kv rows.
Sequences = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def check_kind(
    name: str, tensor: object, dtypes: Sequence[torch.dtype], device: torch.device | None, of: str = "q"
) -> None:
    """A strided tensor of one of these dtypes, on the device of another argument."""
    if not isinstance(tensor, torch.Tensor):
        raise TileproofError(
            f"{name} is not a tensor", where=name, expected="a torch.Tensor", found=type(tensor).__name__
        )
    if tensor.layout != torch.strided:
        raise TileproofError(
            f"{name} has the wrong layout", where=name, expected="torch.strided", found=str(tensor.layout)
        )
    if tensor.dtype not in dtypes:
        raise TileproofError(
            f"{name} has the wrong dtype", where=name, expected=" or ".join(map(str, dtypes)),
            found=str(tensor.dtype),
        )  # fmt: skip
    if device is not None and tensor.device != device:
        raise TileproofError(
            f"{name} is on another device",
            where=name,
            expected=f"{device}, as {of} is",
            found=str(tensor.device),
        )


def _check_shape(name: str, tensor: torch.Tensor, axes: Sequence[str], sizes: dict[str, int]) -> None:
    """The axes' lengths are those known already; unknown lengths are added to `sizes`."""
    fits = tensor.dim() == len(axes) and all(
        axis not in sizes or sizes[axis] == length for axis, length in zip(axes, tensor.shape, strict=True)
    )
    if not fits:
        known = [str(sizes.get(axis, axis)) for axis in axes]
        raise TileproofError(
            f"{name} has the wrong shape", where=name,
            expected=f"[{', '.join(axes)}] = [{', '.join(known)}]", found=str(list(tensor.shape)),
        )  # fmt: skip
    for axis, length in zip(axes, tensor.shape, strict=True):
        sizes.setdefault(axis, length)


def _check_extents(sizes: Sizes) -> None:
    """Rows are numbered in int32, and V is the first columns of kv."""
    rows = {"q": sizes["b"] * sizes["s_q"] * sizes["h_q"], "kv": sizes["b"] * sizes["s_kv"]}
    rows["indices"] = sizes["topk"]
    words = {"q": "rows (b * s_q * h_q)", "kv": "rows (b * s_kv)", "indices": "slots of a token (topk)"}
    for name, found in rows.items():
        if found > MAX_ROWS:
            raise TileproofError(
                f"{name} is too large", where=name, expected=f"at most {MAX_ROWS} {words[name]}",
                found=str(found),
            )  # fmt: skip
    if "d_v" in sizes:
        check_width(sizes["d_v"], sizes["d_qk"], "o")


def check_width(d_v: int, d_qk: int, where: str) -> None:
    """V is the first `d_v` of the `d_qk` columns of kv."""
    if type(d_v) is bool or not 0 <= d_v <= d_qk:
        raise TileproofError(
            "d_v is not a number of columns of kv", where=where, expected=f"0 <= d_v <= d_qk = {d_qk}",
            found=str(d_v),
        )  # fmt: skip


def check_scale(sm_scale: float | None, d_qk: int) -> float:
    """The factor of the logits; without one d_qk^-0.5."""
    if sm_scale is None:
        return float(max(d_qk, 1)) ** -0.5
    if type(sm_scale) not in (int, float) or not (math.isfinite(sm_scale) and sm_scale > 0):
        raise TileproofError(
            "sm_scale is not a positive finite number", where="sm_scale", expected="a float > 0, or None",
            found=repr(sm_scale),
        )  # fmt: skip
    return float(sm_scale)


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """One of a few values."""
    for choice in choices:
        if value is choice:
            return
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise TileproofError(
            f"{name} has an unknown value", where=name, expected=" or ".join(map(repr, choices)),
            found=repr(value)[:100],
        )  # fmt: skip


def check_dkv_dtype(dtype: torch.dtype, q: torch.Tensor) -> None:
    """float64 gradients are of float64 inputs."""
    check_choice("dkv_dtype", dtype, FLOATS if q.dtype == torch.float64 else FLOATS[:3])


def check_sequences(cu_seqlens: Sequences, q: torch.Tensor, kv: torch.Tensor, batched: bool) -> None:
    """`cu_seqlens [n + 1]`, or a pair of them (of queries, of kv rows): 0, not decreasing, up to the end.

    Values are read on the CPU only: on another device the host would wait for them.
    """
    if batched:
        raise TileproofError(
            "cu_seqlens is for packed sequences, which have no batch axis", where="cu_seqlens",
            expected="q [s_q, h_q, d_qk]", found=f"q {list(q.shape)}",
        )  # fmt: skip
    pair = cu_seqlens if isinstance(cu_seqlens, tuple | list) else (cu_seqlens, cu_seqlens)
    if len(pair) != 2:
        raise TileproofError(
            "cu_seqlens is not a tensor or a pair", where="cu_seqlens",
            expected="a tensor for queries and kv rows, or a tensor for each", found=f"{len(pair)} elements",
        )  # fmt: skip
    for ends, rows, of in zip(pair, (q, kv), ("q", "kv"), strict=True):
        check_kind("cu_seqlens", ends, INTEGERS, q.device)
        if ends.dim() != 1 or ends.shape[0] < 2 or ends.shape != pair[0].shape:
            raise TileproofError(
                "cu_seqlens has the wrong shape", where="cu_seqlens",
                expected="[n + 1] for n >= 1 sequences, the same for queries and kv rows",
                found=" and ".join(str(list(ends.shape)) for ends in pair),
            )  # fmt: skip
        if torch.compiler.is_compiling() or ends.device.type != "cpu":
            continue
        steps = ends.long().diff()
        if int(ends[0]) != 0 or int(ends[-1]) != rows.shape[0] or bool((steps < 0).any()):
            raise TileproofError(
                "cu_seqlens does not cut the rows into sequences", where="cu_seqlens",
                expected=f"0, ... not decreasing ..., {rows.shape[0]} (rows of {of})",
                found=str(ends.tolist()[:20]),
            )  # fmt: skip
