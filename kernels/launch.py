"""A kernel launch as data: image, entry, grid, cluster, block, dynamic shared memory and typed parameters.

Nothing here knows who executes the launch. A driver turns it into arguments: it places every buffer, writes
its address where the parameters name it, and encodes every tensor map from its fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import TensorMapFields, check_tensor_map

Direction = Literal["in", "out"]
ScalarType = Literal["u8", "u16", "s32", "u32", "s64", "u64", "f32", "f64"]
Swizzle = Literal["none", "32B", "64B", "128B"]
OobFill = Literal["zero", "nan"]
Dim3 = tuple[int, int, int]

MAX_SHARED_BYTES = 232448  # one CTA's shared memory on sm_100: 227 KiB (cutlass/arch/arch.h)
MAX_THREADS = 1024  # threads per CTA (CUDA programming guide, compute capabilities)
MAX_LARGE_CLUSTER = 16  # CTAs per cluster with the non-portable attribute, on sm_90 and sm_100
MAX_CLUSTER = 8  # CTAs per cluster without the non-portable attribute (CUDA programming guide)
ADDRESS_BYTES = 8
TENSOR_MAP_BYTES = 128  # CUtensorMap
TENSOR_MAP_ALIGNMENT = 64  # cuTensorMapEncodeTiled
SCALAR_FORMATS: dict[str, str] = {  # little-endian, as parameters lie in constant memory
    "u8": "<u1",
    "u16": "<u2",
    "s32": "<i4",
    "u32": "<u4",
    "s64": "<i8",
    "u64": "<u8",
    "f32": "<f4",
    "f64": "<f8",
}


@dataclass(frozen=True, eq=False)
class Buffer:
    """Device memory passed by address: an input holds `array`, an output is not written before the launch."""

    name: str
    direction: Direction
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    array: npt.NDArray[Any] | None = None

    @staticmethod
    def input(name: str, array: npt.NDArray[Any]) -> Buffer:
        """A buffer that holds `array`, which must be C-contiguous."""
        if not array.flags["C_CONTIGUOUS"]:
            raise TileproofError(
                f"{name} is not contiguous",
                where=name,
                expected="C order without gaps",
                found=f"strides {array.strides}",
                do="pass numpy.ascontiguousarray of it",
            )
        return Buffer(name, "in", array.shape, array.dtype, array)

    @staticmethod
    def output(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
        """A buffer that the kernel is to write."""
        return Buffer(name, "out", tuple(shape), np.dtype(dtype))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Scalar:
    """A number passed by value; a null pointer is a `u64` of 0."""

    name: str
    type: ScalarType
    value: int | float

    def encode(self) -> bytes:
        """The bytes that the kernel reads."""
        return np.array(self.value, dtype=SCALAR_FORMATS[self.type]).tobytes()


@dataclass(frozen=True)
class TensorMapSpec:
    """The arguments of cuTensorMapEncodeTiled, for a map over `buffer` without interleave.

    `shape`, `box` and `element_strides` are element counts, innermost dimension first; `strides` are bytes
    of dimensions 1 and up (one fewer than the rank); dimension 0 is contiguous.
    """

    name: str
    buffer: Buffer
    dtype: str  # a name of spec.machine.tma.SIZES
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: Swizzle
    oob_fill: OobFill = "zero"
    offset: int = 0  # bytes into `buffer` where the tensor starts

    @classmethod
    def bf16_rows(
        cls, name: str, buffer: Buffer, rows: int, cols: int, box_rows: int, box_cols: Literal[32, 64] = 64
    ) -> TensorMapSpec:
        """A [rows, cols] bf16 map, boxes of `box_rows` x `box_cols` (the span of its swizzle), zero fill."""
        return cls(
            name,
            buffer,
            "bfloat16",
            shape=(cols, rows),
            strides=(2 * cols,),
            box=(box_cols, box_rows),
            element_strides=(1, 1),
            swizzle="128B" if box_cols == 64 else "64B",
            oob_fill="zero",
        )

    def __post_init__(self) -> None:
        try:
            check_tensor_map(self.fields())
        except TileproofError as error:
            error_where = f"tensor map {self.name}, {error.where}"
            raise TileproofError(
                error.what, where=error_where, expected=error.expected, found=error.found, do=error.do
            ) from error

    def fields(self) -> TensorMapFields:
        """The map's fields as the machine rules know them, over an address of 0."""
        return TensorMapFields(
            self.dtype, self.shape, self.strides, self.box, self.element_strides, self.swizzle, self.oob_fill
        )


