"""Other draws of a launch file's inputs: an answer that is stored somewhere is wrong for them.

The seed is a hash of the whole case, so that a kernel or a launch file that holds the answers to a draw has
changed the draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tileproof.conformance.launches.modules import LoadedModule
from tileproof.kernels.launch.contents import (
    ArrayContent,
    FileBytes,
    IntegerDraw,
    NormalDraw,
    UniformDraw,
    Unwritten,
    dtype_of,
)
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.types import Array

SEED_BITS = 64


def drawn(launch: LaunchFile) -> list[str]:
    """The buffers whose contents are draws from a seed: any other seed is as good. A draw that holds the same
    bytes for another seed (a deviation of 0) is none.
    """
    return [
        buffer.name
        for buffer in launch.buffers
        if isinstance(buffer.content, NormalDraw | UniformDraw | IntegerDraw)
        and _array(buffer, 0).tobytes() != _array(buffer, 1).tobytes()
    ]


def _array(buffer: LaunchBuffer, more: int) -> Array:
    """The contents of a buffer that is a draw, with that much added to its seed."""
    content = buffer.content
    assert isinstance(content, NormalDraw | UniformDraw | IntegerDraw)
    other = replace(content, seed=(content.seed + more) % 2**SEED_BITS)
    return other.array(buffer.shape, dtype_of(buffer.dtype))


def fixed(launch: LaunchFile) -> list[str]:
    """The inputs whose contents the launch file fixes."""
    others = set(drawn(launch))
    return [b.name for b in launch.buffers if not isinstance(b.content, Unwritten) and b.name not in others]


def redrawn(launch: LaunchFile, modules: Mapping[str, LoadedModule]) -> dict[str, Array]:
    """The contents of every buffer that is a draw, from another seed."""
    new = _seed(launch, modules)
    return {
        buffer.name: _array(buffer, new)
        for buffer in launch.buffers
        if isinstance(buffer.content, NormalDraw | UniformDraw | IntegerDraw)
    }


def _seed(launch: LaunchFile, modules: Mapping[str, LoadedModule]) -> int:
    whole = hashlib.sha256()
    for name in sorted(modules):
        whole.update(modules[name].ptx.encode())
    for buffer in launch.buffers:
        if isinstance(buffer.content, ArrayContent | FileBytes):
            array = buffer.elements(launch.folder)
            whole.update(b"" if array is None else array.tobytes())
        else:
            whole.update(repr(buffer).encode())
    whole.update(repr((launch.steps, launch.captures)).encode())
    return int.from_bytes(whole.digest()[: SEED_BITS // 8], "little")
