"""Tensor memory: where an accumulator element lies, and which cell an ld/st register or a cp row is.

TMEM is 128 lanes by 512 columns of 32-bit cells per CTA; an address is ``lane << 16 | column`` (PTX ISA
9.7.16.1). Layouts A..G are PTX ISA 9.7.16.10.5's (figures 205-218); CUTLASS 4.2 `tmem_frg` and `tmem_frg_ws`
in `mma_traits_sm100.hpp`; C follows the TVM TIRx text only. Register maps: `copy_traits_sm100.hpp` (DstLayout
of each SM100_TMEM_LOAD traits), PTX ISA 9.7.16.2.3. Columns count from the tile's first column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

LANES = 128
COLUMNS = 512

I64 = npt.NDArray[np.int64]
Index = int | I64


@dataclass(frozen=True)
class DataPath:
    """One layout: M of the instruction, rows per CTA, and into how many lane groups N is cut."""

    m: int
    rows: int
    parts: int
    interleaved: bool


LAYOUTS = {
    "A": DataPath(256, 128, 1, False),
    "B": DataPath(128, 64, 2, False),
    "C": DataPath(128, 64, 1, True),
    "D": DataPath(128, 128, 1, False),
    "E": DataPath(64, 64, 2, False),
    "F": DataPath(64, 64, 1, True),
    "G": DataPath(32, 32, 4, False),
}


def layout(name: str) -> DataPath:
    """The layout called `name`, A to G."""
    if name not in LAYOUTS:
        raise TileproofError("unknown TMEM layout", expected=", ".join(LAYOUTS), found=repr(name))
    return LAYOUTS[name]


def columns(name: str, n: int) -> int:
    """Columns that an accumulator of N = n takes: N, N/2 (B, E) or N/4 (G)."""
    parts = layout(name).parts
    if n % parts:
        raise TileproofError(
            "N does not split over the lanes", expected=f"a multiple of {parts}", found=str(n)
        )
    return n // parts


def cell(name: str, n_total: int, m: Index, n: Index, lane_offset: int = 0) -> tuple[I64, I64, I64]:
    """(cta, lane, column) of accumulator element(s) (m, n); they broadcast. `lane_offset` 16: C, F."""
    path = _with_offset(name, lane_offset)
    row, col = np.broadcast_arrays(np.asarray(m, dtype=np.int64), np.asarray(n, dtype=np.int64))
    if ((row < 0) | (row >= path.m) | (col < 0) | (col >= n_total)).any():
        raise TileproofError(
            "no such element", expected=f"m < {path.m}, n < {n_total}", found=f"m {m}, n {n}"
        )
    width = columns(name, n_total)
    local = row % path.rows
    lane = (
        local % 16 + 32 * (local // 16) + lane_offset
        if path.interleaved
        else local + path.rows * (col // width)
    )
    return row // path.rows, lane, col % width


def element(
    name: str, n_total: int, cta: Index, lane: Index, column: Index, lane_offset: int = 0
) -> tuple[I64, I64]:
    """(m, n) at cell(s) (cta, lane, column), the inverse of `cell`; (-1, -1) where there is none."""
    path = _with_offset(name, lane_offset)
    c, row, col = np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in (cta, lane, column)))
    width = columns(name, n_total)
    if path.interleaved:
        inside = (row - lane_offset) % 32
        local, part = inside + 16 * (row // 32), np.zeros_like(row)
        used = (row >= lane_offset) & (inside < 16)
    else:
        local, part = row % path.rows, row // path.rows
        used = part < path.parts
    used = (
        used & (col >= 0) & (col < width) & (row >= 0) & (row < LANES) & (c >= 0) & (c < path.m // path.rows)
    )
    return np.where(used, c * path.rows + local, -1), np.where(used, col + width * part, -1)


def cells_of_cta(name: str, n_total: int, lane_offset: int = 0) -> tuple[I64, I64]:
    """(lane, column), each ``[rows per CTA, N]``: where each element of one CTA's part of D lies."""
    path = layout(name)
    rows, cols = np.arange(path.rows)[:, None], np.arange(n_total)[None, :]
    _, lane, column = cell(name, n_total, rows, cols, lane_offset)
    return lane, column


