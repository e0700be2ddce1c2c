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
| MN | 128B, 32-byte atoms (tf32) | SW(start + (mn/32) LBO + (mn%32) 4 + (k/4) SBO + (k%4) 128) |

The rows are for 16-bit elements; for others a 16-byte chunk holds T = 128 / bits of them and takes the place
of 8. The last row is LayoutType::128B_BASE32B of the same comments.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.errors import TileproofError

Major = Literal["K", "MN"]
Index = int | npt.NDArray[np.int64]


def chunk(
    major: Major,
    mode: str,
    start: int,
    lbo: int,
    sbo: int,
    mn: Index,
    k: Index,
    *,
    bits: int = 16,
    base_offset: int = 0,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(byte address of the 16-byte chunk, index inside it) of element(s) (mn, k); mn and k broadcast.

    `bits` is what an element takes, padding included: 4 in kinds mxf4 and mxf4nvf4, else 8 for all narrow
    floats.
    """
    row, col = np.broadcast_arrays(np.asarray(mn, dtype=np.int64), np.asarray(k, dtype=np.int64))
    each = 128 // bits
    w = 128 if mode == "128B_ATOM_32B" else sw.width(mode)
    if major == "K":
        at, index = col // each * 16, col % each
        if mode == "none":
            place = start + row // 8 * sbo + row % 8 * 16 + at // 16 * lbo
        else:
            place = start + row // 8 * sbo + row % 8 * w + at // w * lbo + at % w
    elif major == "MN":
        at, index = row // each * 16, row % each
        if mode == "none":
            place = start + at // 16 * sbo + col // 8 * lbo + col % 8 * 16
        else:
            deep = 4 if mode == "128B_ATOM_32B" else 8
            place = start + at // w * lbo + at % w + col // deep * sbo + col % deep * w
    else:
        raise TileproofError("unknown major", expected="K or MN", found=repr(major))
    return sw.swizzle(mode, place, base_offset), index


def address(
    major: Major, mode: str, start: int, lbo: int, sbo: int, mn: Index, k: Index, *, bits: int = 16
) -> npt.NDArray[np.int64]:
    """Byte address of element(s) (mn, k), of 8 bits or more, inside one instruction's operand; mn and k
    broadcast."""
    place, index = chunk(major, mode, start, lbo, sbo, mn, k, bits=bits)
    return place + index * (bits // 8)


def advance_k(major: Major, mode: str, lbo: int, sbo: int) -> int:
    """Bytes to add to the start address for the next 16 elements of k inside one atom (PTX ISA 9.7.16.4,
    CuTe).

    K-major 32B has one slice of 16 per atom, 64B two, 128B four; beyond that the next atom column starts.
    """
    if major == "K":
        return 2 * lbo if mode == "none" else 32
    return 2 * lbo if mode == "none" else 2 * sbo
