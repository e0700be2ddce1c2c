"""The tables of `tileproof layout`: the location of each element of a 2-D tile.

Three sources: a CuTe layout written as text, a shared-memory operand of tcgen05.mma in a canonical layout,
and a data path of tensor memory. Each becomes a `Table`, which the text and the picture are made from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine import tmem
from tileproof.spec.machine.contracts import OperandView, algebra
from tileproof.spec.machine.contracts.algebra import IntTuple
from tileproof.spec.machine.contracts.form import BITS
from tileproof.spec.machine.contracts.view import MODES, SwizzleBits, atom
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject

I64 = npt.NDArray[np.int64]
MAX_ELEMENTS = 1 << 17
SYNTAX = '"(8,64):(64,1)", "Sw<3,4,3> o smem_ptr[16b] o (8,64):(64,1)" or "Sw<2,3,3> o (8,32):(32,1)"'


@dataclass(frozen=True)
class Block:
    """Rows [m) and columns [n) of an accumulator, and the CTA, first lane and first column where they lie."""

    m: tuple[int, int]
    n: tuple[int, int]
    cta: int
    lane: int
    column: int


@dataclass(frozen=True)
class Table:
    """A tile ``[rows, columns]`` and the place of each element.

    places: name -> ``[rows, columns]``: of each element its index, its byte, or its CTA, lane and column.
    chunk: contiguous elements along both axes in a 16-byte chunk; (1, 1) if not requested.
    """

    kind: Literal["layout", "operand", "tmem"]
    title: str
    axes: tuple[str, str]
    places: dict[str, I64]
    notes: tuple[str, ...] = ()
    chunk: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the tile."""
        rows, columns = next(iter(self.places.values())).shape
        return rows, columns

    def blocks(self) -> list[Block]:
        """The rectangles of a tensor memory table, whose rows are lanes and whose columns are TMEM
        columns."""
        cta, lane, column = (self.places[name] for name in ("cta", "lane", "column"))
        row_cuts = _cuts((np.diff(lane[:, 0]) != 1) | (np.diff(cta[:, 0]) != 0), self.shape[0])
        column_cuts = _cuts((np.diff(column[0]) != 1) | (np.diff(lane[0]) != 0), self.shape[1])
        return [
            Block((m, m_end), (n, n_end), int(cta[m, n]), int(lane[m, n]), int(column[m, n]))
            for n, n_end in column_cuts
            for m, m_end in row_cuts
        ]

    def as_dict(self) -> JsonObject:
        """The table for `--json`: one list of rows per place."""
        return {
            "title": self.title,
            "axes": list(self.axes),
            "shape": list(self.shape),
            "notes": list(self.notes),
            "places": {name: place.tolist() for name, place in self.places.items()},
        }


@dataclass(frozen=True)
class LayoutText:
    """A parsed CuTe layout: `bits` is its Swizzle, of bytes when `pointer_bits` (of an element) is given."""

    shape: IntTuple
    stride: IntTuple
    bits: SwizzleBits | None
    pointer_bits: int | None


_SWIZZLE = re.compile(
    r"^\s*(?:Sw|Swizzle)\s*<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>\s*(?:o|∘)\s*(.*)$", re.DOTALL
)
_POINTER = re.compile(
    r"^(?:smem_ptr\s*\[\s*(\d+)\s*b\s*\](?:\s*\(\w+\))?|(\d+))\s*(?:o|∘)\s*(.*)$", re.DOTALL
)


def parse(text: str) -> LayoutText:
    """The layout written in `text`, as CuTe prints it; TileproofError when there is none."""
    bits: SwizzleBits | None = None
    pointer: int | None = None
    rest = text.strip()
    if match := _SWIZZLE.match(rest):
        b, m, s = (int(match[i]) for i in (1, 2, 3))
        if b < 0 or m < 0 or abs(s) < b or b + m + abs(s) > 30:
            raise _unreadable(text, "a swizzle needs B >= 0, M >= 0 and |S| >= B", f"Sw<{b},{m},{s}>")
        bits, rest = (b, m, s), match[4]
        if match := _POINTER.match(rest):
            if match[2] not in (None, "0"):
                raise _unreadable(text, "an offset of 0", match[2])
            pointer, rest = (int(match[1]) if match[1] else None), match[3]
            if pointer is not None and pointer not in (8, 16, 32, 64):
                raise _unreadable(text, "elements of 8, 16, 32 or 64 bits", f"{pointer} bits")
    shape_text, colon, stride_text = rest.partition(":")
    shape = _tuple(shape_text, text)
    stride = _tuple(stride_text, text) if colon else algebra.compact(shape)
    if not _alike(shape, stride):
        raise _unreadable(text, "shape and stride nested alike", rest.strip())
    if any(extent < 1 for extent in _leaves(shape)):
        raise _unreadable(text, "positive extents", shape_text.strip())
    return LayoutText(shape, stride, bits, pointer)


