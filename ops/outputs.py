"""`out`: the caller's tensors for results, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tileproof.ops.checks import OUTPUT_ALIGNMENT
from tileproof.spec.machine.errors import TileproofError


def check_out(
    out: Sequence[torch.Tensor],
    results: Mapping[str, tuple[tuple[int, ...], torch.dtype]],
    given: Mapping[str, torch.Tensor | None],
) -> None:
    """`out` has one tensor for each of `results` (name -> shape, dtype) and shares no memory with `given`.

    TileproofError names the element of `out` and the tensor that it overlaps. Overlap and alignment need
    addresses: they are not checked while torch.compile traces.
    """
    if not isinstance(out, tuple | list) or len(out) != len(results):
        raise TileproofError(
            "out is not a tuple of the results", where="out", expected=f"({', '.join(results)})",
            found=f"{len(out)} elements" if isinstance(out, tuple | list) else type(out).__name__,
        )  # fmt: skip
    assert given["q"] is not None
    device = given["q"].device
    for number, (tensor, (name, (shape, dtype))) in enumerate(zip(out, results.items(), strict=True)):
        where = f"out[{number}] ({name})"
        if not isinstance(tensor, torch.Tensor):
            raise TileproofError(
                "an output is not a tensor", where=where, expected="a torch.Tensor",
                found=type(tensor).__name__,
            )  # fmt: skip
        wanted = {
            "shape": (list(shape), list(tensor.shape)),
            "dtype": (dtype, tensor.dtype),
            "device": (device, tensor.device),
            "layout": (torch.strided, tensor.layout),
            "requires_grad": (False, tensor.requires_grad),
        }
        for what, (expected, found) in wanted.items():
            if expected != found:
                raise TileproofError(
                    f"an output has the wrong {what}", where=where, expected=str(expected), found=str(found)
                )
        if not tensor.is_contiguous():
            raise TileproofError(
                "an output is not contiguous", where=where, expected="C order without gaps",
                found=f"strides {list(tensor.stride())}",
            )  # fmt: skip
    if not torch.compiler.is_compiling():
        _check_memory(out, list(results), given)


def _check_memory(out: Sequence[torch.Tensor], names: list[str], given: Mapping[str, object]) -> None:
    """Alignment, and ranges of memory that overlap."""
    ranges = {name: _range(tensor) for name, tensor in given.items() if isinstance(tensor, torch.Tensor)}
    for number, (tensor, name) in enumerate(zip(out, names, strict=True)):
        where, (first, end) = f"out[{number}] ({name})", _range(tensor)
        if first % OUTPUT_ALIGNMENT and end > first:
            raise TileproofError(
                "an output is not aligned", where=where,
                expected=f"an address that is a multiple of {OUTPUT_ALIGNMENT}",
                found=f"{first} ({first % OUTPUT_ALIGNMENT} bytes past)",
            )  # fmt: skip
        for other, (low, high) in ranges.items():
            if max(first, low) < min(end, high):
                raise TileproofError(
                    "an output overlaps another tensor of the call", where=where,
                    expected="memory of its own",
                    found=f"{min(end, high) - max(first, low)} bytes of {other}",
                )  # fmt: skip
        ranges[where] = first, end


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of the memory between a tensor's first and last element."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return 0, 0
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