def tile_of(capture: Array, name: str, n_total: int, lane_offset: int = 0) -> Array:
    """``[rows per CTA, N]``: one CTA's part of D out of a capture ``[128, columns]`` of its cells."""
    need = columns(name, n_total)
    if capture.ndim != 2 or capture.shape[0] != LANES or capture.shape[1] < need:
        raise TileproofError(
            "not a capture of this accumulator",
            expected=f"[{LANES}, >= {need}]",
            found=str(list(capture.shape)),
        )
    return capture[cells_of_cta(name, n_total, lane_offset)]


def capture_of(tile: Array, name: str, lane_offset: int = 0) -> Array:
    """``[128, columns]``: the cells that hold one CTA's part ``[rows per CTA, N]`` of D; others are 0."""
    capture = np.zeros((LANES, columns(name, tile.shape[1])), dtype=tile.dtype)
    capture[cells_of_cta(name, tile.shape[1], lane_offset)] = tile
    return capture


def _with_offset(name: str, lane_offset: int) -> DataPath:
    path = layout(name)
    legal = (0, 16) if path.interleaved else (0,)
    if lane_offset not in legal:
        raise TileproofError(
            f"layout {name} cannot start at lane {lane_offset}", expected=str(legal), found=str(lane_offset)
        )
    return path


# A operand in TMEM: rows m to lanes, two 16-bit k in each cell (CUTLASS tmem_frg, TmemAllocMode)


