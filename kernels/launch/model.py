"""The launch as typed data: modules, buffers, launches in order, and captures.

A kernel describes its launch as a `LaunchFile` (`builder`); a file holds a `LaunchFile` in Python (`launch()`
or `LAUNCH`) or as JSON (`launch.schema.json`). Offsets and sizes are in bytes. Nothing here runs anything: a
driver places the buffers, writes their addresses where arguments name them, and encodes the tensor maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from tileproof.kernels.launch.arguments import (
    EncodedMapArgument,
    Item,
    LaunchArgument,
    PlacedItem,
    PointerArgument,
    TensorMapArgument,
    items_of,
)
from tileproof.kernels.launch.contents import (
    ArrayContent,
    BufferContent,
    InlineBytes,
    Unwritten,
    dtype_of,
    elements,
    name_of,
    require_array,
)
from tileproof.kernels.launch.events import BufferRead, EventRecord, EventWait, HostWait
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

SCHEMA = "tileproof-launch"
SCHEMA_VERSION = 1
Extent3 = tuple[int, ...]  # x, y, z; what is left out is 1
BufferRole = Literal["input", "output", "inout", "scratch"]


@dataclass(frozen=True)
class PtxFile:
    """PTX in a file beside the launch file."""

    kind: ClassVar[str] = "ptx file"
    path: str


@dataclass(frozen=True)
class PtxText:
    """PTX as it is."""

    kind: ClassVar[str] = "ptx"
    text: str


@dataclass(frozen=True)
class CudaSource:
    """CUDA source in a file beside the launch file, compiled here by nvcc for `target` with `flags`."""

    kind: ClassVar[str] = "cuda"
    path: str
    flags: tuple[str, ...] = ()
    target: str = "sm_100a"


ModuleCode = PtxFile | PtxText | CudaSource


@dataclass(frozen=True)
class LaunchModule:
    """A module of kernels by its name."""

    name: str
    code: ModuleCode


@dataclass(frozen=True)
class LaunchBuffer:
    """Device memory. An "input" may not be written; an "output" begins unwritten and is judged; "inout" has a
    content and is judged; "scratch" is neither.

    `known`: byte ranges [start, stop) of the written content, if partly written: the rest is unwritten.
    `address`: its address, for a launch that was recorded with addresses. `whole`: whether an output must be
    written completely. `items`: pointers and tensor maps in it, at their offsets.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: BufferRole = "input"
    content: BufferContent = field(default_factory=Unwritten)
    known: tuple[tuple[int, ...], ...] = ()
    address: int | None = None
    whole: bool = True
    items: tuple[PlacedItem, ...] = ()

    def __post_init__(self) -> None:
        if any(extent < 0 for extent in self.shape):
            raise TileproofError(
                "a buffer has a negative extent", where=f"buffer {self.name}", found=str(self.shape)
            )
        dtype = dtype_of(self.dtype, f"buffer {self.name}")
        if isinstance(self.content, ArrayContent):
            require_array(self.content.data, self.shape, dtype, f"buffer {self.name}")
        if self.role in ("input", "inout") and isinstance(self.content, Unwritten):
            raise TileproofError(
                f"an {self.role} buffer holds nothing",
                where=f"buffer {self.name}",
                expected="a content: data, a file or a generator",
                do='give it a content, or the role "output" or "scratch"',
            )

    @staticmethod
    def of(name: str, array: Array, role: BufferRole = "input") -> LaunchBuffer:
        """A buffer that holds the elements of an array; of an output only its shape and dtype are taken."""
        content: BufferContent = Unwritten()
        if role != "output":
            content = InlineBytes(np.ascontiguousarray(array).tobytes())
        return LaunchBuffer(name, name_of(array.dtype), array.shape, role, content)

    @staticmethod
    def output(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike, whole: bool = True) -> LaunchBuffer:
        """A buffer that the kernel is to write."""
        return LaunchBuffer(name, name_of(dtype), tuple(shape), "output", whole=whole)

    @property
    def bytes(self) -> int:
        """Its size in bytes; TileproofError for an unknown dtype."""
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize

    @property
    def judged(self) -> bool:
        """Whether its values are an outcome of the launches."""
        return self.role in ("output", "inout")

    def elements(self, folder: Path) -> Array | None:
        """Return a new array of its content, of its shape and dtype; None where that is unwritten.

        Files are looked for in `folder`. TileproofError for a content that does not fit.
        """
        return elements(self.content, self.shape, dtype_of(self.dtype), folder, f"buffer {self.name}")