@dataclass(frozen=True)
class Struct:
    """A by-value parameter of `size` bytes with an item at each offset; bytes between items are zero."""

    name: str
    size: int
    fields: tuple[tuple[int, Buffer | Scalar | TensorMapSpec], ...]

    def __post_init__(self) -> None:
        end = 0
        for offset, item in sorted(self.fields, key=lambda pair: pair[0]):
            bytes_, alignment = _extent(item)
            if offset < end or offset % alignment or offset + bytes_ > self.size:
                raise TileproofError(
                    f"{item.name} does not fit at offset {offset} of the parameter struct",
                    where=f"{self.name}.{item.name}",
                    expected=f"{bytes_} free bytes, aligned {alignment}, inside {self.size}",
                    found=f"offset {offset} after an item that ends at {end}",
                )
            end = offset + bytes_


Parameter = Buffer | Scalar | TensorMapSpec | Struct


@dataclass(frozen=True)
class Launch:
    """One launch of `entry` of the PTX text `image`; `params` in the entry's order.

    `before` and `after` are launches of the same host code on the same buffers, one after another; the
    kernel's plan is of this one.
    """

    image: str = field(repr=False)
    entry: str
    grid: Dim3
    cluster: Dim3
    block: Dim3
    shared_bytes: int
    params: tuple[Parameter, ...]
    large_cluster: bool = False  # with the attribute for clusters of a size that is not portable
    before: tuple[Launch, ...] = ()
    after: tuple[Launch, ...] = ()

    def __post_init__(self) -> None:
        threads, ctas = math.prod(self.block), math.prod(self.cluster)
        self._require(0 < threads <= MAX_THREADS, "block", f"1 to {MAX_THREADS} threads", str(self.block))
        most = MAX_LARGE_CLUSTER if self.large_cluster else MAX_CLUSTER
        self._require(0 < ctas <= most, "cluster", f"1 to {most} CTAs", str(self.cluster))
        self._require(
            all(g > 0 and g % c == 0 for g, c in zip(self.grid, self.cluster, strict=True)),
            "grid",
            f"a positive multiple of the cluster {self.cluster}",
            str(self.grid),
        )
        self._require(
            0 <= self.shared_bytes <= MAX_SHARED_BYTES,
            "shared_bytes",
            f"at most {MAX_SHARED_BYTES}",
            str(self.shared_bytes),
        )
        self.buffers()

    def _require(self, holds: bool, what: str, expected: str, found: str) -> None:
        if not holds:
            raise TileproofError(
                f"the launch's {what} does not fit", where=self.entry, expected=expected, found=found
            )

    @property
    def sequence(self) -> tuple[Launch, ...]:
        """All launches in order."""
        return (*self.before, self, *self.after)

    def buffers(self) -> dict[str, Buffer]:
        """Every buffer that a parameter names, once; TileproofError when two of them share a name."""
        found: dict[str, Buffer] = {}
        for item in (item for launch in self.sequence for item in launch.items()):
            buffer = item.buffer if isinstance(item, TensorMapSpec) else item
            if isinstance(buffer, Buffer) and found.setdefault(buffer.name, buffer) is not buffer:
                raise TileproofError(
                    "two buffers of one launch share a name", where=f"{self.entry}, {buffer.name}"
                )
        return found

    def items(self) -> Iterator[Buffer | Scalar | TensorMapSpec]:
        """Every parameter, with those inside structs in place of the struct."""
        for parameter in self.params:
            if isinstance(parameter, Struct):
                yield from (item for _, item in parameter.fields)
            else:
                yield parameter


def _extent(item: Buffer | Scalar | TensorMapSpec) -> tuple[int, int]:
    """Bytes and alignment of an item inside a struct."""
    if isinstance(item, TensorMapSpec):
        return TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT
    if isinstance(item, Scalar):
        size = np.dtype(SCALAR_FORMATS[item.type]).itemsize
        return size, size
    return ADDRESS_BYTES, ADDRESS_BYTES
