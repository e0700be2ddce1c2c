"""Builds a launch file in Python; used by a kernel's `describe`.

made = LaunchBuilder("scale", built.ptx)
x, y = made.input("x", array), made.output("y", array.shape, np.float32)
made.launch(built.entry, grid=(4,), block=(128,), arguments=[x, y, ScalarArgument("u32", 40, "n")])
return made.file()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy.typing as npt
from tileproof.kernels.launch.arguments import (
    Item,
    LaunchArgument,
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
    size_of,
)
from tileproof.kernels.launch.contents import ArrayContent, Filled, dtype_of, name_of
from tileproof.kernels.launch.model import (
    Extent3,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    LaunchStep,
    PtxText,
)
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.tma import TensorMapFields, check_tensor_map
from tileproof.spec.machine.types import Array
from tileproof.spec.plan import KernelPlan

MAP_ALIGNMENT = 64  # cuTensorMapEncodeTiled
Swizzle = Literal["none", "32B", "64B", "128B"]
# A buffer stands for its address, None for a null pointer.
Field = LaunchBuffer | Item | None
Given = LaunchBuffer | LaunchArgument | None


class LaunchBuilder:
    """Collects the buffers and steps of a launch file with one module."""

    def __init__(self, name: str, ptx: str) -> None:
        self._name, self._ptx = name, ptx
        self._buffers: list[LaunchBuffer] = []
        self._steps: list[LaunchStep] = []

    def input(self, name: str, array: Array) -> LaunchBuffer:
        """A buffer that holds `array`, which must be C-contiguous and is not copied."""
        return self.add(LaunchBuffer(name, name_of(array.dtype), array.shape, "input", ArrayContent(array)))

    def output(
        self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, *, whole: bool = True
    ) -> LaunchBuffer:
        """A buffer that begins unwritten; with `whole` the kernel must write all of it."""
        return self.add(LaunchBuffer.output(name, shape, dtype, whole))

    def zeros(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> LaunchBuffer:
        """A buffer of zeros that the kernel adds to."""
        return self.add(LaunchBuffer(name, name_of(dtype), tuple(shape), "inout", Filled(0)))

    def add(self, buffer: LaunchBuffer) -> LaunchBuffer:
        """Adds any buffer."""
        self._buffers.append(buffer)
        return buffer

    def launch(
        self,
        entry: str,
        *,
        grid: Extent3,
        block: Extent3,
        arguments: Sequence[Given],
        cluster: Extent3 = (1, 1, 1),
        shared_bytes: int = 0,
    ) -> None:
        """Appends a launch; `arguments` in the entry's order."""
        given = tuple(
            argument if isinstance(argument, StructArgument) else _argument(argument)
            for argument in arguments
        )
        self.step(KernelLaunch(entry, grid, block, given, cluster, shared_bytes))

    def planned(self, entry: str, plan: KernelPlan, grid: Extent3, params: StructArgument) -> LaunchFile:
        """The launch file of one launch as a plan says, of a kernel that takes one by-value struct."""
        self.launch(
            entry,
            grid=grid,
            block=(plan.threads, 1, 1),
            arguments=[params],
            cluster=plan.cluster_dims,
            shared_bytes=plan.smem_bytes,
        )
        return self.file()

    def step(self, step: LaunchStep) -> None:
        """Appends any step."""
        self._steps.append(step)

    def file(self, main_entry: str = "") -> LaunchFile:
        """The launch file; TileproofError when two buffers share a name."""
        modules = (LaunchModule("kernel", PtxText(self._ptx)),) if self._ptx else ()
        return LaunchFile(
            self._name, modules, tuple(self._buffers), tuple(self._steps), main_entry=main_entry
        )


def struct(size: int, fields: Iterable[tuple[int, Field]]) -> StructArgument:
    """A by-value parameter of `size` bytes with an item at each offset.

    TileproofError for an item that is not aligned to its size, overlaps another item or reaches past the end.
    """
    items = tuple(PlacedItem(offset, _item(field)) for offset, field in fields)
    for placed in items:
        alignment = MAP_ALIGNMENT if isinstance(placed.item, TensorMapArgument) else size_of(placed.item)
        if placed.offset % alignment:
            raise TileproofError(
                "an item of a struct is not aligned",
                where=f"offset {placed.offset}",
                expected=f"a multiple of {alignment}",
                found=placed.item.kind,
            )
    return StructArgument(size, items)


def tensor_map(
    buffer: LaunchBuffer,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: Swizzle,
    strides: tuple[int, ...] | None = None,
    element_strides: tuple[int, ...] = (),
    oob_fill: Literal["zero", "nan"] = "zero",
    offset: int = 0,
    dtype: str = "",
) -> TensorMapArgument:
    """A tensor map over `buffer`: extents count elements, innermost dimension first; `strides` are bytes of
    dimensions 1 and up (None: rows of a 2-D tensor without gaps); `dtype` is "" for the buffer's own.

    TileproofError for arguments that cuTensorMapEncodeTiled refuses.
    """
    if strides is None:
        strides = (shape[0] * dtype_of(buffer.dtype).itemsize,)
    dtype, steps = dtype or buffer.dtype, element_strides or (1,) * len(shape)
    made = TensorMapArgument(buffer.name, shape, strides, box, dtype, steps, swizzle, oob_fill, offset)
    try:
        check_tensor_map(TensorMapFields(dtype, shape, strides, box, steps, swizzle, oob_fill))
    except TileproofError as error:
        raise TileproofError(
            error.what, where=f"tensor map of {buffer.name}, {error.where}", expected=error.expected,
            found=error.found, do=error.do,
        ) from error  # fmt: skip
    return made


def bf16_rows(
    buffer: LaunchBuffer, rows: int, cols: int, box_rows: int, box_cols: Literal[32, 64] = 64
) -> TensorMapArgument:
    """A ``[rows, cols]`` bf16 map, boxes of `box_rows` x `box_cols` (the span of its swizzle), zero fill."""
    return tensor_map(buffer, (cols, rows), (box_cols, box_rows), "128B" if box_cols == 64 else "64B")


def _item(field: Field) -> Item:
    if isinstance(field, LaunchBuffer):
        return PointerArgument(field.name)
    return ScalarArgument("u64", 0) if field is None else field


def _argument(given: Given) -> LaunchArgument:
    return (
        PointerArgument(given.name) if isinstance(given, LaunchBuffer) else given or ScalarArgument("u64", 0)
    )
