"""A launch description as sentryward's input: its PTX text and the JSON object of `spverify.kernel-input/v1`.

The format is sentryward's docs/input-json.md (source archive of version 0.1.1). It takes a launch's shape,
the meaning of each parameter, and the integers that decide control flow; it takes no tensor data.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tileproof.kernels.launch.arguments import (
    Item,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
    items_of,
)
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

SCHEMA = "spverify.kernel-input/v1"
ELEMENT_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}

# A loop of nvcc's around an inlined mbarrier.try_wait: the flag is 1 when the phase is complete, and the
# branch is taken back while the flag equals 0. Lines of `.loc` and comments may stand between.
_WAIT_LOOP = re.compile(
    r"(mbarrier\.(?:try|test)_wait\S*\s+([%\w]+),[^;]*;\s*selp\.b32\s+(%\w+), 1, 0, \2;\s*\}\n"
    r"(?:\s*(?://|\.loc)[^\n]*\n)*\s*setp\.eq\.)s32(\s+%\w+, \3, 0;)"
)


@dataclass(frozen=True)
class SentrywardInput:
    """What sentryward reads; `respelled` counts the wait loops whose spelling, not meaning, was changed."""

    ptx: str
    config: UncheckedObject
    respelled: int


def sentryward_input(file: LaunchFile) -> SentrywardInput:
    """Translates a launch of one cluster; TileproofError when it has more or cannot be said in the format.

    Integer inputs are stated with their values, as bytes that the kernel only reads: branches on them
    (lengths, key validity) are then decided, and the verdict holds for these values.
    """
    launch = file.main
    if file.launches != (launch,):
        raise TileproofError(
            "crosscheck looks at one launch", where=file.name, found=f"{len(file.steps)} steps"
        )
    clusters = math.prod(launch.grid) // math.prod(launch.cluster)
    if clusters != 1:
        raise TileproofError(
            "crosscheck takes one cluster at a time",
            where=f"{launch.entry}, grid {launch.grid}",
            expected=f"the grid of one cluster, {launch.cluster}",
            found=f"{clusters} clusters",
            do="give a case with one token",
        )
    config: UncheckedObject = {
        "schema": SCHEMA,
        "entry": launch.entry,
        "launch": {
            "grid_dim": list(launch.grid),
            "block_dim": list(launch.block),
            "cluster_dim": list(launch.cluster),
            "dynamic_shared_bytes": launch.shared_bytes,
        },
        "declarations": [],
        "arguments": [],
        "tma_descriptors": [],
        "shape_arrays": [],
    }
    for index, argument in enumerate(launch.arguments):
        offsets = [p.offset for p in argument.items] if isinstance(argument, StructArgument) else [0]
        for offset, item in zip(offsets, items_of(argument), strict=True):
            _describe(config, {"parameter": index, "offset": offset}, item, file)
    ptx, respelled = respell_waits(file.ptx)
    return SentrywardInput(ptx, config, respelled)


def respell_waits(ptx: str) -> tuple[str, int]:
    """The text with the comparison of every wait loop spelled `setp.eq.b32`, and how many there are.

    sentryward 0.1.1 knows a loop of try_wait by that spelling (its WaitLoop accepts `.b32` only), nvcc writes
    `setp.eq.s32`; on 32-bit operands both compare the same bits (PTX ISA, setp). Line numbers do not change.
    """
    return _WAIT_LOOP.subn(r"\1b32\4", ptx)


def _describe(config: UncheckedObject, at: dict[str, int], item: Item, file: LaunchFile) -> None:
    if isinstance(item, ScalarArgument):
        if not math.isfinite(item.value):
            raise TileproofError(
                "sentryward accepts only finite numbers", where=item.name, found=str(item.value)
            )
        config["arguments"].append({**at, "type": item.type, "value": item.value})
    elif isinstance(item, TensorMapArgument):
        config["declarations"].append({**at, "type": "tensor_map", "object": item.buffer})
        config["tma_descriptors"].append({**at, **_tensor_map(item, file.buffer(item.buffer))})
    elif isinstance(item, PointerArgument) and not item.offset:
        buffer = file.buffer(item.buffer)
        config["declarations"].append({**at, "type": "pointer", "space": "global", "object": buffer.name})
        values = buffer.elements(file.folder)
        if values is not None and values.dtype.kind in "iu" and values.dtype.itemsize in (4, 8):
            # The format wants non-negative numbers; the bytes count: -1 is written as its unsigned twin.
            width = values.dtype.itemsize
            rows = values.view(f"u{width}").reshape(buffer.shape[0], -1)
            config["shape_arrays"].append({**at, "element_type": f"u{8 * width}", "shapes": rows.tolist()})
    else:
        raise TileproofError(
            "sentryward's format has no such argument", where=str(at), found=f"{item.kind} with an offset"
        )


def _element_type(dtype: str) -> str:
    """TileproofError for a type that sentryward has no name for."""
    if dtype not in ELEMENT_TYPES:
        raise TileproofError("sentryward has no such element type of a tensor map", found=dtype)
    return ELEMENT_TYPES[dtype]


def _tensor_map(item: TensorMapArgument, buffer: LaunchBuffer) -> UncheckedObject:
    return {
        "object": buffer.name,
        "element_type": _element_type(item.dtype or buffer.dtype),
        "rank": len(item.shape),
        "base_byte_offset": item.offset,
        "global_shape": list(item.shape),
        "global_strides_bytes": list(item.strides),
        "box_shape": list(item.box),
        "element_strides": list(item.element_strides),
        "swizzle": item.swizzle,
        "interleave": "none",
        "oob_fill": item.oob_fill,
    }
