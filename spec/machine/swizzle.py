"""Shared-memory swizzles as functions of the byte address.

Source: PTX ISA 5.5.7 (the tensor-map swizzle modes, 16-byte chunks inside 128-byte lines) and 9.7.16.3
(matrix operand layouts of tcgen05.mma); both are the XOR of address bits [7, 7+B) onto bits [4, 4+B). It acts
on the absolute address. Tensor maps have the 128-byte swizzle with 32-byte chunks too (CUDA driver API,
CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; PTX ISA 5.5.7, swizzle-atomicity): bits [7, 9) onto bits [5, 7), which is
CuTe's Swizzle<2,5,2>. Those with 64-byte chunks and with flipped halves are not known well enough.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError

Address = TypeVar("Address", int, npt.NDArray[np.int64])

BITS = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
LINE = 128
CHUNK = 16
# 128-byte rows in atoms of 32 or 64 bytes, of tensor maps (32B: also of transposed tf32 operands): (first
# bit that moves, how many), and whether the halves of 16 bytes change places in every other line
# (CUtensorMapSwizzle; CuTe's Swizzle<2,5,2> for the first).
ATOMS = {
    "128B_ATOM_32B": (5, 2, False),
    "128B_ATOM_32B_FLIP_8B": (5, 2, True),
    "128B_ATOM_64B": (6, 1, False),
}


def bits(mode: str) -> int:
    """B of a swizzle mode: 0 none, 1 32B, 2 64B, 3 128B."""
    try:
        return BITS[mode]
    except KeyError:
        raise TileproofError("unknown swizzle mode", expected=", ".join(BITS), found=repr(mode)) from None


def width(mode: str) -> int:
    """W, the bytes of one row of the swizzle atom: 16 (none), 32, 64 or 128."""
    return LINE if mode in ATOMS else 16 << bits(mode)


def span(mode: str) -> int:
    """Bytes after which the pattern repeats: 16 (none), 256, 512 or 1024 (PTX ISA table 41)."""
    if mode in ATOMS:
        return LINE << ATOMS[mode][1]
    return CHUNK if mode == "none" else 8 * width(mode)


def swizzle(mode: str, address: Address, base_offset: int = 0) -> Address:
    """Where the byte at unswizzled `address` really lies; its own inverse.

    `base_offset`, of matrix descriptors: the 128-byte line, modulo 8, at which the pattern starts (PTX ISA
    table 41); lines are counted from there.
    """
    lines = (address >> 7) - base_offset
    if mode in ATOMS:
        low, count, flips = ATOMS[mode]
        out = address ^ ((lines & ((1 << count) - 1)) << low)
        return out ^ ((lines & 1) << 3) if flips else out
    return address ^ (lines & (1 << bits(mode)) - 1) << 4


def chunk(mode: str, line: int, index: int) -> int:
    """Where chunk `index` (0..7) of 128-byte line `line` goes, as PTX ISA 5.5.7's tables list it."""
    return index ^ (line % (1 << bits(mode)))
