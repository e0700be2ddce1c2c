"""Arguments of a launch: scalars, pointers, tensor maps, structs by fields, raw bytes with pointers in them.

What no item of an argument sets stays unset: a kernel's read of it is a finding (`param-unset`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tileproof.kernels.launch.contents import dtype_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import DType

POINTER_BYTES = 8
MAP_BYTES = 128  # CUtensorMap
# PTX's fundamental types (PTX ISA 5.2.1) as numpy has them.
PTX_TYPES = {
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "b8": "uint8", "b16": "uint16", "b32": "uint32", "b64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class ScalarArgument:
    """A number by value: `type` is PTX's ("u32", "f32", "bf16") or numpy's ("int32", "float16").

    A reference function is given it by its name, if it has a name.
    """

    kind: ClassVar[str] = "scalar"
    type: str
    value: int | float
    name: str = ""

    @property
    def dtype(self) -> DType:
        """As numpy has the type; TileproofError for an unknown type."""
        return dtype_of(PTX_TYPES.get(self.type, self.type), f"scalar {self.name or self.type}")

    def encode(self) -> bytes:
        """Its bytes, little-endian; TileproofError for a value that the type does not hold."""
        dtype = self.dtype
        if np.issubdtype(dtype, np.integer):
            whole = int(self.value) if self.value == int(self.value) else None
            limits = np.iinfo(dtype)
            # A bit pattern may be given as a number of either sign.
            if whole is None or not limits.min <= whole <= limits.max:
                raise TileproofError(
                    "a scalar does not fit its type",
                    where=f"scalar {self.name or self.type}",
                    expected=f"a whole number from {limits.min} to {limits.max}",
                    found=repr(self.value),
                )
            return np.array(whole, dtype).tobytes()
        with np.errstate(over="ignore"):
            return np.array(self.value).astype(dtype).tobytes()


@dataclass(frozen=True)
class PointerArgument:
    """The address of a buffer, `offset` bytes into it."""

    kind: ClassVar[str] = "pointer"
    buffer: str
    offset: int = 0


@dataclass(frozen=True)
class TensorMapArgument:
    """A tensor map over a buffer: the arguments of cuTensorMapEncodeTiled, or with corners those of
    cuTensorMapEncodeIm2col, without interleave.

    Extents count elements, innermost dimension first; `strides` are bytes of dimensions 1 and up; `dtype` is
    "" for the buffer's own; `offset` bytes into the buffer lies the first element. With `lower` and `upper`
    the box is (channels per pixel, pixels per column).
    """

    kind: ClassVar[str] = "tensor map"
    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    dtype: str = ""
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    oob_fill: str = "zero"
    offset: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()


@dataclass(frozen=True)
class EncodedMapArgument:
    """The 128 bytes that cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col wrote: NVIDIA's driver, as far as
    its encoding was measured (`spec.machine.tensor_map_bytes`), or this emulator's encoder.

    The address is that in the bytes, or with `buffer` that of its byte `offset`.
    """

    kind: ClassVar[str] = "encoded tensor map"
    data: bytes
    buffer: str = ""
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.data) != MAP_BYTES:
            raise TileproofError(
                "an encoded tensor map has 128 bytes", found=f"{len(self.data)} bytes", expected="128"
            )


Item = ScalarArgument | PointerArgument | TensorMapArgument | EncodedMapArgument


@dataclass(frozen=True)
class PlacedItem:
    """An item at a byte offset of a struct or of raw bytes."""

    offset: int
    item: Item


@dataclass(frozen=True)
class StructArgument:
    """A struct by value of `size` bytes with items at their offsets; what lies between them is not set."""

    kind: ClassVar[str] = "struct"
    size: int
    items: tuple[PlacedItem, ...]

    def __post_init__(self) -> None:
        _without_overlap(self.items, self.size)


@dataclass(frozen=True)
class BytesArgument:
    """The bytes of a parameter as they are, with items in the place of some: pointers and tensor maps of the
    program that made them, which have another value here.
    """

    kind: ClassVar[str] = "bytes"
    data: bytes
    items: tuple[PlacedItem, ...] = ()

    def __post_init__(self) -> None:
        _without_overlap(self.items, len(self.data))


LaunchArgument = (
    ScalarArgument | PointerArgument | TensorMapArgument | EncodedMapArgument | StructArgument | BytesArgument
)


def size_of(argument: LaunchArgument) -> int:
    """Bytes that an argument takes."""
    if isinstance(argument, ScalarArgument):
        return argument.dtype.itemsize
    if isinstance(argument, PointerArgument):
        return POINTER_BYTES
    if isinstance(argument, StructArgument):
        return argument.size
    return len(argument.data) if isinstance(argument, BytesArgument) else MAP_BYTES


def items_of(argument: LaunchArgument) -> Iterator[Item]:
    """The items of an argument; an argument that is an item is returned itself."""
    if isinstance(argument, StructArgument | BytesArgument):
        yield from (placed.item for placed in argument.items)
    else:
        yield argument


def unset(argument: LaunchArgument) -> list[tuple[int, int]]:
    """Byte ranges [start, stop) of an argument that nothing sets."""
    if not isinstance(argument, StructArgument):
        return []
    gaps, end = [], 0
    for placed in sorted(argument.items, key=lambda item: item.offset):
        if placed.offset > end:
            gaps.append((end, placed.offset))
        end = placed.offset + size_of(placed.item)
    return [*gaps, (end, argument.size)] if end < argument.size else gaps


def _without_overlap(items: tuple[PlacedItem, ...], size: int) -> None:
    end = 0
    for placed in sorted(items, key=lambda item: item.offset):
        stop = placed.offset + size_of(placed.item)
        if placed.offset < end or stop > size:
            raise TileproofError(
                "an item of a struct does not fit",
                where=f"offset {placed.offset}",
                expected=f"{size_of(placed.item)} free bytes inside {size}",
                found=f"the item before ends at {end}" if placed.offset < end else f"it ends at {stop}",
            )
        end = stop
