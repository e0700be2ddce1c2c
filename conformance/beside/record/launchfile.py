"""A recording as a launch file: buffers with contents, launches with pointers and tensor maps by name.

Buffers keep their recorded addresses, so that pointers in device memory stay valid. In parameters, 8 aligned
bytes count as a pointer if they are an address in a live allocation or one past its end; 128 bytes count as a
tensor map if they are in the emulator's encoding with a valid checksum.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tileproof.conformance.beside.record.device import RecordedDevice, is_variable, variable_module
from tileproof.conformance.beside.record.recorder import Recorded
from tileproof.conformance.beside.record.recording import Recording
from tileproof.emulator import TensorMap
from tileproof.emulator.errors import LaunchError
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.arguments import (
    MAP_BYTES,
    POINTER_BYTES,
    BytesArgument,
    Item,
    LaunchArgument,
    PlacedItem,
    PointerArgument,
    TensorMapArgument,
)
from tileproof.kernels.launch.contents import BufferContent, FileBytes, Filled, InlineBytes, Unwritten
from tileproof.kernels.launch.events import BufferRead, EventRecord, EventWait, HostWait
from tileproof.kernels.launch.model import (
    BufferCopy,
    BufferFree,
    BufferWrite,
    KernelLaunch,
    LaunchBuffer,
    LaunchFile,
    LaunchModule,
    LaunchStep,
    PtxFile,
    VariableWrite,
)
from tileproof.spec.machine.types import UncheckedObject

NAME = "launch.json"
_INLINE_BYTES = 256  # longer contents are stored in files
_MAP_ALIGNMENT = 64  # cuTensorMapEncodeTiled
_NON_BLOCKING = 1  # cudaStreamNonBlocking
_READING = ("read", "mark", "wait", "synced")  # reported after the last launch too


@dataclass
class _Allocation:
    address: int
    bytes: int
    name: str
    content: np.ndarray | None = None  # before the first step
    known: np.ndarray | None = None
    alive: bool = True


@dataclass(frozen=True)
class Written:
    """A written launch file, and the pointers and tensor maps that were recognised in its parameters."""

    path: Path
    launches: tuple[str, ...]
    taken: tuple[str, ...]
    buffers: int


def write(recorded: Recorded, folder: Path, name: str, wanted: str | None = None) -> Written:
    """Write launch.json, its PTX and its buffers into `folder`.

    wanted: the file ends with the last launch whose entry contains this text. If the program ran
    (`Recorded.snapshots`), the file begins with the first such launch; otherwise with the program's first
    launch, whose results later launches may need. LaunchError if no launch matches, or for operations that a
    launch file cannot express.
    """
    return _Writer(recorded, folder, name, wanted).write()


class _Writer:
    def __init__(self, recorded: Recorded, folder: Path, name: str, wanted: str | None) -> None:
        self.recording: Recording = recorded.recording
        self.snapshots = recorded.snapshots
        self.folder, self.name, self.wanted = folder, name, wanted
        self.allocations: list[_Allocation] = []
        self.steps: list[LaunchStep] = []
        self.taken: list[str] = []
        self.modules: set[int] = set()
        self.parsed: dict[int, RecordedDevice] = {}
        self.streams = _several(self.recording)
        self.recorded: set[int] = set()  # events
        self.apart: set[int] = set()  # streams that do not wait for the default stream

    def write(self) -> Written:
        first, last = self._range()
        number, begun = 0, False
        for event in self.recording.events:
            if event["event"] == "launch":
                if number == first:
                    self._begin(number)
                    begun = True
                if first <= number <= last:
                    self.steps.append(self._launch(event))
                number += 1
                continue
            reads = self.streams and self.wanted is None and event["event"] in _READING
            if number <= last or reads:
                # Work of a stream before the first launch is ordered with it by that stream alone.
                later = self.streams and not self.snapshots and event.get("waits") == 0
                begun = begun or later
                self._host(event, begun)
        self.folder.mkdir(parents=True, exist_ok=True)
        buffers = tuple(self._buffer(allocation) for allocation in self.allocations if allocation.alive)
        ptx = self.recording.ptx()
        modules = []
        for module in sorted(self.modules):
            (self.folder / f"module-{module}.ptx").write_text(ptx[module])
            modules.append(LaunchModule(f"module {module}", PtxFile(f"module-{module}.ptx")))
        launch = LaunchFile(
            self.name, tuple(modules), buffers, tuple(self.steps),
            non_blocking=tuple(sorted(self.apart)), folder=self.folder,
        )  # fmt: skip
        path = self.folder / NAME
        jsonform.write(launch, path)
        entries = tuple(started.entry for started in launch.launches)
        return Written(path, entries, tuple(self.taken), len(buffers))

    def _range(self) -> tuple[int, int]:
        launches = self.recording.launches
        if not launches:
            raise LaunchError("nothing was launched", where=self.name)
        if self.wanted is None:
            return 0, len(launches) - 1
        found = [i for i, launch in enumerate(launches) if self.wanted in launch.entry]
        if not found:
            known = ", ".join(sorted({launch.entry[:80] for launch in launches}))
            raise LaunchError(
                "the program does not launch this kernel", where=self.wanted, expected=f"a part of: {known}"
            )
        return (found[0] if self.snapshots else 0), found[-1]

    # ---- memory

    def _host(self, event: UncheckedObject, begun: bool) -> None:
        kind = event["event"]
        if self.streams and kind in ("stream", "mark", "wait", "synced"):
            self._order(event, begun)
        elif kind == "malloc":
            at = len(self.allocations)
            self.allocations.append(_Allocation(event["address"], event["bytes"], f"allocation {at}"))
        elif kind == "free":
            buffer = self._holding(event["address"])
            if begun:
                self.steps.append(BufferFree(buffer.name, event.get("stream") if self.streams else None))
            buffer.alive = begun
            if not begun:
                buffer.bytes, buffer.content, buffer.known = 0, None, None
        elif kind in ("write", "fill", "copy") and is_variable(event["address"]):
            self._add(self._variable(event), event)
        elif kind in ("write", "fill", "copy"):
            buffer = self._holding(event["address"])
            offset = event["address"] - buffer.address
            if begun:
                self._add(self._step(event, buffer, offset), event)
            else:
                self._put(buffer, offset, *self._data(event))
        elif (
            kind == "read" and begun and self._stream(event) is not None and not is_variable(event["address"])
        ):
            buffer = self._holding(event["address"])
            self._add(BufferRead(buffer.name, event["bytes"], event["address"] - buffer.address), event)

    def _stream(self, event: UncheckedObject) -> int | None:
        """The stream of an event's work; None if the program has a single order, or the host waits for
        everything."""
        return event.get("stream") if self.streams else None

    def _add(
        self, step: BufferWrite | BufferCopy | BufferRead | VariableWrite, event: UncheckedObject
    ) -> None:
        stream = self._stream(event)
        self.steps.append(replace(step, stream=stream))
        if stream is not None and event["waits"]:
            self.steps.append(HostWait(stream))

    def _order(self, event: UncheckedObject, begun: bool) -> None:
        """Streams, events and waits."""
        kind, name = event["event"], f"event {event['number']}" if "number" in event else ""
        if kind == "stream":
            if event["flags"] & _NON_BLOCKING:
                self.apart.add(event["number"])
        elif kind == "mark":
            self.recorded.add(event["number"])
            self.steps.append(EventRecord(name, event["stream"]))
        elif kind == "wait":
            if event["number"] in self.recorded:  # CUDA does not wait for others
                self.steps.append(EventWait(name, event["stream"]))
        elif begun and (not name or event["number"] in self.recorded):
            self.steps.append(HostWait(event.get("stream"), name))

    def _variable(self, event: UncheckedObject) -> VariableWrite:
        """A write into a module's variable; it is a step, also before the first launch."""
        number, name, offset = self._place(event["address"])
        data, known = self._data(event)
        if known is not None and not known.all():
            raise LaunchError("the host copies uninitialised memory into a variable of a module", where=name)
        self.modules.add(number)
        return VariableWrite(name, self._content(data), data.size, offset, f"module {number}")

    def _place(self, address: int) -> tuple[int, str, int]:
        """The module, the variable and the offset of a byte."""
        number = variable_module(address)
        if number not in self.parsed:
            self.parsed[number] = RecordedDevice()
            self.parsed[number].load(number, self.recording.ptx()[number])
        variable = self.parsed[number].buffer(address)
        return number, variable.name, address - variable.address

    def _step(
        self, event: UncheckedObject, _allocation: _Allocation, offset: int
    ) -> BufferCopy | BufferWrite:
        if event["event"] == "copy":
            source = self._holding(event["source"])
            return BufferCopy(
                source.name, _allocation.name, event["bytes"], event["source"] - source.address, offset
            )
        data, _ = self._data(event)
        return BufferWrite(_allocation.name, self._content(data), data.size, offset)

    def _data(self, event: UncheckedObject) -> tuple[np.ndarray, np.ndarray | None]:
        """The bytes of a host write, and a mask of the initialised bytes (None: all)."""
        if event["event"] == "copy":
            source = self._holding(event["source"])
            start = event["source"] - source.address
            stop = start + event["bytes"]
            if source.content is None or source.known is None:
                nothing = np.zeros(event["bytes"], np.uint8)
                return nothing, nothing.astype(bool)
            return source.content[start:stop].copy(), source.known[start:stop].copy()
        data = np.frombuffer(self.recording.bytes(event), np.uint8)
        return (np.tile(data, event["count"]) if event["event"] == "fill" else data), None

    @staticmethod
    def _put(_allocation: _Allocation, offset: int, data: np.ndarray, known: np.ndarray | None) -> None:
        if _allocation.content is None or _allocation.known is None:
            _allocation.content, _allocation.known = (
                np.zeros(_allocation.bytes, np.uint8),
                np.zeros(_allocation.bytes, bool),
            )
        _allocation.content[offset : offset + data.size] = data
        _allocation.known[offset : offset + data.size] = True if known is None else known

    def _begin(self, number: int) -> None:
        """The contents of the allocations before the file's first launch; from the snapshot, if the program
        ran.
        """
        if number not in self.snapshots:
            return
        for allocation in self.allocations:
            if allocation.alive and allocation.address in self.snapshots[number].contents:
                data, mask = self.snapshots[number].contents[allocation.address]
                allocation.content = np.frombuffer(data, np.uint8).copy()
                allocation.known = np.ones(allocation.bytes, bool)
                if mask is not None:
                    allocation.known = np.unpackbits(
                        np.frombuffer(mask, np.uint8), count=allocation.bytes
                    ).astype(bool)

    def _holding(self, address: int) -> _Allocation:
        for allocation in self.allocations:
            if allocation.alive and allocation.address <= address < allocation.address + allocation.bytes:
                return allocation
        if is_variable(address):
            raise LaunchError("the host copies from a module's variable, which a launch file cannot express")
        raise LaunchError("no live allocation contains this address", found=hex(address))

    def _buffer(self, _allocation: _Allocation) -> LaunchBuffer:
        if _allocation.content is None or _allocation.known is None or not _allocation.known.any():
            return LaunchBuffer(
                _allocation.name,
                "uint8",
                (_allocation.bytes,),
                "output",
                Unwritten(),
                address=_allocation.address,
                whole=False,
            )
        known = () if _allocation.known.all() else _ranges(_allocation.known)
        return LaunchBuffer(
            _allocation.name,
            "uint8",
            (_allocation.bytes,),
            "inout",
            self._content(_allocation.content),
            known,
            _allocation.address,
        )

    def _content(self, data: np.ndarray) -> BufferContent:
        """The bytes, stored once per distinct content; a number if all bytes are equal."""
        if data.size and not (data != data[0]).any():
            return Filled(float(data[0]))
        if data.size <= _INLINE_BYTES:
            return InlineBytes(data.tobytes())
        raw = data.tobytes()
        path = Path("buffers") / f"{hashlib.sha256(raw).hexdigest()[:24]}.bin"
        target = self.folder / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(raw)
        return FileBytes(str(path))

    # ---- launches

    def _launch(self, event: UncheckedObject) -> KernelLaunch:
        launch = self.recording.launch(event)
        self.modules.add(launch.module)
        arguments = tuple(
            self._argument(data, f"{launch.entry[:60]}, parameter {at}")
            for at, data in enumerate(launch.parameters)
        )
        return KernelLaunch(
            launch.entry,
            launch.grid,
            launch.block,
            arguments,
            launch.cluster if launch.cluster != (1, 1, 1) else (),
            launch.shared_bytes,
            f"module {launch.module}",
            launch.stream,
            launch.overlaps,
            launch.cooperative,
        )

    def _argument(self, data: bytes, where: str) -> LaunchArgument:
        items: list[PlacedItem] = []
        at = 0
        while at < len(data):
            piece = data[at : at + MAP_BYTES]
            if at % _MAP_ALIGNMENT == 0 and len(piece) == MAP_BYTES and TensorMap.holds(piece):
                items.append(PlacedItem(at, self._map(TensorMap.decode(piece))))
                self.taken.append(f"{where}, bytes {at}: a tensor map over {_buffer_of(items[-1].item)}")
                at += MAP_BYTES
                continue
            if at % POINTER_BYTES == 0 and (item := self._pointer(data[at : at + POINTER_BYTES])):
                items.append(PlacedItem(at, item))
                self.taken.append(f"{where}, bytes {at}: a pointer into {item.buffer}, {item.offset}")
            at += POINTER_BYTES
        if len(items) == 1 and len(data) == POINTER_BYTES:
            only = items[0].item
            assert isinstance(only, PointerArgument)
            return only
        return BytesArgument(data, tuple(items))

    def _pointer(self, word: bytes) -> PointerArgument | None:
        address = int.from_bytes(word, "little")
        if len(word) < POINTER_BYTES or not address:
            return None
        for allocation in self.allocations:
            if allocation.alive and allocation.address <= address <= allocation.address + allocation.bytes:
                return PointerArgument(allocation.name, address - allocation.address)
        return None

    def _map(self, found: TensorMap) -> TensorMapArgument:
        buffer = self._holding(found.address)
        return TensorMapArgument(
            buffer.name,
            found.shape,
            found.strides,
            found.box,
            found.dtype,
            found.element_strides,
            found.swizzle,
            found.oob_fill,
            found.address - buffer.address,
            found.lower,
            found.upper,
        )


def _several(recording: Recording) -> bool:
    """Whether a program used a stream other than the legacy default stream."""
    return any(event.get("stream") for event in recording.events)


def _buffer_of(item: Item) -> str:
    return getattr(item, "buffer", "")


def _ranges(known: np.ndarray) -> tuple[tuple[int, int], ...]:
    """[start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return tuple((int(a), int(b)) for a, b in edges.reshape(-1, 2))