def a_lanes(
    m_total: int, cta_group: int, m: int, *, ws: bool = False, lane_offset: int = 0
) -> list[tuple[int, int]]:
    """(cta, lane) of every copy of A row m that tcgen05.mma with A in TMEM reads."""
    if not 0 <= m < m_total:
        raise TileproofError("no such row of A", expected=f"0..{m_total - 1}", found=str(m))
    if ws and cta_group == 1 and m_total in (32, 64, 128):
        return [(0, m + copy) for copy in range(0, LANES, m_total)]
    known = {
        (128, 1): [(0, m)],
        (64, 1): [(0, m % 16 + 32 * (m // 16) + lane_offset)],
        (256, 2): [(m // 128, m % 128)],
        (128, 2): [(m // 64, m % 64), (m // 64, m % 64 + 64)],
    }
    if ws or (m_total, cta_group) not in known:
        raise TileproofError(
            "no such form", expected="a legal (M, cta_group)", found=f"{m_total}, {cta_group}"
        )
    return known[(m_total, cta_group)]


def a_column(k: int) -> tuple[int, int]:
    """(column, half) of element k of a bf16 A row: half 0 is the low 16 bits."""
    return k // 2, k % 2


# scale factors of block-scaled kinds (CUTLASS tmem_sf_frg; PTX ISA 9.7.16.10.7.2, 9.7.16.10.7.3)


def scale_cell(name: str, n_total: int, index: int, copy: int, *, of_b: bool = False) -> tuple[int, int]:
    """(lane, byte from the address on) of the first scale factor of a row, in the copy of lanes 32 * copy ...

    index: row of A counted inside the CTA, or, `of_b`, column of B. Each quarter of the lanes has its copy.
    Where the lanes are cut over N (layout B) a half of them holds the factors of the columns it computes,
    counted from 0; for a column of the other half the lane is -1.
    """
    parts = layout(name).parts if of_b else 1
    width = n_total // parts if of_b else 0
    if of_b and parts > 1:
        if index // width != copy * parts // 4:
            return -1, 0
        index %= width
    return index % 32 + 32 * copy, index // 32 * 4


# tcgen05.ld and .st

_REGISTERS = {
    "32x32b": (1, 128),
    "16x64b": (1, 128),
    "16x32bx2": (1, 128),
    "16x128b": (2, 64),
    "16x256b": (4, 32),
}


def registers(shape: str, num: int) -> int:
    """32-bit registers per thread of ``tcgen05.ld|st.<shape>.x<num>`` (PTX ISA 9.7.16.8, table 49)."""
    if shape not in _REGISTERS:
        raise TileproofError("unknown tcgen05.ld/st shape", expected=", ".join(_REGISTERS), found=repr(shape))
    each, limit = _REGISTERS[shape]
    if num not in (1, 2, 4, 8, 16, 32, 64, 128) or num > limit:
        raise TileproofError(
            f"illegal repeat of .{shape}", expected=f"a power of two up to {limit}", found=str(num)
        )
    return each * num


def register_cell(shape: str, num: int, thread: Index, register: Index, split: int = 0) -> tuple[I64, I64]:
    """(lane, column) from the address on, of register(s) of thread(s); `split` is 16x32bx2's immediate."""
    count = registers(shape, num)
    t, i = np.broadcast_arrays(np.asarray(thread, dtype=np.int64), np.asarray(register, dtype=np.int64))
    if ((t < 0) | (t > 31) | (i < 0) | (i >= count)).any():
        raise TileproofError(
            "no such register", expected=f"thread < 32, register < {count}", found=f"{thread}, {register}"
        )
    if shape == "32x32b":
        return t.copy(), i.copy()
    if shape == "16x64b":
        return t // 4 + 8 * (t % 2), 2 * i + t // 2 % 2
    if shape == "16x128b":
        return t // 4 + 8 * (i % 2), t % 4 + 4 * (i // 2)
    if shape == "16x256b":
        return t // 4 + 8 * (i // 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i // 4)
    return t % 16, i + split * (t // 16)


def packed_cell(shape: str, num: int, thread: Index, register: Index, split: int = 0) -> tuple[I64, I64]:
    """(lane, column) of the cell whose low 16 bits are those of the register with .pack::16b or .unpack::16b.

    The next column holds the register's high 16 bits. The shape's columns count twice, `split` does not
    (CUTLASS 4.2 Copy_Traits of the _16b operations, which pass twice the repeat as the split).
    """
    lane, column = register_cell(shape, num, thread, register)
    extra = split * (np.asarray(thread, dtype=np.int64) // 16) if shape == "16x32bx2" else 0
    return lane, 2 * column + extra


def warp_lanes(warp: int) -> range:
    """The lanes that warp `warp` of a CTA reaches by ld and st (PTX ISA 9.7.16.8)."""
    return range(32 * (warp % 4), 32 * (warp % 4) + 32)


# tcgen05.cp

_CP_ROWS = {
    "128x256b": 128,
    "4x256b": 4,
    "128x128b": 128,
    "64x128b.warpx2::02_13": 64,
    "64x128b.warpx2::01_23": 64,
    "32x128b.warpx4": 32,
}


def cp_lanes(shape: str, row: int) -> tuple[int, ...]:
    """The lanes that source row `row` of ``tcgen05.cp.<shape>`` goes to (PTX ISA 9.7.16.9.2).

    ``4x256b``: one row to each quarter, from the address's lane on (the layout of CUTLASS 4.2's Copy_Traits
    SM100_UTCCP_4dp256bit, and the TVM TIRx documentation); ``01_23`` follows the pair names.
    """
    if shape not in _CP_ROWS:
        raise TileproofError("tcgen05.cp shape not modelled", expected=", ".join(_CP_ROWS), found=repr(shape))
    if not 0 <= row < _CP_ROWS[shape]:
        raise TileproofError("no such source row", expected=f"0..{_CP_ROWS[shape] - 1}", found=str(row))
    if shape == "64x128b.warpx2::02_13":
        return row, row + 64
    if shape == "64x128b.warpx2::01_23":
        first = row % 32 + 64 * (row // 32)
        return first, first + 32
    if shape == "32x128b.warpx4":
        return row, row + 32, row + 64, row + 96
    return (32 * row,) if shape == "4x256b" else (row,)


def cp_columns(shape: str) -> int:
    """Columns that a row of ``tcgen05.cp.<shape>`` fills."""
    cp_lanes(shape, 0)
    return 8 if shape.endswith("256b") else 4
