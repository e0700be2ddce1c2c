"""Other draws of a launch file's inputs: an answer that is stored somewhere is wrong for them.

The seed is a hash of the whole case, so that a kernel or a launch file that holds the answers to a draw has
changed the draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.kernels.launch.contents import (
    ArrayContent,
    FileBytes,
    IntegerDraw,
    NormalDraw,
    UniformDraw,
    Unwritten,
    dtype_of,
    elements,
)
from tileproof.kernels.launch.model import LaunchFile

SEED_BITS = 64


def drawn(launch: LaunchFile) -> list[str]:
    """The buffers whose contents are draws from a seed: any other seed is as good."""
    return [b.name for b in launch.buffers if isinstance(b.content, NormalDraw | UniformDraw | IntegerDraw)]


def fixed(launch: LaunchFile) -> list[str]:
    """The inputs whose contents the launch file fixes."""
    others = set(drawn(launch))
    return [b.name for b in launch.buffers if not isinstance(b.content, Unwritten) and b.name not in others]


def redrawn(launch: LaunchFile, modules: Mapping[str, LoadedModule]) -> dict[str, npt.NDArray[Any]]:
    """The contents of every buffer that is a draw, from another seed."""
    new = _seed(launch, modules)
    made = {}
    for buffer in launch.buffers:
        content = buffer.content
        if isinstance(content, NormalDraw | UniformDraw | IntegerDraw):
            other = replace(content, seed=(content.seed + new) % 2**SEED_BITS)
            array = elements(other, buffer.shape, dtype_of(buffer.dtype), launch.folder, buffer.name)
            assert array is not None  # a draw is no `Unwritten`
            made[buffer.name] = array
    return made


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
