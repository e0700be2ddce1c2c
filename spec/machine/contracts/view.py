"""An operand as an MMA sees it: extents, major-ness and swizzle, derived from its CuTe layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.contracts import algebra
from tileproof.spec.machine.contracts.algebra import IntTuple, Layout, Refused, pycute
from tileproof.spec.machine.contracts.form import BITS, Major
from tileproof.spec.machine.errors import TileproofError

Space = Literal["smem", "tmem", "gmem", "rmem"]
SwizzleBits = tuple[int, int, int]

# Swizzle<B, M, S> of byte addresses -> mode of the descriptor (UMMA::layout_type, mma_traits_sm100.hpp)
MODES: dict[SwizzleBits, str] = {
    (0, 4, 3): "none",
    (1, 4, 3): "32B",
    (2, 4, 3): "64B",
    (3, 4, 3): "128B",
    (2, 5, 2): "128B_ATOM_32B",
}


@dataclass(frozen=True)
class OperandView:
    """A ``[mn, k]`` view of an operand's buffer: M or N rows and K columns, for an accumulator ``[M, N]``.

    The extents are those that one CTA holds. For a pair (cta_group 2) that is half of M for A, half of N for
    B and half of M for the accumulator.

    major: the mode whose neighbouring elements lie side by side, "neither" when none does, None when it is
    not known. swizzle: a mode of the matrix descriptor, "other" when it has none, None when not known.
    layout: the CuTe layout in elements (pycute.Layout of rank 2), when it is known; `refused` says why there
    is none though one was asked for. part, tiles: of an operand that is cut already, the layout of one
    instruction's part and the number of parts along MN and K. address: bytes, in shared memory.
    lane, column: in tensor memory, counted from the CTA's first lane and column.
    """

    mn: int
    k: int
    dtype: str = "bf16"
    space: Space = "smem"
    major: Literal["K", "MN", "neither"] | None = None
    swizzle: str | None = None
    layout: Layout | None = None
    refused: str = ""
    part: Layout | None = None
    tiles: tuple[int, int] | None = None
    address: int | None = None
    lane: int | None = None
    column: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in BITS:
            raise TileproofError("unknown element type", expected=", ".join(BITS), found=repr(self.dtype))
        if self.mn < 1 or self.k < 1:
            raise TileproofError(
                "extents of an operand", expected="positive numbers", found=f"[{self.mn}, {self.k}]"
            )

    @staticmethod
    def from_cute(
        shape: IntTuple,
        stride: IntTuple,
        *,
        swizzle: SwizzleBits = (0, 4, 3),
        dtype: str = "bf16",
        space: Space = "smem",
        partitioned: bool = False,
        address: int | None = None,
    ) -> OperandView:
        """The view that a CuTe tensor gives: `shape`, `stride` in elements, `swizzle` of its byte addresses.

        The first two modes are MN and K; later modes (pipeline stages) are ignored. `partitioned`: the layout
        is ``((MMA_MN, MMA_K), MMAs_MN, MMAs_K, ...)``, as partition_A and tile_to_mma_shape make it.
        """
        layout = _rank_two(shape, stride, partitioned)
        part, tiles = None, None
        if partitioned:
            assert isinstance(shape, tuple) and isinstance(stride, tuple)
            part = pycute.Layout(shape[0], stride[0])
            tiles = (algebra.size(shape[1]), algebra.size(shape[2]))
        mn, k = pycute.size(layout[0]), pycute.size(layout[1])
        mode = MODES.get(swizzle) or ("none" if swizzle[0] == 0 else "other")
        return OperandView(
            mn,
            k,
            dtype,
            space,
            major_of(layout),
            mode,
            layout=layout,
            part=part,
            tiles=tiles,
            address=address,
        )

    @staticmethod
    def tile(
        mn: int,
        k: int,
        major: Major = "K",
        swizzle: str = "128B",
        *,
        dtype: str = "bf16",
        address: int | None = None,
    ) -> OperandView:
        """A shared-memory tile cut into the swizzle's atoms, tile_to_shape(UMMA::Layout_..._Atom, [mn, k]).

        If the atom does not divide the extents, there is no such tile; `refused` has the reason.
        """
        along, across = atom(major, swizzle, dtype)
        atom_shape, atom_stride = (
            ((across, along), (along, 1)) if major == "K" else ((along, across), (1, along))
        )
        layout, refused = None, ""
        try:
            layout = algebra.atom_tile(atom_shape, atom_stride, (mn, k))
        except Refused as why:
            refused = str(why)
        return OperandView(
            mn, k, dtype, "smem", major, swizzle, layout=layout, refused=refused, address=address
        )

    @staticmethod
    def in_tmem(
        mn: int, k: int, *, dtype: str = "bf16", lane: int | None = None, column: int | None = None
    ) -> OperandView:
        """An operand A ``[M, K]`` or an accumulator ``[M, N]`` in tensor memory."""
        return OperandView(mn, k, dtype, "tmem", "K", None, lane=lane, column=column)

    def transposed(self) -> OperandView:
        """The same buffer with the modes swapped: what was MN is K."""
        layout = None if self.layout is None else pycute.make_layout(self.layout[1], self.layout[0])
        swapped: dict[str | None, Major] = {"K": "MN", "MN": "K"}
        return replace(self, mn=self.k, k=self.mn, layout=layout, major=swapped.get(self.major, self.major))

    @property
    def text(self) -> str:
        """Extents, major-ness and swizzle in words: "[64, 256] K-major, 128B swizzle"."""
        words = f"[{self.mn}, {self.k}]"
        if self.space == "tmem":
            return f"{words} in TMEM"
        if self.major is not None:
            words += " contiguous along neither mode" if self.major == "neither" else f" {self.major}-major"
        if self.swizzle is not None:
            words += ", no swizzle" if self.swizzle == "none" else f", {self.swizzle} swizzle"
        return words + {"smem": "", "gmem": ", in global memory", "rmem": ", in registers"}[self.space]


def atom(major: Major, swizzle: str, dtype: str) -> tuple[int, int]:
    """(elements along the contiguous mode, rows across it) of the swizzle's atom.

    Source: PTX ISA 9.7.16.3; Layout_K_SW128_Atom_Bits and its like in `mma_traits_sm90_gmma.hpp`, and
    Layout_MN_SW128_32B_Atom_Bits in `mma_traits_sm100.hpp`.
    """
    if dtype not in BITS:
        raise TileproofError("unknown element type", expected=", ".join(BITS), found=repr(dtype))
    if major not in ("K", "MN"):
        raise TileproofError("unknown major", expected="K or MN", found=repr(major))
    if swizzle == "128B_ATOM_32B":
        return 1024 // BITS[dtype], 4
    return sw.width(swizzle) * 8 // BITS[dtype], 8


def major_of(layout: Layout) -> Literal["K", "MN", "neither"]:
    """Which mode of a ``[MN, K]`` layout has neighbouring elements side by side."""
    for index, name in ((0, "MN"), (1, "K")):
        flat = pycute.coalesce(layout[index])
        stride = flat.stride[0] if isinstance(flat.stride, tuple) else flat.stride
        if stride == 1 and pycute.size(layout[index]) > 1:
            return name  # type: ignore[return-value]
    return "neither"


def _rank_two(shape: IntTuple, stride: IntTuple, partitioned: bool) -> Layout:
    problem = TileproofError(
        "not a layout of an operand",
        where="CuTe layout",
        expected="((MMA_MN, MMA_K), MMAs_MN, MMAs_K)"
        if partitioned
        else "(MN, K): shape and stride alike nested",
        found=f"{shape}:{stride}",
    )
    if not _alike(shape, stride) or not isinstance(shape, tuple) or not isinstance(stride, tuple):
        raise problem
    if not partitioned:
        if len(shape) < 2:
            raise problem
        return pycute.Layout(shape[:2], stride[:2])
    if len(shape) < 3 or not isinstance(shape[0], tuple) or len(shape[0]) != 2:
        raise problem
    inner = stride[0]
    assert isinstance(inner, tuple)
    return pycute.Layout(
        ((shape[0][0], shape[1]), (shape[0][1], shape[2])), ((inner[0], stride[1]), (inner[1], stride[2]))
    )


def _alike(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return len(shape) == len(stride) and all(_alike(a, b) for a, b in zip(shape, stride, strict=True))
    return isinstance(shape, int) and isinstance(stride, int) and shape > 0 and stride >= 0
