"""Where element (mn, k) of an MMA operand lies in shared memory.

Source: PTX ISA 9.7.16.3 and 9.7.16.4 (canonical layouts, leading and stride byte offset); the comments at
make_umma_desc in CUTLASS 4.2 `mma_traits_sm100.hpp`. `mn` is the row of A (m) or of B as stored (n); division
is integer.

| major | swizzle | byte address |
|---|---|---|
| K | none | start + (mn/8) SBO + (mn%8) 16 + (k/8) LBO + (k%8) 2 |
| K | 32B, 64B, 128B | SW(start + (mn/8) SBO + (mn%8) W + 2 k), LBO unused |
| MN | none | start + (mn/8) SBO + (mn%8) 2 + (k/8) LBO + (k%8) 16 |
| MN | 32B, 64B, 128B | SW(start + (mn/(W/2)) LBO + (mn%(W/2)) 2 + (k/8) SBO + (k%8) W) |
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.errors import TileproofError

Major = Literal["K", "MN"]
Index = int | npt.NDArray[np.int64]


def address(
    major: Major, mode: str, start: int, lbo: int, sbo: int, mn: Index, k: Index
) -> npt.NDArray[np.int64]:
    """Byte address of 16-bit element(s) (mn, k) inside one instruction's operand; mn and k broadcast."""
    row, col = np.broadcast_arrays(np.asarray(mn, dtype=np.int64), np.asarray(k, dtype=np.int64))
    w = sw.width(mode)
    if major == "K":
        if mode == "none":
            at = start + row // 8 * sbo + row % 8 * 16 + col // 8 * lbo + col % 8 * 2
        else:
            at = start + row // 8 * sbo + row % 8 * w + 2 * col
    elif major == "MN":
        if mode == "none":
            at = start + row // 8 * sbo + row % 8 * 2 + col // 8 * lbo + col % 8 * 16
        else:
            half = w // 2
            at = start + row // half * lbo + row % half * 2 + col // 8 * sbo + col % 8 * w
    else:
        raise TileproofError("unknown major", expected="K or MN", found=repr(major))
    return sw.swizzle(mode, at)


def advance_k(major: Major, mode: str, lbo: int, sbo: int) -> int:
    """Bytes to add to the start address for the next 16 elements of k inside one atom (PTX ISA 9.7.16.4,
    CuTe).

    K-major 32B has one slice of 16 per atom, 64B two, 128B four; beyond that the next atom column starts.
    """
    if major == "K":
        return 2 * lbo if mode == "none" else 32
    return 2 * lbo if mode == "none" else 2 * sbo
