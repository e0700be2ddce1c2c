"""Tensor maps: the rules of cuTensorMapEncodeTiled, and what a tile load or a gather4 puts into shared
memory.

Sources: CUDA driver API, tensor map object management (cuTensorMapEncodeTiled); PTX ISA 5.5.3 (tile mode),
5.5.3.4 (gather4), 5.5.4 (im2col), 5.5.7 (swizzle), 9.7.9.27.1.2 (cp.async.bulk.tensor). Dimensions are
innermost first; `strides` are bytes of dimensions 1 and up. The bit pattern of the NaN fill is undocumented:
an H200 and an H100 wrote 0x7ff7, of float32 twice; other types are refused. A load to TFLOAT32 rounds to the
nearest of 10 bits of mantissa; an _FTZ type keeps subnormals in a load (an H100; the driver API gives only
the names). Of packed types an mbarrier counts the bytes in global memory, without the
padding (CUTLASS's collectives expect that many; PTX ISA 5.5.1.1 does not say). Also observed on that card
(docs/evidence): with a swizzle each row of a box starts a row of the swizzle atom, however short it is; a
copy whose innermost coordinate is not a multiple of 16 bytes ends in an illegal instruction, and so does a
store with a coordinate below 0; a store clips the innermost dimension in units of 16 bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine import swizzle as sw
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import MAX_SHARED_BYTES

Bytes = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

SIZES = {
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "bfloat16": 2,
    "float32_ftz": 4,
    "tfloat32": 4,
    "tfloat32_ftz": 4,
}
# Packed types: bits of an element, and the bytes of 16 of them in global and in shared memory.
PACKED = {"16u4_align8b": (4, 8, 8), "16u4_align16b": (4, 8, 16), "16u6_align16b": (6, 12, 16)}
_FLOATING = ("float16", "float32", "float64", "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz")
_NAN_FILL = {
    "bfloat16": np.array([0xF7, 0x7F], dtype=np.uint8),
    "float16": np.array([0xF7, 0x7F], dtype=np.uint8),
    "float32": np.array([0xF7, 0x7F, 0xF7, 0x7F], dtype=np.uint8),
}
SWIZZLES = (*sw.BITS, *sw.ATOMS)
# The driver took boxes of up to 219,632 bytes and refused 262,144 (docs/evidence).
MAX_BOX = MAX_SHARED_BYTES


@dataclass(frozen=True)
class TensorMapFields:
    """The arguments of cuTensorMapEncodeTiled that change what is copied; interleave is NONE."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    oob_fill: Literal["zero", "nan"] = "zero"
    address: int = 0
    # im2col: the corners of the pixel box, W first; the box is then {channels per pixel, pixels per column}.
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def im2col(self) -> bool:
        return bool(self.lower)

    @property
    def packing(self) -> tuple[int, int, int] | None:
        """Of a packed type: bits of an element, bytes of 16 in global and in shared memory."""
        return PACKED.get(self.dtype)

    @property
    def padded(self) -> bool:
        """A packed type with gaps in shared memory."""
        return self.packing is not None and self.packing[1] != self.packing[2]

    @property
    def element_size(self) -> int:
        """Bytes; not of packed types."""
        return SIZES[self.dtype]

    def in_global(self, elements: int) -> int:
        """Bytes of that many elements in a row of global memory."""
        return elements * self.packing[0] // 8 if self.packing else elements * self.element_size

    @property
    def loaded(self) -> tuple[int, ...]:
        """Elements that a box loads in each dimension: ceil(box / element stride), dimension 0 always all."""
        if self.im2col:
            return self.box
        return (
            self.box[0],
            *(-(-b // e) for b, e in zip(self.box[1:], self.element_strides[1:], strict=True)),
        )

    @property
    def box_bytes(self) -> int:
        """Bytes that a tile load completes on its mbarrier, out-of-bounds elements included; of padded types
        without the padding."""
        return self.in_global(int(np.prod(self.loaded)))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a box in shared memory, padding included."""
        if self.packing:
            return self.box[0] // 16 * self.packing[2]
        return self.box[0] * self.element_size

    @property
    def pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory."""
        return self.row_bytes if self.swizzle == "none" else sw.width(self.swizzle)


def check_tensor_map(fields: TensorMapFields) -> None:
    """Raise TileproofError unless cuTensorMapEncodeTiled would accept these fields."""
    if fields.dtype not in SIZES and fields.dtype not in PACKED:
        raise TileproofError(
            "unknown tensor map type",
            where="dtype",
            expected=", ".join((*SIZES, *PACKED)),
            found=repr(fields.dtype),
        )
    rank = len(fields.shape)
    _require(1 <= rank <= 5, "rank", "1..5", rank)
    if fields.im2col:
        _check_corners(fields, rank)
    shape = 2 if fields.im2col else rank
    for name, want in (("strides", rank - 1), ("box", shape), ("element_strides", rank)):
        _require(len(getattr(fields, name)) == want, name, f"{want} entries", len(getattr(fields, name)))
    _require(fields.address % 16 == 0, "address", "a multiple of 16", hex(fields.address))
    _require(0 <= fields.address < 2**57, "address", "below 2^57", hex(fields.address))
    for i, extent in enumerate(fields.shape):
        _require(1 <= extent <= 2**32, f"shape[{i}]", "1..2^32", extent)
    for i, stride in enumerate(fields.strides):
        _require(
            stride % 16 == 0 and 0 <= stride < 2**40, f"strides[{i}]", "a multiple of 16 below 2^40", stride
        )
    for i, extent in enumerate(fields.box):
        limit = 1024 if fields.im2col and i else 256
        _require(1 <= extent <= limit, f"box[{i}]", f"1..{limit}", extent)
    for i, step in enumerate(fields.element_strides):
        _require(1 <= step <= 8, f"element_strides[{i}]", "1..8", step)
    if fields.packing is None:
        steps = (1, 1) if fields.im2col else fields.element_strides
        there = fields.element_size * math.prod(b // s for b, s in zip(fields.box, steps, strict=True))
        _require(there <= MAX_BOX, "box", f"at most {MAX_BOX} bytes", f"{there} bytes")
    _check_packed(fields)
    row = fields.row_bytes
    _require(row % 16 == 0, "box[0]", "a multiple of 16 bytes", f"{row} bytes")
    if fields.swizzle not in SWIZZLES:
        sw.bits(fields.swizzle)
    if fields.swizzle != "none":
        limit = sw.width(fields.swizzle)
        expected = f"at most {limit} bytes with {fields.swizzle} swizzle"
        _require(row <= limit, "box[0]", expected, f"{row} bytes")
    if fields.oob_fill not in ("zero", "nan"):
        raise TileproofError(
            "unknown fill", where="oob_fill", expected="zero or nan", found=repr(fields.oob_fill)
        )
    if fields.oob_fill == "nan":
        _require(fields.dtype in _FLOATING, "oob_fill", "a floating type for nan", fields.dtype)


def check_coordinate(fields: TensorMapFields, innermost: int) -> None:
    """Raise TileproofError for an innermost coordinate, in elements, at which the card does not copy."""
    if fields.packing:
        unit = 128 if fields.padded else 32
        _require(innermost % unit == 0, "innermost coordinate", f"a multiple of {unit}", innermost)
        return
    at = innermost * fields.element_size
    _require(at % 16 == 0, "innermost coordinate", "a multiple of 16 bytes", f"{innermost} ({at} bytes)")


def as_stored(fields: TensorMapFields) -> TensorMapFields:
    """The map with the innermost extent up to which a store really writes: whole units of 16 bytes."""
    unit = 16 // fields.element_size
    return replace(fields, shape=(-(-fields.shape[0] // unit) * unit, *fields.shape[1:]))


def tile_image(fields: TensorMapFields, memory: Bytes, corner: tuple[int, ...], dst: int = 0) -> Bytes:
    """The bytes that a tile load with box corner `corner` puts at shared address `dst` and after.

    `memory` is the global memory from the map's address on. Byte i of the result lies at ``dst + i``: the
    box's bytes, with a swizzle whole lines of 128 bytes, in which what the copy leaves alone is 0.
    """
    check_tensor_map(fields)
    check_coordinate(fields, corner[0])
    if len(corner) != len(fields.shape):
        raise TileproofError(
            "wrong number of coordinates", expected=str(len(fields.shape)), found=str(len(corner))
        )
    if fields.packing:
        rows = tile_image(_bytes_of(fields), memory, (fields.in_global(corner[0]), *corner[1:]))
        return _spread(fields, rows, dst)
    axes = [
        c + np.arange(count, dtype=np.int64) * (step if i else 1)
        for i, (c, count, step) in enumerate(zip(corner, fields.loaded, fields.element_strides, strict=True))
    ]
    grid = np.meshgrid(*axes[::-1], indexing="ij")[::-1]
    return _image(fields, memory, [g.ravel() for g in grid], dst)


def gather4_image(
    fields: TensorMapFields, memory: Bytes, column: int, rows: tuple[int, int, int, int], dst: int = 0
) -> Bytes:
    """The bytes that ``tile::gather4`` puts at `dst`: row j of the gather as row j of a {box[0], 4} tile.

    A row outside the tensor is filled, and its bytes are still counted.
    """
    check_tensor_map(fields)
    _require(len(fields.shape) == 2, "rank", "2 for gather4", len(fields.shape))
    _require(fields.box[1] == 1, "box[1]", "1 for gather4", fields.box[1])
    _require(len(rows) == 4, "rows", "4 row coordinates", len(rows))
    check_coordinate(fields, column)
    if fields.packing:
        compact = gather4_image(_bytes_of(fields), memory, fields.in_global(column), rows)
        return _spread(fields, compact, dst)
    cols = column + np.arange(fields.box[0], dtype=np.int64)
    x0, x1 = np.tile(cols, 4), np.repeat(np.array(rows, dtype=np.int64), fields.box[0])
    return _image(fields, memory, [x0, x1], dst)


def _bytes_of(fields: TensorMapFields) -> TensorMapFields:
    """A packed map as one of bytes: what lies in global memory, row after row."""
    shape = (fields.in_global(fields.shape[0]), *fields.shape[1:])
    box = (fields.in_global(fields.box[0]), *fields.box[1:])
    return replace(fields, dtype="uint8", shape=shape, box=box, swizzle="none")


def _spread(fields: TensorMapFields, compact: Bytes, dst: int) -> Bytes:
    """Rows of packed bytes as they lie in shared memory: padded, swizzled; what is left alone is 0."""
    assert fields.packing
    _, here, there = fields.packing
    within = np.arange(compact.size, dtype=np.int64)
    row, at = np.divmod(within, fields.in_global(fields.box[0]))
    linear = dst + row * fields.pitch + at // here * there + at % here
    size = (int(row[-1]) + 1) * fields.pitch
    image = np.zeros(size if fields.swizzle == "none" else -(-size // 128) * 128, np.uint8)
    image[sw.swizzle(fields.swizzle, linear) - dst] = compact
    return image


def packed_store(fields: TensorMapFields, containers: Bytes) -> Bytes:
    """What a store of a packed map writes for elements that lie in shared memory as ``.b6p2x16`` (the low 6
    bits of a byte each) or ``.b4x16`` (packed already); ``.b4x16_p64`` is not stored (PTX ISA 5.5.1.1)."""
    if fields.dtype == "16u4_align8b":
        return containers
    _require(
        fields.dtype == "16u6_align16b", "dtype", "16u4_align8b or 16u6_align16b to be stored", fields.dtype
    )
    bits = np.unpackbits(containers[:, None], axis=1, bitorder="little")[:, :6]
    return np.packbits(bits.ravel(), bitorder="little")


def im2col_image(
    fields: TensorMapFields,
    memory: Bytes,
    corner: tuple[int, ...],
    offsets: tuple[int, ...],
    dst: int = 0,
) -> Bytes:
    """The bytes of one column: pixel after pixel, each with its channels (PTX ISA 5.5.4).

    `corner` is (c, w[, h[, d]], n), where the walk begins: along W, then H, then D inside the box from
    `lower` to ``shape - 1 + upper``, then to the next image. `offsets` (w[, h[, d]]) are added to all.
    """
    check_tensor_map(fields)
    rank, (channels, pixels) = len(fields.shape), fields.box
    spatial = rank - 2
    _require(len(corner) == rank and len(offsets) == spatial, "corner", f"{rank} and {spatial}", corner)
    now, walked = list(corner[1:]), []
    for _ in range(pixels):
        walked.append([*(at + o for at, o in zip(now, offsets, strict=False)), now[-1]])
        for k in range(spatial):
            now[k] += fields.element_strides[k + 1]
            if now[k] <= fields.shape[k + 1] - 1 + fields.upper[k]:
                break
            now[k] = fields.lower[k]
        else:
            now[-1] += 1
    coords = [np.tile(corner[0] + np.arange(channels, dtype=np.int64), pixels)]
    coords += [np.repeat(np.array(c, dtype=np.int64), channels) for c in zip(*walked, strict=True)]
    return _image(fields, memory, coords, dst)


def _image(fields: TensorMapFields, memory: Bytes, coords: list[I64], dst: int) -> Bytes:
    size = fields.element_size
    align = 128 if fields.swizzle != "none" else 16
    _require(dst % align == 0, "dst", f"a multiple of {align}", hex(dst))
    inside = np.ones(coords[0].shape, dtype=bool)
    offset = coords[0] * size
    for x, extent in zip(coords, fields.shape, strict=True):
        inside &= (x >= 0) & (x < extent)
    for x, stride in zip(coords[1:], fields.strides, strict=True):
        offset = offset + x * stride
    if inside.any() and int(offset[inside].max()) + size > memory.size:
        raise TileproofError(
            "the tensor map reaches past the buffer",
            expected=f"{memory.size} bytes",
            found=str(int(offset[inside].max())),
        )
    elements = np.tile(_fill(fields), (coords[0].size, 1))
    elements[inside] = _converted(fields, memory[offset[inside][:, None] + np.arange(size)])
    within = np.arange(elements.size, dtype=np.int64)
    linear = dst + within // fields.row_bytes * fields.pitch + within % fields.row_bytes
    size_in_shared = elements.size // fields.row_bytes * fields.pitch
    image = np.zeros(
        size_in_shared if fields.swizzle == "none" else -(-size_in_shared // 128) * 128, np.uint8
    )
    image[sw.swizzle(fields.swizzle, linear) - dst] = elements.ravel()
    return image


def _converted(fields: TensorMapFields, elements: Bytes) -> Bytes:
    """``[n, size]`` elements as a load of this type leaves them."""
    if not fields.dtype.startswith("tfloat32"):
        return elements
    bits = np.ascontiguousarray(elements).view(np.uint32)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    bits = np.where(nan, 0x7FFFE000, (bits + 0xFFF + ((bits >> 13) & 1)) & ~np.uint32(0x1FFF))
    return bits.astype(np.uint32).view(np.uint8).reshape(elements.shape)


def _fill(fields: TensorMapFields) -> Bytes:
    if fields.oob_fill == "zero":
        return np.zeros(fields.element_size, dtype=np.uint8)
    if fields.dtype not in _NAN_FILL:
        raise TileproofError(
            "the NaN fill of this type is not known", expected=", ".join(_NAN_FILL), found=fields.dtype
        )
    return _NAN_FILL[fields.dtype]


def _check_corners(fields: TensorMapFields, rank: int) -> None:
    """The corners of an im2col map's pixel box."""
    _require(3 <= rank <= 5, "rank", "3..5 for im2col", rank)
    for name in ("lower", "upper"):
        corner = getattr(fields, name)
        _require(len(corner) == rank - 2, name, f"{rank - 2} entries", len(corner))
        limit = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank]
        for at in corner:
            _require(-limit <= at < limit, name, f"{-limit}..{limit - 1}", at)
    for k, (low, high) in enumerate(zip(fields.lower, fields.upper, strict=True)):
        last = fields.shape[k + 1] - 1 + high
        _require(low <= last, f"lower[{k}]", f"at most {last}: the pixel box is not empty", low)
        _require(last < 2**31, f"shape[{k + 1}]", "a pixel box that ends below 2^31", last)


def _check_packed(fields: TensorMapFields) -> None:
    """Additional requirements of 4- and 6-bit types."""
    if fields.padded:  # PTX ISA 9.7.9.27.1.1
        _require(
            fields.address % 32 == 0, "address", "a multiple of 32 for padded types", hex(fields.address)
        )
        for i, stride in enumerate(fields.strides):
            _require(stride % 32 == 0, f"strides[{i}]", "a multiple of 32 for padded types", stride)
        _require(
            fields.shape[0] % 128 == 0, "shape[0]", "a multiple of 128 for padded types", fields.shape[0]
        )
        _require(fields.box[0] == 128, "box[0]", "128 for padded types", fields.box[0])
        swizzles = ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B")
        _require(
            fields.swizzle in swizzles, "swizzle", f"{', '.join(swizzles)} for padded types", fields.swizzle
        )
    elif fields.packing:
        _require(fields.shape[0] % 2 == 0, "shape[0]", "even for 16u4_align8b", fields.shape[0])
        _require(fields.box[0] % 32 == 0, "box[0]", "a multiple of 16 bytes", f"{fields.box[0]} of 4 bits")


def _require(condition: bool, field: str, expected: str, found: object) -> None:
    if not condition:
        raise TileproofError("bad tensor map", where=field, expected=expected, found=str(found))
