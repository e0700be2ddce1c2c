"""A launch file on the emulator: its buffers in a memory, its arguments as the launch takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tileproof.conformance.launches.maps import encoded_map, tensor_map
from tileproof.conformance.launches.modules import LoadedModule
from tileproof.conformance.launches.order import StepOrder, stream_of
from tileproof.emulator import (
    Buffer,
    Finding,
    Memory,
    RunResult,
    Schedule,
    SmemRegion,
    Stream,
    Tap,
    TensorMap,
    TmemRegion,
)
from tileproof.emulator.arguments import Argument, FieldItem, Fields
from tileproof.emulator.budget import check_room
from tileproof.emulator.errors import LaunchError
from tileproof.emulator.options import GridKeywords, RunKeywords
from tileproof.emulator.program import Decoded
from tileproof.emulator.stream import GridRecord, HostAccess, host_copy
from tileproof.kernels.launch.arguments import (
    BytesArgument,
    Item,
    LaunchArgument,
    PlacedItem,
    PointerArgument,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.contents import (
    ArrayContent,
    BufferContent,
    Filled,
    PatternRows,
    Unwritten,
    dtype_of,
    elements,
)
from tileproof.kernels.launch.events import BufferRead
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchStep,
    SharedPlace,
    StageCapture,
    TmemStage,
    VariableWrite,
)
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import RESERVED_SHARED_BYTES
from tileproof.spec.machine.run_result import Output
from tileproof.spec.machine.types import Array, Json

# What `Module.launch` is given for a launch of the file, by its number.
KeywordsOf = Callable[[int, KernelLaunch], RunKeywords]
Arrays = Mapping[str, Array]


def _lazy(content: BufferContent) -> bool:
    """Whether a content takes memory only where it is touched, or has it already."""
    if isinstance(content, Filled):
        return content.value == 0
    return isinstance(content, Unwritten | PatternRows | ArrayContent)


def outcome(buffer: Buffer) -> Output:
    """What a buffer holds, which of it was written, and where launches stored to it; nothing is copied."""
    return Output(buffer.numpy(), buffer.written(), buffer.stored())


class PlacedLaunch:
    """The buffers of a launch file in a memory of their own, and its steps over it.

    `instead`: contents that replace the file's, by buffer.
    """

    def __init__(
        self, launch: LaunchFile, modules: Mapping[str, LoadedModule], instead: Arrays | None = None
    ) -> None:
        self.launch, self.modules = launch, modules
        dense = (buffer for buffer in launch.buffers if not _lazy(buffer.content))
        check_room(sum(buffer.bytes for buffer in dense), "the buffers of the launch", launch.name)
        self.memory = Memory()
        for module in modules.values():
            module.module.reset()  # an earlier run may have written its variables
        self.buffers: dict[str, Buffer] = {}
        self.freed: set[str] = set()
        self.found: list[Finding] = []  # about copies of the host
        self._streams: dict[int, Stream] = {}
        self._apart = False  # steps may run at the same time
        for buffer in sorted(launch.buffers, key=lambda b: (b.address is None, b.address or 0)):
            self.buffers[buffer.name] = self._placed(buffer, (instead or {}).get(buffer.name))
        for buffer in launch.buffers:
            for item in buffer.items:
                self.buffers[buffer.name].write(_bytes(self.item(item.item)), item.offset)
        for buffer in launch.buffers:
            self.buffers[buffer.name].writable = buffer.role != "input"

    def _placed(self, buffer: LaunchBuffer, values: Array | None) -> Buffer:
        own = (
            buffer.content.data
            if isinstance(buffer.content, ArrayContent) and buffer.role == "input"
            else None
        )
        content = (buffer.elements(self.launch.folder) if own is None else own) if values is None else values
        if content is not None and content is not values and not buffer.known and not buffer.items:
            return self.memory.buffer(content, buffer.name, buffer.address)
        made = self.memory.empty(buffer.shape, dtype_of(buffer.dtype), buffer.name, buffer.address)
        if content is None:
            return made
        flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        for start, stop in buffer.known or ((0, flat.size),):
            made.write(flat[start:stop], start)
        return made

    # ---- arguments

    def item(self, item: Item) -> FieldItem:
        """An item as the emulator takes it."""
        if isinstance(item, ScalarArgument):
            return item.encode()
        if isinstance(item, PointerArgument):
            return (self.buffers[item.buffer].address + item.offset).to_bytes(8, "little")
        if isinstance(item, TensorMapArgument):
            return self._map(item)
        return encoded_map(item, self.buffers[item.buffer].address if item.buffer else None)

    def _map(self, item: TensorMapArgument) -> TensorMap:
        return tensor_map(item, self.buffers[item.buffer].address, self.launch.buffer(item.buffer).dtype)

    def argument(self, argument: LaunchArgument) -> Argument:
        """An argument as the emulator takes it."""
        if isinstance(argument, StructArgument):
            return Fields(argument.size, self._at(argument.items))
        if isinstance(argument, BytesArgument):
            data = bytearray(argument.data)
            for offset, value in self._at(argument.items).items():
                raw = _bytes(value).tobytes()
                data[offset : offset + len(raw)] = raw
            return bytes(data)
        return self.item(argument)

    def _at(self, items: Iterable[PlacedItem]) -> dict[int, FieldItem]:
        return {placed.offset: self.item(placed.item) for placed in items}

    # ---- steps

    def run(self, how: KeywordsOf, schedule: Schedule | None = None) -> Iterator[RunResult]:
        """Runs the steps, and gives the result of each launch; `how(number, launch)` is passed to
        `Module.launch`. They run in the order of the file, or in the order that `schedule` chooses.
        """
        for _, result in self.numbered(how, schedule):
            yield result

    def numbered(self, how: KeywordsOf, schedule: Schedule | None = None) -> Iterator[tuple[int, RunResult]]:
        """As `run`, with the number of each launch in the file."""
        order = StepOrder(self.launch)
        self._apart = not order.total or any(launch.programmatic for launch in self.launch.launches)
        numbers: dict[int, int] = {}
        for at, step in enumerate(self.launch.steps):
            if isinstance(step, KernelLaunch):
                numbers[at] = len(numbers)
        records: dict[int, GridRecord] = {}
        sequence = order.under(schedule or Schedule())
        beside = order.beside(sequence)
        last = {number: place for place, few in enumerate(beside) for number in few}
        for place, at in enumerate(sequence):
            step = self.launch.steps[at]
            earlier = [records[number] for number in beside[place] if number in records]
            if isinstance(step, KernelLaunch):
                number = numbers[at]
                result, record = self._launched(step, number, earlier, how(number, step))
                yield number, result
            else:
                record = self._host(step, at, earlier)
            if at in last and record is not None:
                records[at] = record
            for other in beside[place]:  # records are large
                if last[other] == place:
                    records.pop(other, None)

    def _launched(
        self, step: KernelLaunch, number: int, earlier: Sequence[GridRecord], how: RunKeywords
    ) -> tuple[RunResult, GridRecord | None]:
        module = self.modules[self.launch.module_of(step).name].module
        words: GridKeywords = {
            **how,
            "cooperative": step.cooperative,
            "clusters": step.clusters or None,
            "grid": step.grid,
            "block": step.block,
            "cluster": step.cluster or None,
            "shared_bytes": step.shared_bytes,
            "args": [self.argument(argument) for argument in step.arguments],
        }
        if not self._apart:  # what each launch wrote and read is not looked at
            return module.launch(step.entry, memory=self.memory, **words), None
        stream = self._streams.setdefault(step.stream, Stream(self.memory))
        result = stream.launch(
            module,
            step.entry,
            programmatic=step.programmatic,
            unordered=earlier,
            where=f"launch {number} of the file ({step.entry[:60]}, stream {step.stream})",
            **words,
        )
        return result, stream.last

    def _host(self, step: LaunchStep, at: int, earlier: Sequence[GridRecord]) -> GridRecord | None:
        accesses: list[HostAccess] = []
        if isinstance(step, BufferWrite):
            target = self._alive(step.buffer)
            self._write(target, step, f"write to {step.buffer}")
            accesses = [HostAccess(target, step.offset, step.bytes, True)]
        elif isinstance(step, VariableWrite):
            module = self.modules[self.launch.module_of(step).name].module
            target = module.variable(step.variable)
            self._write(target, step, f"write to {step.variable}")
            accesses = [HostAccess(target, step.offset, step.bytes, True)]
        elif isinstance(step, BufferCopy):
            origin, target = self._alive(step.source), self._alive(step.target)
            source = origin.numpy().reshape(-1).view(np.uint8)
            moved = source[step.source_offset : step.source_offset + step.bytes].copy()
            target.write(moved, step.target_offset)
            accesses = [
                HostAccess(origin, step.source_offset, step.bytes, False),
                HostAccess(target, step.target_offset, step.bytes, True),
            ]
        elif isinstance(step, BufferRead):
            accesses = [HostAccess(self._alive(step.buffer), step.offset, step.bytes, False)]
        elif isinstance(step, BufferFree):
            gone = self._alive(step.buffer)
            accesses = [HostAccess(gone, 0, gone.bytes, True)]
            self.memory.free(gone)
            self.freed.add(step.buffer)
        stream = stream_of(step)
        if stream is None:
            return None  # everything is ordered with it
        record, found = host_copy(
            accesses, f"the host's {step.kind}", f"step {at} of the file (stream {stream})", earlier
        )
        self.found += found
        return record

    def _write(self, buffer: Buffer, step: BufferWrite | VariableWrite, where: str) -> None:
        made = elements(step.content, (step.bytes,), np.dtype(np.uint8), self.launch.folder, where)
        if made is None:
            return
        for placed in step.items:
            raw = _bytes(self.item(placed.item))
            made[placed.offset : placed.offset + raw.size] = raw
        buffer.write(made, step.offset)

    def _alive(self, name: str) -> Buffer:
        if name in self.freed:
            raise LaunchError("the host uses a buffer after freeing it", where=f"buffer {name}")
        return self.buffers[name]


def _bytes(value: Json) -> npt.NDArray[np.uint8]:
    raw = value.encode() if isinstance(value, TensorMap) else bytes(value)
    return np.frombuffer(raw, np.uint8)


# ---- places in shared memory, and what is captured


def dynamic_begin(decoded: Decoded) -> int:
    """Where a CTA's dynamic shared memory begins."""
    return RESERVED_SHARED_BYTES + decoded.static_shared