@dataclass(frozen=True)
class KernelLaunch:
    """One launch. `cluster` is () for what the PTX says; `module` may be omitted if there is a single module.

    `stream` 0 is the legacy default stream (`events`). `programmatic`: it may begin while the launch before
    it in its stream is in flight (CUDA's programmatic stream serialization). `cooperative`: all its CTAs run
    at once (cudaLaunchCooperativeKernel). `clusters`: the clusters that run, by number, x fastest; () for
    all. The emulator alone leaves some out.
    """

    kind: ClassVar[str] = "launch"
    entry: str
    grid: Extent3
    block: Extent3
    arguments: tuple[LaunchArgument, ...] = ()
    cluster: Extent3 = ()
    shared_bytes: int = 0
    module: str = ""
    stream: int = 0
    programmatic: bool = False
    cooperative: bool = False
    clusters: tuple[int, ...] = ()


@dataclass(frozen=True)
class BufferWrite:
    """The host writes into a buffer, between launches: a copy from host memory, or a memset.

    `bytes` bytes are written from byte `offset`. `items`: pointers and tensor maps among what is written, at
    offsets from its begin. `stream`: the stream that it is issued into (cudaMemcpyAsync); without one the
    host waits for everything before it and for it.
    """

    kind: ClassVar[str] = "write"
    buffer: str
    content: BufferContent
    bytes: int
    offset: int = 0
    items: tuple[PlacedItem, ...] = ()
    stream: int | None = None


@dataclass(frozen=True)
class BufferCopy:
    """The host has bytes copied from one buffer to another. `stream`: as of `BufferWrite`."""

    kind: ClassVar[str] = "copy"
    source: str
    target: str
    bytes: int
    source_offset: int = 0
    target_offset: int = 0
    stream: int | None = None


@dataclass(frozen=True)
class BufferFree:
    """The host frees a buffer: what touches it later is a finding. `stream`: as of `BufferWrite`."""

    kind: ClassVar[str] = "free"
    buffer: str
    stream: int | None = None


@dataclass(frozen=True)
class VariableWrite:
    """The host writes a `.global` or `.const` variable of a module (`__device__`, `__constant__`), before the
    launches or between them. `module` may be omitted if there is a single module.

    `bytes` bytes are written from byte `offset`. `items`: pointers among what is written, at offsets from its
    begin. `stream`: as of `BufferWrite`.
    """

    kind: ClassVar[str] = "variable write"
    variable: str
    content: BufferContent
    bytes: int
    offset: int = 0
    module: str = ""
    items: tuple[PlacedItem, ...] = ()
    stream: int | None = None


@dataclass(frozen=True)
class HostCall:
    """A Python function called in the place of a launch: `function` writes into the outputs by name, and what
    it leaves untouched counts as not written. `whole`: it makes whole outputs, so that one call shows
    everything. JSON cannot hold it.
    """

    kind: ClassVar[str] = "call"
    in_memory: ClassVar[bool] = True
    function: Callable[[Mapping[str, Array]], None]
    whole: bool = False


LaunchStep = (
    KernelLaunch
    | HostCall
    | BufferWrite
    | BufferCopy
    | BufferFree
    | BufferRead
    | VariableWrite
    | EventRecord
    | EventWait
    | HostWait
)


@dataclass(frozen=True)
class SharedPlace:
    """A place in a CTA's shared memory: `offset` bytes from the begin of its dynamic part, or from that of a
    `.shared` variable of the PTX, if `symbol` names it.
    """

    offset: int = 0
    symbol: str = ""


