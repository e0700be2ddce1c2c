"""Whether one matrix descriptor can describe an operand: the canonical layouts of tcgen05.mma.

Source: PTX ISA 9.7.16.3 (canonical layouts); the static assertions of UMMA::make_umma_desc and
UMMA::layout_type in CUTLASS 4.2 `mma_traits_sm100.hpp`. Units are 16 bytes, as there.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileproof.spec.machine.contracts import algebra
from tileproof.spec.machine.contracts.algebra import Layout, Refused
from tileproof.spec.machine.contracts.form import BITS, Major

# 16-byte units along MN in one atom: 1 without swizzle, then the swizzle's width.
ATOM_MN = {"none": 1, "32B": 2, "64B": 4, "128B": 8, "128B_ATOM_32B": 8}
CHUNK_BITS = 128


@dataclass(frozen=True)
class Strides:
    """The two strides of a matrix descriptor, in bytes."""

    lbo: int
    sbo: int


def strides(part: Layout, major: Major, swizzle: str, dtype: str) -> Strides:
    """The descriptor strides of one instruction's part ``[MN, 32 bytes of K]``; Refused when there are none.

    `part` is in elements. The message of Refused is CuTe's.
    """
    units = algebra.upcast(part, CHUNK_BITS // BITS[dtype])
    width = ATOM_MN[swizzle]
    if major == "MN":
        rows, depth = _divide(units, (width, 4 if swizzle == "128B_ATOM_32B" else 8), "MN")
        if swizzle != "none" and rows[0] != 1:
            raise Refused("Not a canonical UMMA_MN Layout: Expected stride failure")
        if depth[0] != width:
            raise Refused("Not a canonical UMMA_MN Layout: Expected stride failure")
        sbo, lbo = (rows[1], depth[1]) if swizzle == "none" else (depth[1], rows[1])
        return Strides(16 * lbo, 16 * sbo)
    if swizzle == "128B_ATOM_32B":
        raise Refused("SWIZZLE_128B_BASE32B is invalid for Major-K")
    if algebra.size(units[0].shape) % 8:
        raise Refused("Not a canonical UMMA_K Layout: Expected MN-size multiple of 8")
    rows, depth = _divide(units, (8, 2), "K")
    if rows[0] != width or (swizzle != "none" and depth[0] != 1):
        raise Refused("Not a canonical UMMA_K Layout: Expected stride failure")
    return Strides(16 * depth[0], 16 * rows[1])


def _divide(units: Layout, tiles: tuple[int, int], name: str) -> list[tuple[int, int]]:
    """Strides ((inside, outside) along MN, (inside, outside) along K) of the units cut into `tiles`."""
    found = []
    for mode, tile in zip(algebra.modes(units), tiles, strict=True):
        inside, outside = algebra.divide(mode, tile)
        if isinstance(inside.shape, tuple) or isinstance(outside.shape, tuple):
            raise Refused(f"Not a canonical UMMA_{name} Layout: Expected profile failure")
        found.append((inside.stride, outside.stride))
    return found