def of_layout(text: str, dtype: str | None = None) -> Table:
    """A CuTe layout: element -> index, and byte address where the element's size is known."""
    parsed = parse(text)
    if dtype is not None and dtype not in BITS:
        raise TileproofError("unknown element type", where="--dtype", expected=", ".join(BITS), found=dtype)
    modes = parsed.shape if isinstance(parsed.shape, tuple) else (parsed.shape, 1)
    strides = parsed.stride if isinstance(parsed.stride, tuple) else (parsed.stride, 0)
    if len(modes) == 1:
        modes, strides = (*modes, 1), (*strides, 0)
    rows, columns = _product(modes[0]), _product(modes[1:])
    _small_enough(rows, columns)
    row = _offsets(modes[0], strides[0], rows)
    column = _offsets(modes[1:], strides[1:], columns)
    index = row[:, None] + column[None, :]
    if (index < 0).any():
        raise _unreadable(text, "indices from 0", f"index {int(index.min())}")
    bits = parsed.pointer_bits or (BITS[dtype] if dtype else None)
    size = bits // 8 if bits else None
    notes: list[str] = []
    if parsed.bits and parsed.pointer_bits:
        assert size is not None
        address = _swizzled(index * size, parsed.bits)
        index = address // size
        notes.append(f"Swizzle<{_commas(parsed.bits)}> of byte addresses: {_mode_words(parsed.bits)}")
    elif parsed.bits:
        index = _swizzled(index, parsed.bits)
        notes.append(f"Swizzle<{_commas(parsed.bits)}> of element indices")
    places = {"index": index}
    if size is not None:
        places["byte"] = index * size
    distinct = len(np.unique(index))
    if distinct < index.size:
        notes.append(f"{index.size} elements share {distinct} indices: some strides repeat")
    return Table(
        "layout", text.strip(), ("mode 0", "modes 1.." if len(modes) > 2 else "mode 1"), places, tuple(notes)
    )


def of_operand(mn: int, k: int, major: str, swizzle: str, dtype: str = "bf16") -> Table:
    """A shared-memory operand of tcgen05.mma, tiled with the swizzle's atom: element (mn, k) -> byte."""
    _small_enough(mn, k)
    if swizzle not in sw.BITS:
        raise TileproofError("unknown swizzle", where="--swizzle", expected=", ".join(sw.BITS), found=swizzle)
    if dtype not in BITS:
        raise TileproofError("unknown element type", where="--dtype", expected=", ".join(BITS), found=dtype)
    view = OperandView.tile(mn, k, major, swizzle, dtype=dtype)  # type: ignore[arg-type]
    if view.layout is None:
        along, across = atom(major, swizzle, dtype)  # type: ignore[arg-type]
        need = (across, along) if major == "K" else (along, across)
        raise TileproofError(
            "the swizzle's atom does not divide the tile",
            where=f"[{mn}, {k}] {major}-major, {swizzle} swizzle, {dtype}",
            expected=f"MN a multiple of {need[0]} and K a multiple of {need[1]}",
            found=f"MN = {mn}, K = {k}",
            do="choose other extents or a narrower swizzle",
        )
    size = BITS[dtype] // 8
    shape, stride = view.layout.shape, view.layout.stride
    linear = (_offsets(shape[0], stride[0], mn)[:, None] + _offsets(shape[1], stride[1], k)[None, :]) * size
    byte = np.asarray(sw.swizzle(swizzle, linear), dtype=np.int64)
    notes = (
        f"CuTe: Sw<{sw.bits(swizzle)},4,3> o smem_ptr[{BITS[dtype]}b] o {str(view.layout).replace(' ', '')}",
        f"pattern repeats every {sw.span(swizzle)} bytes; the tile starts on such a boundary",
    )
    elements = 128 // BITS[dtype]
    return Table(
        "operand",
        f"[{mn}, {k}] {dtype}, {major}-major, {'no' if swizzle == 'none' else swizzle} swizzle",
        ("MN", "K"),
        {"byte": byte, "line": byte // sw.LINE, "chunk": byte // sw.CHUNK % 8},
        notes,
        (1, elements) if major == "K" else (elements, 1),
    )


def of_tmem(name: str, n: int, lane_offset: int = 0) -> Table:
    """A data path of tensor memory, layouts A to G: element (m, n) of D -> CTA, lane and column."""
    path = tmem.layout(name.upper())
    _small_enough(path.m, n)
    width = tmem.columns(name.upper(), n)
    if not 1 <= width <= tmem.COLUMNS:
        raise TileproofError(
            "the accumulator does not fit tensor memory",
            where=f"layout {name.upper()}, N = {n}",
            expected=f"1 to {tmem.COLUMNS} columns",
            found=f"{width} columns",
        )
    cta, lane, column = tmem.cell(
        name.upper(), n, np.arange(path.m)[:, None], np.arange(n)[None, :], lane_offset
    )
    notes = [f"M = {path.m}: {path.rows} rows per CTA, {width} columns of tensor memory"]
    if path.parts > 1:
        notes.append(f"N is cut in {path.parts}: the parts lie in lanes {path.rows} apart")
    if path.interleaved:
        notes.append("16 rows, then 16 unused lanes: M = 64 uses half of the lanes")
    title = f"TMEM layout {name.upper()}, D [{path.m}, {n}]"
    return Table("tmem", title, ("M", "N"), {"cta": cta, "lane": lane, "column": column}, tuple(notes))


def _cuts(breaks: npt.NDArray[np.bool_], count: int) -> list[tuple[int, int]]:
    """[first, end) of the runs between breaks."""
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), count]
    return list(pairwise(starts))