@dataclass(frozen=True)
class NamedBarrier:
    """An mbarrier by its name, which findings and taps use."""

    name: str
    place: SharedPlace


@dataclass(frozen=True)
class TmemStage:
    """A tile in tensor memory: `columns` columns of 32 bits from `column`, counted from the CTA's first
    allocation, `lanes` lanes from `lane`.

    An element of `dtype` fills a cell, or shares it with others, the first of them in the low bits.
    """

    kind: ClassVar[str] = "tmem"
    column: int
    columns: int
    dtype: str = "float32"
    lane: int = 0
    lanes: int = 128


@dataclass(frozen=True)
class SharedStage:
    """A tile in shared memory: rows of `dtype` one behind another, swizzled as a tensor map's box is; a tile
    whose rows are wider than the swizzle's span lies as several, each as wide as the span.
    """

    kind: ClassVar[str] = "shared"
    place: SharedPlace
    shape: tuple[int, int]
    dtype: str
    swizzle: str = "none"


StageRegion = TmemStage | SharedStage


@dataclass(frozen=True)
class StageCapture:
    """What `region` holds when `barrier` completes a phase; captured arrays are called `name`.

    `phases` are counted from 0; () for all. `entry`: of this kernel only, "" for all kernels.
    """

    name: str
    region: StageRegion
    barrier: str
    phases: tuple[int, ...] = ()
    entry: str = ""


