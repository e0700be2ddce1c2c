"""The launch of an entry as data: its extents, and the offset of each value in its parameters.

A kernel states it once: its launch on inputs is made from it (`Layout.launch`), and so is the manifest that
launchers without this package read (`kernels/manifest.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tileproof.kernels.compile import Built
from tileproof.kernels.launch.arguments import MAP_BYTES, Item, ScalarArgument
from tileproof.kernels.launch.builder import Field, Given, LaunchBuilder, Swizzle, struct, tensor_map
from tileproof.kernels.launch.model import Extent3, LaunchBuffer
from tileproof.spec.machine.tma import TensorMapFields
from tileproof.spec.machine.types import JsonObject

Scalar = Literal["s32", "s64", "f32"]
Buffers = Mapping[str, LaunchBuffer | None]
Sizes = Mapping[str, int | float]
SCALAR_BYTES: Mapping[Scalar, int] = {"s32": 4, "s64": 8, "f32": 4}
POINTER_BYTES = 8


@dataclass(frozen=True)
class Extent:
    """ceil(`factor` times the product of the sizes called `names` / `per`)."""

    names: tuple[str, ...] = ()
    factor: int = 1
    per: int = 1

    def of(self, sizes: Sizes) -> int:
        """Its value; KeyError for a size that is not given."""
        total = self.factor
        for name in self.names:
            total *= int(sizes[name])
        return -(-total // self.per)

    def as_dict(self) -> JsonObject:
        """For the manifest."""
        return {"names": list(self.names), "factor": self.factor, "per": self.per}


@dataclass(frozen=True)
class RowsMap:
    """A tensor map over the rows of a buffer of bf16 or f16: boxes of `box_rows` x `box_cols`, zero fill."""

    buffer: str
    rows: Extent
    cols: int
    box_rows: int
    box_cols: int = 64
    dtype: Literal["bfloat16", "float16"] = "bfloat16"

    bytes = MAP_BYTES

    @property
    def swizzle(self) -> Swizzle:
        """The span of the swizzle is that of a box's row."""
        return "128B" if self.box_cols == 64 else "64B"

    def fields(self, rows: int, address: int) -> TensorMapFields:
        """The arguments of the driver's encoder for so many rows at an address."""
        box = (self.box_cols, self.box_rows)
        return TensorMapFields(
            self.dtype, (self.cols, rows), (2 * self.cols,), box, (1, 1), self.swizzle, "zero", address
        )

    def item(self, buffers: Buffers, sizes: Sizes) -> Item:
        """As an item of a launch."""
        buffer = buffers[self.buffer]
        assert buffer is not None
        shape, box = (self.cols, self.rows.of(sizes)), (self.box_cols, self.box_rows)
        return tensor_map(buffer, shape, box, self.swizzle)

    def as_dict(self) -> JsonObject:
        """For the manifest: as cuTensorMapEncodeTiled has it, innermost dimension first."""
        return {
            "kind": "tensor map", "name": self.buffer, "dtype": self.dtype,
            "shape": [Extent(factor=self.cols).as_dict(), self.rows.as_dict()],
            "row_bytes": 2 * self.cols, "box": [self.box_cols, self.box_rows],
            "element_strides": [1, 1], "interleave": "none", "swizzle": self.swizzle, "oob_fill": "zero",
        }  # fmt: skip


@dataclass(frozen=True)
class AddressField:
    """The address of a buffer; null where the call has none."""

    name: str
    bytes = POINTER_BYTES

    def item(self, buffers: Buffers, sizes: Sizes) -> Field:
        """As an item of a launch."""
        return buffers[self.name]

    def as_dict(self) -> JsonObject:
        """For the manifest."""
        return {"kind": "pointer", "name": self.name}


@dataclass(frozen=True)
class Number:
    """A size or factor by value."""

    name: str
    type: Scalar = "s32"

    @property
    def bytes(self) -> int:
        """How many it takes."""
        return SCALAR_BYTES[self.type]

    def item(self, buffers: Buffers, sizes: Sizes) -> Item:
        """As an item of a launch."""
        return ScalarArgument(self.type, sizes[self.name], self.name)

    def as_dict(self) -> JsonObject:
        """For the manifest."""
        return {"kind": self.type, "name": self.name}


Value = RowsMap | AddressField | Number


@dataclass(frozen=True)
class LaunchParameter:
    """A parameter of an entry: a struct of `bytes` with values at offsets, or a lone value at 0."""

    bytes: int
    values: tuple[tuple[int, Value], ...]
    by_value: bool = True  # a struct, also of one value

    @staticmethod
    def lone(value: Value) -> LaunchParameter:
        """A parameter that is one value."""
        return LaunchParameter(value.bytes, ((0, value),), by_value=False)

    def argument(self, buffers: Buffers, sizes: Sizes) -> Given:
        """As the argument of a launch."""
        items = [(offset, value.item(buffers, sizes)) for offset, value in self.values]
        return struct(self.bytes, items) if self.by_value else items[0][1]

    def as_dict(self) -> JsonObject:
        """For the manifest."""
        values = [
            {"offset": offset, "bytes": value.bytes, **value.as_dict()} for offset, value in self.values
        ]
        return {"bytes": self.bytes, "values": values}


@dataclass(frozen=True)
class Layout:
    """The launch of an entry: `grid` in CTAs, `threads` and `shared_bytes` (dynamic) of a CTA.

    `programmatic`: the entry waits itself for the grid before it (griddepcontrol.wait), so that behind a grid
    of the same call it may be launched with programmatic stream serialization.
    """

    grid: Extent
    threads: int
    parameters: tuple[LaunchParameter, ...]
    cluster: Extent3 = (1, 1, 1)
    shared_bytes: int = 0
    programmatic: bool = False

    def launch(self, made: LaunchBuilder, entry: str, buffers: Buffers, sizes: Sizes) -> None:
        """Appends the launch on `buffers`; KeyError for a buffer or size that is not given."""
        made.launch(
            entry,
            grid=(self.grid.of(sizes), 1, 1),
            block=(self.threads, 1, 1),
            arguments=[each.argument(buffers, sizes) for each in self.parameters],
            cluster=self.cluster,
            shared_bytes=self.shared_bytes,
        )

    def as_dict(self) -> JsonObject:
        """For the manifest."""
        return {
            "grid": [self.grid.as_dict(), Extent().as_dict(), Extent().as_dict()],
            "cluster": list(self.cluster),
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "programmatic": self.programmatic,
            "parameters": [each.as_dict() for each in self.parameters],
        }


@dataclass(frozen=True)
class EntryBeside:
    """An entry of `built` that a launcher runs before or after a kernel."""

    entry: str
    built: Built
    layout: Layout
