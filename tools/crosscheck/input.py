"""A launch description as sentryward's input: its PTX text and the JSON object of `spverify.kernel-input/v1`.

The format is sentryward's docs/input-json.md (source archive of version 0.1.1). It takes a launch's shape,
the meaning of each parameter, and the integers that decide control flow; it takes no tensor data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tileproof.kernels.launch import Buffer, Launch, Scalar, Struct, TensorMapSpec
from tileproof.spec.machine.errors import TileproofError

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
    config: dict[str, Any]
    respelled: int


def sentryward_input(launch: Launch) -> SentrywardInput:
    """Translates a launch of one cluster; TileproofError when it has more or cannot be said in the format.

    Integer inputs are stated with their values, as bytes that the kernel only reads: branches on them
    (lengths, key validity) are then decided, and the verdict holds for these values.
    """
    clusters = math.prod(launch.grid) // math.prod(launch.cluster)
    if clusters != 1:
        raise TileproofError(
            "crosscheck looks at one cluster at a time",
            where=f"{launch.entry}, grid {launch.grid}",
            expected=f"the grid of one cluster, {launch.cluster}",
            found=f"{clusters} clusters",
            do="give a case with one token",
        )
    config: dict[str, Any] = {
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
    for parameter, offset, item in _places(launch):
        _describe(config, {"parameter": parameter, "offset": offset}, item)
    ptx, respelled = respell_waits(launch.image)
    return SentrywardInput(ptx, config, respelled)


def respell_waits(ptx: str) -> tuple[str, int]:
    """The text with the comparison of every wait loop spelled `setp.eq.b32`, and how many there are.

    sentryward 0.1.1 knows a loop of try_wait by that spelling (its WaitLoop accepts `.b32` only), nvcc writes
    `setp.eq.s32`; on 32-bit operands both compare the same bits (PTX ISA, setp). Line numbers do not change.
    """
    return _WAIT_LOOP.subn(r"\1b32\4", ptx)


def _places(launch: Launch) -> Iterator[tuple[int, int, Buffer | Scalar | TensorMapSpec]]:
    for index, parameter in enumerate(launch.params):
        if isinstance(parameter, Struct):
            yield from ((index, offset, item) for offset, item in parameter.fields)
        else:
            yield index, 0, parameter


def _describe(config: dict[str, Any], at: dict[str, int], item: Buffer | Scalar | TensorMapSpec) -> None:
    if isinstance(item, Scalar):
        if not math.isfinite(item.value):
            raise TileproofError(
                "sentryward takes finite numbers only", where=item.name, found=str(item.value)
            )
        config["arguments"].append({**at, "type": item.type, "value": item.value})
        return
    buffer = item.buffer if isinstance(item, TensorMapSpec) else item
    if isinstance(item, TensorMapSpec):
        config["declarations"].append({**at, "type": "tensor_map", "object": buffer.name})
        config["tma_descriptors"].append({**at, **_tensor_map(item)})
        return
    config["declarations"].append({**at, "type": "pointer", "space": "global", "object": buffer.name})
    if buffer.array is not None and buffer.dtype.kind in "iu" and buffer.dtype.itemsize in (4, 8):
        # The format wants non-negative numbers; the bytes count: -1 is written as its unsigned twin.
        width = f"u{8 * buffer.dtype.itemsize}"
        rows = buffer.array.view(f"u{buffer.dtype.itemsize}").reshape(buffer.shape[0], -1)
        config["shape_arrays"].append({**at, "element_type": width, "shapes": rows.tolist()})


def _tensor_map(item: TensorMapSpec) -> dict[str, Any]:
    return {
        "object": item.buffer.name,
        "element_type": ELEMENT_TYPES[item.dtype],
        "rank": len(item.shape),
        "base_byte_offset": 0,
        "global_shape": list(item.shape),
        "global_strides_bytes": list(item.strides),
        "box_shape": list(item.box),
        "element_strides": list(item.element_strides),
        "swizzle": item.swizzle,
        "interleave": "none",
        "oob_fill": item.oob_fill,
    }