@dataclass(frozen=True)
class LaunchFile:
    """The whole. `folder` is where its paths begin; it is not written. `non_blocking`: streams that do not
    wait for the legacy default stream, nor it for them (cudaStreamNonBlocking). `main_entry`: the entry of
    the launch that a plan describes, and that is traced and timed; "" for the last launch.
    """

    name: str
    modules: tuple[LaunchModule, ...]
    buffers: tuple[LaunchBuffer, ...]
    steps: tuple[LaunchStep, ...]
    barriers: tuple[NamedBarrier, ...] = ()
    captures: tuple[StageCapture, ...] = ()
    non_blocking: tuple[int, ...] = ()
    main_entry: str = ""
    folder: Path = field(default_factory=Path, compare=False)

    def __post_init__(self) -> None:
        self._names("module", [module.name for module in self.modules])
        self._names("buffer", [buffer.name for buffer in self.buffers])
        self._names("barrier", [barrier.name for barrier in self.barriers])
        self._names("capture", [capture.name for capture in self.captures])
        if not self.launches and self.call is None:
            raise TileproofError("nothing is launched", where=f"launch file {self.name}")
        for number, launch in enumerate(self.launches):
            self.module_of(launch)
            for argument in launch.arguments:
                self._known(items_of(argument), f"launch {number} of {launch.entry}")
        for buffer in self.buffers:
            self._known((placed.item for placed in buffer.items), f"buffer {buffer.name}")
        for step in self.steps:
            for name in _buffers_of(step):
                self.buffer(name, f"step {step.kind}")
            if isinstance(step, BufferWrite):
                self._known((placed.item for placed in step.items), f"a write to {step.buffer}")
            if isinstance(step, VariableWrite):
                self.module_of(step)
                self._known((placed.item for placed in step.items), f"a write to {step.variable}")
        self._streams()
        known = {barrier.name for barrier in self.barriers}
        for capture in self.captures:
            if capture.barrier not in known:
                raise self._unknown("barrier", capture.barrier, sorted(known), f"capture {capture.name}")

    @property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """The launches among the steps, in order."""
        return tuple(step for step in self.steps if isinstance(step, KernelLaunch))

    @property
    def call(self) -> HostCall | None:
        """The Python function that is called; None where kernels are launched."""
        return next((step for step in self.steps if isinstance(step, HostCall)), None)

    @property
    def main_number(self) -> int:
        """The number, among `launches`, of `main`; TileproofError if no launch has the entry."""
        entries = [launch.entry for launch in self.launches]
        if not entries or (self.main_entry and self.main_entry not in entries):
            raise self._unknown("launch", self.main_entry, entries, "")
        return entries.index(self.main_entry) if self.main_entry else len(entries) - 1

    @property
    def main(self) -> KernelLaunch:
        """The launch that `main_entry` names."""
        return self.launches[self.main_number]

    @property
    def outcomes(self) -> tuple[LaunchBuffer, ...]:
        """The buffers whose values are an outcome of the launches."""
        return tuple(buffer for buffer in self.buffers if buffer.judged)

    @property
    def ptx(self) -> str:
        """The PTX text of the main launch's module; TileproofError where it lies in a file."""
        code = self.module_of(self.main).code
        if isinstance(code, PtxText):
            return code.text
        raise TileproofError("the module is not PTX text", where=f"launch file {self.name}", found=code.kind)

    def with_ptx(self, text: str) -> LaunchFile:
        """The same launches of another PTX text in the main launch's module."""
        own = self.module_of(self.main)
        changed = replace(own, code=PtxText(text))
        return replace(self, modules=tuple(changed if module is own else module for module in self.modules))

    def with_array(self, name: str, array: Array) -> LaunchFile:
        """Return the same launches with `array`, of the shape and dtype of the buffer, in a buffer."""
        return self.with_content(name, ArrayContent(array))

    def with_content(self, name: str, content: BufferContent) -> LaunchFile:
        """The same launches with another content in a buffer."""
        own = self.buffer(name)
        changed = replace(own, content=content, known=())
        return replace(self, buffers=tuple(changed if buffer is own else buffer for buffer in self.buffers))

    def buffer(self, name: str, where: str = "") -> LaunchBuffer:
        """A buffer by its name; TileproofError when there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise self._unknown("buffer", name, [buffer.name for buffer in self.buffers], where)

    def module_of(self, launch: KernelLaunch | VariableWrite) -> LaunchModule:
        """The module of a launch, or of a variable that is written."""
        if not launch.module and len(self.modules) == 1:
            return self.modules[0]
        for module in self.modules:
            if module.name == launch.module:
                return module
        where = launch.entry if isinstance(launch, KernelLaunch) else launch.variable
        raise self._unknown("module", launch.module, [module.name for module in self.modules], where)

    def _known(self, items: Iterable[Item], where: str) -> None:
        for item in items:
            if isinstance(item, PointerArgument | TensorMapArgument) or (
                isinstance(item, EncodedMapArgument) and item.buffer
            ):
                self.buffer(item.buffer, where)

    def _streams(self) -> None:
        recorded = {step.event for step in self.steps if isinstance(step, EventRecord)}
        for step in self.steps:
            event = step.event if isinstance(step, EventWait | HostWait) else ""
            if event and event not in recorded:
                raise self._unknown("event", event, sorted(recorded), f"step {step.kind}")
        if 0 in self.non_blocking:
            raise TileproofError(
                "stream 0 is the legacy default stream, which the others wait for",
                where=f"launch file {self.name}",
                found=f"non_blocking {list(self.non_blocking)}",
            )

    def _names(self, what: str, names: list[str]) -> None:
        for name in names:
            if not name or names.count(name) > 1:
                raise TileproofError(
                    f"two items of the launch file share a name: {what}" if name else f"a {what} has no name",
                    where=f"launch file {self.name}",
                    found=repr(name),
                )

    def _unknown(self, what: str, name: str, known: list[str], where: str) -> TileproofError:
        return TileproofError(
            f"the launch file has no such {what}",
            where=where or f"launch file {self.name}",
            expected=", ".join(known[:20]) or "none",
            found=repr(name),
        )


def _buffers_of(step: LaunchStep) -> tuple[str, ...]:
    if isinstance(step, BufferCopy):
        return step.source, step.target
    return (step.buffer,) if isinstance(step, BufferWrite | BufferFree | BufferRead) else ()