def _offsets(shape: IntTuple, stride: IntTuple, count: int) -> I64:
    """The offset of each of a mode's `count` coordinates, first extent fastest (colexicographic)."""
    offset = np.zeros(count, dtype=np.int64)
    rest = np.arange(count, dtype=np.int64)
    for extent, step in zip(_leaves(shape), _leaves(stride), strict=True):
        offset += rest % extent * step
        rest //= extent
    return offset


def _swizzled(index: I64, bits: SwizzleBits) -> I64:
    b, m, s = bits
    mask = ((1 << b) - 1) << (m + max(0, s))
    moved = index & mask
    return index ^ (moved >> s if s >= 0 else moved << -s)


def _mode_words(bits: SwizzleBits) -> str:
    mode = MODES.get(bits) or ("none" if bits[0] == 0 else None)
    return "no mode of the matrix descriptor" if mode is None else f"mode {mode} of the matrix descriptor"


def _small_enough(rows: int, columns: int) -> None:
    if rows < 1 or columns < 1 or rows * columns > MAX_ELEMENTS:
        raise TileproofError(
            "a tile of this size cannot be drawn",
            expected=f"1 to {MAX_ELEMENTS} elements",
            found=f"{rows} x {columns}",
            do="show a part of it: the pattern repeats",
        )


def _tuple(text: str, whole: str) -> IntTuple:
    """A nested tuple of integers, as CuTe prints it: "_8" and "8" are the same."""
    tokens = re.findall(r"[(),]|_?-?\d+|\S", text)
    position = 0

    def item(depth: int) -> IntTuple:
        nonlocal position
        if position >= len(tokens) or depth > 20:
            raise _unreadable(whole, "a layout such as " + SYNTAX, text.strip() or "nothing")
        token = tokens[position]
        position += 1
        if token == "(":
            items = [item(depth + 1)]
            while position < len(tokens) and tokens[position] == ",":
                position += 1
                if position < len(tokens) and tokens[position] == ")":
                    break  # (8,) as Python writes it
                items.append(item(depth + 1))
            if position >= len(tokens) or tokens[position] != ")":
                raise _unreadable(whole, "a closing bracket", text.strip())
            position += 1
            return tuple(items)
        if not re.fullmatch(r"_?-?\d{1,12}", token):
            raise _unreadable(whole, "a layout such as " + SYNTAX, token)
        return int(token.lstrip("_"))

    made = item(0)
    if position != len(tokens):
        raise _unreadable(whole, "nothing after the layout", " ".join(tokens[position:]))
    return made


def _unreadable(text: str, expected: str, found: str) -> TileproofError:
    return TileproofError("not a CuTe layout", where=text.strip()[:200], expected=expected, found=found[:200])


def _alike(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        return len(shape) == len(stride) and all(_alike(a, b) for a, b in zip(shape, stride, strict=True))
    return isinstance(shape, int) and isinstance(stride, int)


def _leaves(value: IntTuple) -> list[int]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, tuple) else [value]


def _product(value: IntTuple) -> int:
    total = 1
    for leaf in _leaves(value):
        total *= leaf
    return total


def _commas(bits: SwizzleBits) -> str:
    return ",".join(map(str, bits))