def offset_of(place: SharedPlace, decoded: Decoded, where: str) -> int:
    """The place's offset from the begin of the dynamic shared memory; below 0 in static variables."""
    if not place.symbol:
        return place.offset
    if place.symbol not in decoded.shared_symbols:
        raise TileproofError(
            "the PTX has no such shared variable",
            where=where,
            expected=", ".join(decoded.shared_symbols) or "none",
            found=repr(place.symbol),
        )
    return decoded.shared_symbols[place.symbol][0] + place.offset - dynamic_begin(decoded)


def taps_of(launch: LaunchFile, step: KernelLaunch, decoded: Decoded) -> list[Tap]:
    """The captures of one launch as the emulator takes them."""
    barriers = {barrier.name: barrier.place for barrier in launch.barriers}
    return [
        Tap(
            capture.name,
            offset_of(barriers[capture.barrier], decoded, f"barrier {capture.barrier}"),
            _region(capture, decoded),
        )
        for capture in launch.captures
        if capture.entry in ("", step.entry)
    ]


def _region(capture: StageCapture, decoded: Decoded) -> TmemRegion | SmemRegion:
    region = capture.region
    if isinstance(region, TmemStage):
        return TmemRegion(region.column, region.columns)
    size = region.shape[0] * region.shape[1] * dtype_of(region.dtype).itemsize
    return SmemRegion(offset_of(region.place, decoded, f"capture {capture.name}"), size)


def symbols_of(launch: LaunchFile, decoded: Decoded) -> dict[int, str]:
    """The names of barriers by offset in the dynamic shared memory; the PTX's own symbols name the rest."""
    offsets = {
        offset_of(barrier.place, decoded, f"barrier {barrier.name}"): barrier.name
        for barrier in launch.barriers
    }
    return {offset: name for offset, name in offsets.items() if offset >= 0}
